/* ideals and noncontiguous against exhaustive search on small random graphs, and hostile input. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "papers/placement/anchor.h"
#include "papers/placement/bound.h"
#include "papers/placement/family.h"
#include "papers/placement/problem.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

enum { MAX_COLOURS = 6 };

static const char path[] = BINARY_DIR "/test_placement_search.json";

static uint32_t seed;

static uint32_t below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u; /* Numerical Recipes */
    return (seed >> 8) % n;
}

/* Forward nodes 0 .. n - 1 with edges upwards, a backward node n + i for most of them with the
 * edges mirrored; some of these without a forward node of their colour, some colours shared. */
static void write_random(bool training, bool tight)
{
    uint32_t n = 2 + below(MAX_COLOURS - 1), accelerators = below(4), orphan = training ? n - 1 : n;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"maxSizePerFPGA\": %d, \"maxFPGAs\": %u, \"maxCPUs\": %u, \"nodes\": [",
            tight ? 9 : 1000, accelerators, accelerators ? below(3) : 1 + below(2));
    for (uint32_t v = 0; v < (training ? 2 * n : n); v++) {
        uint32_t colour = v % n, zero = below(4);
        if (v == orphan)
            continue; /* this colour is backward only */
        fprintf(f,
                "%s{\"id\": %u, \"cpuLatency\": %u, \"fpgaLatency\": %u, \"size\": %u, "
                "\"supportedOnFpga\": %d, \"isBackwardNode\": %d, \"colorClass\": %u}",
                v ? ", " : "", v, zero ? 3 + below(40) : 0, zero ? below(9) : 0, below(5),
                below(9) > 0 || accelerators == 0, v >= n, colour);
    }
    fprintf(f, "], \"edges\": [");
    bool first = true;
    for (uint32_t u = 0; u < n; u++)
        for (uint32_t v = u + 1; v < n; v++)
            for (uint32_t backward = 0; below(3) == 0 && backward < (training ? 2 : 1);
                 backward++) {
                uint32_t a = backward ? n + v : u, b = backward ? n + u : v;
                if (a == orphan || b == orphan)
                    continue;
                fprintf(f, "%s{\"sourceId\": %u, \"destId\": %u, \"cost\": %g}", first ? "" : ", ",
                        a, b, a % 4 * 0.75);
                first = false;
            }
    fprintf(f, "]}");
    assert_int_equal(fclose(f), 0);
}

/* Is the split of colours contiguous: can the devices be put in an order that every forward edge
 * (mirrored where a colour is backward only) respects? */
static bool contiguous(const struct placement_problem *p, const uint32_t *device, size_t devices)
{
    bool forward[2 * MAX_COLOURS] = {false}, gone[16] = {false};
    for (size_t v = 0; v < p->n; v++)
        forward[p->latency[v].colour] |= !p->latency[v].backward;
    for (size_t removed = 0; removed < devices;) {
        size_t before = removed;
        for (size_t d = 0; d < devices; d++) {
            bool waits = gone[d];
            for (size_t e = 0; e < p->edges && !waits; e++) {
                uint32_t u = p->edge[e].from, v = p->edge[e].to;
                bool mirrored = p->latency[u].backward && p->latency[v].backward &&
                                (!forward[p->latency[u].colour] || !forward[p->latency[v].colour]);
                if (!mirrored && (p->latency[u].backward || p->latency[v].backward))
                    continue;
                uint32_t from = device[mirrored ? v : u], to = device[mirrored ? u : v];
                waits = to == d && from != d && !gone[from];
            }
            if (!waits) {
                gone[d] = true;
                removed++;
            }
        }
        if (removed == before)
            return false;
    }
    return true;
}

struct optimum {
    double any, contiguous; /* INFINITY: none */
};

