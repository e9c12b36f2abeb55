/* What strategies cost on a platform, and strategies as plans. */
#include <math.h>
#include <stdlib.h>

#include "core/collective/collective.h"
#include "core/cost/cost.h"
#include "papers/hidup/lowered.h"

/* Which collective a step is; COLLECTIVE_KINDS: none. */
static uint8_t to_plan_collective_of(enum form_step step)
{
    switch (step) {
    case STEP_ALLGATHER:
        return COLLECTIVE_ALLGATHER;
    case STEP_ALLREDUCE:
        return COLLECTIVE_ALLREDUCE;
    case STEP_REDUCESCATTER:
        return COLLECTIVE_REDUCESCATTER;
    case STEP_ALLTOALL:
        return COLLECTIVE_ALLTOALL;
    default:
        return COLLECTIVE_KINDS;
    }
}

/* Whole bytes of a tensor: of a parameter, or of one sample. */
static int64_t to_plan_bytes_of(const struct spmd_graph *g, uint32_t tensor)
{
    double bytes = spmd_bytes(g, tensor);
    return (int64_t)(spmd_is_parameter(g, tensor) ? bytes : bytes / (double)spmd_batch(g));
}

/* Closed forms of core/collective/collective.h, with as many ways out of nodes as engines see. */
static enum status closed_forms(const struct topology *t, size_t devices, size_t n,
                                const uint8_t *kind, const int64_t *bytes, double *seconds)
{
    enum status st;
    struct collective_group group = {0};
    uint32_t *device = NULL;
    TRY(ARRAY_NEW(device, devices));
    for (uint32_t k = 0; k < devices; k++)
        device[k] = k;
    TRY(collective_group_make(t, device, devices, &group));
    const struct collective_options o = {.nics = collective_nics(&group)};
    for (size_t k = 0; k < n; k++) {
        struct collective_shape shape = {0};
        enum collective_kind of = (enum collective_kind)kind[k];
        TRY(collective_shape_make(&group, of, collective_bytes(of, bytes[k], (int64_t)devices), &o,
                                  &shape));
        seconds[k] = shape.seconds;
        collective_shape_free(&shape);
    }
out:
    collective_group_free(&group);
    free(device);
    return st;
}

/* Bytes that a device keeps, at most, of a tensor that is trained. */
static double kept(const struct spmd_graph *g, uint32_t tensor, bool divided, size_t devices)
{
    double bytes = spmd_is_weight(g, tensor) ? spmd_bytes(g, tensor) : 0;
    return divided ? ceil(bytes / (double)devices) : bytes;
}

static void raise(double *seconds, double to_s)
{
    *seconds = to_s > *seconds ? to_s : *seconds;
}

/* A function's passes, and the updates of the parameters that it reads, on the slowest type of
 * device so far. */
static void tabulate_node(const struct spmd_graph *g, const struct spmd_platform *on,
                          const struct device_type *type, uint32_t node, struct spmd_table *out)
{
    const struct spmd_node *n = &g->node[node];
    uint32_t op = on->op_of[node];
    struct cost_split split[2] = {{.shards = 1, .sequence = 1, .experts = 1, .context = 1}};
    split[1] = split[0];
    split[1].shards = (uint32_t)on->devices;
    struct op_cost whole =
        cost_op(on->model, type, op, (double)on->samples, on->optimizer, &split[0]);
    for (int divided = 0; divided < 2; divided++) {
        struct op_cost c =
            cost_op(on->model, type, op, (double)on->samples, on->optimizer, &split[divided]);
        raise(&out->node_s[node][divided][0], op_cost_forward(&c));
        raise(&out->node_s[node][divided][1], op_cost_backward(&c));
        for (size_t k = 0; k < n->reads; k++)
            if (spmd_is_weight(g, n->read[k]))
                raise(&out->node_s[g->tensor[n->read[k]].node][divided][0],
                      whole.update_s * kept(g, n->read[k], divided, on->devices) /
                          (double)on->model->op[op].parameter_bytes);
    }
}

