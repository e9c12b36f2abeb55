/* Which members of a group are a grid themselves: all of a torus, a block of one, a row, or every
 * other node of it. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/collective/shapes.h"
#include "core/data/routes.h"

/* What coordinates members have along each dimension. */
struct grid_axis {
    bool *has;       /* [length of the platform] */
    uint32_t *place; /* [length of the platform] number among those that members have */
    size_t n, step;  /* how many, and the distance from each to the next */
    uint32_t first;
};

static uint32_t grid_coordinate(const struct topology_grid *p, uint32_t device, size_t dimension)
{
    uint32_t node = device / p->each;
    for (size_t d = 0; d < dimension; d++)
        node /= p->length[d];
    return node % p->length[dimension];
}

/* Fill an axis; false: not at equal distances. */
static bool fill_axis(const struct collective_group *g, size_t d, struct grid_axis *a)
{
    const struct topology_grid *p = &g->topology->grid;
    uint32_t last = 0;
    for (size_t m = 0; m < g->n; m++)
        a->has[grid_coordinate(p, g->device[m], d)] = true;
    for (uint32_t c = 0; c < p->length[d]; c++) {
        if (!a->has[c])
            continue;
        if (a->n == 0)
            a->first = c;
        if (a->n == 1)
            a->step = c - last;
        if (a->n > 1 && c - last != a->step)
            return false;
        a->place[c] = (uint32_t)a->n++;
        last = c;
    }
    return true;
}

/* Members by node and, inside it, as they are listed. False: some nodes have more than others. */
static enum status place_members(const struct collective_group *g, const struct grid_axis *axis,
                                 struct collective_grid *grid, bool *whole)
{
    uint32_t *filled;
    *whole = true;
    PASS(ARRAY_NEW(filled, grid->nodes));
    for (uint32_t m = 0; m < g->n && *whole; m++) {
        size_t node = 0, stride = 1;
        for (size_t d = 0; d < GRID_DIMENSIONS; stride *= grid->length[d++])
            node += stride * axis[d].place[grid_coordinate(&g->topology->grid, g->device[m], d)];
        *whole = filled[node] < grid->each;
        if (*whole)
            grid->member[node * grid->each + filled[node]++] = m;
        grid->node[m] = (uint32_t)node;
    }
    free(filled);
    return STATUS_OK;
}

enum status collective_find_grid(struct collective_group *g)
{
    enum status st = STATUS_OK;
    const struct topology_grid *p = &g->topology->grid;
    struct grid_axis axis[GRID_DIMENSIONS] = {0};
    struct collective_grid *grid = NULL;
    bool whole = p->dimensions > 0 && g->n > 1;
    if (!whole)
        return STATUS_OK;
    TRY(ARRAY_NEW(grid, 1));
    grid->nodes = 1;
    for (size_t d = 0; d < GRID_DIMENSIONS; d++) {
        struct grid_axis *a = &axis[d];
        TRY(ARRAY_NEW(a->has, p->length[d]));
        TRY(ARRAY_NEW(a->place, p->length[d]));
        whole = whole && fill_axis(g, d, a) && grid->nodes <= g->n / a->n;
        if (!whole)
            goto out;
        grid->length[d] = a->n;
        grid->ring[d] = p->wraps[d] && a->n > 2 && a->n * a->step == p->length[d];
        grid->nodes *= a->n;
    }
    grid->each = g->n / grid->nodes;
    if (grid->nodes < 2 || grid->each * grid->nodes != g->n)
        goto out;
    TRY(ARRAY_NEW(grid->member, g->n));
    TRY(ARRAY_NEW(grid->node, g->n));
    TRY(place_members(g, axis, grid, &whole));
    if (whole)
        MOVE(&g->grid, grid);
out:
    for (size_t d = 0; d < GRID_DIMENSIONS; d++) {
        free(axis[d].has);
        free(axis[d].place);
    }
    collective_grid_free(grid);
    return st;
}

void collective_grid_free(struct collective_grid *grid)
{
    if (grid) {
        free(grid->member);
        free(grid->node);
    }
    free(grid);
}

/* What the flows of a phase put on the links of their routes, which are those of `pair`. */
static double busiest_link(const struct topology *t, const struct collective_flow *flow,
                           const struct routes *routes, double *load_s)
{
    double worst = 0;
    for (size_t r = 0; r < routes->n; r++)
        for (size_t e = routes->start[r]; e < routes->start[r + 1]; e++) {
            const struct topology_link *link = &t->link[routes->link[e]];
            double *load = &load_s[routes->link[e]], seconds = flow[r].bytes / link->bandwidth_Bps;
            *load = link->fat ? larger(*load, seconds) : *load + seconds;
            worst = larger(worst, *load);
        }
    return worst;
}

enum status collective_link_seconds(const struct collective_group *g,
                                    const struct collective_shape *s,
                                    const struct collective_phase *phase, double *seconds)
{
    enum status st;
    size_t n = phase->flow_end - phase->flow_start;
    struct collective_flow *flow = NULL;
    struct device_pair *pair = NULL;
    struct routes routes = {0};
    double *load_s = NULL;
    TRY(ARRAY_COPY(flow, s->flow + phase->flow_start, n));
    TRY(ARRAY_NEW(pair, n));
    TRY(ARRAY_NEW(load_s, g->topology->links));
    for (size_t f = 0; f < n; f++) { /* by devices, whose routes are asked for in order */
        flow[f].from = g->device[flow[f].from];
        flow[f].to = g->device[flow[f].to];
    }
    TRY(order_pairs(flow, n, sizeof *flow, (uint32_t)g->topology->n));
    for (size_t f = 0; f < n; f++)
        pair[f] = (struct device_pair){flow[f].from, flow[f].to};
    TRY(topology_routes(g->topology, n, pair, &routes));
    *seconds = busiest_link(g->topology, flow, &routes, load_s);
out:
    routes_free(&routes);
    free(flow);
    free(pair);
    free(load_s);
    return st;
}
