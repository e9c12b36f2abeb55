/* Order statistics by selection: those of sorted values, to the last bit. */
#include "core/base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

enum { MOST = 700 };

static double reference(const double *value, size_t n, double q)
{
    double sorted[MOST];
    memcpy(sorted, value, n * sizeof *value);
    qsort(sorted, n, sizeof *sorted, by_value);
    return quantile_sorted(sorted, n, q);
}

static void check(const double *value, size_t n)
{
    static const double q[] = {0, 0.05, 0.25, 1.0 / 3, 0.5, 0.9, 0.95, 1};
    double copy[MOST], sorted[MOST];
    memcpy(sorted, value, n * sizeof *value);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t k = 0; k < sizeof q / sizeof *q; k++)
        assert_true(quantile(value, n, q[k]) == reference(value, n, q[k]));
    for (size_t k = 0; k < n; k += 1 + n / 7) {
        memcpy(copy, value, n * sizeof *value);
        assert_true(select_nth(copy, n, k) == sorted[k]);
        for (size_t i = 0; i < n; i++)
            assert_true(i < k ? copy[i] <= copy[k] : copy[i] >= copy[k]);
        qsort(copy, n, sizeof *copy, by_value);
        assert_memory_equal(copy, sorted, n * sizeof *copy); /* nothing is lost */
    }
}

static void selected_is_what_sorting_finds(void **state)
{
    double value[MOST];
    for (uint64_t draw = 0; draw < 600; draw++) {
        uint64_t key = random_key(38, draw);
        size_t n = 1 + (size_t)(random_unit(key, 0) * (draw % 2 ? 12 : MOST));
        double kinds = 1 + floor(random_unit(key, 1) * (draw % 3 ? 5 : 1e6)); /* many are equal */
        for (size_t i = 0; i < n; i++)
            value[i] = floor(random_unit(key, 2 + i) * kinds);
        check(value, n);
    }
}

static void sorted_reversed_and_organ_pipes_too(void **state)
{
    double value[MOST];
    for (int form = 0; form < 4; form++) {
        for (size_t i = 0; i < MOST; i++)
            value[i] = form == 0   ? (double)i
                       : form == 1 ? (double)(MOST - i)
                       : form == 2 ? fabs((double)i - MOST / 2)
                                   : -fabs((double)i - MOST / 2);
        check(value, MOST);
    }
    assert_true(isnan(median(value, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selected_is_what_sorting_finds),
        cmocka_unit_test(sorted_reversed_and_organ_pipes_too),
    };
    return cmocka_run_group_tests_name("statistics", tests, NULL, NULL);
}
