/* Jitter and stragglers as a change of the program. */
#include "core/data/perturb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/sample.h"

/* Every op takes 1 s forward and 2 s backward; updates take no time. */
static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t microbatches,
                             const char *schedule)
{
    struct lowered s = {.model = sample_chain(stages, 1, 2, 0, 0)};
    s.topology = sample_clique(stages * replicas + 1, 0, 1e9);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, schedule);
    lower(&s);
    return s;
}

/* What perturb_program() made of an op of set_up(): its factor. */
static double factor_of(const struct program_op *o)
{
    return o->seconds / (o->kind == OP_FORWARD ? 1 : 2);
}

static bool timed(const struct program_op *o)
{
    return o->kind == OP_FORWARD || o->kind == OP_BACKWARD;
}

static void nothing_asked_for_changes_nothing(void **state)
{
    struct lowered s = set_up(2, 2, 4, "1f1b");
    char text[PERTURBATION_TEXT];
    assert_int_equal(perturb_program(&(struct perturbation){.seed = 3}, &s.program), STATUS_OK);
    for (size_t i = 0; i < s.program.ops; i++)
        if (timed(&s.program.op[i]))
            assert_true(factor_of(&s.program.op[i]) == 1);
    assert_string_equal(perturbation_print(&(struct perturbation){.seed = 3}, text), "");
    lowered_free(&s);
}

/* 40,000 factors: their mean is 1 and their standard deviation 5 %, each to four standard errors;
 * none is negative. The second: neighbouring microbatches do not correlate. */
static void jitter_has_the_mean_one_and_the_deviation_asked_for(void **state)
{
    struct lowered s = set_up(4, 1, 5000, "gpipe");
    double n = 0, sum = 0, squares = 0, products = 0, last = 1;
    assert_int_equal(perturb_program(&(struct perturbation){.jitter = 0.05, .seed = 1}, &s.program),
                     STATUS_OK);
    for (size_t i = 0; i < s.program.ops; i++) {
        if (!timed(&s.program.op[i]))
            continue;
        double x = factor_of(&s.program.op[i]);
        assert_true(x > 0);
        n++;
        sum += x;
        squares += (x - 1) * (x - 1);
        products += (x - 1) * (last - 1);
        last = x;
    }
    assert_true(n == 40000);
    assert_true(fabs(sum / n - 1) < 4 * 0.05 / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / 0.05 - 1) < 4 / sqrt(2 * n));
    assert_true(fabs(products / n) < 4 * 0.05 * 0.05 / sqrt(n));
    lowered_free(&s);
}

/* GPipe and 1F1B order the same ops differently: op by op they get the same factors. */
static void the_factor_of_an_op_does_not_depend_on_the_order_of_ops(void **state)
{
    struct lowered a = set_up(3, 2, 8, "gpipe"), b = set_up(3, 2, 8, "1f1b");
    const struct perturbation by = {.jitter = 0.1, .seed = 42};
    size_t found = 0, moved = 0;
    assert_int_equal(perturb_program(&by, &a.program), STATUS_OK);
    assert_int_equal(perturb_program(&by, &b.program), STATUS_OK);
    for (size_t r = 0; r < a.program.ranks; r++)
        for (size_t i = a.program.op_start[r]; i < a.program.op_start[r + 1]; i++)
            for (size_t j = b.program.op_start[r]; j < b.program.op_start[r + 1]; j++) {
                const struct program_op *x = &a.program.op[i], *y = &b.program.op[j];
                if (!timed(x) || x->kind != y->kind || x->microbatch != y->microbatch)
                    continue;
                assert_true(x->seconds == y->seconds);
                found++;
                moved += i != j;
            }
    assert_int_equal(found, 3 * 8 * 2);
    assert_true(moved > 0);
    lowered_free(&b);
    lowered_free(&a);
}

