/* problem.h - the course project's metric: balance of weights plus cost of cut edges. Private to
 * papers/cpsc526/ and its tests.
 *
 * Ops are divided among k labelled parts; a part is a device. With W_c the parameters in part c,
 *     metric = sum_c (W_c - mean W)^2 + sum over edges (u, v) of cost[part of u][part of v]
 * and infinite when a part is empty. cost is symmetric with a zero diagonal: every level adds its
 * `step` to the cost of two labels that it puts into different classes. On a platform it is 1 minus
 * the bandwidth of the pair (of the slower direction) over the highest bandwidth of any pair; of
 * measured speeds the highest one minus that of the pair. */
#ifndef PAPERS_CPSC526_PROBLEM_H
#define PAPERS_CPSC526_PROBLEM_H

#include "papers/common/objective.h"

enum { CPSC526_MAX_PARTS = 4096, CPSC526_TEXT = 160 };

struct cpsc526_problem {
    size_t n, k;
    size_t minimum; /* ops that a part needs, >= 1 */
    double mean;    /* sum of weights / k */
    double *weight; /* [n] parameters */
    size_t *start;  /* [n + 1] neighbours, edges seen from both ends */
    uint32_t *peer;
    double *cost;                /* [k * k] */
    size_t levels;               /* of groups of devices, 0: none */
    size_t *groups;              /* [levels] parts of each group, outermost first */
    uint32_t *order;             /* [k] labels, those of a group one after the other */
    double cut_bound;            /* proved: no split cuts less */
    double bound;                /* proved: no split has a smaller metric */
    char argument[CPSC526_TEXT]; /* why */
    struct arena memory;         /* of the arrays */
};

/* From the request: the devices of r->topology, with the groups that tiers_find() finds (none when
 * they are irregular); or r->devices equal devices (cost 1 off the diagonal); or r->hierarchy,
 * outermost first, with step 0.5 at every level. The classes of a level are the groups of that
 * level; r->compat: the seed's, which takes label / k[0], then the remainder / k[1] and so on, so
 * that with k[0] = 2 only the labels 2p and 2p + 1 are in the same class. Returns STATUS_INVALID
 * (none or several given), STATUS_INFEASIBLE (more parts than ops), STATUS_UNSUPPORTED (more than
 * CPSC526_MAX_PARTS), STATUS_NOMEM, STATUS_EXTERNAL. O(n + edges + levels k^2). */
enum status cpsc526_problem_build(const struct objective_request *r,
                                  struct cpsc526_problem *p) MUST_CHECK;
/* The sub-problem of the ops member[n] (ascending): k parts of at least `minimum` ops, cut edges
 * cost `cost` [k * k] (copied). Without bounds and groups. */
enum status cpsc526_problem_induce(const struct cpsc526_problem *p, const uint32_t *member,
                                   size_t n, size_t k, size_t minimum, const double *cost,
                                   struct cpsc526_problem *sub) MUST_CHECK;
void cpsc526_problem_free(struct cpsc526_problem *p); /* after a failure, too; leaves {0} */

/* label [n]; `weight` [k] is scratch. O(n + edges + k). */
double cpsc526_metric(const struct cpsc526_problem *p, const uint32_t *label, double *weight);

/* Has `value` reached the bound, up to rounding? */
bool cpsc526_is_optimal(const struct cpsc526_problem *p, double value);

/* Parts, value, bound and note of a solution. `how` starts the note. */
enum status cpsc526_report(const struct objective_request *r, const struct cpsc526_problem *p,
                           const uint32_t *label, const char *how,
                           struct objective_result *out) MUST_CHECK;

#endif
