/* Sums latencies and bandwidths along the ways of a search. A "value" is a pair of latency and
 * bandwidth; values are numbered as they are found, and the sum of a value and an edge is looked up
 * in a table, so that a vertex costs one look-up. */
#include "sim/platform/shortest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"

enum { MAX_CLASSES = 256 }; /* different edges */
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-12;

struct quality {
    double latency_s, bandwidth_Bps;
};

struct shortest {
    const struct flat_zone *zone;
    struct route_search search;
    size_t classes;
    struct quality edge[MAX_CLASSES];
    uint16_t *class; /* [edges] */
    size_t values;   /* value 0: the host itself */
    struct quality value[SHORTEST_VALUES];
    uint16_t *next;  /* [SHORTEST_VALUES * classes] value plus an edge, + 1; 0: not known yet */
    uint16_t *found; /* [vertices] value */
};

/* The class of edges with this latency and bandwidth; false when there are too many. */
static bool add_class(struct shortest *w, struct quality q, uint16_t *class)
{
    for (*class = 0; *class < w->classes; (*class)++)
        if (!memcmp(&w->edge[*class], &q, sizeof q))
            return true;
    if (w->classes == MAX_CLASSES)
        return false;
    w->edge[w->classes++] = q;
    return true;
}

/* Classes of all edges. */
static bool classify(struct shortest *w)
{
    const struct route_graph *g = &w->zone->graph;
    for (size_t e = 0; e < g->edges; e++) {
        struct quality q = {0, INFINITY};
        for (size_t h = g->first[e]; h < g->first[e + 1]; h++) {
            q.latency_s += w->zone->latency_s[g->hop[h]];
            q.bandwidth_Bps = fmin(q.bandwidth_Bps, w->zone->link[g->hop[h]].bandwidth_Bps);
        }
        if (!add_class(w, q, &w->class[e]))
            return false;
    }
    return true;
}

enum status shortest_open(const struct flat_zone *zone, struct shortest **out)
{
    enum status st;
    struct shortest *w = NULL;
    *out = NULL;
    TRY(ARRAY_NEW(w, 1));
    w->zone = zone;
    TRY(ARRAY_NEW(w->class, zone->graph.edges));
    if (classify(w)) {
        TRY(ARRAY_NEW(w->next, (size_t)SHORTEST_VALUES * (w->classes + 1)));
        TRY(ARRAY_NEW(w->found, zone->graph.vertices));
        TRY(route_search_open(&zone->graph, &w->search));
        w->values = 1;
        w->value[0] = (struct quality){0, INFINITY};
        *out = w;
        w = NULL;
    }
out:
    shortest_free(w);
    return st;
}

void shortest_free(struct shortest *w)
{
    if (!w)
        return;
    route_search_free(&w->search);
    free(w->class);
    free(w->next);
    free(w->found);
    free(w);
}

/* Equal but for the rounding of sums in another order. */
static bool close_to(double a, double b)
{
    return a <= b * (1 + tolerance) && b <= a * (1 + tolerance);
}

/* Work out a value plus an edge; false if there are too many. */
static bool add_edge(struct shortest *w, uint16_t value, uint16_t class, uint16_t *entry)
{
    double latency = w->value[value].latency_s + w->edge[class].latency_s;
    double bandwidth = fmin(w->value[value].bandwidth_Bps, w->edge[class].bandwidth_Bps);
    size_t i = 1;
    while (i < w->values && !(close_to(w->value[i].latency_s, latency) &&
                              close_to(w->value[i].bandwidth_Bps, bandwidth)))
        i++;
    if (i == SHORTEST_VALUES)
        return false;
    if (i == w->values)
        w->value[w->values++] = (struct quality){latency, bandwidth};
    *entry = (uint16_t)(i + 1);
    return true;
}

bool shortest_from(struct shortest *w, size_t n, size_t from, uint16_t *value)
{
    const uint32_t *vertex = w->zone->graph.vertex;
    const struct route_search *s = &w->search;
    bool reached = true;
    route_search_begin(&w->search, vertex[from], ROUTE_NO_BLOCK);
    if (!route_search_reach(&w->search, UINT32_MAX))
        return false;
    w->found[vertex[from]] = 0;
    for (size_t k = 1; k < s->reached; k++) {
        uint32_t v = s->order[k];
        uint16_t before = w->found[s->before[v]], class = w->class[s->edge[v]];
        uint16_t *entry = &w->next[(size_t)before * w->classes + class];
        if (!*entry && !add_edge(w, before, class, entry))
            return false;
        w->found[v] = (uint16_t)(*entry - 1);
    }
    for (size_t j = 0; j < n; j++) {
        reached = reached && s->far[vertex[j]] != UINT32_MAX;
        value[j] = w->found[vertex[j]];
    }
    return reached;
}

const struct route_search *shortest_search(const struct shortest *w)
{
    return &w->search;
}
