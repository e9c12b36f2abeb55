/* Layers of random shapes on both sides. */
#include "exec/device/cuda/selftest.h"

#include <stdlib.h>

#include "core/array.h"
#include "core/random.h"

int64_t selftest_draw(size_t shape, size_t k, int64_t n)
{
    return (int64_t)(random_unit(shape, k) * (double)n);
}

static void print_shape(FILE *to, size_t shape, bool half, const struct selftest_case *k,
                        double off)
{
    fprintf(to, "%s, shape %zu, %s, batch %zu:", k->name, shape, half ? "bf16" : "fp32", k->batch);
    for (size_t i = 0; i < k->attributes; i++)
        fprintf(to, " %s %lld", k->attribute[i].name, (long long)k->attribute[i].value);
    fprintf(to, ": %.3g\n", off);
}

enum status selftest_shapes(struct cuda_context *c, const struct selftest_family *f, FILE *to,
                            bool *good)
{
    enum status st;
    double *worst;
    TRY(ARRAY_NEW(worst, f->rows));
    for (size_t shape = 0; shape < f->shapes; shape++)
        for (int half = shape % 4 == 0 ? 0 : 1; half < 2; half++) {
            const struct selftest_division d = f->shape(shape);
            size_t k = f->row(&d, half);
            double off;
            if (k == SELFTEST_NO_ROW)
                continue;
            TRY(selftest_run(c, &d, 1, half, &off));
            worst[k] = off <= worst[k] ? worst[k] : off; /* NAN too */
            if (!(off <= f->row_of[k].limit))
                print_shape(to, shape, half, &d.k, off);
        }
    *good = true;
    for (size_t k = 0; k < f->rows; k++)
        *good = selftest_row(to, f->row_of[k].name, worst[k], f->row_of[k].limit) && *good;
out:
    free(worst);
    return st;
}
