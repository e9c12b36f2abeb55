/* Seconds of kernels: closed forms against direct evaluations, over seeded random sizes and
 * devices; limits, floors, and the line of words that says what is known of a device. */
#include "core/cost/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/data/topology.h"
#include "core/strategy/constants.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

enum { TRIALS = 20000 };
#define SHIPPED(id) constant_rows[CONSTANT_##id].shipped

static double between(uint64_t *state, double low, double high)
{
    return low * exp(random_unit(random_next(state), 0) * log(high / low));
}

/* Like an H100, everything within a factor of two of it. */
static struct device_type random_type(uint64_t *state)
{
    double scale = between(state, 0.5, 2);
    struct device_type t = {.flops = 792e12 * scale,
                            .memory_Bps = 3.35e12 * between(state, 0.5, 2),
                            .peak = {[DATA_fp32] = 67e12 * scale,
                                     [DATA_tf32] = 494.5e12 * scale,
                                     [DATA_fp16] = 989e12 * scale,
                                     [DATA_bf16] = 989e12 * scale,
                                     [DATA_fp8] = (random_next(state) & 1) ? 1979e12 * scale : 0,
                                     [DATA_fp4] = (random_next(state) & 1) ? 4000e12 * scale : 0}};
    t.kernels = kernels_derive(&t);
    assert_true(kernels_known(&t.kernels));
    return t;
}

/* The same with units that make tiles. */
static struct device_type random_tiled_type(uint64_t *state)
{
    struct device_type t = random_type(state);
    t.kernels.units = floor(between(state, 1, 300));
    t.kernels.wave = between(state, 0.01, 1);
    t.kernels.pace_s = between(state, 1e-11, 1e-8);
    t.kernels.cache = (random_next(state) & 1) ? between(state, 1e3, 1e8) : 0;
    t.kernels.rows = between(state, 0.1, 50);
    return t;
}

static struct kernel random_product(uint64_t *state)
{
    static const enum data_type types[] = {DATA_fp32, DATA_tf32, DATA_fp16,
                                           DATA_bf16, DATA_fp8,  DATA_fp4};
    return (struct kernel){.kind = KERNEL_PRODUCT,
                           .dtype = types[random_next(state) % 6],
                           .launches = 1,
                           .batch = floor(between(state, 1, 100)),
                           .m = floor(between(state, 1, 1e5)),
                           .n = 16 * ceil(between(state, 0.1, 6e3)), /* whose rows are aligned */
                           .k = 16 * ceil(between(state, 0.1, 6e3))};
}

/* docs/reference/kernels.md, term by term, in long double and without shared code. */
static long double direct_product(const struct device_type *t, const struct kernel *k)
{
    bool four = k->dtype == DATA_fp4, eight = k->dtype == DATA_fp8 || four,
         single = k->dtype == DATA_fp32;
    long double peak = t->kernels.product[k->dtype];
    if (peak == 0) /* an A100 has no fp8: whatever its 16 bits attain */
        peak = t->flops;
    long double operand = four ? 0.6L : eight ? 1 : single || k->dtype == DATA_tf32 ? 4 : 2;
    long double result = single || k->dtype == DATA_tf32 ? 4 : 2;
    long double efficiency =
        1 / (1 + (eight ? 1.2L : 1.0L) * (95.0L / k->m + 95.0L / k->n + 55.0L / k->k));
    long double compute = 2.0L * k->batch * k->m * k->n * k->k /
                          (peak *
                           (single                 ? SHIPPED(share_32)
                            : four                 ? SHIPPED(share_4)
                            : k->dtype == DATA_fp8 ? SHIPPED(share_8)
                                                   : SHIPPED(share_16)) *
                           efficiency);
    long double bytes =
        k->batch * (operand * k->m * k->k + operand * k->k * k->n + result * k->m * k->n);
    long double move = bytes / (t->memory_Bps * 0.88L);
    return 8e-6L + (compute > move ? compute : move);
}

static void products_are_the_formula(void **state)
{
    uint64_t seed = 1;
    for (int i = 0; i < TRIALS; i++) {
        struct device_type t = random_type(&seed);
        struct kernel k = random_product(&seed);
        double expected = (double)direct_product(&t, &k);
        assert_near(kernel_seconds(&t, &k), expected, 1e-12 * expected);
    }
}

/* The same products, of rows that are no multiple of 16 bytes: those of 16 and 8 bits are slower,
 * and nothing is faster. */
