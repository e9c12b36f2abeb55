/* Families of platforms: what lies between two devices, and random messages and collectives, which
 * both engines time alike, whatever paths flows take. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/sample.h"
#include "topologies/generate.h"

static void rails_meet_in_nodes_alone(void **state)
{
    struct topology t = generated("rail-only:nodes=4,gpus=2,rack=2,nic=200Gbps,spines=2");
    (void)state;
    expect_between(&t, "n0g0", "n1g0", "rail", 14e-6, 25e9);
    expect_between(&t, "n0g1", "n3g1", "spine+rail", 14.6e-6, 25e9);
    expect_between(&t, "n0g0", "n1g1", "nvlink+rail", 17.4e-6, 25e9);
    expect_between(&t, "n0g0", "n3g1", "nvlink+spine+rail", 18e-6, 25e9);
    expect_message(&t, "n0g0", "n3g1", 18e-6, 25e9);
    topology_free(&t);
}

static void planes_are_lanes_of_a_card(void **state)
{
    struct topology t = generated("hpn:nodes=4,gpus=2,segment=2,spines=3");
    (void)state;
    expect_between(&t, "n0g0", "n1g0", "rail", 14e-6, 50e9);
    expect_between(&t, "n0g0", "n2g1", "spine+rail", 14.6e-6, 50e9);
    assert_int_equal(t.link[0].lanes, 0); /* NVLink */
    size_t planes = 0, spines = 0;
    for (size_t l = 0; l < t.links; l++) {
        planes += t.link[l].lanes == 2 && t.link[l].cables == 1;
        spines += t.link[l].lanes == 6 && t.link[l].cables == 1;
    }
    assert_int_equal(planes, 2 * 4 * 2); /* both directions of each card */
    assert_int_equal(spines, 2 * 2 * 2);
    topology_free(&t);
}

static void a_clos_has_whole_cables(void **state)
{
    struct topology t = generated("clos:nodes=16,gpus=2,nics=1,radix=4,nic=100Gbps,type=A100");
    (void)state;
    expect_between(&t, "n0g0", "n1g0", "nic", 14e-6, 12.5e9);
    expect_between(&t, "n0g0", "n2g0", "pod+nic", 14.6e-6, 12.5e9);
    expect_between(&t, "n0g0", "n15g1", "core+pod+nic", 15.2e-6, 12.5e9);
    expect_halves(&t, 15.2e-6, 8 * 12.5e9);
    topology_free(&t);
}

static void switches_of_a_row_are_one_link_apart(void **state)
{
    struct topology t = generated("hyperx:x=4,y=2,gpus=2,nics=1,link=5GBps,nic=100Gbps,cables=2");
    (void)state;
    expect_between(&t, "n0g0", "n3g0", "nic+hyperx", 14.3e-6, 10e9);
    expect_between(&t, "n0g0", "n7g0", "nic+hyperx-2", 14.6e-6, 10e9);
    expect_message(&t, "n0g0", "n7g0", 14.6e-6, 10e9);
    expect_bisection(&t, 4 * 10e9); /* of the rows of two */
    topology_free(&t);
}

static void pods_without_a_circuit_are_joined_by_others(void **state)
{
    struct topology t = generated(
        "ocs:pods=4,nodes=1,gpus=4,nics=2,circuits=6,matching=ring,nic=100Gbps,type=A100");
    (void)state;
    expect_between(&t, "n0g0", "n1g0", "ocs+nic", 14.3e-6, 12.5e9);
    expect_between(&t, "n0g0", "n3g0", "ocs+nic", 14.3e-6, 12.5e9); /* around */
    expect_between(&t, "n0g0", "n2g0", "ocs+nic-2", 14.6e-6, 12.5e9);
    expect_bisection(&t, 4 * 12.5e9); /* the ports of two nodes; six circuits */
    topology_free(&t);

    t = generated("ocs:pods=4,nodes=1,gpus=4,nics=2,circuits=6,nic=100Gbps,type=A100");
    expect_between(&t, "n0g0", "n2g0", "ocs+nic", 14.3e-6, 12.5e9);
    topology_free(&t);

    t = generated("ocs:pods=4,nodes=1,gpus=4,nics=2,nic=100Gbps,type=A100,circuits=3,"
                  "matching=0-3x1+1-3x1+2-3x1");
    expect_between(&t, "n0g0", "n3g0", "nic+ocs", 14.3e-6, 12.5e9);
    expect_between(&t, "n0g0", "n2g0", "nic+ocs-2", 14.6e-6, 12.5e9);
    topology_free(&t);
}

static void refuses_circuits_that_are_none(void **state)
{
    static const char *const wrong[] = {"star",
                                        "0-1",
                                        "0-1x0+1-2x1",
                                        "1-0x1+1-2x1",
                                        "0-1x1+1-3x1",
                                        "0-1x1+0-1x1+1-2x1",
                                        "0-1x9",
                                        "0-1x3+1-2x2",
                                        "0-1x1",
                                        "0-1x1+1-2x1+",
                                        "0-1x1+1-2x12345",
                                        "+0-1x1"};
    char spec[80], *canonical = NULL;
    (void)state;
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        snprintf(spec, sizeof spec, "ocs:pods=3,circuits=4,matching=%s", wrong[k]);
        enum status st = generate_canonical(spec, &canonical);
        if (st != STATUS_INVALID)
            fail_msg("%s is taken", spec);
        free(canonical);
        canonical = NULL;
    }
}

