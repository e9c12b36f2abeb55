/* noncontiguous on random graphs, contractions and perturbations of them: against exhaustive search
 * and against the integer program, solved by GLPK. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/edges.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/placement_exact.h"
#include "tests/placement_inputs.h"

enum { SMALL = 200, DEVICES = 16 };

static char folder[] = "/tmp/placement-XXXXXX";
static char path[64], program[64];

static int make_folder(void **state)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/problem.json", folder);
    snprintf(program, sizeof program, "%s/program", folder);
    return 0;
}

static int remove_folder(void **state)
{
    unlink(path);
    unlink(strcat(program, ".lp"));
    return rmdir(folder);
}

static const struct objective_request request = {.spec = path, .memory_bytes = NAN, .seed = 1};

/* A perturbed contraction of a random graph, written to path. */
static void generate(uint64_t seed, size_t nodes, size_t colours, size_t devices)
{
    struct placement_input in;
    assert_int_equal(placement_input_random(seed, nodes, &in), STATUS_OK);
    assert_int_equal(placement_input_contract(&in, colours), STATUS_OK);
    placement_input_perturb(&in);
    if (devices > 0) {
        in.cpus = seed / 2 % 2;
        in.accelerators = devices - in.cpus;
    }
    assert_int_equal(placement_input_write(&in, path), STATUS_OK);
    placement_input_free(&in);
}

/* INFINITY where the devices do not take the nodes. */
static double value_of(const struct placement_problem *p, const uint32_t *device)
{
    size_t devices = p->accelerators + p->cpus;
    double load[DEVICES] = {0}, size[DEVICES] = {0}, value = 0;
    bool cpu[DEVICES] = {false};
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

/* All ways to give colours devices. */
static double exhaust(const struct placement_problem *p)
{
    size_t devices = p->accelerators + p->cpus;
    uint32_t of[64] = {0}, device[64];
    double best = INFINITY;
    assert_true(p->n <= 64);
    for (size_t i = 0; i < p->colours;) {
        for (size_t v = 0; v < p->n; v++)
            device[v] = of[p->latency[v].colour];
        best = fmin(best, value_of(p, device));
        for (i = 0; i < p->colours && ++of[i] == devices; i++)
            of[i] = 0;
    }
    return best;
}

static void small_problems_are_solved_as_exhaustive_search_does(void **state)
{
    size_t infeasible = 0, apart = 0;
    for (uint64_t i = 0; i < SMALL; i++) {
        size_t devices = 2 + i % 2;
        struct placement_problem p = {0};
        struct objective_result found = {0}, chain = {0};
        generate(i, 12, devices == 2 ? 10 : 7, devices);
        assert_int_equal(placement_read(&request, &p), STATUS_OK);
        assert_true(p.colours <= (devices == 2 ? 10 : 7));
        double expected = exhaust(&p);
        enum status st = objective_solve(&objective_placement, "noncontiguous", &request, &found);
        if (isinf(expected)) {
            assert_int_equal(st, STATUS_INFEASIBLE);
            infeasible++;
        } else {
            assert_int_equal(st, STATUS_OK);
            if (fabs(found.value - expected) > 1e-9 * expected || !found.proved_optimal)
                fail_msg("problem %u: %.17g, expected %.17g", (unsigned)i, found.value, expected);
            if (objective_solve(&objective_placement, "ideals", &request, &chain) == STATUS_OK)
                apart += found.value < chain.value * (1 - 1e-9);
        }
        objective_result_free(&found);
        objective_result_free(&chain);
        placement_free(&p);
    }
    print_message("%zu of %d infeasible, %zu better than contiguous\n", infeasible, SMALL, apart);
    assert_true(apart > SMALL / 10);
}

/* GLPK need not end in its time; what it has found then must not be better, and what it has proved
 * must hold. */
static void contractions_are_solved_as_well_as_by_an_integer_program(void **state)
{
    size_t proved = 0, count = 24;
    for (uint64_t i = 0; i < count; i++) {
        struct placement_problem p = {0};
        struct placement_exact exact;
        struct objective_result found = {0};
        struct objective_request r = request;
        r.said.work_limit = 20000000;
        generate(1000 + i, 40, 10 + i % 9, 2 + i % 3);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        assert_int_equal(placement_exact_glpk(&p, program, 0.5, &exact), STATUS_OK);
        enum status st = objective_solve(&objective_placement, "noncontiguous", &r, &found);
        if (isfinite(exact.value) && st != STATUS_OK)
            fail_msg("problem %u: %s", (unsigned)i, error_message());
        if (st == STATUS_OK &&
            (found.value > exact.value * (1 + 1e-9) || found.value < exact.bound * (1 - 1e-6)))
            fail_msg("problem %u: %.17g, GLPK %.17g, not below %.17g", (unsigned)i, found.value,
                     exact.value, exact.bound);
        proved += st == STATUS_OK && exact.bound > exact.value * (1 - 1e-6);
        objective_result_free(&found);
        placement_free(&p);
    }
    print_message("%zu of %zu proved by GLPK\n", proved, count);
}

static void the_split_has_the_value_that_is_said(void **state)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct placement_problem p = {0};
        struct objective_result found = {0}, chain = {0};
        struct objective_request r = request;
        uint32_t device[2048];
        size_t ops = 0;
        r.said.work_limit = 2000000;
        generate(2000 + i, 30 + 10 * i, 1000, 0);
        assert_int_equal(placement_read(&r, &p), STATUS_OK);
        assert_true(p.n < sizeof device / sizeof *device);
        assert_int_equal(objective_solve(&objective_placement, "noncontiguous", &r, &found),
                         STATUS_OK);
        for (size_t k = 0; k < found.parts; k++) {
            const struct objective_part *part = &found.part[k];
            uint32_t at = (uint32_t)p.accelerators; /* there is at most one CPU */
            if (strcmp(part->device, "cpu") != 0)
                at = (uint32_t)strtoul(part->device + strlen("fpga"), NULL, 10) - 1;
            for (size_t o = 0; o < part->ops; o++)
                device[nodes_find(&p.file, strtoll(part->op[o], NULL, 10))] = at;
            ops += part->ops;
        }
        assert_int_equal(ops, p.n);
        double value = value_of(&p, device);
        assert_true(fabs(value - found.value) <= 1e-12 * value);
        assert_true(found.lower_bound <= found.value);
        assert_int_equal(objective_solve(&objective_placement, "ideals", &r, &chain), STATUS_OK);
        assert_true(found.value <= chain.value * (1 + 1e-12));
        objective_result_free(&found);
        objective_result_free(&chain);
        placement_free(&p);
    }
}

