/* Each distinct collective of a program is shaped once: a list per group, searched by kind and
 * size, since a group rarely has more than a handful. */
#include "core/engine/shapes.h"

#include "core/base/array.h"
#include "core/base/order.h"

#include <math.h>
#include <stdlib.h>

/* The shape that op `o` shares with earlier ones of its group, NULL when it is the first of its
 * kind and size. */
static struct shaped *shapes_find(const struct shapes *s, const struct program_op *o)
{
    for (uint32_t k = s->first[o->peer]; k != PROGRAM_NONE; k = s->shaped[k].next)
        if (s->shaped[k].kind == o->kind && s->shaped[k].bytes == o->bytes)
            return &s->shaped[k];
    return NULL;
}

size_t shapes_number(const struct shapes *s, const struct program_op *o)
{
    return (size_t)(shapes_find(s, o) - s->shaped);
}

static bool are_ordered(const struct collective_flow *flow, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (order_by_pair(&flow[i - 1], &flow[i]) > 0)
            return false;
    return true;
}

/* Rings side by side take the same way inside a node: one flow for all bytes of a phase between
 * two of the members. */
static enum status merge_flows(struct collective_shape *s, size_t members)
{
    size_t kept = 0;
    for (size_t k = 0; k < s->phases; k++) {
        size_t first = kept, n = s->phase[k].flow_end - s->phase[k].flow_start;
        struct collective_flow *flow = s->flow + s->phase[k].flow_start;
        if (!are_ordered(flow, n))
            PASS(order_pairs(flow, n, sizeof *flow, (uint32_t)members));
        for (size_t i = 0; i < n; i++)
            if (kept > first && order_by_pair(&s->flow[kept - 1], &flow[i]) == 0)
                s->flow[kept - 1].bytes += flow[i].bytes;
            else
                s->flow[kept++] = flow[i];
        s->phase[k].flow_start = first;
        s->phase[k].flow_end = kept;
    }
    s->flows = kept;
    return STATUS_OK;
}

/* Between a device and its host: nobody shares that way, so all of it is latency. */
static enum status shape_copy(const struct device_type *type, int64_t bytes,
                              struct collective_shape *out)
{
    *out = (struct collective_shape){.phases = 1};
    PASS(ARRAY_NEW(out->phase, 1));
    out->seconds = out->phase[0].latency_s = (double)bytes / device_host_Bps(type);
    return STATUS_OK;
}

/* The algorithm's flows, over as many ways out of the nodes as the platform has. */
static enum status shapes_make_one(const struct collective_group *g, uint8_t kind, int64_t bytes,
                                   const struct collective_options *options,
                                   struct collective_shape *out)
{
    struct collective_options with = *options;
    if (kind == OP_COPY)
        return shape_copy(topology_type(g->topology, g->device[0]), bytes, out);
    if (with.nics == 0)
        with.nics = collective_nics(g);
    PASS(collective_shape_make(g, op_collective[kind], bytes, &with, out));
    enum status st = merge_flows(out, g->n);
    if (st != STATUS_OK)
        collective_shape_free(out);
    return st;
}

enum status shapes_moved(const struct shapes *s, const struct shaped *shaped,
                         struct collective_shape *out)
{
    struct collective_options with = s->options;
    const struct collective_algorithm *a = shaped->shape.algorithm;
    with.algorithm = a == &collective_file ? NULL : a->name;
    return shapes_make_one(&s->group[shaped->group], shaped->kind, shaped->bytes, &with, out);
}

/* Shape the collective of op `o` and put it in front of its group's list. The group itself
 * (which member is on which node) is made when its first collective is met. */
static enum status shapes_add(struct shapes *s, const struct program *p, const struct topology *t,
                              const struct program_op *o, struct shaped **out)
{
    struct collective_group *g = &s->group[o->peer];
    PASS(ARRAY_ROOM(s->shaped, s->n));
    if (g->n == 0) {
        size_t first = p->device_start[o->peer];
        PASS(collective_group_make(t, p->device + first, p->device_start[o->peer + 1] - first, g));
    }
    struct shaped *new = &s->shaped[s->n];
    *new = (struct shaped){
        .group = o->peer, .next = s->first[o->peer], .kind = o->kind, .bytes = o->bytes};
    PASS(shapes_make_one(g, o->kind, o->bytes, &s->options, &new->shape));
    s->first[o->peer] = (uint32_t)s->n++;
    *out = new;
    return STATUS_OK;
}

enum status shapes_make(const struct program *p, const struct topology *t,
                        const struct collective_options *options, struct shapes *out)
{
    enum status st = STATUS_OK;
    struct shapes s = {.groups = p->groups};
    if (options)
        s.options = *options;
    s.options.attained |= p->attained;
    TRY(ARRAY_NEW(s.group, p->groups + 1));
    TRY(ARRAY_NEW(s.first, p->groups + 1));
    for (size_t g = 0; g < p->groups; g++)
        s.first[g] = PROGRAM_NONE;
    for (size_t g = 0; g < p->groups; g++) { /* every member says the same */
        uint32_t rank = p->member[p->group_start[g]];
        for (size_t i = p->op_start[rank]; i < p->op_start[rank + 1]; i++) {
            const struct program_op *o = &p->op[i];
            if (!op_is_collective(o) || o->peer != g)
                continue;
            struct shaped *known = shapes_find(&s, o);
            if (!known)
                TRY(shapes_add(&s, p, t, o, &known));
            known->calls += o->count;
        }
    }
    MOVE(out, s);
out:
    shapes_free(&s);
    return st;
}

/* Latencies are sums in one order: equal ways have equal ones but for rounding. */
static bool shapes_is_same(const struct collective_shape *a, const struct collective_shape *b)
{
    if (a->phases != b->phases || a->flows != b->flows)
        return false;
    for (size_t k = 0; k < a->phases; k++) {
        const struct collective_phase *x = &a->phase[k], *y = &b->phase[k];
        if (x->flow_end != y->flow_end ||
            !(fabs(x->latency_s - y->latency_s) <= 1e-12 * x->latency_s))
            return false;
    }
    for (size_t f = 0; f < a->flows; f++) {
        const struct collective_flow *x = &a->flow[f], *y = &b->flow[f];
        if (x->from != y->from || x->to != y->to ||
            !(fabs(x->bytes - y->bytes) <= 1e-12 * x->bytes))
            return false;
    }
    return true;
}

enum status shapes_fit(const struct shapes *s, uint32_t g, const struct topology *t,
                       const uint32_t *devices, bool *fit)
{
    enum status st = STATUS_OK;
    struct collective_group group = {0};
    struct collective_shape other = {0};
    bool same = true;
    if (s->group[g].n > 0)
        TRY(collective_group_make(t, devices, s->group[g].n, &group));
    for (uint32_t k = s->first[g]; k != PROGRAM_NONE && same; k = s->shaped[k].next) {
        collective_shape_free(&other);
        TRY(shapes_make_one(&group, s->shaped[k].kind, s->shaped[k].bytes, &s->options, &other));
        same = shapes_is_same(&s->shaped[k].shape, &other);
    }
    *fit = same;
out:
    collective_shape_free(&other);
    collective_group_free(&group);
    return st;
}

void shapes_free(struct shapes *s)
{
    for (size_t g = 0; s->group && g < s->groups; g++)
        collective_group_free(&s->group[g]);
    for (size_t k = 0; k < s->n; k++)
        collective_shape_free(&s->shaped[k].shape);
    free(s->group);
    free(s->first);
    free(s->shaped);
    *s = (struct shapes){0};
}
