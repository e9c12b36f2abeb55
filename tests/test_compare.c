/* compare: statistics worked by hand, pairing of predictions with runs. */
#include "core/data/compare.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "core/base/statistics.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12))
        fail_msg("%.15g, expected %.15g", got, expected);
}

/* Pairs of x = 1 2 3 4 against y = 1 3 2 4: five concordant, (2, 3) discordant: (5 - 1) / 6. */
static void tau_without_ties_counts_pairs(void **state)
{
    const double x[] = {1, 2, 3, 4}, y[] = {1, 3, 2, 4}, reversed[] = {4, 3, 2, 1};
    assert_close(kendall_tau(x, y, 4), 4.0 / 6);
    assert_close(kendall_tau(x, x, 4), 1);
    assert_close(kendall_tau(x, reversed, 4), -1);
}

/* x = 1 2 2 3, y = 1 2 3 3, pairs (i, k):
 *   01 ++  02 ++  03 ++  12 tied in x  13 ++  23 tied in y
 * concordant 4, discordant 0, not tied in x 5, not tied in y 5: tau-b = 4 / sqrt(25). */
static void tau_corrects_for_ties(void **state)
{
    const double x[] = {1, 2, 2, 3}, y[] = {1, 2, 3, 3}, same[] = {7, 7, 7, 7};
    assert_close(kendall_tau(x, y, 4), 0.8);
    assert_true(isnan(kendall_tau(x, same, 4)));
    assert_true(isnan(kendall_tau(same, x, 4)));
    assert_true(isnan(kendall_tau(x, y, 1)));
}

/* Two engines add up the same time in different orders. */
static void tau_ties_what_differs_by_rounding(void **state)
{
    const double x[] = {0.1, 0.2310349459977912, 0.23103494599779015, 0.5, 0.6},
                 y[] = {0.1, 0.23103494599778959, 0.23103494599779015, 0.5, 0.6};
    assert_close(kendall_tau(x, y, 5), 1);
}

static void tau_is_symmetric_bounded_and_ignores_order_and_scale(void **state)
{
    srand(1);
    for (int trial = 0; trial < 200; trial++) {
        size_t n = 3 + (size_t)rand() % 10;
        double x[12], y[12], scaled[12], rotated_x[12], rotated_y[12];
        for (size_t i = 0; i < n; i++) {
            x[i] = rand() % 5;
            y[i] = rand() % 5;
            scaled[i] = exp(x[i]);
        }
        for (size_t i = 0; i < n; i++) {
            rotated_x[i] = x[(i + 1) % n];
            rotated_y[i] = y[(i + 1) % n];
        }
        double tau = kendall_tau(x, y, n);
        if (isnan(tau))
            continue;
        assert_true(fabs(tau) <= 1 + 1e-12);
        assert_close(kendall_tau(y, x, n), tau);
        assert_close(kendall_tau(scaled, y, n), tau);
        assert_close(kendall_tau(rotated_x, rotated_y, n), tau);
    }
}

/* Predicted best is the second plan, which takes 12 where the third takes 10. */
static void regret_is_the_loss_by_the_chosen_plan(void **state)
{
    const double predicted[] = {9, 7, 8}, measured[] = {11, 12, 10}, tied[] = {7, 7, 8};
    const double swapped[] = {12, 11, 10};
    assert_close(regret(predicted, measured, 3, 1), 0.2);
    assert_close(regret(measured, measured, 3, 1), 0);
    assert_close(regret(tied, measured, 3, 1), 0.2); /* the slowest of equals, */
    assert_close(regret(tied, swapped, 3, 1), 0.2);  /* in whatever order they stand */
    assert_close(regret(predicted, measured, 1, 1), 0);
    char text[REGRET_TEXT];
    assert_close(regret_least(tied, measured, 3, 1), 0.1);
    assert_string_equal(regret_print(0.1, 0.2, text), "10.00 to 20.00 %");
    assert_string_equal(regret_print(0.2, 0.2, text), "20.00 %");
}

/* The slowest that the fastest of `first` plans can be, over all choices of so many that nothing
 * outside is predicted to be faster than; and the fastest. */
static double regret_truth(const double *predicted, const double *measured, size_t n, size_t first,
                           double *least)
{
    double worst = 0, luckiest = INFINITY, best = INFINITY;
    for (size_t i = 0; i < n; i++)
        best = fmin(best, measured[i]);
    for (unsigned chosen = 0; chosen < 1u << n; chosen++) {
        double kept = INFINITY, last = 0, next = INFINITY;
        size_t count = 0;
        for (size_t i = 0; i < n; i++)
            if (chosen >> i & 1) {
                count++;
                kept = fmin(kept, measured[i]);
                last = fmax(last, predicted[i]);
            } else {
                next = fmin(next, predicted[i]);
            }
        if (count == (first < n ? first : n) && last <= next) {
            worst = fmax(worst, kept);
            luckiest = fmin(luckiest, kept);
        }
    }
    *least = luckiest / best - 1;
    return worst / best - 1;
}

