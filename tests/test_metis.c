/* METIS as a baseline: parts of graphs, placements within memory, contiguous stages. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "papers/placement/problem.h"
#include "partition/graph/metis.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

static const struct metis_options usual = {.seed = 1, .imbalance = 1.05};
static const char path[] = BINARY_DIR "/test_metis.json";

/* Skips the test in a build without METIS. */
static void need_metis(void)
{
    const double weight[3] = {1, 1, 1};
    const struct metis_graph g = {.n = 3, .weight = weight};
    uint32_t part[3];
    if (metis_partition(&g, 2, &usual, part) == STATUS_UNSUPPORTED) {
        print_message("%s\n", error_message());
        skip();
    }
}

static uint32_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes */
    return (seed >> 8) % n;
}

/* ---- parts of graphs */

static void two_cliques_are_told_apart(void **state)
{
    enum { HALF = 6, N = 2 * HALF };
    double weight[N];
    struct metis_edge edge[N * N];
    uint32_t part[N];
    size_t edges = 0;
    need_metis();
    for (uint32_t v = 0; v < N; v++) {
        weight[v] = 0.25;
        for (uint32_t u = 0; u < v; u++)
            if (u % 2 == v % 2) /* odd and even vertices */
                edge[edges++] = (struct metis_edge){u, v, 10};
    }
    edge[edges++] = (struct metis_edge){0, 1, 1};
    edge[edges++] = (struct metis_edge){4, 4, 1000}; /* to itself: ignored */
    const struct metis_graph g = {N, weight, edges, edge};
    assert_int_equal(metis_partition(&g, 2, &usual, part), STATUS_OK);
    assert_true(part[0] != part[1]);
    for (size_t v = 2; v < N; v++)
        assert_int_equal(part[v], part[v % 2]);
}

static void few_vertices_are_parts_of_their_own(void **state)
{
    const double weight[3] = {0, 5, 1};
    const struct metis_edge edge = {0, 2, 1};
    const struct metis_graph g = {3, weight, 1, &edge};
    uint32_t part[3];
    need_metis();
    assert_int_equal(metis_partition(&g, 9, &usual, part), STATUS_OK);
    assert_true(part[0] == 0 && part[1] == 1 && part[2] == 2);
    assert_int_equal(metis_partition(&g, 1, &usual, part), STATUS_OK);
    assert_true(part[0] == 0 && part[1] == 0 && part[2] == 0);
}

/* Odd graphs: no edges, no weight at all, one giant vertex, barely more vertices than parts. METIS
 * must neither fail nor print, since standard output is for results. */
static void odd_graphs_give_parts_in_range_and_no_output(void **state)
{
    enum { MOST = 24 };
    need_metis();
    seed = 7;
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    assert_true(kept >= 0);
    assert_non_null(freopen(path, "w", stdout));
    bool valid = true;
    for (int round = 0; round < 3000; round++) {
        double weight[MOST];
        struct metis_edge edge[3 * MOST];
        uint32_t part[MOST], again[MOST], n = 1 + below(MOST), parts = 1 + below(MOST);
        for (uint32_t v = 0; v < n; v++)
            weight[v] = round % 4 == 0 ? 0 : below(round % 4 == 1 ? 3 : 1000000);
        if (round % 7 == 0)
            weight[0] = 1e15;
        size_t edges = below(3 * n);
        for (size_t e = 0; e < edges; e++)
            edge[e] = (struct metis_edge){below(n), below(n), below(5) * 1e-3};
        const struct metis_graph g = {n, weight, edges, edge};
        const struct metis_options o = {.seed = (uint64_t)round, .imbalance = 1.03};
        valid = valid && metis_partition(&g, parts, &o, part) == STATUS_OK &&
                metis_partition(&g, parts, &o, again) == STATUS_OK &&
                memcmp(part, again, n * sizeof *part) == 0;
        for (uint32_t v = 0; v < n; v++)
            valid = valid && part[v] < parts;
    }
    fflush(stdout);
    long printed = ftell(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    assert_true(valid);
    assert_int_equal(printed, 0);
}

/* ---- placement */

static void write_random(uint32_t n, uint32_t accelerators, uint32_t cpus, uint32_t memory)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"maxSizePerFPGA\": %u, \"maxFPGAs\": %u, \"maxCPUs\": %u, \"nodes\": [", memory,
            accelerators, cpus);
    for (uint32_t v = 0; v < n; v++)
        fprintf(f,
                "%s{\"id\": %u, \"cpuLatency\": %u, \"fpgaLatency\": %u, \"size\": %u, "
                "\"supportedOnFpga\": %d}",
                v ? ", " : "", v, 10 + below(50), below(9), below(5), !cpus || below(8) > 0);
    fprintf(f, "], \"edges\": [");
    for (uint32_t v = 1; v < n; v++) /* all edges out of u cost the same */
        fprintf(f, "%s{\"sourceId\": %u, \"destId\": %u, \"cost\": 0.5}", v > 1 ? ", " : "",
                below(v), v);
    fprintf(f, "]}");
    assert_int_equal(fclose(f), 0);
}

