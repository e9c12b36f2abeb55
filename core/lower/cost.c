/* What a stage costs one of its ranks: seconds, bytes, and the collectives inside. */
#include <stdlib.h>

#include "core/array.h"
#include "core/cost.h"
#include "core/lower/lowering.h"

/* program_op.part is a byte; with ZeRO 3 a pass may have two parts for each bucket but one. */
enum { MAX_BUCKETS = 200, MAX_UNITS = 120 };

/* A stage while its ops are added up. */
struct sum {
    const struct lowering *l;
    uint32_t stage;
    const struct plan_stage *s;
    const struct device_type *type;
    struct cost_split split;
    int64_t largest_bytes; /* parameters of one op */
    int64_t flight_bytes;  /* of gradients, kept beside the rank's part of their sums */
    int64_t tied_bytes;    /* weights that ops borrow within the stage */
    struct lowering_cost c;
};

/* Bytes of a part of an op: rounded down, whole when the part is 1. */
static int64_t scaled(int64_t bytes, double part)
{
    return part < 1 ? (int64_t)(part * (double)bytes) : bytes;
}

/* Calls are merged into one op of the program: their number and, in the end, their mean size. */
static void add_call(struct lowering_calls *calls, uint32_t count, int64_t bytes,
                     int64_t reduced_bytes)
{
    calls->count += count;
    calls->bytes += count * bytes; /* the sum, until all are known */
    calls->reduced_bytes += count * reduced_bytes;
}

static void add_sum(const struct sum *u, struct lowering_calls *calls, int64_t bytes)
{
    add_call(calls, 1, bytes, lowering_reduced(u->l, bytes));
}

/* Collectives inside the stage that op adds to a pass, Shoeybi et al. 2019 (arXiv:1909.08053,
 * section 3) for tensor parallelism; bytes are of all samples of a microbatch, in the numbers that
 * the plan says sums are made of:
 *   row-parallel      its output (samples, output) is reduced in the forward
 *   column-parallel   the gradient of its inputs is reduced in the backward
 *   divided loss      three fp32 numbers of each row and shard, in the forward
 *   experts           tokens to their experts and back, each twice when the forward is recomputed
 * */
static void add_calls(struct sum *u, uint32_t op)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[op];
    int64_t samples = u->l->plan->microbatch_size, in = 0;
    bool twice = u->s->recompute == RECOMPUTE_FULL; /* the forward runs in the backward too */
    if (u->split.tensor_parallel > 1 && o->tensor == TENSOR_ROW) {
        add_sum(u, &u->c.forward_sum, samples * o->output_bytes);
        if (twice)
            add_sum(u, &u->c.backward_sum, samples * o->output_bytes);
    }
    /* a loss over divided classes: every shard tells what it has of each row, three numbers */
    bool last = m->out_start[op] == m->out_start[op + 1];
    if (u->split.tensor_parallel > 1 && o->tensor == TENSOR_SPLIT && last) {
        int64_t rows = samples * (int64_t)(m->tokens_per_sample > 1 ? m->tokens_per_sample : 1);
        int64_t bytes = 3 * 4 * rows * u->split.tensor_parallel;
        add_call(&u->c.forward_sum, 1, bytes, bytes);
        if (plan_remakes(u->s->recompute, o))
            add_call(&u->c.backward_sum, 1, bytes, bytes);
    }
    for (size_t k = m->in_start[op]; k < m->in_start[op + 1]; k++)
        in += m->op[m->in[k]].output_bytes;
    /* experts: both products in one op */
    bool column = o->tensor == TENSOR_COLUMN || (o->tensor == TENSOR_ROW && o->exchange_bytes > 0);
    if (u->split.tensor_parallel > 1 && column && in > 0)
        add_sum(u, &u->c.backward_sum, samples * in);
    if (u->split.expert_parallel > 1 && o->exchange_bytes > 0) {
        int64_t shards = u->split.sequence_parallel ? u->split.tensor_parallel : 1;
        int64_t bytes = samples * o->exchange_bytes / shards;
        add_call(&u->c.forward_experts, 2, bytes, bytes);
        add_call(&u->c.backward_experts, twice ? 4 : 2, bytes, bytes);
    }
}

/* What op adds to the stage's memory: its parameters (with a copy of what it borrows from another
 * team), and per microbatch what the backward needs. With full recomputation that is scratch of one
 * microbatch at a time, with selective only what the op remembers besides its output. */
