/* map_build.h - a map of tiers from a function, for tests. */
#ifndef TESTS_MAP_BUILD_H
#define TESTS_MAP_BUILD_H

#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/topology_map.h"

/* The map of tier(argument, from, to) for all from != to; asks n * (n - 1) times. */
static inline enum status
map_build(size_t n, uint32_t (*tier)(const void *argument, uint32_t from, uint32_t to),
          const void *argument, struct topology_map *out)
{
    enum status st;
    struct topology_map_builder *b = NULL;
    uint32_t *row;
    PASS(ARRAY_NEW(row, n));
    TRY(topology_map_begin(n, &b));
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++)
            row[j] = i == j ? 0 : tier(argument, i, j);
        TRY(topology_map_row(b, row));
    }
    TRY(topology_map_finish(b, out));
out:
    topology_map_builder_free(b);
    free(row);
    return st;
}

#endif
