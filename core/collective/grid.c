/* Which members of a group are a grid themselves: all of a torus, a block of one, a row, or every
 * other node of it. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/shapes.h"

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
