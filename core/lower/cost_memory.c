/* What a stage needs of one of its ranks' memory: parameters and their state, stashes, scratch. */
#include <stdlib.h>

#include "core/array.h"
#include "core/lower/summing.h"

/* Does another stage read the op's output? */
static bool is_sent(const struct lowering *l, uint32_t op)
{
    for (size_t k = l->model->out_start[op]; k < l->model->out_start[op + 1]; k++)
        if (l->shape.stage_of[l->model->out[k]] != l->shape.stage_of[op])
            return true;
    return false;
}

/* Is it a product with weights, and no vector of them? Then each number of its output is a sum of many
 * terms: layernorm takes 7 FLOP for each, a product of 8 columns 16. */
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

/* Bytes that a shard keeps of op, of one sample. Experts over shards keep whole rows, as they are given
 * and give them, and divide what is inside of them; an output that is read again counts as divided.
 * Of experts on several replicas tokens and what has come back are those of the replica itself; what
 * experts are given, and what is inside of them, is more on the busiest one. */
static int64_t kept_of(const struct sum *u, const struct model_op *o, const struct cost_part *part)
{
    const struct model *m = u->l->model;
    int64_t e = m->element_bytes, operand = m->dtype == DATA_ANY ? e : data_type_operand(m->dtype);
    /* exchange_bytes: the mean of rows as operands and as they are kept */
    int64_t rows = 4 * o->exchange_bytes * e / (operand + e);
    int64_t stash = o->stash_bytes;
    bool whole = o->exchange_bytes == 0 || o->tensor != TENSOR_ROW || u->split.sequence_parallel ||
                 u->split.tensor_parallel < 2 || rows > stash;
    stash += excess(stash - o->output_bytes - rows / 2, part);
    rows += excess(rows / 2, part);
    if (whole)
        return sum_scaled(stash, part->stash);
    return sum_scaled(rows, part->stash) +
           sum_scaled(stash - rows, part->stash / u->split.tensor_parallel);
}

/* What a microbatch keeps of an op between its forward and its backward, and what is made again a unit
 * at a time (plan_units()), without what is kept of it. Halves of backwards: what a product with
 * weights has as gradient of its output waits for the second half. */
static void add_stash(struct sum *u, uint32_t op, const struct cost_part *part)
{
    struct lowering_cost *c = &u->c;
    const struct model_op *o = &u->l->model->op[op];
    uint32_t unit = u->l->shape.unit[op];
    int64_t samples = u->l->plan->microbatch_size,
            stash = samples * kept_of(u, o, part) + sum_swapped(u, op),
            output = samples * sum_scaled(o->output_bytes, part->stash);
    if (u->l->schedule->split && is_product(u->l->model, o))
        c->stash_bytes += output;
    if (unit == 0) {
        c->stash_bytes += stash;
        return;
    }
    int64_t kept = u->l->shape.kept[op] ? output : 0;
    c->stash_bytes += kept;
    u->unit_bytes = (unit == u->unit ? u->unit_bytes : 0) + stash - kept;
    u->unit = unit;
    c->scratch_bytes = u->unit_bytes > c->scratch_bytes ? u->unit_bytes : c->scratch_bytes;
}

/* What op adds to the stage's memory: its parameters, with a copy of what it borrows from another
 * team. */
static void add_parameters(struct sum *u, const struct model_op *o, const struct cost_part *part)
{
    struct lowering_cost *c = &u->c;
    const struct lowering *l = u->l;
    bool copy = o->shares != MODEL_NO_OP &&
                l->shape.team_of[l->shape.stage_of[o->shares]] != l->shape.team_of[u->stage];
    int64_t own = sum_scaled(o->parameter_bytes + (copy ? o->shared_bytes : 0), part->parameters);
    c->weight_bytes += own;
    if (o->shares != MODEL_NO_OP && l->shape.stage_of[o->shares] == u->stage)
        u->tied_bytes += sum_scaled(o->shared_bytes, part->parameters);
    u->largest_bytes = own > u->largest_bytes ? own : u->largest_bytes;
    if (u->split.expert_parallel > 1 && o->exchange_bytes > 0)
        c->expert_bytes += own;
    else
        c->replicated_bytes += own;
}

void sum_add_memory(struct sum *u, uint32_t op, const struct cost_part *part)
{
    const struct model_op *o = &u->l->model->op[op];
    add_parameters(u, o, part);
    add_stash(u, op, part);
    /* rows on their way to experts and back: those that leave and those that have come, in parts as
     * long as the busiest rank's */
    int64_t rows = u->split.expert_parallel > 1
                       ? 2 * (int64_t)u->l->plan->microbatch_size * o->exchange_bytes
                       : 0;
    rows += excess(rows, part);
    u->experts_bytes = rows > u->experts_bytes ? rows : u->experts_bytes;
}

