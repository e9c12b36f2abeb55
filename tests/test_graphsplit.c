/* The graph split by times: against all splits of small graphs, and against the automatic split of
 * random ones by its own estimate and by the analytic engine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/data/edges.h"
#include "papers/command/objective_target.h"
#include "papers/pippy/pippy.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { MOST = 80 };

/* A graph of n ops: each reads the one before it, mostly, and up to `more` others, some of them
 * near. Every third op has no parameters, one has most of them. */
static struct model random_graph(uint64_t *state, size_t n, uint32_t more)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge edge[MOST * 5];
    size_t edges = 0;
    for (uint32_t v = 0; v < n; v++) {
        m.op[v].output_bytes = m.op[v].stash_bytes = 4 * (1 + random_below(state, 1000000));
        m.op[v].parameter_bytes = v % 3 ? 4 * random_below(state, 1000000) : 0;
        m.profile[0].forward_s[v] = 1e-6 * random_below(state, 2000);
        m.profile[0].backward_s[v] = 2 * m.profile[0].forward_s[v];
        if (v > 0 && random_below(state, 8) > 0)
            edge[edges++] = (struct model_edge){v - 1, v};
        for (uint32_t k = 0; v > 1 && k < random_below(state, more + 1); k++) {
            uint32_t far = random_below(state, 2) ? v - 1 : v < 4 ? v - 1 : 3;
            edge[edges++] = (struct model_edge){v - 1 - random_below(state, far), v};
        }
    }
    m.op[random_below(state, (uint32_t)n)].parameter_bytes += 4 * random_below(state, 10000000);
    qsort(edge, edges, sizeof *edge, edges_compare);
    size_t kept = 0;
    for (size_t e = 0; e < edges; e++)
        if (!kept || edges_compare(&edge[kept - 1], &edge[e]))
            edge[kept++] = edge[e];
    sample_rewire(&m, edge, kept);
    return m;
}

/* ---- all splits */

struct brute {
    const struct model *m;
    const struct topology *t;
    size_t stages;
    double others, samples, best;
    uint32_t at[MOST];
};

/* By the definition at the head of graphsplit.c. */
static double definition(const struct brute *b)
{
    double sum = 0, most = 0;
    const struct model *m = b->m;
    for (uint32_t s = 0; s < b->stages; s++) {
        double work = 0, bytes = 0;
        size_t ops = 0;
        for (size_t i = 0; i < m->n; i++) {
            bool read = false;
            for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++) {
                if (b->at[m->out[k]] < b->at[i])
                    return INFINITY;
                read = read || b->at[m->out[k]] == s;
            }
            if (b->at[i] == s) {
                work += b->samples * (m->profile[0].forward_s[i] + m->profile[0].backward_s[i]);
                ops++;
            } else if (read) {
                bytes += (double)m->op[i].output_bytes;
            }
        }
        double in =
            bytes > 0
                ? 2 * (b->t->tier[0].latency_s + b->samples * bytes / b->t->tier[0].bandwidth_Bps)
                : 0;
        if (!ops)
            return INFINITY;
        sum += work + in;
        most = fmax(most, fmax(work, in));
    }
    return sum + b->others * most;
}

static void try_all(struct brute *b, size_t i)
{
    if (i == b->m->n) {
        b->best = fmin(b->best, definition(b));
        return;
    }
    for (b->at[i] = 0; b->at[i] < b->stages; b->at[i]++)
        try_all(b, i + 1);
}

