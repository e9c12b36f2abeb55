/* Rows of two inputs side by side: x0 (B, T, C0), x1 (B, T, C1), y (B, T, C0 + C1). */
#include "exec/device/cpu/kinds.h"

#include <string.h>

static enum status concat_shape(const struct model_op *op, struct layer *l)
{
    size_t second;
    PASS(layer_is_told(op, "tokens"));
    PASS(layer_attribute(op, "tokens", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "first", -1, 1, &l->in));
    PASS(layer_attribute(op, "second", -1, 1, &second));
    l->out = l->in + second;
    l->input = size_times(l->tokens, l->in);
    l->second = size_times(l->tokens, second);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

static void concat_forward(const struct layer *l, struct layer_io *io)
{
    size_t first = l->in, second = l->out - l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        real *y = io->y + row * l->out;
        memcpy(y, io->x[0] + row * first, first * sizeof *y);
        memcpy(y + first, io->x[1] + row * second, second * sizeof *y);
    }
}

/* dx0 | dx1 = dy. */
static void concat_backward(const struct layer *l, struct layer_io *io)
{
    size_t first = l->in, second = l->out - l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *dy = io->dy + row * l->out;
        memcpy(io->dx[0] + row * first, dy, first * sizeof *dy);
        memcpy(io->dx[1] + row * second, dy + first, second * sizeof *dy);
    }
}

const struct layer_kind kind_concat = {.type = OPERATOR_concat,
                                       .inputs = 2,
                                       .shape = concat_shape,
                                       .forward = concat_forward,
                                       .backward = concat_backward,
                                       .forgets = true};