static void add_memory(struct sum *u, const struct model_op *o, const struct cost_part *part)
{
    struct lowering_cost *c = &u->c;
    const struct lowering *l = u->l;
    int64_t samples = l->plan->microbatch_size,
            stash = samples * scaled(o->stash_bytes, part->stash);
    bool copy = o->shares != MODEL_NO_OP &&
                l->shape.team_of[l->shape.stage_of[o->shares]] != l->shape.team_of[u->stage];
    int64_t own = scaled(o->parameter_bytes + (copy ? o->shared_bytes : 0), part->parameters);
    c->weight_bytes += own;
    if (o->shares != MODEL_NO_OP && l->shape.stage_of[o->shares] == u->stage)
        u->tied_bytes += scaled(o->shared_bytes, part->parameters);
    u->largest_bytes = own > u->largest_bytes ? own : u->largest_bytes;
    if (u->split.expert_parallel > 1 && o->exchange_bytes > 0)
        c->expert_bytes += own;
    else
        c->replicated_bytes += own;
    if (u->s->recompute == RECOMPUTE_FULL) {
        c->scratch_bytes += stash;
    } else if (plan_remakes(u->s->recompute, o)) {
        int64_t output = samples * scaled(o->output_bytes, part->stash);
        c->stash_bytes += output;
        c->scratch_bytes = stash - output > c->scratch_bytes ? stash - output : c->scratch_bytes;
    } else {
        c->stash_bytes += stash;
    }
}

/* An op's seconds and bytes. A backward in two halves: the gradients of the weights are one of the
 * two products of equal size that a backward consists of; an embedding has only those. */
static void add_op(struct sum *u, uint32_t op)
{
    const struct plan *p = u->l->plan;
    const struct model_op *o = &u->l->model->op[op];
    struct cost_part part = cost_part(o, &u->split);
    struct op_cost cost =
        cost_op(u->l->model, u->type, op, p->microbatch_size, p->optimizer, &u->split);
    struct lowering_cost *c = &u->c;
    c->forward_s += cost.forward_s;
    c->backward_s += cost.backward_s;
    c->update_s += cost.update_s;
    if (plan_remakes(u->s->recompute, o))
        c->recompute_s += cost.forward_s;
    if (o->sparse) /* an embedding: nothing comes before it */
        c->weight_s += cost.backward_s;
    else if (o->parameter_bytes + o->shared_bytes > 0)
        c->weight_s += cost.backward_s / 2; /* two products of equal size */
    add_memory(u, o, &part);
    add_calls(u, op);
}

static void average(struct lowering_calls *calls)
{
    if (calls->count > 0)
        calls->bytes /= calls->count, calls->reduced_bytes /= calls->count;
}

/* What ZeRO leaves of them on each rank: experts are sharded over the replicas that have the same.
 */
static int64_t sharded(const struct sum *u, int64_t replicated_bytes, int64_t expert_bytes)
{
    return replicated_bytes / u->s->replicas +
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
    if (zero == 3)
        c->weight_bytes = sharded(u, dense, experts);
}

/* ---- buckets */

/* What op adds to a bucket: its gradients, and the weights that it borrows from another op of the
 * stage, unless a later op of the bucket does so already. */
struct share {
    int64_t dense, experts, borrowed;
};

static int64_t own_bytes(const struct sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    return scaled(o->parameter_bytes, cost_part(o, &u->split).parameters);
}

/* Position k among the stage's ops; the bucket ends before position `high`. */
static struct share share_of(const struct sum *u, size_t k, size_t high)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[u->s->op[k]];
    int64_t own = own_bytes(u, u->s->op[k]);
    bool experts = u->split.expert_parallel > 1 && o->exchange_bytes > 0;
    bool borrows = o->shares != MODEL_NO_OP && u->l->shape.stage_of[o->shares] == u->stage;
    for (size_t i = k + 1; borrows && i < high; i++)
        borrows = m->op[u->s->op[i]].shares != o->shares;
    return (struct share){experts ? 0 : own, experts ? own : 0,
                          borrows ? own_bytes(u, o->shares) : 0};
}

/* lent [model->n]: ops whose weights other ops of the stage borrow. With ZeRO 3 those gather the
 * lender's bucket too, which has nothing else, therefore. */
