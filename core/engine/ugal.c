/* The shortest way or a detour. */
#include "core/engine/ugal.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"

enum status ugal_open(const struct sharing_network *n, struct ugal *out)
{
    enum status st;
    struct ugal u = {.nothing = (uint32_t)(n->links - 1)};
    for (int way = 0; way < UGAL_WAYS; way++) {
        TRY(ARRAY_NEW(u.link[way], n->start[n->flows] + 1));
        TRY(ARRAY_NEW(u.bound_Bps[way], n->flows + 1));
        TRY(ARRAY_NEW(u.hops[way], n->flows + 1));
    }
    TRY(ARRAY_NEW(u.load_Bps, n->links));
    *out = u;
    u = (struct ugal){0};
out:
    ugal_free(&u);
    return st;
}

void ugal_free(struct ugal *u)
{
    for (int way = 0; way < UGAL_WAYS; way++) {
        free(u->link[way]);
        free(u->bound_Bps[way]);
        free(u->hops[way]);
    }
    free(u->load_Bps);
    *u = (struct ugal){0};
}

static bool is_among(uint32_t link, const uint32_t *row, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (row[k] == link)
            return true;
    return false;
}

/* Of the links that the other way has not. */
static double load_of(const struct ugal *u, const struct sharing_network *n, uint32_t flow, int way)
{
    size_t first = n->start[flow], width = n->start[flow + 1] - first;
    const uint32_t *row = u->link[way] + first, *other = u->link[1 - way] + first;
    double most = 0;
    for (size_t k = 0; k < width; k++)
        if (row[k] != u->nothing && !is_among(row[k], other, width))
            most = fmax(most, u->load_Bps[row[k]] / n->capacity_Bps[row[k]]);
    return most * u->hops[way][flow];
}

uint32_t ugal_start(const struct ugal *u, const struct sharing_network *n, uint32_t flow)
{
    double shortest = load_of(u, n, flow, UGAL_SHORTEST), detour = load_of(u, n, flow, UGAL_DETOUR);
    uint32_t way = shortest > detour * (1 + 1e-9) ? UGAL_DETOUR : UGAL_SHORTEST;
    for (size_t e = n->start[flow]; e < n->start[flow + 1]; e++)
        u->load_Bps[u->link[way][e]] += u->bound_Bps[way][flow];
    return way;
}

/* Sums of many flows leave rounding behind, which must not decide. */
void ugal_end(const struct ugal *u, const struct sharing_network *n, uint32_t flow)
{
    for (size_t e = n->start[flow]; e < n->start[flow + 1]; e++) {
        double *load = &u->load_Bps[n->link[e]], bound = n->bound_Bps[flow];
        *load = *load - bound > 1e-6 * bound ? *load - bound : 0;
    }
}
