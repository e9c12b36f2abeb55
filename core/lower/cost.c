/* What a stage costs one of its ranks: seconds, bytes, and the collectives inside. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/cost/cost.h"
#include "core/cost/cost_profile.h"
#include "core/lower/summing.h"
#include "core/strategy/framework.h"

/* Calls are merged into one op of the program: their number and, in the end, their mean size. */
void sum_add_call(struct lowering_calls *calls, uint32_t count, int64_t bytes)
{
    calls->count += count;
    calls->bytes += count * bytes; /* the sum, until all are known */
}

struct sum_bytes sum_of_shards(const struct stage_sum *u, uint32_t op)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[op];
    int64_t samples = u->l->plan->microbatch_size, in = 0, parts = u->split.context;
    struct sum_bytes sum = {0};
    if (u->split.shards < 2 || u->sums_measured)
        return sum;
    if (o->tensor == TENSOR_ROW)
        sum.forward = samples * o->output_bytes / parts;
    for (size_t k = m->in_start[op]; k < m->in_start[op + 1]; k++)
        in += m->op[m->in[k]].output_bytes;
    /* experts: both products in one op */
    bool column = o->tensor == TENSOR_COLUMN || (o->tensor == TENSOR_ROW && o->exchange_bytes > 0);
    if (column)
        sum.backward = samples * in / parts;
    return sum;
}

/* Collectives inside the stage that op adds to a pass, Shoeybi et al. 2019 (arXiv:1909.08053,
 * section 3) for tensor parallelism; bytes are of all samples of a microbatch, in the numbers that
 * the plan says sums are made of, and of the part of their tokens that a replica has:
 *   row-parallel      its output (samples, output) is reduced in the forward
 *   column-parallel   the gradient of its inputs is reduced in the backward
 *   divided loss      three fp32 numbers of each row and shard, in the forward
 *   experts           tokens to their experts and back, each twice when the forward is recomputed;
 *                     parts are as long as those of the busiest rank; of what a framework hides
 *                     behind other microbatches only the rest is sent
 * With sequence parallelism what is reduced is scattered over the shards, and what it is the
 * gradient of, or has as gradient, is gathered in the other pass: inputs of column-parallel ops
 * forward, gradients of outputs of row-parallel ones backward (Korthikanti et al., MLSys 2023,
 * section 4.2.2).
 */
static void add_calls(struct stage_sum *u, uint32_t op, const struct cost_part *part)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[op];
    int64_t samples = u->l->plan->microbatch_size;
    bool twice = u->l->shape.unit[op] > 0; /* the forward runs in the backward too */
    int64_t parts = u->split.context;
    struct sum_bytes sum = sum_of_shards(u, op);
    bool summed = u->split.shards > 1 && !u->sums_measured;
    if (summed && o->tensor == TENSOR_ROW) {
        sum_add_call(&u->c.forward_sum, 1, sum.forward);
        sum_add_call(&u->c.backward_gather, 1, sum.forward);
        if (twice)
            sum_add_call(&u->c.backward_sum, 1, sum.forward);
    }
    /* a loss over divided classes: every shard tells what it has of each row, three numbers */
    bool last = m->out_start[op] == m->out_start[op + 1];
    if (summed && o->tensor == TENSOR_SPLIT && last) {
        int64_t rows = samples * (int64_t)(m->tokens_per_sample > 1 ? m->tokens_per_sample : 1);
        int64_t bytes = 3 * 4 * rows / parts * u->split.shards;
        sum_add_call(&u->c.forward_sum, 1, bytes);
        sum_add_call(&u->c.forward_gather, 1, bytes);
        if (twice)
            sum_add_call(&u->c.backward_sum, 1, bytes);
        if (twice)
            sum_add_call(&u->c.backward_gather, 1, bytes);
    }
    if (sum.backward > 0) {
        sum_add_call(&u->c.backward_sum, 1, sum.backward);
        sum_add_call(&u->c.forward_gather, 1, sum.backward);
        if (twice)
            sum_add_call(&u->c.backward_gather, 1, sum.backward);
    }
    if (cost_spreads(&u->split, o)) {
        const struct framework *f = u->split.framework;
        double exposed = part->load * (f ? 1 - f->exchange_hidden : 1);
        int64_t bytes =
            (int64_t)(exposed * (double)(samples * o->exchange_bytes / parts / u->split.sequence));
        sum_add_call(&u->c.forward_experts, 2, bytes);
        sum_add_call(&u->c.backward_experts, twice ? 4 : 2, bytes);
    }
}

double sum_again(const struct stage_sum *u, uint32_t op, double again_s)
{
    if (u->l->shape.unit[op] > 0)
        return again_s;
    struct plan_part part = plan_part_again(u->s, u->l->model, op);
    return part.flop > 0
               ? cost_again(u->l->model, u->type, op, &part, u->l->plan->microbatch_size, &u->split)
               : 0;
}

