/* work.h - what a search may spend, counted in steps, and its random numbers.
 *
 * A step is a visit to a pin (a unit of a net), some nanoseconds. Whatever a search decides depends
 * on steps and on the seed, never on the clock; the clock can only end it. */
#ifndef PAPERS_PLACEMENT_WORK_H
#define PAPERS_PLACEMENT_WORK_H

#include "core/base/random.h"
#include "papers/common/objective.h"

struct placement_work {
    const struct objective_request *r; /* its time limit and its flag to stop */
    double begin_s, default_limit_s;
    uint64_t spent, most; /* steps */
    bool late;            /* the time was up or the flag set before the work was done */
    uint64_t random;      /* state */
};

/* Has everything been spent, or the time? Asks the clock: not for inner loops. */
static inline bool placement_work_over(struct placement_work *w)
{
    w->late = w->late || objective_must_stop(w->r, w->begin_s, w->default_limit_s);
    return w->late || w->spent >= w->most;
}

/* In [0, 1), 53 bits. */
static inline double placement_uniform(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

static inline size_t placement_below(uint64_t *state, size_t n)
{
    return (size_t)((double)n * placement_uniform(state));
}

#endif
