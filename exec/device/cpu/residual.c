/* Residual connection: y = x0 + x1, all (B, T, C). He et al., CVPR 2016, arXiv:1512.03385. */
#include "exec/device/cpu/kinds.h"

#include <string.h>

static enum status shape(const struct model_op *op, struct layer *l)
{
    enum status st;
    TRY(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    TRY(layer_attribute(op, "channels", -1, 1, &l->in));
    l->out = l->in;
    l->input = l->output = size_times(l->tokens, l->in);
out:
    return st;
}

static void forward(const struct layer *l, struct layer_io *io)
{
    const real *a = io->x[0], *b = io->x[1];
    real *y = io->y;
    for (size_t i = 0, n = io->batch * l->output; i < n; i++)
        y[i] = a[i] + b[i];
}

static void backward(const struct layer *l, struct layer_io *io)
{
    for (size_t i = 0; i < l->inputs; i++)
        memcpy(io->dx[i], io->dy, io->batch * l->input * sizeof(real));
}

const struct layer_kind kind_residual = {"residual", 2, shape, forward, backward, NULL, NULL};
