/* calibrate.h - measure this machine: what ops and messages cost with all ranks busy at once. */
#ifndef EXEC_CALIBRATE_H
#define EXEC_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/topology.h"

struct calibrate_options {
    size_t ranks;     /* processes, >= 1 */
    size_t repeats;   /* timed repetitions after one warm-up; the median counts */
    bool progress;    /* lines on stderr */
};

/* One device type "cpu" with a rate for every kind and phase the CPU device computes, at several
 * sizes (all ranks measuring at the same time, as they will run), memory bandwidth, and one tier
 * with latency and bandwidth fitted over ping-pongs between every pair (worst spread reported in
 * *spread: interquartile range / median of the noisiest figure). Device names "rank0", ... */
enum status calibrate_cpu(const struct calibrate_options *o, struct topology *out,
                          double *spread) MUST_CHECK;

#endif
