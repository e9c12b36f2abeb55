/* selftest.h - does the CUDA device compute what the CPU device does, on this machine? */
#ifndef EXEC_DEVICE_CUDA_SELFTEST_H
#define EXEC_DEVICE_CUDA_SELFTEST_H

#include <stdio.h>

#include "core/base/error.h"
#include "exec/device/cuda/context.h"

enum { SELFTEST_SKIPPED = 77 };

/* One row of the table: `worst` is the largest difference, relative to the largest number of its
 * array; NAN fails. Returns whether it is within the limit. */
bool selftest_row(FILE *to, const char *name, double worst, double limit);

enum { SELFTEST_ATTRIBUTES = 12 };
struct selftest_case {
    const char *name, *kind;
    size_t batch;
    bool tied;
    size_t attributes;
    struct model_attribute attribute[SELFTEST_ATTRIBUTES];
};
struct selftest_division {
    struct selftest_case k;
    enum model_tensor tensor;
    size_t groups; /* as in struct layer_shard */
};
/* All shards of a layer forward and backward, on the host and on the GPU, whose activations are
 * `half`; out: largest difference of outputs and gradients, relative to the largest number of each.
 * large: attention's values are up to 64 and gradients of the output up to 1,024 instead of 1, of
 * which products are beyond fp16. */
enum status selftest_run(struct cuda_context *c, const struct selftest_division *d, size_t shards,
                         enum element half, bool large, double *worst) MUST_CHECK;
/* What a row of other numbers than fp32 has behind its name: ", bf16". */
extern const char *const selftest_half[ELEMENTS];

/* The layer, or one shard of it, on the CPU; cuda_adapt() makes it the GPU's. */
enum status selftest_shape(const struct selftest_division *d, const struct layer_shard *shard,
                           struct layer *out) MUST_CHECK;
/* What is computed with the op before or behind it, or added to a gradient, against the CPU's
 * layers one after the other; a row each. *good stays false. */
enum status selftest_pairs(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;

/* Layers of random shapes, 0 .. shapes - 1, in bf16, every second in fp16 and every fourth in fp32,
 * against the CPU's: the largest difference of those of each row of the table and type; what is
 * beyond a limit is printed with its shape. */
struct selftest_limit {
    const char *name;
    double limit[ELEMENTS];
};
struct selftest_family {
    size_t shapes;
    struct selftest_division (*shape)(size_t shape);
    size_t (*row)(const struct selftest_division *d);
    /* Not in 16 bits. NULL: all are. */
    bool (*skips)(const struct selftest_division *d);
    /* In fp16: of selftest_run(). NULL: none is. */
    bool (*large)(const struct selftest_division *d, size_t shape);
    size_t rows;
    const struct selftest_limit *row_of; /* [rows] */
};
enum status selftest_shapes(struct cuda_context *c, const struct selftest_family *f, FILE *to,
                            bool *good) MUST_CHECK;
/* 0 .. n - 1: number `k` of those of a shape. */
int64_t selftest_draw(size_t shape, size_t k, int64_t n);

/* Gates and experts of random shapes. */
enum status selftest_mixture(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;
/* Attention of random shapes: heads of 64, 80 and 128 channels, shared keys, windows, sinks,
 * lengths that are no multiple of a tile; against the CPU's, which keeps all of the softmax. */
enum status selftest_attention(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;

/* Convolutions, norms of images, LSTMs and whatever else models have, of random shapes. */
enum status selftest_kinds(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;

/* Every layer on random data against exec/device/cpu; a row each. */
enum status selftest_layers(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;
/* A small GPT trained on both devices, whole and with split backwards: losses; and on the GPU
 * twice: the same bits. */
enum status selftest_training(FILE *to, bool *good) MUST_CHECK;
/* Bandwidth of copies, matrix products per second, time of a launch: for information. */
enum status selftest_speed(struct cuda_context *c, FILE *to) MUST_CHECK;

/* With cuDNN (attention_cudnn.h), which is open: attention of the same shapes, some of which it
 * takes; and milliseconds of it and of our kernels, and whether two calls of it leave the same
 * bits. */
enum status selftest_cudnn(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;
enum status selftest_cudnn_speed(struct cuda_context *c, FILE *to, bool *good) MUST_CHECK;

/* All: layers, attention, mixtures, other kinds, training and speed; or one of the first four
 * alone. Those of cuDNN are not among all. Exit status: 0 all within limits, 1 not, 77 no GPU or no
 * cuDNN. (Layers alone have every kernel, and are what compute-sanitizer has the time for.) */
enum selftest_part {
    SELFTEST_ALL,
    SELFTEST_LAYERS,
    SELFTEST_ATTENTION,
    SELFTEST_MIXTURE,
    SELFTEST_KINDS,
    SELFTEST_CUDNN,
    SELFTEST_CUDNN_SPEED,
    SELFTEST_PARTS
};
int cuda_selftest(FILE *to, enum selftest_part part);

#endif
