/* kernels.h - everything that the GPU computes except matrix products. For C and CUDA.
 *
 * Every function queues kernels on CUDA_STREAM and returns what the launch said. All arrays are
 * device memory. No number is summed with atomics and no order depends on timing: the same call
 * gives the same bits. Sums over rows are made in COLUMN_PARTS or NORM_PARTS parts, whose order is
 * fixed, and the parts then added in order, by the block that draws the last ticket; sums over a
 * row by a fixed tree. */
#ifndef EXEC_DEVICE_CUDA_KERNELS_H
#define EXEC_DEVICE_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/device/gpu_limits.h"

/* One compute stream per rank: of the thread that computes, so that devices and transports share it
 * without a variable. */
#define CUDA_STREAM cudaStreamPerThread

enum { COLUMN_PARTS = 64, NORM_PARTS = 256 };
/* Counters in device memory, `ticket` below: zeros, and zeros again behind every kernel. */
enum { TICKETS = 1024 };

/* What activations and their gradients (`void *` below) are stored as; parameters, their gradients,
 * sums and what is saved per row are fp32, and so is all arithmetic. In the order of
 * exec/element.h. */
enum kernel_type { KERNEL_FP32, KERNEL_BF16, KERNEL_FP16 };

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t kernel_add(float *y, const float *x, size_t n); /* y += x */
/* y += x, and y = a + b, of activations. */
cudaError_t kernel_accumulate(enum kernel_type t, void *y, const void *x, size_t n);
cudaError_t kernel_accumulate_on(cudaStream_t stream, enum kernel_type t, void *y, const void *x,
                                 size_t n);
cudaError_t kernel_sum(enum kernel_type t, void *y, const void *a, const void *b, size_t n);
/* fp32 to 16 bits, and back. */
cudaError_t kernel_narrow(enum kernel_type t, void *y, const float *x, size_t n);
cudaError_t kernel_widen(enum kernel_type t, float *y, const void *x, size_t n);
/* The first columns of y (rows, width) += bias [columns]; out [columns] += sums of the first
 * columns of x (rows, width), work [COLUMN_PARTS * columns]: kernels_columns.cu. */
cudaError_t kernel_bias(enum kernel_type t, void *y, const float *bias, size_t rows, size_t columns,
                        size_t width);
cudaError_t kernel_columns(enum kernel_type t, float *out, const void *x, size_t rows,
                           size_t columns, size_t width, float *work, unsigned *ticket);

cudaError_t kernel_gelu(enum kernel_type t, void *y, const void *x, size_t n);
cudaError_t kernel_gelu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n);

/* x (rows, channels); saved [2 * rows] mean and 1 / deviation; weight, then bias: kernels_norm.cu.
 * root: RMSNorm of whole rows, whose mean counts as 0 and which has no bias; offset: weights are 1
 * + parameter. */
struct kernel_norm {
    enum kernel_type type;
    size_t rows, channels;
    int root, offset;
    const void *x;
    const void *other; /* forward: the layer's input is x + other, which goes to sum; NULL: x */
    void *sum;
    const float *parameter;
    float *saved;
    int adds; /* backward: to dx */
};
cudaError_t kernel_norm(const struct kernel_norm *l, void *y);
/* d_parameter += ..., work [2 * NORM_PARTS * channels], half of that without bias */
cudaError_t kernel_norm_backward(const struct kernel_norm *l, const void *dy, void *dx,
                                 float *d_parameter, float *work, unsigned *ticket);

/* x (rows, channels); units of the first `normal` channels, saved [rows * units]:
 * exec/device/cpu/rmsnorm.c says which. offset: weights are 1 + parameter. */
struct kernel_rms {
    enum kernel_type type;
    size_t rows, channels, normal, queries, head;
    int offset;
    const void *x;
    const float *parameter;
    float *saved;
};
cudaError_t kernel_rms(const struct kernel_rms *l, void *y);
cudaError_t kernel_rms_backward(const struct kernel_rms *l, const void *dy, void *dx);
/* d_parameter [weights] += ..., work [COLUMN_PARTS * weights] */
cudaError_t kernel_rms_weight(const struct kernel_rms *l, const void *dy, size_t weights,
                              float *d_parameter, float *work, unsigned *ticket);

