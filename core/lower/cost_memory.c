/* What a stage needs of one of its ranks' memory: parameters and their state, stashes, scratch. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/lower/summing.h"
#include "core/strategy/framework.h"

/* Does another stage read the op's output? */
static bool is_sent(const struct lowering *l, uint32_t op)
{
    for (size_t k = l->model->out_start[op]; k < l->model->out_start[op + 1]; k++)
        if (l->shape.stage_of[l->model->out[k]] != l->shape.stage_of[op])
            return true;
    return false;
}

/* Is it a product with weights, and no vector of them? Then each number of its output is a sum of
 * many terms: layernorm takes 7 FLOP for each, a product of 8 columns 16. */
static bool is_product(const struct model *m, const struct model_op *o)
{
    enum { LEAST = 16 };
    return o->parameter_bytes + o->shared_bytes > 0 && !o->sparse &&
           o->forward_flop >= LEAST * (double)(o->output_bytes / m->element_bytes);
}

/* What the busiest rank has more of rows that come to it, of so many bytes. */
static int64_t excess(int64_t bytes, const struct cost_part *part)
{
    return bytes > 0 ? (int64_t)((part->load - 1) * (double)bytes) : 0;
}

/* Bytes that a shard keeps of op, of one sample. Experts over shards keep whole rows, as they are
 * given and give them, and divide what is inside of them; an output that is read again counts as
 * divided. Of experts on several replicas tokens and what has come back are those of the replica
 * itself; what experts are given, and what is inside of them, is more on the busiest one. */
static int64_t memory_cost_kept_of(const struct stage_sum *u, const struct model_op *o,
                                   const struct cost_part *part)
{
    const struct model *m = u->l->model;
    int64_t e = m->element_bytes, operand = model_operand(m);
    /* exchange_bytes: the mean of rows that go out, as operands, and that come back */
    int64_t given = 2 * o->exchange_bytes * operand / (operand + e), rows = 2 * o->exchange_bytes;
    int64_t stash = cost_stash(m, o, u->split.framework);
    /* what experts give back, unless it is not kept */
    int64_t back = rows - given - (o->exchange_bytes > 0 ? o->stash_bytes - stash : 0);
    bool whole = o->exchange_bytes == 0 || o->tensor != TENSOR_ROW || u->split.sequence > 1 ||
                 u->split.shards < 2 || rows > stash;
    stash += excess(stash - o->output_bytes - back, part);
    rows = back + given + excess(given, part);
    if (whole)
        return sum_scaled(stash, part->stash);
    return sum_scaled(rows, part->stash) + sum_scaled(stash - rows, part->stash / u->split.shards);
}

/* What the op and its consumers need of it in a backward, of a microbatch, */
static int64_t stash_of(const struct stage_sum *u, uint32_t op, const struct cost_part *part)
{
    return u->l->plan->microbatch_size * memory_cost_kept_of(u, &u->l->model->op[op], part) +
           sum_swapped(u, op);
}

/* and what of it stays from the forward on, the rest being made again. Units of layers keep what
 * the next layer's forward needs, modules what a backward does. */
static int64_t stays_of(const struct stage_sum *u, uint32_t op, int64_t stash,
                        const struct cost_part *part)
{
    const struct lowering *l = u->l;
    const struct model_op *o = &l->model->op[op];
    int64_t samples = l->plan->microbatch_size,
            output = samples * sum_scaled(o->output_bytes, part->stash);
    if (l->shape.unit[op] == 0) {
        struct plan_part again = plan_part_again(u->s, l->model, op);
        double share = part->stash;
        if (o->exchange_bytes > 0 && o->tensor == TENSOR_ROW) /* inside of experts: divided */
            share = 1.0 / u->split.shards / u->split.context;
        return stash - samples * sum_scaled(again.bytes, share);
    }
    if (!l->shape.kept[op])
        return 0;
    return u->s->recompute_modules > 0 && stash < output ? stash : output;
}

/* Of a sample, of all shards. */
static int64_t input_bytes(const struct stage_sum *u, uint32_t op, size_t from)
{
    const struct model *m = u->l->model;
    int64_t bytes = 0;
    for (size_t e = m->in_start[op] + from; e < m->in_start[op + 1]; e++)
        bytes += m->op[m->in[e]].output_bytes;
    return bytes / u->split.context;
}

