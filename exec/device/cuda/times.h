/* times.h - when the compute ops of a step ran on the GPU, and the sums inside them, by CUDA
 * events; and the one clock that these and the events of transports are read against. */
#ifndef EXEC_DEVICE_CUDA_TIMES_H
#define EXEC_DEVICE_CUDA_TIMES_H

#include <stdbool.h>

#include "core/data/program.h"
#include "exec/device/cuda/context.h"

/* Events say how long after another event they happened: of a step, after `base`. The device's
 * times and its transport's (rendezvous.h: clock) count from the same one. */
struct cuda_clock {
    cudaEvent_t base;
    double base_s; /* CLOCK_MONOTONIC of `base` */
    bool is_fresh; /* a transport has started it for the step that begins */
};
enum status cuda_clock_open(struct cuda_clock *c) MUST_CHECK;
void cuda_clock_close(struct cuda_clock *c); /* accepts {0}; leaves {0} */
/* Begin a step, while nothing is queued on CUDA_STREAM. */
enum status cuda_clock_start(struct cuda_clock *c) MUST_CHECK;
/* When an event that has happened did so; NAN: it was never recorded. */
double cuda_clock_read(const struct cuda_clock *c, cudaEvent_t event);

/* An op of the rank. */
struct cuda_span {
    cudaEvent_t begin, end; /* NULL for communication */
    size_t first, sums;     /* its sums in this step are sum[first .. first + sums) */
};

struct cuda_times {
    const struct program *program;
    size_t first, ops;      /* of the rank */
    struct cuda_span *span; /* [ops] */
    size_t used, sums;      /* of sum[]: in this step; made */
    cudaEvent_t *sum;       /* [2 * sums] begin and end */
    int *how;               /* [sums] enum layer_move, or CUDA_SUM */
    struct cuda_span *now;  /* op under way */
    struct cuda_clock clock;
    uint32_t step; /* UINT32_MAX at first */
};

/* To be closed even after a failure; the program stays alive until then. */
enum status cuda_times_open(const struct program *p, uint32_t rank,
                            struct cuda_times *out) MUST_CHECK;
void cuda_times_close(struct cuda_times *t); /* accepts {0}; leaves {0} */

/* Around what an op queues. */
enum status cuda_times_begin(struct cuda_times *t, struct cuda_context *c, uint32_t step,
                             const struct program_op *op) MUST_CHECK;
void cuda_times_end(struct cuda_times *t, struct cuda_context *c);
/* Around a sum over shards inside it, or what they gather or scatter: enum layer_move. */
enum { CUDA_SUM = -1 };
void cuda_times_sum_begin(struct cuda_times *t, struct cuda_context *c, int how);
void cuda_times_sum_end(struct cuda_times *t, struct cuda_context *c);
/* CLOCK_MONOTONIC, and the seconds of the sums; when everything has happened. */
void cuda_times_read(const struct cuda_times *t, struct cuda_context *c,
                     const struct program_op *op, double *start_s, double *end_s, double *sums_s);
/* The seconds of those that moved so. */
double cuda_times_moved(const struct cuda_times *t, struct cuda_context *c,
                        const struct program_op *op, int how);

#endif
