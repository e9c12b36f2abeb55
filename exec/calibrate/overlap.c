/* What streams are on a GPU, as two threads: one multiplies, the other copies. */
#include "exec/calibrate/overlap.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "exec/device/cpu/gemm.h"

enum { COPY_BYTES = 32 << 20, MOST_COPIES = 10000 };

struct work {
    size_t rows, copies;
    float *a, *b, *c;
    char *from, *to;
};

static void multiply(const struct work *w)
{
    const struct gemm g = product(1, matrix(w->a, w->rows, w->rows, w->rows),
                                  matrix(w->b, w->rows, w->rows, w->rows), w->c, w->rows);
    gemm(&g);
}

static void *copy(void *work)
{
    const struct work *w = work;
    for (size_t k = 0; k < w->copies; k++)
        memcpy(k % 2 ? w->from : w->to, k % 2 ? w->to : w->from, COPY_BYTES);
    return NULL;
}

enum way { PRODUCT, COPY, SEQUENTIAL, OVERLAPPED };

static enum status run(struct work *w, enum way way)
{
    pthread_t other;
    if (way == OVERLAPPED && pthread_create(&other, NULL, copy, w))
        return error_set(STATUS_NOMEM, "a thread");
    if (way != COPY)
        multiply(w);
    if (way == OVERLAPPED)
        pthread_join(other, NULL);
    else if (way != PRODUCT)
        copy(w);
    return STATUS_OK;
}

static enum status measure(struct work *w, enum way way, size_t trials, double *mean_s)
{
    double sum_s = 0;
    PASS(run(w, way)); /* warms up */
    for (size_t k = 0; k < trials; k++) {
        double begin_s = clock_now();
        PASS(run(w, way));
        sum_s += clock_now() - begin_s;
    }
    *mean_s = sum_s / (double)trials;
    return STATUS_OK;
}

enum status overlap_measure(size_t rows, size_t trials, struct overlap *out)
{
    enum status st;
    struct overlap o = {.rows = rows, .copy_bytes = COPY_BYTES};
    struct work w = {.rows = rows, .copies = 1};
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
    TRY(measure(&w, PRODUCT, trials, &o.product_s));
    TRY(measure(&w, COPY, trials, &o.copy_s));
    w.copies = (size_t)fmin(fmax(round(o.product_s / o.copy_s), 1), MOST_COPIES);
    o.copies = w.copies;
    TRY(measure(&w, COPY, trials, &o.copy_s));
    TRY(measure(&w, SEQUENTIAL, trials, &o.sequential_s));
    TRY(measure(&w, OVERLAPPED, trials, &o.overlapped_s));
    *out = o;
out:
    free(w.a);
    free(w.b);
    free(w.c);
    free(w.from);
    free(w.to);
    return st;
}