/* Halves of backwards: what a product with weights has as gradient of its output waits for the
 * second half. With sequence parallelism that, and the input, as they have been gathered; of what
 * every shard has, nothing waits. */
static int64_t waiting_of(const struct stage_sum *u, uint32_t op, const struct cost_part *part)
{
    const struct model_op *o = &u->l->model->op[op];
    int64_t own = sum_scaled(o->output_bytes, part->stash);
    if (!u->l->schedule->split || !is_product(u->l->model, o))
        return 0;
    if (u->split.sequence < 2)
        return own;
    if (o->tensor == TENSOR_ROW && o->exchange_bytes == 0)
        return o->output_bytes / u->split.context;
    return o->tensor == TENSOR_COLUMN ? own + input_bytes(u, op, 0) : 0;
}

/* Experts of shards keep the choices of the rows of all of them. What waits has its place from the
 * forward on in the executor; a framework makes it in the first half. */
static void add_stash(struct stage_sum *u, size_t k, const struct cost_part *part)
{
    uint32_t op = u->s->op[k];
    const struct model_op *o = &u->l->model->op[op];
    bool gathers = u->split.sequence > 1 && o->exchange_bytes > 0 && o->tensor == TENSOR_ROW;
    int64_t choices = gathers ? input_bytes(u, op, 1) : 0, samples = u->l->plan->microbatch_size,
            *waits = u->split.framework ? &u->c.waiting_bytes : &u->c.stash_bytes;
    u->stash[k] = stash_of(u, op, part);
    u->stays[k] = stays_of(u, op, u->stash[k], part);
    u->c.stash_bytes += samples * choices + u->stays[k];
    *waits += samples * waiting_of(u, op, part);
}

/* What a backward makes again (plan_needs()) of each op of the stage, and what begins to be needed
 * with each. */
struct again {
    int64_t *bytes, *begins; /* [ops] */
};

static enum status list_again(const struct stage_sum *u, struct arena *arena, struct again *out)
{
    size_t n = u->s->ops, *needed;
    uint32_t *unit;
    bool *kept;
    PASS(ARENA_NEW(arena, needed, n));
    PASS(ARENA_NEW(arena, unit, n));
    PASS(ARENA_NEW(arena, kept, n));
    PASS(ARENA_NEW(arena, out->bytes, n));
    PASS(ARENA_NEW(arena, out->begins, n));
    for (size_t k = 0; k < n; k++) {
        unit[k] = u->l->shape.unit[u->s->op[k]];
        kept[k] = u->l->shape.kept[u->s->op[k]];
    }
    plan_needs(u->s, u->l->model, unit, kept, needed);
    for (size_t k = 0; k < n; k++) {
        out->bytes[k] = u->stash[k] - u->stays[k];
        out->begins[needed[k]] += out->bytes[k];
    }
    return STATUS_OK;
}

/* Most bytes of it at once: each from when it is needed to its own op's backward. */
static int64_t made_again(const struct stage_sum *u, const struct again *again)
{
    int64_t most = 0, held = 0;
    for (size_t k = u->s->ops; k-- > 0;) {
        held += again->begins[k];
        most = held > most ? held : most;
        held -= again->bytes[k];
    }
    return most;
}

/* Is `op` the first of the stage that borrows from its owner? */
static bool borrows_first(const struct stage_sum *u, uint32_t op)
{
    const struct model *m = u->l->model;
    bool first = m->op[op].shares != MODEL_NO_OP;
    for (size_t k = 0; first && u->s->op[k] != op; k++)
        first = m->op[u->s->op[k]].shares != m->op[op].shares;
    return first;
}

/* What op adds to the stage's memory: its parameters, with a copy of what it is the first to borrow
 * from another team. */