/* Least value of any assignment within memory, by trying all. */
static double least_value(const struct placement_problem *p)
{
    size_t devices = p->accelerators + p->cpus, all = 1;
    double best = INFINITY, load[8], size[8];
    bool on_cpu[8];
    uint32_t at[8];
    for (size_t d = 0; d < devices; d++)
        on_cpu[d] = d >= p->accelerators;
    for (size_t v = 0; v < p->n; v++)
        all *= devices;
    for (size_t code = 0; code < all; code++) {
        bool fits = true;
        memset(size, 0, sizeof size);
        for (size_t v = 0, rest = code; v < p->n; v++, rest /= devices) {
            at[v] = (uint32_t)(rest % devices);
            size[at[v]] += p->latency[v].size;
            fits = fits && (on_cpu[at[v]] || p->latency[v].supported);
        }
        for (size_t d = 0; d < p->accelerators; d++)
            fits = fits && size[d] <= p->memory_bytes;
        if (!fits)
            continue;
        assert_int_equal(placement_loads(p, at, devices, on_cpu, load), STATUS_OK);
        double value = 0;
        for (size_t d = 0; d < devices; d++)
            value = fmax(value, load[d]);
        best = fmin(best, value);
    }
    return best;
}

/* Every node placed once, within memory; returns the parts' own value. */
static double check_result(const struct placement_problem *p, const struct objective_result *r)
{
    uint32_t at[16];
    bool on_cpu[16];
    double load[16], value = 0;
    size_t placed = 0;
    for (size_t i = 0; i < r->parts; i++) {
        double size = 0;
        on_cpu[i] = !strncmp(r->part[i].device, "cpu", 3);
        for (size_t k = 0; k < r->part[i].ops; k++, placed++) {
            size_t v = nodes_find(&p->file, atoll(r->part[i].op[k]));
            assert_true(v < p->n);
            assert_true(on_cpu[i] || p->latency[v].supported);
            at[v] = (uint32_t)i;
            size += p->latency[v].size;
        }
        assert_true(on_cpu[i] || size <= p->memory_bytes);
    }
    assert_int_equal(placed, p->n);
    assert_int_equal(placement_loads(p, at, r->parts, on_cpu, load), STATUS_OK);
    for (size_t i = 0; i < r->parts; i++)
        value = fmax(value, load[i]);
    return value;
}

static void placements_respect_memory_and_are_scored_exactly(void **state)
{
    size_t solved = 0, infeasible = 0;
    need_metis();
    seed = 11;
    for (int round = 0; round < 300; round++) {
        struct objective_request r = {.spec = path, .seed = 5, .memory_bytes = NAN};
        struct placement_problem p = {0};
        struct objective_result out = {0};
        write_random(1 + below(7), 1 + below(3), below(2), below(4) ? 6 + below(8) : 2);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        double least = least_value(&p);
        enum status st = objective_solve(&objective_placement, "metis", &r, &out);
        if (st == STATUS_OK) {
            assert_near(out.value, check_result(&p, &out), 1e-12);
            assert_true(out.value >= least - 1e-12);
            assert_true(isnan(out.lower_bound) && !out.proved_optimal);
            solved++;
        } else {
            assert_int_equal(st, STATUS_INFEASIBLE);
            assert_true(p.cpus == 0); /* a CPU takes everything */
            infeasible++;
        }
        objective_result_free(&out);
        placement_free(&p);
    }
    assert_true(solved > 200 && infeasible > 0);
}

static void says_why_there_is_no_placement(void **state)
{
    static const struct {
        const char *text, *what;
    } row[] = {
        {"{\"maxSizePerFPGA\": 4, \"maxFPGAs\": 0, \"maxCPUs\": 1, \"nodes\": [{\"id\": 1, "
         "\"cpuLatency\": 1, \"fpgaLatency\": 1}], \"edges\": []}",
         "needs accelerators"},
        {"{\"maxSizePerFPGA\": 4, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [{\"id\": 1, "
         "\"cpuLatency\": 1, \"fpgaLatency\": 1, \"size\": 5}], \"edges\": []}",
         "fits accelerators of 4 bytes"},
        {"{\"maxSizePerFPGA\": 4, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [{\"id\": 1, "
         "\"cpuLatency\": 1, \"fpgaLatency\": 1, \"supportedOnFpga\": 0}], \"edges\": []}",
         "there is no CPU"},
    };
    need_metis();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct objective_request r = {.spec = path, .memory_bytes = NAN};
        struct objective_result out = {0};
        put_text(path, row[i].text);
        assert_int_equal(objective_solve(&objective_placement, "metis", &r, &out),
                         STATUS_INFEASIBLE);
        if (!message_says(error_message(), row[i].what))
            fail_msg("%s", error_message());
    }
}

