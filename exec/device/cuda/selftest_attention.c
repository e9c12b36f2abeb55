#include "exec/device/cuda/selftest.h"

enum { SHAPES = 200 };
/* The gradient of a sink is one sum over all rows, of either sign. In fp32 the CPU takes a sink's
 * part of the softmax as what is left of 1, to some units of its last place; in 16 bits the GPU's
 * sums of dy y are of a rounded y. */
static const struct selftest_limit limits[] = {
    {"attention, random shapes", {1e-6, 6e-3, 1e-3}},
    {"attention, random shapes, sinks", {1e-5, 2e-2, 3e-3}}};

static struct selftest_division selftest_attention_shape(size_t shape)
{
    static const int64_t widths[] = {64, 80, 128}, edges[] = {1, 63, 64, 65, 127, 128, 193};
    int64_t width = widths[selftest_draw(shape, 0, 3)],
            kv_heads = selftest_draw(shape, 1, 3) > 0 ? 1 : 2;
    int64_t heads = kv_heads * (1 + selftest_draw(shape, 2, 2));
    int64_t tokens = selftest_draw(shape, 3, 6) == 0 ? edges[selftest_draw(shape, 4, 7)]
                                                     : 1 + selftest_draw(shape, 4, 100);
    int64_t causal = selftest_draw(shape, 5, 3) > 0;
    bool window = causal && selftest_draw(shape, 6, 4) == 0,
         sinks = selftest_draw(shape, 7, 8) == 0;
    return (struct selftest_division){
        {"attention",
         "attention",
         tokens < 64 ? 1 + (size_t)selftest_draw(shape, 8, 2) : 1,
         false,
         7,
         {{"tokens", tokens},
          {"channels", heads * width},
          {"heads", heads},
          {"kv_heads", kv_heads},
          {"causal", causal},
          {"window", window ? 1 + selftest_draw(shape, 9, tokens) : 0},
          {"sinks", sinks}}},
        TENSOR_WHOLE,
        1};
}

static size_t selftest_attention_row(const struct selftest_division *d)
{
    return (d->k.attribute[d->k.attributes - 1].value != 0);
}

/* Gradients of scores are beyond fp16 then, though those of q, k and v are not. Not of sinks',
 * which nearly cancel, and are added to numbers of 1 or less. */
static bool is_large(const struct selftest_division *d, size_t shape)
{
    return selftest_attention_row(d) == 0 && shape / 2 % 2 > 0;
}

enum status selftest_attention(struct cuda_context *c, FILE *to, bool *good)
{
    const struct selftest_family attention = {
        SHAPES, selftest_attention_shape, selftest_attention_row, NULL, is_large, 2, limits};
    return selftest_shapes(c, &attention, to, good);
}
