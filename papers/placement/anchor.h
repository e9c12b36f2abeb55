/* anchor.h - a lower bound from what a unit drags along: communication counted. */
#ifndef PAPERS_PLACEMENT_ANCHOR_H
#define PAPERS_PLACEMENT_ANCHOR_H

#include "papers/placement/graph.h"

/* What a unit asks of a CPU, and what of the accelerators it takes away if a CPU takes it. */
struct placement_item {
    double cpu, amount;
};

/* Largest amount per CPU time first, for qsort(). */
int placement_by_ratio(const void *a, const void *b);
/* `total` amount less the most that `cpus` CPUs of time `limit` each can take, fractions of items
 * allowed (Dantzig's bound); items too long for one CPU stay.
 *   item  [n] sorted by placement_by_ratio() */
double placement_leave_to_cpus(const struct placement_item *item, size_t n, size_t cpus,
                               double limit, double total);

/* Largest T in [low, known] that this argument refutes; low when it refutes none.
 *
 * A set S of units on an accelerator has the load a(S) + c(S), latencies and transfers. If it is at
 * most T and u is in S, then for every m > 1
 *     a(S) <= m T - min over S' with u in S' of (m - 1) a(S') + m c(S') =: A(u, T),
 * since a(S) = m (a(S) + c(S)) - ((m - 1) a(S) + m c(S)). The minimum is a minimum cut. Shares
 * a(u) / A(u, T) of the units on one accelerator sum to at most 1, so over all units that the CPUs
 * do not take (their best fraction: Dantzig) they sum to at most the number of accelerators; if
 * they do not, no split reaches T.
 *
 *   g  units that no split better than `known` parts (placement_merge)
 * Several maximum flows (Dinic's) per unit, 3e8 steps in all at most: about a second; where they
 * run out, units are taken to drag nothing. Deterministic. STATUS_NOMEM. */
enum status placement_anchor_bound(const struct placement_problem *p,
                                   const struct placement_graph *g, double low, double known,
                                   double *out) MUST_CHECK;

#endif
