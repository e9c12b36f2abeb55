/* metis.h - balanced parts of a weighted graph with a small cut, by the METIS library. */
#ifndef PARTITION_GRAPH_METIS_H
#define PARTITION_GRAPH_METIS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct metis_edge {
    uint32_t a, b; /* undirected; parallel edges add up, a == b is ignored */
    double weight;
};

struct metis_graph {
    size_t n;
    const double *weight; /* [n] finite, >= 0 */
    size_t edges;
    const struct metis_edge *edge; /* [edges] weights finite, >= 0 */
};

struct metis_options {
    uint64_t seed;
    double imbalance; /* of the sides of a bisection: heaviest over the average, > 1 */
};

/* What the tables of algorithms say of METIS: it is a baseline, or it is not in this build. */
extern const char metis_guarantee[];

/* Give every vertex a part: part[n] < parts, by recursive bisection. Weights are scaled to integers
 * of 1e7 in all. With n <= parts every vertex is a part of its own. Some parts may be empty.
 * Deterministic for a seed. STATUS_UNSUPPORTED when built without METIS, STATUS_EXTERNAL,
 * STATUS_NOMEM. Source: Karypis & Kumar, SIAM J. Sci. Comput. 20 (1998) 359-392. */
enum status metis_partition(const struct metis_graph *g, size_t parts,
                            const struct metis_options *o, uint32_t *part) MUST_CHECK;

#endif
