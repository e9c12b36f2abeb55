/* Piper's cost model and search: hand-worked cases, brute force, malformed and hostile inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "papers/piper/piper.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

static const struct piper_limits usual = {PIPER_IDEALS, PIPER_STATES};
static const char model_path[] = BINARY_DIR "/test_piper_model.json";
static const char split_path[] = BINARY_DIR "/test_piper_split.json";

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected) + 1e-12))
        fail_msg("%.17g, expected %.17g", value, expected);
}

static struct objective_request request(void)
{
    return (struct objective_request){.spec = model_path, .memory_bytes = NAN};
}

/* Two ops, 4 s and 2 s (6 s and 3 s recomputed), parameters of 10 and 20 bytes, an edge of 100
 * bytes; stash 100 against 10 bytes, fixed 5 against 15. */
static const char two_ops[] =
    "{\"maxDevices\": 2, \"maxMemoryPerDevice\": 1000, \"bandwidth\": 100, \"mbsInBatch\": 4,\n"
    "\"nodes\": [\n"
    "{\"id\": 7, \"TMPCs\": {\"1\": [\n"
    "  {\"id\": \"vanilla\", \"timePerSample\": 4, \"parameterSize\": 10, \"memoryUsageA\": 100,\n"
    "   \"memoryUsageB\": 5, \"syncTimeFw\": {}, \"syncTimeBw\": {\"9\": 0}},\n"
    "  {\"id\": \"activation recomp\", \"timePerSample\": 6, \"parameterSize\": 10,\n"
    "   \"memoryUsageA\": 10, \"memoryUsageB\": 15, \"syncTimeFw\": {}, \"syncTimeBw\": {\"9\": "
    "0}}]}},\n"
    "{\"id\": 9, \"TMPCs\": {\"1\": [\n"
    "  {\"id\": \"vanilla\", \"timePerSample\": 2, \"parameterSize\": 20, \"memoryUsageA\": 100,\n"
    "   \"memoryUsageB\": 5, \"syncTimeFw\": {\"7\": 30}, \"syncTimeBw\": {}},\n"
    "  {\"id\": \"activation recomp\", \"timePerSample\": 3, \"parameterSize\": 20,\n"
    "   \"memoryUsageA\": 10, \"memoryUsageB\": 15, \"syncTimeFw\": {\"7\": 30}, \"syncTimeBw\": "
    "{}}]}}],\n"
    "\"edges\": [{\"sourceId\": 7, \"destId\": 9, \"communicationCost\": 100}]}\n";

static double score(const char *split)
{
    struct objective_request r = request();
    double value;
    put_text(split_path, split);
    enum status st = piper_score(&r, split_path, &value);
    if (st != STATUS_OK)
        fail_msg("%s", error_message());
    return value;
}

static void counts_compute_edges_and_the_all_reduce_as_published(void **state)
{
    put_text(model_path, two_ops);
    /* Stage 0: 4 + 2 * 100 / 100 = 6; stage 1: 2 + 2 * (100 + 30) / 100 = 4.6. */
    assert_close(score("{\"parts\": [{\"ops\": [\"7\"]}, {\"ops\": [\"9\"]}]}"), 6);
    /* 6 / 2 + 4 * 1 * 30 / (2 * 4) / 100 = 3.15. */
    assert_close(score("{\"parts\": [{\"ops\": [7, 9], \"replicas\": 2}]}"), 3.15);
    assert_close(score("{\"parts\": [{\"ops\": [7, 9], \"recompute\": true}]}"), 9);
    assert_close(score("{\"parts\": [{\"ops\": [7, 9], \"recompute\": [false, true]}]}"), 7);
    assert_close(score("{\"parts\": [{\"ops\": [9, 7], \"configurations\": [\"vanilla\", "
                       "\"activation recomp\"]}]}"),
                 8);
}

static void assert_refused(enum status expected, const char *split, const char *reason)
{
    struct objective_request r = request();
    double value;
    put_text(split_path, split);
    assert_int_equal(piper_score(&r, split_path, &value), expected);
    if (!message_says(error_message(), reason))
        fail_msg("'%s' lacks '%s'", error_message(), reason);
}

