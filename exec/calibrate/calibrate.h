/* calibrate.h - measure this machine: what ops, messages and collectives cost with all ranks busy
 * at once. docs/reference/calibrate.md says how each figure is taken. */
#ifndef EXEC_CALIBRATE_CALIBRATE_H
#define EXEC_CALIBRATE_CALIBRATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/collective/collective.h"
#include "core/data/topology.h"
#include "exec/device/cpu/gemm.h"
#include "exec/element.h"

struct calibrate_options {
    size_t ranks;          /* processes, 1 to 64 */
    size_t repeats;        /* timed repetitions after one warm-up; the median counts */
    FILE *notes;           /* lines of progress, if we fork the ranks; NULL: none */
    const char *transport; /* "tcp": forked here; "mpi": started by mpirun; NULL: "tcp" */
    const char *worker;    /* mpi, GPU: path of what measures; NULL: found as in launch.h */
    /* GPUs only: */
    enum element half; /* in which numbers */
    bool cudnn;        /* attention by cuDNN where that can; STATUS_UNSUPPORTED: nowhere */
    const struct model
        *model;   /* whose ops are measured, in its own numbers; NULL: the usual ones */
    size_t batch; /* samples of a microbatch of it */
    /* Bytes of messages and collectives, each size four times the one before: on CPUs from 4 KiB
     * on, up to 16 KiB to 1 GiB, 0: 64 MiB; on GPUs from 1 KiB on. */
    int64_t largest;
    bool curves; /* CPUs: the topology has what each collective of all ranks took as a curve
                  * (core/cost/fabric.h), by which they are predicted then, as with GPUs */
};

/* How far repetitions lie apart. */
struct calibrate_spread {
    double median, worst; /* over all figures, of interquartile range / median */
    double jitter;        /* of a profile's ops: sum of standard deviations / sum of means */
};

/* What says whether the machine was idle. */
struct calibrate_noise {
    struct calibrate_spread spread;
    double share;  /* CPU seconds per second of its layers, of the rank that had least */
    double others; /* cores that other work used meanwhile */
    size_t ranks, cores;
};

/* What a pair of ranks gets: fitted as latency + bytes / bandwidth over half round trips. */
struct calibrate_pair {
    uint32_t from, to; /* from < to; the other direction is the same by construction */
    double latency_s, bandwidth_Bps;
};

/* Median time of one size, and what the fitted platform says of it. */
struct calibrate_timing {
    bool collective;           /* else a message, one way, over all pairs */
    enum collective_kind kind; /* of a collective */
    size_t members;            /* of each of the groups that did it at the same time */
    int64_t bytes;             /* as nccl-tests count them (core/collective/collective.h) */
    double seconds, model_s;
};

struct calibration {
    struct topology topology; /* one device type "cpu" with a rate for every kind and phase the CPU
                               * device computes, memory bandwidth, launch; one tier between all
                               * (none for one rank); devices "rank0", ... */
    struct calibrate_noise noise;
    size_t pairs;
    struct calibrate_pair *pair; /* [pairs] (0, 1), (0, 2), ... */
    size_t timings;
    struct calibrate_timing *timing; /* [timings] messages, then, groups of few members first, kind
                                      * by kind, sizes ascending */
    char library[GEMM_LIBRARY];      /* CPUs: gemm_library(); "": GPUs */
    double gemm_flops, fma_flops;    /* CPUs: cpu_measure_speed() when the ranks had ended */
    /* GPUs; 0: not known */
    double host_s;              /* that the host needs for a launch */
    double clock_Hz, memory_Hz; /* at work */
};

/* Some 10 s for 2 ranks with 5 repeats. STATUS_INVALID, STATUS_NOMEM; STATUS_EXTERNAL when a rank
 * dies; STATUS_IO: no mpirun or no worker. *out is untouched on failure. */
enum status calibrate_cpu(const struct calibrate_options *o, struct calibration *out) MUST_CHECK;
/* The GPUs of this machine, one for each rank, device type "cuda", by foreline-worker-cuda: times
 * are CUDA events around each of many calls in a queue, messages and collectives NCCL's.
 * `transport` is not looked at. Collectives of groups of 2 .. ranks become curves of the type,
 * their effect on ops beside them its slowdown, what NVML says its watts. STATUS_IO: no worker;
 * STATUS_EXTERNAL: what the worker says, there is no GPU for instance. */
enum status calibrate_cuda(const struct calibrate_options *o, struct calibration *out) MUST_CHECK;

/* Are the figures those of an idle machine? In doubt one of these is beyond its first bound,
 * useless are they when one is beyond its second:
 *
 *   spread of repetitions, median figure   above 20 %, above 100 %
 *   CPU seconds per second, worst rank     below 0.95, below 0.75
 *   cores that others used while none was
 *   left for them: others + ranks - cores  above 0.25, -
 *   ranks on fewer cores                   any, -
 *
 * `text` says which, "" when none is. */
enum calibrate_verdict { CALIBRATE_IDLE, CALIBRATE_DOUBTFUL, CALIBRATE_USELESS };
enum { CALIBRATE_DOUBT = 256 };
enum calibrate_verdict calibrate_judge(const struct calibrate_noise *n, char text[CALIBRATE_DOUBT]);
/* What that says at best of ranks >= 1 on so many cores >= 1, before anything is measured: ranks
 * begin a layer together, and the sum of their times is least when each core takes one after the
 * other. */
enum calibrate_verdict calibrate_foresee(size_t ranks, size_t cores, char text[CALIBRATE_DOUBT]);
size_t calibrate_cores(void);                 /* of this machine, >= 1 */
void calibration_free(struct calibration *c); /* accepts {0}; leaves {0} */

/* Tab-separated, a line per ordered pair and, with zeros, of a rank and itself: from, to,
 * latency_s, bandwidth_Bps, and the bandwidth min-max normalised to 0 .. 1 (the diagonal is the 0).
 * `path` "-": standard output. STATUS_IO, STATUS_NOMEM. */
enum status calibration_write_matrix(const struct calibration *c, const char *path) MUST_CHECK;

#endif
