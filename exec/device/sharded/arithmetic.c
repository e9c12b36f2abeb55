/* What operators are made of, on the host. */
#include "exec/device/sharded/arithmetic.h"

#include <math.h>
#include <string.h>

#include "core/base/random.h"
#include "exec/device/cpu/vector.h"

static void cpu_batched_gemm(void *self, const struct gemm *g, const struct product_steps *s)
{
    (void)self;
    for (size_t k = 0; k < s->n; k++) {
        struct gemm one = *g;
        one.a += k * s->a;
        one.b += k * s->b;
        one.c += k * s->c;
        gemm(&one);
    }
}

/* A run of the last dimension. */
static void spread_run(const struct stride_spread *s, real factor, bool adds, const real *from,
                       real *to)
{
    size_t last = s->rank - 1, n = s->n[last], a = s->from[last], b = s->to[last];
    bool plain = a == 1 && b == 1 && factor == 1;
    if (plain && adds)
        vector_add(to, from, n);
    else if (plain)
        memcpy(to, from, n * sizeof *to);
    else
        for (size_t i = 0; i < n; i++)
            to[i * b] = (adds ? to[i * b] : 0) + factor * from[i * a];
}

static void cpu_copy_strides(void *self, const struct stride_spread *s, real factor, bool adds,
                             const real *from, real *to)
{
    size_t runs = 1;
    (void)self;
    for (size_t d = 0; d + 1 < s->rank; d++)
        runs *= s->n[d];
    for (size_t run = 0; run < runs; run++) {
        size_t at = run, a = 0, b = 0;
        for (size_t d = s->rank - 1; d-- > 0; at /= s->n[d]) {
            a += at % s->n[d] * s->from[d];
            b += at % s->n[d] * s->to[d];
        }
        spread_run(s, factor, adds, from + a, to + b);
    }
}

static void cpu_row_sums(void *self, const struct row_sums *s, const real *x, real *out)
{
    (void)self;
    if (s->row == 1)
        for (size_t c = 0; c < s->columns; c++)
            out[c] += s->factor * vector_sum(x + c * s->column, s->rows);
    else
        for (size_t r = 0; r < s->rows; r++)
            for (size_t c = 0; c < s->columns; c++)
                out[c] += s->factor * x[r * s->row + c * s->column];
}

static void cpu_total(void *self, size_t n, const real *x, real *y)
{
    double sum = 0;
    (void)self;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    *y = (real)sum;
}

