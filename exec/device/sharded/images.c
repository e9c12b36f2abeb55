/* Images: patches, and a class token before them. */
#include <math.h>
#include <string.h>

#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

/* ---- conv2d: y (N, O, H / p, W / q) of patches of x (N, C, H, W), w (O, C, p, q), b (O). Patches do not
 * overlap, so that a sample's are a matrix (patches, C p q) with the same numbers. */

static enum status conv_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *y = &c->made[0].view;
    bool fits = x->rank == 4 && w->rank == 4 && y->rank == 4 && c->read[2].view.rank == 1 &&
                x->size[0] == y->size[0] && x->size[1] == w->size[1] && w->size[0] == y->size[1] &&
                c->read[2].view.n == w->size[0];
    for (size_t d = 2; fits && d < 4; d++)
        fits = x->size[d] == y->size[d] * w->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

struct conv {
    size_t samples, outputs, patches, inner; /* inner: numbers of a patch */
    struct matrix w;
};

static struct conv conv_of(const struct call *c)
{
    const struct view *w = &c->read[1].view, *y = &c->made[0].view;
    size_t inner = view_numbers(w, 1, 4);
    return (struct conv){y->size[0], y->size[1], y->size[2] * y->size[3], inner,
                         matrix(c->read[1].value, w->size[0], inner, inner)};
}

static size_t conv_work(const struct call *c)
{
    struct conv v = conv_of(c);
    return v.patches * v.inner;
}

/* A sample to its matrix, or (`back`) what the matrix has added to the sample. */
static void move_patches(const struct call *c, real *sample, real *patches, bool back)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *y = &c->made[0].view;
    size_t wide = w->size[3], inner = view_numbers(w, 1, 4);
    for (size_t channel = 0; channel < x->size[1]; channel++)
        for (size_t h = 0; h < x->size[2]; h++)
            for (size_t k = 0; k < y->size[3]; k++) {
                size_t patch = h / w->size[2] * y->size[3] + k;
                size_t in = (channel * w->size[2] + h % w->size[2]) * wide;
                real *place = patches + patch * inner + in;
                real *row = sample + (channel * x->size[2] + h) * x->size[3] + k * wide;
                if (back)
                    vector_add(row, place, wide);
                else
                    memcpy(place, row, wide * sizeof *row);
            }
}

static void conv_forward(struct call *c)
{
    struct conv v = conv_of(c);
    struct matrix patches = transposed(matrix(c->work, v.patches, v.inner, v.inner));
    for (size_t n = 0; n < v.samples; n++) {
        real *y = c->made[0].value + n * v.outputs * v.patches;
        move_patches(c, c->read[0].value + n * view_numbers(&c->read[0].view, 1, 4), c->work,
                     false);
        kind_product(1, &v.w, &patches, false, y, v.patches);
        for (size_t o = 0; o < v.outputs; o++)
            for (size_t k = 0; k < v.patches; k++)
                y[o * v.patches + k] += c->read[2].value[o];
    }
}

static void conv_backward(struct call *c)
{
    struct conv v = conv_of(c);
    struct matrix patches = matrix(c->work, v.patches, v.inner, v.inner);
    size_t numbers = view_numbers(&c->read[0].view, 1, 4);
    for (size_t n = 0; n < v.samples; n++) {
        const real *dy = c->made[0].gradient + n * v.outputs * v.patches;
        struct matrix d = matrix(dy, v.outputs, v.patches, v.patches), d_t = transposed(d);
        move_patches(c, c->read[0].value + n * numbers, c->work, false);
        kind_product(1, &d, &patches, true, c->read[1].gradient, v.inner);
        for (size_t o = 0; o < v.outputs; o++)
            c->read[2].gradient[o] += vector_sum(dy + o * v.patches, v.patches);
        kind_product(1, &d_t, &v.w, false, c->work, v.inner);
        move_patches(c, c->read[0].gradient + n * numbers, c->work, true);
    }
}

