/* Products: linear layers, and those over experts (b: sample, s: token, d: channel, e: expert, c:
 * slot, h: inner channel). */
#include <math.h>

#include "exec/device/cpu/gemm.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

static struct start by_inputs(size_t inputs)
{
    return kind_numbers(0, 1 / sqrt((double)inputs));
}

/* ---- linear: y (..., out) = x (..., in) w^T + b, w (out, in) */

static enum status linear_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view, *y = &c->made[0].view;
    bool fits = x->rank > 0 && w->rank == 2 && y->rank == x->rank;
    for (size_t d = 0; fits && d + 1 < x->rank; d++)
        fits = x->size[d] == y->size[d];
    fits = fits && x->size[x->rank - 1] == w->size[1] && y->size[y->rank - 1] == w->size[0] &&
           (c->node->reads < 3 || (c->read[2].view.n == w->size[0] && c->read[2].view.rank == 1));
    return fits ? STATUS_OK : kind_misfit(c);
}

struct linear {
    struct matrix x, w, dy;
    size_t rows, in, out;
};

static struct linear linear_of(const struct call *c)
{
    const struct view *x = &c->read[0].view, *w = &c->read[1].view;
    size_t rows = view_numbers(x, 0, x->rank - 1), in = w->size[1], out = w->size[0];
    return (struct linear){matrix(c->read[0].value, rows, in, in),
                           matrix(c->read[1].value, out, in, in),
                           matrix(c->made[0].gradient, rows, out, out),
                           rows,
                           in,
                           out};
}

static void linear_forward(struct call *c)
{
    struct linear l = linear_of(c);
    real *y = c->made[0].value;
    const struct matrix w = transposed(l.w);
    kind_product(1, &l.x, &w, false, y, l.out);
    for (size_t row = 0; row < l.rows && c->node->reads == 3; row++)
        vector_add(y + row * l.out, c->read[2].value, l.out);
}

static void linear_backward(struct call *c)
{
    struct linear l = linear_of(c);
    const struct matrix dy = transposed(l.dy);
    kind_product(1, &l.dy, &l.w, true, c->read[0].gradient, l.in);
    kind_product(1, &dy, &l.x, true, c->read[1].gradient, l.in);
    for (size_t row = 0; row < l.rows && c->node->reads == 3; row++)
        vector_add(c->read[2].gradient, c->made[0].gradient + row * l.out, l.out);
}

static struct start linear_start(const struct call *c, size_t k)
{
    return k == 1 ? by_inputs(c->read[1].view.whole[1]) : kind_numbers(0, 0.02);
}

const struct kind sharded_linear = {.name = "linear",
                                    .reads = 3,
                                    .least = 2,
                                    .makes = 1,
                                    .check = linear_check,
                                    .forward = linear_forward,
                                    .backward = linear_backward,
                                    .start = linear_start};

/* ---- to the experts' slots and back: of every sample a product with the mask (s, e c) */