static int ascending(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Whatever the seed, device, stage, kind, microbatch and step: nothing that differs shares a
 * factor. Seeds and devices are small numbers, of which a careless mixture makes the same. */
static void no_two_ops_of_any_seed_share_a_factor(void **state)
{
    enum { SEEDS = 8, STEPS = 3, RANKS = 4, MICROBATCHES = 4, TIMED = 2 * RANKS * MICROBATCHES };
    double factor[SEEDS * STEPS * TIMED];
    size_t n = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint32_t step = 0; step < STEPS; step++) {
            struct lowered s = set_up(RANKS, 1, MICROBATCHES, "1f1b");
            for (size_t i = 0; i < s.program.ops; i++)
                if (timed(&s.program.op[i]))
                    s.program.op[i].tag = step;
            assert_int_equal(
                perturb_program(&(struct perturbation){.jitter = 0.1, .seed = seed}, &s.program),
                STATUS_OK);
            for (size_t i = 0; i < s.program.ops; i++)
                if (timed(&s.program.op[i]))
                    factor[n++] = factor_of(&s.program.op[i]);
            lowered_free(&s);
        }
    assert_int_equal(n, SEEDS * STEPS * TIMED);
    qsort(factor, n, sizeof *factor, ascending);
    for (size_t i = 1; i < n; i++)
        assert_true(factor[i - 1] < factor[i]);
}

/* Two stages, two replicas; stage s, replica r is on device h(2 r + s): ranks h0 h2 h1 h3. */
static void slows_devices_ranks_and_stages(void **state)
{
    static const struct {
        const char *list;
        double of_rank[4];
    } cases[] = {{"h1=1.5", {1, 1, 1.5, 1}},
                 {"1=2", {1, 2, 1, 1}},
                 {"stage:1=3", {1, 1, 3, 3}},
                 {"stage:0=0.5,h3=4,2=1.25", {0.5, 0.5, 1.25, 4}}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lowered s = set_up(2, 2, 4, "1f1b");
        struct perturbation by = {0};
        assert_int_equal(perturbation_add_slow(&by, cases[k].list), STATUS_OK);
        assert_int_equal(perturb_program(&by, &s.program), STATUS_OK);
        for (size_t r = 0; r < 4; r++)
            for (size_t i = s.program.op_start[r]; i < s.program.op_start[r + 1]; i++)
                if (timed(&s.program.op[i]))
                    assert_true(factor_of(&s.program.op[i]) == cases[k].of_rank[r]);
        perturbation_free(&by);
        lowered_free(&s);
    }
}

static void refuses_names_of_nothing_and_two_factors_for_one_op(void **state)
{
    static const struct {
        const char *list, *message;
    } cases[] = {{"h4=2", "'h4'"},
                 {"4=2", "'4'"},
                 {"stage:2=2", "'stage:2'"},
                 {"stage:=2", "'stage:'"},
                 {"h1=2,2=2", "'h1' '2' same"},
                 {"stage:1=2,h3=2", "'h3' 'stage:1' stage 1 3"}};
    struct lowered s = set_up(2, 2, 4, "1f1b");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct perturbation by = {.jitter = 0.1};
        assert_int_equal(perturbation_add_slow(&by, cases[k].list), STATUS_OK);
        assert_int_equal(perturb_program(&by, &s.program), STATUS_USAGE);
        if (!message_says(error_message(), cases[k].message))
            fail_msg("'%s' does not say '%s'", error_message(), cases[k].message);
        perturbation_free(&by);
    }
    for (size_t i = 0; i < s.program.ops; i++) /* nothing has changed */
        if (timed(&s.program.op[i]))
            assert_true(factor_of(&s.program.op[i]) == 1);
    lowered_free(&s);
}

static void refuses_malformed_lists_and_keeps_what_was_there(void **state)
{
    static const char *const bad[] = {"",      "h1",        "=2",     "h1=",    "h1=x",    "h1=0",
                                      "h1=-1", "h1=inf",    "h1=nan", "h1=2,",  "h0=3",    ",h1=2",
                                      "h1=2=", "h1=2,h1=3", "h1=2 ",  "h1=2;3", "h1=1e999"};
    struct perturbation by = {0};
    assert_int_equal(perturbation_add_slow(&by, "h0=2"), STATUS_OK);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        if (perturbation_add_slow(&by, bad[k]) != STATUS_USAGE)
            fail_msg("'%s' is accepted", bad[k]);
        assert_int_equal(by.n, 1);
    }
    assert_int_equal(perturbation_add_slow(&by, "a=b=1.5"), STATUS_OK);
    assert_string_equal(by.slow[1].name, "a=b"); /* a device may be called so */
    perturbation_free(&by);
}