static void refuses_splits_that_break_a_limit(void **state)
{
    put_text(model_path, two_ops);
    assert_refused(STATUS_INFEASIBLE, "{\"parts\": [{\"ops\": [9]}, {\"ops\": [7]}]}",
                   "earlier stage 0");
    assert_refused(STATUS_INFEASIBLE, "{\"parts\": [{\"ops\": [7, 9], \"replicas\": 3}]}",
                   "do not divide");
    assert_refused(STATUS_INFEASIBLE, "{\"parts\": [{\"ops\": [7, 9], \"replicas\": 4}]}",
                   "devices");
    assert_refused(STATUS_PARSE, "{\"parts\": [{\"ops\": [7, 9], \"tensor_parallel\": 2}]}",
                   "no node has");
    assert_refused(STATUS_PARSE, "{\"parts\": [{\"ops\": [7]}]}", "node 9 is in no part");
    assert_refused(STATUS_PARSE, "{\"parts\": [{\"ops\": [7, 7]}]}", "listed twice");
    assert_refused(STATUS_PARSE, "{\"parts\": [{\"ops\": [7, 8]}]}", "no node has the id 8");
}

static void stashes_a_microbatch_for_every_replica_behind(void **state)
{
    struct objective_request r = request();
    double value;
    put_text(model_path, two_ops);
    put_text(split_path, "{\"parts\": [{\"ops\": [7]}, {\"ops\": [9]}]}");
    r.memory_bytes = 205; /* stage 0 has 2 in flight: 2 * 100 + 5 */
    assert_int_equal(piper_score(&r, split_path, &value), STATUS_OK);
    r.memory_bytes = 204;
    assert_int_equal(piper_score(&r, split_path, &value), STATUS_INFEASIBLE);
    assert_message(error_message(), "stage 0");
}

static void options_replace_what_the_file_says(void **state)
{
    struct objective_request r = request();
    struct piper_input in;
    put_text(model_path, two_ops);
    assert_int_equal(piper_read(&r, &in), STATUS_OK);
    assert_int_equal(in.devices, 2);
    assert_int_equal(in.batch, 4);
    piper_input_free(&in);
    r.devices = 3;
    r.batch = 6;
    r.memory_bytes = 77;
    r.levels = 1;
    r.bandwidth_Bps[0] = 5;
    assert_int_equal(piper_read(&r, &in), STATUS_OK);
    assert_int_equal(in.devices, 3);
    assert_int_equal(in.batch, 6);
    assert_true(in.memory_bytes == 77 && in.bandwidth_Bps == 5);
    piper_input_free(&in);
}

static enum status solve(const struct objective_request *r, struct objective_result *out)
{
    return objective_solve(&objective_piper, NULL, r, out);
}

static void plans_two_ops_as_by_hand(void **state)
{
    struct objective_request r = request();
    struct objective_result out;
    put_text(model_path, two_ops);
    assert_int_equal(solve(&r, &out), STATUS_OK);
    assert_close(out.value, 3.15); /* both replicated: the best of the splits above */
    assert_true(out.proved_optimal);
    assert_int_equal(out.parts, 1);
    assert_int_equal(out.part[0].replicas, 2);
    assert_false(out.part[0].recompute);
    assert_string_equal(out.part[0].op[0], "7");
    assert_string_equal(out.part[0].configuration[1], "vanilla");
    objective_result_free(&out);
    /* 130 bytes hold one op vanilla (105) and one recomputed (25): 4 + 3 is the cheaper way. */
    r.memory_bytes = 130;
    assert_int_equal(solve(&r, &out), STATUS_OK);
    assert_close(out.value, 3.65);
    assert_string_equal(out.part[0].configuration[0], "vanilla");
    assert_string_equal(out.part[0].configuration[1], "activation recomp");
    assert_true(out.part[0].recompute);
    objective_result_free(&out);
}