static void finds_the_least_estimate_of_all_splits(void **state)
{
    uint64_t seed = 17;
    for (int round = 0; round < 120; round++) {
        size_t n = 2 + random_below(&seed, 6);
        struct model m = random_graph(&seed, n, 2);
        struct topology t = sample_clique(4, 1e-6 * random_below(&seed, 1000),
                                          1e8 * pow(10, random_below(&seed, 4)));
        struct brute b = {.m = &m,
                          .t = &t,
                          .stages = 1 + random_below(&seed, n < 4 ? (uint32_t)n : 4),
                          .others = random_below(&seed, 9),
                          .samples = 1 + random_below(&seed, 3),
                          .best = INFINITY};
        const struct objective_request r = {.model = &m,
                                            .topology = &t,
                                            .stages = b.stages,
                                            .optimizer = "adam",
                                            .microbatches = (uint32_t)b.others + 1,
                                            .microbatch_size = (uint32_t)b.samples};
        struct pippy_timed x;
        try_all(&b, 0);
        assert_int_equal(pippy_by_time(&r, &x), STATUS_OK);
        assert_true(x.exact && x.in_order && x.tried > 0);
        assert_near(x.seconds[x.tried - 1], b.best, 1e-9 * b.best);
        memcpy(b.at, x.stage_of[x.tried - 1], n * sizeof *b.at);
        assert_near(definition(&b), b.best, 1e-9 * b.best);
        pippy_timed_free(&x);
        topology_free(&t);
        model_free(&m);
    }
}

/* ---- against the automatic split */

/* What the split of an algorithm is worth; its own result in *out. */
static double simulated(struct objective_request *r, const char *algorithm, const char *schedule,
                        struct objective_result *out)
{
    double seconds;
    struct objective_plan_request q = {.objective = &objective_pippy,
                                       .request = r,
                                       .model = r->model,
                                       .members = &(struct import_members){0},
                                       .topology = r->topology,
                                       .model_name = "graph",
                                       .platform_name = "clique",
                                       .schedule = schedule,
                                       .optimizer = r->optimizer,
                                       .microbatches = r->microbatches,
                                       .microbatch_size = r->microbatch_size};
    r->simulate = objective_simulate;
    r->simulator = &q;
    assert_int_equal(objective_solve(&objective_pippy, algorithm, r, out), STATUS_OK);
    assert_int_equal(objective_simulate(&q, out, &seconds), STATUS_OK);
    assert_true(isfinite(seconds));
    return seconds;
}

static void is_never_slower_than_the_split_by_size(void **state)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    enum { ROUNDS = 300 };
    uint64_t seed = 18;
    size_t faster = 0;
    double log_sum = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct model m =
            random_graph(&seed, 10 + random_below(&seed, MOST - 10), random_below(&seed, 3));
        struct topology t = sample_clique(6, 1e-6 * random_below(&seed, 100),
                                          1e9 * pow(10, random_below(&seed, 3)));
        struct objective_request r = {.model = &m,
                                      .topology = &t,
                                      .stages = 2 + random_below(&seed, 5),
                                      .optimizer = "sgd",
                                      .microbatches = 1 + random_below(&seed, 16),
                                      .microbatch_size = 1 + random_below(&seed, 4)};
        const char *schedule = schedules[random_below(&seed, 2)];
        struct objective_result graph, size;
        struct pippy_timed x;
        double ratio =
            simulated(&r, NULL, schedule, &graph) / simulated(&r, "sizesplit", schedule, &size);
        assert_string_equal(graph.algorithm, "graphsplit");
        assert_int_equal(graph.parts, r.stages);
        assert_true(ratio <= 1);
        assert_int_equal(pippy_by_time(&r, &x), STATUS_OK);
        assert_near(x.seconds[0], x.by_size_s, 0);
        for (size_t i = 1; i < x.tried; i++)
            assert_true(x.seconds[i] < x.seconds[i - 1]);
        log_sum += log(ratio);
        faster += ratio < 1;
        pippy_timed_free(&x);
        objective_result_free(&graph);
        objective_result_free(&size);
        topology_free(&t);
        model_free(&m);
    }
    print_message("%zu of %d graphs faster, mean time %.3f\n", faster, ROUNDS,
                  exp(log_sum / ROUNDS));
    assert_true(faster > ROUNDS * 9 / 10);
}

