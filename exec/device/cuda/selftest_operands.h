/* selftest_operands.h - what a layer works on, in host memory and on the GPU, with the same numbers
 * in both. */
#ifndef EXEC_DEVICE_CUDA_SELFTEST_OPERANDS_H
#define EXEC_DEVICE_CUDA_SELFTEST_OPERANDS_H

#include <stdbool.h>

#include "exec/device/cuda/context.h"

enum array {
    X0,
    X1,
    Y,
    SAVED,
    WORK,
    PARAMETER,
    SHARED,
    HALF, /* PARAMETER and SHARED in 16 bits, GPU only */
    HALF_SHARED,
    DY,
    DX0,
    DX1,
    D_PARAMETER,
    D_SHARED,
    TOKEN,
    TARGET,
    ARRAYS
};

struct operands {
    bool large;                      /* X0 and DY: may be set before operands_open() */
    enum element half;               /* activations on the GPU */
    size_t n[ARRAYS], n_gpu[ARRAYS]; /* 4-byte numbers */
    void *host[ARRAYS], *gpu[ARRAYS];
};

/* For forward and backward of a layer on the CPU and on the GPU, whose activations may have 16
 * bits: all numbers are then some that these have. Shards have the same tokens and targets, and
 * other numbers. To be closed even after a failure. */
enum status operands_open(struct cuda_context *c, const struct layer *cpu, const struct layer *gpu,
                          size_t batch, struct operands *o) MUST_CHECK;
void operands_close(struct operands *o); /* accepts {0}; leaves {0} */
/* `data`: o->host or o->gpu; `on`: the backend's state. */
struct layer_io operands_io(void *const data[ARRAYS], size_t batch, void *on);
/* Largest difference of an array, relative to its largest number; *worst grows to it, NAN wins. */
enum status operands_compare(struct cuda_context *c, const struct operands *o, enum array k,
                             double *worst) MUST_CHECK;

#endif