static void rows_that_are_not_aligned_are_slower(void **state)
{
    uint64_t seed = 11;
    for (int i = 0; i < TRIALS; i++) {
        struct device_type t = random_type(&seed), plain;
        struct kernel k = random_product(&seed), odd = k;
        bool half = k.dtype == DATA_fp16 || k.dtype == DATA_bf16;
        bool eight = k.dtype == DATA_fp8;
        (random_next(&seed) & 1 ? &odd.n : &odd.k)[0] += half ? 4 : eight ? 8 : 1;
        plain = t; /* as fast as such products are */
        double peak = t.kernels.product[k.dtype] > 0 ? t.kernels.product[k.dtype] : t.flops;
        double share = eight ? SHIPPED(share_8) : SHIPPED(share_16);
        if (half || eight)
            plain.kernels.product[k.dtype] =
                k.batch > 1 ? fmin(peak, 0.7 * t.peak[DATA_fp32] / share) : peak / 2;
        double expected = (double)direct_product(&plain, &odd);
        assert_near(kernel_seconds(&t, &odd), expected, 1e-12 * expected);
        assert_true(kernel_seconds(&t, &odd) >= kernel_seconds(&t, &k));
    }
}

/* Tiles counted one by one, dealt to units in turns; every tile size and split is tried. */
static void tiled_products_are_the_fastest_of_their_tiles(void **state)
{
    static const double sizes[][2] = {{64, 64}, {128, 128}, {128, 256}, {256, 128}};
    uint64_t seed = 7;
    for (int i = 0; i < TRIALS / 10; i++) {
        struct device_type t = random_tiled_type(&seed);
        const struct device_kernels *d = &t.kernels;
        struct kernel k = {.kind = KERNEL_PRODUCT, .dtype = DATA_bf16, .launches = 1};
        k.batch = floor(between(&seed, 1, 4)), k.m = floor(between(&seed, 1, 3000));
        k.n = 8 * ceil(between(&seed, 0.1, 400)), k.k = 8 * ceil(between(&seed, 0.1, 1e4));
        double bytes = kernel_product_bytes(&k), best = 1e300;
        for (int size = 0; size < 4; size++)
            for (int split = 1; split <= 8; split *= 2) {
                double m = sizes[size][0], n = sizes[size][1], count = 0;
                for (double y = 0; y < k.m; y += m)
                    for (double x = 0; x < k.n; x += n)
                        count += k.batch * split;
                if (split > 1 && count > 8 * d->units)
                    continue;
                double smooth = count < d->units ? 1 : count / d->units;
                double turns = (1 - d->wave) * smooth + d->wave * ceil(count / d->units);
                double tile =
                    2 * m * n * (k.k / split + d->depth) * (1 + d->rows / m + d->rows / n);
                tile /= 1 + d->rows / 128 + d->rows / 256;
                double compute = turns * tile * d->units / (t.flops * SHIPPED(share_16));
                double sums = split > 1 ? 8 * split * k.batch * k.m * k.n : 0;
                double move = (bytes + sums) * bytes / (bytes + d->cache) / (t.memory_Bps * 0.88);
                best = fmin(best, pow(compute, 3) + pow(move, 3));
            }
        double expected = d->shortest_s + cbrt(best + pow(d->pace_s * k.k, 3));
        assert_near(kernel_seconds(&t, &k), expected, 1e-12 * expected);
    }
}

/* Flash 2 on devices with fp4, fp8 or neither, of `head` channels: 4 s^2 head / 2 FLOP a head,
 * forward. */
static void attention_is_the_formula(void **state)
{
    uint64_t seed = 2;
    for (int i = 0; i < TRIALS; i++) {
        struct device_type t = random_type(&seed);
        bool hopper = t.peak[DATA_fp8] > 0, blackwell = t.peak[DATA_fp4] > 0;
        bool backward = random_next(&seed) & 1;
        double s = floor(between(&seed, 64, 1e6)), head = (random_next(&seed) & 1) ? 128 : 64;
        double heads = floor(between(&seed, 1, 128)), flop = heads * 2 * s * s * head;
        struct kernel k = {.kind = KERNEL_ATTENTION,
                           .dtype = DATA_bf16,
                           .launches = 1,
                           .tokens = s,
                           .k = head,
                           .flop = backward ? 2.5 * flop : flop,
                           .flash = FLASH_2,
                           .backward = backward};
        double share = (blackwell ? SHIPPED(flash_blackwell)
                        : hopper  ? SHIPPED(flash_hopper)
                                  : SHIPPED(flash_ampere)) *
                       (backward ? SHIPPED(flash_backward) : 1) * (head < 128 ? 0.8 : 1);
        double expected = 8e-6 + k.flop / (t.peak[DATA_bf16] * share) * (1 + 900 / s);
        assert_near(kernel_seconds(&t, &k), expected, 1e-12 * expected);
    }
}