static enum status find_lenders(const struct sum *u, bool **lent)
{
    const struct model *m = u->l->model;
    PASS(ARRAY_NEW(*lent, m->n));
    for (size_t k = 0; k < u->s->ops; k++) {
        uint32_t owner = m->op[u->s->op[k]].shares;
        if (owner != MODEL_NO_OP && u->l->shape.stage_of[owner] == u->stage)
            (*lent)[owner] = true;
    }
    return STATUS_OK;
}

/* A bucket is complete at op `low`, and another one begins. */
static void close_bucket(struct lowering_cost *c, size_t low, struct lowering_bucket *open)
{
    open->gradients.low = (uint32_t)low;
    c->bucket[c->buckets++] = *open;
    *open = (struct lowering_bucket){0};
}

static int64_t held_by(const struct lowering_bucket *b)
{
    return b->gradients.bytes + b->expert_bytes + b->borrowed_bytes;
}

/* Cut the ops into buckets, in the order in which a backward completes their gradients; *open is
 * the last one. A bucket of ZeRO 0 and 1 ends with the op that fills it. Of ZeRO 2 and 3 two are
 * in memory: one ends before it would be larger than it should. */
static void cut(struct sum *u, const bool *lent, int64_t size, struct lowering_bucket *open)
{
    struct lowering_cost *c = &u->c;
    size_t most = c->units ? MAX_UNITS : MAX_BUCKETS, high = u->s->ops;
    for (size_t k = high; k-- > 0;) {
        uint32_t op = u->s->op[k];
        struct share share = share_of(u, k, high);
        int64_t bytes = share.dense + share.experts + share.borrowed;
        if (c->units && held_by(open) > 0 && (held_by(open) + bytes > size || lent[op]) &&
            c->buckets < most) {
            close_bucket(c, k + 1, open);
            high = k + 1;
        }
        struct op_cost cost = cost_op(u->l->model, u->type, op, u->l->plan->microbatch_size,
                                      u->l->plan->optimizer, &u->split);
        open->seconds += cost.backward_s;
        open->forward_s += cost.forward_s;
        open->gradients.bytes += share.dense;
        open->expert_bytes += share.experts;
        open->borrowed_bytes += share.borrowed;
        if (k > 0 && c->buckets < most && (c->units ? lent[op] : open->gradients.bytes >= size)) {
            close_bucket(c, k, open);
            high = k;
        }
    }
}

/* Without a size given, a bucket of ZeRO 2 and 3 is as large as the stage's largest op: whatever
 * is gathered and reduced, that op must be. */
static int64_t bucket_size(const struct sum *u)
{
    const struct lowering_cost *c = &u->c;
    int64_t least = c->units ? 2 * c->weight_bytes / MAX_UNITS : c->replicated_bytes / MAX_BUCKETS;
    int64_t size = u->l->plan->bucket_bytes;
    size = c->units && size == 0 ? u->largest_bytes : size;
    return size > least ? size : least + 1;
}

/* With full recomputation ZeRO 3 runs the forwards again bucket by bucket, the last of them in the
 * part that makes the first gradients; else the first part recomputes all that is recomputed. The
 * last bucket has, besides its own, the copies of tied weights. */
static enum status make_buckets(struct sum *u)
{
    enum status st;
    struct lowering_cost *c = &u->c;
    bool *lent = NULL;
    struct lowering_bucket open = {0};
    bool again =
        c->units && lowering_zero(u->l, u->stage) == 3 && u->s->recompute == RECOMPUTE_FULL;
    int64_t left = c->replicated_bytes;
    TRY(ARRAY_NEW(c->bucket, c->overlapped || c->units ? MAX_BUCKETS + 1 : 1));
    if (c->units)
        TRY(find_lenders(u, &lent));
    if (c->overlapped || c->units)
        cut(u, lent, bucket_size(u), &open);
    for (size_t b = 0; b < c->buckets; b++)
        left -= c->bucket[b].gradients.bytes;
    open.gradients.bytes = left;
    close_bucket(c, 0, &open);
    c->units = c->units && c->buckets > 1;
    c->bucket[0].seconds += again ? c->bucket[0].forward_s : c->recompute_s;
out:
    free(lent);
    return st;
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
    c->gathered_bytes = zero == 3 ? 2 * gathered : 0;
    if (zero >= 2)
        c->reduced_bytes += copied(u, most);
}

