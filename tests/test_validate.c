/* validate: grids in their order, tables and summaries worked by hand. */
#include "plots/figure.h"
#include "study/validate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "study/point.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-12))
        fail_msg("%.15g, expected %.15g", got, expected);
}

/* ---- grids: the experiment that options make */

static const struct arguments any = {.model = "m",
                                     .sim.engine = "tcp",
                                     .launch.device = "cpu",
                                     .launch.steps = 1,
                                     .run.repeats = 2,
                                     .seed = 5};

static void a_grid_varies_its_last_axis_fastest(void **state)
{
    struct arguments a = any;
    struct experiment e = {0};
    struct validate_job job = {.directory = "d"};
    struct validation v = {0};
    struct point p = {0};
    char name[VALIDATE_POINT_NAME];
    a.platforms = (struct text_list){2, {"here/a.xml", "laptop"}};
    a.grid.stage_list = "1,2,4";
    a.grid.algorithm_list = "balanced";
    a.grid.schedule_list = "gpipe,1f1b";
    assert_int_equal(validate_compose(&a, NULL, 0, &e), STATUS_OK);
    assert_int_equal(e.points, 12 * 3 * 2); /* engines, repeats */
    static const char *const expected[] = {"a-s1-gpipe",      "a-s1-1f1b",       "a-s2-gpipe",
                                           "a-s2-1f1b",       "a-s4-gpipe",      "a-s4-1f1b",
                                           "laptop-s1-gpipe", "laptop-s1-1f1b",  "laptop-s2-gpipe",
                                           "laptop-s2-1f1b",  "laptop-s4-gpipe", "laptop-s4-1f1b"};
    job.e = e;
    assert_int_equal(validate_make_points(&job, &v), STATUS_OK);
    assert_int_equal(v.points, 12);
    for (size_t i = 0; i < 12; i++)
        assert_string_equal(v.point[i].name, expected[i]);
    assert_string_equal(v.point[9].plan, "d/plans/laptop-s2-1f1b.json");
    assert_int_equal(job.repeats, 2);
    assert_int_equal(job.seed, 5);
    assert_string_equal(job.run.engine, "tcp");
    assert_int_equal(point_make(&e, v.point[9].number, NULL, &p), STATUS_OK);
    assert_string_equal(p.a.platform, "laptop");
    assert_int_equal(p.a.stages, 2);
    assert_string_equal(p.a.optimizer, "adam");
    assert_string_equal(p.a.schedule, "1f1b");
    assert_string_equal(p.a.algorithm, "balanced");
    assert_int_equal(p.a.seed, 5); /* all repeats run the plan of the first seed */
    assert_null(p.engine);
    point_free(&p);
    validation_free(&v);
    experiment_free(&e);
    a.platforms.n = 1;
    a.grid.stage_list = a.grid.schedule_list = NULL;
    assert_int_equal(validate_compose(&a, NULL, 0, &e), STATUS_OK);
    validate_point_name(&e, 0, name);
    assert_string_equal(name, "plan");
    experiment_free(&e);
}

static enum status compose(const char *stages, const char *replicas)
{
    struct arguments a = any;
    struct experiment e = {0};
    a.platforms = (struct text_list){1, {"it's"}};
    a.grid.stage_list = stages;
    a.grid.replica_list = replicas;
    enum status st = validate_compose(&a, NULL, 0, &e);
    if (st == STATUS_OK)
        assert_string_equal(experiment_value(&e, 0, "platform"), "it's");
    experiment_free(&e);
    return st;
}

static void grids_refuse_what_makes_no_point(void **state)
{
    assert_int_equal(compose("1,,2", NULL), STATUS_USAGE);
    assert_message(error_message(), "--stages '' number");
    assert_int_equal(compose(NULL, "1,2,1"), STATUS_USAGE);
    assert_message(error_message(), "experiment options:4 '1'");
    assert_int_equal(compose(NULL, "two"), STATUS_USAGE);
    assert_int_equal(compose(NULL, "-1"), STATUS_USAGE);
    assert_int_equal(compose(NULL, "10000001"), STATUS_USAGE);
    assert_int_equal(compose("1,2", "3"), STATUS_OK);
}

