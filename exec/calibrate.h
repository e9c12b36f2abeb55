/* calibrate.h - measure this machine: what ops and messages cost with all ranks busy at once. */
#ifndef EXEC_CALIBRATE_H
#define EXEC_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/topology.h"

struct calibrate_options {
    size_t ranks;   /* processes, >= 1 */
    size_t repeats; /* timed repetitions after one warm-up; the median counts */
    bool progress;  /* lines on stderr */
};

/* How far repetitions lie apart: interquartile range / median of the figures measured. */
struct calibrate_spread {
    double median, worst; /* over all figures */
};

/* One device type "cpu" with a rate for every kind and phase the CPU device computes, at several
 * sizes (all ranks measuring at the same time, as they will run), memory bandwidth, and one tier
 * with latency and bandwidth fitted over ping-pongs between every pair (none for one rank). Device
 * names "rank0", ...; docs/calibrate.md says how each figure is taken. Some 5 s for 2 ranks with 5
 * repeats. STATUS_INVALID, STATUS_NOMEM; STATUS_EXTERNAL when a rank dies. */
enum status calibrate_cpu(const struct calibrate_options *o, struct topology *out,
                          struct calibrate_spread *spread) MUST_CHECK;

#endif