static void tabulate_nodes(const struct spmd_graph *g, const struct spmd_platform *on,
                           struct spmd_table *out)
{
    const struct topology *t = on->topology;
    for (uint32_t k = 0; k < on->devices; k++)
        if (k == 0 || t->type_of[k] != t->type_of[k - 1])
            for (uint32_t i = 0; i < g->nodes; i++)
                if (on->op_of[i] != MODEL_NO_OP)
                    tabulate_node(g, on, topology_type(t, k), i, out);
}

/* Different collectives that there may be, and how long they take. */
struct collectives {
    size_t n;
    uint8_t *kind;
    int64_t *bytes;
    double *seconds;
};

static size_t to_plan_find(const struct collectives *c, uint8_t kind, int64_t bytes)
{
    size_t k = 0;
    while (k < c->n && (c->kind[k] != kind || c->bytes[k] != bytes))
        k++;
    return k;
}

/* Bytes that steps of a tensor move, of one half of a batch or the whole. */
static int64_t to_plan_moved(const struct spmd_graph *g, const struct spmd_platform *on,
                             uint32_t tensor)
{
    return (spmd_is_parameter(g, tensor) ? 1 : (int64_t)on->samples) * to_plan_bytes_of(g, tensor);
}

static enum status to_plan_collect(const struct spmd_graph *g, const struct spmd_platform *on,
                                   struct arena *memory, struct collectives *c)
{
    PASS(ARENA_NEW(memory, c->kind, g->tensors * STEPS));
    PASS(ARENA_NEW(memory, c->bytes, g->tensors * STEPS));
    PASS(ARENA_NEW(memory, c->seconds, g->tensors * STEPS));
    for (uint32_t t = 0; t < g->tensors; t++)
        for (size_t step = 0; step < STEPS; step++) {
            uint8_t kind = to_plan_collective_of((enum form_step)step);
            int64_t bytes = to_plan_moved(g, on, t);
            if (kind == COLLECTIVE_KINDS || bytes == 0 || to_plan_find(c, kind, bytes) < c->n)
                continue;
            c->kind[c->n] = kind;
            c->bytes[c->n++] = bytes;
        }
    if (on->devices < 2)
        return STATUS_OK; /* all of them 0 */
    return (on->collectives ? on->collectives : closed_forms)(on->topology, on->devices, c->n,
                                                              c->kind, c->bytes, c->seconds);
}

/* What a member of a collective takes from the compute beside it, as lowering_charge() says, on the
 * type of device that loses most. */
static double taken_s(const struct spmd_platform *on, uint8_t kind, int64_t bytes)
{
    double n = (double)on->devices, most_s = 0;
    double messages = 2 * (n - 1) * (kind == COLLECTIVE_ALLREDUCE ? 2 : 1);
    bytes = collective_bytes((enum collective_kind)kind, bytes, (int64_t)on->devices);
    for (uint32_t k = 0; k < on->devices && kind != COLLECTIVE_KINDS && bytes > 0; k++) {
        const struct device_type *type = topology_type(on->topology, k);
        double seconds = messages * type->message_s;
        if (type->message_Bps > 0)
            seconds += messages * (double)bytes / n / type->message_Bps;
        raise(&most_s, seconds);
    }
    return most_s;
}

enum status spmd_tabulate(const struct spmd_graph *g, const struct spmd_platform *on,
                          struct arena *memory, struct spmd_table *out)
{
    struct collectives c = {0};
    if (on->devices > on->topology->n)
        return error_set(STATUS_INFEASIBLE, "got %zu devices, but the platform has %zu",
                         on->devices, on->topology->n);
    PASS(ARENA_NEW(memory, out->node_s, g->nodes));
    PASS(ARENA_NEW(memory, out->step_s, g->tensors));
    PASS(ARENA_NEW(memory, out->taken_s, g->tensors));
    tabulate_nodes(g, on, out);
    PASS(to_plan_collect(g, on, memory, &c));
    for (uint32_t t = 0; t < g->tensors; t++)
        for (size_t step = 0; step < STEPS; step++) {
            uint8_t kind = to_plan_collective_of((enum form_step)step);
            size_t k = to_plan_find(&c, kind, to_plan_moved(g, on, t));
            out->step_s[t][step] = k < c.n ? c.seconds[k] : 0;
            out->taken_s[t][step] = taken_s(on, kind, to_plan_moved(g, on, t));
        }
    return STATUS_OK;
}

