/* Products: linear layers, and those over experts (b: sample, s: token, d: channel, e: expert, c:
 * slot, h: inner channel). */
#include <math.h>

#include "exec/device/sharded/kind.h"

static struct start by_inputs(size_t inputs)
{
    return kind_numbers(0, 1 / sqrt((double)inputs));
}

/* ---- linear: y (..., out) = x (..., in) w^T + b, w (out, in) */

static enum status sharded_linear_check(const struct operator_call *c)
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
    struct gemm_operand x, w, dy;
    size_t rows, in, out;
};

static struct linear linear_of(const struct operator_call *c)
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

static void sharded_linear_forward(struct operator_call *c)
{
    struct linear l = linear_of(c);
    real *y = c->made[0].value;
    kind_product(
        c, &(struct kind_product){.a = l.x, .b = transposed(l.w), .to = y, .to_stride = l.out});
    if (c->node->reads == 3)
        kind_bias(c, l.rows, l.out, 1, c->read[2].value, y);
}

static void sharded_linear_backward(struct operator_call *c)
{
    struct linear l = linear_of(c);
    struct kind_product x = {
        .a = l.dy, .b = l.w, .adds = true, .to = c->read[0].gradient, .to_stride = l.in};
    struct kind_product w = {.a = transposed(l.dy),
                             .b = l.x,
                             .adds = true,
                             .to = c->read[1].gradient,
                             .to_stride = l.in};
    kind_product(c, &x);
    kind_product(c, &w);
    if (c->node->reads == 3)
        kind_bias_back(c, l.rows, l.out, 1, c->made[0].gradient, c->read[2].gradient);
}

static struct start sharded_linear_start(const struct operator_call *c, size_t k)
{
    return k == 1 ? by_inputs(c->read[1].view.whole[1]) : kind_numbers(0, 0.02);
}

const struct operator_kind sharded_linear = {.reads = 3,
                                             .least = 2,
                                             .makes = 1,
                                             .check = sharded_linear_check,
                                             .forward = sharded_linear_forward,
                                             .backward = sharded_linear_backward,
                                             .start = sharded_linear_start};

/* ---- to the experts' slots and back: of every sample a product with the mask (s, e c) */

