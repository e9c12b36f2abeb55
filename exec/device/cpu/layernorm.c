/* Layer normalisation: y = (x - mean) rstd * weight + bias over the channels of each row, with
 * rstd = 1 / sqrt(variance + 1e-5). Ba, Kiros & Hinton 2016, arXiv:1607.06450. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, C); weight [C] from 1, bias [C] from 0; saved (B, T, 2); work [2 C]. Every shard of
 * tensor parallelism computes all of it: no divide(). */
static enum status layernorm_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->part[0] = (struct layer_part){.n = l->in, .fill = FILL_ONE};
    l->part[1] = (struct layer_part){.n = l->in, .fill = FILL_ZERO};
    l->saved = 2 * l->tokens; /* mean and rstd of each row */
    l->work = 2 * l->in;
    return STATUS_OK;
}

/* Two passes over a row: the mean first, then the variance around it, which does not cancel as
 * mean(x^2) - mean(x)^2 would. The variance is the biased one, over C, as in PyTorch. */
VECTOR_CLONES static void layernorm_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    const real *weight = io->parameter, *bias = weight + c;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * c;
        real *y = io->y + row * c;
        real mean = vector_sum(x, c) / (real)c;
        for (size_t i = 0; i < c; i++)
            y[i] = x[i] - mean;
        real variance = vector_dot(y, y, c) / (real)c;
        real rstd = (real)(1.0 / sqrt((double)variance + 1e-5));
        for (size_t i = 0; i < c; i++)
            y[i] = y[i] * rstd * weight[i] + bias[i];
        io->saved[2 * row] = mean;
        io->saved[2 * row + 1] = rstd;
    }
}

/* With n = (x - mean) rstd and g = dy * weight, means over the C channels of a row, sums over the
 * BT rows:
 *     dx = rstd (g - mean(g) - n mean(g n)),  d_weight = sum of dy n,  d_bias = sum of dy.
 * n is computed again from the mean and rstd that the forward has saved. */
VECTOR_CLONES static void layernorm_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    const real *weight = io->parameter;
    real *restrict d_weight = io->d_parameter, *restrict d_bias = io->d_parameter + c;
    real *restrict n = io->work, *restrict g = io->work + c;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * c, *dy = io->dy + row * c;
        real *dx = io->dx[0] + row * c;
        real mean = io->saved[2 * row], rstd = io->saved[2 * row + 1];
        for (size_t i = 0; i < c; i++) {
            n[i] = (x[i] - mean) * rstd;
            g[i] = dy[i] * weight[i];
            d_weight[i] += dy[i] * n[i];
            d_bias[i] += dy[i];
        }
        real g_mean = vector_sum(g, c) / (real)c;
        real gn_mean = vector_dot(g, n, c) / (real)c;
        for (size_t i = 0; i < c; i++)
            dx[i] = rstd * (g[i] - g_mean - n[i] * gn_mean);
    }
}

const struct layer_kind kind_layernorm = {.type = OPERATOR_layernorm,
                                          .inputs = 1,
                                          .shape = layernorm_shape,
                                          .forward = layernorm_forward,
                                          .backward = layernorm_backward};
