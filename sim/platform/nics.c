/* Ways out of a node: each of its members sends to another one of the nearest other node, and
 * links that several of these ways go through are divided among them. */
#include "sim/platform/nics.h"

#include "core/base/array.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_MEMBERS = 64 }; /* of a node that are looked at */

/* A link that ways go through. */
struct used {
    const void *link;
    double Bps;
    bool shared; /* flows divide it */
    size_t ways;
};

/* What the links of ways are found with, and those found so far. */
struct nic_ways {
    const struct topology *t;
    nic_ask *ask; /* without one */
    const void *context;
    struct route_search search; /* of t's graph; {0} without one */
    size_t n;
    struct used *used; /* [n] */
};

enum status nic_ways_use(struct nic_ways *w, const void *link, double Bps, bool shared)
{
    size_t k = 0;
    while (k < w->n && w->used[k].link != link)
        k++;
    if (k == w->n) {
        PASS(ARRAY_ROOM(w->used, w->n));
        w->used[w->n++] = (struct used){.link = link, .Bps = Bps, .shared = shared};
    }
    w->used[k].ways++;
    return STATUS_OK;
}

/* The links of a way through the graph. */
static enum status use_found(struct nic_ways *w, uint32_t from, uint32_t to)
{
    const struct route_graph *g = &w->t->graph;
    uint32_t vertex = g->vertex[to];
    route_search_begin(&w->search, g->vertex[from], ROUTE_NO_BLOCK);
    if (!route_search_reach(&w->search, vertex))
        return STATUS_OK;
    for (; vertex != g->vertex[from]; vertex = w->search.before[vertex]) {
        uint32_t edge = w->search.edge[vertex];
        for (uint32_t h = g->first[edge]; h < g->first[edge + 1]; h++) {
            const struct topology_link *link = &w->t->link[g->hop[h]];
            PASS(nic_ways_use(w, link, link->bandwidth_Bps, !link->fat));
        }
    }
    return STATUS_OK;
}

/* The first device of a type; every type has one. */
static uint32_t nics_first_of(const struct topology *t, uint32_t type)
{
    uint32_t d = 0;
    while (t->type_of[d] != type)
        d++;
    return d;
}

/* The device outside d's node that is reached fastest, one of d's type before others; UINT32_MAX
 * if there is none. */
static uint32_t nearest_outside(const struct topology *t, const bool *inside, uint32_t d)
{
    uint32_t best = UINT32_MAX;
    double most = 0;
    for (uint32_t j = 0; j < t->n; j++) {
        const struct topology_tier *between = j == d ? NULL : topology_between(t, d, j);
        if (!between || inside[between - t->tier] || between->bandwidth_Bps < most)
            continue;
        bool alike = t->type_of[j] == t->type_of[d];
        if (between->bandwidth_Bps > most || (alike && t->type_of[best] != t->type_of[d]))
            best = j;
        most = between->bandwidth_Bps;
    }
    return best;
}

/* The devices of d's node. */
static size_t nics_node_of(const struct topology *t, const bool *inside, uint32_t d,
                           uint32_t member[MOST_MEMBERS])
{
    size_t n = 0;
    for (uint32_t j = 0; j < t->n && n < MOST_MEMBERS; j++)
        if (j == d || inside[topology_between(t, d, j) - t->tier])
            member[n++] = j;
    return n;
}

/* All members send at once, as fast as the link allows that is shared most. */
static enum status count_ways(struct nic_ways *w, const bool *inside, uint32_t d, double *out)
{
    uint32_t here[MOST_MEMBERS], there[MOST_MEMBERS], far = nearest_outside(w->t, inside, d);
    double rate = INFINITY;
    *out = 0;
    if (far == UINT32_MAX)
        return STATUS_OK;
    size_t n = nics_node_of(w->t, inside, d, here), m = nics_node_of(w->t, inside, far, there);
    w->n = 0;
    for (size_t k = 0; k < n; k++)
        PASS(w->search.graph ? use_found(w, here[k], there[k % m])
                             : w->ask(w->context, here[k], there[k % m], w));
    for (size_t k = 0; k < w->n; k++)
        rate = fmin(rate, w->used[k].Bps / (w->used[k].shared ? (double)w->used[k].ways : 1));
    if (isfinite(rate)) {
        double ways = (double)n * rate / topology_between(w->t, d, far)->bandwidth_Bps;
        bool whole = fabs(ways - round(ways)) < 1e-6 * ways; /* but for what sums are rounded to */
        *out = fmin(whole ? round(ways) : ways, (double)n);
    }
    return STATUS_OK;
}

enum status platform_nics(struct topology *t, nic_ask *ask, const void *context)
{
    enum status st;
    bool *inside = NULL;
    struct nic_ways w = {.t = t, .ask = ask, .context = context};
    TRY(ARRAY_NEW(inside, t->tiers + 1));
    if (t->graph.vertices > 0)
        TRY(route_search_open(&t->graph, &w.search));
    if (topology_inside(t, inside))
        for (uint32_t k = 0; k < t->types; k++)
            TRY(count_ways(&w, inside, nics_first_of(t, k), &t->type[k].nics));
out:
    route_search_free(&w.search);
    free(w.used);
    free(inside);
    return st;
}
