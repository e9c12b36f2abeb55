/* Positions: y_t = x_t + positions_t + types_0, the last if there are segments. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, C). Parts: positions (P, C), types (S, C), normal(0, 0.02). */
static enum status positions_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    PASS(layer_attribute(op, "positions", -1, (int64_t)l->tokens, &l->positions));
    PASS(layer_attribute(op, "types", 0, 0, &l->types));
    l->part[0] = (struct layer_part){.n = size_times(l->positions, l->in), .fill = FILL_NORMAL};
    l->part[1] = (struct layer_part){.n = size_times(l->types, l->in), .fill = FILL_NORMAL};
    return STATUS_OK;
}

static void positions_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        real *y = io->y + row * c;
        memcpy(y, io->x[0] + row * c, c * sizeof *y);
        vector_add(y, io->parameter + layer_position(l, row % l->tokens) * c, c);
        if (l->types > 0)
            vector_add(y, io->parameter + l->positions * c, c);
    }
}

static void positions_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    memcpy(io->dx[0], io->dy, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *dy = io->dy + row * c;
        vector_add(io->d_parameter + layer_position(l, row % l->tokens) * c, dy, c);
        if (l->types > 0)
            vector_add(io->d_parameter + l->positions * c, dy, c);
    }
}

/* Shards with parts of the rows would not know which positions theirs are. */
const struct layer_kind kind_positions = {.type = OPERATOR_positions,
                                          .inputs = 1,
                                          .shape = positions_shape,
                                          .forward = positions_forward,
                                          .backward = positions_backward,
                                          .forgets = true,
                                          .mixes = true};
