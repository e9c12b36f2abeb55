/* What streams are on a GPU, as two threads: one multiplies, the other copies. */
#include "exec/calibrate/overlap.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/device/cpu/gemm.h"

enum { COPY_BYTES = 32 << 20, MOST_COPIES = 10000 };

struct overlap_work {
    size_t rows, copies;
    float *a, *b, *c;
    char *from, *to;
};

static void overlap_bench_multiply(const struct overlap_work *w)
{
    const struct gemm g = product(1, matrix(w->a, w->rows, w->rows, w->rows),
                                  matrix(w->b, w->rows, w->rows, w->rows), w->c, w->rows);
    gemm(&g);
}

static void *overlap_bench_copy(void *work)
{
    const struct overlap_work *w = work;
    for (size_t k = 0; k < w->copies; k++)
        memcpy(k % 2 ? w->from : w->to, k % 2 ? w->to : w->from, COPY_BYTES);
    return NULL;
}

enum way { PRODUCT, COPY, SEQUENTIAL, OVERLAPPED };

static enum status overlap_bench_run(struct overlap_work *w, enum way way)
{
    pthread_t other;
    if (way == OVERLAPPED && pthread_create(&other, NULL, overlap_bench_copy, w))
        return error_set(STATUS_NOMEM, "cannot start a thread");
    if (way != COPY)
        overlap_bench_multiply(w);
    if (way == OVERLAPPED)
        pthread_join(other, NULL);
    else if (way != PRODUCT)
        overlap_bench_copy(w);
    return STATUS_OK;
}

static enum status overlap_bench_measure(struct overlap_work *w, enum way way, size_t trials,
                                         double *mean_s)
{
    double sum_s = 0;
    PASS(overlap_bench_run(w, way)); /* warms up */
    for (size_t k = 0; k < trials; k++) {
        double begin_s = clock_now();
        PASS(overlap_bench_run(w, way));
        sum_s += clock_now() - begin_s;
    }
    *mean_s = sum_s / (double)trials;
    return STATUS_OK;
}

enum status overlap_measure(size_t rows, size_t trials, struct overlap *out)
{
    enum status st;
    struct overlap o = {.rows = rows, .copy_bytes = COPY_BYTES};
    struct overlap_work w = {.rows = rows, .copies = 1};
    TRY(ARRAY_NEW(w.a, rows * rows));
    TRY(ARRAY_NEW(w.b, rows * rows));
    TRY(ARRAY_NEW(w.c, rows * rows));
    TRY(ARRAY_NEW(w.from, COPY_BYTES));
    TRY(ARRAY_NEW(w.to, COPY_BYTES));
    for (size_t i = 0; i < rows * rows; i++)
        w.a[i] = w.b[i] = (float)(i % 7);
    memset(w.from, 1, COPY_BYTES); /* pages that are there */
    memset(w.to, 2, COPY_BYTES);
    TRY(gemm_single_thread());
    TRY(overlap_bench_measure(&w, PRODUCT, trials, &o.product_s));
    TRY(overlap_bench_measure(&w, COPY, trials, &o.copy_s));
    w.copies = (size_t)fmin(fmax(round(o.product_s / o.copy_s), 1), MOST_COPIES);
    o.copies = w.copies;
    TRY(overlap_bench_measure(&w, COPY, trials, &o.copy_s));
    TRY(overlap_bench_measure(&w, SEQUENTIAL, trials, &o.sequential_s));
    TRY(overlap_bench_measure(&w, OVERLAPPED, trials, &o.overlapped_s));
    *out = o;
out:
    free(w.a);
    free(w.b);
    free(w.c);
    free(w.from);
    free(w.to);
    return st;
}

/* ---- products beside collectives */

struct products {
    struct overlap_work w;
    atomic_bool stop;
    size_t n;
    double seconds; /* of all of them */
};

static void *multiply_on(void *context)
{
    struct products *p = context;
    double begin_s = clock_now();
    do {
        overlap_bench_multiply(&p->w);
        p->n++;
    } while (!atomic_load(&p->stop));
    p->seconds = clock_now() - begin_s;
    return NULL;
}

static enum status time_collectives(const struct trial_options *o, double seconds[TRIAL_SHARDS])
{
    struct trial_result t = {0};
    PASS(trial_run(o, &t));
    for (size_t k = 0; k < TRIAL_SHARDS * TRIAL_SIZES; k++)
        seconds[k / TRIAL_SIZES] += t.time[k].seconds;
    trial_free(&t);
    return STATUS_OK;
}

static enum status overlap_bench_contended(struct products *p, const struct trial_options *o,
                                           struct interference *out)
{
    pthread_t other;
    if (pthread_create(&other, NULL, multiply_on, p))
        return error_set(STATUS_NOMEM, "cannot start a thread");
    enum status st = time_collectives(o, out->collective_beside_s);
    atomic_store(&p->stop, true);
    pthread_join(other, NULL);
    out->products = p->n;
    out->product_beside_s = p->seconds / (double)p->n;
    return st;
}

enum status overlap_interfere(size_t rows, const struct trial_options *o, struct interference *out)
{
    enum status st;
    struct interference i = {0};
    struct products p = {.w = {.rows = rows}};
    TRY(ARRAY_NEW(p.w.a, rows * rows));
    TRY(ARRAY_NEW(p.w.b, rows * rows));
    TRY(ARRAY_NEW(p.w.c, rows * rows));
    for (size_t k = 0; k < rows * rows; k++)
        p.w.a[k] = p.w.b[k] = (float)(k % 7);
    TRY(gemm_single_thread());
    TRY(overlap_bench_measure(&p.w, PRODUCT, o->repeats, &i.product_s));
    TRY(time_collectives(o, i.collective_s));
    TRY(overlap_bench_contended(&p, o, &i));
    *out = i;
out:
    free(p.w.a);
    free(p.w.b);
    free(p.w.c);
    return st;
}

/* ---- slices */

enum status overlap_slice(size_t rows, size_t channels, size_t inner, size_t trials,
                          double flops[OVERLAP_SLICES])
{
    enum status st;
    float *x = NULL, *w = NULL, *y = NULL;
    TRY(ARRAY_NEW(x, rows * channels));
    TRY(ARRAY_NEW(w, channels * inner));
    TRY(ARRAY_NEW(y, rows * inner));
    for (size_t k = 0; k < rows * channels; k++)
        x[k] = (float)(k % 7);
    for (size_t k = 0; k < channels * inner; k++)
        w[k] = (float)(k % 5);
    TRY(gemm_single_thread());
    for (size_t s = 0, n = rows; s < OVERLAP_SLICES; s++, n = n / 4 ? n / 4 : 1) {
        const struct gemm there = product(1, matrix(x, n, channels, channels),
                                          matrix(w, channels, inner, inner), y, inner);
        const struct gemm back =
            product(1, matrix(y, n, inner, inner), transposed(matrix(w, channels, inner, inner)), x,
                    channels);
        size_t calls = trials * (rows / n); /* as much work for each */
        double begin_s = 0;
        for (size_t k = 0; k <= calls; k++) { /* the first warms up */
            begin_s = k == 1 ? clock_now() : begin_s;
            gemm(&there);
            gemm(&back);
        }
        double pairs = (double)n * (double)channels * (double)inner;
        flops[s] = 4 * pairs * (double)calls / (clock_now() - begin_s);
        memset(x, 0, rows * channels * sizeof *x); /* or numbers grow without end */
    }
out:
    free(x);
    free(w);
    free(y);
    return st;
}
