/* Tables of what is expected: quantiles against a slow truth, a set that is left out, and how often
 * runs of sets that were left out are within. */
#include "lab/scoreboard/published_expected.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "tests/cmocka.h"

static void demand(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

/* Runs of random words, in sets of 1, 2, 4 or 8 by prediction, so that weights are exact. */
static struct published_misses draw_misses(uint64_t *state, size_t sets)
{
    static const char *const words[EXPECTED_LIKE][3] = {
        {"fsdp", "megatron", "eager"}, {"16 bits", "fp8"}, {"tp", "pp", "dp"}, {"H100", "A100"}};
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct published_misses m = {.miss = calloc(sets * 16, sizeof *m.miss)};
    assert_non_null(m.miss);
    for (size_t s = 0; s < sets; s++)
        for (int roofline = 0; roofline < 2; roofline++) {
            size_t runs = (size_t)1 << random_next(state) % 4;
            for (size_t i = 0; i < runs; i++) {
                struct published_miss *x = &m.miss[m.n++];
                x->set = names[s];
                x->error = (double)(random_next(state) % 40) / 64;
                for (size_t k = 0; k < EXPECTED_LIKE; k++)
                    x->like[k] = words[k][random_next(state) % (k % 2 ? 2 : 3)];
                if (roofline)
                    x->like[EXPECTED_FRAMEWORK] = expected_roofline;
            }
        }
    published_misses_sort(&m);
    return m;
}

/* ---- a slow truth */

static bool is_roofline(const char *framework)
{
    return framework && !strcmp(framework, expected_roofline);
}

/* 2 to the power of the words that are equal, over the size of the set; of another kind 0. */
static double truth_weight(const struct published_misses *m, size_t i, const struct expected *line)
{
    const struct published_miss *x = &m->miss[i];
    double weight = 1, size = 0;
    bool roofline = is_roofline(x->like[0]);
    for (size_t k = 0; k < m->n; k++)
        size += !strcmp(m->miss[k].set, x->set) && is_roofline(m->miss[k].like[0]) == roofline;
    for (size_t k = 0; k < EXPECTED_LIKE && line->like[k] && !strcmp(line->like[k], x->like[k]);
         k++)
        weight *= 2;
    return is_roofline(line->like[0]) == roofline ? weight / size : 0;
}

/* Of all errors there are, in no order, the least with enough of the weight at or below it: of n
 * equal weights, part * (n + 1) of them. */
static double truth_quantile(const struct published_misses *m, const struct expected *line,
                             double part)
{
    double least = INFINITY;
    for (size_t c = 0; c < m->n; c++) {
        double all = 0, squares = 0, below = 0;
        for (size_t i = 0; i < m->n; i++) {
            double weight = truth_weight(m, i, line);
            all += weight;
            squares += weight * weight;
            below += m->miss[i].error <= m->miss[c].error ? weight : 0;
        }
        double n = all * all / squares;
        if (below >= fmin(part * (n + 1) / n, 1) * all * (1 - 1e-9) && truth_weight(m, c, line) > 0)
            least = fmin(least, m->miss[c].error);
    }
    return ceil(1000 * least - 1e-9) / 1000;
}

static void quantiles_are_those_of_the_slow_truth(void **state)
{
    uint64_t stream = 11;
    for (int round = 0; round < 30; round++) {
        struct published_misses m = draw_misses(&stream, (size_t)(3 + round % 5));
        struct expected *table;
        size_t lines, runs_of_all = 0;
        demand(published_expect(&m, NULL, &table, &lines));
        for (size_t l = 0; l < lines; l++) {
            const struct expected *e = &table[l];
            size_t runs = 0;
            for (size_t i = 0; i < m.n; i++) {
                bool is = is_roofline(e->like[0]) == is_roofline(m.miss[i].like[0]);
                for (size_t k = 0; k < EXPECTED_LIKE; k++)
                    is &= !e->like[k] || !strcmp(e->like[k], m.miss[i].like[k]);
                runs += is;
            }
            assert_int_equal(e->runs, runs);
            assert_true(runs >= 5);
            assert_true(e->median == truth_quantile(&m, e, 0.5));
            assert_true(e->nine_in_ten == truth_quantile(&m, e, 0.9));
            runs_of_all += e->like[0] ? 0 : runs;
        }
        size_t own = 0;
        for (size_t i = 0; i < m.n; i++)
            own += !is_roofline(m.miss[i].like[0]);
        assert_int_equal(runs_of_all, own < 5 ? 0 : own); /* the last line is of all */
        free(table);
        published_misses_free(&m);
    }
}

/* A table without a set is the table of runs of which nobody has heard of the set; and what it says
 * of the set's runs is what is counted. */
static void a_set_that_is_left_out_is_left_out(void **state)
{
    uint64_t stream = 5;
    for (int round = 0; round < 20; round++) {
        struct published_misses m = draw_misses(&stream, 7);
        struct published_coverage *c;
        size_t sets;
        demand(published_cover(&m, &c, &sets));
        assert_int_equal(sets, 7 + 2);
        double all = 0, mean = 0;
        for (size_t s = 0; s < 7; s++) {
            struct published_misses others = {.miss = calloc(m.n, sizeof *m.miss)};
            struct expected *without, *table, e;
            size_t lines, n, runs = 0, median = 0, nine_in_ten = 0;
            assert_non_null(others.miss);
            for (size_t i = 0; i < m.n; i++)
                if (strcmp(m.miss[i].set, c[s].name) != 0)
                    others.miss[others.n++] = m.miss[i];
            demand(published_expect(&m, c[s].name, &without, &lines));
            demand(published_expect(&others, NULL, &table, &n));
            assert_int_equal(lines, n);
            for (size_t k = 0; k < n; k++)
                assert_memory_equal(&without[k], &table[k], sizeof *table);
            for (size_t i = 0; i < m.n; i++) {
                const struct published_miss *x = &m.miss[i];
                if (strcmp(x->set, c[s].name) != 0 || is_roofline(x->like[0]) ||
                    !expected_among(table, n, x->like, &e))
                    continue;
                runs++;
                median += x->error <= e.median;
                nine_in_ten += x->error <= e.nine_in_ten;
            }
            assert_int_equal(c[s].runs, runs);
            assert_true(fabs(c[s].median * (double)runs - (double)median) < 1e-9);
            assert_true(fabs(c[s].nine_in_ten * (double)runs - (double)nine_in_ten) < 1e-9);
            all += (double)nine_in_ten;
            mean += c[s].nine_in_ten / 7;
            free(without);
            free(table);
            published_misses_free(&others);
        }
        assert_true(fabs(c[7].nine_in_ten - mean) < 1e-9);
        assert_true(fabs(c[8].nine_in_ten * (double)c[8].runs - all) < 1e-9);
        free(c);
        published_misses_free(&m);
    }
}

/* Sets whose errors differ by a factor of their own: half of the runs of a set that was left out
 * are within what was said to hold for half, and nine in ten. */
static void runs_of_new_sets_are_within_as_often_as_said(void **state)
{
    enum { SETS = 8, DRAWS = 40 };
    double median = 0, nine_in_ten = 0;
    uint64_t stream = 3;
    for (int draw = 0; draw < DRAWS; draw++) {
        struct published_misses m = draw_misses(&stream, SETS);
        double factor[SETS];
        for (size_t s = 0; s < SETS; s++)
            factor[s] = exp(2 * random_unit(stream, s));
        for (size_t i = 0; i < m.n; i++)
            m.miss[i].error = 0.2 * factor[m.miss[i].set[0] - 'a'] * random_unit(stream, SETS + i);
        published_misses_sort(&m);
        struct published_coverage *c;
        size_t sets;
        demand(published_cover(&m, &c, &sets));
        assert_int_equal(sets, SETS + 2);
        median += c[SETS].median / DRAWS; /* the mean of the sets */
        nine_in_ten += c[SETS].nine_in_ten / DRAWS;
        free(c);
        published_misses_free(&m);
    }
    print_message("within: %.3f, %.3f\n", median, nine_in_ten);
    assert_true(fabs(median - 0.5) < 0.08 && fabs(nine_in_ten - 0.9) < 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_slow_truth),
        cmocka_unit_test(a_set_that_is_left_out_is_left_out),
        cmocka_unit_test(runs_of_new_sets_are_within_as_often_as_said),
    };
    return cmocka_run_group_tests_name("published_expected", tests, NULL, NULL);
}
