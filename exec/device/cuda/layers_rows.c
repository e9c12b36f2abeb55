/* Layers of kernels_rows.cu, and products that are all but `linear`: pooler, joined. */
#include <string.h>

#include "exec/device/cuda/layers.h"
#include "exec/device/cuda/rows.h"

static size_t cuda_rows_of(const struct layer *l, const struct layer_io *io)
{
    return io->batch * l->tokens;
}

static void cuda_copy_rows(const struct layer *l, const struct layer_io *io, void *to,
                           const void *from, size_t n)
{
    backend_cuda.copy(io->on, to, from, layer_room(l, n) * sizeof(real));
}

/* ---- relu, silu, multiply */

CUDA_POINTWISE(relu)
const struct layer_kind cuda_relu = {.type = OPERATOR_relu,
                                     .inputs = 1,
                                     .forward = cuda_relu_forward,
                                     .backward = cuda_relu_backward};

CUDA_POINTWISE(silu)
const struct layer_kind cuda_silu = {.type = OPERATOR_silu,
                                     .inputs = 1,
                                     .forward = cuda_silu_forward,
                                     .backward = cuda_silu_backward};

static void cuda_multiply_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "multiply",
              kernel_multiply(cuda_type(l), io->y, io->x[0], io->x[1], cuda_rows_of(l, io), l->in,
                              l->out));
}

static void cuda_multiply_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "multiply backward",
              kernel_multiply_backward(cuda_type(l), io->dx[0], io->dx[1], io->x[0], io->x[1],
                                       io->dy, cuda_rows_of(l, io), l->in, l->out));
}

const struct layer_kind cuda_multiply = {.type = OPERATOR_multiply,
                                         .inputs = 2,
                                         .forward = cuda_multiply_forward,
                                         .backward = cuda_multiply_backward};

/* ---- concat, add_row, neighbours: their inputs are not read again */

static void cuda_concat_rows(const struct layer *l, const struct layer_io *io, const void *y,
                             const void *a, const void *b, bool apart)
{
    CUDA_NOTE(io->on, "concat",
              kernel_beside(cuda_type(l), (void *)(uintptr_t)y, (void *)(uintptr_t)a,
                            (void *)(uintptr_t)b, cuda_rows_of(l, io), l->in, l->out - l->in,
                            apart));
}

static void cuda_concat_forward(const struct layer *l, struct layer_io *io)
{
    cuda_concat_rows(l, io, io->y, io->x[0], io->x[1], false);
}

static void cuda_concat_backward(const struct layer *l, struct layer_io *io)
{
    cuda_concat_rows(l, io, io->dy, io->dx[0], io->dx[1], true);
}

const struct layer_kind cuda_concat = {.type = OPERATOR_concat,
                                       .inputs = 2,
                                       .forward = cuda_concat_forward,
                                       .backward = cuda_concat_backward,
                                       .forgets = true};

static void cuda_add_row_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "add_row",
              kernel_add_row(cuda_type(l), io->y, io->x[0], io->x[1], io->batch, l->tokens, l->in));
}

static void cuda_add_row_backward(const struct layer *l, struct layer_io *io)
{
    cuda_copy_rows(l, io, io->dx[0], io->dy, io->batch * l->output);
    CUDA_NOTE(io->on, "add_row backward",
              kernel_token_sums(cuda_type(l), io->dx[1], io->dy, io->batch, l->tokens, l->in));
}

const struct layer_kind cuda_add_row = {.type = OPERATOR_add_row,
                                        .inputs = 2,
                                        .forward = cuda_add_row_forward,
                                        .backward = cuda_add_row_backward,
                                        .forgets = true};

static void cuda_neighbours_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "neighbours",
              kernel_neighbours(cuda_type(l), io->y, io->x[0], io->batch, l->tokens, l->in));
}

static void cuda_neighbours_backward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(
        io->on, "neighbours backward",
        kernel_neighbours_backward(cuda_type(l), io->dx[0], io->dy, io->batch, l->tokens, l->in));
}

const struct layer_kind cuda_neighbours = {.type = OPERATOR_neighbours,
                                           .inputs = 1,
                                           .forward = cuda_neighbours_forward,
                                           .backward = cuda_neighbours_backward,
                                           .forgets = true};

/* ---- positions: an embedding without values; sinusoids */

static void cuda_positions_forward(const struct layer *l, struct layer_io *io)
{
    const real *type = l->types > 0 ? io->parameter + l->positions * l->in : NULL;
    CUDA_NOTE(io->on, "positions",
              kernel_positions(cuda_type(l), io->y, io->x[0], io->parameter, type, io->batch,
                               l->tokens, l->in));
}

