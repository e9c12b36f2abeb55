/* Affine: y = x * weight + bias, channel by channel: MobileBERT's norm, which has no moments. Sun
 * et al., ACL 2020, section 3.3. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, C); weight [C] from 1, bias [C] from 0. */
static enum status affine_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->part[0] = (struct layer_part){.n = l->in, .fill = FILL_ONE};
    l->part[1] = (struct layer_part){.n = l->in, .fill = FILL_ZERO};
    return STATUS_OK;
}

static void affine_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    const real *weight = io->parameter, *bias = weight + c;
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t i = 0; i < c; i++)
            io->y[row * c + i] = io->x[0][row * c + i] * weight[i] + bias[i];
}

static void affine_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    real *restrict d_weight = io->d_parameter, *restrict d_bias = d_weight + c;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *x = io->x[0] + row * c, *dy = io->dy + row * c;
        real *dx = io->dx[0] + row * c;
        for (size_t i = 0; i < c; i++) {
            dx[i] = dy[i] * io->parameter[i];
            d_weight[i] += dy[i] * x[i];
            d_bias[i] += dy[i];
        }
    }
}

const struct layer_kind kind_affine = {.type = OPERATOR_affine,
                                       .inputs = 1,
                                       .shape = affine_shape,
                                       .forward = affine_forward,
                                       .backward = affine_backward};
