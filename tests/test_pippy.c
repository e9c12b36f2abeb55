/* PiPPy's graph split: presolve, value, two exact solvers against each other and brute force. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "papers/pippy/pippy.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

enum { MOST = 12 };

static void assert_close(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected) + 1e-9))
        fail_msg("%.17g, expected %.17g", value, expected);
}

static struct pippy_graph graph(size_t nodes, const double *memory, size_t edges,
                                const struct pippy_edge *edge)
{
    struct pippy_graph g = {.nodes = nodes, .edges = edges};
    g.memory = arena_new(&g.owned, nodes, sizeof *g.memory);
    g.edge = arena_new(&g.owned, edges, sizeof *g.edge);
    assert_true(g.memory && g.edge);
    memcpy(g.memory, memory, nodes * sizeof *memory);
    memcpy(g.edge, edge, edges * sizeof *edge);
    return g;
}

/* 0 -> 1 -> {2, 3} -> 4 -> 5: 0 has no memory, so its edge weighs nothing. Ends 0 and 5 merge with
 * their neighbours; the two ways between 1 and 4 stay. */
static struct pippy_graph diamond(void)
{
    const double memory[] = {0, 4, 3, 3, 4, 1};
    const struct pippy_edge edge[] = {{0, 1, 9, 1}, {1, 2, 5, 1}, {1, 3, 7, 1},
                                      {2, 4, 2, 1}, {3, 4, 2, 1}, {4, 5, 3, 1}};
    return graph(6, memory, 6, edge);
}

static void presolve_merges_ends_and_chains(void **state)
{
    struct pippy_graph g = diamond();
    struct pippy_problem p;
    assert_int_equal(pippy_presolve(&g, 2, &p), STATUS_OK);
    /* 4 -> 5: a sink with one edge. 0 -> 1: a source with one edge. 2 -> 4: 4 has two edges in. */
    assert_int_equal(p.nodes, 4);
    assert_int_equal(p.kept, 4);
    assert_int_equal(p.cluster_of[0], p.cluster_of[1]);
    assert_int_equal(p.cluster_of[4], p.cluster_of[5]);
    assert_close(p.all_weight, 19);
    assert_close(p.all_memory, 15);
    assert_close(p.inner[p.cluster_of[5]], 3);
    pippy_problem_free(&p);
    pippy_graph_free(&g);
}

static void parallel_edges_count_each_and_weigh_together(void **state)
{
    const double memory[] = {1, 1, 1, 1};
    const struct pippy_edge edge[] = {{0, 1, 2, 1}, {0, 1, 3, 1}, {1, 2, 1, 1},
                                      {1, 3, 1, 1}, {0, 2, 1, 1}, {2, 3, 1, 1}};
    struct pippy_graph g = graph(4, memory, 6, edge);
    struct pippy_problem p;
    assert_int_equal(pippy_presolve(&g, 2, &p), STATUS_OK);
    assert_int_equal(p.kept, 6);
    assert_int_equal(p.edges, 5);
    assert_close(p.edge[0].weight, 5);
    assert_int_equal(p.edge[0].count, 2);
    pippy_problem_free(&p);
    pippy_graph_free(&g);
}

static void the_value_is_cut_plus_heaviest_stage(void **state)
{
    struct pippy_graph g = diamond();
    struct pippy_problem p;
    double value;
    assert_int_equal(pippy_presolve(&g, 2, &p), STATUS_OK);
    /* {0, 1} and the rest: cut 5 + 7 and two edges; the rest touches all 19; less 19 and 4 edges.
     */
    const uint32_t early[] = {0, 0, 1, 1, 1, 1};
    assert_int_equal(pippy_value(&g, &p, early, &value), STATUS_OK);
    assert_close(value, 14 + 19 - 19 - 4);
    /* Before node 4: cut 2 + 2 and two edges; the first stage touches 16. */
    const uint32_t late[] = {0, 0, 0, 0, 1, 1};
    assert_int_equal(pippy_value(&g, &p, late, &value), STATUS_OK);
    assert_close(value, 6 + 16 - 19 - 4);
    const uint32_t backwards[] = {1, 0, 0, 0, 0, 0};
    assert_int_equal(pippy_value(&g, &p, backwards, &value), STATUS_INVALID);
    pippy_problem_free(&p);
    pippy_graph_free(&g);
}

/* ---- random graphs */

static struct pippy_graph random_graph(size_t nodes)
{
    double memory[MOST];
    struct pippy_edge edge[MOST * MOST];
    size_t edges = 0;
    for (uint32_t v = 0; v < nodes; v++) {
        memory[v] = rand() % 10;
        for (uint32_t u = 0; u < v; u++)
            for (int twice = 0; twice < 2; twice++)
                if (rand() % 4 == 0)
                    edge[edges++] = (struct pippy_edge){u, v, rand() % 20, 1};
    }
    return graph(nodes, memory, edges, edge);
}

