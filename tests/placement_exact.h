/* placement_exact.h - the best split by somebody else's solver: GLPK, or CBC where it is installed.
 */
#ifndef TESTS_PLACEMENT_EXACT_H
#define TESTS_PLACEMENT_EXACT_H

#include "papers/placement/problem.h"

struct placement_exact {
    double value, bound; /* of the best split found; what no split beats. INFINITY, 0: none */
    double cpu_s;
};

/* The non-contiguous integer program of Tarnawski et al. on p, minimised without a gap in at most
 * limit_s seconds (of CPU time by CBC, of wall clock by GLPK). The value is that of the split as
 * this project scores it, not what the solver says.
 *   prefix  files PREFIX.lp, and .txt and .log of CBC, are written and stay
 * STATUS_UNSUPPORTED without cbc. */
enum status placement_exact_cbc(const struct placement_problem *p, const char *prefix,
                                double limit_s, struct placement_exact *out) MUST_CHECK;
enum status placement_exact_glpk(const struct placement_problem *p, const char *prefix,
                                 double limit_s, struct placement_exact *out) MUST_CHECK;

#endif