static void cpu_activation(void *self, enum bend how, size_t n, const real *x, real *y)
{
    (void)self;
    for (size_t i = 0; i < n && how == BEND_SIGMOID; i++)
        y[i] = 1 / (1 + vector_exp(-x[i]));
    for (size_t i = 0; i < n && how == BEND_RELU; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

static void cpu_activation_backward(void *self, enum bend how, size_t n, const real *y,
                                    const real *dy, real *dx)
{
    (void)self;
    for (size_t i = 0; i < n && how == BEND_SIGMOID; i++)
        dx[i] += dy[i] * y[i] * (1 - y[i]);
    for (size_t i = 0; i < n && how == BEND_RELU; i++)
        dx[i] += y[i] > 0 ? dy[i] : 0;
}

static void cpu_multiply_add(void *self, size_t n, const real *a, const real *b, real *y)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        y[i] += a[i] * b[i];
}

static void cpu_dropout(void *self, const struct drop *d)
{
    (void)self;
    for (size_t i = 0; i < d->view->n; i++) {
        bool drops = random_unit(d->key, view_index(d->view, i)) < d->chance;
        d->saved[i] = drops ? 0 : (real)(1 / (1 - d->chance));
        d->y[i] = d->saved[i] * d->x[i];
    }
}

/* ---- rows */

static void cpu_sharded_norm(void *self, const struct row_norm *r)
{
    size_t n = r->n;
    (void)self;
    for (size_t row = 0; row < r->rows; row++) {
        const real *x = r->x + row * n;
        real *y = r->y + row * n, square = 0, mean = vector_sum(x, n) / (real)n;
        for (size_t i = 0; i < n; i++)
            square += (x[i] - mean) * (x[i] - mean);
        real scale = (real)(1 / sqrt((double)square / (double)n + NORM_EPSILON));
        for (size_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) * scale * r->w[i] + r->b[i];
        r->saved[2 * row] = mean;
        r->saved[2 * row + 1] = scale;
    }
}

static void cpu_sharded_norm_backward(void *self, const struct row_norm *r)
{
    size_t n = r->n;
    (void)self;
    for (size_t row = 0; row < r->rows; row++) {
        const real *x = r->x + row * n, *dy = r->dy + row * n;
        real *dx = r->dx + row * n, mean = r->saved[2 * row], scale = r->saved[2 * row + 1],
             sum = 0, dot = 0;
        for (size_t i = 0; i < n; i++) {
            real normal = (x[i] - mean) * scale;
            sum += dy[i] * r->w[i];
            dot += dy[i] * r->w[i] * normal;
            r->dw[i] += dy[i] * normal;
            r->db[i] += dy[i];
        }
        for (size_t i = 0; i < n; i++)
            dx[i] += scale * (dy[i] * r->w[i] - (sum + (x[i] - mean) * scale * dot) / (real)n);
    }
}

static void cpu_softmax(void *self, size_t rows, size_t n, const real *mask, size_t period, real *x)
{
    (void)self;
    for (size_t k = 0; k < rows; k++) {
        real *row = x + k * n;
        if (mask)
            vector_add(row, mask + k % period * n, n);
        real most = vector_max(row, n);
        for (size_t i = 0; i < n; i++)
            row[i] = vector_exp(row[i] - most);
        real sum = vector_sum(row, n);
        for (size_t i = 0; i < n; i++)
            row[i] /= sum;
    }
}

static void cpu_softmax_backward(void *self, size_t rows, size_t n, const real *p, real *dp)
{
    (void)self;
    for (; rows-- > 0; p += n, dp += n) {
        real dot = vector_dot(p, dp, n);
        for (size_t i = 0; i < n; i++)
            dp[i] = p[i] * (dp[i] - dot);
    }
}

static void cpu_log_softmax(void *self, size_t rows, size_t n, const real *x, real *y)
{
    (void)self;
    for (; rows-- > 0; x += n, y += n) {
        real most = vector_max(x, n);
        for (size_t i = 0; i < n; i++)
            y[i] = vector_exp(x[i] - most);
        real shift = most + (real)log((double)vector_sum(y, n));
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] - shift;
    }
}

static void cpu_log_softmax_backward(void *self, size_t rows, size_t n, const real *y,
                                     const real *dy, real *dx)
{
    (void)self;
    for (; rows-- > 0; y += n, dy += n, dx += n) {
        real sum = vector_sum(dy, n);
        for (size_t i = 0; i < n; i++)
            dx[i] += dy[i] - vector_exp(y[i]) * sum;
    }
}

/* ---- routes */

/* The most probable expert that the token has not chosen yet. */
static size_t cpu_choose_slot(size_t experts, const real *chance, const real *chosen)
{
    size_t best = experts;
    for (size_t e = 0; e < experts; e++)
        if (chosen[e] == 0 && (best == experts || chance[e] > chance[best]))
            best = e;
    return best;
}

