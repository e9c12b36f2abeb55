/* On the published inputs: the contiguous optimum, splits at least as good as every published tool
 * found, the experts' values. The numbers are those of goldens.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "papers/placement/problem.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

/* A fifth of the default; under sanitizers the search gets no further than to show that it is no
 * worse than ideals. */
#ifdef __SANITIZE_ADDRESS__
static const uint64_t steps = 20000000;
#else
static const uint64_t steps = 400000000;
#endif

static const char *workloads(void)
{
    const char *path = getenv("FORELINE_WORKLOADS");
    path = path ? path : WORKLOADS_DIR;
    if (access(path, R_OK) == 0)
        return path;
    print_message("no workloads in %s\n", path);
    skip();
    return NULL;
}

struct golden {
    char *input, *peer, *params;
    double objective; /* NAN: none */
};

struct goldens {
    size_t n;
    struct golden *record;
};

static void read_goldens(const char *folder, struct goldens *out)
{
    char path[4096];
    struct json_document d = {0};
    struct json_at records, at;
    snprintf(path, sizeof path, "%s/goldens.json", folder);
    assert_int_equal(json_read(path, NULL, 0, &d), STATUS_OK);
    struct json_at root = json_root(&d);
    assert_int_equal(json_field(&root, "records", &records), STATUS_OK);
    assert_int_equal(json_get_array(&records, 100000, &out->n), STATUS_OK);
    out->record = calloc(out->n, sizeof *out->record);
    assert_non_null(out->record);
    for (size_t i = 0; i < out->n; i++) {
        struct golden *g = &out->record[i];
        struct json_at record = json_item(&records, i);
        assert_int_equal(json_field(&record, "input", &at), STATUS_OK);
        assert_int_equal(json_get_copy(&at, &g->input), STATUS_OK);
        assert_int_equal(json_field(&record, "peer", &at), STATUS_OK);
        assert_int_equal(json_get_copy(&at, &g->peer), STATUS_OK);
        assert_int_equal(json_optional(&record, "params", &at), STATUS_OK);
        if (!at.value || json_get_copy(&at, &g->params) != STATUS_OK)
            g->params = NULL;
        assert_int_equal(json_optional(&record, "objective", &at), STATUS_OK);
        g->objective = NAN;
        if (at.value)
            assert_int_equal(json_get_real(&at, -INFINITY, INFINITY, &g->objective), STATUS_OK);
    }
    json_document_free(&d);
}

static void free_goldens(struct goldens *g)
{
    for (size_t i = 0; i < g->n; i++) {
        free(g->record[i].input);
        free(g->record[i].peer);
        free(g->record[i].params);
    }
    free(g->record);
}

static void solve(const char *folder, const char *input, const char *algorithm, uint64_t work,
                  struct objective_result *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, input);
    const struct objective_request r = {
        .spec = path, .memory_bytes = NAN, .said.work_limit = work, .time_limit_s = 600};
    if (objective_solve(&objective_placement, algorithm, &r, out) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_true(out->lower_bound <= out->value * (1 + 1e-9));
}

/* The DP's own number, and 1e-9 besides for the order of the sums. */
static void ideals_equals_the_published_dp(void **state)
{
    struct goldens g;
    size_t compared = 0;
    const char *folder = workloads();
    read_goldens(folder, &g);
    for (size_t i = 0; i < g.n; i++) {
        struct objective_result found = {0};
        if (strcmp(g.record[i].peer, "dnn-partitioning/dp") != 0)
            continue;
        solve(folder, g.record[i].input, "ideals", 0, &found);
        if (fabs(found.value / g.record[i].objective - 1) > 1e-9)
            fail_msg("%s: %.17g, expected %.17g", g.record[i].input, found.value,
                     g.record[i].objective);
        assert_true(found.proved_optimal && !found.interrupted);
        objective_result_free(&found);
        compared++;
    }
    assert_true(compared >= 8);
    free_goldens(&g);
}

static void experts_splits_score_as_in_the_published_checker(void **state)
{
    struct goldens g;
    size_t compared = 0;
    const char *folder = workloads();
    read_goldens(folder, &g);
    for (size_t i = 0; i < g.n; i++) {
        char model[4096], split[4096];
        double value;
        if (strcmp(g.record[i].peer, "dnn-partitioning/expert") != 0)
            continue;
        const char *name = strrchr(g.record[i].params, '/');
        assert_non_null(name);
        snprintf(model, sizeof model, "%s/%s", folder, g.record[i].input);
        snprintf(split, sizeof split, "%s/placement/experts%s", folder, name);
        const struct objective_request r = {.spec = model, .memory_bytes = NAN};
        assert_int_equal(placement_score(&r, split, &value), STATUS_OK);
        assert_true(fabs(value / g.record[i].objective - 1) < 1e-9);
        compared++;
    }
    assert_true(compared >= 5);
    free_goldens(&g);
}

/* 1e-6: the integer programs' values are only as exact as their solver's tolerance. */
static void noncontiguous_reaches_the_best_published_value(void **state)
{
    static const char *const peers[] = {"dnn-partitioning/dp", "dnn-partitioning/scotch",
                                        "dnn-partitioning/localSearch",
                                        "dnn-partitioning/ip-noncontig"};
    struct goldens g;
    const char *folder = workloads();
    read_goldens(folder, &g);
    for (size_t i = 0; i < g.n; i++) {
        struct objective_result found = {0};
        double best = INFINITY;
        if (strcmp(g.record[i].peer, "dnn-partitioning/dp") != 0)
            continue;
        for (size_t k = 0; k < g.n; k++)
            for (size_t p = 0; p < sizeof peers / sizeof *peers; p++)
                if (!strcmp(g.record[k].peer, peers[p]) &&
                    !strcmp(g.record[k].input, g.record[i].input))
                    best = fmin(best, g.record[k].objective);
        solve(folder, g.record[i].input, "noncontiguous", steps, &found);
        print_message("%s: %.9g, best published %.9g, bound %.9g\n", g.record[i].input, found.value,
                      best, found.lower_bound);
        if (steps > 100000000)
            assert_true(found.value <= best * (1 + 1e-6));
        assert_true(found.value <= g.record[i].objective * (1 + 1e-9));
        objective_result_free(&found);
    }
    free_goldens(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ideals_equals_the_published_dp),
        cmocka_unit_test(experts_splits_score_as_in_the_published_checker),
        cmocka_unit_test(noncontiguous_reaches_the_best_published_value),
    };
    return cmocka_run_group_tests_name("placement_goldens", tests, NULL, NULL);
}