static void passes_take_their_bytes_and_six_tenths_of_a_kernel_each(void **state)
{
    struct device_type t = {
        .flops = 268e12, .memory_Bps = 2e12, .peak = {[DATA_fp32] = 19.5e12, [DATA_bf16] = 312e12}};
    t.kernels = kernels_derive(&t);
    struct kernel k = {.kind = KERNEL_PASS, .launches = 4, .bytes = 1.76e9};
    assert_near(kernel_seconds(&t, &k), 4 * 4.8e-6 + 1e-3, 1e-15);
    k.bytes = 0;
    k.flop = 268e12 * SHIPPED(share_16);
    k.dtype = DATA_bf16;
    assert_near(kernel_seconds(&t, &k), 4 * 4.8e-6 + 1, 1e-12);
}

/* Each size alone, a little larger. */
static void every_kernel_takes_longer_when_it_is_larger(void **state)
{
    uint64_t seed = 3;
    for (int i = 0; i < TRIALS; i++) {
        struct device_type t = i % 2 ? random_type(&seed) : random_tiled_type(&seed);
        struct kernel k = random_product(&seed);
        double *sizes[] = {&k.m, &k.n, &k.k, &k.batch, &k.launches};
        double before = kernel_seconds(&t, &k);
        double *size = sizes[random_next(&seed) % 5], old = *size;
        *size *= between(&seed, 1.0001, 4);
        /* a part of a tile more may take no time */
        assert_true(kernel_seconds(&t, &k) > before * (t.kernels.units > 0 ? 1 - 1e-15 : 1));
        *size = old;
        k.kind = KERNEL_PASS;
        k.bytes = between(&seed, 1, 1e12);
        before = kernel_seconds(&t, &k);
        k.bytes *= 1.01;
        assert_true(kernel_seconds(&t, &k) > before);
    }
}

/* Nominal peak and bandwidth are never exceeded. */
static void no_kernel_is_faster_than_the_data_sheet(void **state)
{
    uint64_t seed = 4;
    for (int i = 0; i < TRIALS; i++) {
        struct device_type t = random_type(&seed);
        struct kernel k = random_product(&seed);
        double nominal = t.peak[k.dtype] > 0 ? t.peak[k.dtype] : t.peak[DATA_bf16];
        double seconds = kernel_seconds(&t, &k);
        assert_true(seconds > 2 * k.batch * k.m * k.n * k.k / nominal);
        assert_true(seconds > kernel_product_bytes(&k) / t.memory_Bps);
        k = (struct kernel){.kind = KERNEL_ATTENTION,
                            .dtype = DATA_bf16,
                            .tokens = between(&seed, 1, 1e7),
                            .k = 256,
                            .flop = between(&seed, 1, 1e18),
                            .bytes = between(&seed, 1, 1e12),
                            .flash = (enum flash)(random_next(&seed) % FLASH_KINDS)};
        seconds = kernel_seconds(&t, &k);
        assert_true(seconds > k.flop / t.peak[DATA_bf16] && seconds > k.bytes / t.memory_Bps);
    }
}

static void large_products_come_to_the_attained_peak(void **state)
{
    uint64_t seed = 5;
    struct device_type t = random_type(&seed);
    for (double size = 1e4, last = 0; size < 1e8; size *= 10) {
        struct kernel k = {.dtype = DATA_bf16, .launches = 1, .batch = 1, .m = size};
        k.n = k.k = size;
        double share = 2 * size * size * size / kernel_seconds(&t, &k) / t.flops;
        assert_true(share > last && share < SHIPPED(share_16));
        last = share;
        if (size > 1e7)
            assert_near(share, SHIPPED(share_16), 1e-4);
    }
}

/* ---- the line of words */