static double value_of(const struct placement_problem *p, const uint32_t *device, size_t devices)
{
    double load[16], size[16] = {0}, value = 0;
    bool cpu[16];
    for (size_t d = 0; d < devices; d++)
        cpu[d] = d >= p->accelerators;
    for (size_t v = 0; v < p->n; v++) {
        size[device[v]] += p->latency[v].size;
        if (!cpu[device[v]] && (!p->latency[v].supported || size[device[v]] > p->memory_bytes))
            return INFINITY;
    }
    assert_int_equal(placement_loads(p, device, devices, cpu, load), STATUS_OK);
    for (size_t d = 0; d < devices; d++)
        value = fmax(value, load[d]);
    return value;
}

static struct optimum exhaust(const struct placement_problem *p)
{
    struct optimum best = {INFINITY, INFINITY};
    size_t devices = p->accelerators + p->cpus;
    uint32_t of[2 * MAX_COLOURS] = {0}, device[2 * MAX_COLOURS];
    for (;;) {
        for (size_t v = 0; v < p->n; v++)
            device[v] = of[p->latency[v].colour];
        double value = value_of(p, device, devices);
        best.any = fmin(best.any, value);
        if (value < best.contiguous && contiguous(p, device, devices))
            best.contiguous = value;
        size_t i = 0;
        while (i < p->colours && ++of[i] == devices)
            of[i++] = 0;
        if (i == p->colours)
            return best;
    }
}

static void compare(const char *algorithm, const struct objective_request *r, double expected)
{
    struct objective_result found = {0};
    enum status st = objective_solve(&objective_placement, algorithm, r, &found);
    if (isinf(expected)) {
        assert_int_equal(st, STATUS_INFEASIBLE);
        return;
    }
    if (st != STATUS_OK)
        fail_msg("seed %u: %s", seed, error_message());
    if (fabs(found.value - expected) > 1e-9)
        fail_msg("%s, seed %u: %.17g, expected %.17g", algorithm, seed, found.value, expected);
    if (found.lower_bound > expected + 1e-9)
        fail_msg("%s, seed %u: bound %g above %g", algorithm, seed, found.lower_bound, expected);
    assert_true(!found.proved_optimal || fabs(found.value - expected) < 1e-7);
    assert_non_null(found.note);
    objective_result_free(&found);
}

static void both_agree_with_exhaustive_search(void **state)
{
    for (uint32_t i = 0; i < 200; i++) {
        struct placement_problem p = {0};
        const struct objective_request r = {.spec = path, .memory_bytes = NAN, .seed = i};
        seed = i;
        write_random(i % 2, i % 3 == 0);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        struct optimum best = exhaust(&p);
        compare("ideals", &r, best.contiguous);
        compare("noncontiguous", &r, best.any);
        placement_free(&p);
    }
}

static void expect(const char *text, double contiguous, double any)
{
    const struct objective_request r = {.spec = path, .memory_bytes = NAN};
    put_text(path, text);
    compare("ideals", &r, contiguous);
    compare("noncontiguous", &r, any);
}

#define NODE(id, cpu, fpga, size)                                                                  \
    "{\"id\": " #id ", \"cpuLatency\": " #cpu ", \"fpgaLatency\": " #fpga ", \"size\": " #size "}"
#define EDGE(a, b, c) "{\"sourceId\": " #a ", \"destId\": " #b ", \"cost\": " #c "}"
#define PROBLEM(memory, fpgas, cpus, nodes, edges)                                                 \
    "{\"maxSizePerFPGA\": " #memory ", \"maxFPGAs\": " #fpgas ", \"maxCPUs\": " #cpus              \
    ", \"nodes\": [" nodes "], \"edges\": [" edges "]}"

