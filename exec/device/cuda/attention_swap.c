/* Attention where replicas change tokens for heads (exec/device/cpu/swap.c), in fp32: each attends
 * to all tokens of a part of the heads, by the kernels that are there, between two exchanges.
 *
 * Of a batch is kept what is attended to and what comes of it, and what attention keeps. work:
 * parts to send and parts that have come; the inner output's gradient, and that of what is attended
 * to. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cuda/layers.h"

struct swap {
    struct layer inner;
    struct layer_io io; /* of the inner layer */
    real *parts, *dy, *dx;
};

static struct swap swap_of(const struct layer *l, const struct layer_io *io)
{
    struct swap s = {.inner = swap_inner(l), .io = *io, .parts = io->work};
    size_t in = io->batch * s.inner.input, out = io->batch * s.inner.output;
    s.dy = s.parts + 2 * in;
    s.dx = s.dy + out;
    s.io.x[0] = io->saved;
    s.io.y = io->saved + in;
    s.io.saved = s.io.y + out;
    return s;
}

static struct kernel_swap cuda_swap_heads(const struct layer *l, const struct layer_io *io)
{
    return (struct kernel_swap){.place = {l->tokens, l->context.replicas, 0},
                                .samples = io->batch,
                                .heads = l->heads.n,
                                .kv_heads = l->heads.kv,
                                .depth = l->heads.depth,
                                .value = l->heads.value};
}

/* Of the output: as many heads of values. */
static struct kernel_swap cuda_swap_values(const struct layer *l, const struct layer_io *io)
{
    struct kernel_swap s = cuda_swap_heads(l, io);
    s.kv_heads = 0;
    s.depth = l->heads.value;
    return s;
}

/* Parts sent become parts that have come, n numbers each; the own one stays here. */
static real *cuda_swap_exchange(const struct layer *l, struct layer_io *io, const struct swap *s,
                                size_t n)
{
    real *come = s->parts + l->context.replicas * n;
    backend_cuda.copy(io->on, come + l->context.position * n, s->parts + l->context.position * n,
                      n * sizeof *come);
    io->reduction->exchange(io->reduction->self, FOR_CONTEXT, OP_ALLTOALL, s->parts,
                            2 * l->context.replicas * n);
    return come;
}

/* Own tokens of all heads, `rows`, to all tokens of own heads, `all`; or back. */
static void to_heads(const struct layer *l, struct layer_io *io, const struct swap *s,
                     const struct kernel_swap *k, const real *rows, real *all, size_t width)
{
    CUDA_NOTE(io->on, "heads", kernel_swap_heads(k, (real *)(uintptr_t)rows, s->parts, true));
    real *come = cuda_swap_exchange(l, io, s, io->batch * l->tokens * width);
    CUDA_NOTE(io->on, "tokens", kernel_swap_tokens(k, all, come, false));
}

static void cuda_swap_to_tokens(const struct layer *l, struct layer_io *io, const struct swap *s,
                                const struct kernel_swap *k, real *rows, const real *all,
                                size_t width)
{
    CUDA_NOTE(io->on, "tokens", kernel_swap_tokens(k, (real *)(uintptr_t)all, s->parts, true));
    real *come = cuda_swap_exchange(l, io, s, io->batch * l->tokens * width);
    CUDA_NOTE(io->on, "heads", kernel_swap_heads(k, rows, come, false));
}

static void cuda_swap_forward(const struct layer *l, struct layer_io *io)
{
    const struct swap s = swap_of(l, io);
    const struct kernel_swap heads = cuda_swap_heads(l, io), values = cuda_swap_values(l, io);
    to_heads(l, io, &s, &heads, io->x[0], io->saved, s.inner.in);
    const struct kernel_attention a = cuda_attention_of(&s.inner, &s.io);
    CUDA_NOTE(io->on, "attention", kernel_attention(&a, s.io.y));
    cuda_swap_to_tokens(l, io, &s, &values, io->y, s.io.y, s.inner.out);
}

static void cuda_swap_backward(const struct layer *l, struct layer_io *io)
{
    const struct swap s = swap_of(l, io);
    const struct kernel_swap heads = cuda_swap_heads(l, io), values = cuda_swap_values(l, io);
    to_heads(l, io, &s, &values, io->dy, s.dy, s.inner.out);
    const struct kernel_attention a = cuda_attention_of(&s.inner, &s.io);
    CUDA_NOTE(io->on, "attention backward",
              kernel_attention_backward(&a, s.io.y, s.dy, s.dx, NULL));
    cuda_swap_to_tokens(l, io, &s, &heads, io->dx[0], s.dx, s.inner.in);
}

static const struct layer_kind swapped_attention = {.type = OPERATOR_attention,
                                                    .inputs = 1,
                                                    .forward = cuda_swap_forward,
                                                    .backward = cuda_swap_backward};

void cuda_swap_sizes(struct layer *l)
{
    const struct layer a = swap_inner(l);
    l->kind = &swapped_attention;
    l->saved = size_plus(size_plus(a.input, a.output), size_times(2 * a.heads.n, a.tokens));
    l->work -= a.work; /* of the CPU's attention: the rest is as there */
}
