/* Lower bounds of an iteration: sums over ranks and links, and the longest path when nobody ever
 * shares anything. No engine's code is used, so that it is a check of them all. */
#include "core/engine/floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/ready.h"
#include "core/data/routes.h"
#include "core/engine/pairs.h"

const char *const floor_cause_names[FLOOR_CAUSES] = {"compute", "link", "path"};

struct floor_state {
    const struct program *p;
    const struct topology *t;
    struct shapes shapes;
    struct pair_bytes *pair; /* [pairs] */
    size_t pairs;
    double *latency_s, *pace; /* [pairs] of a message alone; seconds per byte */
    double *shape_s;          /* [shapes.n] of one call alone */
    double *end;              /* [ops] NAN: not known yet */
    double *ready_s;          /* [ops] of collectives whose other members are not there yet; < 0 */
    size_t *at;               /* [ranks] next op */
    double *compute_s;        /* [ranks] end of the last compute op */
    double *channel_s, *group_s; /* when each is free */
    size_t *arrived;             /* [groups] members that wait */
    struct ready ready;
};

static void state_free(struct floor_state *s)
{
    shapes_free(&s->shapes);
    free(s->pair);
    free(s->latency_s);
    free(s->pace);
    free(s->shape_s);
    free(s->end);
    free(s->ready_s);
    free(s->at);
    free(s->compute_s);
    free(s->channel_s);
    free(s->group_s);
    free(s->arrived);
    ready_free(&s->ready);
}

/* ---- links */

/* Bytes over each link, and the narrowest link of each pair. */
static enum status floor_load_links(struct floor_state *s, struct floor *out)
{
    enum status st;
    struct device_pair *way = NULL;
    struct routes routes = {0};
    double *bytes = NULL;
    TRY(ARRAY_NEW(way, s->pairs));
    TRY(ARRAY_NEW(bytes, s->t->links));
    for (size_t k = 0; k < s->pairs; k++)
        way[k] = (struct device_pair){s->pair[k].from, s->pair[k].to};
    TRY(topology_routes(s->t, s->pairs, way, &routes));
    for (size_t k = 0; k < s->pairs; k++) {
        const struct topology_tier *tier = topology_between(s->t, s->pair[k].from, s->pair[k].to);
        s->latency_s[k] = tier->latency_s;
        s->pace[k] = s->t->links > 0 ? 0 : 1 / tier->bandwidth_Bps;
        for (size_t h = routes.start[k]; h < routes.start[k + 1]; h++) {
            const struct topology_link *link = &s->t->link[routes.link[h]];
            s->pace[k] = fmax(s->pace[k], 1 / link->bandwidth_Bps);
            if (!link->fat)
                bytes[routes.link[h]] += s->pair[k].bytes;
        }
    }
    for (uint32_t l = 0; l < s->t->links; l++) {
        double seconds = bytes[l] / s->t->link[l].bandwidth_Bps;
        if (seconds > out->cause_s[FLOOR_LINK]) {
            out->cause_s[FLOOR_LINK] = seconds;
            out->link = l;
        }
    }
out:
    routes_free(&routes);
    free(bytes);
    free(way);
    return st;
}

/* The flows of a phase side by side, its latency after them. */
static double shape_seconds(const struct floor_state *s, const struct shaped *shaped)
{
    const struct collective_shape *shape = &shaped->shape;
    const uint32_t *device = s->p->device + s->p->device_start[shaped->group];
    double sum = 0;
    for (size_t k = 0; k < shape->phases; k++) {
        double longest = 0;
        for (size_t f = shape->phase[k].flow_start; f < shape->phase[k].flow_end; f++) {
            const struct collective_flow *flow = &shape->flow[f];
            size_t pair = pairs_find(s->pair, s->pairs, device[flow->from], device[flow->to]);
            longest = fmax(longest, flow->bytes * s->pace[pair]);
        }
        sum += longest + shape->phase[k].latency_s;
    }
    return sum;
}

/* ---- the longest path */

/* When all that op i depends on has ended. */
static double ready_at(const struct floor_state *s, size_t i)
{
    double when = 0;
    for (uint32_t d = s->p->op[i].dep_start; d < s->p->op[i + 1].dep_start; d++)
        when = fmax(when, s->end[s->p->dep[d]]);
    return when;
}

/* True when the collective's end is known. */
static bool floor_add_collective(struct floor_state *s, size_t i)
{
    const struct program *p = s->p;
    const struct program_op *o = &p->op[i];
    if (!isnan(s->end[i]))
        return true;
    if (s->ready_s[i] < 0) {
        s->ready_s[i] = ready_at(s, i);
        s->arrived[o->peer]++;
    }
    if (s->arrived[o->peer] < p->group_start[o->peer + 1] - p->group_start[o->peer])
        return false;
    s->arrived[o->peer] = 0;
    double end = s->group_s[o->peer];
    size_t j = i;
    do
        end = fmax(end, s->ready_s[j]);
    while ((j = p->op[j].match) != i);
    end += o->count * s->shape_s[shapes_number(&s->shapes, o)];
    s->group_s[o->peer] = end;
    do {
        s->end[j] = end;
        ready_put(&s->ready, program_rank_of(p, j));
    } while ((j = p->op[j].match) != i);
    return true;
}