static void what_is_written_is_read_again(void **state)
{
    uint64_t seed = 6;
    for (int i = 0; i < 200; i++) {
        struct device_type t = i % 2 ? random_type(&seed) : random_tiled_type(&seed);
        struct device_kernels read = {0};
        char *text = NULL;
        size_t length;
        t.kernels.product[DATA_bf16] = t.kernels.product[DATA_fp16] =
            floor(between(&seed, 1e12, 9e14));
        FILE *to = open_memstream(&text, &length);
        assert_non_null(to);
        kernels_put(&t.kernels, to);
        fclose(to);
        if (kernels_read(text, &read) != STATUS_OK)
            fail_msg("%s: %s", text, error_message());
        for (size_t k = 0; k < DATA_TYPES; k++)
            assert_near(read.product[k], t.kernels.product[k], 1e-8 * t.kernels.product[k]);
        assert_near(read.flash[FLASH_1], t.kernels.flash[FLASH_1], 1e-8);
        assert_near(read.shortest_s, t.kernels.shortest_s, 1e-14);
        assert_near(read.units, t.kernels.units, 0);
        assert_near(read.pace_s, t.kernels.pace_s, 1e-8 * t.kernels.pace_s);
        assert_near(read.cache, t.kernels.cache, 1e-8 * t.kernels.cache);
        free(text);
    }
}

static void expect_refusal(const char *text, const char *words)
{
    struct device_type t = {.flops = 1e12, .peak = {[DATA_bf16] = 2e12}};
    struct device_kernels before = kernels_derive(&t), k = before;
    assert_int_not_equal(kernels_read(text, &k), STATUS_OK);
    if (!message_says(error_message(), words))
        fail_msg("'%s' is not about '%s'", error_message(), words);
    assert_memory_equal(&k, &before, sizeof k);
}

static void nonsense_is_refused_in_a_line(void **state)
{
    expect_refusal("memry=0.5", "did you mean 'memory'?");
    expect_refusal("memory", "expected NAME=VALUE");
    expect_refusal("memory=0.9x", "expected a number");
    expect_refusal("memory=1.5", "expected 0.001 to 1");
    expect_refusal("memory=nan", "expected");
    expect_refusal("rows=-1", "expected");
    expect_refusal("fp8=1402", "1402");
    expect_refusal("flash1=0", "expected");
    struct device_kernels none = {0};
    assert_int_not_equal(kernels_read("bf16=1Tf", &none), STATUS_OK);
    assert_message(error_message(), "all of 'memory', 'flash1'");
}

static void what_is_not_said_stays_and_fp16_is_as_bf16(void **state)
{
    struct device_type t = {
        .flops = 792e12, .peak = {[DATA_fp32] = 67e12, [DATA_bf16] = 989e12, [DATA_fp8] = 1979e12}};
    struct device_kernels k = kernels_derive(&t);
    assert_int_equal(kernels_read("  bf16=794Tf\tfp8=1402Tf ", &k), STATUS_OK);
    assert_true(k.product[DATA_fp16] == 794e12 && k.product[DATA_bf16] == 794e12);
    assert_true(k.product[DATA_fp8] == 1402e12 && k.product[DATA_fp32] == 0.85 * 67e12);
    assert_true(k.flash[FLASH_2] == SHIPPED(flash_hopper) && k.memory == 0.88);
    assert_true(k.flash[FLASH_VENDOR] == SHIPPED(flash_vendor));
}

static void without_a_peak_nothing_is_known(void **state)
{
    struct device_type t = {.flops = 1e12, .memory_Bps = 1e11};
    struct device_kernels k = kernels_derive(&t);
    assert_false(kernels_known(&k));
    t.peak[DATA_fp32] = 2e12; /* single precision only: the device's speed is of that */
    k = kernels_derive(&t);
    assert_true(kernels_known(&k) && k.product[DATA_fp32] == 1e12 && k.product[DATA_bf16] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_the_formula),
        cmocka_unit_test(rows_that_are_not_aligned_are_slower),
        cmocka_unit_test(tiled_products_are_the_fastest_of_their_tiles),
        cmocka_unit_test(attention_is_the_formula),
        cmocka_unit_test(passes_take_their_bytes_and_six_tenths_of_a_kernel_each),
        cmocka_unit_test(every_kernel_takes_longer_when_it_is_larger),
        cmocka_unit_test(no_kernel_is_faster_than_the_data_sheet),
        cmocka_unit_test(large_products_come_to_the_attained_peak),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(nonsense_is_refused_in_a_line),
        cmocka_unit_test(what_is_not_said_stays_and_fp16_is_as_bf16),
        cmocka_unit_test(without_a_peak_nothing_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
