/* Sums latencies and bandwidths along the ways of a search. A "value" is a pair of latency and
 * bandwidth; values are numbered as they are found, and sums are looked up in tables, so that a
 * vertex costs one look-up. */
#include "sim/platform/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

enum { MAX_KINDS = 256 }; /* different edges */
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-12;

struct quality {
    double latency_s, bandwidth_Bps;
};

/* Edges of one kind. */
struct quality_kind {
    struct quality quality;
    uint32_t links;
    uint16_t value; /* of an edge alone, + 1; 0: not known yet */
};

struct values {
    const struct flat_zone *zone;
    size_t kinds;
    struct quality_kind kind[MAX_KINDS];
    uint16_t *kind_of; /* [edges] */
    size_t n;          /* value 0: the host itself */
    struct quality value[VALUES_MOST];
    uint16_t *sum;   /* [VALUES_MOST * VALUES_MOST] + 1; 0: not known yet */
    uint16_t *found; /* [vertices] value */
};

/* The kind of edges like this; false when there are too many. */
static bool add_kind(struct values *w, struct quality_kind k, uint16_t *kind)
{
    for (*kind = 0; *kind < w->kinds; (*kind)++)
        if (!memcmp(&w->kind[*kind].quality, &k.quality, sizeof k.quality) &&
            w->kind[*kind].links == k.links)
            return true;
    if (w->kinds == MAX_KINDS)
        return false;
    w->kind[w->kinds++] = k;
    return true;
}

/* Kinds of all edges. */
static bool values_classify(struct values *w)
{
    const struct route_graph *g = &w->zone->graph;
    for (size_t e = 0; e < g->edges; e++) {
        struct quality_kind k = {.quality = {0, INFINITY}, .links = g->first[e + 1] - g->first[e]};
        for (size_t h = g->first[e]; h < g->first[e + 1]; h++) {
            k.quality.latency_s += w->zone->latency_s[g->hop[h]];
            k.quality.bandwidth_Bps =
                fmin(k.quality.bandwidth_Bps, w->zone->link[g->hop[h]].bandwidth_Bps);
        }
        if (!add_kind(w, k, &w->kind_of[e]))
            return false;
    }
    return true;
}

enum status values_open(const struct flat_zone *zone, struct values **out)
{
    enum status st;
    struct values *w = NULL;
    *out = NULL;
    TRY(ARRAY_NEW(w, 1));
    w->zone = zone;
    TRY(ARRAY_NEW(w->kind_of, zone->graph.edges));
    if (values_classify(w)) {
        TRY(ARRAY_NEW(w->sum, (size_t)VALUES_MOST * VALUES_MOST));
        TRY(ARRAY_NEW(w->found, zone->graph.vertices));
        w->n = 1;
        w->value[0] = (struct quality){0, INFINITY};
        *out = w;
        w = NULL;
    }
out:
    values_free(w);
    return st;
}

void values_free(struct values *w)
{
    if (!w)
        return;
    free(w->kind_of);
    free(w->sum);
    free(w->found);
    free(w);
}

uint32_t values_kind(const struct values *w, uint32_t edge)
{
    return w->kind_of[edge];
}

size_t values_count(const struct values *w)
{
    return w->n;
}

/* Equal but for the rounding of sums in another order. */
static bool quality_is_close(double a, double b)
{
    return a <= b * (1 + tolerance) && b <= a * (1 + tolerance);
}

/* The number of a value, found or added; false if there are too many. */
static bool values_number(struct values *w, struct quality q, uint16_t *out)
{
    size_t i = 1;
    while (i < w->n && !(quality_is_close(w->value[i].latency_s, q.latency_s) &&
                         quality_is_close(w->value[i].bandwidth_Bps, q.bandwidth_Bps)))
        i++;
    if (i == VALUES_MOST)
        return false;
    if (i == w->n)
        w->value[w->n++] = q;
    *out = (uint16_t)i;
    return true;
}

bool values_add(struct values *w, uint16_t a, uint16_t b, uint16_t *sum)
{
    uint16_t *entry = &w->sum[(size_t)a * VALUES_MOST + b];
    const struct quality *x = &w->value[a], *y = &w->value[b];
    if (a == 0 || b == 0) {
        *sum = a == 0 ? b : a;
        return true;
    }
    if (*entry == 0) {
        struct quality q = {x->latency_s + y->latency_s, fmin(x->bandwidth_Bps, y->bandwidth_Bps)};
        if (!values_number(w, q, entry))
            return false;
        (*entry)++;
    }
    *sum = (uint16_t)(*entry - 1);
    return true;
}

/* A vertex is entered from one that is nearer, and so has its value already. */
const uint16_t *values_along(struct values *w, const struct route_search *s)
{
    w->found[s->source] = 0;
    for (size_t k = 1; k < s->reached; k++) {
        uint32_t v = s->order[k];
        struct quality_kind *kind = &w->kind[w->kind_of[s->edge[v]]];
        if (kind->value == 0) {
            if (!values_number(w, kind->quality, &kind->value))
                return NULL;
            kind->value++;
        }
        if (!values_add(w, w->found[s->before[v]], (uint16_t)(kind->value - 1), &w->found[v]))
            return NULL;
    }
    return w->found;
}
