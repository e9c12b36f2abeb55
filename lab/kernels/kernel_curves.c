/* How far off curves of collectives are at sizes that were not measured: every other size makes the
 * curve. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/cost/fabric.h"
#include "lab/kernels/kernel_fit.h"

/* By group, then by size. */
static int by_group(const void *a, const void *b)
{
    const struct kernel_row *x = a, *y = b;
    if (x->gpu != y->gpu)
        return x->gpu < y->gpu ? -1 : 1;
    if (x->shape != y->shape)
        return x->shape < y->shape ? -1 : 1;
    if (x->where.switched != y->where.switched)
        return x->where.switched ? 1 : -1;
    return by_value(&x->bytes, &y->bytes);
}

static bool same_group(const struct kernel_row *x, const struct kernel_row *y)
{
    return x->gpu == y->gpu && x->shape == y->shape && x->where.switched == y->where.switched;
}

/* A group's rows, ascending; several of a size: the first one. Errors of the odd ones go to
 * error[*n]. */
static enum status test_group(const struct kernel_row *row, size_t rows, double least,
                              double *error, size_t *n)
{
    enum status st;
    struct fabric_curve c = {0};
    size_t sizes = 0;
    TRY(ARRAY_NEW(c.bytes, rows));
    TRY(ARRAY_NEW(c.seconds, rows));
    for (size_t i = 0; i < rows; i++) {
        bool again = i > 0 && !(row[i].bytes > row[i - 1].bytes);
        if (!again && sizes++ % 2 == 0) {
            c.bytes[c.n] = row[i].bytes;
            c.seconds[c.n++] = row[i].seconds;
        }
    }
    sizes = 0;
    for (size_t i = 0; i < rows && c.n > 1; i++) {
        bool again = i > 0 && !(row[i].bytes > row[i - 1].bytes);
        if (!again && sizes++ % 2 == 1 && row[i].bytes >= least)
            error[(*n)++] = fabs(fabric_curve_seconds(&c, row[i].bytes) / row[i].seconds - 1);
    }
out:
    fabric_curve_free(&c);
    return st;
}

enum status kernel_fit_curves(const struct kernel_rows *rows, double least, size_t *tested,
                              double *error)
{
    enum status st;
    struct kernel_row *row = NULL;
    double *errors = NULL;
    size_t n = 0;
    TRY(ARRAY_COPY(row, rows->row, rows->n));
    TRY(ARRAY_NEW(errors, rows->n + 1));
    qsort(row, rows->n, sizeof *row, by_group);
    for (size_t first = 0, end; first < rows->n; first = end) {
        for (end = first + 1; end < rows->n && same_group(&row[first], &row[end]);)
            end++;
        TRY(test_group(row + first, end - first, least, errors, &n));
    }
    *tested = n;
    *error = median(errors, n);
out:
    free(row);
    free(errors);
    return st;
}
