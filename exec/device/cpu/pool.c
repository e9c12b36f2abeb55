/* Pooling: the largest number, or the mean, of each channel in windows of an image. What is outside
 * of the image is no candidate for the largest and counts as zero in the mean, as in PyTorch. */
#include "exec/device/cpu/kinds.h"

#include <string.h>

/* x (B, height, width, C), y (B, down, across, C). Nothing is saved: the backward looks again.
 * Every window has a position of the image, since less than half of it is outside. */
static enum status pool_layer_shape(const struct model_op *op, struct layer *l)
{
    PASS(layer_is_told(op, "height"));
    PASS(layer_attribute(op, "channels", -1, 1, &l->in));
    PASS(layer_flag(op, "average", &l->average));
    l->out = l->in;
    PASS(layer_windows(op, l));
    if (l->window_of.padding > l->window_of.kernel / 2)
        return error_set(STATUS_INVALID,
                         "op '%s': got a padding of %zu, expected at most %zu (half the kernel)",
                         op->name, l->window_of.padding, l->window_of.kernel / 2);
    return STATUS_OK;
}

/* Positions of the image in one window: rows top .. bottom - 1, columns left .. right - 1. */
struct pool_window {
    size_t top, bottom, left, right;
};

static void pool_clip_window(size_t at, const struct layer_window *w, size_t size, size_t *low,
                             size_t *high)
{
    size_t from = at * w->stride,
           to = from + w->kernel; /* counted from `padding` before the image */
    *low = from > w->padding ? from - w->padding : 0;
    *high = to - w->padding < size ? to - w->padding : size;
}

static struct pool_window pool_seen_by(const struct layer_window *w, size_t window)
{
    struct pool_window s;
    pool_clip_window(window / w->across, w, w->height, &s.top, &s.bottom);
    pool_clip_window(window % w->across, w, w->width, &s.left, &s.right);
    return s;
}

/* Offset in the image of the largest number of channel c in the window; the first of equals. */
static size_t pool_largest(const struct layer *l, const struct pool_window *s, const real *image,
                           size_t c)
{
    size_t best = (s->top * l->window_of.width + s->left) * l->in + c;
    for (size_t row = s->top; row < s->bottom; row++)
        for (size_t column = s->left; column < s->right; column++) {
            size_t at = (row * l->window_of.width + column) * l->in + c;
            best = image[at] > image[best] ? at : best;
        }
    return best;
}

static real mean(const struct layer *l, const struct pool_window *s, const real *image, size_t c)
{
    real sum = 0;
    for (size_t row = s->top; row < s->bottom; row++)
        for (size_t column = s->left; column < s->right; column++)
            sum += image[(row * l->window_of.width + column) * l->in + c];
    return sum / (real)(l->window_of.kernel * l->window_of.kernel);
}

static void pool_layer_forward(const struct layer *l, struct layer_io *io)
{
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        const real *image = io->x[0] + row / l->tokens * l->input;
        struct pool_window s = pool_seen_by(&l->window_of, row % l->tokens);
        for (size_t c = 0; c < l->in; c++)
            io->y[row * l->in + c] =
                l->average ? mean(l, &s, image, c) : image[pool_largest(l, &s, image, c)];
    }
}

/* Each number of dy goes to the number that was the largest, or in equal parts to all. */
static void pool_layer_backward(const struct layer *l, struct layer_io *io)
{
    const real each = 1 / (real)(l->window_of.kernel * l->window_of.kernel);
    memset(io->dx[0], 0, io->batch * l->input * sizeof *io->dx[0]);
    for (size_t row = 0; row < io->batch * l->tokens; row++) {
        size_t sample = row / l->tokens * l->input;
        const real *image = io->x[0] + sample, *dy = io->dy + row * l->in;
        real *dx = io->dx[0] + sample;
        struct pool_window s = pool_seen_by(&l->window_of, row % l->tokens);
        for (size_t c = 0; c < l->in && !l->average; c++)
            dx[pool_largest(l, &s, image, c)] += dy[c];
        for (size_t at = s.top; at < s.bottom && l->average; at++)
            for (size_t column = s.left; column < s.right; column++)
                for (size_t c = 0; c < l->in; c++)
                    dx[(at * l->window_of.width + column) * l->in + c] += each * dy[c];
    }
}

const struct layer_kind kind_pool = {.type = OPERATOR_pool,
                                     .inputs = 1,
                                     .shape = pool_layer_shape,
                                     .forward = pool_layer_forward,
                                     .backward = pool_layer_backward,
                                     .mixes = true};