/* The op's part of each pass, as the host issues it. */
static void add_passes(struct stage_sum *u, uint32_t op, const struct op_cost *cost)
{
    bool again = u->l->shape.unit[op] > 0;
    cost_pass_forward(&u->forward, cost->forward_s, cost->forward_host_s);
    cost_pass_backward(&u->backward, cost->backward_s, cost->backward_host_s);
    cost_pass_forward(&u->again, sum_again(u, op, cost->again_s), again ? cost->forward_host_s : 0);
}

/* An op's seconds and bytes. A backward in two halves: the gradients of the weights are one of the
 * two products of equal size that a backward consists of; an embedding has only those. */
static void lowering_cost_add_op(struct stage_sum *u, size_t k)
{
    uint32_t op = u->s->op[k];
    const struct model_op *o = &u->l->model->op[op];
    struct cost_part part = cost_part(o, &u->split);
    struct op_cost cost = sum_cost(u, op);
    struct lowering_cost *c = &u->c;
    add_passes(u, op, &cost);
    c->update_s += cost.update_s;
    if (o->sparse) /* an embedding: nothing comes before it */
        c->weight_s += cost.backward_s;
    else if (o->parameter_bytes + o->shared_bytes > 0)
        c->weight_s += cost.backward_s / 2; /* two products of equal size */
    sum_add_memory(u, k, &part);
    add_calls(u, op, &part);
    sum_add_context(u, op, &cost, u->l->shape.unit[op] > 0 ? &c->context.backward : NULL,
                    &c->context);
    sum_add_products(u, op, &cost, u->l->shape.unit[op] > 0, &c->context);
}

void sum_mean(struct lowering_calls *calls)
{
    if (calls->count > 0)
        calls->bytes /= calls->count;
}

/* What an iteration takes beside its passes is the last thing that a rank does, once. */
static double step_s(const struct stage_sum *u)
{
    const struct framework *f = u->split.framework;
    return f ? f->step_s * fitted_times(u->type->fitted.host) / plan_chunks(u->l->plan) : 0;
}

static double waits_of(double device_s, double pass_s)
{
    return pass_s > device_s ? 1 - device_s / pass_s : 0;
}

/* What follows once all ops have been added up. */
static enum status lowering_cost_finish(struct stage_sum *u)
{
    struct lowering_cost *c = &u->c;
    c->slowdown = u->type->slowdown;
    c->forward_s = u->forward.pass_s;
    c->recompute_s = u->again.pass_s;
    c->backward_s = u->backward.pass_s + c->recompute_s;
    c->forward_waits = waits_of(u->forward.device_s, c->forward_s);
    c->backward_waits = waits_of(u->backward.device_s + u->again.device_s, c->backward_s);
    c->weight_s *= cost_pass_stretch(&u->backward);
    c->input_s = c->backward_s - c->weight_s;
    sum_mean(&c->forward_sum);
    sum_mean(&c->backward_sum);
    sum_mean(&c->forward_gather);
    sum_mean(&c->backward_gather);
    sum_mean(&c->forward_experts);
    sum_mean(&c->backward_experts);
    PASS(sum_make_buckets(u));
    sum_mean_context(&c->context);
    PASS(sum_finish_memory(u));
    c->update_s += step_s(u);
    return STATUS_OK;
}

static enum status make_cost(struct lowering *l, uint32_t stage, const struct device_type *type,
                             struct lowering_cost **out)
{
    const struct plan_stage *s = &l->plan->stage[stage];
    struct stage_sum u = {
        .l = l, .stage = stage, .s = s, .type = type, .split = cost_split_of(l->plan, s)};
    enum status st = STATUS_OK;
    TRY(ARRAY_NEW(u.stash, 2 * s->ops));
    u.stays = u.stash + s->ops;
    u.key = (struct op_costs_key){type, l->plan->microbatch_size, l->plan->optimizer, u.split};
    op_costs_begin(l->costs, &u.key);
    u.sums_measured = profile_has_sums(l->model, type, u.split.shards);
    for (size_t k = 0; k < s->ops; k++)
        lowering_cost_add_op(&u, k);
    TRY(lowering_cost_finish(&u));
    if (!(*out = malloc(sizeof u.c)))
        FAIL(STATUS_NOMEM, "out of memory for the costs of stage %u", stage);
    **out = u.c;
    u.c.bucket = NULL;
out:
    free(u.stash);
    free(u.c.bucket);
    return st;
}

/* ---- stages that are alike */

/* Are lists of neighbours in the model the same, but for how far apart the ops are? */
static bool same_neighbours(const uint32_t *a, size_t n, const uint32_t *b, size_t m, uint32_t by)
{
    bool same = n == m;
    for (size_t k = 0; same && k < n; k++)
        same = b[k] - a[k] == by;
    return same;
}

