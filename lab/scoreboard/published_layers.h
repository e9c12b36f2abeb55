/* published_layers.h - what layers take, out of a few measured runs of a set, and its others
 * predicted by that: how good everything else is, schedules, communication and updates.
 *
 * Runs of one GPU, type of numbers, model width and degree of tensor, context and expert
 * parallelism share a factor of what their heads and embeddings take, those that also have the
 * microbatch in common one of what their layers take (`head` and `layers` of
 * core/strategy/framework.h); a set has one of what comes besides (`step_s`). The sum of squares of
 * log(predicted / measured) is least, of factors near 1 where rows do not say. */
#ifndef LAB_SCOREBOARD_PUBLISHED_LAYERS_H
#define LAB_SCOREBOARD_PUBLISHED_LAYERS_H

#include "lab/scoreboard/published.h"

/* Fit to n random runs of each set with a time; prediction [p->rows] gets the others' seconds.
 * These runs are left out of *p, and those of whose layers none was among them: with the reason. */
enum status published_fit_layers(struct published *p, size_t n, uint64_t seed,
                                 struct published_prediction *prediction) MUST_CHECK;

#endif