/* Most bytes of gradients of outputs at once in a backward of one microbatch: each lives from its
 * last reader's backward to its own op's. */
static enum status gradients_of_outputs(const struct sum *u, int64_t *most)
{
    const struct model *m = u->l->model;
    int64_t held = 0, *taken; /* [model->n] */
    PASS(ARRAY_NEW(taken, m->n));
    *most = 0;
    for (size_t k = u->s->ops; k-- > 0;) {
        uint32_t op = u->s->op[k];
        for (size_t e = m->in_start[op]; e <= m->in_start[op + 1]; e++) {
            uint32_t t = e < m->in_start[op + 1] ? m->in[e] : op;
            bool here = u->l->shape.stage_of[t] == u->stage;
            if (!here || taken[t] > 0 || m->out_start[t] == m->out_start[t + 1])
                continue;
            taken[t] = u->l->plan->microbatch_size *
                       scaled(m->op[t].output_bytes, cost_part(&m->op[t], &u->split).stash);
            held += taken[t];
        }
        *most = held > *most ? held : *most;
        held -= taken[op];
    }
    free(taken);
    return STATUS_OK;
}

/* What follows once all ops have been added up. */
static enum status finish(struct sum *u)
{
    const struct lowering *l = u->l;
    struct lowering_cost *c = &u->c;
    struct cost_memory factor = cost_memory(l->plan->optimizer, l->model->element_bytes);
    for (size_t k = l->shape.in_start[u->stage]; k < l->shape.in_start[u->stage + 1]; k++)
        c->stash_bytes += /* received inputs stay until the backward */
            l->shape.edge[l->shape.in[k]].bytes /
            (u->split.sequence_parallel ? u->split.tensor_parallel : 1);
    c->slowdown = u->type->slowdown;
    c->backward_s += c->recompute_s;
    c->input_s = c->backward_s - c->weight_s;
    average(&c->forward_sum);
    average(&c->backward_sum);
    average(&c->forward_experts);
    average(&c->backward_experts);
    c->gradient_bytes = c->weight_bytes * factor.gradients;
    c->state_bytes = c->weight_bytes * factor.state;
    uint32_t zero = lowering_zero(l, u->stage);
    int64_t weight_bytes = c->weight_bytes; /* before they are sharded */
    c->units = zero >= 2 && !l->schedule->split && c->weight_bytes > 0;
    c->overlapped = l->plan->bucket_bytes > 0 && u->s->replicas > 1 && zero < 2 &&
                    !l->schedule->split && !l->schedule->asynchronous && c->replicated_bytes > 0;
    int64_t gradients;
    PASS(gradients_of_outputs(u, &gradients));
    c->scratch_bytes += gradients;
    PASS(make_buckets(u));
    add_flight(u, zero, factor.gradients);
    shard(u, &factor);
    c->gradient_bytes += u->tied_bytes * factor.gradients; /* apart from their owner's till then */
    if (zero < 2 && u->s->replicas > 1)
        c->gradient_bytes += copied(u, weight_bytes);
    return STATUS_OK;
}

/* Devices of one type cost the same: one entry per stage and type. */
enum status lowering_cost(struct lowering *l, uint32_t stage, uint32_t device,
                          const struct lowering_cost **out)
{
    size_t slot = stage * l->topology->types + l->topology->type_of[device];
    const struct plan_stage *s = &l->plan->stage[stage];
    struct sum u = {.l = l,
                    .stage = stage,
                    .s = s,
                    .type = topology_type(l->topology, device),
                    .split = {s->tensor_parallel, s->expert_parallel,
                              l->plan->sequence_parallel && s->tensor_parallel > 1}};
    enum status st = STATUS_OK;
    if (!l->cost[slot]) {
        for (size_t k = 0; k < s->ops; k++)
            add_op(&u, s->op[k]);
        TRY(finish(&u));
        if (!(l->cost[slot] = malloc(sizeof u.c)))
            FAIL(STATUS_NOMEM, "cost of stage %u", stage);
        *l->cost[slot] = u.c;
        u.c.bucket = NULL;
    }
    *out = l->cost[slot];
out:
    free(u.c.bucket);
    return st;
}

void lowering_cost_free(struct lowering_cost *c)
{
    if (c)
        free(c->bucket);
    free(c);
}