/* Does the split of the clusters keep to the program's limits? */
static bool allowed(const struct pippy_problem *p, const uint32_t *at)
{
    const struct pippy_limits most = pippy_limits(p);
    for (size_t j = 0; j < p->stages; j++) {
        double memory = 0, inside = 0, touching = 0;
        for (size_t i = 0; i < p->nodes; i++)
            if (at[i] == j) {
                memory += p->memory[i];
                inside += p->inner[i];
                touching += p->inner[i];
            }
        for (size_t e = 0; e < p->edges; e++) {
            bool from = at[p->edge[e].from] == j, to = at[p->edge[e].to] == j;
            inside += from && to ? p->edge[e].weight : 0;
            touching += from || to ? p->edge[e].weight : 0;
        }
        if (memory > most.memory + 1e-9 || inside > most.inside + 1e-9 ||
            touching > most.touching + 1e-9)
            return false;
    }
    return true;
}

static double value_of(const struct pippy_graph *g, const struct pippy_problem *p,
                       const uint32_t *cluster_at)
{
    uint32_t at[MOST];
    double value;
    for (size_t v = 0; v < g->nodes; v++)
        at[v] = cluster_at[p->cluster_of[v]];
    return pippy_value(g, p, at, &value) == STATUS_OK ? value : INFINITY;
}

static double brute_force(const struct pippy_graph *g, const struct pippy_problem *p, size_t i,
                          uint32_t *at)
{
    double best = INFINITY;
    if (i == p->nodes)
        return allowed(p, at) ? value_of(g, p, at) : INFINITY;
    for (at[i] = 0; at[i] < p->stages; at[i]++)
        best = fmin(best, brute_force(g, p, i + 1, at));
    return best;
}

static void both_solvers_find_the_optimum_of_random_graphs(void **state)
{
    struct objective_request r = {0};
    size_t feasible = 0;
    srand(11);
    for (int round = 0; round < 60; round++) {
        struct pippy_graph g = random_graph(3 + (size_t)rand() % 5);
        struct pippy_problem p;
        uint32_t at[MOST];
        enum pippy_verdict verdict;
        size_t ideals;
        assert_int_equal(pippy_presolve(&g, 1 + (size_t)rand() % 4, &p), STATUS_OK);
        double best = brute_force(&g, &p, 0, at);
        enum pippy_verdict expected = isinf(best) ? PIPPY_INFEASIBLE : PIPPY_OPTIMAL;
        feasible += expected == PIPPY_OPTIMAL;
        assert_int_equal(pippy_ideals(&p, &r, 1000, at, &verdict, &ideals), STATUS_OK);
        assert_int_equal(verdict, expected);
        if (verdict == PIPPY_OPTIMAL) {
            assert_true(allowed(&p, at));
            assert_close(value_of(&g, &p, at), best);
        }
        assert_int_equal(pippy_branch(&p, &r, at, &verdict), STATUS_OK);
        assert_int_equal(verdict, expected);
        if (verdict == PIPPY_OPTIMAL)
            assert_close(value_of(&g, &p, at), best);
        pippy_problem_free(&p);
        pippy_graph_free(&g);
    }
    assert_in_range(feasible, 10, 59);
}

static void too_many_ideals_are_left_to_the_integer_program(void **state)
{
    struct objective_request r = {0};
    struct pippy_graph g = diamond();
    struct pippy_problem p;
    uint32_t at[MOST];
    enum pippy_verdict verdict;
    size_t ideals;
    assert_int_equal(pippy_presolve(&g, 2, &p), STATUS_OK);
    assert_int_equal(pippy_ideals(&p, &r, 3, at, &verdict, &ideals), STATUS_OK);
    assert_int_equal(verdict, PIPPY_UNKNOWN);
    assert_int_equal(ideals, 0);
    pippy_problem_free(&p);
    pippy_graph_free(&g);
}

static void the_balanced_split_always_exists(void **state)
{
    srand(12);
    for (int round = 0; round < 60; round++) {
        struct pippy_graph g = random_graph(1 + (size_t)rand() % 8);
        struct pippy_problem p;
        uint32_t at[MOST];
        size_t used, stages = 1 + (size_t)rand() % 6, filled = 0;
        double value;
        assert_int_equal(pippy_presolve(&g, stages, &p), STATUS_OK);
        assert_int_equal(pippy_balance(&g, &p, at, &used), STATUS_OK);
        assert_int_equal(used, stages < g.nodes ? stages : g.nodes);
        for (uint32_t s = 0; s < stages; s++)
            for (size_t v = 0; v < g.nodes; v++)
                if (at[v] == s) {
                    filled++;
                    break;
                }
        assert_int_equal(filled, used);
        assert_int_equal(pippy_value(&g, &p, at, &value), STATUS_OK);
        pippy_problem_free(&p);
        pippy_graph_free(&g);
    }
}

