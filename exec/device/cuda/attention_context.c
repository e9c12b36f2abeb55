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
    size_t row = layer_key_width(l) + 2 * l->in + 2 * l->out + 2 * l->heads;
    l->saved = size_times(l->sequence, row);
    l->work = 0;
}

/* Room for the whole sequences, one after the other behind what attention keeps. */
struct whole {
    real *exchanged, *x, *dx, *y, *dy;
};

static struct whole whole_of(const struct layer *l, const struct layer_io *io)
{
    size_t rows = io->batch * l->sequence;
    struct whole w = {.exchanged = io->saved + 2 * l->heads * rows};
    w.x = w.exchanged + layer_key_width(l) * rows;
    w.dx = w.x + l->in * rows;
    w.y = w.dx + l->in * rows;
    w.dy = w.y + l->out * rows;
    return w;
}

/* n channels of the rows of replica k. */
static struct kernel_rows_of rows_of(const struct layer *l, const struct layer_io *io, size_t k,
                                     size_t width, size_t at, size_t n)
{
    return (struct kernel_rows_of){.place = {l->tokens, l->context, k},
                                   .samples = io->batch,
                                   .n = n,
                                   .whole_width = width,
                                   .at = at,
                                   .part_width = width,
                                   .part_at = at};
}

/* The keys and values of replica k, which stand alone in what is exchanged. */
static struct kernel_rows_of keys_of(const struct layer *l, const struct layer_io *io, size_t k)
{
    struct kernel_rows_of r = rows_of(l, io, k, l->in, layer_first_key(l), layer_key_width(l));
    r.part_width = r.n;
    r.part_at = 0;
    return r;
}

/* Where replica k's keys and values, or their gradients, are in what is exchanged. */
static real *part_of(const struct layer *l, const struct layer_io *io, const struct whole *w,
                     size_t k)
{
    size_t n = io->batch * l->sequence * layer_key_width(l);
    return w->exchanged + cuda_part(io->on, n, l->context, k).first;
}

static void exchange(const struct layer *l, struct layer_io *io, const struct whole *w,
                     enum op_kind kind)
{
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, kind, w->exchanged,
                            io->batch * l->sequence * layer_key_width(l));
}

/* w->x from x: own queries, zeros for others', and everybody's keys and values. */
static void gather(const struct layer *l, struct layer_io *io, const struct whole *w)
{
    size_t rows = io->batch * l->tokens, width = layer_key_width(l);
    CUDA_NOTE(io->on, "keys",
              kernel_pass_on(KERNEL_FP32, part_of(l, io, w, l->position), width, io->x[0], l->in,
                             rows, width));
    exchange(l, io, w, OP_ALLGATHER);
    backend_cuda.zero(io->on, w->x, io->batch * l->sequence * l->in * sizeof(real));
    struct kernel_rows_of own = rows_of(l, io, l->position, l->in, 0, layer_first_key(l));
    CUDA_NOTE(io->on, "queries", kernel_rows_in(&own, w->x, io->x[0]));
    for (size_t k = 0; k < l->context; k++) {
        const struct kernel_rows_of r = keys_of(l, io, k);
        CUDA_NOTE(io->on, "keys", kernel_rows_in(&r, w->x, part_of(l, io, w, k)));
    }
}

/* dx from w->dx: own gradients of queries, and the sum of everybody's of own keys and values. */
static void scatter(const struct layer *l, struct layer_io *io, const struct whole *w)
{
    size_t rows = io->batch * l->tokens, width = layer_key_width(l);
    struct kernel_rows_of own = rows_of(l, io, l->position, l->in, 0, layer_first_key(l));
    CUDA_NOTE(io->on, "queries", kernel_rows_out(&own, w->dx, io->dx[0]));
    for (size_t k = 0; k < l->context; k++) {
        const struct kernel_rows_of r = keys_of(l, io, k);
        CUDA_NOTE(io->on, "keys", kernel_rows_out(&r, w->dx, part_of(l, io, w, k)));
    }
    exchange(l, io, w, OP_REDUCESCATTER);
    CUDA_NOTE(io->on, "keys",
              kernel_pass_on(KERNEL_FP32, io->dx[0], l->in, part_of(l, io, w, l->position), width,
                             rows, width));
}

/* Over whole sequences. */
static struct kernel_attention attention_of(const struct layer *l, const struct layer_io *io,
                                            const struct whole *w)
{
    struct kernel_attention a = cuda_attention_of(l, io);
    a.tokens = l->sequence;
    a.x = w->x;
    return a;
}

static void forward(const struct layer *l, struct layer_io *io)
{
    const struct whole w = whole_of(l, io);
    gather(l, io, &w);
    const struct kernel_attention a = attention_of(l, io, &w);
    const struct kernel_rows_of own = rows_of(l, io, l->position, l->out, 0, l->out);
    CUDA_NOTE(io->on, "attention", kernel_attention(&a, w.y));
    CUDA_NOTE(io->on, "attention", kernel_rows_out(&own, w.y, io->y));
}

static void backward(const struct layer *l, struct layer_io *io)
{
    const struct whole w = whole_of(l, io);
    gather(l, io, &w);
    const struct kernel_attention a = attention_of(l, io, &w);
    const struct kernel_rows_of own = rows_of(l, io, l->position, l->out, 0, l->out);
    backend_cuda.zero(io->on, w.dy, io->batch * l->sequence * l->out * sizeof(real));
    CUDA_NOTE(io->on, "attention backward", kernel_rows_in(&own, w.dy, io->dy));
    CUDA_NOTE(io->on, "attention backward",
              kernel_attention_backward(&a, w.y, w.dy, w.dx, io->d_parameter));
    scatter(l, io, &w);
}

static const struct layer_kind context_attention = {
    .name = "attention", .inputs = 1, .forward = forward, .backward = backward};
