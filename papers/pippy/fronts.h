/* fronts.h - the non-dominated ways to fill the first stages with an ideal, for dynamic programs
 * that minimise the sum of something over the stages plus the most of something else.
 *
 * front[I, j] has a state for each pair (sum, most) of a way to divide the ideal I among j stages
 * such that no other way is at most as large in both. Private to pippy/. */
#ifndef PAPERS_PIPPY_FRONTS_H
#define PAPERS_PIPPY_FRONTS_H

#include "papers/common/lattice.h"

struct front_state {
    double sum, most;
    uint32_t below, from; /* the ideal of one stage less, and which of its states */
};

struct front {
    size_t n, room;
    struct front_state *state; /* [n] */
};

struct fronts {
    const struct lattice *lattice;
    size_t stages;
    struct front *front; /* [ideals * (stages + 1)] ideal i and j stages at i * (stages + 1) + j */
};

/* All fronts are empty but that of the empty ideal and no stage: (0, most). STATUS_NOMEM. */
enum status fronts_open(const struct lattice *l, size_t stages, double most,
                        struct fronts *f) MUST_CHECK;
void fronts_close(struct fronts *f); /* after a failure, too */

static inline struct front *fronts_of(const struct fronts *f, size_t ideal, size_t stages)
{
    return &f->front[ideal * (f->stages + 1) + stages];
}

/* Keep the state unless another one dominates it; drop those that it dominates. STATUS_NOMEM. */
enum status fronts_add(struct front *f, struct front_state fresh) MUST_CHECK;

/* The stages, stage_of[nodes], of the whole graph's way with the least sum + factor * most, with
 * any number of stages; false: there is none. */
bool fronts_best(const struct fronts *f, double factor, uint32_t *stage_of);

#endif