/* What ZeRO leaves of them on each rank: experts are sharded over the replicas that have the same.
 */
static int64_t sharded(const struct sum *u, int64_t replicated_bytes, int64_t expert_bytes)
{
    return replicated_bytes / lowering_members(u->l, u->stage) +
           expert_bytes * u->split.expert_parallel / u->s->replicas;
}

/* ZeRO: what the stage keeps and updates becomes its part (Rajbhandari et al., SC 2020, section 3:
 * optimizer state, then gradients, then parameters). */
static void shard(struct sum *u, const struct cost_memory *factor)
{
    struct lowering_cost *c = &u->c;
    uint32_t zero = lowering_zero(u->l, u->stage);
    int64_t all = c->weight_bytes, dense = c->replicated_bytes, experts = c->expert_bytes;
    if (zero >= 1)
        c->state_bytes = sharded(u, dense * factor->state, experts * factor->state);
    if (zero >= 2)
        c->gradient_bytes =
            u->flight_bytes + sharded(u, dense * factor->gradients, experts * factor->gradients);
    if (zero >= 1 && all > 0)
        c->update_s *= (double)sharded(u, dense, experts) / (double)all;
    if (lowering_reshards(u->l, u->stage))
        c->weight_bytes = sharded(u, dense, experts);
}

/* Of gradients of so many bytes, what is summed where that is narrower than they are: a copy. */
static int64_t copied(const struct sum *u, int64_t bytes)
{
    bool narrower = plan_reduce_bytes(u->l->plan, u->l->model) < u->l->model->element_bytes;
    return narrower ? lowering_reduced(u->l, bytes) : 0;
}

/* ZeRO 2, 3: while the gradients of a bucket grow, those of the one before are reduced; ZeRO 3:
 * while the parameters of one are used, those of the next are gathered. Halves of backwards leave
 * the gradients of the whole stage incomplete, from one op of the rank to another. */
static void add_flight(struct sum *u, uint32_t zero, int64_t gradients)
{
    struct lowering_cost *c = &u->c;
    int64_t most = 0, gathered = 0;
    for (size_t b = 0; b < c->buckets; b++) {
        const struct lowering_bucket *at = &c->bucket[b];
        int64_t own = c->buckets > 1 ? at->gradients.bytes + at->expert_bytes : c->weight_bytes;
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

static int64_t tensor_bytes(const struct sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    return u->l->plan->microbatch_size * sum_scaled(o->output_bytes, cost_part(o, &u->split).stash);
}

/* What the backward of op `op` takes: room for a gradient from its first share on; further ones, and
 * those that follow what another stage sends, are made apart. begun [model->n] */
static void begin_gradients(const struct sum *u, uint32_t op, bool *begun, int64_t *held,
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
 * last reader's backward to its own op's. What is made apart has two places of one size, for as many
 * inputs as ops have. */
static enum status gradients_of_outputs(const struct sum *u, int64_t *most)
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

/* Tensors from other stages stay until the backward, beside room for their gradients and for those
 * of what was sent, which a slot of the executor has from the forward on. */
static void add_received(struct sum *u)
{
    const struct lowering_shape *shape = &u->l->shape;
    int64_t bytes = 0, parts = u->split.sequence_parallel ? u->split.tensor_parallel : 1;
    parts *= u->split.context_parallel;
    for (size_t k = shape->in_start[u->stage]; k < shape->in_start[u->stage + 1]; k++)
        bytes += 2 * shape->edge[shape->in[k]].bytes / parts;
    for (size_t e = shape->out_start[u->stage]; e < shape->out_start[u->stage + 1]; e++)
        bytes += shape->edge[e].bytes / parts;
    u->c.stash_bytes += bytes;
}

enum status sum_finish_memory(struct sum *u)
{
    const struct lowering *l = u->l;
    struct lowering_cost *c = &u->c;
    struct cost_memory factor = cost_memory(l->plan->optimizer, l->model->element_bytes);
    uint32_t zero = lowering_zero(l, u->stage);
    int64_t gradients, whole = c->weight_bytes; /* before they are sharded */
    add_received(u);
    c->gradient_bytes = whole * factor.gradients;
    c->state_bytes = whole * factor.state;
    PASS(gradients_of_outputs(u, &gradients));
    c->scratch_bytes += gradients + u->context_bytes + u->experts_bytes;
    add_flight(u, zero, factor.gradients);
    shard(u, &factor);
    c->gradient_bytes += u->tied_bytes * factor.gradients; /* apart from their owner's till then */
    if (zero < 2 && u->s->replicas > 1)
        c->gradient_bytes += copied(u, whole);
    return STATUS_OK;
}
