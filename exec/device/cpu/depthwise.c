/* Depthwise convolution over tokens: y_{t,c} = sum over k of w_{c,k} x_{t + k - K/2, c}, with zeros
 * at the ends; K is odd. The first half of a separable convolution (Chollet, CVPR 2017), as in
 * ConvBERT. */
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

/* x, y (B, T, C); weight (C, K), of which K numbers make one: normal(0, 2 / K). K is in
 * l->window_of.kernel. */
static enum status depthwise_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_rowwise(op, l));
    PASS(layer_odd_kernel(op, &l->window_of.kernel));
    l->part[0] = (struct layer_part){
        .n = size_times(l->in, l->window_of.kernel), .fill = FILL_FAN, .fan = l->window_of.kernel};
    return STATUS_OK;
}

static void depthwise_forward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    memset(io->y, 0, io->batch * l->output * sizeof *io->y);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t k = 0; k < l->window_of.kernel; k++) {
            size_t t = row % l->tokens, from = t + k - l->window_of.kernel / 2; /* wraps below 0 */
            if (from >= l->tokens)
                continue;
            const real *x = io->x[0] + (row - t + from) * c;
            for (size_t i = 0; i < c; i++)
                io->y[row * c + i] += io->parameter[i * l->window_of.kernel + k] * x[i];
        }
}

static void depthwise_backward(const struct layer *l, struct layer_io *io)
{
    size_t c = l->in;
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t row = 0; row < io->batch * l->tokens; row++)
        for (size_t k = 0; k < l->window_of.kernel; k++) {
            size_t t = row % l->tokens, from = t + k - l->window_of.kernel / 2;
            if (from >= l->tokens)
                continue;
            const real *x = io->x[0] + (row - t + from) * c, *dy = io->dy + row * c;
            real *dx = io->dx[0] + (row - t + from) * c;
            for (size_t i = 0; i < c; i++) {
                dx[i] += io->parameter[i * l->window_of.kernel + k] * dy[i];
                io->d_parameter[i * l->window_of.kernel + k] += dy[i] * x[i];
            }
        }
}

const struct layer_kind kind_depthwise = {.type = OPERATOR_depthwise,
                                          .inputs = 1,
                                          .shape = depthwise_shape,
                                          .forward = depthwise_forward,
                                          .backward = depthwise_backward,
                                          .mixes = true};
