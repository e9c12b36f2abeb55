/* Layers of kernels_rows.cu, and products that are all but `linear`: pooler, joined. */
#include <string.h>

#include "exec/device/cuda/layers.h"
#include "exec/device/cuda/rows.h"

static size_t rows_of(const struct layer *l, const struct layer_io *io)
{
    return io->batch * l->tokens;
}

static void copy(const struct layer *l, const struct layer_io *io, void *to, const void *from,
                 size_t n)
{
    backend_cuda.copy(io->on, to, from, layer_room(l, n) * sizeof(real));
}

/* ---- relu, silu, multiply */

CUDA_POINTWISE(relu)
const struct layer_kind cuda_relu = {
    .name = "relu", .inputs = 1, .forward = relu_forward, .backward = relu_backward};

CUDA_POINTWISE(silu)
const struct layer_kind cuda_silu = {
    .name = "silu", .inputs = 1, .forward = silu_forward, .backward = silu_backward};

static void multiply_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(
        io->on, "multiply",
        kernel_multiply(cuda_type(l), io->y, io->x[0], io->x[1], rows_of(l, io), l->in, l->out));
}

static void multiply_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "multiply backward",
              kernel_multiply_backward(cuda_type(l), io->dx[0], io->dx[1], io->x[0], io->x[1],
                                       io->dy, rows_of(l, io), l->in, l->out));
}

const struct layer_kind cuda_multiply = {
    .name = "multiply", .inputs = 2, .forward = multiply_forward, .backward = multiply_backward};

/* ---- concat, add_row, neighbours: their inputs are not read again */

static void beside(const struct layer *l, const struct layer_io *io, const void *y, const void *a,
                   const void *b, bool apart)
{
    CUDA_NOTE(io->on, "concat",
              kernel_beside(cuda_type(l), (void *)(uintptr_t)y, (void *)(uintptr_t)a,
                            (void *)(uintptr_t)b, rows_of(l, io), l->in, l->out - l->in, apart));
}

static void concat_forward(const struct layer *l, struct layer_io *io)
{
    beside(l, io, io->y, io->x[0], io->x[1], false);
}

static void concat_backward(const struct layer *l, struct layer_io *io)
{
    beside(l, io, io->dy, io->dx[0], io->dx[1], true);
}

const struct layer_kind cuda_concat = {.name = "concat",
                                       .inputs = 2,
                                       .forward = concat_forward,
                                       .backward = concat_backward,
                                       .forgets = true};

static void add_row_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "add_row",
              kernel_add_row(cuda_type(l), io->y, io->x[0], io->x[1], io->batch, l->tokens, l->in));
}

static void add_row_backward(const struct layer *l, struct layer_io *io)
{
    copy(l, io, io->dx[0], io->dy, io->batch * l->output);
    CUDA_NOTE(io->on, "add_row backward",
              kernel_token_sums(cuda_type(l), io->dx[1], io->dy, io->batch, l->tokens, l->in));
}

const struct layer_kind cuda_add_row = {.name = "add_row",
                                        .inputs = 2,
                                        .forward = add_row_forward,
                                        .backward = add_row_backward,
                                        .forgets = true};

static void neighbours_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "neighbours",
              kernel_neighbours(cuda_type(l), io->y, io->x[0], io->batch, l->tokens, l->in));
}

static void neighbours_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(
        io->on, "neighbours backward",
        kernel_neighbours_backward(cuda_type(l), io->dx[0], io->dy, io->batch, l->tokens, l->in));
}

const struct layer_kind cuda_neighbours = {.name = "neighbours",
                                           .inputs = 1,
                                           .forward = neighbours_forward,
                                           .backward = neighbours_backward,
                                           .forgets = true};

/* ---- positions: an embedding without values; sinusoids */

static void positions_forward(const struct layer *l, struct layer_io *io)
{
    const real *type = l->types > 0 ? io->parameter + l->positions * l->in : NULL;
    CUDA_NOTE(io->on, "positions",
              kernel_positions(cuda_type(l), io->y, io->x[0], io->parameter, type, io->batch,
                               l->tokens, l->in));
}

static void positions_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_embedding e = {
        .type = cuda_type(l),
        .samples = io->batch,
        .tokens = l->tokens,
        .channels = l->in,
        .position = {.rows = l->positions},
        .segment = {.start = l->positions * l->in, .rows = l->types},
    };
    copy(l, io, io->dx[0], io->dy, io->batch * l->input);
    CUDA_NOTE(io->on, "positions backward",
              kernel_embedding_backward(&e, io->dy, io->d_parameter, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_positions = {.name = "positions",
                                          .inputs = 1,
                                          .forward = positions_forward,
                                          .backward = positions_backward,
                                          .forgets = true};

static void sinusoids_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "sinusoids",
              kernel_sinusoids(cuda_type(l), io->y, io->batch, l->tokens, l->out, l->normal));
}

static void sinusoids_backward(const struct layer *l, struct layer_io *io)
{
    (void)l, (void)io; /* nothing comes before */
}

