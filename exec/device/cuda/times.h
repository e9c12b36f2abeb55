/* times.h - when the compute ops of a step ran on the GPU, by CUDA events. */
#ifndef EXEC_DEVICE_CUDA_TIMES_H
#define EXEC_DEVICE_CUDA_TIMES_H

#include "core/program.h"
#include "exec/device/cuda/context.h"

struct cuda_times {
    const struct program *program;
    size_t first, ops;        /* of the rank */
    cudaEvent_t base, *event; /* [2 * ops] begin and end, NULL for communication */
    uint32_t step;            /* of `base`, UINT32_MAX at first */
    double base_s;            /* when it happened */
};

/* To be closed even after a failure; the program stays alive until then. */
enum status cuda_times_open(const struct program *p, uint32_t rank,
                            struct cuda_times *out) MUST_CHECK;
void cuda_times_close(struct cuda_times *t); /* accepts {0}; leaves {0} */

/* Around what an op queues. The first op of a step waits for the GPU: its clock counts from there.
 */
enum status cuda_times_begin(struct cuda_times *t, struct cuda_context *c, uint32_t step,
                             const struct program_op *op) MUST_CHECK;
void cuda_times_end(struct cuda_times *t, struct cuda_context *c, const struct program_op *op);
/* CLOCK_MONOTONIC; when everything has happened. */
void cuda_times_read(const struct cuda_times *t, struct cuda_context *c,
                     const struct program_op *op, double *start_s, double *end_s);

#endif
