/* Detours of dragonflies: Valiant and UGAL against enumeration of all detours that flows may draw,
 * and both engines against each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/detours.h"
#include "core/engine/engine.h"
#include "core/engine/flows.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/sample.h"
#include "topologies/generate.h"

enum { MOST_FLOWS = 8, DRAWS = 1500 };

/* So many nodes of a GPU in each group; ports and global links have 1 GB/s. */
static struct topology groups(unsigned n, unsigned nodes)
{
    char spec[160];
    snprintf(spec, sizeof spec,
             "dragonfly+:groups=%u,leaves=1,nodes=%u,gpus=1,nics=1,nic=1GBps,global=1GBps", n,
             nodes);
    return generated(spec);
}

/* Each node of the first group sends to its counterpart in the second. */
static struct program to_next_group(const struct topology *t, unsigned flows)
{
    uint32_t to[64];
    for (uint32_t i = 0; i < t->n; i++)
        to[i] = i < flows ? i + flows : (uint32_t)t->n;
    return generated_messages(t, to);
}

static struct simulation simulated(const struct engine *e, const struct program *p,
                                   const struct topology *t, const struct paths_options *paths)
{
    struct simulation s = {0};
    const struct simulation_options o = {.paths = *paths};
    if (e->run(p, t, generated_path, &o, &s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    return s;
}

/* Times one flow alone that the slowest takes; latencies are microseconds. */
static unsigned slowest(const struct program *p, const struct topology *t,
                        const struct paths_options *paths)
{
    struct simulation s = simulated(&engine_analytic, p, t, paths);
    double end = 0;
    for (size_t i = 0; i < s.timeline.n; i++)
        end = fmax(end, s.timeline.end_s[i]);
    simulation_free(&s);
    assert_true(fabs(end - round(end)) < 1e-3);
    return (unsigned)round(end);
}

/* Flows start one after another at the same time, each with a detour of its own: of the shortest
 * way of 3 links between switches and the detour of 4 the one whose load times length is less. */
static unsigned replay(enum paths_policy policy, const unsigned *detour, unsigned flows)
{
    unsigned shortest = 0, by[MOST_FLOWS] = {0}, most = 0;
    for (unsigned i = 0; i < flows; i++)
        if (policy == PATHS_VALIANT || 3 * shortest > 4 * by[detour[i]])
            by[detour[i]]++;
        else
            shortest++;
    for (unsigned k = 0; k < MOST_FLOWS; k++)
        most = by[k] > most ? by[k] : most;
    return shortest > most ? shortest : most;
}

/* How often each time of the slowest comes, over all detours that may be drawn. */
static unsigned enumerate(enum paths_policy policy, unsigned detours, unsigned flows,
                          unsigned count[MOST_FLOWS + 1])
{
    unsigned detour[MOST_FLOWS] = {0}, all = 0;
    memset(count, 0, (MOST_FLOWS + 1) * sizeof *count);
    for (bool more = true; more; all++) {
        unsigned i = 0;
        count[replay(policy, detour, flows)]++;
        for (; i < flows && ++detour[i] == detours; i++)
            detour[i] = 0;
        more = i < flows;
    }
    return all;
}

static void with_one_detour_the_slowest_is_known(void **state)
{
    for (unsigned flows = 1; flows <= MOST_FLOWS; flows++) {
        const unsigned only[MOST_FLOWS] = {0};
        struct topology t = groups(3, flows);
        struct program p = to_next_group(&t, flows);
        struct paths_options o = {.policy = PATHS_VALIANT, .seed = flows};
        assert_int_equal(slowest(&p, &t, &o), flows);
        o.policy = PATHS_UGAL;
        unsigned s = slowest(&p, &t, &o), best = (flows + 1) / 2;
        assert_int_equal(s, replay(PATHS_UGAL, only, flows));
        assert_true(s >= best && s <= best + 1); /* of all 2^flows ways to divide them */
        o.policy = PATHS_IDEAL;
        assert_int_equal(slowest(&p, &t, &o), flows);
        program_free(&p);
        topology_free(&t);
    }
}

static void expect_distribution(enum paths_policy policy, unsigned n, unsigned flows)
{
    unsigned expected[MOST_FLOWS + 1], drawn[MOST_FLOWS + 1] = {0};
    unsigned all = enumerate(policy, n - 2, flows, expected);
    struct topology t = groups(n, flows);
    struct program p = to_next_group(&t, flows);
    for (uint64_t seed = 0; seed < DRAWS; seed++)
        drawn[slowest(&p, &t, &(struct paths_options){.policy = policy, .seed = seed})]++;
    for (unsigned k = 0; k <= MOST_FLOWS; k++) {
        double share = (double)expected[k] / all, deviation = sqrt(share * (1 - share) / DRAWS);
        if (fabs((double)drawn[k] / DRAWS - share) > 4.5 * deviation)
            fail_msg("%u groups, %u flows: %u take %u in %u draws, %g expected", n, flows, k,
                     drawn[k], DRAWS, share * DRAWS);
    }
    program_free(&p);
    topology_free(&t);
}

static void seeds_draw_all_detours_alike(void **state)
{
    for (unsigned n = 4; n <= 5; n++)
        for (unsigned flows = 3; flows <= 5; flows++) {
            expect_distribution(PATHS_VALIANT, n, flows);
            expect_distribution(PATHS_UGAL, n, flows);
        }
}

static void both_engines_take_the_same_ways(void **state)
{
    static const char *const specs[] = {
        "dragonfly+:groups=4,leaves=2,nodes=2,gpus=2,nics=2,nic=1GBps,global=1.3GBps",
        "dragonfly+:groups=3,leaves=1,nodes=4,gpus=1,nics=1,nic=1GBps,global=0.7GBps",
    };
    size_t around = 0;
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct topology t = generated(specs[seed % 2]);
        uint32_t to[64];
        for (uint32_t i = 0; i < t.n; i++) {
            to[i] = (uint32_t)(random_at(seed, i) % (t.n + t.n / 4));
            to[i] = to[i] == i ? (uint32_t)t.n : to[i];
        }
        struct program p = generated_messages(&t, to);
        struct paths_options o = {.policy = seed % 4 < 2 ? PATHS_VALIANT : PATHS_UGAL,
                                  .queue_pairs = seed % 3 + 1 == 3 ? 4 : seed % 3 + 1,
                                  .seed = seed};
        struct simulation a = simulated(&engine_analytic, &p, &t, &o),
                          b = simulated(&engine_simgrid, &p, &t, &o),
                          c = simulated(&engine_analytic, &p, &t,
                                        &(struct paths_options){.policy = PATHS_IDEAL});
        assert_int_equal(a.timeline.n, b.timeline.n);
        for (size_t i = 0; i < a.timeline.n; i++) {
            assert_near(a.timeline.end_s[i], b.timeline.end_s[i], 1e-9 * b.timeline.end_s[i]);
            around += fabs(a.timeline.end_s[i] - c.timeline.end_s[i]) > 1e-3;
        }
        simulation_free(&a);
        simulation_free(&b);
        simulation_free(&c);
        program_free(&p);
        topology_free(&t);
    }
    assert_true(around > 100);
}

/* ns-3's packets have one way: it refuses to choose. */
static void packets_take_no_detours(void **state)
{
    struct topology t = groups(3, 2);
    struct program p = to_next_group(&t, 2);
    struct simulation s = {0};
    for (int k = 0; k < 2; k++) {
        const struct simulation_options o = {.paths.policy = k ? PATHS_UGAL : PATHS_VALIANT};
        assert_int_equal(engine_ns3.run(&p, &t, generated_path, &o, &s), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error_message(), "--paths"));
    }
    program_free(&p);
    topology_free(&t);
}