static void hostile_inputs_have_an_answer(void **state)
{
    /* One node, more devices than nodes. */
    expect(PROBLEM(1, 9, 9, NODE(1, 3, 2, 1), ""), 2, 2);
    /* A cycle is one unit. */
    expect(PROBLEM(9, 2, 0, NODE(1, 9, 2, 1) ", " NODE(2, 9, 3, 1) ", " NODE(3, 9, 4, 1),
                   EDGE(1, 2, 0) ", " EDGE(2, 1, 0)),
           5, 5);
    /* Everything free. */
    expect(PROBLEM(9, 2, 1, NODE(1, 0, 0, 1) ", " NODE(2, 0, 0, 1), EDGE(1, 2, 0)), 0, 0);
    /* A self-loop and no other edge. */
    expect(PROBLEM(9, 2, 0, NODE(1, 9, 4, 1) ", " NODE(2, 9, 3, 1), EDGE(1, 1, 7)), 4, 4);
    /* A chain 5, 1, 5: the middle joins either side; apart, the ends need not be contiguous. */
    expect(PROBLEM(9, 2, 0, NODE(1, 9, 5, 1) ", " NODE(2, 9, 8, 1) ", " NODE(3, 9, 5, 1),
                   EDGE(1, 2, 0.25) ", " EDGE(2, 3, 0.25)),
           13.25, 10.5);
}

static void what_does_not_fit_is_infeasible(void **state)
{
    /* 2 devices of 4 bytes, contiguous pieces of 3 + 1 + 3 bytes in a chain: fits; 3 + 3 + 1: no.
     */
    expect(PROBLEM(4, 2, 0, NODE(1, 9, 1, 3) ", " NODE(2, 9, 1, 1) ", " NODE(3, 9, 1, 3),
                   EDGE(1, 2, 0) ", " EDGE(2, 3, 0)),
           2, 2);
    expect(PROBLEM(4, 2, 0, NODE(1, 9, 1, 1) ", " NODE(2, 9, 1, 6) ", " NODE(3, 9, 1, 1),
                   EDGE(1, 2, 0) ", " EDGE(2, 3, 0)),
           INFINITY, INFINITY);
    expect(PROBLEM(6, 2, 0, NODE(1, 9, 1, 1) ", " NODE(2, 9, 1, 6) ", " NODE(3, 9, 1, 1),
                   EDGE(1, 2, 0) ", " EDGE(2, 3, 0)),
           INFINITY, 2);
    const struct objective_request none = {.spec = path, .memory_bytes = NAN};
    struct objective_result found = {0};
    put_text(path, PROBLEM(6, 0, 0, NODE(1, 9, 1, 1), ""));
    assert_int_equal(objective_solve(&objective_placement, "ideals", &none, &found),
                     STATUS_INVALID);
    assert_message(error_message(), "0 accelerators and 0 CPUs");
}

/* width independent chains of `length` nodes, (length + 1)^width ideals. */
static void write_chains(unsigned width, unsigned length)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"maxSizePerFPGA\": 1, \"maxFPGAs\": 4, \"maxCPUs\": 0, \"nodes\": [");
    for (unsigned v = 0; v < width * length; v++)
        fprintf(f, "%s{\"id\": %u, \"cpuLatency\": 9, \"fpgaLatency\": 1}", v ? ", " : "", v);
    fprintf(f, "], \"edges\": [");
    for (unsigned v = 0, first = 1; v < width * length; v++)
        if (v % length + 1 < length) {
            fprintf(f, "%s{\"sourceId\": %u, \"destId\": %u, \"cost\": 0}", first ? "" : ", ", v,
                    v + 1);
            first = 0;
        }
    fprintf(f, "]}");
    assert_int_equal(fclose(f), 0);
}

static void all_down_sets_are_found_each_once(void **state)
{
    static const struct {
        unsigned width, length;
        size_t ideals;
    } expected[] = {{1, 50, 51}, {2, 20, 441}, {3, 9, 1000}, {10, 1, 1024}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct objective_request r = {.spec = path, .memory_bytes = NAN};
        struct placement_problem p = {0};
        struct placement_graph g = {0};
        struct placement_family f = {0};
        bool complete;
        write_chains(expected[i].width, expected[i].length);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        assert_int_equal(placement_contract(&p, &g), STATUS_OK);
        assert_int_equal(placement_family_all(&g, expected[i].ideals - 1, &complete, &f),
                         STATUS_OK);
        assert_false(complete);
        assert_int_equal(placement_family_all(&g, expected[i].ideals, &complete, &f), STATUS_OK);
        assert_true(complete);
        assert_int_equal(f.n, expected[i].ideals);
        for (size_t k = 0; k < f.n; k++)
            for (size_t a = f.down_start[k]; a < f.down_start[k + 1]; a++)
                assert_true(f.down[a] < k);
        placement_family_free(&f);
        placement_graph_free(&g);
        placement_free(&p);
    }
}

