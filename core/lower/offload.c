/* What a microbatch keeps from forward to backward is in the host's memory meanwhile: a COPY leaves
 * behind the forward, while the next ops compute, and one comes back while the op before the
 * backward does. At most two forwards' stashes are on their way at once: the third waits for the
 * first. What the backward wants next stays. (As vDNN does it layer by layer: Rhu et al., MICRO
 * 2016.) */
#include "core/lower/lowering.h"

static bool is_offloaded(const struct lowering *l)
{
    return l->plan->offload & OFFLOAD_ACTIVATIONS;
}

/* The step behind the pass's own; NULL: it is the last one. */
static const struct schedule_step *offload_next_step(const struct pass *a)
{
    const struct lowering_replica *r = a->replica;
    return r->step + 1 < r->steps ? &r->schedule[r->step + 1] : NULL;
}

static enum status append_copy(const struct pass *a, bool back, uint32_t stage, uint32_t microbatch,
                               int64_t bytes, uint32_t *position)
{
    struct program_op op = list_collective(OP_COPY, FOR_HOST, stage, microbatch,
                                           a->l->groups.host[back][a->rank], bytes);
    op.backward = back;
    return list_append(a->list, &op, position);
}

/* Of the next step, if it is a backward: behind the op before this step, whose memory it takes. */
enum status pass_raise(const struct pass *a)
{
    struct lowering *l = a->l;
    const struct schedule_step *next = is_offloaded(l) ? offload_next_step(a) : NULL;
    struct lowering_list *list = a->list;
    uint32_t position;
    if (!next || (next->kind != OP_BACKWARD && next->kind != OP_BACKWARD_INPUT))
        return STATUS_OK;
    uint32_t stage = lowering_stage(l, a->replica->team, next->chunk);
    uint32_t *copy = &l->replay.host[lowering_slot(
        l, stage, next->microbatch, lowering_position(l, a->replica->number), a->shard)];
    if (!*copy)
        return STATUS_OK;
    PASS(append_copy(a, true, stage, next->microbatch, list->op[*copy - 1].bytes, &position));
    PASS(list_depend(list, *copy - 1));
    if (list->compute[0])
        PASS(list_depend(list, list->compute[0] - 1));
    *copy = position + 1;
    return STATUS_OK;
}

enum status pass_lower(const struct pass *a, uint32_t computed)
{
    struct lowering *l = a->l;
    struct lowering_list *list = a->list;
    const struct schedule_step *next = is_offloaded(l) ? offload_next_step(a) : NULL;
    uint32_t position;
    if (!is_offloaded(l) || a->s.kind != OP_FORWARD)
        return STATUS_OK;
    list->lowered[1] = list->lowered[0];
    list->lowered[0] = 0;
    bool wanted = next && next->chunk == a->s.chunk && next->microbatch == a->s.microbatch;
    if (wanted || a->cost->stash_bytes == 0)
        return STATUS_OK;
    PASS(append_copy(a, false, a->stage, a->s.microbatch, a->cost->stash_bytes, &position));
    PASS(list_depend(list, computed));
    l->replay.host[pass_slot(a, a->stage)] = list->lowered[0] = position + 1;
    return STATUS_OK;
}

enum status pass_depend_on_copies(const struct pass *a)
{
    const struct lowering *l = a->l;
    if (!is_offloaded(l) || a->s.kind == OP_BACKWARD_WEIGHT)
        return STATUS_OK;
    uint32_t copy =
        a->s.kind == OP_FORWARD ? a->list->lowered[1] : l->replay.host[pass_slot(a, a->stage)];
    return copy ? list_depend(a->list, copy - 1) : STATUS_OK;
}