static void says_how_much_memory_would_do(void **state)
{
    struct objective_request r = request();
    struct objective_result out = {0};
    put_text(model_path, two_ops);
    r.memory_bytes = 20; /* even one op recomputed takes 25 */
    assert_int_equal(solve(&r, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "GiB would be enough");
}

static void names_the_place_of_every_fault(void **state)
{
    static const struct {
        const char *from, *to, *message;
    } fault[] = {
        {"\"id\": 9,", "\"id\": 7,", ":8:1: nodes[1]: id 7 is given to two nodes"},
        {"\"destId\": 9", "\"destId\": 8", "destId: no node has the id 8"},
        {"\"destId\": 9", "\"destId\": 7", "an edge from node 7 to itself"},
        {"\"timePerSample\": 4", "\"timePerSample\": -4", "timePerSample"},
        {"\"syncTimeFw\": {\"7\": 30}", "\"syncTimeFw\": {\"6\": 30}", "syncTimeFw"},
        {"{\"1\": [\n  {\"id\": \"vanilla\", \"timePerSample\": 4",
         "{\"x\": [\n  {\"timePerSample\": 4", "expected a tensor-parallel degree"},
        {"\"mbsInBatch\": 4", "\"mbsInBatch\": 0", "mbsInBatch"},
        {"\"nodes\"", "\"knots\"", "nodes"},
    };
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++) {
        char text[4096];
        const char *at = strstr(two_ops, fault[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - two_ops), two_ops, fault[i].to,
                 at + strlen(fault[i].from));
        put_text(model_path, text);
        struct objective_request r = request();
        struct piper_input in;
        assert_int_equal(piper_read(&r, &in), STATUS_PARSE);
        if (!message_says(error_message(), fault[i].message))
            fail_msg("'%s' lacks '%s'", error_message(), fault[i].message);
    }
}

/* ---- random inputs */

struct shape {
    size_t nodes, degrees, configs;
    bool uniform;
};

static double some(int most)
{
    return rand() % (most + 1);
}

static void print_sync(FILE *f, const char *key, const bool *edge, size_t n, size_t v, bool head,
                       bool zero)
{
    const char *comma = "";
    fprintf(f, "\"%s\": {", key);
    for (size_t u = 0; u < n; u++)
        if (head ? edge[v * n + u] : edge[u * n + v]) {
            fprintf(f, "%s\"%zu\": %g", comma, u, zero ? 0 : some(5));
            comma = ", ";
        }
    fprintf(f, "}");
}

static void write_random(const struct shape *s)
{
    FILE *f = fopen(model_path, "w");
    bool edge[64] = {false};
    size_t n = s->nodes;
    assert_non_null(f);
    for (size_t u = 0; u < n; u++)
        for (size_t v = u + 1; v < n; v++)
            edge[u * n + v] = rand() % 2;
    fprintf(f, "{\"nodes\": [");
    for (size_t v = 0; v < n; v++) {
        fprintf(f, "%s{\"id\": %zu, \"TMPCs\": {", v ? ",\n" : "", v);
        for (size_t t = 0; t < s->degrees; t++) {
            fprintf(f, "%s\"%d\": [", t ? ", " : "", 1 << t);
            size_t configs = v == 1 && t == 1 ? 0 : s->configs; /* one cannot run in parallel */
            for (size_t c = 0; c < configs; c++) {
                fprintf(f, "%s{\"id\": \"c%zu\", \"timePerSample\": %g, \"parameterSize\": %g, ",
                        c ? ", " : "", c, some(20), s->uniform ? (double)v : some(9));
                fprintf(f, "\"memoryUsageA\": %g, \"memoryUsageB\": %g, ", some(9), some(9));
                print_sync(f, "syncTimeFw", edge, n, v, false, s->uniform);
                fprintf(f, ", ");
                print_sync(f, "syncTimeBw", edge, n, v, true, s->uniform);
                fprintf(f, "}");
            }
            fprintf(f, "]");
        }
        fprintf(f, "}}");
    }
    fprintf(f, "], \"edges\": [");
    const char *comma = "";
    for (size_t u = 0; u < n; u++)
        for (size_t v = 0; v < n; v++)
            if (edge[u * n + v]) {
                fprintf(f, "%s{\"sourceId\": %zu, \"destId\": %zu, \"communicationCost\": %g}",
                        comma, u, v, some(9));
                comma = ", ";
            }
    fprintf(f, "]}\n");
    assert_int_equal(fclose(f), 0);
}

