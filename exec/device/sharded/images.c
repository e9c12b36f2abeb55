/* Images: patches, and a class token before them. */
#include <math.h>

#include "exec/device/sharded/kind.h"

/* ---- conv2d: y (N, O, H / p, W / q) of patches of x (N, C, H, W), w (O, C, p, q), b (O). Patches
 * do not overlap, so that a sample's are a matrix (patches, C p q) with the same numbers. */

static enum status conv_check(const struct operator_call *c)
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
    struct gemm_operand w;
};

static struct conv conv_of(const struct operator_call *c)
{
    const struct view *w = &c->read[1].view, *y = &c->made[0].view;
    size_t inner = view_numbers(w, 1, 4);
    return (struct conv){y->size[0], y->size[1], y->size[2] * y->size[3], inner,
                         matrix(c->read[1].value, w->size[0], inner, inner)};
}

static size_t conv_work(const struct operator_call *c)
{
    struct conv v = conv_of(c);
    return v.patches * v.inner;
}

/* A sample to its matrix, or (`back`) what the matrix has added to the sample: by channels, rows of
 * patches, rows inside of them, patches, numbers. */
static void move_patches(const struct operator_call *c, const real *from, real *to, bool back)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *y = &c->made[0].view;
    size_t high = w->size[2], wide = w->size[3], inner = view_numbers(w, 1, 4), row = x->size[3],
           across = y->size[3];
    const struct stride_spread out = {
        .rank = 5,
        .n = {x->size[1], y->size[2], high, across, wide},
        .from = {x->size[2] * row, high * row, row, wide, 1},
        .to = {high * wide, across * inner, wide, inner, 1},
    };
    struct stride_spread s = out;
    for (size_t d = 0; d < s.rank && back; d++) {
        s.from[d] = out.to[d];
        s.to[d] = out.from[d];
    }
    c->does->spread(c->self, &s, 1, back, from, to);
}

static void conv_forward(struct operator_call *c)
{
    struct conv v = conv_of(c);
    struct gemm_operand patches = transposed(matrix(c->work, v.patches, v.inner, v.inner));
    const struct stride_spread bias = {
        .rank = 2, .n = {v.outputs, v.patches}, .from = {1, 0}, .to = {v.patches, 1}};
    for (size_t n = 0; n < v.samples; n++) {
        real *y = c->made[0].value + n * v.outputs * v.patches;
        const real *x = c->read[0].value + n * view_numbers(&c->read[0].view, 1, 4);
        move_patches(c, x, c->work, false);
        kind_product(
            c, &(struct kind_product){.a = v.w, .b = patches, .to = y, .to_stride = v.patches});
        c->does->spread(c->self, &bias, 1, true, c->read[2].value, y);
    }
}

static void conv_backward(struct operator_call *c)
{
    struct conv v = conv_of(c);
    struct gemm_operand patches = matrix(c->work, v.patches, v.inner, v.inner);
    size_t numbers = view_numbers(&c->read[0].view, 1, 4);
    const struct row_sums bias = {v.patches, 1, v.outputs, v.patches, 1};
    for (size_t n = 0; n < v.samples; n++) {
        const real *dy = c->made[0].gradient + n * v.outputs * v.patches;
        struct gemm_operand d = matrix(dy, v.outputs, v.patches, v.patches);
        const struct kind_product of_w = {
            .a = d, .b = patches, .adds = true, .to = c->read[1].gradient, .to_stride = v.inner};
        const struct kind_product of_x = {
            .a = transposed(d), .b = v.w, .to = c->work, .to_stride = v.inner};
        move_patches(c, c->read[0].value + n * numbers, c->work, false);
        kind_product(c, &of_w);
        c->does->sums(c->self, &bias, dy, c->read[2].gradient);
        kind_product(c, &of_x);
        move_patches(c, c->work, c->read[0].gradient + n * numbers, true);
    }
}

