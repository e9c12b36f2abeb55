/* layers.h - the layer kinds that the GPU computes, for cuda_adapt(). */
#ifndef EXEC_DEVICE_CUDA_LAYERS_H
#define EXEC_DEVICE_CUDA_LAYERS_H

#include "exec/device/cuda/context.h"

extern const struct layer_kind cuda_add_row, cuda_affine, cuda_attention, cuda_batchnorm,
    cuda_concat, cuda_convolution, cuda_depthwise, cuda_dynamic, cuda_experts, cuda_gate,
    cuda_gated, cuda_groupnorm, cuda_joined, cuda_lstm, cuda_multiply, cuda_neighbours, cuda_pool,
    cuda_pooler, cuda_positions, cuda_relative, cuda_relu, cuda_rmsnorm, cuda_rope, cuda_silu,
    cuda_sinusoids, cuda_token_gate, cuda_upsample;
/* What is kept and scratch, where they are not the CPU's. */
void cuda_attention_sizes(struct layer *l);
void cuda_rms_sizes(struct layer *l);
void cuda_rope_sizes(struct layer *l);
void cuda_gate_sizes(struct layer *l);
void cuda_token_gate_sizes(struct layer *l);
void cuda_experts_sizes(struct layer *l);
void cuda_affine_sizes(struct layer *l);
/* Of attention with l->context, which become another kind: by gathering keys, by l->swaps. */
void cuda_context_sizes(struct layer *l);
void cuda_swap_sizes(struct layer *l);
void cuda_convolution_sizes(struct layer *l);
void cuda_depthwise_sizes(struct layer *l);
void cuda_dynamic_sizes(struct layer *l);
void cuda_lstm_sizes(struct layer *l);
void cuda_moments_sizes(struct layer *l);
void cuda_pooler_sizes(struct layer *l);
void cuda_relative_sizes(struct layer *l);
/* Attention over the layer's own tokens, of io->x[0]. */
struct kernel_attention cuda_attention_of(const struct layer *l, const struct layer_io *io);
static inline struct kernel_place cuda_place(const struct layer *l)
{
    return (struct kernel_place){l->tokens, l->context, l->position};
}
/* Number n of an array of activations, or of weights as products read them. */
static inline real *cuda_at(const struct layer *l, const real *array, size_t n)
{
    return element_at(l->half, array, n);
}

/* Of kernels that sum in parts, whose last block adds these up (kernels.h). */
static inline unsigned *cuda_tickets(const struct layer_io *io)
{
    return ((const struct cuda_context *)io->on)->tickets;
}

/* cuda_KIND_forward and cuda_KIND_backward of layers whose every number is made of one of the
 * input's, by kernel_KIND and kernel_KIND_backward. */
#define CUDA_POINTWISE(KIND)                                                                       \
    static void cuda_##KIND##_forward(const struct layer *l, struct layer_io *io)                  \
    {                                                                                              \
        CUDA_NOTE(io->on, #KIND,                                                                   \
                  kernel_##KIND(cuda_type(l), io->y, io->x[0], io->batch * l->input));             \
    }                                                                                              \
    static void cuda_##KIND##_backward(const struct layer *l, struct layer_io *io)                 \
    {                                                                                              \
        CUDA_NOTE(io->on, #KIND " backward",                                                       \
                  kernel_##KIND##_backward(cuda_type(l), io->dx[0], io->x[0], io->dy,              \
                                           io->batch * l->input));                                 \
    }

#endif
