/* Microbatches in flight. A slot goes through the states below; what is called in another one comes
 * out of turn, and says so:
 *
 *   EMPTY      stage_put() of the first input or, without producers, stage_forward()
 *   FILLING    stage_put() of the other inputs, stage_forward()
 *   FORWARDED  stage_get() of outputs, stage_put() of their gradients, backward
 *   DONE       stage_get() of the inputs' gradients, weight gradients that are owed; then EMPTY
 *
 * Without backwards a slot is EMPTY when its forward and the stage_get() of its outputs are
 * over. */
#include "exec/device/cpu/stage_parts.h"

#include <string.h>

static const char *const state_name[] = {
    [SLOT_EMPTY] = "not begun",
    [SLOT_FILLING] = "waiting for its forward",
    [SLOT_FORWARDED] = "between forward and backward",
    [SLOT_DONE] = "past its backward",
};

static enum status check_microbatch(const struct stage *s, uint32_t microbatch)
{
    if (microbatch < s->program->microbatches)
        return STATUS_OK;
    return error_set(STATUS_INVALID,
                     "stage %u: microbatch %u does not exist, the program has %u microbatches",
                     s->index, microbatch, s->program->microbatches);
}

enum status stage_slot(struct stage *s, uint32_t microbatch, enum slot_state state,
                       struct slot **out)
{
    PASS(check_microbatch(s, microbatch));
    uint32_t i = s->stash.slot_of[microbatch];
    enum slot_state found = i > 0 ? s->stash.slot[i - 1].state : SLOT_EMPTY;
    if (found != state)
        return error_set(STATUS_INVALID, "stage %u: microbatch %u is %s, expected %s", s->index,
                         microbatch, state_name[found], state_name[state]);
    *out = &s->stash.slot[i - 1];
    return STATUS_OK;
}

enum status stage_allocate_slot(struct stage *s, struct slot *slot)
{
    size_t tokens = size_times(s->layout.data.samples, s->layout.data.tokens);
    if (!slot->data)
        PASS(stage_allocate_data(s, s->layout.slot_size, sizeof *slot->data, &slot->data));
    if (s->layout.spread > 0 && !slot->rows)
        PASS(stage_allocate(s, s->layout.spread, sizeof *slot->rows, &slot->rows));
    if (s->layout.reads_data && !slot->token)
        PASS(stage_allocate_data(s, tokens, sizeof *slot->token, &slot->token));
    if (s->layout.reads_data && !slot->target)
        PASS(stage_allocate_data(s, tokens, sizeof *slot->target, &slot->target));
    return STATUS_OK;
}

/* The first empty slot; there are as many as microbatches were ever in flight at once. */
enum status stage_take_slot(struct stage *s, uint32_t microbatch, struct slot **out)
{
    PASS(check_microbatch(s, microbatch));
    uint32_t i = s->stash.slot_of[microbatch];
    if (i > 0 && s->stash.slot[i - 1].state != SLOT_DONE)
        return stage_slot(s, microbatch, SLOT_FILLING, out);
    if (i == 0) /* a slot whose gradients nobody fetched is the microbatch's own again */
        while (i < s->stash.slots && s->stash.slot[i].state != SLOT_EMPTY)
            i++;
    else
        i--;
    PASS(stage_allocate_slot(s, &s->stash.slot[i]));
    struct slot *slot = &s->stash.slot[i];
    s->stash.slots = i < s->stash.slots ? s->stash.slots : i + 1;
    slot->state = SLOT_FILLING;
    slot->microbatch = microbatch;
    slot->received = slot->returned = slot->fetched = 0;
    slot->owes_weights = false;
    slot->parts = 0;
    s->stash.slot_of[microbatch] = i + 1;
    *out = slot;
    return STATUS_OK;
}

/* Weight gradients that are owed and gradients that nobody has fetched keep a slot. */
void stage_release_slot(struct stage *s, struct slot *slot)
{
    if (slot->owes_weights || slot->fetched < s->layout.producers)
        return;
    s->stash.slot_of[slot->microbatch] = 0;
    slot->state = SLOT_EMPTY;
}

void stage_forget(struct stage *s, struct slot *slot)
{
    if (!s->program->forward_only || slot->fetched < s->layout.consumers)
        return;
    stage_end_pass(s, slot);
    s->stash.slot_of[slot->microbatch] = 0;
    slot->state = SLOT_EMPTY;
}

/* ---- messages */

