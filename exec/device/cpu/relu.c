/* Rectified linear unit: y = max(x, 0). Nair & Hinton, ICML 2010. */
#include "exec/device/cpu/kinds.h"

/* x, y (B, T, C), number by number. */
static enum status relu_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_is_told(op, "tokens"));
    return layer_rowwise(op, l);
}

static void relu_forward(const struct layer *l, struct layer_io *io)
{
    const real *x = io->x[0];
    real *y = io->y;
    for (size_t i = 0, n = io->batch * l->input; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

/* dx = dy where x > 0, else 0. */
static void relu_backward(const struct layer *l, struct layer_io *io)
{
    const real *x = io->x[0], *dy = io->dy;
    real *dx = io->dx[0];
    for (size_t i = 0, n = io->batch * l->input; i < n; i++)
        dx[i] = x[i] > 0 ? dy[i] : 0;
}

const struct layer_kind kind_relu = {.type = OPERATOR_relu,
                                     .inputs = 1,
                                     .shape = relu_shape,
                                     .forward = relu_forward,
                                     .backward = relu_backward,
                                     .divide = layer_divide_channels};
