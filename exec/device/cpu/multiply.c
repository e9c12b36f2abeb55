/* Product, number by number: y (B, T, C) = the first C channels of x0 (B, T, W) times x1 (B, T,
 * C). */
#include "exec/device/cpu/kinds.h"

#include <string.h>

static enum status multiply_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "width", -1, 1, &l->in));
    PASS(layer_attribute(op, "channels", -1, 1, &l->out));
    if (l->out > l->in)
        return error_set(STATUS_INVALID,
                         "op '%s': got %zu channels, expected at most the width %zu", op->name,
                         l->out, l->in);
    l->input = size_times(l->tokens, l->in);
    l->second = l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

static void multiply_forward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *a = io->x[0] + row * l->in, *b = io->x[1] + row * l->out;
        for (size_t i = 0; i < l->out; i++)
            io->y[row * l->out + i] = a[i] * b[i];
    }
}

static void multiply_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *a = io->x[0] + row * l->in, *b = io->x[1] + row * l->out,
                   *dy = io->dy + row * l->out;
        real *da = io->dx[0] + row * l->in, *db = io->dx[1] + row * l->out;
        for (size_t i = 0; i < l->out; i++) {
            da[i] = dy[i] * b[i];
            db[i] = dy[i] * a[i];
        }
        memset(da + l->out, 0, (l->in - l->out) * sizeof *da);
    }
}

const struct layer_kind kind_multiply = {.type = OPERATOR_multiply,
                                         .inputs = 2,
                                         .shape = multiply_shape,
                                         .forward = multiply_forward,
                                         .backward = multiply_backward};