/* Messages of a channel leave one after the other. */
static void floor_add_message(struct floor_state *s, uint32_t rank, size_t i)
{
    const struct program_op *o = &s->p->op[i];
    size_t pair =
        pairs_find(s->pair, s->pairs, s->p->rank[rank].device, s->p->rank[o->peer].device);
    double sent = fmax(ready_at(s, i), s->channel_s[o->channel]) + (double)o->bytes * s->pace[pair];
    s->channel_s[o->channel] = sent;
    s->end[i] = sent;
    s->end[o->match] = sent + s->latency_s[pair];
    if (s->at[o->peer] == o->match)
        ready_put(&s->ready, o->peer);
}

/* The ops of a rank in their order, as far as what they depend on is known. */
static void floor_advance(struct floor_state *s, uint32_t rank)
{
    const struct program *p = s->p;
    for (size_t i = s->at[rank]; i < p->op_start[rank + 1]; s->at[rank] = ++i) {
        const struct program_op *o = &p->op[i];
        if (op_computes(o))
            s->compute_s[rank] = s->end[i] = fmax(ready_at(s, i), s->compute_s[rank]) + o->seconds;
        else if (o->kind == OP_SEND)
            floor_add_message(s, rank, i);
        else if (o->kind == OP_RECV ? isnan(s->end[i]) : !floor_add_collective(s, i))
            return;
    }
}

static enum status floor_prepare(struct floor_state *s)
{
    const struct program *p = s->p;
    PASS(ARRAY_NEW(s->latency_s, s->pairs));
    PASS(ARRAY_NEW(s->pace, s->pairs));
    PASS(ARRAY_NEW(s->shape_s, s->shapes.n));
    PASS(ARRAY_NEW(s->end, p->ops));
    PASS(ARRAY_NEW(s->ready_s, p->ops));
    PASS(ARRAY_NEW(s->at, p->ranks));
    PASS(ARRAY_NEW(s->compute_s, p->ranks));
    PASS(ARRAY_NEW(s->channel_s, p->channels));
    PASS(ARRAY_NEW(s->group_s, p->groups));
    PASS(ARRAY_NEW(s->arrived, p->groups));
    PASS(ready_init(&s->ready, (uint32_t)p->ranks));
    memcpy(s->at, p->op_start, p->ranks * sizeof *s->at);
    for (size_t i = 0; i < p->ops; i++) {
        s->end[i] = NAN;
        s->ready_s[i] = -1;
    }
    return STATUS_OK;
}

/* The longest path: every message and collective alone on the network. */
static void find_path(struct floor_state *s, struct floor *out)
{
    uint32_t rank;
    for (size_t k = 0; k < s->shapes.n; k++)
        s->shape_s[k] = shape_seconds(s, &s->shapes.shaped[k]);
    for (uint32_t r = 0; r < s->p->ranks; r++)
        ready_put(&s->ready, r);
    while (ready_take(&s->ready, &rank))
        floor_advance(s, rank);
    for (size_t i = 0; i < s->p->ops; i++)
        out->cause_s[FLOOR_PATH] = fmax(out->cause_s[FLOOR_PATH], s->end[i]);
}

/* The rank that computes longest: it cannot do two things at once. */
static void find_busiest(const struct program *p, struct floor *out)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        double busy_s = 0;
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            busy_s += op_computes(&p->op[i]) ? p->op[i].seconds : 0;
        if (busy_s > out->cause_s[FLOOR_COMPUTE]) {
            out->cause_s[FLOOR_COMPUTE] = busy_s;
            out->rank = r;
        }
    }
}

enum status program_floor(const struct program *p, const struct topology *t,
                          const struct collective_options *options, struct floor *out)
{
    enum status st;
    struct floor_state s = {.p = p, .t = t};
    struct floor result = {0};
    if (p->folded || p->asynchronous)
        return error_set(STATUS_UNSUPPORTED,
                         "lower bounds of the iteration time need a program with all ranks (not "
                         "folded) and a schedule with a pipeline flush");
    TRY(shapes_make(p, t, options, &s.shapes));
    TRY(pairs_of(p, &s.shapes, &s.pair, &s.pairs));
    TRY(floor_prepare(&s));
    TRY(floor_load_links(&s, &result));
    find_busiest(p, &result);
    find_path(&s, &result);
    for (int c = 0; c < FLOOR_CAUSES; c++)
        if (result.cause_s[c] > result.seconds) {
            result.seconds = result.cause_s[c];
            result.cause = (enum floor_cause)c;
        }
    *out = result;
out:
    state_free(&s);
    return st;
}
