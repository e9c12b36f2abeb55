/* arithmetic.h - what operators are made of: on the host (arithmetic.c) and on a GPU
 * (exec/device/cuda/strategies.c), so that an operator is written once (kind.h).
 *
 * Operations are queued in the order of the calls, as backend.h says; `self` is the memory's.
 * Arrays are in that memory and do not overlap unless it is said. Any size may be 0. */
#ifndef EXEC_DEVICE_SHARDED_ARITHMETIC_H
#define EXEC_DEVICE_SHARDED_ARITHMETIC_H

#include "exec/device/backend.h"
#include "exec/device/cpu/gemm.h"
#include "exec/device/sharded/view.h"

/* So many products of one shape, whose operands and results are so many numbers apart. */
struct product_steps {
    size_t n, a, b, c;
};

/* Numbers (i_0, i_1, ...) of `rank` dimensions of n[d] each, of an array where they are from[d]
 * apart to one where they are to[d] apart. */
enum { SPREAD_RANK = 6 };
struct stride_spread {
    size_t rank;
    size_t n[SPREAD_RANK], from[SPREAD_RANK], to[SPREAD_RANK];
};

/* out [columns] += factor times the sums over rows of what is `row` from one row to the next and
 * `column` from one column to the next. */
struct row_sums {
    size_t rows, row, columns, column;
    real factor;
};

enum bend { BEND_SIGMOID, BEND_RELU };

/* y = saved x, where a number of the view is 0 with the chance, drawn by its place in the whole
 * tensor, and else 1 / (1 - chance). */
struct drop {
    uint64_t key;
    double chance;
    const struct view *view;
    const real *x;
    real *saved, *y;
};

/* y = (x - mean) / sqrt(variance + epsilon) w + b over rows of n numbers; saved (rows, 2): mean and
 * 1 / deviation. Backward: dx, dw, db += ... */
#define NORM_EPSILON 1e-5
struct row_norm {
    size_t rows, n;
    const real *x, *w, *b, *dy;
    real *saved, *work; /* work [norm_work * n] */
    real *y, *dx, *dw, *db;
};

/* Where tokens go (gate.c): chance (samples, tokens, experts), dispatch and combine (samples,
 * tokens, experts, slots), zeros before it; chosen: as chance, picked (samples, tokens), taken
 * (samples, experts): scratch. */
struct slot_routes {
    size_t samples, tokens, experts, slots, top;
    const real *chance;
    real *chosen, *picked, *taken;
    real *dispatch, *combine;
};

/* y (n, channels) = the rows of a table (rows, channels) that x counts, zeros where it counts
 * none. */
struct lookups {
    size_t n, rows, channels;
    const real *x;
};

/* Of x (samples, classes, places) the number that y (samples, places) counts in each place, if
 * any. */
struct picks {
    size_t samples, classes, places;
    const real *y;
    real share;
};

struct arithmetic {
    size_t norm_work; /* numbers for each channel that norms want as scratch */
    /* c = alpha a b + beta c for sizes above 0. */
    void (*product)(void *self, const struct gemm *g, const struct product_steps *s);
    /* to = factor from, or to += factor from; steps of `to` are no 0. */
    void (*spread)(void *self, const struct stride_spread *s, real factor, bool adds,
                   const real *from, real *to);
    void (*sums)(void *self, const struct row_sums *s, const real *x, real *out);
    void (*total)(void *self, size_t n, const real *x, real *y); /* y [1] = the sum of x [n] */
    void (*bend)(void *self, enum bend how, size_t n, const real *x, real *y);
    void (*bend_back)(void *self, enum bend how, size_t n, const real *y, const real *dy, real *dx);
    void (*multiply)(void *self, size_t n, const real *a, const real *b, real *y); /* y += a b */
    void (*drop)(void *self, const struct drop *d);
    void (*norm)(void *self, const struct row_norm *r);
    void (*norm_back)(void *self, const struct row_norm *r);
    /* x (rows, n) becomes the softmax of itself and row (row mod period) of the mask; NULL:
     * none. */
    void (*softmax)(void *self, size_t rows, size_t n, const real *mask, size_t period, real *x);
    /* dp = p (dp - the row's sum of p dp) */
    void (*softmax_back)(void *self, size_t rows, size_t n, const real *p, real *dp);
    void (*log_softmax)(void *self, size_t rows, size_t n, const real *x, real *y);
    /* dx += dy - exp(y) the row's sum of dy */
    void (*log_softmax_back)(void *self, size_t rows, size_t n, const real *y, const real *dy,
                             real *dx);
    void (*route)(void *self, const struct slot_routes *r);
    /* d (samples, tokens, experts) = the sums over slots of d_combine, as far as the token has
     * them. */
    void (*route_back)(void *self, const struct slot_routes *r, const real *d_combine, real *d);
    void (*look_up)(void *self, const struct lookups *l, const real *table, real *y);
    void (*look_up_back)(void *self, const struct lookups *l, const real *dy, real *d_table);
    /* loss [1] = - share times the sum of what is picked, and dx -= share d_loss [1] there. */
    void (*pick)(void *self, const struct picks *p, const real *x, real *loss);
    void (*pick_back)(void *self, const struct picks *p, const real *d_loss, real *dx);
    /* The loss of the iteration, of which value [1] is so many samples': added to *loss or to what
     * the owner of the memory keeps; gradient [1] = 1 / samples. */
    void (*end)(void *self, const real *value, double samples, real *gradient, double *loss);
};

/* Who computes, and where. */
struct arithmetic_engine {
    const struct arithmetic *does;
    struct memory memory;
};
extern const struct arithmetic_engine engine_cpu;

/* rows of n numbers each, `from` and `to` apart. */
static inline struct stride_spread spread_rows(size_t rows, size_t n, size_t from, size_t to)
{
    return (struct stride_spread){.rank = 2, .n = {rows, n}, .from = {from, 1}, .to = {to, 1}};
}
/* Which of n a number counts; n: none of them. */
static inline size_t number_counted(real number, size_t n)
{
    return number >= 0 && (double)number < (double)n ? (size_t)number : n;
}
/* Where the number that counts for y [i] is in x; n: nowhere. */
static inline size_t picks_place(const struct picks *p, size_t i, size_t n)
{
    size_t k = number_counted(p->y[i], p->classes);
    return k < p->classes ? (i / p->places * p->classes + k) * p->places + i % p->places : n;
}

#endif