static struct start conv_start(const struct call *c, size_t k)
{
    if (k == 0)
        return (struct start){.base = 0, .spread = 1, .source = SOURCE_IMAGES};
    return kind_numbers(0, k == 1 ? 1 / sqrt((double)view_numbers(&c->read[1].view, 1, 4)) : 0.02);
}

const struct kind sharded_conv2d = {.name = "conv2d",
                                    .reads = 3,
                                    .least = 3,
                                    .makes = 1,
                                    .check = conv_check,
                                    .work = conv_work,
                                    .forward = conv_forward,
                                    .backward = conv_backward,
                                    .start = conv_start};

/* ---- flatten: dimensions from the last one of y on become that one */

static enum status flatten_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits = y->rank > 0 && y->rank <= x->rank && x->n == y->n;
    for (size_t d = 0; fits && d + 1 < y->rank; d++)
        fits = x->size[d] == y->size[d];
    for (size_t d = y->rank; fits && d <= x->rank; d++) /* what is one dimension is not divided */
        fits = x->size[d - 1] == x->whole[d - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void flatten_forward(struct call *c)
{
    memcpy(c->made[0].value, c->read[0].value, c->made[0].view.n * sizeof(real));
}

static void flatten_backward(struct call *c)
{
    vector_add(c->read[0].gradient, c->made[0].gradient, c->made[0].view.n);
}

const struct kind sharded_flatten = {.name = "flatten",
                                     .reads = 1,
                                     .least = 1,
                                     .makes = 1,
                                     .check = flatten_check,
                                     .forward = flatten_forward,
                                     .backward = flatten_backward};

/* ---- append_cls: a row (1, 1, C) before the tokens of x (N, S, C); get_cls: that row of each sample */

/* Tokens (N, S, C), and (1, 1, C) or (N, C). */
static bool fit_rows(const struct view *x, const struct view *row)
{
    return x->rank == 3 && row->rank > 0 && row->size[row->rank - 1] == x->size[2];
}

static enum status append_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *row = &c->read[1].view, *y = &c->made[0].view;
    bool fits = fit_rows(x, row) && y->rank == 3 && row->n == x->size[2] &&
                y->size[0] == x->size[0] && y->size[1] == x->size[1] + 1 &&
                y->size[2] == x->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void append_forward(struct call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    for (size_t n = 0; n < x->size[0]; n++) {
        real *y = c->made[0].value + n * (sample + row);
        memcpy(y, c->read[1].value, row * sizeof *y);
        memcpy(y + row, c->read[0].value + n * sample, sample * sizeof *y);
    }
}

static void append_backward(struct call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    for (size_t n = 0; n < x->size[0]; n++) {
        const real *dy = c->made[0].gradient + n * (sample + row);
        vector_add(c->read[1].gradient, dy, row);
        vector_add(c->read[0].gradient + n * sample, dy + row, sample);
    }
}

static struct start append_start(const struct call *c, size_t k)
{
    (void)c, (void)k;
    return kind_numbers(0, 0.02);
}

const struct kind sharded_append_class = {.name = "append_cls",
                                          .reads = 2,
                                          .least = 2,
                                          .makes = 1,
                                          .check = append_check,
                                          .forward = append_forward,
                                          .backward = append_backward,
                                          .start = append_start};

static enum status get_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits = fit_rows(x, y) && y->rank == 2 && y->size[0] == x->size[0] && x->size[1] > 0;
    return fits ? STATUS_OK : kind_misfit(c);
}

static void get_forward(struct call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    for (size_t n = 0; n < x->size[0]; n++)
        memcpy(c->made[0].value + n * row, c->read[0].value + n * sample, row * sizeof(real));
}

static void get_backward(struct call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    for (size_t n = 0; n < x->size[0]; n++)
        vector_add(c->read[0].gradient + n * sample, c->made[0].gradient + n * row, row);
}

const struct kind sharded_get_class = {.name = "get_cls",
                                       .reads = 1,
                                       .least = 1,
                                       .makes = 1,
                                       .check = get_check,
                                       .forward = get_forward,
                                       .backward = get_backward};
