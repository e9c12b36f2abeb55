/* The multiple-choice knapsack of piper: against trying everything, and when its states run out. */
#include <math.h>
#include <stdlib.h>

#include "papers/piper/knapsack.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

static double some(int most)
{
    return rand() % (most + 1);
}

static void fill(struct knapsack *k, size_t items, size_t options)
{
    assert_int_equal(knapsack_reserve(k, items, items * options), STATUS_OK);
    k->items = items;
    for (size_t i = 0; i <= items; i++)
        k->start[i] = i * options;
    for (size_t o = 0; o < items * options; o++) {
        k->cost[o] = some(12);
        k->size[o] = some(12);
    }
}

static double cheapest(const struct knapsack *k, size_t i, double cost, double size,
                       double capacity)
{
    double best = INFINITY;
    if (i == k->items)
        return size <= capacity ? cost : INFINITY;
    for (size_t o = k->start[i]; o < k->start[i + 1]; o++)
        best = fmin(best, cheapest(k, i + 1, cost + k->cost[o], size + k->size[o], capacity));
    return best;
}

static void the_knapsack_agrees_with_trying_everything(void **state)
{
    struct knapsack k = {.state_limit = 1000};
    srand(5);
    for (int round = 0; round < 400; round++) {
        enum knapsack_verdict verdict;
        double value, capacity = some(50), limit = some(60);
        fill(&k, 1 + (size_t)rand() % 6, 2 + (size_t)rand() % 2);
        double best = cheapest(&k, 0, 0, 0, capacity);
        assert_int_equal(knapsack_solve(&k, capacity, INFINITY, true, &verdict, &value), STATUS_OK);
        assert_int_equal(verdict, isinf(best) ? KNAPSACK_TOO_LARGE : KNAPSACK_FITS);
        if (!isinf(best))
            assert_near(value, best, 1e-9);
        assert_int_equal(knapsack_solve(&k, capacity, limit, false, &verdict, &value), STATUS_OK);
        assert_true((verdict == KNAPSACK_FITS) == (best <= limit));
        if (verdict == KNAPSACK_TOO_DEAR && !isinf(best))
            assert_true(value > limit && value <= best + 1e-9);
    }
    knapsack_free(&k);
}

/* Sizes 5, 5, 6 or nothing, costs nothing or 5, 5, 7; with capacity 10 the cheapest costs 7. */
static void fill_open_case(struct knapsack *k)
{
    k->items = 3;
    for (size_t i = 0; i < 3; i++) {
        k->start[i] = 2 * i;
        k->cost[2 * i] = k->size[2 * i + 1] = 0;
        k->size[2 * i] = i == 2 ? 6 : 5;
        k->cost[2 * i + 1] = i == 2 ? 7 : 5;
    }
    k->start[3] = 6;
}

static void the_knapsack_admits_when_its_states_run_out(void **state)
{
    struct knapsack k = {.state_limit = 1};
    enum knapsack_verdict verdict;
    double value;
    assert_int_equal(knapsack_reserve(&k, 3, 6), STATUS_OK);
    fill_open_case(&k);
    assert_int_equal(knapsack_solve(&k, 10, 7, false, &verdict, &value), STATUS_OK);
    assert_true(verdict == KNAPSACK_UNDECIDED || verdict == KNAPSACK_FITS);
    if (verdict == KNAPSACK_UNDECIDED)
        assert_true(value <= 7);
    k.state_limit = 100;
    assert_int_equal(knapsack_solve(&k, 10, 7, true, &verdict, &value), STATUS_OK);
    assert_int_equal(verdict, KNAPSACK_FITS);
    assert_near(value, 7, 1e-12);
    knapsack_free(&k);
}

static enum status solve_once(void)
{
    struct knapsack k = {.state_limit = 100};
    enum knapsack_verdict verdict;
    double value;
    enum status st = knapsack_reserve(&k, 3, 6);
    if (st == STATUS_OK) {
        fill_open_case(&k);
        st = knapsack_solve(&k, 10, 7, true, &verdict, &value);
    }
    knapsack_free(&k);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    FOR_EACH_ALLOC_FAILURE(solve_once());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_knapsack_agrees_with_trying_everything),
        cmocka_unit_test(the_knapsack_admits_when_its_states_run_out),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
