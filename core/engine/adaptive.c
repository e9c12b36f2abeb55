/* The least loaded path. */
#include "core/engine/adaptive.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/random.h"

enum { NONE = UINT32_MAX };

enum status adaptive_open(const struct lanes *lanes, const uint32_t *kept, size_t links,
                          const double *capacity_Bps, struct adaptive *out)
{
    enum status st;
    const struct topology *t = lanes->t;
    struct adaptive a = {.lanes = *lanes, .capacity_Bps = capacity_Bps};
    TRY(ARRAY_NEW(a.bundle, links + 1));
    TRY(ARRAY_NEW(a.base, t->links + 1));
    TRY(ARRAY_NEW(a.load_Bps, links + 1));
    for (size_t k = 0; k < links; k++)
        a.bundle[k] = NONE;
    for (uint32_t l = 0; l < t->links; l++) {
        a.base[l] = kept[l];
        for (uint32_t k = 0, n = topology_lanes(&t->link[l]); n > 1 && k < n; k++)
            a.bundle[kept[l] + k] = l;
    }
    *out = a;
    a = (struct adaptive){0};
out:
    adaptive_free(&a);
    return st;
}

void adaptive_free(struct adaptive *a)
{
    free(a->bundle);
    free(a->base);
    free(a->load_Bps);
    *a = (struct adaptive){0};
}

/* The least loaded cable of a bundle on a way, and how full it is. */
static uint32_t find_cable(const struct adaptive *a, uint32_t bundle, uint32_t ways, uint32_t way,
                           double *load)
{
    const struct lanes *x = &a->lanes;
    uint32_t first = a->base[bundle] + lanes_on_way(x, bundle, ways, way) - x->first[bundle];
    uint32_t best = first;
    *load = INFINITY;
    for (uint32_t k = first; k < first + x->t->link[bundle].cables; k++)
        if (!(x->down && x->down[x->first[bundle] + k - a->base[bundle]]) &&
            a->load_Bps[k] / a->capacity_Bps[k] < *load) {
            *load = a->load_Bps[k] / a->capacity_Bps[k];
            best = k;
        }
    return best;
}

/* How full the fullest bundle of a way is. */
static double load_of_way(const struct adaptive *a, const uint32_t *link, size_t n, uint32_t ways,
                          uint32_t way)
{
    double most = 0, load;
    for (size_t k = 0; k < n; k++)
        if (a->bundle[link[k]] != NONE) {
            find_cable(a, a->bundle[link[k]], ways, way, &load);
            most = fmax(most, load);
        }
    return most;
}

uint32_t adaptive_ways(const struct adaptive *a, const uint32_t *link, size_t n)
{
    uint32_t ways = 1;
    for (size_t k = 0; k < n; k++)
        if (a->bundle[link[k]] != NONE) {
            uint32_t own = lanes_ways(&a->lanes, &a->bundle[link[k]], 1);
            ways = own > ways ? own : ways;
        }
    return ways;
}

void adaptive_put(const struct adaptive *a, uint32_t way, const uint32_t *link, size_t n,
                  uint32_t *out)
{
    const struct lanes *x = &a->lanes;
    uint32_t ways = adaptive_ways(a, link, n);
    for (size_t k = 0; k < n; k++) {
        uint32_t bundle = a->bundle[link[k]];
        out[k] = bundle == NONE
                     ? link[k]
                     : a->base[bundle] + lanes_on_way(x, bundle, ways, way) - x->first[bundle];
    }
}

uint32_t adaptive_start(const struct adaptive *a, uint32_t flow, double bound_Bps, uint32_t *link,
                        size_t n)
{
    uint32_t ways = adaptive_ways(a, link, n), best = 0;
    double least = INFINITY, load;
    uint32_t from = (uint32_t)(random_at(flow, 0) % ways);
    for (uint32_t k = 0; k < ways; k++) {
        uint32_t way = (from + k) % ways;
        load = load_of_way(a, link, n, ways, way);
        if (load < least * (1 - 1e-9)) {
            least = load;
            best = way;
        }
    }
    for (size_t k = 0; k < n; k++) {
        if (a->bundle[link[k]] != NONE)
            link[k] = find_cable(a, a->bundle[link[k]], ways, best, &load);
        a->load_Bps[link[k]] += bound_Bps;
    }
    return best;
}

/* Sums of many flows leave rounding behind, which must not decide. */
void adaptive_end(const struct adaptive *a, double bound_Bps, const uint32_t *link, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        double left = a->load_Bps[link[k]] - bound_Bps;
        a->load_Bps[link[k]] = left > 1e-6 * bound_Bps ? left : 0;
    }
}
