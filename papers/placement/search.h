/* search.h - the search for a split in which anything may be on any device: annealing on coarse and
 * fine units, exchange between good splits, large neighbourhoods, and all of it exactly where the
 * problem is small. */
#ifndef PAPERS_PLACEMENT_SEARCH_H
#define PAPERS_PLACEMENT_SEARCH_H

#include "papers/placement/graph.h"
#include "papers/placement/work.h"

struct placement_found {
    double value;
    uint32_t *device; /* [nodes] */
    double bound;     /* no split is below; in: where the search may end */
    bool exhausted;   /* out: branch and bound has proved that nothing is better than value */
};

/* Improve *f until value and bound meet, or w is spent. Rounds of growing length take turns:
 *
 *   from nothing  units are matched at random to ever coarser ones, heavy transfers first; random
 *                 devices are annealed on the coarsest, then on each finer level, ever cooler
 *   again         the same from a good split: only units on one device are joined
 *   two together  the same from two good splits: only units that neither of them parts are joined
 *   flat          annealing of the best split, hot or cool
 *   large         large-neighbourhood search from the best split or another (neighbourhood.h),
 *                 and at the end of the first three
 *   exact         branch and bound over all units, every eighth round, for one round's steps and a
 *                 sixteenth of what has been spent
 *
 * Good splits are kept, at most eight; the start is one. Deterministic for a state of w->random
 * unless the time is up. STATUS_NOMEM.
 * Sources: Hendrickson & Leland, Supercomputing 1995 (multilevel); Sanders & Schulz, ALENEX 2012
 * (exchange by coarsening). */
enum status placement_search(const struct placement_problem *p, struct placement_work *w,
                             struct placement_found *f) MUST_CHECK;

/* Has value come down to the bound? */
bool placement_settled(const struct placement_found *f);

#endif
