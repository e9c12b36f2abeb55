/* experts.h - what the sources of experts on a GPU call of each other: layers_mixture.c, all of
 * them here, and layers_spread.c, those that are spread over ranks. */
#ifndef EXEC_DEVICE_CUDA_EXPERTS_H
#define EXEC_DEVICE_CUDA_EXPERTS_H

#include "exec/device/cuda/context.h"
#include "exec/device/cuda/mixture.h"

/* Rows of the experts here, sorted by expert: r.experts, r.begin, r.tile and r.weight say which. y
 * is fp32. */
struct experts_rows {
    struct kernel_routes r;
    size_t most; /* rows */
    real *x, *inside, *act, *y;
};
/* y from x. */
void cuda_experts_products(const struct layer *l, struct layer_io *io,
                           const struct experts_rows *k);
/* y has the gradient of the second product's result and gets that of x; `inside` that of itself. */
void cuda_experts_products_backward(const struct layer *l, struct layer_io *io,
                                    const struct experts_rows *k);

/* The choices of own tokens, at the beginning of `saved`: so many numbers of 4 bytes of a batch. */
size_t cuda_experts_numbers(const struct layer *l, size_t batch);
struct kernel_routes cuda_experts_routes(const struct layer *l, const struct layer_io *io);

/* Make the layer that of experts on other ranks. */
void cuda_spread_sizes(struct layer *l);

#endif
