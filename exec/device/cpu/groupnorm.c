/* Group normalisation: (x - mean) rstd * weight + bias, of a group of channels over all positions
 * of a sample, with rstd = 1 / sqrt(variance + 1e-5). Wu & He, ECCV 2018. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, P, C); weight [C] from 1, bias [C] from 0; saved (B, G, 2): mean and rstd. */
static enum status groupnorm_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "positions", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_attribute(op, "groups", -1, 1, &l->groups));
    if (l->in % l->groups != 0)
        return error_set(STATUS_INVALID, "op '%s': %zu channels cannot be divided into %zu groups",
                         op->name, l->in, l->groups);
    l->out = l->in;
    l->input = l->output = size_times(l->tokens, l->in);
    l->part[0] = (struct layer_part){.n = l->in, .fill = FILL_ONE};
    l->part[1] = (struct layer_part){.n = l->in, .fill = FILL_ZERO};
    l->saved = 2 * l->groups;
    return STATUS_OK;
}

/* Sum of (x - less)^power over a group: power 1 or 2. */
static double moment(const struct layer *l, const real *x, double less, int power)
{
    size_t wide = l->in / l->groups;
    double sum = 0;
    for (size_t p = 0; p < l->tokens; p++)
        for (size_t i = 0; i < wide; i++) {
            double d = (double)x[p * l->in + i] - less;
            sum += power == 1 ? d : d * d;
        }
    return sum / ((double)l->tokens * (double)wide);
}

static void groupnorm_forward(const struct layer *l, struct layer_io *io)
{
    size_t wide = l->in / l->groups;
    for (size_t n = 0; n < io->batch * l->groups; n++) {
        size_t first = n % l->groups * wide, at = n / l->groups * l->input + first;
        const real *x = io->x[0] + at, *weight = io->parameter + first, *bias = weight + l->in;
        double mean = moment(l, x, 0, 1);
        real rstd = (real)(1 / sqrt(moment(l, x, mean, 2) + 1e-5));
        io->saved[2 * n] = (real)mean;
        io->saved[2 * n + 1] = rstd;
        for (size_t p = 0; p < l->tokens; p++)
            for (size_t i = 0; i < wide; i++)
                io->y[at + p * l->in + i] =
                    (x[p * l->in + i] - (real)mean) * rstd * weight[i] + bias[i];
    }
}

/* As of a layernorm, with means over the numbers of a group. */
static void groupnorm_backward(const struct layer *l, struct layer_io *io)
{
    size_t wide = l->in / l->groups;
    double size = (double)l->tokens * (double)wide;
    for (size_t n = 0; n < io->batch * l->groups; n++) {
        size_t first = n % l->groups * wide, at = n / l->groups * l->input + first;
        const real *x = io->x[0] + at, *dy = io->dy + at, *weight = io->parameter + first;
        real *dx = io->dx[0] + at, *d_weight = io->d_parameter + first, *d_bias = d_weight + l->in;
        real mean = io->saved[2 * n], rstd = io->saved[2 * n + 1];
        double g_sum = 0, gn_sum = 0;
        for (size_t p = 0; p < l->tokens; p++)
            for (size_t i = 0; i < wide; i++) {
                size_t k = p * l->in + i;
                real normal = (x[k] - mean) * rstd;
                g_sum += (double)(dy[k] * weight[i]);
                gn_sum += (double)(dy[k] * weight[i] * normal);
                d_weight[i] += dy[k] * normal;
                d_bias[i] += dy[k];
            }
        real g_mean = (real)(g_sum / size), gn_mean = (real)(gn_sum / size);
        for (size_t p = 0; p < l->tokens; p++)
            for (size_t i = 0; i < wide; i++) {
                size_t k = p * l->in + i;
                real normal = (x[k] - mean) * rstd;
                dx[k] = rstd * (dy[k] * weight[i] - g_mean - normal * gn_mean);
            }
    }
}

const struct layer_kind kind_groupnorm = {.type = OPERATOR_groupnorm,
                                          .inputs = 1,
                                          .shape = groupnorm_shape,
                                          .forward = groupnorm_forward,
                                          .backward = groupnorm_backward,
                                          .mixes = true};