const struct layer_kind cuda_sinusoids = {.name = "sinusoids",
                                          .forward = sinusoids_forward,
                                          .backward = sinusoids_backward,
                                          .forgets = true};

/* ---- pooler */

/* saved (B, C) twice: y in fp32, and the gradient behind tanh, of the type of the activations. */
void cuda_pooler_sizes(struct layer *l)
{
    l->saved = 2 * l->out;
    l->work = size_times(COLUMN_PARTS, l->out);
}

static struct matrix first_rows(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->x[0], io->batch, l->in, l->input);
}

static struct matrix pooler_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->half ? io->half : io->parameter, l->out, l->in, l->in);
}

static void pooler_forward(const struct layer *l, struct layer_io *io)
{
    const struct cuda_gemm g = {
        .g = product(1, first_rows(l, io), transposed(pooler_weight(l, io)), io->saved, l->out),
        .in = cuda_type(l)};
    cuda_gemm(io->on, "pooler", &g);
    CUDA_NOTE(io->on, "pooler",
              kernel_tangents(cuda_type(l), io->y, io->saved, io->parameter + l->part[0].n,
                              io->batch, l->out));
}

static void pooler_backward(const struct layer *l, struct layer_io *io)
{
    enum kernel_type t = cuda_type(l);
    real *behind = io->saved + io->batch * l->out;
    struct matrix d = matrix(behind, io->batch, l->out, l->out);
    CUDA_NOTE(io->on, "pooler backward",
              kernel_tangents_backward(t, behind, io->saved, io->dy, io->batch * l->out));
    backend_cuda.zero(io->on, io->dx[0], layer_room(l, io->batch * l->input) * sizeof(real));
    const struct cuda_gemm of_input = {
        .g = product(1, d, pooler_weight(l, io), io->dx[0], l->input), .in = t, .out = t};
    const struct cuda_gemm of_weight = {
        .g = product_added(transposed(d), first_rows(l, io), io->d_parameter, l->in), .in = t};
    cuda_gemm(io->on, "pooler backward", &of_input);
    cuda_gemm(io->on, "pooler weight", &of_weight);
    CUDA_NOTE(io->on, "pooler bias",
              kernel_columns(t, io->d_parameter + l->part[0].n, behind, io->batch, l->out, l->out,
                             io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_pooler = {
    .name = "pooler", .inputs = 1, .forward = pooler_forward, .backward = pooler_backward};

/* ---- joined: rows a | b, a with a borrowed weight, b with its own */

/* The two parts of rows: 0 borrowed, 1 own. */
struct joined_part {
    size_t width, first;
    struct matrix weight;
};

static struct joined_part joined_part(const struct layer *l, const struct layer_io *io, size_t k)
{
    size_t shared = l->in - l->passed, width = k ? l->passed : shared;
    const real *borrowed = l->half ? io->half_shared : io->shared;
    const real *own = l->half ? io->half : io->parameter;
    return (struct joined_part){width, k ? shared : 0,
                                matrix(k ? own : borrowed, l->out, width, width)};
}

/* In 16 bits every addition rounds: the bias, the smallest, comes first. */
static void joined_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = rows_of(l, io);
    if (l->bias) {
        backend_cuda.zero(io->on, io->y, layer_room(l, rows * l->out) * sizeof(real));
        CUDA_NOTE(
            io->on, "joined",
            kernel_bias(cuda_type(l), io->y, io->parameter + l->part[0].n, rows, l->out, l->out));
    }
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        struct matrix x = matrix(cuda_at(l, io->x[0], p.first), rows, p.width, l->in);
        struct cuda_gemm g = {.g = product(1, x, transposed(p.weight), io->y, l->out),
                              .in = cuda_type(l),
                              .out = cuda_type(l)};
        g.g.beta = l->bias || k > 0;
        cuda_gemm(io->on, "joined", &g);
    }
}

static void joined_backward(const struct layer *l, struct layer_io *io)
{
    struct matrix dy = matrix(io->dy, rows_of(l, io), l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        const struct cuda_gemm g = {
            .g = product(1, dy, p.weight, cuda_at(l, io->dx[0], p.first), l->in),
            .in = cuda_type(l),
            .out = cuda_type(l)};
        cuda_gemm(io->on, "joined backward", &g);
    }
}

static void joined_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = rows_of(l, io);
    struct matrix dy = matrix(io->dy, rows, l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        struct matrix x = matrix(cuda_at(l, io->x[0], p.first), rows, p.width, l->in);
        const struct cuda_gemm g = {
            .g = product_added(transposed(dy), x, k ? io->d_parameter : io->d_shared, p.width),
            .in = cuda_type(l)};
        cuda_gemm(io->on, "joined weight", &g);
    }
    if (l->bias)
        CUDA_NOTE(io->on, "joined bias",
                  kernel_columns(cuda_type(l), io->d_parameter + l->part[0].n, io->dy, rows, l->out,
                                 l->out, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_joined = {.name = "joined",
                                       .inputs = 1,
                                       .forward = joined_forward,
                                       .backward = joined_backward,
                                       .backward_weight = joined_backward_weight};