/* ---- both engines */

static const char *const specs[] = {
    "clos:nodes=16,gpus=2,nics=1,radix=4,nic=8Gbps",
    "clos:nodes=12,gpus=2,nics=2,radix=8,oversubscription=3,nic=8Gbps",
    "rail-only:nodes=8,gpus=2,rack=3,oversubscription=1.5,spines=2,uplinks=4,nic=8Gbps",
    "hpn:nodes=8,gpus=2,segment=3,spines=2,oversubscription=1.5,nic=8Gbps",
    "hpn:nodes=6,gpus=2,segment=2,spines=3,planes=3,nic=8Gbps",
    "hyperx:x=3,y=2,nodes=2,gpus=2,nics=1,cables=2,nic=8Gbps",
    "hyperx:x=2,y=2,z=3,gpus=2,nics=2,cables=3,nic=8Gbps",
    "ocs:pods=6,nodes=2,gpus=2,nics=1,circuits=5,nic=8Gbps",
    "ocs:pods=6,nodes=2,gpus=2,nics=1,circuits=8,matching=torus,nic=8Gbps",
    "ocs:pods=4,nodes=2,gpus=2,nics=1,circuits=5,matching=0-1x2+0-2x1+1-3x3,nic=8Gbps",
    "ocs:pods=5,nodes=1,gpus=4,nics=2,matching=ring,nic=8Gbps",
    "dragonfly+:groups=3,leaves=2,nodes=2,gpus=2,nics=1,spines=2,cables=4,nic=8Gbps,global=3GBps",
};
enum { SPECS = sizeof specs / sizeof *specs };

/* A spec, and a policy in turn; SimGrid adapts where there is one cable to each switch. */
struct setup {
    struct topology t;
    struct paths_options paths;
};

static struct setup setup(size_t round)
{
    static const enum paths_policy policy[] = {PATHS_IDEAL, PATHS_ECMP, PATHS_ADAPTIVE};
    struct setup s = {.t = generated(specs[round % SPECS])};
    bool single = true;
    for (size_t l = 0; l < s.t.links; l++)
        single &= s.t.link[l].cables <= 1;
    s.paths = (struct paths_options){.policy = policy[round / SPECS % 3], .seed = round};
    if (!topology_has_lanes(&s.t) || (s.paths.policy == PATHS_ADAPTIVE && !single))
        s.paths.policy = PATHS_IDEAL;
    return s;
}

static void expect_alike(const char *spec, const struct program *p, const struct setup *s)
{
    const struct simulation_options o = {.paths = s->paths};
    struct simulation a = {0}, b = {0};
    if (engine_analytic.run(p, &s->t, generated_path, &o, &a) != STATUS_OK ||
        engine_simgrid.run(p, &s->t, generated_path, &o, &b) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    assert_int_equal(a.timeline.n, b.timeline.n);
    for (size_t i = 0; i < a.timeline.n; i++)
        if (!(fabs(a.timeline.end_s[i] - b.timeline.end_s[i]) <= 1e-9 * b.timeline.end_s[i]))
            fail_msg("%s, %s: op %zu ends at %.12g and %.12g", spec, paths_name(s->paths.policy), i,
                     a.timeline.end_s[i], b.timeline.end_s[i]);
    simulation_free(&a);
    simulation_free(&b);
}

/* Random senders and receivers, several of them at one port. */
static void random_messages_take_as_long_on_both_engines(void **state)
{
    (void)state;
    for (size_t round = 0; round < 3 * SPECS; round++) {
        struct setup s = setup(round);
        uint32_t to[64];
        assert_true(s.t.n <= 64);
        for (uint32_t i = 0; i < s.t.n; i++) {
            to[i] = (uint32_t)(random_at(round, i) % (s.t.n + s.t.n / 4));
            to[i] = to[i] == i ? (uint32_t)s.t.n : to[i];
        }
        struct program p = generated_messages(&s.t, to);
        expect_alike(specs[round % SPECS], &p, &s);
        program_free(&p);
        topology_free(&s.t);
    }
}

static void collectives_take_as_long_on_both_engines(void **state)
{
    struct model m = sample_chain(2, 1e-3, 2e-3, 40320000, 8000000);
    (void)state;
    for (size_t round = 0; round < 2 * SPECS; round++) {
        struct setup s = setup(round);
        struct plan plan = sample_plan(&m, 2, (uint32_t)s.t.n / 2, (uint32_t)s.t.n, "1f1b");
        struct program p = {0};
        assert_int_equal(plan_lower(&plan, &m, &s.t, &p), STATUS_OK);
        expect_alike(specs[round % SPECS], &p, &s);
        program_free(&p);
        plan_free(&plan);
        topology_free(&s.t);
    }
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rails_meet_in_nodes_alone),
        cmocka_unit_test(planes_are_lanes_of_a_card),
        cmocka_unit_test(a_clos_has_whole_cables),
        cmocka_unit_test(switches_of_a_row_are_one_link_apart),
        cmocka_unit_test(pods_without_a_circuit_are_joined_by_others),
        cmocka_unit_test(refuses_circuits_that_are_none),
        cmocka_unit_test(random_messages_take_as_long_on_both_engines),
        cmocka_unit_test(collectives_take_as_long_on_both_engines),
    };
    return cmocka_run_group_tests_name("families", tests, NULL, NULL);
}