struct brute {
    const struct piper_input *in;
    struct piper_plan plan;
    double best;
};

static void try_configs(struct brute *b, size_t v)
{
    const struct piper_input *in = b->in;
    double value;
    if (v == in->nodes) {
        if (piper_evaluate(in, &b->plan, &value) == STATUS_OK && value < b->best)
            b->best = value;
        return;
    }
    size_t t = b->plan.stage[b->plan.stage_of[v]].degree;
    size_t first = in->config_start[v * in->degrees + t];
    for (size_t c = first; c < in->config_start[v * in->degrees + t + 1]; c++) {
        b->plan.config[v] = c;
        try_configs(b, v + 1);
    }
}

static void try_stages(struct brute *b, size_t s)
{
    const struct piper_input *in = b->in;
    if (s == b->plan.stages) {
        try_configs(b, 0);
        return;
    }
    for (uint32_t d = 1; d <= in->devices; d++)
        for (uint32_t t = 0; t < in->degrees; t++) {
            b->plan.stage[s] = (struct piper_stage){d, t};
            try_stages(b, s + 1);
        }
}

/* Every assignment to 1, 2 or 3 stages with every replica count, degree and configuration. */
static void try_splits(struct brute *b, size_t v)
{
    if (v == b->in->nodes) {
        size_t count[3] = {0};
        for (size_t u = 0; u < v; u++)
            count[b->plan.stage_of[u]]++;
        for (b->plan.stages = 0; b->plan.stages < 3 && count[b->plan.stages]; b->plan.stages++)
            ;
        size_t covered = 0;
        for (size_t s = 0; s < b->plan.stages; s++)
            covered += count[s];
        if (covered == v)
            try_stages(b, 0);
        return;
    }
    for (uint32_t s = 0; s < 3; s++) {
        b->plan.stage_of[v] = s;
        try_splits(b, v + 1);
    }
}

static double brute_force(const struct piper_input *in)
{
    struct piper_stage stage[3];
    uint32_t stage_of[8];
    size_t config[8];
    struct brute b = {in, {.stage = stage, .stage_of = stage_of, .config = config}, INFINITY};
    try_splits(&b, 0);
    return b.best;
}

static void compare_with_brute_force(const struct shape *s, double memory_bytes)
{
    struct objective_request r = request();
    struct piper_input in;
    struct piper_plan plan = {0};
    struct piper_outcome o;
    write_random(s);
    r.devices = 3;
    r.batch = 6;
    r.memory_bytes = memory_bytes;
    r.levels = 1;
    r.bandwidth_Bps[0] = 7;
    assert_int_equal(piper_read(&r, &in), STATUS_OK);
    double best = brute_force(&in);
    enum status st = piper_search(&in, &r, &usual, &plan, &o);
    if (isinf(best)) {
        assert_int_equal(st, STATUS_INFEASIBLE);
    } else {
        assert_int_equal(st, STATUS_OK);
        assert_close(o.value, best);
        assert_true(o.lower_bound <= o.value);
        assert_true(o.lower_bound >= o.value * (1 - 2e-9));
    }
    piper_plan_free(&plan);
    piper_input_free(&in);
}

static void finds_the_optimum_of_random_inputs(void **state)
{
    srand(3);
    for (int i = 0; i < 60; i++)
        compare_with_brute_force(&(struct shape){4, 2, 2, i % 2 == 0}, 15 + i % 30);
    for (int i = 0; i < 15; i++)
        compare_with_brute_force(&(struct shape){3, 1, 3, i % 2 == 0}, 12 + i);
}

