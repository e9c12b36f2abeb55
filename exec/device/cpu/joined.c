/* A product whose weight is partly another op's: y (BT, out) = a tied^T + b weight^T + bias of rows
 * x = a | b. MobileBERT's head: its table of tokens is narrower than its stream. Sun et al., ACL
 * 2020. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, in), y (B, T, out); weight (out, own) normal(0, 0.02), bias [out] from 0; the borrowed
 * one is (out, in - own). `own` is in l->passed. */
static enum status joined_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "in", -1, 2, &l->in));
    PASS(layer_attribute(op, "out", -1, 1, &l->out));
    PASS(layer_attribute(op, "own", -1, 1, &l->passed));
    PASS(layer_flag(op, "bias", &l->bias));
    if (!l->tied || l->passed >= l->in)
        return error_set(
            STATUS_INVALID,
            l->tied ? "op '%s' owns the weights of %zu input channels, expected fewer than its %zu"
                    : "op '%s' owns the weights of %zu of its %zu input channels, but names no op "
                      "that shares the others",
            op->name, l->passed, l->in);
    l->shared = size_times(l->in - l->passed, l->out);
    l->part[0] = (struct layer_part){.n = size_times(l->passed, l->out), .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = l->bias ? l->out : 0, .fill = FILL_ZERO};
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

/* The two parts of rows of x or dx, and their weights: 0 borrowed, 1 own. */
static size_t joined_width(const struct layer *l, size_t part)
{
    return part ? l->passed : l->in - l->passed;
}
static size_t joined_first(const struct layer *l, size_t part)
{
    return part ? l->in - l->passed : 0;
}

static void joined_forward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    const real *weight[] = {io->shared, io->parameter};
    for (size_t k = 0; k < 2; k++) {
        size_t w = joined_width(l, k);
        struct gemm g = product(1, matrix(io->x[0] + joined_first(l, k), rows, w, l->in),
                                transposed(matrix(weight[k], l->out, w, w)), io->y, l->out);
        g.beta = (real)k;
        gemm(&g);
    }
    for (size_t row = 0; l->bias && row < rows; row++)
        vector_add(io->y + row * l->out, io->parameter + l->passed * l->out, l->out);
}

static void joined_backward(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    const real *weight[] = {io->shared, io->parameter};
    struct gemm_operand dy = matrix(io->dy, rows, l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        size_t w = joined_width(l, k);
        struct gemm g =
            product(1, dy, matrix(weight[k], l->out, w, w), io->dx[0] + joined_first(l, k), l->in);
        gemm(&g);
    }
}

static void joined_backward_weight(const struct layer *l, struct layer_io *io)
{
    size_t rows = io->batch * l->tokens;
    real *const gradient[] = {io->d_shared, io->d_parameter};
    struct gemm_operand dy = matrix(io->dy, rows, l->out, l->out);
    for (size_t k = 0; k < 2; k++) {
        size_t w = joined_width(l, k);
        struct gemm g = product_added(
            transposed(dy), matrix(io->x[0] + joined_first(l, k), rows, w, l->in), gradient[k], w);
        gemm(&g);
    }
    for (size_t row = 0; l->bias && row < rows; row++)
        vector_add(io->d_parameter + l->passed * l->out, io->dy + row * l->out, l->out);
}

const struct layer_kind kind_joined = {.type = OPERATOR_joined,
                                       .inputs = 1,
                                       .shape = joined_shape,
                                       .forward = joined_forward,
                                       .backward = joined_backward,
                                       .backward_weight = joined_backward_weight};
