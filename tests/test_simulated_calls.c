/* Every collective that a program may have takes its closed form on both engines. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "core/collective/collective.h"
#include "core/data/program_check.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/random_plan.h"
#include "tests/sample.h"
#include "tests/toy.h"

enum { MOST = 9 };

/* On equal links, around a ring (pairs: at once); docs/reference/collectives.md. */
static double by_hand(enum op_kind kind, double n, double S, double a, double B)
{
    double part = (n - 1) / n * S / B;
    switch (kind) {
    case OP_ALLREDUCE:
        return 2 * part + 2 * (n - 1) * a;
    case OP_ALLGATHER:
    case OP_REDUCESCATTER:
        return part + (n - 1) * a;
    case OP_BROADCAST:
    case OP_REDUCE:
        return S / B + (n - 1) * a;
    default: /* all-to-all, gather, scatter */
        return part + a;
    }
}

static double simulated(const struct engine *e, const struct program *p, const struct topology *t,
                        const char *platform)
{
    double last = 0;
    struct simulation s = {0};
    const struct simulation_options ring = {.collective.algorithm = "ring"};
    if (e->run(p, t, platform, &ring, &s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    for (size_t i = 0; i < s.timeline.n; i++)
        last = fmax(last, s.timeline.end_s[i]);
    simulation_free(&s);
    return last;
}

static void check(enum op_kind kind, uint32_t ranks, size_t floats, double a, double B)
{
    uint32_t group[MOST + 1];
    struct program p;
    struct topology t = sample_clique(ranks, a, B);
    char *platform = sample_star_file(ranks, a, B);
    for (uint32_t r = 0; r < ranks; r++)
        group[r] = r;
    group[ranks] = UINT32_MAX;
    toy_begin(&p, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < ranks; r++) {
        toy_rank(&p);
        free(p.rank[r].name);
        p.rank[r].name = sample_text(t.device[r]);
        toy_collective(&p, kind, 0, floats);
    }
    toy_finish(&p);
    double want = floats > 0 && ranks > 1 ? by_hand(kind, ranks, 4.0 * (double)floats, a, B) : 0;
    double analytic = simulated(&engine_analytic, &p, &t, platform);
    double simgrid = simulated(&engine_simgrid, &p, &t, platform);
    /* SimGrid sends whole bytes: what a flow has beyond them is lost, at a port n - 1 times */
    double lost_s = 4 * floats % ranks != 0 ? (ranks - 1) / B : 0;
    if (fabs(analytic - want) > 1e-9 * want || fabs(simgrid - want) > 1e-6 * want + lost_s)
        fail_msg("%s of %zu numbers over %u: %.12g and %.12g s, not %.12g",
                 collective_kind_name[op_collective[kind]], floats, ranks, analytic, simgrid, want);
    program_free(&p);
    topology_free(&t);
    unlink(platform);
    free(platform);
}

static void calls_take_their_closed_form_on_both_engines(void **state)
{
    uint64_t seed = 336;
    for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++)
        for (int draw = 0; draw < 12; draw++) {
            uint32_t ranks = draw < 4 ? (uint32_t)draw + 1 : 2 + random_below(&seed, MOST - 1);
            size_t floats = draw == 5 ? 0 : 1 + random_below(&seed, 1 << 24);
            if (draw % 2 == 0)
                floats -= floats % ranks;
            double a = 1e-6 * (1 + random_below(&seed, 20));
            check(kind, ranks, floats, a, 1e9 * (1 + random_below(&seed, 50)));
        }
}

static struct program pair_of(enum op_kind kind, enum op_reduction a, enum op_reduction b)
{
    static const uint32_t group[] = {0, 1, UINT32_MAX};
    struct program p;
    toy_begin(&p, 1, (const uint32_t *const[]){group});
    for (uint32_t r = 0; r < 2; r++) {
        toy_rank(&p);
        p.op[toy_collective(&p, kind, 0, 8)].reduction = (uint8_t)(r == 0 ? a : b);
    }
    p.microbatches = 1;
    toy_finish(&p);
    return p;
}

static void reductions_are_written_read_and_the_same_on_all_members(void **state)
{
    static const char path[] = BINARY_DIR "/test_simulated_calls.json";
    static const struct provenance by = {.version = "test", .command = "test"};
    for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++)
        for (enum op_reduction how = 0; how < REDUCTIONS; how++) {
            struct program p = pair_of(kind, how, how), back = {0};
            bool fits = how == REDUCTION_SUM || op_reduces(&p.op[0]);
            assert_int_equal(program_write(&p, path, &by), STATUS_OK);
            assert_int_equal(program_read(path, &back), fits ? STATUS_OK : STATUS_PARSE);
            if (fits) {
                assert_int_equal(back.op[1].kind, kind);
                assert_int_equal(back.op[1].reduction, how);
            } else {
                assert_message(error_message(), "reduction");
            }
            program_free(&back);
            program_free(&p);
        }
    remove(path);
    struct program p = pair_of(OP_REDUCE, REDUCTION_MIN, REDUCTION_MAX);
    assert_int_equal(program_check(&p), STATUS_INVALID);
    assert_message(error_message(), "same collective differ reduction");
    program_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_are_written_read_and_the_same_on_all_members),
        cmocka_unit_test(calls_take_their_closed_form_on_both_engines),
    };
    return cmocka_run_group_tests_name("simulated_calls", tests, NULL, NULL);
}
