#include <math.h>

#include "core/random.h"
#include "exec/device/cuda/selftest.h"

enum { SHAPES = 200 };
/* The gradient of a sink is one sum over all rows, of either sign. In fp32 the CPU takes a sink's part of
 * the softmax as what is left of 1, to some units of its last place; in bf16 the GPU's sums of dy y are
 * of a rounded y. */
enum { PLAIN, SINKS, HALF, HALF_SINKS, LIMITS };
static const double limits[LIMITS] = {1e-6, 1e-5, 6e-3, 2e-2};

/* 0 .. n - 1: number `k` of those of shape `shape`. */
static int64_t draw(size_t shape, size_t k, int64_t n)
{
    return (int64_t)(random_unit(shape, k) * (double)n);
}

static struct selftest_division shape_of(size_t shape)
{
    static const int64_t widths[] = {64, 80, 128}, edges[] = {1, 63, 64, 65, 127, 128, 193};
    int64_t width = widths[draw(shape, 0, 3)], kv_heads = draw(shape, 1, 3) > 0 ? 1 : 2;
    int64_t heads = kv_heads * (1 + draw(shape, 2, 2));
    int64_t tokens = draw(shape, 3, 6) == 0 ? edges[draw(shape, 4, 7)] : 1 + draw(shape, 4, 100);
    int64_t causal = draw(shape, 5, 3) > 0;
    bool window = causal && draw(shape, 6, 4) == 0, sinks = draw(shape, 7, 8) == 0;
    return (struct selftest_division){{"attention",
                                       "attention",
                                       tokens < 64 ? 1 + (size_t)draw(shape, 8, 2) : 1,
                                       false,
                                       SELFTEST_ATTRIBUTES - 1,
                                       {{"tokens", tokens},
                                        {"channels", heads * width},
                                        {"heads", heads},
                                        {"kv_heads", kv_heads},
                                        {"causal", causal},
                                        {"window", window ? 1 + draw(shape, 9, tokens) : 0},
                                        {"sinks", sinks}}},
                                      TENSOR_WHOLE,
                                      1};
}

enum status selftest_attention(struct cuda_context *c, FILE *to, bool *good)
{
    enum status st = STATUS_OK;
    double worst[LIMITS] = {0};
    for (size_t shape = 0; shape < SHAPES; shape++)
        for (int half = shape % 4 == 0 ? 0 : 1; half < 2; half++) {
            const struct selftest_division d = shape_of(shape);
            double off;
            int k = 2 * half + (d.k.attribute[d.k.attributes - 1].value != 0);
            TRY(selftest_run(c, &d, 1, half, &off));
            worst[k] = off <= worst[k] ? worst[k] : off; /* NAN too */
            if (!(off <= limits[k])) {
                fprintf(to, "shape %zu, %s, batch %zu:", shape, half ? "bf16" : "fp32", d.k.batch);
                for (size_t i = 0; i < d.k.attributes; i++)
                    fprintf(to, " %s %lld", d.k.attribute[i].name,
                            (long long)d.k.attribute[i].value);
                fprintf(to, ": %.3g\n", off);
            }
        }
    *good = true;
    for (int k = 0; k < LIMITS; k++) {
        static const char *const names[LIMITS] = {"", ", sinks", ", bf16", ", sinks, bf16"};
        char name[64];
        snprintf(name, sizeof name, "attention, random shapes%s", names[k]);
        *good = selftest_row(to, name, worst[k], limits[k]) && *good;
    }
out:
    return st;
}
