/* Layers of models after GPT-2 on a GPU: kernels_gated.cu. */
#include "exec/device/cuda/layers.h"

/* ---- RMSNorm */

static struct kernel_rms rms_of(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_rms){
        .type = cuda_type(l),
        .rows = io->batch * l->tokens,
        .channels = l->in,
        .normal = l->normal,
        .queries = l->queries,
        .head = l->head,
        .offset = l->offset,
        .x = io->x[0],
        .parameter = io->parameter,
        .saved = io->saved,
    };
}

static void cuda_rms_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_rms r = rms_of(l, io);
    CUDA_NOTE(io->on, "rmsnorm", kernel_rms(&r, io->y));
}

static void cuda_rms_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_rms r = rms_of(l, io);
    CUDA_NOTE(io->on, "rmsnorm backward", kernel_rms_backward(&r, io->dy, io->dx[0]));
    CUDA_NOTE(
        io->on, "rmsnorm weight",
        kernel_rms_weight(&r, io->dy, l->part[0].n, io->d_parameter, io->work, cuda_tickets(io)));
}

void cuda_rms_sizes(struct layer *l)
{
    l->work = size_times(COLUMN_PARTS, l->part[0].n);
}

const struct layer_kind cuda_rmsnorm = {.type = OPERATOR_rmsnorm,
                                        .inputs = 1,
                                        .forward = cuda_rms_forward,
                                        .backward = cuda_rms_backward,
                                        .sizes = cuda_rmsnorm_sizes};

/* ---- rotary positions */

static struct kernel_rope rope_of(const struct layer *l, const struct layer_io *io, bool back)
{
    return (struct kernel_rope){
        .type = cuda_type(l),
        .rows = io->batch * l->tokens,
        .place = cuda_place(l),
        .heads = l->heads.n,
        .kv_heads = l->heads.kv,
        .depth = l->heads.depth,
        .value = l->heads.value,
        .pairs = (l->heads.turned > 0 ? l->heads.turned : l->heads.depth) / 2,
        .base = (double)l->normal,
        .back = back,
        .table = back || l->saved == 0 ? NULL : io->saved,
    };
}

static void cuda_rope_forward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_rope r = rope_of(l, io, false);
    CUDA_NOTE(io->on, "rope",
              l->heads.turned > 0 ? kernel_latent(&r, io->x[0], io->x[1], io->y)
                                  : kernel_rope(&r, io->x[0], io->y));
}

static void cuda_rope_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_rope r = rope_of(l, io, true);
    CUDA_NOTE(io->on, "rope backward",
              l->heads.turned > 0 ? kernel_latent_backward(&r, io->dy, io->dx[0], io->dx[1])
                                  : kernel_rope(&r, io->dy, io->dx[0]));
}

/* Angles, for the backward of attention in 16 bits. */
static void cuda_rope_sizes(struct layer *l)
{
    l->saved = l->heads.turned > 0 || !l->half ? 0 : size_times(l->tokens, l->heads.depth);
}

const struct layer_kind cuda_rope = {.type = OPERATOR_rope,
                                     .inputs = 1,
                                     .forward = cuda_rope_forward,
                                     .backward = cuda_rope_backward,
                                     .sizes = cuda_rope_sizes};

/* ---- gated activations */

static void cuda_gated_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "gated",
              kernel_gated(cuda_type(l), l->tanh, io->y, io->x[0], io->batch * l->tokens, l->out));
}

static void cuda_gated_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "gated backward",
              kernel_gated_backward(cuda_type(l), l->tanh, io->dx[0], io->x[0], io->dy,
                                    io->batch * l->tokens, l->out));
}

const struct layer_kind cuda_gated = {.type = OPERATOR_gated,
                                      .inputs = 1,
                                      .forward = cuda_gated_forward,
                                      .backward = cuda_gated_backward};