/* Is the k-th op of both stages the same in all that make_cost() asks of it? */
static bool same_op(const struct lowering *l, const struct plan_stage *x,
                    const struct plan_stage *y, size_t k)
{
    const struct model *m = l->model;
    uint32_t a = x->op[k], b = y->op[k], by = y->op[0] - x->op[0];
    if (b - a != by || op_costs_like(l->costs, a) != op_costs_like(l->costs, b) ||
        l->shape.unit[a] != l->shape.unit[b] || l->shape.kept[a] != l->shape.kept[b] ||
        m->op[a].shares != MODEL_NO_OP || m->op[b].shares != MODEL_NO_OP ||
        (k > 0 && model_same_layer(m, a, x->op[k - 1]) != model_same_layer(m, b, y->op[k - 1])) ||
        (x->recompute_modules > 0 && strcmp(model_in_layer(m, a), model_in_layer(m, b)) != 0))
        return false;
    size_t in = m->in_start[a], other = m->in_start[b], n = m->in_start[a + 1] - in,
           out = m->out_start[a], beside = m->out_start[b];
    for (size_t e = 0; e < n && other + e < m->in_start[b + 1]; e++)
        if (op_costs_like(l->costs, m->in[in + e]) != op_costs_like(l->costs, m->in[other + e]))
            return false;
    return same_neighbours(m->in + in, n, m->in + other, m->in_start[b + 1] - other, by) &&
           same_neighbours(m->out + out, m->out_start[a + 1] - out, m->out + beside,
                           m->out_start[b + 1] - beside, by);
}

/* Do as many bytes come and go? */
static bool same_edges(const struct lowering_shape *s, uint32_t a, uint32_t b)
{
    size_t in = s->in_start[a], n = s->in_start[a + 1] - in, out = s->out_start[a],
           m = s->out_start[a + 1] - out;
    bool same =
        n == s->in_start[b + 1] - s->in_start[b] && m == s->out_start[b + 1] - s->out_start[b];
    for (size_t k = 0; same && k < n; k++)
        same = s->edge[s->in[in + k]].bytes == s->edge[s->in[s->in_start[b] + k]].bytes;
    for (size_t k = 0; same && k < m; k++)
        same = s->edge[out + k].bytes == s->edge[s->out_start[b] + k].bytes;
    return same;
}

/* Stages of equal layers cost the same: the ops of one are those of the other, further on. */
static bool lowering_stages_alike(const struct lowering *l, uint32_t a, uint32_t b)
{
    const struct plan_stage *x = &l->plan->stage[a], *y = &l->plan->stage[b];
    bool same = x->ops == y->ops && same_edges(&l->shape, a, b) &&
                !strategy_differs(STRATEGY_STAGE, UINT64_MAX, &x->own, &y->own);
    for (size_t k = x->ops; same && k-- > 0;) /* they end differently, if at all */
        same = same_op(l, x, y, k);
    return same;
}

/* The cost of the nearest stage that is alike, of those few whose costs are known; NULL: of none.
 * cost[stage * types] */
static const struct lowering_cost *cost_of_alike(const struct lowering *l, uint32_t stage,
                                                 struct lowering_cost *const *cost)
{
    enum { MOST_LOOKS = 4 };
    uint32_t stages = (uint32_t)l->plan->stages;
    size_t types = l->topology->types;
    for (uint32_t far = 1, looks = 0; l->costs && far < stages && looks < MOST_LOOKS; far++)
        for (int up = 0; up < 2; up++) {
            uint32_t other = up ? stage + far : stage - far; /* wraps below 0 */
            if (other >= stages || !cost[other * types])
                continue;
            looks++;
            if (lowering_stages_alike(l, other, stage))
                return cost[other * types];
        }
    return NULL;
}

static enum status copy_cost(const struct lowering_cost *c, struct lowering_cost **out)
{
    enum status st;
    struct lowering_cost *copy = NULL;
    TRY(ARRAY_COPY(copy, c, 1));
    copy->bucket = NULL;
    TRY(ARRAY_COPY(copy->bucket, c->bucket, c->buckets));
    *out = copy;
    copy = NULL;
out:
    lowering_cost_free(copy);
    return st;
}

/* Devices of one type cost the same: one entry per stage and type. */
enum status lowering_cost(struct lowering *l, uint32_t stage, uint32_t device,
                          const struct lowering_cost **out)
{
    uint32_t type = l->topology->type_of[device];
    struct lowering_cost **kept = &l->cost[stage * l->topology->types + type];
    if (!*kept) {
        const struct lowering_cost *alike = cost_of_alike(l, stage, l->cost + type);
        PASS(alike ? copy_cost(alike, kept)
                   : make_cost(l, stage, topology_type(l->topology, device), kept));
    }
    *out = *kept;
    return STATUS_OK;
}

void lowering_cost_free(struct lowering_cost *c)
{
    if (c)
        free(c->bucket);
    free(c);
}
