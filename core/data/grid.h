/* grid.h - is a platform a torus or a grid of nodes, each joined to its neighbours by links of its
 * own? Found from the routes, so that any file can have one: the devices of a node are listed side
 * by side, and the nodes row by row, the first dimension fastest, as the family `torus` and
 * SimGrid's clusters with topology="TORUS" list them. */
#ifndef CORE_DATA_GRID_H
#define CORE_DATA_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum { GRID_DIMENSIONS = 3 };

/* Node k has the coordinates k % length[0], k / length[0] % length[1], ..., and devices
 * k * each to (k + 1) * each - 1. */
struct topology_grid {
    uint32_t dimensions;              /* longer than 1; 0: the platform is no grid */
    uint32_t length[GRID_DIMENSIONS]; /* 1 where there is none */
    bool wraps[GRID_DIMENSIONS];      /* the last is a neighbour of the first; of 2: false */
    uint32_t each;                    /* devices of a node */
};

struct topology;

/* Fill t->grid. A platform is a grid when each node has its neighbours and no others, and every
 * direction of every way between two of them is a link that no other pair of nodes has. Devices
 * of nodes of several share a router, a leaf of which each is. O(devices + edges). STATUS_NOMEM. */
enum status topology_find_grid(struct topology *t) MUST_CHECK;

#endif
