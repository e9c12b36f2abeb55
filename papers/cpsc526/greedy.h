/* greedy.h - labels for parts, one after the other. Private to papers/cpsc526/ and its
 * tests. */
#ifndef PAPERS_CPSC526_GREEDY_H
#define PAPERS_CPSC526_GREEDY_H

#include "papers/cpsc526/problem.h"

struct cpsc526_greedy_room { /* scratch, [k] each */
    double *out;
    uint32_t *order;
    bool *used;
};

/* Parts in the order of the edges that leave them, most first, each get the free label that costs
 * least to the parts that have one; the least label where several do.
 *
 *   edges     [k * k] between parts, both directions
 *   label_of  [k] out: a permutation
 *
 * O(k^3). */
void cpsc526_greedy_labels(const struct cpsc526_problem *p, const double *edges,
                           const struct cpsc526_greedy_room *room, uint32_t *label_of);

#endif
