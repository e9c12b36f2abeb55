/* Sums of bf16 on the host are those of fp32, rounded to the nearest, ties to even. */
#include "exec/element.h"
#include "tests/cmocka.h"

#include <math.h>
#include <string.h>

static float widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The nearer of the two neighbours: found by trying them, the even one if they are as near. What is
 * beyond the largest number is as if there were one more. */
static uint16_t nearest(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint16_t low = (uint16_t)(bits >> 16), high = (uint16_t)(low + 1);
    double top = ldexp(1, 128);
    double below = fabs((double)widen(low)),
           above = isinf(widen(high)) ? top : fabs((double)widen(high));
    double down = fabs((double)f) - below, up = above - fabs((double)f);
    return down < up || (down == up && low % 2 == 0) ? low : high;
}

static void bf16_sums_are_rounded_to_the_nearest(void **state)
{
    uint64_t seed = 5;
    for (size_t k = 0; k < 2000000; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint16_t x = (uint16_t)(seed >> 32), y = (uint16_t)(seed >> 48), was = y;
        if (k % 2) /* numbers of about one size: ties are frequent */
            x = (uint16_t)((x & 0x807f) | ((y & 0x7f80) ^ (x & 0x380)));
        float sum = widen(y) + widen(x);
        element_add(ELEMENT_BF16, &y, &x, 1);
        if (isnan(sum))
            assert_true(isnan(widen(y)));
        else if (isinf(sum))
            assert_true(widen(y) == sum);
        else if (y != nearest(sum))
            fail_msg("%a + %a: %04x, not %04x", (double)widen(was), (double)widen(x), y,
                     nearest(sum));
    }
}

static double half(uint16_t x)
{
    int exponent = x >> 10 & 31;
    double fraction = x & 0x3ff,
           size = exponent > 0 ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return x & 0x8000 ? -size : size;
}

/* Of all numbers, by what they are said to be; the next one after the largest is as if it were
 * there. */
static void fp16_is_rounded_to_the_nearest(void **state)
{
    uint64_t seed = 9;
    (void)state;
    for (uint32_t x = 0; x < 0x10000; x++) {
        float f = element_widen_fp16((uint16_t)x);
        if ((x >> 10 & 31) == 31) {
            assert_true((x & 0x3ff) > 0
                            ? isnan(f) && isnan(element_widen_fp16(element_narrow_fp16(f)))
                            : isinf(f) && element_narrow_fp16(f) == x);
            continue;
        }
        assert_true((double)f == half((uint16_t)x) && element_narrow_fp16(f) == x);
    }
    for (size_t k = 0; k < 2000000; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint16_t low = (uint16_t)(seed >> 48 & 0x7fff), sign = (uint16_t)(k % 2 << 15);
        double below = half(low), above = half((uint16_t)(low + 1)),
               part = (double)(seed >> 16 & 0xffff) / 0x10000;
        if (low >= 0x7c00)
            continue;
        float f = (float)(below + (k % 8 ? part : 0.5) * (above - below));
        bool up = (double)f - below > above - (double)f ||
                  ((double)f - below == above - (double)f && low % 2);
        uint16_t wanted = (uint16_t)(sign | (low + up));
        if (element_narrow_fp16(sign ? -f : f) != wanted)
            fail_msg("%a: %04x, not %04x", (double)f, element_narrow_fp16(sign ? -f : f), wanted);
    }
    assert_int_equal(element_narrow_fp16(1e6f), 0x7c00);
    assert_int_equal(element_narrow_fp16(-1e-30f), 0x8000);
}

static void fp16_sums_are_rounded(void **state)
{
    uint16_t y[2] = {0x3c00, 0x7bff}, x[2] = {0x1000, 0x7bff}; /* 1 + 2^-11, a tie; 65504 twice */
    (void)state;
    element_add(ELEMENT_FP16, y, x, 2);
    assert_int_equal(y[0], 0x3c00);
    assert_int_equal(y[1], 0x7c00);
}

static void fp32_sums_are_sums(void **state)
{
    float y[3] = {1, 2, 3}, x[3] = {0.5f, -2, 1e-9f};
    element_add(ELEMENT_FP32, y, x, 3);
    assert_true(y[0] == 1.5f && y[1] == 0 && y[2] == 3);
    assert_ptr_equal(element_at(ELEMENT_BF16, y, 2), &y[1]);
    assert_ptr_equal(element_at(ELEMENT_FP32, y, 2), &y[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp16_is_rounded_to_the_nearest),
        cmocka_unit_test(fp16_sums_are_rounded),
        cmocka_unit_test(bf16_sums_are_rounded_to_the_nearest),
        cmocka_unit_test(fp32_sums_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
