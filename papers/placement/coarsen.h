/* coarsen.h - units joined to larger ones at random, heavy transfers first. */
#ifndef PAPERS_PLACEMENT_COARSEN_H
#define PAPERS_PLACEMENT_COARSEN_H

#include "papers/placement/graph.h"

struct placement_coarsening {
    const uint32_t *label; /* [fine->n] only units of one label are joined; NULL: any */
    double longest;        /* latency on an accelerator that a joined unit may have */
    bool light_first;      /* prefer light partners over heavy transfers */
    uint64_t *random;
};

/* One matching: every unit is joined with at most one that it exchanges a tensor with.
 *   parent  [fine->n] out: unit of *coarse
 *   coarse  to placement_graph_free() after a failure, too
 * O(sum of squares of the pins of units + edges log edges). STATUS_NOMEM.
 * Source: Karypis & Kumar, SIAM J. Sci. Comput. 20 (1998) 359-392. */
enum status placement_coarsen(const struct placement_problem *p, const struct placement_graph *fine,
                              const struct placement_coarsening *o, uint32_t *parent,
                              struct placement_graph *coarse) MUST_CHECK;

#endif
