/* ideals.h - the contiguous optimum, for the algorithm of that name and for those that begin there.
 */
#ifndef PAPERS_PLACEMENT_IDEALS_H
#define PAPERS_PLACEMENT_IDEALS_H

#include "papers/placement/chain.h"

struct placement_contiguous {
    double value;     /* INFINITY: no contiguous split fits the memory */
    uint32_t *device; /* [nodes] */
    uint32_t *order;  /* [devices] in which contiguous parts follow each other */
    bool optimal, interrupted;
    size_t units, ideals; /* ideals 0: more than FAMILY_LIMIT */
    struct arena memory;
};

/* First the best chain among the prefixes of four topological orders, whose value then limits the
 * search among all ideals. Falls back on the former when there are more than FAMILY_LIMIT ideals or
 * the work is spent. Without any split that fits, value is INFINITY. */
enum status placement_contiguous_solve(const struct placement_problem *p, struct placement_work *w,
                                       struct placement_contiguous *c) MUST_CHECK;
void placement_contiguous_free(struct placement_contiguous *c); /* after a failure, too */

#endif
