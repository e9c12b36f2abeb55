/* Turns the parts of an objective's result into the stages of a plan. */
#include "papers/command/objective_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/data/edges.h"
#include "core/data/model.h"
#include "core/data/topology.h"
#include "core/schedule/schedule.h"

enum { NONE = UINT32_MAX, MICROBATCHES = 8 };

struct conversion {
    const struct objective_plan_request *q;
    uint32_t *part_of;  /* [model->n] NONE: no part names the op */
    uint32_t *stage_of; /* [model->n] */
    uint32_t *part;     /* [parts] those with ops, in the order of the stages */
    uint32_t *place;    /* [result->parts] where a part stands in part[] */
    size_t parts, stages;
    struct arena memory;
};

/* ---- ops of the parts */

/* What the parts call an op. */
struct called {
    const char *text;
    uint32_t op;
};

/* The names that parts use: ids of nodes, names of nodes, or names of ops. Sorted. */
static enum status objective_plan_index_names(struct conversion *c, struct called **out, size_t *n)
{
    const struct objective_plan_request *q = c->q;
    const struct import_members *nodes = q->members;
    struct called *op, *node;
    PASS(ARENA_NEW(&c->memory, op, q->model->n));
    PASS(ARENA_NEW(&c->memory, node, nodes->n));
    for (uint32_t i = 0; i < q->model->n; i++)
        op[i] = (struct called){q->model->op[i].name, i};
    qsort(op, q->model->n, sizeof *op, order_by_name);
    *out = nodes->n ? node : op;
    *n = nodes->n ? nodes->n : q->model->n;
    for (size_t v = 0; v < nodes->n; v++) {
        const struct import_member *m = &nodes->member[v];
        const struct called key = {m->op, 0};
        const struct called *found = bsearch(&key, op, q->model->n, sizeof *op, order_by_name);
        node[v] = (struct called){q->objective->own_format    ? m->id
                                  : q->objective->nodes_apart ? m->node
                                                              : m->op,
                                  found ? found->op : NONE};
    }
    qsort(node, nodes->n, sizeof *node, order_by_name);
    return STATUS_OK;
}

static enum status objective_plan_find_parts(struct conversion *c)
{
    const struct objective_result *r = c->q->result;
    const struct model *m = c->q->model;
    struct called *name;
    size_t names;
    PASS(objective_plan_index_names(c, &name, &names));
    memset(c->part_of, 0xff, m->n * sizeof *c->part_of);
    for (uint32_t k = 0; k < r->parts; k++)
        for (size_t i = 0; i < r->part[k].ops; i++) {
            const struct called key = {r->part[k].op[i], 0};
            const struct called *found = bsearch(&key, name, names, sizeof *name, order_by_name);
            if (!found || found->op == NONE)
                return error_set(STATUS_INVALID,
                                 "%s has no op '%.80s', which part %u of the split lists",
                                 c->q->model_name, key.text, k);
            uint32_t *part = &c->part_of[found->op];
            if (*part != NONE && *part != k)
                return error_set(STATUS_INFEASIBLE,
                                 "parts %u and %u both have nodes of op '%s', but a plan puts each "
                                 "op into one stage",
                                 *part, k, m->op[found->op].name);
            *part = k;
        }
    return STATUS_OK;
}

/* ---- the order of the stages */

static void objective_plan_number(struct conversion *c, const uint32_t *order)
{
    for (uint32_t i = 0; i < c->q->result->parts; i++)
        if (c->q->result->part[order[i]].ops > 0) {
            c->place[order[i]] = (uint32_t)c->parts;
            c->part[c->parts++] = order[i];
        }
    c->stages = c->parts;
}

/* In the order of their first ops, ops of the model being in topological order. */
static void order_by_first_op(struct conversion *c, uint32_t *order)
{
    uint32_t known = 0;
    memset(c->place, 0xff, c->q->result->parts * sizeof *c->place);
    for (size_t i = 0; i < c->q->model->n; i++) {
        uint32_t part = c->part_of[i];
        if (part != NONE && c->place[part] == NONE)
            c->place[order[known++] = part] = 0;
    }
    for (uint32_t k = 0; k < c->q->result->parts; k++)
        if (c->place[k] == NONE)
            order[known++] = k;
}

/* Every op goes to the first chunk of its part that no producer's comes after; the chunks of all
 * parts have to take turns. */
