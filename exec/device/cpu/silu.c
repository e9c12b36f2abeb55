/* silu: y = x sigmoid(x). Elfwing et al., 2018. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

static void silu_forward(const struct layer *l, struct layer_io *io)
{
    for (size_t i = 0; i < io->batch * l->output; i++)
        io->y[i] = io->x[0][i] / (1 + vector_exp(-io->x[0][i]));
}

static void silu_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t i = 0; i < io->batch * l->output; i++) {
        real x = io->x[0][i], s = 1 / (1 + vector_exp(-x));
        io->dx[0][i] = io->dy[i] * s * (1 + x * (1 - s));
    }
}

const struct layer_kind kind_silu = {.type = OPERATOR_silu,
                                     .inputs = 1,
                                     .shape = layer_rowwise,
                                     .forward = silu_forward,
                                     .backward = silu_backward};