static void add_parameters(struct stage_sum *u, uint32_t op, const struct cost_part *part)
{
    struct lowering_cost *c = &u->c;
    const struct lowering *l = u->l;
    const struct model_op *o = &l->model->op[op];
    bool first = borrows_first(u, op);
    bool copy =
        first && l->shape.team_of[l->shape.stage_of[o->shares]] != l->shape.team_of[u->stage];
    int64_t own = sum_scaled(o->parameter_bytes + (copy ? o->shared_bytes : 0), part->parameters);
    c->weight_bytes += own;
    if (first && l->shape.stage_of[o->shares] == u->stage)
        u->tied_bytes += sum_scaled(o->shared_bytes, part->parameters);
    u->largest_bytes = own > u->largest_bytes ? own : u->largest_bytes;
    if (cost_spreads(&u->split, o))
        c->expert_bytes += own;
    else
        c->replicated_bytes += own;
}

void sum_add_memory(struct stage_sum *u, size_t k, const struct cost_part *part)
{
    uint32_t op = u->s->op[k];
    const struct model_op *o = &u->l->model->op[op];
    add_parameters(u, op, part);
    add_stash(u, k, part);
    /* rows on their way to experts and back: those that leave and those that have come, in parts as
     * long as the busiest rank's */
    int64_t rows =
        u->split.experts > 1 ? 2 * (int64_t)u->l->plan->microbatch_size * o->exchange_bytes : 0;
    rows += excess(rows, part);
    u->experts_bytes = rows > u->experts_bytes ? rows : u->experts_bytes;
}

/* What ZeRO leaves of them on each rank: experts are sharded over the replicas that have the same.
 */
static int64_t sharded(const struct stage_sum *u, int64_t replicated_bytes, int64_t expert_bytes)
{
    return replicated_bytes / lowering_members(u->l, u->stage) +
           expert_bytes * u->split.experts / u->s->replicas;
}

/* ZeRO: what the stage keeps and updates becomes its part (Rajbhandari et al., SC 2020, section 3:
 * optimizer state, then gradients, then parameters). */
static void shard(struct stage_sum *u, const struct cost_memory *factor)
{
    struct lowering_cost *c = &u->c;
    c->updated_bytes = c->weight_bytes;
    uint32_t zero = lowering_zero(u->l, u->stage);
    int64_t all = c->weight_bytes, dense = c->replicated_bytes, experts = c->expert_bytes;
    if (zero >= 1)
        c->state_bytes = sharded(u, dense * factor->state, experts * factor->state);
    if (zero >= 2)
        c->gradient_bytes =
            u->flight_bytes + sharded(u, dense * factor->gradients, experts * factor->gradients);
    if (zero >= 1)
        c->updated_bytes = sharded(u, dense, experts);
    if (zero >= 1 && all > 0)
        c->update_s *= (double)c->updated_bytes / (double)all;
    if (lowering_reshards(u->l, u->stage))
        c->weight_bytes = sharded(u, dense, experts);
}

/* The state and the update are the host's, which is given gradients in the model's numbers. */
static void offload_state(struct stage_sum *u)
{
    struct lowering_cost *c = &u->c;
    c->host_bytes = c->state_bytes + c->updated_bytes;
    c->state_bytes = 0;
    c->update_s =
        cost_host_update(u->l->model, u->type, u->l->plan->optimizer, (double)c->updated_bytes);
}

/* Of gradients of so many bytes, what is summed where that is narrower than they are: a copy. */
static int64_t copied(const struct stage_sum *u, int64_t bytes)
{
    bool narrower = plan_reduce_bytes(u->l->plan, u->l->model) < u->l->model->element_bytes;
    return narrower ? lowering_reduced(u->l, bytes) : 0;
}

/* ZeRO 2, 3: while the gradients of a bucket grow, those of the one before are reduced; ZeRO 3:
 * while the parameters of one are used, those of the next are gathered. Halves of backwards leave
 * the gradients of the whole stage incomplete, from one op of the rank to another. */
