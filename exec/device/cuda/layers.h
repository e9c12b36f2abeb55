/* layers.h - the layer kinds that the GPU computes, for cuda_adapt(). */
#ifndef EXEC_DEVICE_CUDA_LAYERS_H
#define EXEC_DEVICE_CUDA_LAYERS_H

#include "exec/device/cuda/context.h"

extern const struct layer_kind cuda_attention, cuda_rmsnorm, cuda_rope, cuda_gated, cuda_gate,
    cuda_token_gate, cuda_experts;
/* What is kept and scratch, where they are not the CPU's. */
void cuda_attention_sizes(struct layer *l);
void cuda_rms_sizes(struct layer *l);
void cuda_rope_sizes(struct layer *l);
void cuda_gate_sizes(struct layer *l);
void cuda_token_gate_sizes(struct layer *l);
void cuda_experts_sizes(struct layer *l);

/* Of kernels that sum in parts, whose last block adds these up (kernels.h). */
static inline unsigned *cuda_tickets(const struct layer_io *io)
{
    return ((const struct cuda_context *)io->on)->tickets;
}

#endif
