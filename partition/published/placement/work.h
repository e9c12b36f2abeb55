/* work.h - what a search may spend, counted in steps, and its random numbers.
 *
 * A step is a visit to a pin (a unit of a net), some nanoseconds. Whatever a search decides depends
 * on steps and on the seed, never on the clock; the clock can only end it. */
#ifndef PARTITION_PUBLISHED_PLACEMENT_WORK_H
#define PARTITION_PUBLISHED_PLACEMENT_WORK_H

#include "partition/published/objective.h"

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

/* Next number of a stream. Source: Steele, Lea & Flood, OOPSLA 2014 (SplitMix64). */
static inline uint64_t placement_random(uint64_t *state)
{
    uint64_t x = (*state += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* In [0, 1), 53 bits. */
static inline double placement_uniform(uint64_t *state)
{
    return (double)(placement_random(state) >> 11) * 0x1p-53;
}

static inline size_t placement_below(uint64_t *state, size_t n)
{
    return (size_t)((double)n * placement_uniform(state));
}

#endif
