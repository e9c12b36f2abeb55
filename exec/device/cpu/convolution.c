/* Convolution of images: y(b,i,j,:) = weight (out, K K in) window(b,i,j) + bias, where the window
 * is K x K positions of x with all their channels, zeros outside of the image. LeCun et al., Neural
 * Computation 1 (1989) 541.
 *
 * As matrix products of windows that are written out row by row (Chellapilla et al., IWFHR 2006), a
 * band of output rows at a time, so that the room for them does not grow with the image. */
#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/kinds.h"
#include "exec/device/cpu/vector.h"

#include <limits.h>

#define OUTSIDE SIZE_MAX /* of an image */

/* Numbers of windows that are written out at once, if more than one row's. */
enum { BAND = 1 << 17 };

/* Rows of the output that are made at once. */
static size_t convolution_band(const struct layer *l)
{
    size_t row = size_times(l->window_of.across, layer_window_numbers(l));
    size_t rows = row > 0 ? BAND / row : 0;
    return rows < 1 ? 1 : rows < l->window_of.down ? rows : l->window_of.down;
}

/* x (B, height, width, in), y (B, down, across, out). Parts: weight (out, K, K, in); bias [out]
 * from 0. */
static enum status convolution_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_is_told(op, "kernel"));
    PASS(layer_attribute(op, "in", -1, 1, &l->in));
    PASS(layer_attribute(op, "out", -1, 1, &l->out));
    PASS(layer_flag(op, "bias", &l->bias));
    if (model_attribute(op, "groups", 1) != 1)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s': foreline run cannot compute grouped convolutions of kind '%s'; "
                         "try --compute paced",
                         op->name, op->kind);
    PASS(layer_windows(op, l));
    size_t columns = layer_window_numbers(l);
    if (columns > INT_MAX / 4)
        return error_set(STATUS_INVALID,
                         "op '%s': convolution windows have %zu elements, expected at most %d",
                         op->name, columns, INT_MAX / 4);
    l->part[0] =
        (struct layer_part){.n = size_times(l->out, columns), .fill = FILL_FAN, .fan = columns};
    l->part[1] = (struct layer_part){.n = l->bias ? l->out : 0, .fill = FILL_ZERO};
    l->work = layer_is_pointwise(l)
                  ? 0
                  : size_times(convolution_band(l), size_times(l->window_of.across, columns));
    return STATUS_OK;
}

/* Rows `from` .. from + rows - 1 of the output of a sample, each `across` windows. */
struct band {
    size_t sample, from, rows;
};

/* Where the channels at a position of one of the band's windows are in the image, or OUTSIDE. */
static size_t convolution_place(const struct layer *l, const struct band *b, size_t window,
                                size_t position)
{
    const struct layer_window *w = &l->window_of;
    size_t row = (b->from + window / w->across) * w->stride + position / w->kernel;
    size_t column = window % w->across * w->stride + position % w->kernel;
    if (row < w->padding || row - w->padding >= w->height || column < w->padding ||
        column - w->padding >= w->width)
        return OUTSIDE;
    return ((row - w->padding) * w->width + column - w->padding) * l->in;
}

/* The windows of the band, (rows across, K K in); the image itself where that is the same. */
static struct gemm_operand convolution_windows(const struct layer *l, const struct layer_io *io,
                                               const struct band *b)
{
    const struct layer_window *w = &l->window_of;
    const real *image = io->x[0] + b->sample * l->input;
    size_t n = b->rows * w->across, positions = w->kernel * w->kernel;
    if (layer_is_pointwise(l))
        return matrix(image + b->from * w->across * l->in, n, l->in, l->in);
    real *to = io->work;
    for (size_t window = 0; window < n; window++)
        for (size_t p = 0; p < positions; p++, to += l->in) {
            size_t at = convolution_place(l, b, window, p);
            if (at != OUTSIDE)
                memcpy(to, image + at, l->in * sizeof *to);
            else
                memset(to, 0, l->in * sizeof *to);
        }
    return matrix(io->work, n, layer_window_numbers(l), layer_window_numbers(l));
}

/* The next band of the batch, {0} before the first; false behind the last. */
static bool convolution_next_band(const struct layer *l, size_t batch, struct band *b)
{
    b->from += b->rows;
    if (b->from == l->window_of.down) {
        b->from = 0;
        b->sample++;
    }
    size_t rest = l->window_of.down - b->from;
    b->rows = rest < convolution_band(l) ? rest : convolution_band(l);
    return b->sample < batch;
}

/* Where the band is in y or dy. */
static size_t output_at(const struct layer *l, const struct band *b)
{
    return b->sample * l->output + b->from * l->window_of.across * l->out;
}

static struct gemm_operand convolution_weight(const struct layer *l, const struct layer_io *io)
{
    return matrix(io->parameter, l->out, layer_window_numbers(l), layer_window_numbers(l));
}

static void convolution_forward(const struct layer *l, struct layer_io *io)
{
    const real *bias = io->parameter + l->part[0].n;
    for (struct band b = {0}; convolution_next_band(l, io->batch, &b);) {
        struct gemm_operand windows = convolution_windows(l, io, &b);
        real *y = io->y + output_at(l, &b);
        struct gemm g = product(1, windows, transposed(convolution_weight(l, io)), y, l->out);
        gemm(&g);
        for (size_t row = 0; l->bias && row < windows.rows; row++)
            vector_add(y + row * l->out, bias, l->out);
    }
}

/* d_windows = dy weight; what stands in several windows gets the sum. */
static void convolution_backward(const struct layer *l, struct layer_io *io)
{
    const struct layer_window *w = &l->window_of;
    size_t positions = w->kernel * w->kernel;
    if (!layer_is_pointwise(l))
        memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (struct band b = {0}; convolution_next_band(l, io->batch, &b);) {
        size_t n = b.rows * w->across;
        struct gemm_operand dy = matrix(io->dy + output_at(l, &b), n, l->out, l->out);
        real *dx = io->dx[0] + b.sample * l->input;
        real *to = layer_is_pointwise(l) ? dx + b.from * w->across * l->in : io->work;
        struct gemm g = product(1, dy, convolution_weight(l, io), to, layer_window_numbers(l));
        gemm(&g);
        const real *from = io->work;
        for (size_t window = 0; window < n && !layer_is_pointwise(l); window++)
            for (size_t p = 0; p < positions; p++, from += l->in) {
                size_t at = convolution_place(l, &b, window, p);
                if (at != OUTSIDE)
                    vector_add(dx + at, from, l->in);
            }
    }
}

/* d_weight (out, K K in) += dy^T windows; d_bias [out] += column sums of dy. */
static void convolution_backward_weight(const struct layer *l, struct layer_io *io)
{
    real *d_bias = io->d_parameter + l->part[0].n;
    for (struct band b = {0}; convolution_next_band(l, io->batch, &b);) {
        struct gemm_operand windows = convolution_windows(l, io, &b);
        const real *dy = io->dy + output_at(l, &b);
        struct gemm g = product_added(transposed(matrix(dy, windows.rows, l->out, l->out)), windows,
                                      io->d_parameter, layer_window_numbers(l));
        gemm(&g);
        for (size_t row = 0; l->bias && row < windows.rows; row++)
            vector_add(d_bias, dy + row * l->out, l->out);
    }
}

const struct layer_kind kind_convolution = {.type = OPERATOR_convolution,
                                            .inputs = 1,
                                            .shape = convolution_shape,
                                            .forward = convolution_forward,
                                            .backward = convolution_backward,
                                            .backward_weight = convolution_backward_weight,
                                            .mixes = true};