/* Tokens (b, s, d), mask (b, s, e, c), slots (b, e, c, d). */
static enum status masked_check(const struct operator_call *c, const struct view *tokens,
                                const struct view *mask, const struct view *slots)
{
    bool fits = tokens->rank == 3 && mask->rank == 4 && slots->rank == 4 &&
                tokens->size[0] == mask->size[0] && tokens->size[0] == slots->size[0] &&
                tokens->size[1] == mask->size[1] && tokens->size[2] == slots->size[3] &&
                mask->size[2] == slots->size[1] && mask->size[3] == slots->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* Sizes of those, and every sample's product with its mask, as a table (tokens, places), turned or
 * not. */
struct masked {
    size_t samples, tokens, places, channels;
    struct gemm_operand mask;
};

static struct masked masked_of(const struct operator_call *c, const struct view *tokens)
{
    const struct view *m = &c->read[1].view;
    size_t places = m->size[2] * m->size[3];
    return (struct masked){tokens->size[0], tokens->size[1], places, tokens->size[2],
                           matrix(c->read[1].value, tokens->size[1], places, places)};
}

/* Numbers of a sample: of tokens, of the mask, of slots. */
static struct gemm_operand tokens_of(const struct masked *m, const real *data)
{
    return matrix(data, m->tokens, m->channels, m->channels);
}
static struct gemm_operand sharded_slots(const struct masked *m, const real *data)
{
    return matrix(data, m->places, m->channels, m->channels);
}

/* slots = mask^T tokens, or += */
static void to_slots(const struct operator_call *c, const struct masked *m, const real *tokens,
                     bool adds, real *slots)
{
    size_t row = m->tokens * m->channels, mask = m->tokens * m->places;
    kind_product(c, &(struct kind_product){
                        .a = transposed(m->mask),
                        .b = tokens_of(m, tokens),
                        .adds = adds,
                        .to = slots,
                        .to_stride = m->channels,
                        .steps = {m->samples, mask, row, m->places * m->channels},
                    });
}

/* tokens = mask slots, or += */
static void sharded_slots_to_tokens(const struct operator_call *c, const struct masked *m,
                                    const real *slots, bool adds, real *tokens)
{
    size_t row = m->tokens * m->channels, mask = m->tokens * m->places;
    kind_product(c, &(struct kind_product){
                        .a = m->mask,
                        .b = sharded_slots(m, slots),
                        .adds = adds,
                        .to = tokens,
                        .to_stride = m->channels,
                        .steps = {m->samples, mask, m->places * m->channels, row},
                    });
}

/* The mask's gradient += tokens slots^T */
static void to_mask(const struct operator_call *c, const struct masked *m, const real *tokens,
                    const real *slots)
{
    size_t row = m->tokens * m->channels, mask = m->tokens * m->places;
    kind_product(c, &(struct kind_product){
                        .a = tokens_of(m, tokens),
                        .b = transposed(sharded_slots(m, slots)),
                        .adds = true,
                        .to = c->read[1].gradient,
                        .to_stride = m->places,
                        .steps = {m->samples, row, m->places * m->channels, mask},
                    });
}

static enum status dispatch_check(const struct operator_call *c)
{
    return masked_check(c, &c->read[0].view, &c->read[1].view, &c->made[0].view);
}

static void dispatch_forward(struct operator_call *c)
{
    struct masked m = masked_of(c, &c->read[0].view);
    to_slots(c, &m, c->read[0].value, false, c->made[0].value);
}

static void dispatch_backward(struct operator_call *c)
{
    struct masked m = masked_of(c, &c->read[0].view);
    sharded_slots_to_tokens(c, &m, c->made[0].gradient, true, c->read[0].gradient);
    to_mask(c, &m, c->read[0].value, c->made[0].gradient);
}

const struct operator_kind sharded_dispatch = {.reads = 2,
                                               .least = 2,
                                               .makes = 1,
                                               .check = dispatch_check,
                                               .forward = dispatch_forward,
                                               .backward = dispatch_backward};

static enum status combine_check(const struct operator_call *c)
{
    return masked_check(c, &c->made[0].view, &c->read[1].view, &c->read[0].view);
}

static void combine_forward(struct operator_call *c)
{
    struct masked m = masked_of(c, &c->made[0].view);
    sharded_slots_to_tokens(c, &m, c->read[0].value, false, c->made[0].value);
}

static void combine_backward(struct operator_call *c)
{
    struct masked m = masked_of(c, &c->made[0].view);
    to_slots(c, &m, c->made[0].gradient, true, c->read[0].gradient);
    to_mask(c, &m, c->made[0].gradient, c->read[0].value);
}

const struct operator_kind sharded_combine = {.reads = 2,
                                              .least = 2,
                                              .makes = 1,
                                              .check = combine_check,
                                              .forward = combine_forward,
                                              .backward = combine_backward};

/* ---- experts: y (b, e, c, out) = x (b, e, c, in) w, w (e, in, out) */

static enum status expert_check(const struct operator_call *c)
{
    const struct view *w = &c->read[0].view, *x = &c->read[1].view, *y = &c->made[0].view;
    bool fits = w->rank == 3 && x->rank == 4 && y->rank == 4 && x->size[0] == y->size[0] &&
                x->size[1] == y->size[1] && x->size[1] == w->size[0] && x->size[2] == y->size[2] &&
                x->size[3] == w->size[1] && y->size[3] == w->size[2];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* Of a sample, or of the weights: so many numbers an expert. */
struct expert {
    size_t samples, experts, rows, in, out;
};

static struct expert sharded_expert_product(const struct operator_call *c)
{
    const struct view *w = &c->read[0].view, *x = &c->read[1].view;
    return (struct expert){x->size[0], w->size[0], x->size[2], w->size[1], w->size[2]};
}

static void expert_forward(struct operator_call *c)
{
    struct expert e = sharded_expert_product(c);
    size_t x = e.rows * e.in, y = e.rows * e.out, w = e.in * e.out;
    for (size_t sample = 0; sample < e.samples; sample++) {
        struct kind_product p = {
            .a = matrix(c->read[1].value + sample * e.experts * x, e.rows, e.in, e.in),
            .b = matrix(c->read[0].value, e.in, e.out, e.out),
            .to = c->made[0].value + sample * e.experts * y,
            .to_stride = e.out,
            .steps = {e.experts, x, w, y}};
        kind_product(c, &p);
    }
}

static void expert_backward(struct operator_call *c)
{
    struct expert e = sharded_expert_product(c);
    size_t x = e.rows * e.in, y = e.rows * e.out, w = e.in * e.out;
    for (size_t sample = 0; sample < e.samples; sample++) {
        size_t at = sample * e.experts;
        struct gemm_operand slots = matrix(c->read[1].value + at * x, e.rows, e.in, e.in);
        struct gemm_operand dy = matrix(c->made[0].gradient + at * y, e.rows, e.out, e.out);
        struct kind_product of_w = {.a = transposed(slots),
                                    .b = dy,
                                    .adds = true,
                                    .to = c->read[0].gradient,
                                    .to_stride = e.out,
                                    .steps = {e.experts, x, y, w}};
        struct kind_product of_x = {.a = dy,
                                    .b = transposed(matrix(c->read[0].value, e.in, e.out, e.out)),
                                    .adds = true,
                                    .to = c->read[1].gradient + at * x,
                                    .to_stride = e.in,
                                    .steps = {e.experts, y, w, x}};
        kind_product(c, &of_w);
        kind_product(c, &of_x);
    }
}

static struct start expert_start(const struct operator_call *c, size_t k)
{
    return by_inputs(c->read[k].view.whole[1]);
}

const struct operator_kind sharded_expert_in = {.reads = 2,
                                                .least = 2,
                                                .makes = 1,
                                                .check = expert_check,
                                                .forward = expert_forward,
                                                .backward = expert_backward,
                                                .start = expert_start};
const struct operator_kind sharded_expert_out = {.reads = 2,
                                                 .least = 2,
                                                 .makes = 1,
                                                 .check = expert_check,
                                                 .forward = expert_forward,
                                                 .backward = expert_backward,
                                                 .start = expert_start};
