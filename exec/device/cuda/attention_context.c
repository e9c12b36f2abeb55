/* Attention where replicas share sequences, exec/device/cpu/context.c, in fp32. A replica makes a
 * sequence as long as all of them have together, of which it has the queries of its own tokens and
 * zeros for others, and the keys and values of all, which it gathers. Rows of others cost time and
 * change nothing: their gradients are zeros.
 *
 * What is kept of a sample is what attention keeps of the whole sequence, and room for one call:
 * what is exchanged, and x, dx, y, dy of the whole sequence. */
#include "exec/device/cuda/layers.h"

static const struct layer_kind context_attention;

void cuda_context_sizes(struct layer *l)
{
    l->kind = &context_attention;
    size_t row = layer_key_width(l) + 2 * l->in + 2 * l->out + 2 * l->heads.n;
    l->saved = size_times(l->context.sequence, row);
    l->work = 0;
}

/* Room for the whole sequences, one after the other behind what attention keeps. */
struct context_buffers {
    real *exchanged, *x, *dx, *y, *dy;
};

static struct context_buffers whole_of(const struct layer *l, const struct layer_io *io)
{
    size_t rows = io->batch * l->context.sequence;
    struct context_buffers w = {.exchanged = io->saved + 2 * l->heads.n * rows};
    w.x = w.exchanged + layer_key_width(l) * rows;
    w.dx = w.x + l->in * rows;
    w.y = w.dx + l->in * rows;
    w.dy = w.y + l->out * rows;
    return w;
}

/* n channels of the rows of replica k. */
static struct kernel_rows_of cuda_context_rows(const struct layer *l, const struct layer_io *io,
                                               size_t k, size_t width, size_t at, size_t n)
{
    return (struct kernel_rows_of){.place = {l->tokens, l->context.replicas, k},
                                   .samples = io->batch,
                                   .n = n,
                                   .whole_width = width,
                                   .at = at,
                                   .part_width = width,
                                   .part_at = at};
}

/* The keys and values of replica k, which stand alone in what is exchanged. */
static struct kernel_rows_of cuda_context_keys(const struct layer *l, const struct layer_io *io,
                                               size_t k)
{
    struct kernel_rows_of r =
        cuda_context_rows(l, io, k, l->in, layer_first_key(l), layer_key_width(l));
    r.part_width = r.n;
    r.part_at = 0;
    return r;
}

/* Where replica k's keys and values, or their gradients, are in what is exchanged. */
static real *cuda_context_part(const struct layer *l, const struct layer_io *io,
                               const struct context_buffers *w, size_t k)
{
    size_t n = io->batch * l->context.sequence * layer_key_width(l);
    return w->exchanged + cuda_part(io->on, n, l->context.replicas, k).first;
}

static void cuda_context_exchange(const struct layer *l, struct layer_io *io,
                                  const struct context_buffers *w, enum op_kind kind)
{
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, kind, w->exchanged,
                            io->batch * l->context.sequence * layer_key_width(l));
}

/* w->x from x: own queries, zeros for others', and everybody's keys and values. */
static void cuda_context_gather(const struct layer *l, struct layer_io *io,
                                const struct context_buffers *w)
{
    size_t rows = io->batch * l->tokens, width = layer_key_width(l);
    CUDA_NOTE(io->on, "keys",
              kernel_pass_on(KERNEL_FP32, cuda_context_part(l, io, w, l->context.position), width,
                             io->x[0], l->in, rows, width));
    cuda_context_exchange(l, io, w, OP_ALLGATHER);
    backend_cuda.zero(io->on, w->x, io->batch * l->context.sequence * l->in * sizeof(real));
    struct kernel_rows_of own =
        cuda_context_rows(l, io, l->context.position, l->in, 0, layer_first_key(l));
    CUDA_NOTE(io->on, "queries", kernel_rows_in(&own, w->x, io->x[0]));
    for (size_t k = 0; k < l->context.replicas; k++) {
        const struct kernel_rows_of r = cuda_context_keys(l, io, k);
        CUDA_NOTE(io->on, "keys", kernel_rows_in(&r, w->x, cuda_context_part(l, io, w, k)));
    }
}

/* dx from w->dx: own gradients of queries, and the sum of everybody's of own keys and values. */
static void cuda_context_scatter(const struct layer *l, struct layer_io *io,
                                 const struct context_buffers *w)
{
    size_t rows = io->batch * l->tokens, width = layer_key_width(l);
    struct kernel_rows_of own =
        cuda_context_rows(l, io, l->context.position, l->in, 0, layer_first_key(l));
    CUDA_NOTE(io->on, "queries", kernel_rows_out(&own, w->dx, io->dx[0]));
    for (size_t k = 0; k < l->context.replicas; k++) {
        const struct kernel_rows_of r = cuda_context_keys(l, io, k);
        CUDA_NOTE(io->on, "keys", kernel_rows_out(&r, w->dx, cuda_context_part(l, io, w, k)));
    }
    cuda_context_exchange(l, io, w, OP_REDUCESCATTER);
    CUDA_NOTE(io->on, "keys",
              kernel_pass_on(KERNEL_FP32, io->dx[0], l->in,
                             cuda_context_part(l, io, w, l->context.position), width, rows, width));
}

/* Over whole sequences. */
static struct kernel_attention cuda_context_head(const struct layer *l, const struct layer_io *io,
                                                 const struct context_buffers *w)
{
    struct kernel_attention a = cuda_attention_of(l, io);
    a.tokens = l->context.sequence;
    a.x = w->x;
    return a;
}

static void cuda_context_forward(const struct layer *l, struct layer_io *io)
{
    const struct context_buffers w = whole_of(l, io);
    cuda_context_gather(l, io, &w);
    const struct kernel_attention a = cuda_context_head(l, io, &w);
    const struct kernel_rows_of own =
        cuda_context_rows(l, io, l->context.position, l->out, 0, l->out);
    CUDA_NOTE(io->on, "attention", kernel_attention(&a, w.y));
    CUDA_NOTE(io->on, "attention", kernel_rows_out(&own, w.y, io->y));
}

static void cuda_context_backward(const struct layer *l, struct layer_io *io)
{
    const struct context_buffers w = whole_of(l, io);
    cuda_context_gather(l, io, &w);
    const struct kernel_attention a = cuda_context_head(l, io, &w);
    const struct kernel_rows_of own =
        cuda_context_rows(l, io, l->context.position, l->out, 0, l->out);
    backend_cuda.zero(io->on, w.dy, io->batch * l->context.sequence * l->out * sizeof(real));
    CUDA_NOTE(io->on, "attention backward", kernel_rows_in(&own, w.dy, io->dy));
    CUDA_NOTE(io->on, "attention backward",
              kernel_attention_backward(&a, w.y, w.dy, w.dx, io->d_parameter));
    cuda_context_scatter(l, io, &w);
}

static const struct layer_kind context_attention = {.type = OPERATOR_attention,
                                                    .inputs = 1,
                                                    .forward = cuda_context_forward,
                                                    .backward = cuda_context_backward};