static void too_many_down_sets_fall_back_and_say_so(void **state)
{
    const struct objective_request r = {.spec = path, .memory_bytes = NAN};
    struct objective_result found = {0};
    write_chains(8, 4); /* 390,625 */
    assert_int_equal(objective_solve(&objective_placement, "ideals", &r, &found), STATUS_OK);
    assert_true(found.value == 8); /* equal shares: optimal, but not proved by the search */
    assert_false(found.proved_optimal);
    assert_true(found.lower_bound <= 8 && found.lower_bound > 7.99);
    assert_non_null(strstr(found.note, "more than 100000 down-sets"));
    objective_result_free(&found);
}

static void the_stop_flag_leaves_the_best_so_far(void **state)
{
    static const char *const algorithm[] = {"ideals", "noncontiguous"};
    const volatile int stop = 1;
    const struct objective_request r = {.spec = path, .memory_bytes = NAN, .stop = &stop};
    for (size_t i = 0; i < 2; i++) {
        struct objective_result found = {0};
        write_chains(3, 10);
        assert_int_equal(objective_solve(&objective_placement, algorithm[i], &r, &found),
                         STATUS_OK);
        assert_true(found.value < 30);
        assert_true(found.interrupted || found.proved_optimal);
        objective_result_free(&found);
    }
}

static void equal_seeds_give_equal_splits(void **state)
{
    const struct objective_request r = {.spec = path, .memory_bytes = NAN, .seed = 7};
    struct objective_result a = {0}, b = {0};
    seed = 5;
    write_random(true, false);
    assert_int_equal(objective_solve(&objective_placement, "noncontiguous", &r, &a), STATUS_OK);
    assert_int_equal(objective_solve(&objective_placement, "noncontiguous", &r, &b), STATUS_OK);
    assert_true(a.value == b.value && a.parts == b.parts);
    for (size_t i = 0; i < a.parts; i++) {
        assert_int_equal(a.part[i].ops, b.part[i].ops);
        assert_string_equal(a.part[i].device, b.part[i].device);
        for (size_t k = 0; k < a.part[i].ops; k++)
            assert_string_equal(a.part[i].op[k], b.part[i].op[k]);
    }
    objective_result_free(&a);
    objective_result_free(&b);
}

static void the_bound_holds_for_every_split(void **state)
{
    size_t dragged = 0;
    for (uint32_t i = 0; i < 300; i++) {
        struct placement_problem p = {0};
        struct placement_bound bound;
        const struct objective_request r = {.spec = path, .memory_bytes = NAN};
        seed = 1000 + i;
        write_random(i % 2, i % 3 == 0);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        for (size_t v = 0; v < p.n; v++)
            p.cost[v] *= 1 + i % 5; /* transfers that matter */
        double best = exhaust(&p).any;
        for (double known = best; isfinite(best) && known < 3 * best; known *= 1.4) {
            assert_int_equal(placement_lower_bound(&p, known, &bound), STATUS_OK);
            if (bound.value > best * (1 + 1e-9))
                fail_msg("round %u: %.17g above %.17g", i, bound.value, best);
            dragged += bound.reason == PLACEMENT_BOUND_DRAG;
        }
        placement_free(&p);
    }
    assert_true(dragged > 20);
}

/* What CPUs can take of items, with and without such as weigh nothing among them: these have no
 * ratio, and once were sorted as equal to all others. */