/* ---- plans */

/* What a device keeps of the parameters that a node reads, in the forms that they have first. */
static int64_t keeps(const struct spmd_graph *g, const struct spmd_strategy *s, uint32_t node,
                     size_t devices)
{
    double bytes = 0;
    for (size_t k = 0; k < g->node[node].reads; k++) {
        uint32_t tensor = g->node[node].read[k];
        uint8_t form = s->chosen[g->tensor[tensor].node].made[0];
        bytes += kept(g, tensor, form_is_gather(form), devices);
    }
    return (int64_t)bytes;
}

static void add_move(const struct spmd_graph *g, const struct spmd_platform *on,
                     const struct spmd_move *m, struct plan_step *step)
{
    struct form_conversion conversion;
    if (!form_convert(m->from, m->to, &conversion))
        return;
    for (size_t i = 0; i < 2; i++) {
        enum form_step forward = conversion.step[i];
        struct plan_conversion c = {.forward = to_plan_collective_of(forward),
                                    .backward = to_plan_collective_of(form_conjugate(forward)),
                                    .shared = spmd_is_parameter(g, m->tensor),
                                    .bytes = to_plan_bytes_of(g, m->tensor),
                                    .tensor = on->part ? m->tensor : UINT32_MAX};
        if (c.forward != COLLECTIVE_KINDS || c.backward != COLLECTIVE_KINDS)
            step->conversion[step->conversions++] = c;
    }
}

static enum status fill_step(const struct spmd_graph *g, const struct spmd_strategy *s,
                             const struct spmd_platform *on, const struct spmd_stage *stage,
                             struct plan *p)
{
    struct plan_step *step = &p->step[p->steps++];
    PASS(ARRAY_NEW(step->conversion, 2 * stage->moves));
    for (size_t i = 0; i < stage->moves; i++)
        add_move(g, on, &stage->move[i], step);
    for (uint32_t n = stage->first; n < stage->first + stage->nodes; n++) {
        uint32_t op = on->op_of[n];
        if (op == MODEL_NO_OP)
            continue;
        step->ops++;
        p->shard[op] = (struct plan_shard){.work = !spmd_is_whole(&g->node[n], &s->chosen[n]),
                                           .output = form_is_gather(s->chosen[n].made[0]),
                                           .parameter_bytes = keeps(g, s, n, on->devices)};
    }
    return STATUS_OK;
}

enum status spmd_to_plan(const struct spmd_graph *g, const struct spmd_strategy *s,
                         const struct spmd_platform *on, struct plan *out)
{
    enum status st;
    struct plan p = {0};
    TRY(ARRAY_NEW(p.stage, 1));
    p.stages = 1;
    p.stage[0] = (struct plan_stage){
        .ops = on->model->n, .devices = on->devices, .tensor_parallel = (uint32_t)on->devices};
    p.stage[0].own = strategy_at_least_usual(&p.stage[0].own);
    TRY(ARRAY_NEW(p.stage[0].op, on->model->n));
    TRY(ARRAY_NEW(p.stage[0].device, on->devices));
    for (uint32_t i = 0; i < on->model->n; i++)
        p.stage[0].op[i] = i;
    for (uint32_t k = 0; k < on->devices; k++)
        p.stage[0].device[k] = k;
    TRY(ARRAY_NEW(p.step, s->stages));
    TRY(ARRAY_NEW(p.shard, on->model->n));
    for (size_t i = 0; i < s->stages; i++)
        TRY(fill_step(g, s, on, &s->stage[i], &p));
    if (on->part)
        TRY(spmd_to_operators(on->part, s, &p.operators));
    p.microbatch_size = (uint32_t)on->samples;
    p.microbatches = (uint32_t)((size_t)spmd_batch(g) / on->samples);
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}
