/* run_failures.h - a real run whose ranks are killed, hang or become slow at drawn times, and that
 * goes on from its checkpoints; beside it, what campaign/timeline.h predicts for the same draws. */
#ifndef STUDY_RUN_FAILURES_H
#define STUDY_RUN_FAILURES_H

#include <stdio.h>

#include "campaign/failures.h"
#include "exec/launch/launch.h"

struct run_failures {
    uint64_t seed;
    double between_s;      /* mean time between failures of the job, running or not */
    struct failures rates; /* of them `hang`, the share that stop a rank for ever instead of killing
                            * it; how often a rank becomes `slower`, and for how long */
};
/* "SEED,TIME" or "SEED,TIME:hang=0.2,slow=10s,slower=1,slow-found=3s". STATUS_USAGE. */
enum status run_failures_read(const char *text, struct run_failures *out) MUST_CHECK;

struct run_failures_report {
    size_t failures, hangs, slowed, steps;
    double wall_s;      /* from the first start to the last end */
    double predicted_s; /* of the same failures, from what rehearsals measured before: */
    double iteration_s, save_s, start_s, detect_s, hang_s;
    double slower; /* iterations with a slow rank take 1 + slower times as long */
};

/* Rehearse in a temporary folder: to the end, with a rank killed, and where asked with a hanging
 * and a slow one; predict; then run o->steps steps with failures. o->checkpoint and
 * o->checkpoint_every are needed, and no warm-up.
 *
 *   m, t  of the last part: its hash of parameters is that of the whole training
 *
 * Else as launch_run(); STATUS_EXTERNAL: 1,000 failures, and still not at the end. */
enum status run_failures_run(const struct program *p, const struct model *model,
                             const struct launch_options *o, const struct run_failures *f,
                             struct run_failures_report *report, struct measurement *m,
                             struct timeline *t) MUST_CHECK;
void run_failures_print(const struct run_failures *f, const struct run_failures_report *r,
                        FILE *out);

#endif