static void regrets_of_the_first_are_the_worst_and_best_of_all_choices(void **state)
{
    uint64_t stream = 17;
    for (int round = 0; round < 2000; round++) {
        double predicted[7], measured[7], least;
        size_t n = 1 + random_next(&stream) % 7, first = 1 + random_next(&stream) % REGRET_FIRST;
        for (size_t i = 0; i < n; i++) {
            predicted[i] = 1 + (double)(random_next(&stream) % 4);
            measured[i] = 1 + (double)(random_next(&stream) % 9);
        }
        assert_close(regret(predicted, measured, n, first),
                     regret_truth(predicted, measured, n, first, &least));
        assert_close(regret_least(predicted, measured, n, first), least);
    }
}

/* Five values: position 0.95 * 4 = 3.8, so 4 + 0.8 * (9 - 4). */
static void quantiles_interpolate_between_order_statistics(void **state)
{
    const double v[] = {1, 2, 3, 4, 9};
    assert_close(quantile_sorted(v, 5, 0.95), 8);
    assert_close(quantile_sorted(v, 5, 0.5), 3);
    assert_close(quantile_sorted(v, 4, 0.5), 2.5);
    assert_close(quantile_sorted(v, 5, 0), 1);
    assert_close(quantile_sorted(v, 5, 1), 9);
    assert_close(quantile_sorted(v, 1, 0.95), 1);
}

/* ---- pairing; the strings of these measurements are borrowed, so they are never freed */

static struct measurement file(char *engine, char *plan, char *sha, double iteration_s)
{
    return (struct measurement){
        .engine = engine, .plan = plan, .plan_sha256 = sha, .iteration_s = iteration_s};
}

static const char *const names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"};

/* Errors +10 %, -20 %, 0 %; predicted order b a c, measured a b c: pairs ab discordant, ac and bc
 * concordant, tau 1/3; b is chosen: 10 / 9 - 1. */
static void pairs_by_hash_and_summarises(void **state)
{
    const struct measurement m[] = {
        file("analytic", "a.json", "aa", 9.9), file("analytic", "b.json", "bb", 8),
        file("analytic", "c.json", "cc", 20),  file("tcp", "elsewhere/a.json", "aa", 9),
        file("tcp", "b.json", "bb", 10),       file("tcp", "c.json", "cc", 20),
        file("tcp", "d.json", "dd", 1),
    };
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 7, &c), STATUS_OK);
    assert_int_equal(c.n, 1);
    const struct comparison *k = &c.item[0];
    assert_string_equal(k->predicted_by, "analytic");
    assert_string_equal(k->measured_by, "tcp");
    assert_int_equal(k->plans, 3);
    assert_string_equal(k->plan[0].plan, "a.json");
    assert_close(k->plan[0].error, 0.1);
    assert_close(k->plan[1].error, -0.2);
    assert_close(k->plan[2].error, 0);
    assert_close(k->mean_abs_error, 0.1);
    assert_close(k->median_abs_error, 0.1);
    assert_close(k->p95_abs_error, 0.1 + 0.9 * 0.1);
    assert_close(k->kendall_tau, 1.0 / 3);
    assert_close(k->regret, 10.0 / 9 - 1);
    assert_true(c.paired[0] && c.paired[5]);
    assert_false(c.paired[6]);
    comparisons_free(&c);
}

/* Batches of 8, 16 and 32: by sample predicted 1 0.9 0.5, measured 1 0.8 1.5, of whole iterations 8
 * 14.4 16 and 8 12.8 48. c is chosen, b is the fastest; pairs ab alike, ac and bc not. Where the
 * samples of one plan are unknown iterations count: all pairs alike, a is chosen. */
static void ranks_plans_of_different_batches_by_the_sample(void **state)
{
    struct measurement m[] = {
        file("analytic", "a", "aa", 8),  file("analytic", "b", "bb", 14.4),
        file("analytic", "c", "cc", 16), file("tcp", "a", "aa", 8),
        file("tcp", "b", "bb", 12.8),    file("tcp", "c", "cc", 48),
    };
    for (size_t i = 0; i < 6; i++)
        m[i].samples_per_s = (double)(8 << i % 3) / m[i].iteration_s;
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 6, &c), STATUS_OK);
    assert_close(c.item[0].kendall_tau, -1.0 / 3);
    assert_close(c.item[0].regret, 1.5 / 0.8 - 1);
    assert_close(c.item[0].plan[2].predicted_s, 16);
    comparisons_free(&c);
    m[1].samples_per_s = 0;
    assert_int_equal(compare_measurements(m, names, 6, &c), STATUS_OK);
    assert_close(c.item[0].kendall_tau, 1);
    assert_close(c.item[0].regret, 0);
    comparisons_free(&c);
}