/* The clock has no say while there is time. */
static void equal_work_gives_equal_splits(void **state)
{
    struct objective_result a = {0}, b = {0};
    struct objective_request r = request;
    generate(3001, 80, 1000, 0);
    r.said.work_limit = 3000000;
    assert_int_equal(objective_solve(&objective_placement, "noncontiguous", &r, &a), STATUS_OK);
    r.time_limit_s = 1e9;
    assert_int_equal(objective_solve(&objective_placement, "noncontiguous", &r, &b), STATUS_OK);
    assert_true(a.value == b.value && a.parts == b.parts && !a.interrupted && !b.interrupted);
    for (size_t i = 0; i < a.parts; i++) {
        assert_int_equal(a.part[i].ops, b.part[i].ops);
        for (size_t k = 0; k < a.part[i].ops; k++)
            assert_string_equal(a.part[i].op[k], b.part[i].op[k]);
    }
    objective_result_free(&a);
    objective_result_free(&b);
}

static void contractions_stay_acyclic(void **state)
{
    for (uint64_t i = 0; i < 50; i++) {
        struct placement_input in;
        size_t cyclic, left = 5 + i % 20;
        bool seen[4096] = {false};
        assert_int_equal(placement_input_random(4000 + i, 30 + i, &in), STATUS_OK);
        assert_int_equal(placement_input_contract(&in, left), STATUS_OK);
        assert_int_equal(edges_order(in.n, in.edge, in.edges, NULL, &cyclic), STATUS_OK);
        assert_int_equal(cyclic, in.edges);
        for (size_t v = 0; v < in.n; v++) {
            left -= !seen[in.latency[v].colour];
            seen[in.latency[v].colour] = true;
        }
        assert_int_equal(left, 0);
        placement_input_free(&in);
    }
}

/* More rounds than one, none of them long. */
static enum status solve_briefly(void)
{
    struct objective_request r = request;
    struct objective_result found = {0};
    r.said.work_limit = 60000;
    enum status st = objective_solve(&objective_placement, "noncontiguous", &r, &found);
    objective_result_free(&found);
    return st;
}

static void rounds_survive_failing_allocations(void **state)
{
    generate(5001, 24, 1000, 3);
    FOR_EACH_ALLOC_FAILURE(solve_briefly());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contractions_stay_acyclic),
        cmocka_unit_test(small_problems_are_solved_as_exhaustive_search_does),
        cmocka_unit_test(contractions_are_solved_as_well_as_by_an_integer_program),
        cmocka_unit_test(the_split_has_the_value_that_is_said),
        cmocka_unit_test(equal_work_gives_equal_splits),
        cmocka_unit_test(rounds_survive_failing_allocations),
    };
    return cmocka_run_group_tests_name("placement_random", tests, make_folder, remove_folder);
}