/* ---- split by size */

static struct model sized_chain(size_t n, const int64_t *parameters)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    m.element_bytes = 4;
    for (size_t i = 0; i < n; i++)
        m.op[i].parameter_bytes = 4 * parameters[i];
    return m;
}

static void the_threshold_cuts_as_published(void **state)
{
    const int64_t size[] = {3, 3, 3, 9, 1};
    struct model m = sized_chain(5, size);
    const uint32_t published[] = {0, 0, 1, 2, 3}, three[] = {0, 0, 1, 2, 2};
    uint32_t at[5];
    size_t used;
    assert_int_equal(pippy_by_threshold(&m, 6, SIZE_MAX, at, &used), STATUS_OK);
    assert_int_equal(used, 4);
    assert_memory_equal(at, published, sizeof at);
    assert_int_equal(pippy_by_threshold(&m, 6, 3, at, &used), STATUS_OK);
    assert_int_equal(used, 3);
    assert_memory_equal(at, three, sizeof at);
    model_free(&m);
}

static void an_op_above_the_threshold_is_cut_off_behind(void **state)
{
    const int64_t size[] = {9, 1, 1};
    struct model m = sized_chain(3, size);
    const uint32_t expected[] = {0, 1, 1};
    uint32_t at[3];
    size_t used;
    assert_int_equal(pippy_by_threshold(&m, 3, SIZE_MAX, at, &used), STATUS_OK);
    assert_int_equal(used, 2);
    assert_memory_equal(at, expected, sizeof at);
    model_free(&m);
}

static enum status run(const char *algorithm, const struct objective_request *r,
                       struct objective_result *out)
{
    return objective_solve(&objective_pippy, algorithm, r, out);
}

static void sizesplit_returns_as_many_stages_as_wanted(void **state)
{
    const int64_t size[] = {1, 1, 1, 97};
    struct model m = sized_chain(4, size);
    struct objective_result out;
    for (size_t stages = 1; stages <= 4; stages++) {
        struct objective_request r = {.model = &m, .stages = stages};
        assert_int_equal(run("sizesplit", &r, &out), STATUS_OK);
        assert_int_equal(out.parts, stages);
        objective_result_free(&out);
    }
    struct objective_request r = {.model = &m, .stages = 4};
    assert_int_equal(run("sizesplit", &r, &out), STATUS_OK);
    assert_non_null(strstr(out.note, "stops at 2 stages"));
    objective_result_free(&out);
    r.stages = 5;
    out = (struct objective_result){0};
    assert_int_equal(run("sizesplit", &r, &out), STATUS_INFEASIBLE);
    model_free(&m);
}

static void sizesplit_takes_a_threshold(void **state)
{
    const int64_t size[] = {3, 3, 3, 9, 1};
    static const size_t ops[] = {2, 1, 1, 1};
    struct model m = sized_chain(5, size);
    struct objective_request r = {.model = &m, .said.threshold = 6};
    struct objective_result out;
    assert_int_equal(run("sizesplit", &r, &out), STATUS_OK);
    assert_int_equal(out.parts, 4);
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(out.part[k].ops, ops[k]);
    objective_result_free(&out);
    r.stages = 3; /* at most */
    assert_int_equal(run("sizesplit", &r, &out), STATUS_OK);
    assert_int_equal(out.parts, 3);
    objective_result_free(&out);
    out = (struct objective_result){0};
    assert_int_equal(run("milp", &r, &out), STATUS_USAGE);
    r.said.compat = true;
    assert_int_equal(run("sizesplit", &r, &out), STATUS_USAGE);
    model_free(&m);
}

