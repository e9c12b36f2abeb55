/* What is promised of any input, on some random ones; bench/promise.c tries many more. Arguments:
 * how many searches (unit.promise_more: 22, two on each family of platforms), the first's seed. */
#include <math.h>
#include <stdlib.h>

#include "core/data/compare.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/promise.h"

enum { FOLDED = 40, COMPARED = 11, PLANS = 6 };
/* Searches, each on another family of platforms; unit.promise_more: all, and both that were once
 * found. */
enum { FEW = 1 };
static uint32_t searched = FEW, seed = 7000;

/* Of SimGrid: events nearer to each other than its resolution are one. */
static const double exact = 1e-9, resolution = 1e-7;
/* Of the analytic engine against SimGrid: as promise_search() relies on. */
static const double quick_error = 0.01;

/* Forty plans of up to 2,048 microbatches that are long enough to be tried. */
static void a_plan_by_its_steady_middle_is_the_whole(void **state)
{
    struct promise_random r = {41};
    size_t folded = 0;
    char text[PROMISE_TEXT];
    for (size_t k = 0; k < FOLDED; k++) {
        struct promise_case c;
        promise_case(&r, PROMISE_FAMILIES, 2048, &c);
        const struct engine *engine = k % 8 == 0 ? &engine_simgrid : &engine_analytic;
        struct promise_folding f = promise_fold(&c, engine);
        folded += f.folded;
        if (!(f.error <= exact) || !f.sound)
            fail_msg("%s on %s: %.12g, whole %.12g, error %.3g%s", promise_text(&c, text),
                     engine->name, f.folded_s, f.whole_s, f.error, f.sound ? "" : ", unsound");
        promise_case_free(&c);
    }
    assert_true(folded >= FOLDED / 8);
}

/* 587.6 ms by three short runs, 615.3 ms whole: two circuits, the slower one with more slack. */
static void a_transient_of_many_periods_is_waited_for(void **state)
{
    struct promise_case c = {.model_name = "gpt2-small", .platform_name = "dgx-h100-x4"};
    const struct partition_algorithm *a;
    const struct partition_request q = {.stages = 8,
                                        .chunks = 2,
                                        .replicas = 2,
                                        .tensor_parallel = 4,
                                        .microbatches = 1024,
                                        .microbatch_size = 1,
                                        .zero = 1,
                                        .schedule = "interleaved",
                                        .optimizer = "adam",
                                        .model = "gpt2-small",
                                        .platform = "dgx-h100-x4"};
    assert_int_equal(load_model(c.model_name, &c.model), STATUS_OK);
    assert_int_equal(load_topology(c.platform_name, &c.topology, &c.path), STATUS_OK);
    assert_int_equal(partition_find("balanced", &a), STATUS_OK);
    assert_int_equal(partition_run(a, &c.model, &c.topology, &q, &c.plan), STATUS_OK);
    struct promise_folding f = promise_fold(&c, &engine_analytic);
    assert_true(f.sound && f.error <= exact);
    promise_case_free(&c);
}

/* Three pairs of replicas once waited for each other: gathers of parameters were not in one
 * order. */
static void pairs_of_replicas_that_cross_gather_in_one_order(void **state)
{
    struct promise_case c = {.model_name = "gpt-tiny:layers=8",
                             .platform_name = "nvl:domains=8,gpus=4,nic=100Gbps"};
    const struct partition_algorithm *a;
    const struct partition_request q = {.stages = 4,
                                        .chunks = 2,
                                        .replicas = 6,
                                        .tensor_parallel = 1,
                                        .microbatches = 78,
                                        .microbatch_size = 4,
                                        .zero = 3,
                                        .schedule = "dualpipe",
                                        .optimizer = "adam",
                                        .model = "gpt-tiny",
                                        .platform = "nvl"};
    assert_int_equal(load_model(c.model_name, &c.model), STATUS_OK);
    assert_int_equal(load_topology(c.platform_name, &c.topology, &c.path), STATUS_OK);
    assert_int_equal(partition_find("balanced", &a), STATUS_OK);
    if (partition_run(a, &c.model, &c.topology, &q, &c.plan) != STATUS_OK)
        fail_msg("%s", error_message());
    struct promise_folding f = promise_fold(&c, &engine_analytic);
    if (!f.sound || !(f.error <= exact))
        fail_msg("%.12g s, whole %.12g s, error %.3g", f.folded_s, f.whole_s, f.error);
    promise_case_free(&c);
}

static void keep_promise(struct promise_random r, uint32_t family, size_t most)
{
    struct promise_search p = promise_search(&r, family, most);
    const char *wrong = NULL;
    if (!(p.table_error <= exact))
        wrong = "the table is not what simulate says";
    else if (p.least_floor < 1 - exact || p.least_true < 1 - resolution)
        wrong = "a prediction is below its floor";
    else if (!p.infeasible && p.over_baseline > exact)
        wrong = "a baseline is faster";
    else if (!p.infeasible && p.over_grid > 0.01)
        wrong = "brute force found better";
    if (wrong)
        fail_msg("%s, batch %zu: %s: %.9g s; table %.3g, baseline %+.3g, grid %+.3g (%s), "
                 "floors %.9f %.9f",
                 p.winner, p.batch, wrong, p.winner_s, p.table_error, p.over_baseline, p.over_grid,
                 p.grid_best, p.least_floor, p.least_true);
}

static void the_table_is_what_simulate_says_and_its_winner_wins(void **state)
{
    for (uint32_t k = 0; k < searched; k++)
        keep_promise((struct promise_random){seed + k}, k % PROMISE_FAMILIES, k % 5 ? 8 : 16);
}

/* Inputs of bench/promise on which brute force was once better by more than 1 %: 8 microbatches in
 * 14 virtual stages on 7 devices; buckets of 25 MiB. */
static void what_brute_force_once_found_is_found(void **state)
{
    static const uint64_t once[] = {77310114, 502930049};
    for (size_t k = searched > FEW ? 0 : 1; k < sizeof once / sizeof *once; k++)
        keep_promise((struct promise_random){once[k]}, PROMISE_FAMILIES, 64);
}

/* On every family of platforms, every other one where few are searched. */
static void the_quick_engine_ranks_plans_as_simgrid_does(void **state)
{
    for (uint32_t k = 0; k<COMPARED; k += searched> FEW ? 1 : 2) {
        struct promise_random r = {900 + k};
        char name[PROMISE_TEXT];
        double quick_s[PLANS], true_s[PLANS];
        promise_quick(&r, k, PLANS, name, quick_s, true_s);
        for (size_t i = 0; i < PLANS; i++)
            if (fabs(quick_s[i] / true_s[i] - 1) > quick_error)
                fail_msg("%s: %.9g s, SimGrid %.9g s", name, quick_s[i], true_s[i]);
        if (kendall_tau(quick_s, true_s, PLANS) < 0.95)
            fail_msg("%s: Kendall tau %.3f", name, kendall_tau(quick_s, true_s, PLANS));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_by_its_steady_middle_is_the_whole),
        cmocka_unit_test(a_transient_of_many_periods_is_waited_for),
        cmocka_unit_test(pairs_of_replicas_that_cross_gather_in_one_order),
        cmocka_unit_test(the_table_is_what_simulate_says_and_its_winner_wins),
        cmocka_unit_test(what_brute_force_once_found_is_found),
        cmocka_unit_test(the_quick_engine_ranks_plans_as_simgrid_does),
    };
    if (argc > 1)
        searched = (uint32_t)atoi(argv[1]);
    if (argc > 2)
        seed = (uint32_t)atoi(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
