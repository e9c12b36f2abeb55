/* Attention (exec/device/cpu/attention.c): one kernel forward, two backward; or cuDNN's
 * (attention_cudnn.h). */
#include <math.h>

#include "exec/device/cuda/attention_cudnn.h"
#include "exec/device/cuda/layers.h"

/* Per row of a head the logarithm of its sum of exponentials, and in the backward one number
 * more. */
static void cuda_attention_sizes(struct layer *l)
{
    if (l->context.replicas > 1) {
        (l->context.swaps ? cuda_swap_sizes : cuda_context_sizes)(l);
        return;
    }
    l->saved = size_times(2 * l->heads.n, l->tokens);
    l->work = 0;
}

struct kernel_attention cuda_attention_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_attention){
        .type = cuda_type(l),
        .samples = io->batch,
        .tokens = l->tokens,
        .heads = l->heads.n,
        .kv_heads = l->heads.kv,
        .depth = l->heads.depth,
        .value = l->heads.value,
        .window = l->attention.window,
        .causal = l->attention.causal,
        .tensor_cores = ((const struct cuda_context *)io->on)->tensor_cores,
        .scale = (real)(1.0 / sqrt((double)l->heads.depth)),
        .x = io->x[0],
        .sink = l->attention.sinks ? io->parameter : NULL,
        .saved = io->saved,
    };
}

static void cuda_attention_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_attention a = cuda_attention_of(l, io);
    if (!cuda_cudnn_forward(io->on, &a, io->y))
        CUDA_NOTE(io->on, "attention", kernel_attention(&a, io->y));
}

static void cuda_attention_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_attention a = cuda_attention_of(l, io);
    if (!cuda_cudnn_backward(io->on, &a, io->y, io->dy, io->dx[0]))
        CUDA_NOTE(io->on, "attention backward",
                  kernel_attention_backward(&a, io->y, io->dy, io->dx[0], io->d_parameter));
}

/* Gradients turned back by the angles of the positions before it. */
static bool backward_with_rope(const struct layer *l, struct layer_io *io,
                               const struct layer *before, struct layer_io *of_before)
{
    struct kernel_attention a = cuda_attention_of(l, io);
    if (before->kind != &cuda_rope || before->heads.turned > 0 || cuda_cudnn_takes(io->on, &a) ||
        !kernel_attention_turns(&a, io->y, io->dy, of_before->dx[0]))
        return false;
    a.angles = of_before->saved;
    CUDA_NOTE(io->on, "attention and rope backward",
              kernel_attention_backward(&a, io->y, io->dy, of_before->dx[0], io->d_parameter));
    return true;
}

const struct layer_kind cuda_attention = {.type = OPERATOR_attention,
                                          .inputs = 1,
                                          .forward = cuda_attention_forward,
                                          .backward = cuda_attention_backward,
                                          .backward_with = backward_with_rope,
                                          .reads_output = true,
                                          .sizes = cuda_attention_sizes};
