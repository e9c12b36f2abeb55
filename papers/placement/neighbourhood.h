/* neighbourhood.h - large-neighbourhood search: some units are taken off their devices and put back
 * in the best way, again and again. */
#ifndef PAPERS_PLACEMENT_NEIGHBOURHOOD_H
#define PAPERS_PLACEMENT_NEIGHBOURHOOD_H

#include "papers/placement/branch.h"

struct placement_neighbourhood {
    struct placement_branch *branch; /* of the graph */
    size_t units;                    /* taken off at a time; grows while searches complete */
    uint64_t steps;                  /* to be spent */
};

/* Units of the most loaded device and of others: of one or two more devices, or those nearest to a
 * unit of it, or any. Branch and bound (branch.h) puts them back.
 *   device, value  of a split; in and out, the best found
 * Deterministic for a state of w->random unless the time is up. STATUS_NOMEM.
 * Source: Shaw, CP 1998, LNCS 1520, 417-431. */
enum status placement_neighbourhood_search(const struct placement_problem *p,
                                           const struct placement_graph *g,
                                           struct placement_neighbourhood *o,
                                           struct placement_work *w, uint32_t *device,
                                           double *value) MUST_CHECK;

#endif
