/* branch.h - the best devices of some units while all others stay: branch and bound. */
#ifndef PAPERS_PLACEMENT_BRANCH_H
#define PAPERS_PLACEMENT_BRANCH_H

#include "papers/placement/graph.h"
#include "papers/placement/work.h"

enum { PLACEMENT_BRANCH_DEVICES = 64 }; /* no problem may have more */

struct placement_branch; /* loads of a split in which some units have no device */

/* Scratch memory for one graph, in g->memory. */
enum status placement_branch_new(const struct placement_problem *p, struct placement_graph *g,
                                 struct placement_branch **out) MUST_CHECK;

/* Find the split of least value below *value in which all units but free[0 .. n) stay where they
 * are.
 *   device    [g->n]; out: the best split found, untouched if there is none
 *   value     out: its value, untouched if there is none
 *   most      steps after which the search ends, if they are more than its beginning takes twice
 *   complete  out: it did not have to end, so nothing else is better
 * Depth first; the unit that fits the fewest devices is next. A branch ends where a unit fits
 * nowhere, or where what all free units add at least (latency, and their share of transfers that
 * are bound to happen) exceeds what is left on all devices. Deterministic; no allocation. */
void placement_branch_solve(struct placement_branch *b, const uint32_t *unit, size_t n,
                            uint64_t most, struct placement_work *w, uint32_t *device,
                            double *value, bool *complete);

#endif
