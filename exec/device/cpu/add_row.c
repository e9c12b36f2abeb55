/* One row for all of a sample: y (B, T, C) = x0 (B, T, C) + x1 (B, C). */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

static enum status add_row_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->second = l->in;
    return STATUS_OK;
}

static void add_row_forward(const struct layer *l, struct layer_io *io)
{
    memcpy(io->y, io->x[0], io->batch * l->output * sizeof *io->y);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        vector_add(io->y + row * l->in, io->x[1] + row / l->tokens * l->in, l->in);
}

static void add_row_backward(const struct layer *l, struct layer_io *io)
{
    memcpy(io->dx[0], io->dy, io->batch * l->output * sizeof *io->dy);
    memset(io->dx[1], 0, io->batch * l->second * sizeof *io->dx[1]);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        vector_add(io->dx[1] + row / l->tokens * l->in, io->dy + row * l->in, l->in);
}

const struct layer_kind kind_add_row = {.type = OPERATOR_add_row,
                                        .inputs = 2,
                                        .shape = add_row_shape,
                                        .forward = add_row_forward,
                                        .backward = add_row_backward,
                                        .forgets = true,
                                        .mixes = true};