static void add_flight(struct stage_sum *u, uint32_t zero, int64_t gradients)
{
    struct lowering_cost *c = &u->c;
    int64_t most = 0, gathered = 0;
    /* experts that no other replica has are neither reduced nor gathered */
    bool shared = u->s->replicas > u->split.experts;
    for (size_t b = 0; b < c->buckets; b++) {
        const struct lowering_bucket *at = &c->bucket[b];
        int64_t own = c->buckets > 1 ? at->gradients.bytes + (shared ? at->expert_bytes : 0)
                                     : c->weight_bytes - (shared ? 0 : c->expert_bytes);
        most = own > most ? own : most;
        own += c->buckets > 1 ? at->borrowed_bytes : 0;
        gathered = own > gathered ? own : gathered;
    }
    u->flight_bytes = zero >= 2 && u->l->schedule->split ? 2 * most * gradients : 0;
    c->reduced_bytes = zero >= 2 && !u->l->schedule->split ? 2 * most * gradients : 0;
    c->gathered_bytes = lowering_reshards(u->l, u->stage) ? 2 * gathered : 0;
    if (zero >= 2)
        c->reduced_bytes += copied(u, most);
    if (zero >= 2 && lowering_is_hybrid(u->l, u->stage))
        c->reduced_bytes += copied(u, most) / lowering_members(u->l, u->stage);
}

static int64_t tensor_bytes(const struct stage_sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    return u->l->plan->microbatch_size * sum_scaled(o->output_bytes, cost_part(o, &u->split).stash);
}

/* What the backward of op `op` takes: room for a gradient from its first share on; further ones,
 * and those that follow what another stage sends, are made apart. begun [model->n] */
static void begin_gradients(const struct stage_sum *u, uint32_t op, bool *begun, int64_t *held,
                            int64_t *apart)
{
    const struct model *m = u->l->model;
    for (size_t e = m->in_start[op]; e <= m->in_start[op + 1]; e++) {
        bool own = e == m->in_start[op + 1];
        uint32_t t = own ? op : m->in[e];
        bool here = u->l->shape.stage_of[t] == u->stage;
        int64_t bytes = tensor_bytes(u, t);
        if (!own && (begun[t] || (here && is_sent(u->l, t))) && bytes > *apart)
            *apart = bytes;
        if (here && !begun[t] && m->out_start[t] < m->out_start[t + 1])
            *held += bytes;
        begun[t] = true;
    }
}

/* Most bytes of gradients of outputs at once in a backward of one microbatch: each lives from its
 * last reader's backward to its own op's. What is made apart has two places of one size, for as
 * many inputs as ops have. */
static enum status gradients_of_outputs(const struct stage_sum *u, int64_t *most)
{
    enum { INPUTS = 2 };
    const struct model *m = u->l->model;
    int64_t held = 0, apart = 0;
    bool *begun;
    PASS(ARRAY_NEW(begun, m->n));
    *most = 0;
    for (size_t k = u->s->ops; k-- > 0;) {
        uint32_t op = u->s->op[k];
        begin_gradients(u, op, begun, &held, &apart);
        *most = held > *most ? held : *most;
        held -= m->out_start[op] < m->out_start[op + 1] ? tensor_bytes(u, op) : 0;
    }
    *most += INPUTS * apart;
    free(begun);
    return STATUS_OK;
}

/* What a loss has besides the logits of its shard and their gradient. */
static int64_t beside_logits(const struct stage_sum *u, uint32_t op, const struct cost_part *part)
{
    const struct model_op *o = &u->l->model->op[op];
    if (!model_op_is(o, OPERATOR_LOSS))
        return 0;
    int64_t logits = model_attribute(o, "tokens", 0) * model_attribute(o, "vocabulary", 0);
    double own = u->split.framework->logit * (double)u->l->plan->microbatch_size;
    return (int64_t)(own * part->stash * (double)logits);
}

/* A framework has no places of its own for what is made again and for gradients of outputs: it
 * takes memory when a tensor is made and gives it back with the last reader, so that a backward
 * gives back what is kept of one op after another. The most that it has beyond the stash of its
 * microbatch. */
static enum status freed_meanwhile(const struct stage_sum *u, const struct again *again,
                                   int64_t *most)
{
    const struct model *m = u->l->model;
    int64_t held = 0;
    bool *begun;
    PASS(ARRAY_NEW(begun, m->n));
    *most = 0;
    for (size_t k = u->s->ops; k-- > 0;) {
        uint32_t op = u->s->op[k];
        struct cost_part part = cost_part(&m->op[op], &u->split);
        int64_t apart = 0;
        held += again->begins[k];
        begin_gradients(u, op, begun, &held, &apart);
        int64_t now = held + apart + beside_logits(u, op, &part);
        *most = now > *most ? now : *most;
        held -= u->stash[k];
        held -= m->out_start[op] < m->out_start[op + 1] ? tensor_bytes(u, op) : 0;
    }
    free(begun);
    return STATUS_OK;
}