static void cuda_positions_backward(const struct layer *l, struct layer_io *io)
{
    const struct kernel_embedding e = {
        .type = cuda_type(l),
        .samples = io->batch,
        .tokens = l->tokens,
        .channels = l->in,
        .position = {.rows = l->positions},
        .segment = {.start = l->positions * l->in, .rows = l->types},
    };
    cuda_copy_rows(l, io, io->dx[0], io->dy, io->batch * l->input);
    CUDA_NOTE(io->on, "positions backward",
              kernel_embedding_backward(&e, io->dy, io->d_parameter, io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_positions = {.type = OPERATOR_positions,
                                          .inputs = 1,
                                          .forward = cuda_positions_forward,
                                          .backward = cuda_positions_backward,
                                          .forgets = true,
                                          .sizes = cuda_column_sizes};

static void cuda_sinusoids_forward(const struct layer *l, struct layer_io *io)
{
    CUDA_NOTE(io->on, "sinusoids",
              kernel_sinusoids(cuda_type(l), io->y, io->batch, l->tokens, l->out, l->normal));
}

static void cuda_sinusoids_backward(const struct layer *l, struct layer_io *io)
{
    (void)l, (void)io; /* nothing comes before */
}

const struct layer_kind cuda_sinusoids = {.type = OPERATOR_sinusoids,
                                          .forward = cuda_sinusoids_forward,
                                          .backward = cuda_sinusoids_backward,
                                          .forgets = true};

/* ---- pooler */

/* saved (B, C) twice: y in fp32, and the gradient behind tanh, of the type of the activations. */
static void cuda_pooler_sizes(struct layer *l)
{
    l->saved = 2 * l->out;
    l->work = size_times(COLUMN_PARTS, l->out);
}

static struct gemm_operand cuda_pooler_first_rows(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->x[0], io->batch, l->in, l->input);
}

static struct gemm_operand pooler_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(l->half ? io->half : io->parameter, l->out, l->in, l->in);
}

static void cuda_pooler_forward(const struct layer *l, struct layer_io *io)
{
    const struct cuda_gemm g = {.g = product(1, cuda_pooler_first_rows(l, io),
                                             transposed(pooler_weight(l, io)), io->saved, l->out),
                                .in = cuda_type(l)};
    cuda_gemm(io->on, "pooler", &g);
    CUDA_NOTE(io->on, "pooler",
              kernel_tangents(cuda_type(l), io->y, io->saved, io->parameter + l->part[0].n,
                              io->batch, l->out));
}

static void cuda_pooler_backward(const struct layer *l, struct layer_io *io)
{
    enum kernel_type t = cuda_type(l);
    real *behind = io->saved + io->batch * l->out;
    struct gemm_operand d = matrix(behind, io->batch, l->out, l->out);
    CUDA_NOTE(io->on, "pooler backward",
              kernel_tangents_backward(t, behind, io->saved, io->dy, io->batch * l->out));
    backend_cuda.zero(io->on, io->dx[0], layer_room(l, io->batch * l->input) * sizeof(real));
    const struct cuda_gemm of_input = {
        .g = product(1, d, pooler_weight(l, io), io->dx[0], l->input), .in = t, .out = t};
    const struct cuda_gemm of_weight = {
        .g = product_added(transposed(d), cuda_pooler_first_rows(l, io), io->d_parameter, l->in),
        .in = t};
    cuda_gemm(io->on, "pooler backward", &of_input);
    cuda_gemm(io->on, "pooler weight", &of_weight);
    CUDA_NOTE(io->on, "pooler bias",
              kernel_columns(t, io->d_parameter + l->part[0].n, behind, io->batch, l->out, l->out,
                             io->work, cuda_tickets(io)));
}

const struct layer_kind cuda_pooler = {.type = OPERATOR_pooler,
                                       .inputs = 1,
                                       .forward = cuda_pooler_forward,
                                       .backward = cuda_pooler_backward,
                                       .sizes = cuda_pooler_sizes};

/* ---- joined: rows a | b, a with a borrowed weight, b with its own */

/* The two parts of rows: 0 borrowed, 1 own. */
struct joined_part {
    size_t width, first;
    struct gemm_operand weight;
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
static void cuda_joined_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = cuda_rows_of(l, io);
    if (l->bias) {
        backend_cuda.zero(io->on, io->y, layer_room(l, rows * l->out) * sizeof(real));
        CUDA_NOTE(
            io->on, "joined",
            kernel_bias(cuda_type(l), io->y, io->parameter + l->part[0].n, rows, l->out, l->out));
    }
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        struct gemm_operand x = matrix(cuda_at(l, io->x[0], p.first), rows, p.width, l->in);
        struct cuda_gemm g = {.g = product(1, x, transposed(p.weight), io->y, l->out),
                              .in = cuda_type(l),
                              .out = cuda_type(l)};
        g.g.beta = l->bias || k > 0;
        cuda_gemm(io->on, "joined", &g);
    }
}

static void cuda_joined_backward(const struct layer *l, struct layer_io *io)
{
    struct gemm_operand dy = matrix(io->dy, cuda_rows_of(l, io), l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        const struct cuda_gemm g = {
            .g = product(1, dy, p.weight, cuda_at(l, io->dx[0], p.first), l->in),
            .in = cuda_type(l),
            .out = cuda_type(l)};
        cuda_gemm(io->on, "joined backward", &g);
    }
}

static void cuda_joined_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = cuda_rows_of(l, io);
    struct gemm_operand dy = matrix(io->dy, rows, l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        const struct joined_part p = joined_part(l, io, k);
        struct gemm_operand x = matrix(cuda_at(l, io->x[0], p.first), rows, p.width, l->in);
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

const struct layer_kind cuda_joined = {.type = OPERATOR_joined,
                                       .inputs = 1,
                                       .forward = cuda_joined_forward,
                                       .backward = cuda_joined_backward,
                                       .backward_weight = cuda_joined_backward_weight,
                                       .sizes = cuda_column_sizes};
