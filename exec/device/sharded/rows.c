/* Norms over rows, and dimensions that change places. */
#include <math.h>
#include <string.h>

#include "exec/device/cpu/vector.h"
#include "exec/device/sharded/kind.h"

/* ---- layer norm: y = (x - mean) / sqrt(variance + epsilon) w + b over the last dimension
 * (Ba, Kiros & Hinton, 2016) */

static const double epsilon = 1e-5;

static enum status norm_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    bool fits = x->rank > 0 && view_alike(x, y) && x->size[x->rank - 1] == x->whole[x->rank - 1];
    for (size_t k = 1; k < 3; k++)
        fits = fits && c->read[k].view.rank == 1 && c->read[k].view.n == x->size[x->rank - 1];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* Mean and 1 / deviation of every row. */
static size_t norm_saved(const struct call *c)
{
    const struct view *x = &c->read[0].view;
    return 2 * view_numbers(x, 0, x->rank - 1);
}

static void norm_forward(struct call *c)
{
    const struct view *v = &c->read[0].view;
    size_t n = v->size[v->rank - 1], rows = view_numbers(v, 0, v->rank - 1);
    const real *w = c->read[1].value, *b = c->read[2].value;
    for (size_t row = 0; row < rows; row++) {
        const real *x = c->read[0].value + row * n;
        real *y = c->made[0].value + row * n, square = 0, mean = vector_sum(x, n) / (real)n;
        for (size_t i = 0; i < n; i++)
            square += (x[i] - mean) * (x[i] - mean);
        real scale = (real)(1 / sqrt((double)square / (double)n + epsilon));
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * w[i] + b[i];
        c->saved[2 * row] = mean;
        c->saved[2 * row + 1] = scale;
    }
}

static void norm_backward(struct call *c)
{
    const struct view *v = &c->read[0].view;
    size_t n = v->size[v->rank - 1], rows = view_numbers(v, 0, v->rank - 1);
    const real *w = c->read[1].value;
    real *dw = c->read[1].gradient, *db = c->read[2].gradient;
    for (size_t row = 0; row < rows; row++) {
        const real *x = c->read[0].value + row * n, *dy = c->made[0].gradient + row * n;
        real *dx = c->read[0].gradient + row * n, mean = c->saved[2 * row],
             scale = c->saved[2 * row + 1], sum = 0, dot = 0;
        for (size_t i = 0; i < n; i++) {
            real normal = (x[i] - mean) * scale;
            sum += dy[i] * w[i];
            dot += dy[i] * w[i] * normal;
            dw[i] += dy[i] * normal;
            db[i] += dy[i];
        }
        for (size_t i = 0; i < n; i++)
            dx[i] += scale * (dy[i] * w[i] - (sum + (x[i] - mean) * scale * dot) / (real)n);
    }
}

static struct start norm_start(const struct call *c, size_t k)
{
    (void)c;
    return kind_numbers(k == 1 ? 1 : 0, 0.02);
}

const struct kind sharded_layer_norm = {.name = "layer_norm",
                                        .reads = 3,
                                        .least = 3,
                                        .makes = 1,
                                        .check = norm_check,
                                        .saved = norm_saved,
                                        .forward = norm_forward,
                                        .backward = norm_backward,
                                        .start = norm_start};

/* ---- transpose: dimensions a < b of x (outer, A, middle, B, inner) change places */

struct places {
    size_t a, b;
};

static struct places places_of(const struct call *c)
{
    size_t a = (size_t)c->node->argument[0], b = (size_t)c->node->argument[1];
    return a < b ? (struct places){a, b} : (struct places){b, a};
}

static enum status transpose_check(const struct call *c)
{
    const struct view *x = &c->read[0].view, *y = &c->made[0].view;
    struct places p = places_of(c);
    bool fits = x->rank == y->rank && p.b < x->rank && p.a < p.b;
    for (size_t d = 0; fits && d < x->rank; d++)
        fits = x->size[d == p.a ? p.b : d == p.b ? p.a : d] == y->size[d];
    return fits ? STATUS_OK : kind_misfit(c);
}

/* `backward`: the other way, added. */
static void transpose(struct call *c, bool backward)
{
    const struct view *x = &c->read[0].view;
    struct places p = places_of(c);
    size_t outer = view_numbers(x, 0, p.a), middle = view_numbers(x, p.a + 1, p.b),
           inner = view_numbers(x, p.b + 1, x->rank), na = x->size[p.a], nb = x->size[p.b];
    for (size_t o = 0; o < outer; o++)
        for (size_t i = 0; i < na; i++)
            for (size_t m = 0; m < middle; m++)
                for (size_t j = 0; j < nb; j++) {
                    size_t from = (((o * na + i) * middle + m) * nb + j) * inner;
                    size_t to = (((o * nb + j) * middle + m) * na + i) * inner;
                    if (backward)
                        vector_add(c->read[0].gradient + from, c->made[0].gradient + to, inner);
                    else
                        memcpy(c->made[0].value + to, c->read[0].value + from,
                               inner * sizeof(real));
                }
}

static void transpose_forward(struct call *c)
{
    transpose(c, false);
}

static void transpose_backward(struct call *c)
{
    transpose(c, true);
}

const struct kind sharded_transpose = {.name = "transpose",
                                       .reads = 1,
                                       .least = 1,
                                       .makes = 1,
                                       .arguments = 2,
                                       .check = transpose_check,
                                       .forward = transpose_forward,
                                       .backward = transpose_backward};