/* What a backward needs for itself. */
static enum status work_space(const struct stage_sum *u, int64_t *bytes)
{
    enum status st;
    struct arena arena = {0};
    struct again again;
    TRY(list_again(u, &arena, &again));
    if (u->split.framework) {
        TRY(freed_meanwhile(u, &again, bytes));
    } else {
        TRY(gradients_of_outputs(u, bytes));
        *bytes += made_again(u, &again);
    }
out:
    arena_free(&arena);
    return st;
}

/* Tensors from other stages stay until the backward, beside room for their gradients and for those
 * of what was sent, which a slot of the executor has from the forward on; frameworks keep the
 * tensors and nothing of what they have sent. */
static void add_received(struct stage_sum *u)
{
    const struct lowering_shape *shape = &u->l->shape;
    int64_t bytes = 0, parts = (int64_t)u->split.sequence * u->split.context;
    bool frees = u->split.framework;
    for (size_t k = shape->in_start[u->stage]; k < shape->in_start[u->stage + 1]; k++)
        bytes += (frees ? 1 : 2) * shape->edge[shape->in[k]].bytes / parts;
    for (size_t e = shape->out_start[u->stage]; e < shape->out_start[u->stage + 1] && !frees; e++)
        bytes += shape->edge[e].bytes / parts;
    u->c.stash_bytes += bytes;
}

/* Sequence parallelism: tensors that shards make whole for a product have one place, in which
 * gradients of the parameters that all of them have are summed, too, a bucket's at a time: or, in a
 * stage whose backward has not both halves of a sum, gathered. */
static int64_t whole_rows(const struct stage_sum *u)
{
    const struct model *m = u->l->model;
    const struct lowering_cost *c = &u->c;
    bool sums = c->backward_sum.count > 0 && c->backward_gather.count > 0;
    int64_t most = 0, copies = sums ? 1 : u->split.shards, own = 0;
    if (u->split.sequence < 2)
        return 0;
    for (size_t k = u->s->ops, b = 0; k-- > 0;) {
        const struct model_op *o = &m->op[u->s->op[k]];
        bool experts = o->tensor == TENSOR_ROW && o->exchange_bytes > 0,
             column = o->tensor == TENSOR_COLUMN || experts;
        int64_t rows = o->tensor == TENSOR_ROW ? o->output_bytes : 0;
        for (size_t e = m->in_start[u->s->op[k]]; e < m->in_start[u->s->op[k] + 1] && column; e++)
            rows += m->op[m->in[e]].output_bytes;
        rows = rows * u->l->plan->microbatch_size / u->split.context;
        own += o->tensor == TENSOR_WHOLE ? o->parameter_bytes : 0;
        most = rows > most ? rows : most;
        most = own * copies > most ? own * copies : most;
        if (k == c->bucket[b].gradients.low) {
            b++;
            own = 0;
        }
    }
    return most;
}

enum status sum_finish_memory(struct stage_sum *u)
{
    const struct lowering *l = u->l;
    struct lowering_cost *c = &u->c;
    struct cost_memory factor =
        cost_memory(l->plan->optimizer, l->model->element_bytes,
                    plan_reduce_bytes(l->plan, l->model), plan_framework(l->plan));
    uint32_t zero = lowering_zero(l, u->stage);
    int64_t work, whole = c->weight_bytes; /* before they are sharded */
    add_received(u);
    c->gradient_bytes = whole * factor.gradients;
    c->state_bytes = whole * factor.state;
    PASS(work_space(u, &work));
    c->scratch_bytes += work + u->context_bytes + u->experts_bytes + whole_rows(u);
    add_flight(u, zero, factor.gradients);
    shard(u, &factor);
    if (l->plan->offload & OFFLOAD_OPTIMIZER)
        offload_state(u);
    if (!u->split.framework) /* apart from their owner's till then */
        c->gradient_bytes += u->tied_bytes * factor.gradients;
    if (zero < 2 && u->s->replicas > 1)
        c->gradient_bytes += copied(u, whole);
    return STATUS_OK;
}