static struct start conv_start(const struct operator_call *c, size_t k)
{
    if (k == 0)
        return (struct start){.base = 0, .spread = 1, .source = SOURCE_IMAGES};
    return kind_numbers(0, k == 1 ? 1 / sqrt((double)view_numbers(&c->read[1].view, 1, 4)) : 0.02);
}

const struct operator_kind sharded_conv2d = {.reads = 3,
                                             .least = 3,
                                             .makes = 1,
                                             .check = conv_check,
                                             .work = conv_work,
                                             .forward = conv_forward,
                                             .backward = conv_backward,
                                             .start = conv_start};

/* ---- flatten: dimensions from the last one of y on become that one */

static enum status flatten_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits = y->rank > 0 && y->rank <= x->rank && x->n == y->n;
    for (size_t d = 0; fits && d + 1 < y->rank; d++)
        fits = x->size[d] == y->size[d];
    for (size_t d = y->rank; fits && d <= x->rank; d++) /* what is one dimension is not divided */
        fits = x->size[d - 1] == x->whole[d - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

const struct operator_kind sharded_flatten = {.reads = 1,
                                              .least = 1,
                                              .makes = 1,
                                              .check = flatten_check,
                                              .forward = kind_same,
                                              .backward = kind_same_back};

/* ---- append_cls: a row (1, 1, C) before the tokens of x (N, S, C); get_cls: that row of each
 * sample */

/* Tokens (N, S, C), and (1, 1, C) or (N, C). */
static bool sharded_image_fit_rows(const struct view *x, const struct view *row)
{
    return x->rank == 3 && row->rank > 0 && row->size[row->rank - 1] == x->size[2];
}

static enum status append_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *row = &c->read[1].view, *y = &c->made[0].view;
    bool fits = sharded_image_fit_rows(x, row) && y->rank == 3 && row->n == x->size[2] &&
                y->size[0] == x->size[0] && y->size[1] == x->size[1] + 1 &&
                y->size[2] == x->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void append_forward(struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    const struct stride_spread first = spread_rows(x->size[0], row, 0, sample + row);
    const struct stride_spread rest = spread_rows(x->size[0], sample, sample, sample + row);
    c->does->spread(c->self, &first, 1, false, c->read[1].value, c->made[0].value);
    c->does->spread(c->self, &rest, 1, false, c->read[0].value, c->made[0].value + row);
}

static void append_backward(struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    size_t row = x->size[2], sample = x->size[1] * row;
    const struct row_sums first = {x->size[0], sample + row, row, 1, 1};
    const struct stride_spread rest = spread_rows(x->size[0], sample, sample + row, sample);
    c->does->sums(c->self, &first, c->made[0].gradient, c->read[1].gradient);
    c->does->spread(c->self, &rest, 1, true, c->made[0].gradient + row, c->read[0].gradient);
}

static struct start append_start(const struct operator_call *c, size_t k)
{
    (void)c, (void)k;
    return kind_numbers(0, 0.02);
}

const struct operator_kind sharded_append_cls = {.reads = 2,
                                                 .least = 2,
                                                 .makes = 1,
                                                 .check = append_check,
                                                 .forward = append_forward,
                                                 .backward = append_backward,
                                                 .start = append_start};

static enum status get_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits =
        sharded_image_fit_rows(x, y) && y->rank == 2 && y->size[0] == x->size[0] && x->size[1] > 0;
    return fits ? STATUS_OK : kind_misfit(c);
}

static void get_forward(struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    const struct stride_spread s =
        spread_rows(x->size[0], x->size[2], x->size[1] * x->size[2], x->size[2]);
    c->does->spread(c->self, &s, 1, false, c->read[0].value, c->made[0].value);
}

static void get_backward(struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    const struct stride_spread s =
        spread_rows(x->size[0], x->size[2], x->size[2], x->size[1] * x->size[2]);
    c->does->spread(c->self, &s, 1, true, c->made[0].gradient, c->read[0].gradient);
}

const struct operator_kind sharded_get_cls = {.reads = 1,
                                              .least = 1,
                                              .makes = 1,
                                              .check = get_check,
                                              .forward = get_forward,
                                              .backward = get_backward};
