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
        cmocka_unit_test(bf16_sums_are_rounded_to_the_nearest),
        cmocka_unit_test(fp32_sums_are_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
