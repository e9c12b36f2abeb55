/* bound.h - a value that no split can beat, contiguous or not. */
#ifndef PAPERS_PLACEMENT_BOUND_H
#define PAPERS_PLACEMENT_BOUND_H

#include "papers/placement/graph.h"

/* Which argument refutes every smaller value. */
enum placement_reason {
    PLACEMENT_BOUND_UNIT,  /* a unit, or units that cannot be parted, alone */
    PLACEMENT_BOUND_TOTAL, /* all latencies over all devices */
    PLACEMENT_BOUND_COUNT, /* more large units than the devices can take */
    PLACEMENT_BOUND_DRAG,  /* what units have to bring along or pay for; anchor.h */
    PLACEMENT_BOUND_ALL,   /* branch and bound over all splits; search.h */
};

struct placement_bound {
    double value;
    enum placement_reason reason;
};

/* The largest T for which the value T is refuted, found by bisection below `known`, the value of
 * some split: merge what cannot be parted below T (graph.h), then ask whether the units can fit.
 * Then the same with transfers counted (anchor.h), if that gives more. */
enum status placement_lower_bound(const struct placement_problem *p, double known,
                                  struct placement_bound *out) MUST_CHECK;
extern const char *const placement_reason_text[];

#endif