static void falls_back_on_the_path_only_without_a_hash(void **state)
{
    struct measurement m[] = {file("simgrid", "a.json", NULL, 1), file("tcp", "a.json", "aa", 2)};
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 2, &c), STATUS_OK);
    assert_int_equal(c.item[0].plans, 1);
    assert_true(isnan(c.item[0].kendall_tau) && isnan(c.item[0].regret));
    comparisons_free(&c);

    m[0].plan_sha256 = "another version of a.json";
    assert_int_equal(compare_measurements(m, names, 2, &c), STATUS_INFEASIBLE);
    assert_null(c.item);
}

static void quantiles_lie_between_values_in_proportion(void **state)
{
    const double value[] = {40, 10, 30, 20};
    assert_true(quantile(value, 4, 0) == 10);
    assert_true(quantile(value, 4, 1) == 40);
    assert_true(quantile(value, 4, 0.5) == 25);
    assert_true(quantile(value, 4, 0.25) == 17.5);
    assert_true(quantile(value, 1, 0.05) == 40);
    assert_true(isnan(quantile(value, 0, 0.5)));
}

static void several_runs_of_a_plan_count_with_their_median(void **state)
{
    const struct measurement m[] = {
        file("tcp", "a", "aa", 3),
        file("tcp", "a", "aa", 1),
        file("analytic", "a", "aa", 2),
        file("tcp", "a", "aa", 100),
    };
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 4, &c), STATUS_OK);
    assert_int_equal(c.item[0].plan[0].runs, 3);
    assert_close(c.item[0].plan[0].measured_s, 3);
    assert_close(c.item[0].plan[0].error, 2.0 / 3 - 1);
    comparisons_free(&c);
}

static void every_pair_of_engines_is_a_block(void **state)
{
    const struct measurement m[] = {
        file("simgrid", "a", "aa", 2), file("analytic", "a", "aa", 1), file("tcp", "a", "aa", 4),
        file("mpi", "a", "aa", 8),     file("nccl", "b", "bb", 8),
    };
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 5, &c), STATUS_OK);
    assert_int_equal(c.n, 4);
    assert_string_equal(c.item[1].predicted_by, "simgrid");
    assert_string_equal(c.item[1].measured_by, "mpi");
    assert_close(c.item[1].plan[0].error, 2.0 / 8 - 1);
    assert_string_equal(c.item[2].predicted_by, "analytic");
    assert_false(c.paired[4]);
    comparisons_free(&c);
}

static void refuses_contradictions_and_impossible_times(void **state)
{
    struct measurement m[] = {file("analytic", "a", "aa", 1), file("tcp", "a", "aa", 1),
                              file("analytic", "a", "aa", 2)};
    struct comparisons c = {0};
    assert_int_equal(compare_measurements(m, names, 3, &c), STATUS_INVALID);
    assert_message(error_message(), "f0 f2 predictions");
    m[1].iteration_s = 0;
    assert_int_equal(compare_measurements(m, names, 2, &c), STATUS_INVALID);
    assert_message(error_message(), "f1 iteration 0 s");
    assert_int_equal(compare_measurements(m, names, 1, &c), STATUS_INFEASIBLE);
    assert_int_equal(compare_measurements(m, names, 0, &c), STATUS_INFEASIBLE);
    assert_null(c.item);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    const struct measurement m[] = {
        file("analytic", "a", "aa", 1), file("analytic", "b", "bb", 2), file("tcp", "a", "aa", 1),
        file("tcp", "b", "bb", 3),      file("mpi", "b", "bb", 3),
    };
    struct comparisons c = {0};
    FOR_EACH_ALLOC_FAILURE(compare_measurements(m, names, 5, &c));
    comparisons_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tau_without_ties_counts_pairs),
        cmocka_unit_test(tau_corrects_for_ties),
        cmocka_unit_test(tau_ties_what_differs_by_rounding),
        cmocka_unit_test(tau_is_symmetric_bounded_and_ignores_order_and_scale),
        cmocka_unit_test(regret_is_the_loss_by_the_chosen_plan),
        cmocka_unit_test(regrets_of_the_first_are_the_worst_and_best_of_all_choices),
        cmocka_unit_test(quantiles_interpolate_between_order_statistics),
        cmocka_unit_test(pairs_by_hash_and_summarises),
        cmocka_unit_test(ranks_plans_of_different_batches_by_the_sample),
        cmocka_unit_test(falls_back_on_the_path_only_without_a_hash),
        cmocka_unit_test(quantiles_lie_between_values_in_proportion),
        cmocka_unit_test(several_runs_of_a_plan_count_with_their_median),
        cmocka_unit_test(every_pair_of_engines_is_a_block),
        cmocka_unit_test(refuses_contradictions_and_impossible_times),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