static void there_must_be_a_detour(void **state)
{
    static const struct {
        const char *spec;
        bool has;
    } cases[] = {{"dragonfly+:groups=3,leaves=1,nodes=1,gpus=1,nics=1", true},
                 {"dragonfly+:groups=2,leaves=4,nodes=1,gpus=1,nics=1", false},
                 {"leaf-spine:nodes=4,rack=2,spines=4", false},
                 {"torus:x=4,y=4", false},
                 {"rail:nodes=4,rack=2", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct topology t = generated(cases[k].spec);
        enum paths_policy policy;
        const struct paths_options o = {.policy = PATHS_UGAL};
        assert_int_equal(detours_exist(&t), cases[k].has);
        assert_int_equal(flows_policy(&t, &o, &policy), cases[k].has ? STATUS_OK : STATUS_INVALID);
        topology_free(&t);
    }
}

/* A family that has detours takes them as its policy; others refuse it. */
static void platforms_say_that_they_have_them(void **state)
{
    static const char *const specs[] = {
        "dragonfly+:groups=3,leaves=1,nodes=1,gpus=1,nics=1,paths=ugal",
        "dragonfly+:groups=4,leaves=2,nodes=1,gpus=1,nics=1,spines=2,paths=ugal",
        "hyperx:x=3,y=2,gpus=1,nics=1,paths=ugal"};
    static const char *const refused[] = {"dragonfly+:groups=2,paths=ugal",
                                          "leaf-spine:nodes=4,rack=2,spines=4,paths=valiant",
                                          "rail:paths=ugal"};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        struct topology t = generated(specs[k]);
        enum paths_policy policy;
        assert_int_equal(flows_policy(&t, NULL, &policy), STATUS_OK);
        assert_int_equal(policy, PATHS_UGAL);
        topology_free(&t);
    }
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
        assert_int_equal(generate_platform(refused[k], stderr), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_one_detour_the_slowest_is_known),
        cmocka_unit_test(seeds_draw_all_detours_alike),
        cmocka_unit_test(both_engines_take_the_same_ways),
        cmocka_unit_test(packets_take_no_detours),
        cmocka_unit_test(there_must_be_a_detour),
        cmocka_unit_test(platforms_say_that_they_have_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