/* Where token t of `tokens` that one of `context` replicas has is in the sequence: two chunks, as
 * exec/device/layer.h has it (layer_place()). context 0, 1: all of it. */
struct kernel_place {
    size_t tokens, context, position;
};
/* Channels `at` .. at + n - 1 of rows of `whole` (samples, context tokens, whole_width), those of
 * the place's tokens, from `part` (samples, tokens, part_width), channels part_at .. ; out: to
 * there. fp32. */
struct kernel_rows_of {
    struct kernel_place place;
    size_t samples, n, whole_width, at, part_width, part_at;
};
cudaError_t kernel_rows_in(const struct kernel_rows_of *r, float *whole, const float *part);
cudaError_t kernel_rows_out(const struct kernel_rows_of *r, const float *whole, float *part);

/* Replicas that change tokens for heads. A row of own tokens is q | k | v, or, kv_heads 0, as many
 * heads of `depth`; a row of part k is what of it replica k attends with: 1 / context of its heads,
 * of keys and values at least one. parts (context, samples, tokens, width of a part); `out`: to
 * them, else from them, where heads that several replicas have had are added up. fp32. */
struct kernel_swap {
    struct kernel_place place; /* whose position is of no use */
    size_t samples, heads, kv_heads, depth, value;
};
cudaError_t kernel_swap_heads(const struct kernel_swap *s, float *rows, float *parts, int out);
/* all (samples, context tokens, width of a part): what replica k has of all tokens is in part k. */
cudaError_t kernel_swap_tokens(const struct kernel_swap *s, float *all, float *parts, int out);

/* Rotary positions of rows as attention reads them, channels i and i + pairs of the last 2 pairs
 * of a head; or of latents, from rows of q and of k and v: exec/device/cpu/rope.c. back: of
 * gradients. */
struct kernel_rope {
    enum kernel_type type;
    struct kernel_place place;
    size_t rows, heads, kv_heads, depth, value, pairs;
    double base;
    int back;
    /* (tokens, pairs, 2): cosine and sine, which kernel_rope() leaves there; NULL: nowhere */
    float *table;
};
cudaError_t kernel_rope(const struct kernel_rope *r, const void *x, void *y);
cudaError_t kernel_latent(const struct kernel_rope *r, const void *q, const void *kv, void *y);
cudaError_t kernel_latent_backward(const struct kernel_rope *r, const void *dy, void *dq,
                                   void *dkv);

/* y (rows, columns) = act(a) b of x = a | b (rows, 2 columns): silu, or gelu in its tanh form. */
cudaError_t kernel_gated(enum kernel_type t, int is_tanh, void *y, const void *x, size_t rows,
                         size_t columns);
cudaError_t kernel_gated_backward(enum kernel_type t, int is_tanh, void *dx, const void *x,
                                  const void *dy, size_t rows, size_t columns);
/* The last n channels of rows, from rows of one width to rows of another. */
cudaError_t kernel_pass_on(enum kernel_type t, void *to, size_t to_width, const void *from,
                           size_t from_width, size_t rows, size_t n);
/* Tables of values, positions and types as in exec/device/cpu/embedding.c, each as far as it is
 * here: row `first` is at `start` in the parameters. token [samples * tokens] are below `values`.
 * */
struct kernel_table {
    size_t start, first, rows;
};
struct kernel_embedding {
    enum kernel_type type; /* of y and dy */
    struct kernel_place place;
    size_t samples, tokens, channels, values;
    const int32_t *token;
    struct kernel_table value, position, segment; /* segment: of BERT's types */
    float factor;                                 /* of the values' rows */
};
cudaError_t kernel_embedding(const struct kernel_embedding *e, const float *parameter, void *y);
/* work [COLUMN_PARTS * channels] */
cudaError_t kernel_embedding_backward(const struct kernel_embedding *e, const void *dy,
                                      float *d_parameter, float *work, unsigned *ticket);

