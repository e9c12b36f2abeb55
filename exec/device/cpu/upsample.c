/* Upsampling by 2: every position of an image in four places. x (B, H, W, C), y (B, 2 H, 2 W,
 * C). */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

static enum status upsample_shape(const struct model_op *op, struct layer *l)
{
    struct layer_window *w = &l->window_of;
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_attribute(op, "height", -1, 1, &w->height));
    PASS(layer_attribute(op, "width", -1, 1, &w->width));
    l->out = l->in;
    l->input = size_times(size_times(w->height, w->width), l->in);
    l->output = size_times(4, l->input);
    l->tokens = size_times(size_times(2 * w->height, 2), w->width);
    return STATUS_OK;
}

/* Where the numbers of position `row` of the output are in the input. */
static size_t source(const struct layer *l, size_t row)
{
    size_t width = l->window_of.width, across = row % (2 * width), down = row / (2 * width);
    return (down / 2 * width + across / 2) *
           l->in; /* samples follow each other: their heights are even */
}

static void upsample_forward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        memcpy(io->y + row * l->in, io->x[0] + source(l, row), l->in * sizeof *io->y);
}

static void upsample_backward(const struct layer *l, struct layer_io *io)
{
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        vector_add(io->dx[0] + source(l, row), io->dy + row * l->in, l->in);
}

const struct layer_kind kind_upsample = {.type = OPERATOR_upsample,
                                         .inputs = 1,
                                         .shape = upsample_shape,
                                         .forward = upsample_forward,
                                         .backward = upsample_backward,
                                         .forgets = true,
                                         .mixes = true};
