/* Sinusoids: row m stands for p = first - m, and has sin(p 10000^(-2 i / C)) in channel i of the
 * first half and the cosine in that of the second, whatever the sample. Vaswani et al., 2017,
 * section 3.5. */
#include "exec/device/cpu/kinds.h"

#include <math.h>

/* y (B, R, C), C even. `first` is in l->normal. */
static enum status sinusoids_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_attribute(op, "rows", -1, 1, &l->tokens));
    PASS(layer_attribute(op, "channels", -1, 2, &l->out));
    PASS(layer_attribute(op, "first", -1, 0, &l->normal));
    if (l->out % 2 != 0)
        return error_set(STATUS_INVALID,
                         "op '%s': got an odd number of channels, expected an even number",
                         op->name);
    l->output = size_times(l->tokens, l->out);
    return STATUS_OK;
}

static void sinusoids_forward(const struct layer *l, struct layer_io *io)
{
    size_t half = l->out / 2;
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t i = 0; i < half; i++) {
            double p = (double)l->normal - (double)(row % l->tokens);
            double angle = p * pow(10000, -(double)i / (double)half);
            io->y[row * l->out + i] = (real)sin(angle);
            io->y[row * l->out + half + i] = (real)cos(angle);
        }
}

static void sinusoids_backward(const struct layer *l, struct layer_io *io)
{
    (void)l, (void)io; /* nothing comes before */
}

const struct layer_kind kind_sinusoids = {.type = OPERATOR_sinusoids,
                                          .inputs = 0,
                                          .shape = sinusoids_shape,
                                          .forward = sinusoids_forward,
                                          .backward = sinusoids_backward,
                                          .forgets = true,
                                          .mixes = true};