/* Attention as in exec/device/cpu/attention.c: x (samples, tokens, heads depth + kv_heads (depth +
 * value)) = q | k | v, y (samples, tokens, heads value); row t sees columns <= t if causal and > t
 * - window. sink [heads], NULL: none. saved (samples, heads, tokens, 2): the logarithm of a row's
 * sum of exponentials, and in the backward the sum over the row of dy y. */
struct kernel_attention {
    enum kernel_type type;
    size_t samples, tokens, heads, kv_heads, depth, value, window;
    int causal, tensor_cores; /* the GPU has them for 16 bits */
    float scale;
    const void *x;
    const float *sink;
    float *saved;
    /* Backward, where kernel_attention_turns(): the gradients of queries and keys are turned back
     * by these angles (kernel_rope: table) before they are rounded; NULL: not. */
    const float *angles;
};
/* Heads of 64, 80 and 128 channels in 16 bits, and arrays at multiples of 16 bytes: on tensor
 * cores, where p and the gradient of scores are rounded to these. */
cudaError_t kernel_attention(const struct kernel_attention *a, void *y);
/* dx, from what the forward has left in y and saved; d_sink [heads] is added to. */
cudaError_t kernel_attention_backward(const struct kernel_attention *a, const void *y,
                                      const void *dy, void *dx, float *d_sink);
/* Is it on tensor cores with these arrays, which know how to turn? */
int kernel_attention_turns(const struct kernel_attention *a, const void *y, const void *dy,
                           const void *dx);

/* Cross-entropy of x (rows, columns), the classes `first` .. first + columns; target [rows] < 0:
 * row does not count. part (rows, shards, 3) is what each shard has seen of each row: largest, sum
 * of exp(x - largest), x of the target or 0; a look fills in those of `shard` and zeros elsewhere.
 * saved (rows, 3): largest and 1 / sum of all, loss of the row. */
struct kernel_loss {
    enum kernel_type type; /* of x and dx */
    size_t rows, columns, first, shards, shard;
    size_t row; /* numbers from one row of x and dx to the next */
    const void *x;
    const int32_t *target;
    float *part, *saved, scale;
};
/* Undivided classes: saved from x, and dx in its place if wanted. */
cudaError_t kernel_loss_row(const struct kernel_loss *l, int in_place);
cudaError_t kernel_loss_look(const struct kernel_loss *l); /* part from x */
cudaError_t kernel_loss_join(const struct kernel_loss *l); /* saved from part */
/* *loss += scale * sum of the losses of the rows */
cudaError_t kernel_loss_sum(const struct kernel_loss *l, double *loss);
cudaError_t kernel_loss_backward(const struct kernel_loss *l, void *dx);

/* Nothing, for so long by the GPU's clock; its resolution is up to 1 us. */
cudaError_t kernel_spin(uint64_t ns);

/* An update of n parameters, Adam's if `square` is not NULL, by exec/device/backend.h:
 * kernels_update.cu. */
struct kernel_update {
    size_t n;
    float *parameter, *gradient, *moment, *square;
    void *half;          /* parameters again, of 16 bits; NULL: not */
    enum kernel_type as; /* which these are */
    int clears;          /* gradients are zeros behind it */
    float rate, unbias, scale, decay, momentum;
    int nesterov;
    const float *clipped; /* gradients count so much less; NULL: they do not */
};
cudaError_t kernel_update(const struct kernel_update *u);
/* *factor = 1, or most over the norm of scale gradient [n] if that is more. part [CLIP_PARTS] */
enum { CLIP_PARTS = 256 };
cudaError_t kernel_clip(float *factor, const float *gradient, size_t n, double scale, double most,
                        double *part, unsigned *ticket);

#ifdef __cplusplus
}
#endif

#endif
