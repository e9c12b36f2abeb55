/* A gate of one number per token: y = sigmoid(x w) times branch, row by row; Qwen2-MoE weighs with
 * it what the shared experts give. Yang et al., Qwen2, 2024, arXiv:2407.10671, section 2.2.3. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* branch, x, y (B, T, C); weight [C]; saved (B, T): the sigmoid. */
static enum status token_gate_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    l->part[0] = (struct layer_part){.n = l->in, .fill = FILL_NORMAL};
    l->saved = l->tokens;
    return STATUS_OK;
}

static void token_gate_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *branch = io->x[0] + row * c;
        real s = 1 / (1 + vector_exp(-vector_dot(io->x[1] + row * c, io->parameter, c)));
        io->saved[row] = s;
        for (size_t i = 0; i < c; i++)
            io->y[row * c + i] = s * branch[i];
    }
}

/* With s the sigmoid and g = s (1 - s) dy . branch:
 *     d branch = s dy,  dx = g w,  d weight += g x. */
static void token_gate_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *dy = io->dy + row * c, *x = io->x[1] + row * c;
        real *to = io->dx[0] + row * c, *dx = io->dx[1] + row * c, s = io->saved[row];
        real g = s * (1 - s) * vector_dot(dy, io->x[0] + row * c, c);
        for (size_t i = 0; i < c; i++) {
            to[i] = s * dy[i];
            dx[i] = g * io->parameter[i];
            io->d_parameter[i] += g * x[i];
        }
    }
}

/* Every shard of tensor parallelism has all of it: no divide(). */
const struct layer_kind kind_token_gate = {.type = OPERATOR_token_gate,
                                           .inputs = 2,
                                           .shape = token_gate_shape,
                                           .forward = token_gate_forward,
                                           .backward = token_gate_backward,
                                           .exact = true};
