/* rows.h - kernels on rows and numbers of kinds that have no product of their own
 * (kernels_rows.cu); rules as in kernels.h. Formulas are in exec/device/cpu: relu.c, silu.c,
 * pooler.c, multiply.c, concat.c, add_row.c, neighbours.c, positions.c, sinusoids.c. */
#ifndef EXEC_DEVICE_CUDA_ROWS_H
#define EXEC_DEVICE_CUDA_ROWS_H

#include "exec/device/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t kernel_relu(enum kernel_type t, void *y, const void *x, size_t n);
cudaError_t kernel_relu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n);
cudaError_t kernel_silu(enum kernel_type t, void *y, const void *x, size_t n);
cudaError_t kernel_silu_backward(enum kernel_type t, void *dx, const void *x, const void *dy,
                                 size_t n);
/* y (rows, channels) = tanh(sums + bias [channels]); sums become y in fp32. g = dy (1 - y^2). */
cudaError_t kernel_tangents(enum kernel_type t, void *y, float *sums, const float *bias,
                            size_t rows, size_t channels);
cudaError_t kernel_tangents_backward(enum kernel_type t, void *g, const float *y, const void *dy,
                                     size_t n);
/* y (rows, n) = the first n channels of a (rows, width) times b (rows, n). */
cudaError_t kernel_multiply(enum kernel_type t, void *y, const void *a, const void *b, size_t rows,
                            size_t width, size_t n);
cudaError_t kernel_multiply_backward(enum kernel_type t, void *da, void *db, const void *a,
                                     const void *b, const void *dy, size_t rows, size_t width,
                                     size_t n);
/* y (rows, first + second) = a | b; apart: a and b from y. */
cudaError_t kernel_beside(enum kernel_type t, void *y, void *a, void *b, size_t rows, size_t first,
                          size_t second, int apart);
/* y (samples, tokens, channels) = x + row (samples, channels); sums over tokens. */
cudaError_t kernel_add_row(enum kernel_type t, void *y, const void *x, const void *row,
                           size_t samples, size_t tokens, size_t channels);
cudaError_t kernel_token_sums(enum kernel_type t, void *out, const void *x, size_t samples,
                              size_t tokens, size_t channels);
/* x, dx (samples, tokens, channels), y, dy (samples, tokens, 3 channels). */
cudaError_t kernel_neighbours(enum kernel_type t, void *y, const void *x, size_t samples,
                              size_t tokens, size_t channels);
cudaError_t kernel_neighbours_backward(enum kernel_type t, void *dx, const void *dy, size_t samples,
                                       size_t tokens, size_t channels);
/* y = x + position (tokens, channels) + type [channels], NULL: none. */
cudaError_t kernel_positions(enum kernel_type t, void *y, const void *x, const float *position,
                             const float *type, size_t samples, size_t tokens, size_t channels);
/* y (samples, rows, channels) */
cudaError_t kernel_sinusoids(enum kernel_type t, void *y, size_t samples, size_t rows,
                             size_t channels, size_t first);

#ifdef __cplusplus
}
#endif

#endif
