/* partition_exact.h - the best split by somebody else's solver: CBC, where it is installed. */
#ifndef BENCH_PARTITION_EXACT_H
#define BENCH_PARTITION_EXACT_H

#include "partition/published/placement/problem.h"

struct exact {
    double value, bound; /* of the best split found; what no split beats. INFINITY, 0: none */
    double cpu_s;
};

/* The non-contiguous integer program of Tarnawski et al. on p, minimised by `cbc` without a gap for
 * at most limit_s seconds of its CPU time; files PREFIX.lp, .txt and .log stay. The value is that
 * of the split as this project scores it, not what the solver says. STATUS_UNSUPPORTED without
 * cbc. */
enum status exact_solve(const struct placement_problem *p, const char *prefix, double limit_s,
                        struct exact *out) MUST_CHECK;

#endif
