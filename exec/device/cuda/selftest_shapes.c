/* Layers of random shapes on both sides. */
#include "exec/device/cuda/selftest.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/random.h"

int64_t selftest_draw(size_t shape, size_t k, int64_t n)
{
    return (int64_t)(random_unit(shape, k) * (double)n);
}

static void print_shape(FILE *to, size_t shape, enum element half, const struct selftest_case *k,
                        double off)
{
    fprintf(to, "%s, shape %zu, %s, batch %zu:", k->name, shape, element_names[half], k->batch);
    for (size_t i = 0; i < k->attributes; i++)
        fprintf(to, " %s %lld", k->attribute[i].name, (long long)k->attribute[i].value);
    fprintf(to, ": %.3g\n", off);
}

/* Is the shape one of those that are compared in such numbers? */
static bool selftest_shape_has(const struct selftest_family *f, const struct selftest_division *d,
                               size_t shape, enum element half)
{
    static const size_t every[ELEMENTS] = {4, 1, 2};
    return shape % every[half] == 0 && (half == ELEMENT_FP32 || !f->skips || !f->skips(d));
}

static bool print_rows(FILE *to, const struct selftest_family *f, double (*worst)[ELEMENTS])
{
    bool good = true;
    for (enum element half = 0; half < ELEMENTS; half++)
        for (size_t k = 0; k < f->rows; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", f->row_of[k].name, selftest_half[half]);
            good = selftest_row(to, name, worst[k][half], f->row_of[k].limit[half]) && good;
        }
    return good;
}

enum status selftest_shapes(struct cuda_context *c, const struct selftest_family *f, FILE *to,
                            bool *good)
{
    enum status st;
    double(*worst)[ELEMENTS];
    TRY(ARRAY_NEW(worst, f->rows));
    for (size_t shape = 0; shape < f->shapes; shape++)
        for (enum element half = 0; half < ELEMENTS; half++) {
            const struct selftest_division d = f->shape(shape);
            size_t k = f->row(&d);
            double off, *most = &worst[k][half];
            bool large = half == ELEMENT_FP16 && f->large && f->large(&d, shape);
            if (!selftest_shape_has(f, &d, shape, half))
                continue;
            TRY(selftest_run(c, &d, 1, half, large, &off));
            *most = off <= *most ? *most : off; /* NAN too */
            if (!(off <= f->row_of[k].limit[half]))
                print_shape(to, shape, half, &d.k, off);
        }
    *good = print_rows(to, f, worst);
out:
    free(worst);
    return st;
}
