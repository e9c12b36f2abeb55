/* layers.h - the layer kinds that the GPU computes, for cuda_adapt(). */
#ifndef EXEC_DEVICE_CUDA_LAYERS_H
#define EXEC_DEVICE_CUDA_LAYERS_H

#include "exec/device/cuda/context.h"

#define YES(name) extern const struct layer_kind cuda_##name;
#define NO(name)
#define OPERATOR(name, traits, kernels, cpu, cuda, shards) cuda(name)
#include "core/data/operator_table.def"
#undef OPERATOR
#undef NO
#undef YES
/* sizes() of kinds in several files: of sums over the columns of l->out, of RMSNorms of whole rows
 * and of parts of them. */
void cuda_column_sizes(struct layer *l);
void cuda_rmsnorm_sizes(struct layer *l);
void cuda_rms_sizes(struct layer *l);
/* Of attention with l->context, which become another kind: by gathering keys, or by swaps. */
void cuda_context_sizes(struct layer *l);
void cuda_swap_sizes(struct layer *l);
/* Attention over the layer's own tokens, of io->x[0]. */
struct kernel_attention cuda_attention_of(const struct layer *l, const struct layer_io *io);
static inline struct kernel_place cuda_place(const struct layer *l)
{
    return (struct kernel_place){l->tokens, l->context.replicas, l->context.position};
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
