/* profile.h - measure the ops of a model one by one, as they are in a pipeline on this machine. */
#ifndef EXEC_CALIBRATE_PROFILE_H
#define EXEC_CALIBRATE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/data/model.h"
#include "core/data/program.h"
#include "exec/calibrate/calibrate.h"

struct profile_options {
    size_t batch;       /* samples of a microbatch, >= 1 */
    size_t ranks;       /* processes that measure at the same time, 1 to 64 */
    size_t repeats;     /* timed repetitions after a warm-up; the median counts */
    FILE *notes;        /* a line of progress; NULL: none */
    bool gpu;           /* device type "cuda", by foreline-worker-cuda; one rank */
    bool cudnn;         /* GPU: attention by cuDNN where that can; STATUS_UNSUPPORTED: nowhere */
    const char *worker; /* its path, NULL: found as in launch.h */
    /* A model whose ops are computed by strategies only (struct device: stepped): that of one
     * device, with `batch` samples; its iterations are measured op by op. NULL: layers of the
     * device. */
    const struct program *strategy;
};

/* Seconds of every op, forward and backward, on the CPU or CUDA device as a profile of *m for
 * device type "cpu" or "cuda" and microbatches of `batch` samples, in place of one that it has for
 * that; how far repetitions lie apart goes to *spread. Ops alike in kind and shape are measured
 * once, with caches as in docs/reference/calibrate.md. Times are whole nanoseconds, so that a
 * graph.txt can have the same numbers (model/papers.h). About ranks x 20 ms x repeats per distinct
 * op. STATUS_UNSUPPORTED, STATUS_INVALID name an op that the device does not compute; then what
 * team_run() or the worker says. *m is unchanged on failure. */
enum status profile_ops(struct model *m, const struct profile_options *o,
                        struct calibrate_spread *spread) MUST_CHECK;

#endif
