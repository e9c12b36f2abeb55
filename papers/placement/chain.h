/* chain.h - the best chain of ideals: one device takes what each ideal adds to the one before. */
#ifndef PAPERS_PLACEMENT_CHAIN_H
#define PAPERS_PLACEMENT_CHAIN_H

#include "papers/placement/family.h"
#include "papers/placement/work.h"

struct placement_chain {
    double value;     /* largest load; INFINITY when there is no chain within the limits */
    uint32_t *device; /* [units], valid when value is finite: accelerators, then CPUs */
    uint32_t *order;  /* [devices] the order in which they follow each other, unused ones last */
    bool interrupted; /* value is INFINITY then */
    bool reduced;     /* the table had no room for all devices: not optimal for all of them */
    struct arena memory;
};

/* Minimise the largest load over the chains of ideals of f from the empty set to everything that
 * use at most p's devices and p's memory.
 *   limit    chains of a larger value need not be found: the search leaves out what exceeds it
 *   w        ends the search; what is spent is added
 * Exact, unless reduced. Time is the number of pairs of ideals whose difference may fit one device,
 * times degree and devices; memory 8 bytes x ideals x (accelerators + 1) x (CPUs + 1), at most 256
 * MiB. Source: Tarnawski et al., NeurIPS 2020, section 5. */
enum status placement_chain_solve(const struct placement_problem *p,
                                  const struct placement_graph *g, const struct placement_family *f,
                                  double limit, struct placement_work *w,
                                  struct placement_chain *c) MUST_CHECK;
void placement_chain_free(struct placement_chain *c); /* after a failure, too; leaves {0} */

#endif