static void what_weighs_nothing_leaves_the_bound_as_it_is(void **state)
{
    for (uint32_t i = 0; i < 100; i++) {
        struct placement_item all[64], some[64];
        size_t n = 0;
        double total = 0;
        seed = 7000 + i;
        for (size_t k = 0; k < 64; k++) {
            all[k] = (struct placement_item){0, 0};
            if (below(3) == 0)
                continue;
            all[k] = (struct placement_item){1 + below(50), 1 + below(9)};
            total += all[k].amount;
            some[n++] = all[k];
        }
        qsort(all, 64, sizeof *all, placement_by_ratio);
        qsort(some, n, sizeof *some, placement_by_ratio);
        double left = placement_leave_to_cpus(all, 64, 1, 100, total);
        assert_true(fabs(left - placement_leave_to_cpus(some, n, 1, 100, total)) < 1e-9);
    }
}

/* Eight nodes in a chain, 4 each, 3 per transfer: 19 on two accelerators, 16 without transfers. */
static void the_bound_counts_transfers(void **state)
{
    struct placement_problem p = {0};
    struct placement_bound bound;
    const struct objective_request r = {.spec = path, .memory_bytes = NAN};
    char text[2048] = "{\"maxSizePerFPGA\": 9, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [";
    for (int v = 0; v < 8; v++)
        snprintf(text + strlen(text), 200, "%s{\"id\": %d, \"cpuLatency\": 4, \"fpgaLatency\": 4}",
                 v ? ", " : "", v);
    strcat(text, "], \"edges\": [");
    for (int v = 1; v < 8; v++)
        snprintf(text + strlen(text), 200, "%s{\"sourceId\": %d, \"destId\": %d, \"cost\": 3}",
                 v > 1 ? ", " : "", v - 1, v);
    put_text(path, strcat(text, "]}"));
    assert_int_equal(placement_read(&r, &p), STATUS_OK);
    assert_int_equal(placement_lower_bound(&p, 19.5, &bound), STATUS_OK);
    assert_int_equal(bound.reason, PLACEMENT_BOUND_DRAG);
    assert_true(bound.value > 16.5 && bound.value <= 19);
    FOR_EACH_ALLOC_FAILURE(placement_lower_bound(&p, 19.5, &bound));
    placement_free(&p);
}

/* Little annealing: every allocation behind it costs another run. */
static enum status solve_once(const char *algorithm)
{
    const struct objective_request r = {.spec = path, .memory_bytes = NAN, .time_limit_s = 1e-3};
    struct objective_result found = {0};
    enum status st = objective_solve(&objective_placement, algorithm, &r, &found);
    objective_result_free(&found);
    return st;
}

static void searching_survives_failing_allocations(void **state)
{
    put_text(path, PROBLEM(9, 2, 1, NODE(1, 9, 2, 1) ", " NODE(2, 9, 3, 1) ", " NODE(3, 9, 4, 1),
                           EDGE(1, 2, 0.5) ", " EDGE(1, 3, 0.5)));
    FOR_EACH_ALLOC_FAILURE(solve_once("ideals"));
    FOR_EACH_ALLOC_FAILURE(solve_once("noncontiguous"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_agree_with_exhaustive_search),
        cmocka_unit_test(the_bound_holds_for_every_split),
        cmocka_unit_test(what_weighs_nothing_leaves_the_bound_as_it_is),
        cmocka_unit_test(the_bound_counts_transfers),
        cmocka_unit_test(hostile_inputs_have_an_answer),
        cmocka_unit_test(what_does_not_fit_is_infeasible),
        cmocka_unit_test(all_down_sets_are_found_each_once),
        cmocka_unit_test(too_many_down_sets_fall_back_and_say_so),
        cmocka_unit_test(the_stop_flag_leaves_the_best_so_far),
        cmocka_unit_test(equal_seeds_give_equal_splits),
        cmocka_unit_test(searching_survives_failing_allocations),
    };
    return cmocka_run_group_tests_name("placement_search", tests, NULL, NULL);
}