static void engines_predict_and_one_runs(void **state)
{
    static const char *const wrong[] = {"engine: tcp\n", "engine: [simgrid, analytic]\n",
                                        "engine: [simgrid, tcp, mpi]\n", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct validate_job job = {.directory = "d"};
        struct validation v = {0};
        char text[64];
        snprintf(text, sizeof text, "model: m\n%s", wrong[i]);
        assert_int_equal(experiment_parse("e.yml", text, strlen(text), NULL, &job.e), STATUS_OK);
        assert_int_equal(validate_make_points(&job, &v), STATUS_USAGE);
        experiment_free(&job.e);
    }
}

static void a_grid_has_a_greatest_size(void **state)
{
    struct arguments a = any;
    struct experiment e = {0};
    char list[2048] = "1";
    for (size_t i = 2, n = 1; i <= 101; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, ",%zu", i);
    a.platforms = (struct text_list){1, {"p"}};
    a.grid.stage_list = a.grid.replica_list = a.grid.chunk_list = list;
    assert_int_equal(validate_compose(&a, NULL, 0, &e), STATUS_USAGE); /* 101^3 */
}

static enum status make_and_free(void)
{
    struct arguments a = any;
    struct experiment e = {0};
    a.platforms = (struct text_list){1, {"p"}};
    a.grid.stage_list = "1,2";
    enum status st = validate_compose(&a, NULL, 0, &e);
    experiment_free(&e);
    return st;
}

static void grids_release_everything_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(make_and_free());
}

/* ---- what is run has been predicted before */

static void nothing_is_run_before_all_predictions_are_written(void **state)
{
    struct validate_job job = {.directory = "/nonexistent", .repeats = 1};
    struct validate_point p = {.name = "x", .plan = "x.json"};
    struct validation v = {.points = 1, .point = &p};
    assert_int_equal(validate_measure(&job, &v), STATUS_INVALID);
    assert_message(error_message(), "predictions.tsv missing");
}

/* ---- tables; strings of these measurements are borrowed, so they are never freed */

static struct measurement file(char *engine, char *plan, double iteration_s, double samples)
{
    return (struct measurement){.engine = engine,
                                .plan = plan,
                                .platform = "p",
                                .iteration_s = iteration_s,
                                .samples_per_s = samples / iteration_s};
}

static char *names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"};

static struct validation of(struct measurement *m, size_t n)
{
    return (struct validation){.files = n, .m = m, .file = names};
}

/* Runs of 1.0, 1.2 and 1.1 s: median 1.1. Iterations 0.9, 1.0 | 1.2, 1.3 | 1.1: quartiles 1.0 and
 * 1.2. Predictions 0.99 and 1.21 are 10 % off. */
static void a_row_has_median_quartiles_and_errors(void **state)
{
    double a[] = {1.0, 0.9}, b[] = {1.3, 1.2}, c[] = {1.1};
    struct measurement m[] = {
        file("tcp", "x/a.json", 1.0, 4),       file("analytic", "x/a.json", 0.99, 4),
        file("tcp", "x/a.json", 1.2, 4),       file("simgrid", "x/a.json", 1.21, 4),
        file("tcp", "x/a.json", 1.1, 4),       file("mpi", "x/a.json", 2.42, 4),
        file("tcp", "x/unknown.json", 1.1, 4), file("simgrid", "x/never.json", 1, 4)};
    m[0].iterations_s = a, m[0].iterations = 2;
    m[2].iterations_s = b, m[2].iterations = 2;
    m[4].iterations_s = c, m[4].iterations = 1;
    struct validation v = of(m, 8);
    struct validate_table t;
    assert_int_equal(validate_tabulate(&v, &t), STATUS_OK);
    assert_int_equal(t.rows, 2);
    const struct validate_row *r = &t.row[0];
    assert_string_equal(r->plan, "a");
    assert_string_equal(r->engine, "tcp");
    assert_int_equal(r->runs, 3);
    assert_int_equal(r->iterations, 5);
    assert_close(r->measured_s, 1.1);
    assert_close(r->low_s, 1.0);
    assert_close(r->high_s, 1.2);
    assert_close(r->samples, 4);
    assert_close(r->error[0], -0.1);
    assert_close(r->error[1], 0.1);
    assert_string_equal(t.row[1].engine, "mpi"); /* no iterations: the median alone */
    assert_close(t.row[1].low_s, 2.42);
    assert_close(t.row[1].error[1], -0.5);
    assert_int_equal(t.summaries, 4);
    assert_true(isnan(t.summary[0].kendall_tau) && isnan(t.summary[0].regret));
    validate_table_free(&t);
}

