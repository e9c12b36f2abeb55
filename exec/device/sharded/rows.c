/* Norms over rows, and dimensions that change places. */
#include "exec/device/sharded/kind.h"

/* ---- layer norm: y = (x - mean) / sqrt(variance + epsilon) w + b over the last dimension
 * (Ba, Kiros & Hinton, 2016) */

static enum status norm_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits = x->rank > 0 && view_alike(x, y) && x->size[x->rank - 1] == x->whole[x->rank - 1];
    for (size_t k = 1; k < 3; k++)
        fits = fits && c->read[k].view.rank == 1 && c->read[k].view.n == x->size[x->rank - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* Mean and 1 / deviation of every row. */
static size_t norm_saved(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view;
    return 2 * view_numbers(x, 0, x->rank - 1);
}

static size_t norm_work(const struct operator_call *c)
{
    return c->does->norm_work * c->read[1].view.n;
}

static struct row_norm sharded_norm_sizes(const struct operator_call *c)
{
    const struct view *v = &c->read[0].view;
    return (struct row_norm){.rows = view_numbers(v, 0, v->rank - 1),
                             .n = v->size[v->rank - 1],
                             .x = c->read[0].value,
                             .w = c->read[1].value,
                             .b = c->read[2].value,
                             .dy = c->made[0].gradient,
                             .saved = c->saved,
                             .work = c->work,
                             .y = c->made[0].value,
                             .dx = c->read[0].gradient,
                             .dw = c->read[1].gradient,
                             .db = c->read[2].gradient};
}

static void sharded_norm_forward(struct operator_call *c)
{
    const struct row_norm r = sharded_norm_sizes(c);
    c->does->norm(c->self, &r);
}

static void sharded_norm_backward(struct operator_call *c)
{
    const struct row_norm r = sharded_norm_sizes(c);
    c->does->norm_back(c->self, &r);
}

static struct start norm_start(const struct operator_call *c, size_t k)
{
    (void)c;
    return kind_numbers(k == 1 ? 1 : 0, 0.02);
}

const struct operator_kind sharded_layer_norm = {.reads = 3,
                                                 .least = 3,
                                                 .makes = 1,
                                                 .check = norm_check,
                                                 .saved = norm_saved,
                                                 .work = norm_work,
                                                 .forward = sharded_norm_forward,
                                                 .backward = sharded_norm_backward,
                                                 .start = norm_start};

/* ---- transpose: dimensions a < b of x (outer, A, middle, B, inner) change places */

struct transpose_places {
    size_t a, b;
};

static struct transpose_places places_of(const struct operator_call *c)
{
    size_t a = (size_t)c->node->argument[0], b = (size_t)c->node->argument[1];
    return a < b ? (struct transpose_places){a, b} : (struct transpose_places){b, a};
}

static enum status transpose_check(const struct operator_call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    struct transpose_places p = places_of(c);
    bool fits = x->rank == y->rank && p.b < x->rank && p.a < p.b;
    for (size_t d = 0; fits && d < x->rank; d++)
        fits = x->size[d == p.a ? p.b : d == p.b ? p.a : d] == y->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* From x to y; or, `back`, the other way, added. */
static void transpose(const struct operator_call *c, bool back, const real *from, real *to)
{
    const struct view *x = &c->read[0].view;
    struct transpose_places p = places_of(c);
    size_t outer = view_numbers(x, 0, p.a), middle = view_numbers(x, p.a + 1, p.b),
           inner = view_numbers(x, p.b + 1, x->rank), na = x->size[p.a], nb = x->size[p.b];
    struct stride_spread s = {
        .rank = 5,
        .n = {outer, na, middle, nb, inner},
        .from = {na * middle * nb * inner, middle * nb * inner, nb * inner, inner, 1},
        .to = {na * middle * nb * inner, inner, na * inner, middle * na * inner, 1},
    };
    for (size_t d = 0; d < s.rank && back; d++) {
        size_t step = s.from[d];
        s.from[d] = s.to[d];
        s.to[d] = step;
    }
    c->does->spread(c->self, &s, 1, back, from, to);
}

static void transpose_forward(struct operator_call *c)
{
    transpose(c, false, c->read[0].value, c->made[0].value);
}

static void transpose_backward(struct operator_call *c)
{
    transpose(c, true, c->made[0].gradient, c->read[0].gradient);
}

const struct operator_kind sharded_transpose = {.reads = 1,
                                                .least = 1,
                                                .makes = 1,
                                                .arguments = 2,
                                                .check = transpose_check,
                                                .forward = transpose_forward,
                                                .backward = transpose_backward};
