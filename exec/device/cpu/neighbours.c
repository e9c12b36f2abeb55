/* Neighbours: y_t = x_{t+1} | x_t | x_{t-1}, with zeros at the ends: MobileBERT's trigrams. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

enum { NEIGHBOURS = 3 };

/* x (B, T, C), y (B, T, 3 C). */
static enum status neighbours_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->out = NEIGHBOURS * l->in;
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

/* Row of the sample that part k of row t has; l->tokens or more: none. */
static size_t neighbours_row_of(size_t t, size_t k)
{
    return t + 1 - k; /* of t = 0 and k = 2 it wraps */
}

static void neighbours_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        size_t t = row % l->tokens;
        for (size_t k = 0; k < NEIGHBOURS; k++) {
            real *y = io->y + row * l->out + k * c;
            if (neighbours_row_of(t, k) < l->tokens)
                memcpy(y, io->x[0] + (row - t + neighbours_row_of(t, k)) * c, c * sizeof *y);
            else
                memset(y, 0, c * sizeof *y);
        }
    }
}

static void neighbours_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        size_t t = row % l->tokens;
        for (size_t k = 0; k < NEIGHBOURS; k++)
            if (neighbours_row_of(t, k) < l->tokens)
                vector_add(io->dx[0] + (row - t + neighbours_row_of(t, k)) * c,
                           io->dy + row * l->out + k * c, c);
    }
}

const struct layer_kind kind_neighbours = {.type = OPERATOR_neighbours,
                                           .inputs = 1,
                                           .shape = neighbours_shape,
                                           .forward = neighbours_forward,
                                           .backward = neighbours_backward,
                                           .forgets = true,
                                           .mixes = true};
