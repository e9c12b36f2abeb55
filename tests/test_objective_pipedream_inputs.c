/* Objective pipedream on files and on graphs of all shapes: published values, branches, pieces. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "model/import.h"
#include "papers/common/objective.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

static struct objective_request request(const struct model *m, size_t machines, double bandwidth)
{
    return (struct objective_request){.model = m,
                                      .levels = 1,
                                      .machines = {machines},
                                      .bandwidth_Bps = {bandwidth},
                                      .memory_bytes = NAN};
}

static struct objective_result solve(const struct objective_request *r)
{
    struct objective_result result = {0};
    if (objective_solve(&objective_pipedream, NULL, r, &result) != STATUS_OK)
        fail_msg("%s", error_message());
    return result;
}

/* ---- published values */

static const char *workloads(void)
{
    const char *path = getenv("FORELINE_WORKLOADS");
    return path ? path : WORKLOADS_DIR;
}

/* Numbers after `option` in the published tool's command line. */
static size_t numbers_after(const char *params, const char *option, double *value)
{
    const char *at = strstr(params, option);
    size_t n = 0;
    for (at = at ? at + strlen(option) : ""; n < OBJECTIVE_LEVELS;) {
        char *end;
        double v = strtod(at, &end);
        if (end == at)
            break;
        value[n++] = v;
        at = end;
    }
    return n;
}

static void check_golden(const char *input, const char *params, double objective, size_t states)
{
    char path[4096], note[32];
    struct model m = {0};
    double machines[OBJECTIVE_LEVELS] = {0}, bandwidth[OBJECTIVE_LEVELS] = {0};
    snprintf(path, sizeof path, "%s/%s", workloads(), input);
    if (model_import(path, &(struct import_options){.minibatch_size = 1}, &m) != STATUS_OK)
        fail_msg("%s", error_message());
    struct objective_request r = request(&m, 0, 0);
    r.levels = numbers_after(params, "-n ", machines);
    numbers_after(params, "-b ", bandwidth);
    for (size_t i = 0; i < r.levels; i++) {
        r.machines[i] = (size_t)machines[i];
        r.bandwidth_Bps[i] = bandwidth[i]; /* 0: the default, as there */
    }
    r.said.charge_activations = strstr(params, "--activation_compression_ratio 1") != NULL;
    r.said.straight = strstr(params, "--straight_pipeline") != NULL;
    struct objective_result result = solve(&r);
    if (!(fabs(result.value / objective - 1) < 1e-9))
        fail_msg("%s %s: %.12g, published %.12g", input, params, result.value, objective);
    snprintf(note, sizeof note, "%zu states;", states);
    assert_memory_equal(result.note, note, strlen(note));
    assert_true(result.proved_optimal);
    objective_result_free(&result);
    model_free(&m);
}