static enum status cut_into_chunks(struct conversion *c, const struct model_edge *against)
{
    const struct model *m = c->q->model;
    bool *has;
    c->stages = 0;
    for (size_t i = 0; i < m->n; i++) {
        if (c->part_of[i] == NONE)
            continue;
        uint32_t stage = c->place[c->part_of[i]];
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            while (c->stage_of[m->in[k]] != NONE && stage < c->stage_of[m->in[k]])
                stage += (uint32_t)c->parts;
        c->stage_of[i] = stage;
        while (c->stages <= stage)
            c->stages += c->parts;
    }
    uint32_t lower = against->from < against->to ? against->from : against->to;
    PASS(ARENA_NEW(&c->memory, has, c->stages));
    for (size_t i = 0; i < m->n; i++)
        if (c->stage_of[i] != NONE)
            has[c->stage_of[i]] = true;
    for (size_t s = 0; s < c->stages; s++)
        if (!has[s])
            return error_set(
                STATUS_INFEASIBLE,
                "no plan can have this split: parts %u and %u read each other's outputs, so they "
                "need several stages, but then some stages would have no ops",
                lower, against->from + against->to - lower);
    return STATUS_OK;
}

static enum status objective_plan_order_parts(struct conversion *c)
{
    const struct model *m = c->q->model;
    size_t parts = c->q->result->parts, edges = 0, cyclic;
    uint32_t *order, *position;
    struct model_edge *edge;
    bool ascending = true;
    PASS(ARENA_NEW(&c->memory, order, parts));
    PASS(ARENA_NEW(&c->memory, position, parts));
    PASS(ARENA_NEW(&c->memory, edge, m->edges));
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++) {
            uint32_t from = c->part_of[m->in[k]], to = c->part_of[i];
            if (from == NONE || to == NONE || from == to)
                continue;
            edge[edges++] = (struct model_edge){from, to};
            ascending = ascending && from < to;
        }
    PASS(edges_order(parts, edge, edges, position, &cyclic));
    for (uint32_t k = 0; k < parts; k++)
        order[ascending || cyclic < edges ? k : position[k]] = k;
    if (cyclic < edges)
        order_by_first_op(c, order);
    objective_plan_number(c, order);
    memset(c->stage_of, 0xff, m->n * sizeof *c->stage_of);
    if (cyclic < edges)
        return cut_into_chunks(c, &edge[cyclic]);
    for (size_t i = 0; i < m->n; i++)
        if (c->part_of[i] != NONE)
            c->stage_of[i] = c->place[c->part_of[i]];
    return STATUS_OK;
}

/* Consumers first: an op that no part names joins the first stage that reads it, or, if none does,
 * the last one. */
static void place_others(struct conversion *c)
{
    const struct model *m = c->q->model;
    for (size_t i = m->n; i-- > 0;) {
        uint32_t first = (uint32_t)c->stages - 1;
        for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
            if (c->stage_of[m->out[k]] < first)
                first = c->stage_of[m->out[k]];
        if (c->stage_of[i] == NONE)
            c->stage_of[i] = first;
    }
}

/* ---- devices */

size_t objective_devices(const struct objective_result *r)
{
    size_t devices = 0;
    for (size_t k = 0; k < r->parts; k++)
        if (r->part[k].ops > 0)
            devices += (size_t)r->part[k].replicas * r->part[k].tensor_parallel;
    return devices;
}

/* Every part gets its devices once, and its later chunks the same ones. */
static enum status give_devices(const struct conversion *c, bool *taken, struct plan *p)
{
    const struct topology *t = c->q->topology;
    if (objective_devices(c->q->result) > t->n)
        return error_set(STATUS_INFEASIBLE,
                         "the parts of the split need %zu devices, but %s has %zu",
                         objective_devices(c->q->result), c->q->platform_name, t->n);
    uint32_t free_from = 0;
    for (size_t s = 0; s < c->parts; s++) {
        const struct objective_part *part = &c->q->result->part[c->part[s]];
        struct plan_stage *stage = &p->stage[s];
        uint32_t named = part->device ? topology_find(t, part->device) : NONE;
        if (part->device && named == NONE && !strncmp(part->device, "cpu", 3))
            return error_set(STATUS_INFEASIBLE,
                             "part %u is on a CPU, but a plan needs accelerators", c->part[s]);
        for (size_t k = 0; k < stage->devices; k++) {
            while (named == NONE && taken[free_from])
                free_from++;
            stage->device[k] = named == NONE ? free_from : named;
            taken[stage->device[k]] = true;
        }
    }
    for (size_t s = c->parts; s < c->stages; s++)
        memcpy(p->stage[s].device, p->stage[s - c->parts].device,
               p->stage[s].devices * sizeof *p->stage[s].device);
    return STATUS_OK;
}

/* ---- the plan */

