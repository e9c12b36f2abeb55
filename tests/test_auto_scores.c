/* Scores of plans are kept apart by what a search changes in plans. */
#include "partition/auto_scores.h"

#include <stdlib.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

static double *found(struct auto_scores *x, const struct plan *p, enum auto_scorer by)
{
    struct auto_scored *scored;
    assert_int_equal(auto_scores_at(x, p, &scored), STATUS_OK);
    scored->by[by].known = true;
    return &scored->by[by].found.iteration_s;
}

static struct plan sample(struct model *m)
{
    *m = sample_chain(8, 1e-3, 2e-3, 8, 8);
    return sample_plan(m, 4, 2, 8, "1f1b");
}

static void equal_plans_have_one_score_of_each_kind(void **state)
{
    struct model m;
    struct auto_scores *x;
    struct plan a = sample(&m), b;
    (void)state;
    assert_int_equal(plan_copy(&a, &b), STATUS_OK);
    assert_int_equal(auto_scores_open(&x), STATUS_OK);
    *found(x, &a, AUTO_ROUGH) = 1;
    *found(x, &a, AUTO_QUICK) = 2;
    assert_near(*found(x, &b, AUTO_ROUGH), 1, 0);
    assert_near(*found(x, &b, AUTO_QUICK), 2, 0);
    auto_scores_close(x);
    plan_free(&a);
    plan_free(&b);
    model_free(&m);
}

/* Every knob, and what is no knob: `number` from 0 on; false: there are no more. */
static bool change(struct plan *p, int number)
{
    int k = 0;
#define STAGE_KNOB(...)
#define PLAN_KNOB(type, name, ...)                                                                 \
    if (k++ == number)                                                                             \
        p->name = (type)(p->name + 1);
#include "core/strategy/strategy.def"
#define PLAN_KNOB(...)
#define STAGE_KNOB(type, name, ...)                                                                \
    if (k++ == number)                                                                             \
        p->stage[1].name = (type)(p->stage[1].name + 1);
#include "core/strategy/strategy.def"
    if (k++ == number)
        p->microbatches++;
    if (k++ == number)
        p->microbatch_size++;
    if (k++ == number)
        p->schedule[0]++;
    if (k++ == number)
        p->stage[2].device[1]++;
    if (k++ == number)
        p->stage[2].devices--;
    if (k++ == number)
        p->stage[0].op[1] += 5; /* no longer in a row */
    if (k++ == number)
        p->stage[0].ops--;
    if (k++ == number)
        p->stages--;
    return number < k;
}

static void plans_that_differ_in_anything_have_scores_of_their_own(void **state)
{
    struct model m;
    struct auto_scores *x;
    struct plan a = sample(&m), b;
    bool more = true;
    (void)state;
    assert_int_equal(auto_scores_open(&x), STATUS_OK);
    *found(x, &a, AUTO_QUICK) = 1;
    for (int k = 0; more; k++) {
        assert_int_equal(plan_copy(&a, &b), STATUS_OK);
        size_t stages = b.stages;
        more = change(&b, k);
        double *own = found(x, &b, AUTO_QUICK);
        if (more && *own != 0)
            fail_msg("change %d is not seen", k);
        *own = more ? k + 2 : 1;
        b.stages = stages;
        plan_free(&b);
    }
    assert_near(*found(x, &a, AUTO_QUICK), 1, 0);
    auto_scores_close(x);
    plan_free(&a);
    model_free(&m);
}

/* More plans than there is room for: what is there is right, and some is. */
static void too_many_plans_are_forgotten(void **state)
{
    enum { PLANS = 40000 };
    struct model m;
    struct auto_scores *x;
    struct plan a = sample(&m);
    uint32_t kept = 0;
    (void)state;
    assert_int_equal(auto_scores_open(&x), STATUS_OK);
    for (uint32_t k = 1; k <= PLANS; k++) {
        a.microbatches = k;
        assert_near(*found(x, &a, AUTO_QUICK), 0, 0);
        *found(x, &a, AUTO_QUICK) = k;
    }
    for (uint32_t k = PLANS; k > 0 && kept == PLANS - k; k--) {
        a.microbatches = k;
        kept += *found(x, &a, AUTO_QUICK) == k;
    }
    assert_in_range(kept, 1, PLANS / 2);
    auto_scores_close(x);
    plan_free(&a);
    model_free(&m);
}

static enum status remember(const struct plan *p)
{
    struct auto_scores *x = NULL;
    struct auto_scored *scored;
    enum status st = auto_scores_open(&x);
    if (st == STATUS_OK)
        st = auto_scores_at(x, p, &scored);
    auto_scores_close(x);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    struct model m;
    struct plan a = sample(&m);
    (void)state;
    FOR_EACH_ALLOC_FAILURE(remember(&a));
    plan_free(&a);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_plans_have_one_score_of_each_kind),
        cmocka_unit_test(plans_that_differ_in_anything_have_scores_of_their_own),
        cmocka_unit_test(too_many_plans_are_forgotten),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