/* A cycle, a node apart from the rest, nodes without cost, more devices than nodes. */
static void hostile_placements_give_a_plan(void **state)
{
    struct objective_request r = {.spec = path, .memory_bytes = NAN, .devices = 9};
    struct placement_problem p = {0};
    struct objective_result out = {0};
    need_metis();
    put_text(path, "{\"maxSizePerFPGA\": 4, \"maxFPGAs\": 1, \"maxCPUs\": 0, \"nodes\": ["
                   "{\"id\": 1, \"cpuLatency\": 0, \"fpgaLatency\": 0},"
                   "{\"id\": 2, \"cpuLatency\": 0, \"fpgaLatency\": 0},"
                   "{\"id\": 3, \"cpuLatency\": 0, \"fpgaLatency\": 2}], \"edges\": ["
                   "{\"sourceId\": 1, \"destId\": 2, \"cost\": 1}, "
                   "{\"sourceId\": 2, \"destId\": 1, \"cost\": 1}]}");
    for (r.devices = 1; r.devices < 10; r.devices++) {
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        assert_int_equal(objective_solve(&objective_placement, "metis", &r, &out), STATUS_OK);
        assert_near(out.value, check_result(&p, &out), 1e-12);
        objective_result_free(&out);
        placement_free(&p);
    }
}

static void placement_survives_every_failing_allocation(void **state)
{
    struct objective_request r = {.spec = path, .memory_bytes = NAN};
    struct objective_result out = {0};
    need_metis();
    seed = 3;
    write_random(6, 2, 1, 8);
    FOR_EACH_ALLOC_FAILURE(objective_solve(&objective_placement, "metis", &r, &out))
    assert_true(out.parts > 0);
    objective_result_free(&out);
}

/* ---- stages */

static enum status stages_of(const struct model *m, const struct topology *t, size_t stages,
                             struct plan *out)
{
    const struct partition_algorithm *metis;
    const struct partition_request r = {.stages = stages,
                                        .replicas = 1,
                                        .microbatches = 4,
                                        .microbatch_size = 1,
                                        .schedule = "1f1b",
                                        .optimizer = "sgd",
                                        .model = "m",
                                        .platform = "p",
                                        .seed = 2};
    enum status st = partition_find("metis", &metis);
    return st == STATUS_OK ? partition_run(metis, m, t, &r, out) : st;
}

/* All ops of a chain take as long; one tensor in the middle is small. */
static void a_chain_is_cut_where_the_tensor_is_small(void **state)
{
    struct model m = sample_chain(16, 1e-3, 2e-3, 0, 1000000);
    struct topology t = sample_clique(2, 1e-6, 1e9);
    struct plan p = {0};
    need_metis();
    m.op[7].output_bytes = 1;
    assert_int_equal(stages_of(&m, &t, 2, &p), STATUS_OK);
    assert_int_equal(p.stage[0].ops, 8);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

static void every_stage_has_ops_whatever_metis_says(void **state)
{
    struct topology t = sample_clique(12, 1e-6, 1e9);
    need_metis();
    seed = 5;
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + below(12), stages = 1 + below((uint32_t)n);
        struct model m = sample_chain(n, 0, 0, 0, 0);
        struct plan p = {0};
        for (size_t i = 0; i < n && round % 3; i++)
            m.profile[0].forward_s[i] = below(100) * 1e-5;
        assert_int_equal(stages_of(&m, &t, stages, &p), STATUS_OK);
        assert_int_equal(p.stages, stages);
        for (size_t s = 0; s < stages; s++)
            assert_true(p.stage[s].ops > 0);
        plan_free(&p);
        model_free(&m);
    }
    topology_free(&t);
}

static void stages_survive_every_failing_allocation(void **state)
{
    struct model m = sample_chain(6, 1e-3, 2e-3, 0, 1000);
    struct topology t = sample_clique(3, 1e-6, 1e9);
    struct plan p = {0};
    need_metis();
    FOR_EACH_ALLOC_FAILURE(stages_of(&m, &t, 3, &p))
    assert_int_equal(p.stages, 3);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_cliques_are_told_apart),
        cmocka_unit_test(few_vertices_are_parts_of_their_own),
        cmocka_unit_test(odd_graphs_give_parts_in_range_and_no_output),
        cmocka_unit_test(placements_respect_memory_and_are_scored_exactly),
        cmocka_unit_test(says_why_there_is_no_placement),
        cmocka_unit_test(hostile_placements_give_a_plan),
        cmocka_unit_test(placement_survives_every_failing_allocation),
        cmocka_unit_test(a_chain_is_cut_where_the_tensor_is_small),
        cmocka_unit_test(every_stage_has_ops_whatever_metis_says),
        cmocka_unit_test(stages_survive_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