static void equals_the_published_values_on_their_profiles(void **state)
{
    char path[4096];
    struct json_document d = {0};
    struct json_at root, records;
    size_t n, checked = 0;
    snprintf(path, sizeof path, "%s/goldens.json", workloads());
    if (access(path, R_OK) != 0) {
        print_message("no %s\n", path);
        skip();
    }
    if (json_read(path, NULL, 0, &d) != STATUS_OK)
        fail_msg("%s", error_message());
    root = json_root(&d);
    assert_int_equal(json_field(&root, "records", &records), STATUS_OK);
    assert_int_equal(json_get_array(&records, 100000, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++) {
        struct json_at record = json_item(&records, i), at;
        const char *peer, *input, *params;
        double objective;
        int64_t states;
        assert_int_equal(json_field(&record, "peer", &at), STATUS_OK);
        assert_int_equal(json_get_string(&at, &peer), STATUS_OK);
        if (strcmp(peer, "pipedream") != 0)
            continue;
        assert_int_equal(json_field(&record, "input", &at), STATUS_OK);
        assert_int_equal(json_get_string(&at, &input), STATUS_OK);
        assert_int_equal(json_field(&record, "params", &at), STATUS_OK);
        assert_int_equal(json_get_string(&at, &params), STATUS_OK);
        assert_int_equal(json_field(&record, "states", &at), STATUS_OK);
        assert_int_equal(json_get_integer(&at, 1, 1000000, &states), STATUS_OK);
        assert_int_equal(json_optional(&record, "objective", &at), STATUS_OK);
        if (!at.value) /* the published tool did not finish */
            continue;
        assert_int_equal(json_get_real(&at, 0, 1e9, &objective), STATUS_OK);
        check_golden(input, params, objective, (size_t)states);
        checked++;
    }
    assert_true(checked > 0);
    json_document_free(&d);
}

/* ---- shapes */

/* Blocks of `branches` chains of growing length between joins, as in Inception networks. */
static struct model inception(size_t blocks, size_t branches, size_t length)
{
    size_t n = 1, edges = 0, each = branches * length + branches * (branches - 1) / 2;
    struct model m = sample_chain(1 + blocks * (each + 1), 1e-3, 2e-3, 1000000, 1000000);
    struct model_edge *edge = calloc(m.n * 2 + blocks * branches, sizeof *edge);
    for (size_t block = 0, join = 0; block < blocks; block++) {
        uint32_t end[16];
        for (size_t b = 0; b < branches; b++) {
            uint32_t at = (uint32_t)join;
            for (size_t i = 0; i < length + b; i++) {
                m.profile[0].forward_s[n] = (double)(n * 7919 % 13) * 1e-3;
                edge[edges++] = (struct model_edge){at, (uint32_t)n};
                at = (uint32_t)n++;
            }
            end[b] = at;
        }
        join = n++;
        for (size_t b = 0; b < branches; b++)
            edge[edges++] = (struct model_edge){end[b], (uint32_t)join};
    }
    sample_rewire(&m, edge, edges);
    free(edge);
    return m;
}

/* Every op in one part, producers not later: then the parts are a pipeline. */
static void assert_is_pipeline(const struct model *m, const struct objective_result *result)
{
    size_t *part = calloc(m->n, sizeof *part);
    for (size_t i = 0; i < result->parts; i++)
        for (size_t k = 0; k < result->part[i].ops; k++) {
            assert_int_equal(part[model_find(m, result->part[i].op[k])], 0);
            part[model_find(m, result->part[i].op[k])] = i + 1;
        }
    for (size_t i = 0; i < m->n; i++) {
        assert_int_not_equal(part[i], 0);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            assert_true(part[m->in[k]] <= part[i]);
    }
    free(part);
}

static void contracts_branches_when_there_are_too_many_cuts(void **state)
{
    static const struct {
        size_t blocks, branches, length;
        const char *how;
    } cases[] = {
        {11, 4, 5, "chains inside branches"},
        {30, 4, 9, "chains inside branches"},
        {3, 15, 2, "branching regions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m = inception(cases[i].blocks, cases[i].branches, cases[i].length);
        struct objective_request r = request(&m, 4, 1e10);
        double total = 0;
        for (size_t k = 0; k < m.n; k++)
            total += m.profile[0].forward_s[k] + m.profile[0].backward_s[k];
        struct objective_result result = solve(&r);
        assert_non_null(strstr(result.note, cases[i].how));
        assert_is_pipeline(&m, &result);
        assert_true(result.value >= total / 4);
        assert_true(result.value <= (total + 3 * 1e6 * (double)m.n / 1e10) / 4 + 1e-9);
        assert_false(result.proved_optimal);
        assert_true(isnan(result.lower_bound));
        objective_result_free(&result);
        model_free(&m);
    }
}

/* op0 -> op1, op2 -> op3: nothing of the second pair is reached from op0. */
static void plans_graphs_that_hang_apart(void **state)
{
    struct model m = sample_chain(4, 1, 0, 0, 0);
    static const struct model_edge edge[] = {{0, 1}, {2, 3}};
    sample_rewire(&m, edge, 2);
    struct objective_request r = request(&m, 4, 1e9);
    r.said.straight = true;
    struct objective_result result = solve(&r);
    assert_is_pipeline(&m, &result);
    assert_near(result.value, 1, 1e-12);
    objective_result_free(&result);
    model_free(&m);
}

static void leaves_out_inputs_and_unused_items(void **state)
{
    struct model m = sample_chain(4, 1, 0, 0, 0);
    static const struct model_edge edge[] = {{0, 2}, {1, 2}, {2, 3}};
    free(m.in_start);
    free(m.out_start);
    free(m.in);
    free(m.out);
    free(m.op[0].kind);
    free(m.op[3].kind);
    m.op[0].kind = sample_text("Input0");
    m.op[3].kind = sample_text("__getitem__");
    assert_int_equal(model_finish(&m, edge, 3, "items"), STATUS_OK);
    struct objective_request r = request(&m, 2, 1e9);
    r.said.straight = true;
    struct objective_result result = solve(&r);
    assert_near(result.value, 1, 1e-12);
    assert_is_pipeline(&m, &result);
    assert_string_equal(result.part[0].op[0], "op0");
    assert_string_equal(result.part[1].op[1], "op3");
    objective_result_free(&result);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_published_values_on_their_profiles),
        cmocka_unit_test(contracts_branches_when_there_are_too_many_cuts),
        cmocka_unit_test(plans_graphs_that_hang_apart),
        cmocka_unit_test(leaves_out_inputs_and_unused_items),
    };
    return cmocka_run_group_tests_name("objective_pipedream_inputs", tests, NULL, NULL);
}