static void reads_jitter_as_a_share(void **state)
{
    double x = -1;
    assert_int_equal(perturbation_parse_jitter("5%", &x), STATUS_OK);
    assert_true(fabs(x - 0.05) < 1e-15);
    assert_int_equal(perturbation_parse_jitter("0.25", &x), STATUS_OK);
    assert_true(x == 0.25);
    assert_int_equal(perturbation_parse_jitter("0", &x), STATUS_OK);
    assert_true(x == 0);
    static const char *const bad[] = {"", "%", "x", "-1%", "101%", "1.5", "5 %", "5%%", "nan"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        if (perturbation_parse_jitter(bad[k], &x) != STATUS_USAGE)
            fail_msg("'%s' is accepted", bad[k]);
    assert_true(x == 0);
}

static void prints_what_it_does_in_bounded_space(void **state)
{
    char text[PERTURBATION_TEXT], item[32];
    struct perturbation by = {.jitter = 0.05, .seed = 7};
    assert_int_equal(perturbation_add_slow(&by, "h1=1.3,stage:2=2"), STATUS_OK);
    assert_string_equal(perturbation_print(&by, text),
                        "jitter 5 % (seed 7), slowed: h1 x 1.3, stage:2 x 2");
    for (int k = 0; k < 100; k++) {
        snprintf(item, sizeof item, "device%d=1.5", k);
        assert_int_equal(perturbation_add_slow(&by, item), STATUS_OK);
    }
    perturbation_print(&by, text);
    assert_true(strlen(text) < PERTURBATION_TEXT);
    assert_string_equal(text + strlen(text) - 5, ", ...");
    perturbation_free(&by);
}

/* (M + P - 1)(f + b) with every op twice as long, on both engines. */
static void both_engines_see_the_slow_program(void **state)
{
    struct lowered s = set_up(2, 1, 4, "1f1b");
    char *platform = sample_star_file(3, 0, 1e9);
    struct perturbation by = {0};
    assert_int_equal(perturbation_add_slow(&by, "h0=2,stage:1=2"), STATUS_OK);
    assert_int_equal(perturb_program(&by, &s.program), STATUS_OK);
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct simulation result = {0};
        bool settled;
        assert_int_equal(engines[e]->run(&s.program, &s.topology, platform, NULL, &result),
                         STATUS_OK);
        assert_true(fabs(timeline_iteration(&s.program, &result.timeline, &settled) - 30) < 1e-8);
        simulation_free(&result);
    }
    perturbation_free(&by);
    remove(platform);
    free(platform);
    lowered_free(&s);
}

static enum status add_and_free(void)
{
    struct perturbation by = {0};
    enum status st = perturbation_add_slow(&by, "h0=2,h1=3,stage:1=4");
    perturbation_free(&by);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    struct lowered s = set_up(2, 2, 4, "1f1b");
    FOR_EACH_ALLOC_FAILURE(add_and_free());
    FOR_EACH_ALLOC_FAILURE(perturb_program(&(struct perturbation){.jitter = 0.1}, &s.program));
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_asked_for_changes_nothing),
        cmocka_unit_test(jitter_has_the_mean_one_and_the_deviation_asked_for),
        cmocka_unit_test(the_factor_of_an_op_does_not_depend_on_the_order_of_ops),
        cmocka_unit_test(no_two_ops_of_any_seed_share_a_factor),
        cmocka_unit_test(slows_devices_ranks_and_stages),
        cmocka_unit_test(refuses_names_of_nothing_and_two_factors_for_one_op),
        cmocka_unit_test(refuses_malformed_lists_and_keeps_what_was_there),
        cmocka_unit_test(reads_jitter_as_a_share),
        cmocka_unit_test(prints_what_it_does_in_bounded_space),
        cmocka_unit_test(both_engines_see_the_slow_program),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("perturb", tests, NULL, NULL);
}
