/* What is noted of launches (exec/device/cuda/queue.h) tells one pass from another: any name,
 * number, address or order that is another makes another print. */
#include "exec/device/cuda/context.h"
#include "exec/device/cuda/queue.h"
#include "tests/cmocka.h"

static real numbers[8];
static const struct cuda_gemm product_of = {.g = {.m = 2,
                                                  .n = 3,
                                                  .k = 4,
                                                  .a = numbers,
                                                  .b = numbers + 1,
                                                  .c = numbers + 2,
                                                  .a_stride = 5,
                                                  .b_stride = 6,
                                                  .c_stride = 7,
                                                  .alpha = 1}};

static uint64_t print_of(const char *name, const struct cuda_gemm *g,
                         const struct cuda_after *after)
{
    cuda_queue_begin(QUEUE_SKIPPED);
    assert_false(cuda_queues_gemm(name, g, after));
    struct cuda_prints p = cuda_queue_end();
    assert_int_equal(p.launches, 1);
    return p.print;
}

static void products_are_told_apart(void **state)
{
    enum { FIELDS = 12 };
    const struct cuda_after plain = {0}, bias = {.bias = numbers}, gelu = {.gelu = numbers};
    const uint64_t one = print_of("x", &product_of, NULL);
    assert_true(print_of("x", &product_of, &plain) == one);
    assert_true(print_of("y", &product_of, NULL) != one);
    assert_true(print_of("x", &product_of, &bias) != one);
    assert_true(print_of("x", &product_of, &gelu) != one);
    for (int k = 0; k < FIELDS; k++) {
        struct cuda_gemm other = product_of;
        struct gemm *g = &other.g;
        size_t *const size[] = {&g->m, &g->n, &g->k, &g->a_stride, &g->b_stride, &g->c_stride};
        if (k < 6)
            *size[k] += 1;
        g->a += k == 6;
        g->b += k == 7;
        g->c += k == 8;
        g->a_t = k == 9;
        g->b_t = k == 10;
        g->beta = k == 11;
        if (print_of("x", &other, NULL) == one)
            fail_msg("field %d is not noted", k);
    }
}

static struct cuda_prints both(const char *first, const char *second, uint64_t a, uint64_t b)
{
    cuda_queue_begin(QUEUE_NOTED);
    assert_true(cuda_queues(first, &a, 1));
    assert_true(cuda_queues(second, &b, 1));
    return cuda_queue_end();
}

static void order_counts(void **state)
{
    const struct cuda_prints one = both("x", "y", 1, 1ull << 60);
    assert_int_equal(one.launches, 2);
    assert_true(both("x", "y", 1, 1ull << 60).print == one.print);
    assert_true(both("y", "x", 1, 1ull << 60).print != one.print);
    assert_true(both("x", "y", 1ull << 60, 1).print != one.print);
    assert_true(cuda_queues("x", NULL, 0)); /* behind the end everything is launched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_told_apart),
                                       cmocka_unit_test(order_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