/* The published walk makes 2 stages of 4, the published program none. */
static void what_fails_in_the_original_fails_on_request(void **state)
{
    const int64_t size[] = {1, 1, 1, 97}, even[] = {1, 1, 1, 1};
    struct model m = sized_chain(4, size);
    struct objective_request r = {.model = &m, .stages = 4, .said.compat = true};
    struct objective_result out = {0};
    assert_int_equal(run("sizesplit", &r, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "makes 2 stages, not 4");
    assert_int_equal(run("milp", &r, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "one cluster of ops needs");
    model_free(&m);
    m = sized_chain(4, even);
    r.model = &m;
    assert_int_equal(run("sizesplit", &r, &out), STATUS_OK);
    assert_int_equal(out.parts, 4);
    objective_result_free(&out);
    model_free(&m);
}

static void an_infeasible_program_still_gives_a_plan(void **state)
{
    const int64_t size[] = {1, 1, 1, 97};
    struct model m = sized_chain(4, size);
    struct objective_request r = {.model = &m, .stages = 4};
    struct objective_result out;
    assert_int_equal(run("milp", &r, &out), STATUS_OK);
    assert_int_equal(out.parts, 4);
    assert_false(out.proved_optimal);
    assert_non_null(
        strstr(out.note, "infeasible, balanced split instead: one cluster of ops needs"));
    assert_non_null(strstr(out.note, "4 nodes and 3 edges (1 and 0 after presolve)"));
    objective_result_free(&out);
    model_free(&m);
}

static void needs_stages_and_a_model(void **state)
{
    const int64_t size[] = {1, 1};
    struct model m = sized_chain(2, size);
    struct objective_result out = {0};
    struct objective_request r = {.model = &m};
    assert_int_equal(run("milp", &r, &out), STATUS_INVALID);
    assert_message(error_message(), "--stages");
    r = (struct objective_request){.stages = 2};
    assert_int_equal(run("milp", &r, &out), STATUS_INVALID);
    r = (struct objective_request){.model = &m, .stages = 1000000};
    assert_int_equal(run("milp", &r, &out), STATUS_INVALID);
    model_free(&m);
}

static void a_score_is_the_value_of_the_split(void **state)
{
    const int64_t size[] = {1, 1, 1, 1};
    struct model m = sized_chain(4, size);
    struct objective_request r = {.model = &m, .stages = 2};
    static const char path[] = BINARY_DIR "/test_pippy.json";
    char text[128];
    double value;
    for (size_t i = 0; i < 4; i++)
        m.op[i].output_bytes = 40;
    snprintf(text, sizeof text,
             "{\"parts\": [{\"ops\": [\"%s\", \"%s\"]}, {\"ops\": [\"%s\", \"%s\"]}]}",
             m.op[0].name, m.op[1].name, m.op[2].name, m.op[3].name);
    put_text(path, text);
    /* Three edges of 10, all merged by presolve: cut 10, stages touch 20 each, less 30. */
    assert_int_equal(objective_pippy.score(&r, path, &value), STATUS_OK);
    assert_close(value, 10 + 20 - 30);
    model_free(&m);
}

static void stops_when_told_with_a_balanced_split(void **state)
{
    const int64_t size[] = {1, 1, 1, 1};
    const volatile int stop = 1;
    struct model m = sized_chain(4, size);
    struct objective_request r = {.model = &m, .stages = 2, .stop = &stop};
    struct objective_result out;
    assert_int_equal(run("milp", &r, &out), STATUS_OK);
    assert_true(out.interrupted);
    assert_int_equal(out.parts, 2);
    objective_result_free(&out);
    model_free(&m);
}

static enum status run_once(const char *algorithm, const struct objective_request *r)
{
    struct objective_result out = {0};
    enum status st = run(algorithm, r, &out);
    objective_result_free(&out);
    return st;
}

static enum status branch_once(const struct pippy_problem *p, const struct objective_request *r)
{
    uint32_t at[MOST];
    enum pippy_verdict verdict;
    return pippy_branch(p, r, at, &verdict);
}

static void survives_every_failing_allocation(void **state)
{
    const int64_t size[] = {1, 1, 1, 97};
    struct model m = sized_chain(4, size);
    struct objective_request r = {.model = &m, .stages = 3};
    FOR_EACH_ALLOC_FAILURE(run_once("milp", &r));
    FOR_EACH_ALLOC_FAILURE(run_once("sizesplit", &r));
    struct pippy_graph g = diamond();
    struct pippy_problem p;
    assert_int_equal(pippy_presolve(&g, 2, &p), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(branch_once(&p, &r));
    pippy_problem_free(&p);
    pippy_graph_free(&g);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presolve_merges_ends_and_chains),
        cmocka_unit_test(parallel_edges_count_each_and_weigh_together),
        cmocka_unit_test(the_value_is_cut_plus_heaviest_stage),
        cmocka_unit_test(both_solvers_find_the_optimum_of_random_graphs),
        cmocka_unit_test(too_many_ideals_are_left_to_the_integer_program),
        cmocka_unit_test(the_balanced_split_always_exists),
        cmocka_unit_test(the_threshold_cuts_as_published),
        cmocka_unit_test(an_op_above_the_threshold_is_cut_off_behind),
        cmocka_unit_test(sizesplit_returns_as_many_stages_as_wanted),
        cmocka_unit_test(sizesplit_takes_a_threshold),
        cmocka_unit_test(what_fails_in_the_original_fails_on_request),
        cmocka_unit_test(an_infeasible_program_still_gives_a_plan),
        cmocka_unit_test(needs_stages_and_a_model),
        cmocka_unit_test(a_score_is_the_value_of_the_split),
        cmocka_unit_test(stops_when_told_with_a_balanced_split),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