/* Seconds per sample: measured a 4/4, b 6/8, c 7/8; predicted 4/4, 6.4/8, 5.6/8. c is chosen, b is
 * best: regret (7/8) / (6/8) - 1. Of three pairs (b, c) is discordant: tau 1/3. By time per
 * iteration a would be first in both, and tau 1/3 for another pair. */
static void plans_of_different_batches_are_ordered_by_time_per_sample(void **state)
{
    struct measurement m[] = {file("simgrid", "a", 4, 4),   file("tcp", "a", 4, 4),
                              file("simgrid", "b", 6.4, 8), file("tcp", "b", 6, 8),
                              file("simgrid", "c", 5.6, 8), file("tcp", "c", 7, 8)};
    struct validation v = of(m, 6);
    struct validate_table t;
    char text[VALIDATE_TEXT];
    assert_int_equal(validate_tabulate(&v, &t), STATUS_OK);
    assert_int_equal(t.summaries, 1);
    const struct validate_summary *s = &t.summary[0];
    assert_int_equal(s->chosen, 2);
    assert_int_equal(s->best, 1);
    assert_int_equal(s->worst, 2);
    assert_close(s->regret, 1.0 / 6);
    assert_close(s->kendall_tau, 1.0 / 3);
    assert_close(s->worst_error, 0.2);
    assert_close(s->median_error, 0.4 / 6);
    assert_message(validate_describe(&t, s, text),
                   "simgrid tcp 3 plans 6.67 % 20.00 % (c) 0.333 16.67 % c b");
    validate_table_free(&t);
}

/* Plans a, b, ... with quartiles `wide` apart around 1 s and predictions `off` by half more or less
 * than that. */
static void scattered_runs_are_noise_by_the_rule_of_the_manual(void **state)
{
    uint64_t stream = 23;
    size_t said = 0;
    char text[VALIDATE_TEXT], count[48];
    static char *plan[] = {"a", "b", "c", "d", "e"};
    static char *ran[] = {"tcp", "tcp-paced"};
    for (int round = 0; round < 500; round++) {
        size_t n = 1 + random_next(&stream) % 5, noisy = 0, wide_ones = 0;
        char *engine = ran[random_next(&stream) % 2];
        struct measurement m[10];
        double steps[5][5];
        for (size_t i = 0; i < n; i++) {
            bool wide = random_next(&stream) % 3 > 0, far = random_next(&stream) % 3 == 0;
            double range = wide ? 0.3 : 0.04, off = far ? 1.5 * range : 0.5 * range;
            for (size_t k = 0; k < 5; k++)
                steps[i][k] = 1 + ((double)k - 2) * range / 2;
            m[2 * i] = file(engine, plan[i], 1, 4);
            m[2 * i].iterations_s = steps[i], m[2 * i].iterations = 5;
            m[2 * i + 1] =
                file("simgrid", plan[i], random_next(&stream) % 2 ? 1 + off : 1 - off, 4);
            noisy += !far;
            wide_ones += wide;
        }
        struct validation v = of(m, 2 * n);
        struct validate_table t;
        assert_int_equal(validate_tabulate(&v, &t), STATUS_OK);
        assert_int_equal(t.summary[0].noisy, noisy);
        bool expected = 2 * noisy >= n && 2 * wide_ones >= n;
        assert_true(!!validate_noise(&t, text) == expected);
        if (expected) {
            snprintf(count, sizeof count, "runs of %zu of %zu plan", noisy, n);
            assert_non_null(strstr(text, count));
            assert_true(!strstr(text, "--compute paced") == (engine == ran[1]));
        }
        said += expected;
        validate_table_free(&t);
    }
    assert_true(said > 100 && said < 400);
}

