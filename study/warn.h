/* warn.h - what a user would want to be told about a simulation before believing it. */
#ifndef STUDY_WARN_H
#define STUDY_WARN_H

#include <stdbool.h>
#include <stdio.h>

#include "study/evaluate.h"

/* Add warnings to m, one line per kind: perturbed compute times, times extrapolated beyond what
 * was measured, compute that takes no time, replicated stages without parameters, messages and
 * collectives of no bytes, devices without work, types of devices whose kernels a
 * framework issues and nobody knows, and links inside nodes that carry nothing although
 * they join devices of the plan (of the first 1,024 ranks). Names the algorithms of m's calls on
 * the way. `p` is what was simulated. O(ops + flows + ranks^2). */
enum status warn_simulation(const struct plan *plan, const struct program *p,
                            const struct evaluation_context *context,
                            struct measurement *m) MUST_CHECK;

/* "warning: ..." where shards whose collectives overlap with products are on several nodes:
 * frameworks overlap by user buffers, which one node shares. t->node_of is known. O(devices). */
void warn_of_overlap(const struct plan *p, const struct topology *t, FILE *to);

/* Why the times of a model on a type of devices are others than they seem: measured ones are of
 * another type, or a GPU of the catalogue has no products in the model's numbers. Into text; false:
 * nothing. O(profiles). */
enum { WARN_TYPE = 320 };
bool warn_of_type(const struct model *m, const struct device_type *type, char text[WARN_TYPE]);
/* Is there a GPU of the catalogue that a type's name means without being it? Then nothing is known
 * of its kernels: a line "warning: ... did you mean ..." for each such type. */
void warn_of_catalogue(const struct topology *t, FILE *to);
/* A line of it, "warning: ...", for each type of devices of a platform. */
void warn_of_platform(const struct model *m, const struct topology *t, FILE *to);

/* Stages of shards none of whose ops tensor parallelism divides: every shard computes everything;
 * of strategies, whose steps say what is divided, none. O(ops). */
size_t warn_of_shards(const struct plan *p, const struct model *m);

/* Does the plan clip gradients where foreline run cannot? Says so to `out`, for no search avoids
 * it: the optimizer is given. O(ops) where gradients are clipped. Errors of lowering. */
enum status warn_of_clip(const struct plan *p, const struct model *m, const struct topology *t,
                         FILE *out) MUST_CHECK;

#endif
