/* Recognises grids: a run of neighbours gives each length, and then every node is checked. */
#include "core/data/grid.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/topology.h"

static const uint32_t NONE = UINT32_MAX;

struct grid_finder {
    const struct topology *t;
    struct topology_grid grid;
    uint32_t nodes;
    bool *used; /* [links] by a pair that was looked at */
};

/* The vertex that stands for a node: its only device, or the router behind its devices. */
static uint32_t node_vertex(const struct grid_finder *f, uint32_t node)
{
    const struct route_graph *g = &f->t->graph;
    uint32_t vertex = g->vertex[node * f->grid.each];
    return f->grid.each > 1 ? g->to[g->start[vertex]] : vertex;
}

/* The only link of the way from one node to another; NONE: they are no neighbours. */
static uint32_t direct_link(const struct grid_finder *f, uint32_t from, uint32_t to)
{
    const struct route_graph *g = &f->t->graph;
    const struct route_table *table = &f->t->table;
    if (g->vertices > 0) {
        uint32_t vertex = node_vertex(f, from), end = node_vertex(f, to);
        for (uint32_t e = g->start[vertex]; e < g->start[vertex + 1]; e++)
            if (g->to[e] == end)
                return g->first[e + 1] - g->first[e] == 1 ? g->hop[g->first[e]] : NONE;
        return NONE;
    }
    uint32_t head = table->head[(size_t)from * f->t->n + to];
    return head > 0 && table->step[head - 1].then == 0 ? table->step[head - 1].link : NONE;
}

/* How many devices share the first one's router, 1 when it has none: a router has edges to its
 * devices, which have no other, and to its neighbours. 0: such nodes are not all alike. */
static uint32_t devices_each(const struct topology *t)
{
    const struct route_graph *g = &t->graph;
    uint32_t each = 0, hub;
    if (g->vertices == 0 || g->start[g->vertex[0] + 1] - g->start[g->vertex[0]] != 1)
        return 1;
    hub = g->to[g->start[g->vertex[0]]];
    for (size_t d = 0; d < t->n; d++)
        if (g->vertex[d] == hub) /* the end of a row of devices */
            return 1;
    while (each < t->n) {
        uint32_t v = g->vertex[each];
        if (g->start[v + 1] - g->start[v] != 1 || g->to[g->start[v]] != hub)
            break;
        each++;
    }
    return t->n % each == 0 ? each : 0;
}

/* Every device of nodes of several is a leaf of its node's router. */
static bool are_leaves(const struct grid_finder *f)
{
    const struct route_graph *g = &f->t->graph;
    for (uint32_t d = 0; f->grid.each > 1 && d < f->t->n; d++) {
        uint32_t v = g->vertex[d];
        if (g->start[v + 1] - g->start[v] != 1 ||
            g->to[g->start[v]] != node_vertex(f, d / f->grid.each))
            return false;
    }
    return true;
}

/* Lengths by runs of neighbours: 0, 1, 2, ...; then 0, length[0], 2 length[0], ... */
static bool find_lengths(struct grid_finder *f)
{
    struct topology_grid *g = &f->grid;
    uint32_t stride = 1;
    for (uint32_t d = 0; d < GRID_DIMENSIONS; d++) {
        uint32_t length = 1, rest = f->nodes / stride;
        while (length < rest && direct_link(f, (length - 1) * stride, length * stride) != NONE)
            length++;
        if (rest % length != 0)
            return false;
        g->length[d] = length;
        g->wraps[d] = length > 2 && direct_link(f, (length - 1) * stride, 0) != NONE;
        g->dimensions += length > 1;
        stride *= length;
    }
    return stride == f->nodes && g->dimensions > 0;
}

/* Is there a way of one link, not used before, in both directions? */
static bool use_pair(const struct grid_finder *f, uint32_t a, uint32_t b)
{
    for (int back = 0; back < 2; back++) {
        uint32_t link = direct_link(f, back ? b : a, back ? a : b);
        if (link == NONE || f->used[link])
            return false;
        f->used[link] = true;
    }
    return true;
}

/* Has each node exactly its neighbours? Of a table nobody asks who else is near. */
static bool check_nodes(const struct grid_finder *f)
{
    const struct topology_grid *g = &f->grid;
    const struct route_graph *graph = &f->t->graph;
    for (uint32_t node = 0; node < f->nodes; node++) {
        uint32_t stride = 1, neighbours = 0;
        for (uint32_t d = 0; d < GRID_DIMENSIONS; stride *= g->length[d++]) {
            uint32_t at = node / stride % g->length[d], last = g->length[d] - 1;
            if (at < last && !use_pair(f, node, node + stride))
                return false;
            if (at == last && g->wraps[d] && !use_pair(f, node, node - last * stride))
                return false;
            neighbours += last == 0 ? 0 : g->wraps[d] ? 2 : (uint32_t)(at > 0) + (at < last);
        }
        if (graph->vertices > 0) {
            uint32_t v = node_vertex(f, node), leaves = g->each > 1 ? g->each : 0;
            if (graph->start[v + 1] - graph->start[v] != neighbours + leaves)
                return false;
        }
    }
    return true;
}

enum status topology_find_grid(struct topology *t)
{
    struct grid_finder f = {.t = t, .grid.each = devices_each(t)};
    t->grid = (struct topology_grid){0};
    if ((t->graph.vertices == 0 && !t->table.head) || t->links == 0 || f.grid.each == 0)
        return STATUS_OK;
    f.nodes = (uint32_t)t->n / f.grid.each;
    if (f.nodes < 2 || !are_leaves(&f))
        return STATUS_OK;
    PASS(ARRAY_NEW(f.used, t->links));
    if (find_lengths(&f) && check_nodes(&f))
        t->grid = f.grid;
    free(f.used);
    return STATUS_OK;
}