static void falls_back_to_one_order_when_ideals_are_too_many(void **state)
{
    struct objective_request r = request();
    struct piper_input in;
    struct piper_plan plan;
    struct piper_outcome all, few;
    const struct piper_limits narrow = {5, PIPER_STATES};
    srand(8);
    write_random(&(struct shape){6, 1, 2, true});
    r.devices = 3;
    r.batch = 6;
    r.memory_bytes = 1000;
    r.levels = 1;
    r.bandwidth_Bps[0] = 7;
    assert_int_equal(piper_read(&r, &in), STATUS_OK);
    assert_int_equal(piper_search(&in, &r, &usual, &plan, &all), STATUS_OK);
    piper_plan_free(&plan);
    assert_int_equal(piper_search(&in, &r, &narrow, &plan, &few), STATUS_OK);
    assert_true(all.all_ideals && !few.all_ideals);
    assert_int_equal(few.ideals, 7);
    assert_true(few.value >= all.value);
    piper_plan_free(&plan);
    piper_input_free(&in);
}

static void refuses_a_cycle(void **state)
{
    char text[4096];
    const char *edges = strstr(two_ops, "\"syncTimeFw\": {}, \"syncTimeBw\": {\"9\": 0}},\n");
    assert_non_null(edges);
    struct objective_request r = request();
    struct piper_input in;
    /* The same ops with the edge in both directions and all synchronisation listed. */
    size_t length = 0;
    for (const char *c = two_ops; *c && length < sizeof text - 64;) {
        if (!strncmp(c, "\"syncTimeFw\": {}", 16)) {
            length += (size_t)sprintf(text + length, "\"syncTimeFw\": {\"9\": 0}");
            c += 16;
        } else if (!strncmp(c, "\"syncTimeBw\": {}", 16)) {
            length += (size_t)sprintf(text + length, "\"syncTimeBw\": {\"7\": 0}");
            c += 16;
        } else if (!strncmp(c, "\"edges\": [", 10)) {
            length += (size_t)sprintf(text + length, "\"edges\": [{\"sourceId\": 9, \"destId\": 7, "
                                                     "\"communicationCost\": 1}, ");
            c += 10;
        } else {
            text[length++] = *c++;
        }
    }
    text[length] = '\0';
    put_text(model_path, text);
    assert_int_equal(piper_read(&r, &in), STATUS_INVALID);
    assert_message(error_message(), "cycle");
}

static void stops_when_told(void **state)
{
    const volatile int stop = 1;
    struct objective_request r = request();
    struct objective_result out = {0};
    r.stop = &stop;
    put_text(model_path, two_ops);
    assert_int_equal(solve(&r, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "in time");
}

/* ---- allocations */

static enum status solve_once(const struct objective_request *r)
{
    struct objective_result out = {0};
    enum status st = solve(r, &out);
    objective_result_free(&out);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    struct objective_request r = request();
    double value;
    put_text(model_path, two_ops);
    r.memory_bytes = 130;
    FOR_EACH_ALLOC_FAILURE(solve_once(&r));
    put_text(split_path, "{\"parts\": [{\"ops\": [7, 9]}]}");
    r.memory_bytes = NAN;
    FOR_EACH_ALLOC_FAILURE(piper_score(&r, split_path, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_compute_edges_and_the_all_reduce_as_published),
        cmocka_unit_test(refuses_splits_that_break_a_limit),
        cmocka_unit_test(stashes_a_microbatch_for_every_replica_behind),
        cmocka_unit_test(options_replace_what_the_file_says),
        cmocka_unit_test(plans_two_ops_as_by_hand),
        cmocka_unit_test(says_how_much_memory_would_do),
        cmocka_unit_test(names_the_place_of_every_fault),
        cmocka_unit_test(finds_the_optimum_of_random_inputs),
        cmocka_unit_test(falls_back_to_one_order_when_ideals_are_too_many),
        cmocka_unit_test(refuses_a_cycle),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
