/* paths.h - options about parallel paths, and predictions over seeds of their hash. */
#ifndef STUDY_PATHS_H
#define STUDY_PATHS_H

#include "study/evaluate.h"
#include "study/settings.h"

/* What the options say, as they are: for points of experiments, whose axes meet in all ways. */
struct paths_options paths_of(const struct arguments *a);
/* The same for a platform. STATUS_USAGE: a policy where there is nothing to choose from,
 * --queue-pairs, --seeds or (unless it is also of `--jitter`) --seed where nothing is hashed. */
enum status paths_read(const struct arguments *a, const struct topology *t,
                       struct paths_options *out) MUST_CHECK;
/* Is nothing chosen among parallel paths? */
bool paths_are_ideal(const struct topology *t, const struct paths_options *o);
/* Are flows hashed, so that a prediction is one of many? */
bool paths_are_random(const struct topology *t, const struct paths_options *o);

/* Simulate a plan with the seeds o->seed, o->seed + 1, ... of the hash.
 *   iteration_s  [seeds] out
 *   middle       out: the seed whose iteration is the median, of an even number the lower one
 * In as many processes as context->workers says. Fails as evaluate_plan(). */
enum status paths_sample(const struct plan *plan, const struct evaluation_context *context,
                         const struct engine *engine, size_t seeds, double *iteration_s,
                         uint64_t *middle) MUST_CHECK;

#endif
