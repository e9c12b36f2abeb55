/* Residual connection: y = x0 + x1, all (B, T, C). He et al., CVPR 2016, arXiv:1512.03385. */
#include "exec/device/cpu/kinds.h"

#include <string.h>

/* x0, x1, y (B, T, C). */
static void residual_forward(const struct layer *l, struct layer_io *io)
{
    const real *a = io->x[0], *b = io->x[1];
    real *y = io->y;
    for (size_t i = 0, n = io->batch * l->output; i < n; i++)
        y[i] = a[i] + b[i];
}

/* dx0 = dx1 = dy, each in its own memory: the stage adds what other readers of an input give. */
static void residual_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t i = 0; i < l->inputs; i++)
        memcpy(io->dx[i], io->dy, io->batch * l->input * sizeof(real));
}

const struct layer_kind kind_residual = {.type = OPERATOR_residual,
                                         .inputs = 2,
                                         .shape = layer_rowwise,
                                         .forward = residual_forward,
                                         .backward = residual_backward,
                                         .forgets = true};
