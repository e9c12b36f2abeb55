/* Pooler: y (B, C) = tanh(W x_0 + bias), of the first of the T rows of each sample. Devlin et al.,
 * BERT, NAACL 2019. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x (B, T, C), y (B, C); weight (C, C) normal(0, 0.02), bias [C] from 0; saved (B, C): the gradient
 * behind tanh. */
static enum status pooler_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->part[0] = (struct layer_part){.n = size_times(l->in, l->out), .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = l->out, .fill = FILL_ZERO};
    l->output = l->saved = l->out;
    l->tokens = 1; /* of the output */
    return STATUS_OK;
}

static struct gemm_operand pooler_first_rows(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->x[0], io->batch, l->in, l->input);
}

static void pooler_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out;
    struct gemm_operand weight = matrix(io->parameter, c, l->in, l->in);
    struct gemm g = product(1, pooler_first_rows(l, io), transposed(weight), io->y, c);
    gemm(&g);
    for (size_t b = 0; b < io->batch; b++)
        for (size_t i = 0; i < c; i++)
            io->y[b * c + i] =
                (real)tanh((double)(io->y[b * c + i] + io->parameter[c * l->in + i]));
}

/* With g = dy (1 - y^2): dx_0 = g W, other rows 0; d_weight += g^T x_0, d_bias += sums of g. */
static void pooler_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->out;
    for (size_t i = 0; i < io->batch * c; i++)
        io->saved[i] = io->dy[i] * (1 - io->y[i] * io->y[i]);
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    struct gemm_operand behind = matrix(io->saved, io->batch, c, c);
    struct gemm g = product(1, behind, matrix(io->parameter, c, l->in, l->in), io->dx[0], l->input);
    gemm(&g);
    g = product_added(transposed(behind), pooler_first_rows(l, io), io->d_parameter, l->in);
    gemm(&g);
    for (size_t b = 0; b < io->batch; b++)
        vector_add(io->d_parameter + c * l->in, io->saved + b * c, c);
}

const struct layer_kind kind_pooler = {.type = OPERATOR_pooler,
                                       .inputs = 1,
                                       .shape = pooler_shape,
                                       .forward = pooler_forward,
                                       .backward = pooler_backward,
                                       .reads_output = true,
                                       .mixes = true};