/* Plans b and c are predicted alike and run 1.5 and 1.2 s; a runs 1.2 s. */
static void regret_of_equal_predictions_is_a_range(void **state)
{
    struct measurement m[] = {file("simgrid", "a", 2, 1), file("tcp", "a", 1.2, 1),
                              file("simgrid", "b", 1, 1), file("tcp", "b", 1.5, 1),
                              file("simgrid", "c", 1, 1), file("tcp", "c", 1.2, 1)};
    struct validation v = of(m, 6);
    struct validate_table t;
    char text[VALIDATE_TEXT];
    assert_int_equal(validate_tabulate(&v, &t), STATUS_OK);
    assert_non_null(strstr(validate_describe(&t, &t.summary[0], text),
                           "regret 0.00 to 25.00 % (chosen among equal predictions, at worst b,"));
    validate_table_free(&t);
}

/* A plan of one platform cannot be chosen instead of one of another. */
static void regret_is_per_platform(void **state)
{
    struct measurement m[] = {file("simgrid", "a", 1, 1), file("tcp", "a", 1, 1),
                              file("simgrid", "b", 2, 1), file("tcp", "b", 2, 1),
                              file("simgrid", "c", 3, 1), file("tcp", "c", 3, 1),
                              file("simgrid", "d", 4, 1), file("tcp", "d", 4, 1)};
    m[6].platform = m[7].platform = "q";
    struct validation v = of(m, 8);
    struct validate_table t;
    assert_int_equal(validate_tabulate(&v, &t), STATUS_OK);
    assert_int_equal(t.summaries, 3);
    assert_null(t.summary[0].platform);
    assert_int_equal(t.summary[0].plans, 4);
    assert_close(t.summary[0].kendall_tau, 1);
    assert_true(isnan(t.summary[0].regret));
    assert_string_equal(t.summary[1].platform, "p");
    assert_close(t.summary[1].regret, 0);
    assert_string_equal(t.summary[2].platform, "q");
    assert_int_equal(t.summary[2].plans, 1);
    validate_table_free(&t);
}

static enum status tabulate_and_free(const struct validation *v)
{
    struct validate_table t = {0};
    enum status st = validate_tabulate(v, &t);
    validate_table_free(&t);
    return st;
}

static void tables_release_everything_when_memory_runs_out(void **state)
{
    struct measurement m[] = {file("simgrid", "a", 1, 1), file("tcp", "a", 1, 1)};
    struct validation v = of(m, 2);
    FOR_EACH_ALLOC_FAILURE(tabulate_and_free(&v));
}

static void plans_are_called_by_their_file(void **state)
{
    static const char *const plans[][2] = {
        {"out/x.y.json", "x.y"}, {"json", "json"}, {".json", ".json"}};
    char name[VALIDATE_NAME];
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        style_plan_name(plans[i][0], name, sizeof name);
        assert_string_equal(name, plans[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_varies_its_last_axis_fastest),
        cmocka_unit_test(grids_refuse_what_makes_no_point),
        cmocka_unit_test(engines_predict_and_one_runs),
        cmocka_unit_test(a_grid_has_a_greatest_size),
        cmocka_unit_test(grids_release_everything_when_memory_runs_out),
        cmocka_unit_test(nothing_is_run_before_all_predictions_are_written),
        cmocka_unit_test(a_row_has_median_quartiles_and_errors),
        cmocka_unit_test(plans_of_different_batches_are_ordered_by_time_per_sample),
        cmocka_unit_test(regret_is_per_platform),
        cmocka_unit_test(regret_of_equal_predictions_is_a_range),
        cmocka_unit_test(scattered_runs_are_noise_by_the_rule_of_the_manual),
        cmocka_unit_test(tables_release_everything_when_memory_runs_out),
        cmocka_unit_test(plans_are_called_by_their_file),
    };
    return cmocka_run_group_tests_name("validate", tests, NULL, NULL);
}
