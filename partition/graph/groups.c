/* Groups of units become keys: a file of its own, as igraph's module takes it, too. */
#include "core/base/array.h"
#include "partition/graph/proposers.h"

enum status proposers_group(const struct units *u, const uint32_t *group, double *key)
{
    enum status st;
    struct arena a = {0};
    double *sum, *count, n = (double)u->n;
    TRY(ARENA_NEW(&a, sum, u->n));
    TRY(ARENA_NEW(&a, count, u->n));
    for (size_t k = 0; k < u->n; k++) {
        sum[group[k]] += (double)k;
        count[group[k]]++;
    }
    for (size_t k = 0; k < u->n; k++)
        key[k] = sum[group[k]] / count[group[k]] + (double)k / n * 1e-3;
out:
    arena_free(&a);
    return st;
}