static enum status objective_plan_fill_stages(struct conversion *c, struct plan *p, size_t *rounded)
{
    const struct model *m = c->q->model;
    PASS(ARRAY_NEW(p->stage, c->stages));
    *rounded = 0;
    for (p->stages = 0; p->stages < c->stages; p->stages++) {
        struct plan_stage *stage = &p->stage[p->stages];
        const struct objective_part *part = &c->q->result->part[c->part[p->stages % c->parts]];
        *stage =
            (struct plan_stage){.replicas = part->replicas,
                                .tensor_parallel = part->tensor_parallel,
                                .recompute = part->recompute ? RECOMPUTE_FULL : RECOMPUTE_NONE};
        stage->own = strategy_at_least_usual(&stage->own);
        stage->devices = (size_t)part->replicas * part->tensor_parallel;
        *rounded += part->recompute && !part->recompute_all;
        PASS(ARRAY_NEW(stage->device, stage->devices));
    }
    for (size_t i = 0; i < m->n; i++) /* published models make a stage again as a whole */
        p->stage[c->stage_of[i]].recompute_unit = (uint32_t)++p->stage[c->stage_of[i]].ops;
    for (size_t s = 0; s < p->stages; s++) {
        PASS(ARRAY_NEW(p->stage[s].op, p->stage[s].ops));
        p->stage[s].ops = 0;
        if (p->stage[s].recompute != RECOMPUTE_FULL)
            p->stage[s].recompute_unit = 1;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        struct plan_stage *stage = &p->stage[c->stage_of[i]];
        stage->op[stage->ops++] = i;
    }
    return STATUS_OK;
}

/* Microbatches that are not said: some, but no fewer than any stage has replicas; without flush as
 * many for each of them. */
static uint32_t objective_plan_usual_microbatches(const struct plan *p,
                                                  const struct schedule *schedule)
{
    uint32_t most = MICROBATCHES;
    if (schedule->asynchronous)
        return plan_even_microbatches(p, MICROBATCHES);
    for (size_t s = 0; s < p->stages; s++)
        most = p->stage[s].replicas > most ? p->stage[s].replicas : most;
    return most;
}

/* Behind objective_plan_fill_head(), which says the schedule. */
static enum status fill_counts(const struct conversion *c, struct plan *p)
{
    const struct objective_plan_request *q = c->q;
    const struct schedule *schedule;
    PASS(schedule_find(p->schedule, &schedule));
    p->microbatches = q->microbatches           ? q->microbatches
                      : q->result->microbatches ? (uint32_t)q->result->microbatches
                                                : objective_plan_usual_microbatches(p, schedule);
    p->microbatch_size = q->microbatch_size ? q->microbatch_size : 1;
    return STATUS_OK;
}

static enum status objective_plan_fill_head(const struct objective_plan_request *q,
                                            const char *schedule, struct plan *p)
{
    char algorithm[128];
    p->seed = q->seed;
    p->objective_s =
        q->objective->unit_s > 0 ? q->result->value * q->objective->unit_s : (double)NAN;
    snprintf(algorithm, sizeof algorithm, "%s/%s", q->objective->name, q->result->algorithm);
    PASS(text_copy(q->model_name, &p->model));
    PASS(text_copy(q->platform_name, &p->platform));
    PASS(text_copy(q->schedule ? q->schedule : schedule, &p->schedule));
    PASS(text_copy(q->optimizer, &p->optimizer));
    return text_copy(algorithm, &p->algorithm);
}

/* An objective that says itself what the plan does. */
static enum status own_plan(const struct objective_plan_request *q, struct plan *out)
{
    enum status st;
    struct plan p = {0};
    TRY(q->objective->plan(q->request, q->result, &p));
    TRY(objective_plan_fill_head(q, "gpipe", &p));
    TRY(plan_check(&p, q->model, q->topology));
    MOVE(out, p);
out:
    plan_free(&p);
    return st;
}

enum status objective_plan(const struct objective_plan_request *q, struct plan *out,
                           size_t *rounded)
{
    enum status st;
    struct conversion c = {.q = q};
    struct plan p = {0};
    bool *taken;
    *rounded = 0;
    if (q->objective->plan)
        return own_plan(q, out);
    TRY(ARENA_NEW(&c.memory, c.part_of, q->model->n));
    TRY(ARENA_NEW(&c.memory, c.stage_of, q->model->n));
    TRY(ARENA_NEW(&c.memory, c.part, q->result->parts));
    TRY(ARENA_NEW(&c.memory, c.place, q->result->parts));
    TRY(ARENA_NEW(&c.memory, taken, q->topology->n));
    TRY(objective_plan_find_parts(&c));
    TRY(objective_plan_order_parts(&c));
    place_others(&c);
    TRY(objective_plan_fill_stages(&c, &p, rounded));
    TRY(give_devices(&c, taken, &p));
    TRY(objective_plan_fill_head(q,
                                 c.stages > c.parts       ? "interleaved"
                                 : q->objective->schedule ? q->objective->schedule
                                                          : "1f1b",
                                 &p));
    TRY(fill_counts(&c, &p));
    TRY(plan_check(&p, q->model, q->topology));
    MOVE(out, p);
out:
    plan_free(&p);
    arena_free(&c.memory);
    return st;
}
