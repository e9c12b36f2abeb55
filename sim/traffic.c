/* Which algorithm each collective runs, and how many bytes each tier of the platform carries. */
#include "sim/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/engine/shapes.h"

/* Add a name to a list "a, b" that does not have it. */
static enum status traffic_list_name(char **list, const char *name)
{
    size_t before = *list ? strlen(*list) : 0, room = before + strlen(name) + 3;
    if (*list && strstr(*list, name))
        return STATUS_OK;
    char *larger = realloc(*list, room);
    if (!larger)
        return error_set(STATUS_NOMEM, "out of memory for the names of collective algorithms");
    snprintf(larger + before, room - before, "%s%s", before > 0 ? ", " : "", name);
    *list = larger;
    return STATUS_OK;
}

/* Name the algorithm, and the protocol where one is modelled, of every reported call that this
 * shape answers for. */
static enum status label(const struct program *p, const struct shaped *s, struct measurement *m)
{
    size_t members = p->device_start[s->group + 1] - p->device_start[s->group];
    char name[64];
    if (members < 2 || s->bytes == 0)
        return STATUS_OK; /* nothing moves */
    snprintf(name, sizeof name, "%s%s%s", s->shape.algorithm->name,
             s->shape.protocol == COLLECTIVE_IDEAL ? "" : " ",
             s->shape.protocol == COLLECTIVE_IDEAL ? ""
                                                   : collective_protocol_name[s->shape.protocol]);
    for (size_t k = 0; k < m->calls; k++)
        if (m->call[k].kind == s->kind && m->call[k].bytes == s->bytes &&
            m->call[k].members == members)
            PASS(traffic_list_name(&m->call[k].algorithm, name));
    return STATUS_OK;
}

/* Bytes between two devices, by tier. */
static void traffic_add_bytes(const struct topology *t, uint32_t from, uint32_t to, double bytes,
                              double *tier_bytes)
{
    tier_bytes[topology_map_at(&t->between, from, to)] += bytes;
}

/* Messages, with all that a folded program's stand for. */
static enum status traffic_count_messages(const struct program *p, const struct topology *t,
                                          double *tier_bytes)
{
    double *bytes;
    PASS(ARRAY_NEW(bytes, p->channels + 1));
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_SEND)
            bytes[p->op[i].channel] += (double)p->op[i].bytes;
    for (size_t c = 0; c < p->channels; c++) {
        const struct program_channel own = {p->rank[p->channel[c].from].device,
                                            p->rank[p->channel[c].to].device};
        const struct program_copies *x = &p->copies;
        const struct program_channel *copy = p->folded ? &x->channel[x->channel_start[c]] : &own;
        size_t n = p->folded ? x->channel_start[c + 1] - x->channel_start[c] : 1;
        for (size_t k = 0; k < n; k++)
            traffic_add_bytes(t, copy[k].from, copy[k].to, bytes[c], tier_bytes);
    }
    free(bytes);
    return STATUS_OK;
}

/* The flows of a collective, in all the groups that its own stands for. */
static void traffic_add_flows(const struct program *p, const struct topology *t,
                              const struct shaped *s, const struct collective_shape *shape,
                              double *tier_bytes)
{
    for (size_t copy = 0; copy < program_group_copies(p, s->group); copy++) {
        const uint32_t *device = program_group_devices(p, s->group, copy);
        for (size_t f = 0; f < shape->flows; f++) {
            const struct collective_flow *flow = &shape->flow[f];
            traffic_add_bytes(t, device[flow->from], device[flow->to], s->calls * flow->bytes,
                              tier_bytes);
        }
    }
}

/* The bytes that are moved, not those that stand for what is lost. */
static enum status add_collective(const struct program *p, const struct topology *t,
                                  const struct shapes *all, const struct shaped *s,
                                  double *tier_bytes)
{
    struct collective_shape moved = {0};
    if (s->shape.lengthened)
        PASS(shapes_moved(all, s, &moved));
    traffic_add_flows(p, t, s, s->shape.lengthened ? &moved : &s->shape, tier_bytes);
    collective_shape_free(&moved);
    return STATUS_OK;
}

/* Every pair of devices, of all copies, belongs to one tier; its bytes count there. */
enum status traffic_examine(const struct program *p, const struct topology *t,
                            const struct collective_options *options, struct measurement *m,
                            double *tier_bytes)
{
    enum status st;
    struct shapes shapes = {0};
    TRY(shapes_make(p, t, options, &shapes));
    for (size_t k = 0; k < shapes.n; k++)
        TRY(label(p, &shapes.shaped[k], m));
    memset(tier_bytes, 0, t->tiers * sizeof *tier_bytes);
    for (size_t k = 0; k < shapes.n; k++)
        TRY(add_collective(p, t, &shapes, &shapes.shaped[k], tier_bytes));
    TRY(traffic_count_messages(p, t, tier_bytes));
out:
    shapes_free(&shapes);
    return st;
}