/* Messages carry the tensors of a link one after the other, sizes in reals.
 * NULL, with the message set, when there is none. */
static const struct stage_link *slot_find_link(const struct stage *s, bool producer, uint32_t stage)
{
    const struct stage_link *link = producer ? s->layout.producer : s->layout.consumer;
    size_t n = producer ? s->layout.producers : s->layout.consumers;
    for (size_t i = 0; i < n; i++)
        if (link[i].stage == stage)
            return &link[i];
    error_set(STATUS_INVALID,
              "stage %u: the program has a message to or from stage %u, but no tensor passes "
              "between them",
              s->index, stage);
    return NULL;
}

/* Which numbers of a message this shard sends and receives. */
static struct ring_part slot_own_numbers(const struct stage *s, const struct stage_link *link)
{
    if (link->parts < 2)
        return (struct ring_part){0, link->size};
    return s->share.part ? s->share.part(link->size, link->parts, s->share.shard.shard)
                         : ring_own(link->size, link->parts, s->share.shard.shard);
}

/* Numbers of a tensor that a message has: those that are in the shard's part of it. */
struct slot_overlap {
    size_t message, tensor, n; /* where they begin there */
};

/* The tensor is number `first` of the message and those behind it, n of them. */
static struct slot_overlap overlap_of(const struct ring_part *part, size_t first, size_t n)
{
    size_t end = first + n, part_end = part->first + part->n;
    size_t from = first > part->first ? first : part->first, to = end < part_end ? end : part_end;
    return from < to ? (struct slot_overlap){from - part->first, from - first, to - from}
                     : (struct slot_overlap){0};
}

/* Shards gather what has come, once every one's part of the link's message is there: in the slot,
 * where it lies in one piece. */
void stage_received(struct stage *s, const struct program_op *op, uint32_t k, void **data,
                    size_t *n)
{
    const struct stage_link *link = op->backward ? s->layout.consumer : s->layout.producer;
    size_t links = op->backward ? s->layout.consumers : s->layout.producers;
    uint32_t i = s->stash.slot_of[op->microbatch];
    for (; links > 0 && i > 0; link++, links--)
        if (link->parts > 1 && k-- == 0) {
            *data = s->stash.slot[i - 1].data +
                    (op->backward ? link->area : s->layout.tensor[link->tensor[0]].value);
            *n = link->size;
            return;
        }
}

enum status stage_get(struct stage *s, uint32_t to, uint32_t microbatch, bool backward, real *data)
{
    struct slot *slot;
    const struct stage_link *link = slot_find_link(s, backward, to);
    if (!link)
        return STATUS_INVALID;
    PASS(stage_slot(s, microbatch, backward ? SLOT_DONE : SLOT_FORWARDED, &slot));
    const struct ring_part part = slot_own_numbers(s, link);
    for (size_t i = 0, first = 0; i < link->n; i++) {
        const struct stage_tensor *t = &s->layout.tensor[link->tensor[i]];
        const struct slot_overlap o = overlap_of(&part, first, t->size);
        s->on.backend->copy(s->on.self, data + o.message,
                            slot->data + (backward ? t->gradient : t->value) + o.tensor,
                            o.n * sizeof *data);
        first += t->size;
    }
    slot->fetched += backward || s->program->forward_only;
    if (backward)
        stage_release_slot(s, slot);
    else
        stage_forget(s, slot);
    return STATUS_OK;
}

enum status stage_put(struct stage *s, uint32_t from, uint32_t microbatch, bool backward,
                      const real *data)
{
    struct slot *slot;
    const struct stage_link *link = slot_find_link(s, !backward, from);
    if (!link)
        return STATUS_INVALID;
    const struct ring_part part = slot_own_numbers(s, link);
    if (backward) {
        PASS(stage_slot(s, microbatch, SLOT_FORWARDED, &slot));
        s->on.backend->copy(s->on.self, slot->data + link->area + part.first, data,
                            part.n * sizeof *data);
        slot->returned++;
        return STATUS_OK;
    }
    PASS(stage_take_slot(s, microbatch, &slot));
    for (size_t i = 0, first = 0; i < link->n; i++) {
        const struct stage_tensor *t = &s->layout.tensor[link->tensor[i]];
        const struct slot_overlap o = overlap_of(&part, first, t->size);
        s->on.backend->copy(s->on.self, slot->data + t->value + o.tensor, data + o.message,
                            o.n * sizeof *data);
        first += t->size;
    }
    slot->received++;
    return STATUS_OK;
}
