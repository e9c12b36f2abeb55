/* Gated activation: x (B, T, 2 C) = a | b, y = act(a) b with act(a) = a / (1 + exp(-a)) (silu), or
 * gelu in its tanh form (gelu.c). Shazeer, "GLU variants improve transformer", 2020,
 * arXiv:2002.05202. */
#include "exec/device/cpu/act.h"
#include "exec/device/cpu/kinds.h"

/* x (B, T, 2 C), y (B, T, C). */
static void gated_set_sizes(struct layer *l)
{
    l->in = 2 * l->out;
    l->input = size_times(l->tokens, l->in);
    l->output = size_times(l->tokens, l->out);
}

static enum status gated_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    PASS(layer_flag(op, "tanh", &l->tanh));
    gated_set_sizes(l);
    return STATUS_OK;
}

static void gated_forward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        act_gate(l->tanh, io->x[0] + row * l->in, l->out, io->y + row * l->out);
}

static void gated_backward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        act_gate_backward(l->tanh, io->x[0] + row * l->in, io->dy + row * l->out, l->out,
                          io->dx[0] + row * l->in);
}

/* A shard has the channels of both that the column-parallel product before it has left there. */
static enum status gated_divide(const struct model_op *op, const struct layer_shard *s,
                                size_t batch, struct layer *l)
{
    (void)op, (void)batch;
    l->out = shard_rows(l->out, s);
    gated_set_sizes(l);
    return STATUS_OK;
}

const struct layer_kind kind_gated = {.type = OPERATOR_gated,
                                      .inputs = 1,
                                      .shape = gated_shape,
                                      .forward = gated_forward,
                                      .backward = gated_backward,
                                      .divide = gated_divide};
