/* Constants fitted to measured iterations: what made them is found again, rows that are left out
 * tell the truth, and what cannot be fitted is refused. */
#include "study/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/schedule/schedule.h"
#include "partition/partition.h"
#include "study/evaluate.h"
#include "tests/cmocka.h"
#include "tests/put.h"
#include "tests/sample.h"

static const char table[] = BINARY_DIR "/fit-measured.csv";
static const char platform[] = "leaf-spine:nodes=4,gpus=2,nic=100Gbps";
static const char truth[] =
    "leaf-spine:nodes=4,gpus=2,nic=100Gbps@*nic*.bandwidth=3GBps,*.speed=60Tf";
static const struct provenance by = {"foreline", "test -- with dashes", NULL, 0};

/* Shapes of gpt-tiny, by number: stages, replicas, microbatch size. */
static const struct shape {
    size_t stages, replicas, size, buckets;
} shapes[] = {{1, 8, 1, 0}, {2, 4, 1, 0}, {4, 2, 1, 0}, {8, 1, 1, 0}, {2, 2, 2, 0},
              {1, 4, 2, 1}, {4, 1, 4, 0}, {2, 4, 2, 1}, {1, 2, 4, 0}, {8, 1, 2, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void demand(enum status st)
{
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
}

static void path_of(size_t k, char path[256])
{
    snprintf(path, 256, "%s/fit-plan-%zu.json", BINARY_DIR, k);
}

/* Write the plans, and a table of what a platform that nobody was told of says, times 1 +-
 * noise. */
static void make(size_t rows, double noise, uint64_t seed)
{
    struct model m = {0};
    struct topology t = {0}, real = {0};
    char *path = NULL, *real_path = NULL;
    const struct partition_algorithm *a;
    demand(load_model("gpt-tiny:layers=8,hidden=512,tokens=128", &m));
    demand(load_topology(platform, &t, &path));
    demand(load_topology(truth, &real, &real_path));
    demand(partition_find("balanced", &a));
    FILE *f = fopen(table, "w");
    assert_non_null(f);
    fputs("plan,iteration_s\n# a comment\n\n", f);
    for (size_t k = 0; k < rows; k++) {
        const struct shape *s = &shapes[k];
        struct partition_request r = {.layers = true,
                                      .model = "gpt-tiny:layers=8,hidden=512,tokens=128",
                                      .platform = platform,
                                      .stages = (uint32_t)s->stages,
                                      .replicas = (uint32_t)s->replicas,
                                      .tensor_parallel = 1,
                                      .chunks = 1,
                                      .microbatch_size = (uint32_t)s->size,
                                      .microbatches = (uint32_t)(16 / s->size),
                                      .bucket_bytes = s->buckets ? 1 << 20 : 0,
                                      .optimizer = "adam",
                                      .schedule = "1f1b"};
        struct plan p = {0};
        struct measurement at = {0};
        char file[256];
        demand(partition_run(a, &m, &t, &r, &p));
        path_of(k, file);
        demand(plan_write(&p, &m, &t, file, &by));
        const struct evaluation_context context = {
            .model = &m, .topology = &real, .platform = real_path, .no_links = true};
        demand(evaluate_plan(&p, &context, &engine_analytic, &at, NULL, NULL));
        fprintf(f, "fit-plan-%zu.json, %.17g\n", k,
                at.iteration_s * (1 + noise * (2 * random_unit(seed, k) - 1)));
        measurement_free(&at);
        plan_free(&p);
    }
    assert_int_equal(fclose(f), 0);
    topology_free(&t);
    topology_free(&real);
    model_free(&m);
    free(path);
    free(real_path);
}

static void remove_all(void)
{
    char file[256];
    unlink(table);
    for (size_t k = 0; k < SHAPES; k++) {
        path_of(k, file);
        unlink(file);
    }
}

static const char constants[] = "*nic*.bandwidth=12GBps,*.speed=100Tf";

static void what_made_the_times_is_found_again(void **state)
{
    struct fit f = {0};
    make(SHAPES, 0, 0);
    demand(fit_measured(table, constants, &f));
    assert_int_equal(f.rows, SHAPES);
    assert_near(f.constant[0].value, 3e9, 3e5);
    assert_near(f.constant[1].value, 60e12, 6e9);
    assert_true(f.begin_error > 0.1);
    assert_near(f.error, 0, 1e-6);
    assert_near(f.apart_error, 0, 1e-5);
    fit_free(&f);
    remove_all();
}

/* Of noisy times the constants are found nearly, and rows that were left out are as far off as the
 * noise says, but not less than those that were fitted. */
static void noise_is_told_by_the_rows_that_were_left_out(void **state)
{
    double fitted = 0, apart = 0;
    enum { SEEDS = 5 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fit f = {0};
        make(SHAPES, 0.05, seed);
        demand(fit_measured(table, constants, &f));
        assert_near(f.constant[0].value / 3e9, 1, 0.2);
        assert_near(f.constant[1].value / 60e12, 1, 0.2);
        assert_true(f.error < 0.05 && f.apart_error < 0.1);
        fitted += f.error / SEEDS;
        apart += f.apart_error / SEEDS;
        fit_free(&f);
    }
    assert_true(apart > fitted);
    remove_all();
}

static void the_platform_that_is_written_has_the_constants(void **state)
{
    static const char out[] = BINARY_DIR "/fit-out.xml";
    struct fit f = {0};
    struct topology t = {0};
    char *path = NULL, *text = NULL;
    size_t n;
    make(SHAPES, 0, 0);
    demand(fit_measured(table, constants, &f));
    demand(fit_write_platform(&f, out, &by));
    demand(load_topology(out, &t, &path));
    assert_near(t.type[0].flops / 60e12, 1, 1e-4);
    demand(file_read(out, &text, &n));
    assert_non_null(strstr(text, "fitted to 10 measured iterations"));
    assert_null(strstr(text, "test -- with"));
    free(text);
    free(path);
    topology_free(&t);
    fit_free(&f);
    unlink(out);
    remove_all();
}

static void refused(const char *what, enum status st, const char *message)
{
    struct fit f = {0};
    assert_int_equal(fit_measured(table, what, &f), st);
    if (!message_says(error_message(), message))
        fail_msg("'%s' does not say '%s'", error_message(), message);
}

static void what_cannot_be_fitted_is_refused(void **state)
{
    make(3, 0, 0);
    refused(constants, STATUS_INVALID, "3 iterations 1 2");
    refused("*.speed", STATUS_INVALID, "and the value that the fit begins with");
    refused("*.speed=0f", STATUS_INVALID, "begins above 0");
    refused("*.colour=3", STATUS_INVALID, "can be fitted");
    refused("framework.host=1", STATUS_INVALID, "names no framework");
    refused("nothing.bandwidth=1GBps", STATUS_INVALID, "nothing");
    make(SHAPES, 0, 0);
    refused("*.speed=1Tf,*.speed=2Tf", STATUS_INVALID, "named twice");
    remove_all();
    refused(constants, STATUS_IO, "fit-measured.csv");
}

static void broken_tables_are_one_line(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {{"", "no measured iteration"},
                 {"a\n", "fit-measured.csv:1: expected a plan file"},
                 {"p,1\nq,x\n", "fit-measured.csv:2 'x' seconds"},
                 {"p,-1\n", "fit-measured.csv:1: -1 seconds"},
                 {"p,nan\n", "no"},
                 {",1\n", "expected a plan file"},
                 {"missing.json,1\nmissing.json,2\n", "missing.json"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        put_text(table, cases[k].text);
        struct fit fit = {0};
        assert_true(fit_measured(table, "*.speed=1Tf", &fit) != STATUS_OK);
        if (!message_says(error_message(), cases[k].message) || strchr(error_message(), '\n'))
            fail_msg("case %zu: '%s'", k, error_message());
    }
    remove_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_made_the_times_is_found_again),
        cmocka_unit_test(noise_is_told_by_the_rows_that_were_left_out),
        cmocka_unit_test(the_platform_that_is_written_has_the_constants),
        cmocka_unit_test(what_cannot_be_fitted_is_refused),
        cmocka_unit_test(broken_tables_are_one_line),
    };
    return cmocka_run_group_tests_name("fit", tests, NULL, NULL);
}