/* All first choices before all second ones, in the order of the tokens. */
static void cpu_route_slots(void *self, const struct slot_routes *r)
{
    size_t rows = r->samples * r->tokens;
    (void)self;
    memset(r->chosen, 0, rows * r->experts * sizeof *r->chosen);
    memset(r->taken, 0, r->samples * r->experts * sizeof *r->taken);
    for (size_t choice = 0; choice < r->top; choice++)
        for (size_t row = 0; row < rows; row++) {
            const real *chance = r->chance + row * r->experts;
            size_t e = cpu_choose_slot(r->experts, chance, r->chosen + row * r->experts);
            real *taken = r->taken + row / r->tokens * r->experts + e;
            r->chosen[row * r->experts + e] = 1;
            if ((size_t)*taken == r->slots)
                continue;
            size_t place = (row * r->experts + e) * r->slots + (size_t)*taken;
            r->dispatch[place] = 1;
            r->combine[place] = chance[e];
            *taken += 1;
        }
}

static void cpu_route_slots_backward(void *self, const struct slot_routes *r, const real *d_combine,
                                     real *d)
{
    (void)self;
    for (size_t e = 0; e < r->samples * r->tokens * r->experts; e++) {
        d[e] = 0;
        for (size_t place = e * r->slots; place < (e + 1) * r->slots; place++)
            d[e] += r->dispatch[place] > 0 ? d_combine[place] : 0;
    }
}

/* ---- words and classes */

static void cpu_look_up(void *self, const struct lookups *l, const real *table, real *y)
{
    (void)self;
    for (size_t i = 0; i < l->n; i++, y += l->channels) {
        size_t row = number_counted(l->x[i], l->rows);
        if (row < l->rows)
            memcpy(y, table + row * l->channels, l->channels * sizeof *y);
        else
            memset(y, 0, l->channels * sizeof *y);
    }
}

static void cpu_look_up_backward(void *self, const struct lookups *l, const real *dy, real *d_table)
{
    (void)self;
    for (size_t i = 0; i < l->n; i++) {
        size_t row = number_counted(l->x[i], l->rows);
        if (row < l->rows)
            vector_add(d_table + row * l->channels, dy + i * l->channels, l->channels);
    }
}

static void cpu_pick_target(void *self, const struct picks *p, const real *x, real *loss)
{
    double sum = 0;
    size_t n = p->samples * p->classes * p->places;
    (void)self;
    for (size_t i = 0; i < p->samples * p->places; i++) {
        size_t place = picks_place(p, i, n);
        sum -= place < n ? (double)x[place] : 0;
    }
    *loss = (real)sum * p->share;
}

static void cpu_pick_target_backward(void *self, const struct picks *p, const real *d_loss,
                                     real *dx)
{
    size_t n = p->samples * p->classes * p->places;
    (void)self;
    for (size_t i = 0; i < p->samples * p->places; i++) {
        size_t place = picks_place(p, i, n);
        if (place < n)
            dx[place] -= p->share * *d_loss;
    }
}

static void cpu_nll(void *self, const real *value, double samples, real *gradient, double *loss)
{
    (void)self;
    *loss += (double)*value / samples;
    *gradient = (real)(1 / samples);
}

static const struct arithmetic arithmetic_cpu = {.product = cpu_batched_gemm,
                                                 .spread = cpu_copy_strides,
                                                 .sums = cpu_row_sums,
                                                 .total = cpu_total,
                                                 .bend = cpu_activation,
                                                 .bend_back = cpu_activation_backward,
                                                 .multiply = cpu_multiply_add,
                                                 .drop = cpu_dropout,
                                                 .norm = cpu_sharded_norm,
                                                 .norm_back = cpu_sharded_norm_backward,
                                                 .softmax = cpu_softmax,
                                                 .softmax_back = cpu_softmax_backward,
                                                 .log_softmax = cpu_log_softmax,
                                                 .log_softmax_back = cpu_log_softmax_backward,
                                                 .route = cpu_route_slots,
                                                 .route_back = cpu_route_slots_backward,
                                                 .look_up = cpu_look_up,
                                                 .look_up_back = cpu_look_up_backward,
                                                 .pick = cpu_pick_target,
                                                 .pick_back = cpu_pick_target_backward,
                                                 .end = cpu_nll};

const struct arithmetic_engine engine_cpu = {&arithmetic_cpu, {&backend_cpu, NULL}};
