/* Network ports of a node: from each of its members towards the same far device, the distinct
 * narrowest links are counted. */
#include "sim/simgrid/nics.h"

#include "core/array.h"

#include <math.h>
#include <stdlib.h>

#include <simgrid/link.h>
#include <xbt/dynar.h>

enum { MOST_MEMBERS = 64 }; /* of a node that are looked at */

/* What the narrowest links on the ways to one device are found with. */
struct ports {
    const struct topology *t;
    const sg_host_t *host;      /* [n] */
    struct route_search search; /* of t's graph; {0} without one */
};

/* A link's identity, and whether flows share it. */
struct port {
    const void *link;
    bool shared;
};

/* A link that is narrower than the narrowest so far. */
static void take_narrower(const struct topology *t, uint32_t link, uint32_t *found)
{
    if (*found == UINT32_MAX || t->link[link].bandwidth_Bps < t->link[*found].bandwidth_Bps)
        *found = link;
}

/* The narrowest link of a way through the graph. SimGrid hands out the links of one edge in
 * reverse; of equally narrow ones the first that it hands out is taken. */
static uint32_t narrowest_by_search(struct ports *p, uint32_t from, uint32_t to)
{
    const struct route_graph *g = &p->t->graph;
    uint32_t vertex = g->vertex[to], found = UINT32_MAX;
    route_search_begin(&p->search, g->vertex[from], ROUTE_NO_BLOCK);
    if (!route_search_reach(&p->search, vertex))
        return found;
    for (; vertex != g->vertex[from]; vertex = p->search.before[vertex]) {
        uint32_t edge = p->search.edge[vertex], own = UINT32_MAX;
        for (uint32_t h = g->first[edge + 1]; h-- > g->first[edge];)
            take_narrower(p->t, g->hop[h], &own);
        if (found != UINT32_MAX) /* the one nearer the sender stands against those after it */
            take_narrower(p->t, found, &own);
        found = own;
    }
    return found;
}

/* The same of SimGrid's route. */
static struct port narrowest_by_asking(sg_host_t from, sg_host_t to)
{
    sg_link_t found = NULL;
    double least = INFINITY;
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    sg_host_get_route(from, to, route);
    for (size_t k = 0; k < xbt_dynar_length(route); k++) {
        sg_link_t link;
        xbt_dynar_get_cpy(route, k, &link);
        if (sg_link_get_bandwidth(link) < least) {
            least = sg_link_get_bandwidth(link);
            found = link;
        }
    }
    xbt_dynar_free(&route);
    return (struct port){found, found && sg_link_is_shared(found)};
}

/* A narrowest link of the route. */
static struct port narrowest(struct ports *p, uint32_t from, uint32_t to)
{
    if (!p->search.graph)
        return narrowest_by_asking(p->host[from], p->host[to]);
    uint32_t k = narrowest_by_search(p, from, to);
    return k == UINT32_MAX ? (struct port){0} : (struct port){&p->t->link[k], !p->t->link[k].fat};
}

/* The first device of a type; every type has one. */
static uint32_t first_of(const struct topology *t, uint32_t type)
{
    uint32_t d = 0;
    while (t->type_of[d] != type)
        d++;
    return d;
}

/* The device outside d's node that is reached fastest, UINT32_MAX if there is none. */
static uint32_t nearest_outside(const struct topology *t, const bool *inside, uint32_t d)
{
    uint32_t best = UINT32_MAX;
    const struct topology_tier *tier = NULL;
    for (uint32_t j = 0; j < t->n; j++) {
        if (j == d)
            continue;
        const struct topology_tier *between = topology_between(t, d, j);
        if (inside[between - t->tier] || (tier && between->bandwidth_Bps <= tier->bandwidth_Bps))
            continue;
        tier = between;
        best = j;
    }
    return best;
}

/* The ports of d's node: links that flows share count once, others once for each member. */
static uint32_t count_ports(struct ports *p, const bool *inside, uint32_t d)
{
    const struct topology *t = p->t;
    const void *seen[MOST_MEMBERS];
    uint32_t ports = 0, distinct = 0, members = 0, far = nearest_outside(t, inside, d);
    if (far == UINT32_MAX)
        return 0;
    for (uint32_t j = 0; j < t->n && members < MOST_MEMBERS; j++) {
        uint32_t k = 0;
        if (j != d && !inside[topology_between(t, d, j) - t->tier])
            continue;
        members++;
        struct port port = narrowest(p, j, far);
        while (port.shared && k < distinct && seen[k] != port.link)
            k++;
        if (!port.shared || k == distinct) {
            seen[distinct++] = port.link;
            ports++;
        }
    }
    return ports;
}

enum status platform_nics(const sg_host_t *host, struct topology *t)
{
    enum status st;
    bool *inside = NULL;
    struct ports p = {.t = t, .host = host};
    TRY(ARRAY_NEW(inside, t->tiers + 1));
    if (t->graph.vertices > 0)
        TRY(route_search_open(&t->graph, &p.search));
    if (topology_inside(t, inside))
        for (uint32_t k = 0; k < t->types; k++)
            t->type[k].nics = count_ports(&p, inside, first_of(t, k));
out:
    route_search_free(&p.search);
    free(inside);
    return st;
}