/* Tokens (b, s, d), mask (b, s, e, c), slots (b, e, c, d). */
static enum status masked_check(const struct call *c, const struct view *tokens,
                                const struct view *mask, const struct view *slots)
{
    bool fits = tokens->rank == 3 && mask->rank == 4 && slots->rank == 4 &&
                tokens->size[0] == mask->size[0] && tokens->size[0] == slots->size[0] &&
                tokens->size[1] == mask->size[1] && tokens->size[2] == slots->size[3] &&
                mask->size[2] == slots->size[1] && mask->size[3] == slots->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* A sample's matrix (rows, columns) out of an array of them. */
static struct matrix of_sample(const real *data, size_t b, size_t rows, size_t columns)
{
    return matrix(data + b * rows * columns, rows, columns, columns);
}

static enum status dispatch_check(const struct call *c)
{
    return masked_check(c, &c->read[0].view, &c->read[1].view, &c->made[0].view);
}

static void dispatch_forward(struct call *c)
{
    const struct view *x = &c->read[0].view, *m = &c->read[1].view;
    size_t s = x->size[1], d = x->size[2], places = m->size[2] * m->size[3];
    for (size_t b = 0; b < x->size[0]; b++) {
        struct matrix mask = transposed(of_sample(c->read[1].value, b, s, places));
        struct matrix tokens = of_sample(c->read[0].value, b, s, d);
        kind_product(1, &mask, &tokens, false, c->made[0].value + b * places * d, d);
    }
}

static void dispatch_backward(struct call *c)
{
    const struct view *x = &c->read[0].view, *m = &c->read[1].view;
    size_t s = x->size[1], d = x->size[2], places = m->size[2] * m->size[3];
    for (size_t b = 0; b < x->size[0]; b++) {
        struct matrix mask = of_sample(c->read[1].value, b, s, places);
        struct matrix tokens = of_sample(c->read[0].value, b, s, d);
        struct matrix dy = of_sample(c->made[0].gradient, b, places, d), dy_t = transposed(dy);
        kind_product(1, &mask, &dy, true, c->read[0].gradient + b * s * d, d);
        kind_product(1, &tokens, &dy_t, true, c->read[1].gradient + b * s * places, places);
    }
}

const struct kind sharded_dispatch = {.name = "dispatch",
                                      .reads = 2,
                                      .least = 2,
                                      .makes = 1,
                                      .check = dispatch_check,
                                      .forward = dispatch_forward,
                                      .backward = dispatch_backward};

static enum status combine_check(const struct call *c)
{
    return masked_check(c, &c->made[0].view, &c->read[1].view, &c->read[0].view);
}

static void combine_forward(struct call *c)
{
    const struct view *y = &c->made[0].view, *m = &c->read[1].view;
    size_t s = y->size[1], d = y->size[2], places = m->size[2] * m->size[3];
    for (size_t b = 0; b < y->size[0]; b++) {
        struct matrix mask = of_sample(c->read[1].value, b, s, places);
        struct matrix slots = of_sample(c->read[0].value, b, places, d);
        kind_product(1, &mask, &slots, false, c->made[0].value + b * s * d, d);
    }
}

static void combine_backward(struct call *c)
{
    const struct view *y = &c->made[0].view, *m = &c->read[1].view;
    size_t s = y->size[1], d = y->size[2], places = m->size[2] * m->size[3];
    for (size_t b = 0; b < y->size[0]; b++) {
        struct matrix mask = transposed(of_sample(c->read[1].value, b, s, places));
        struct matrix slots = transposed(of_sample(c->read[0].value, b, places, d));
        struct matrix dy = of_sample(c->made[0].gradient, b, s, d);
        kind_product(1, &mask, &dy, true, c->read[0].gradient + b * places * d, d);
        kind_product(1, &dy, &slots, true, c->read[1].gradient + b * s * places, places);
    }
}

const struct kind sharded_combine = {.name = "combine",
                                     .reads = 2,
                                     .least = 2,
                                     .makes = 1,
                                     .check = combine_check,
                                     .forward = combine_forward,
                                     .backward = combine_backward};

/* ---- experts: y (b, e, c, out) = x (b, e, c, in) w, w (e, in, out) */

static enum status expert_check(const struct call *c)
{
    const struct view *w = &c->read[0].view, *x = &c->read[1].view, *y = &c->made[0].view;
    bool fits = w->rank == 3 && x->rank == 4 && y->rank == 4 && x->size[0] == y->size[0] &&
                x->size[1] == y->size[1] && x->size[1] == w->size[0] && x->size[2] == y->size[2] &&
                x->size[3] == w->size[1] && y->size[3] == w->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

static void expert_pass(struct call *c, bool backward)
{
    const struct view *w = &c->read[0].view, *x = &c->read[1].view;
    size_t experts = w->size[0], rows = x->size[2], in = w->size[1], out = w->size[2];
    for (size_t k = 0; k < x->size[0] * experts; k++) {
        size_t e = k % experts;
        struct matrix weight = of_sample(c->read[0].value, e, in, out);
        struct matrix slots = of_sample(c->read[1].value, k, rows, in);
        if (!backward) {
            kind_product(1, &slots, &weight, false, c->made[0].value + k * rows * out, out);
            continue;
        }
        struct matrix dy = of_sample(c->made[0].gradient, k, rows, out);
        weight = transposed(weight);
        slots = transposed(slots);
        kind_product(1, &slots, &dy, true, c->read[0].gradient + e * in * out, out);
        kind_product(1, &dy, &weight, true, c->read[1].gradient + k * rows * in, in);
    }
}

static void expert_forward(struct call *c)
{
    expert_pass(c, false);
}

static void expert_backward(struct call *c)
{
    expert_pass(c, true);
}

static struct start expert_start(const struct call *c, size_t k)
{
    return by_inputs(c->read[k].view.whole[1]);
}

const struct kind sharded_expert_in = {.name = "expert_in",
                                       .reads = 2,
                                       .least = 2,
                                       .makes = 1,
                                       .check = expert_check,
                                       .forward = expert_forward,
                                       .backward = expert_backward,
                                       .start = expert_start};
const struct kind sharded_expert_out = {.name = "expert_out",
                                        .reads = 2,
                                        .least = 2,
                                        .makes = 1,
                                        .check = expert_check,
                                        .forward = expert_forward,
                                        .backward = expert_backward,
                                        .start = expert_start};