/* Without a simulator. */
static void says_what_it_estimates(void **state)
{
    struct model m = sample_chain(6, 1e-3, 2e-3, 4000, 4000);
    struct topology t = sample_clique(2, 0, 1e9);
    struct objective_request r = {
        .model = &m, .topology = &t, .stages = 2, .optimizer = "sgd", .microbatches = 2};
    struct objective_result out;
    m.op[0].parameter_bytes = 400000; /* by size the first op alone: 3 + 15 + 15 ms */
    assert_int_equal(objective_solve(&objective_pippy, NULL, &r, &out), STATUS_OK);
    assert_int_equal(out.part[0].ops, 3); /* 9 + 9 + 9 ms, and 8 us there and back */
    assert_string_equal(out.note,
                        "estimated 27.01 ms per iteration (split by size: estimated 33.01 ms); "
                        "dynamic program over 7 down-sets (sets with all predecessors)");
    objective_result_free(&out);
    topology_free(&t);
    model_free(&m);
}

static void refuses_what_it_cannot_plan_for(void **state)
{
    struct model m = sample_chain(3, 1, 1, 4, 4);
    struct topology t = sample_clique(2, 0, 1e9);
    struct objective_result out = {0};
    struct objective_request r = {.model = &m, .stages = 2};
    assert_int_equal(objective_solve(&objective_pippy, NULL, &r, &out), STATUS_USAGE);
    assert_message(error_message(), "--platform");
    r = (struct objective_request){.model = &m, .topology = &t, .stages = 3};
    assert_int_equal(objective_solve(&objective_pippy, NULL, &r, &out), STATUS_INFEASIBLE);
    assert_message(error_message(), "got 3 stages, but the platform has 2 devices");
    r = (struct objective_request){.model = &m, .topology = &t, .stages = 2, .said.compat = true};
    assert_int_equal(objective_solve(&objective_pippy, NULL, &r, &out), STATUS_USAGE);
    r = (struct objective_request){.model = &m, .topology = &t, .stages = 2, .said.threshold = 1};
    assert_int_equal(objective_solve(&objective_pippy, NULL, &r, &out), STATUS_USAGE);
    topology_free(&t);
    model_free(&m);
}

/* More ideals than are looked at: a star of many ops that only the last one reads. */
static void follows_the_order_where_ideals_are_many(void **state)
{
    enum { LEAVES = 40 };
    struct model m = sample_chain(LEAVES + 1, 1e-3, 1e-3, 4, 4);
    struct model_edge edge[LEAVES];
    struct topology t = sample_clique(4, 0, 1e9);
    struct objective_request r = {.model = &m, .topology = &t, .stages = 4, .optimizer = "sgd"};
    struct pippy_timed x;
    for (uint32_t i = 0; i < LEAVES; i++)
        edge[i] = (struct model_edge){i, LEAVES};
    sample_rewire(&m, edge, LEAVES);
    assert_int_equal(pippy_by_time(&r, &x), STATUS_OK);
    assert_true(x.in_order && !x.exact && !x.interrupted);
    assert_int_equal(x.ideals, LEAVES + 2);
    pippy_timed_free(&x);
    const volatile int stop = 1;
    r.stop = &stop;
    assert_int_equal(pippy_by_time(&r, &x), STATUS_OK);
    assert_true(x.interrupted && !x.in_order);
    pippy_timed_free(&x);
    topology_free(&t);
    model_free(&m);
}

static enum status solve_once(const struct objective_request *r)
{
    struct pippy_timed x = {0};
    enum status st = pippy_by_time(r, &x);
    pippy_timed_free(&x);
    return st;
}

static void survives_failing_allocations(void **state)
{
    uint64_t seed = 19;
    struct model m = random_graph(&seed, 12, 1);
    struct topology t = sample_clique(3, 1e-6, 1e9);
    struct objective_request r = {.model = &m, .topology = &t, .stages = 3, .optimizer = "sgd"};
    FOR_EACH_ALLOC_FAILURE(solve_once(&r));
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_least_estimate_of_all_splits),
        cmocka_unit_test(is_never_slower_than_the_split_by_size),
        cmocka_unit_test(says_what_it_estimates),
        cmocka_unit_test(refuses_what_it_cannot_plan_for),
        cmocka_unit_test(follows_the_order_where_ideals_are_many),
        cmocka_unit_test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
