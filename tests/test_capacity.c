/* Bisection and oversubscription of generated platforms against the generator's arithmetic, with
 * parameters from a seed; a bus and a table of routes by hand. */
#include "partition/capacity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "topologies/generate.h"

static const char path[] = BINARY_DIR "/test_capacity.xml";

static struct topology measured(const char *what)
{
    struct topology t = {0};
    if (platform_read(path, &t) != STATUS_OK || capacity_find(&t) != STATUS_OK)
        fail_msg("%s: %s", what, error_message());
    assert_non_null(t.oversubscription);
    return t;
}

static void expect(const char *what, double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * expected))
        fail_msg("%s: %.9g instead of %.9g", what, got, expected);
}

/* The bisection of a description, and the oversubscription of the groups of a level, the innermost
 * one 0; over 0: nobody asks. */
static void check(const char *spec, double bisection_Bps, size_t level, double over)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    if (generate_platform(spec, f) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    assert_int_equal(fclose(f), 0);
    struct topology t = measured(spec);
    expect(spec, t.bisection_Bps, bisection_Bps);
    for (size_t k = 0; over > 0 && k < t.tiers; k++)
        if (t.oversubscription[k] > 0 && level-- == 0) {
            expect(spec, t.oversubscription[k], over);
            over = 0;
        }
    if (over > 0)
        fail_msg("%s: no such level", spec);
    topology_free(&t);
}

static int random_from(int least, int most)
{
    return least + rand() % (most - least + 1);
}

static void racks_are_as_wide_as_their_ports_over_the_oversubscription(void **state)
{
    char spec[160];
    srand(1);
    for (int round = 0; round < 8; round++) {
        int rack = random_from(1, 4), racks = 2 * random_from(1, 3), members = random_from(2, 5);
        int over = random_from(1, 6), nic = 25 * random_from(1, 8);
        double node = members * nic / 8.0 * 1e9, half = rack * racks / 2.0 / over;
        snprintf(spec, sizeof spec,
                 "rail:nodes=%d,gpus=%d,rack=%d,oversubscription=%d,nic=%dGbps,nvlink=300GBps",
                 rack * racks, members, rack, over, nic);
        check(spec, half * node, 0, (300 + nic / 8.0) / (nic / 8.0));
        if (rack > 1)
            check(spec, half * node, 1, over);
        snprintf(spec, sizeof spec,
                 "leaf-spine:nodes=%d,gpus=%d,rack=%d,oversubscription=%d,nic=100Gbps",
                 rack * racks, members, rack, over);
        check(spec, half * 12.5e9, 1, rack > 1 ? over : 0);
        snprintf(spec, sizeof spec, "nvl:domains=%d,gpus=%d,oversubscription=%d,nic=100Gbps", racks,
                 members, over);
        check(spec, racks / 2.0 * members * 12.5e9 / over, 0, 0);
    }
}

static void trees_and_groups_are_as_wide_as_what_binds(void **state)
{
    char spec[160];
    srand(2);
    for (int round = 0; round < 6; round++) {
        int edge = random_from(2, 3), pod = random_from(2, 3), pods = 2 * random_from(1, 2);
        int over = random_from(1, 3), core = random_from(1, 3), nodes = edge * pod * pods;
        snprintf(spec, sizeof spec,
                 "fat-tree:nodes=%d,gpus=4,nics=2,edge=%d,pod=%d,oversubscription=%d,core=%d,"
                 "nic=100Gbps",
                 nodes, edge, pod, over, core);
        check(spec, nodes / 2 * 2 * 12.5e9 / over / core, 1, over);
        check(spec, nodes / 2 * 2 * 12.5e9 / over / core, 2, core);
        int groups = 2 * random_from(1, 3), sites = 2 * random_from(1, 2);
        snprintf(spec, sizeof spec, "dragonfly+:groups=%d,leaves=2,nodes=2,gpus=4,global=4GBps",
                 groups);
        check(spec, groups / 2 * (groups / 2) * 4e9, 0, 0);
        snprintf(spec, sizeof spec, "wan:sites=%d,nodes=2,gpus=2,line=%dGbps", sites, over);
        check(spec, sites / 2 * over * 0.125e9, 0, 0);
    }
}

static void switches_by_the_cable_are_as_wide_as_their_cables(void **state)
{
    char spec[160];
    srand(4);
    for (int round = 0; round < 6; round++) {
        int rack = random_from(1, 3), racks = 2 * random_from(1, 2), over = random_from(1, 3),
            pods = 2 * random_from(1, 3), circuits = random_from(2, 9);
        double half = rack * racks / 2.0 * 3 * 12.5e9 / over;
        snprintf(spec, sizeof spec,
                 "rail-only:nodes=%d,gpus=3,rack=%d,oversubscription=%d,nic=100Gbps", rack * racks,
                 rack, over);
        check(spec, half, 0, 0);
        snprintf(spec, sizeof spec,
                 "hpn:nodes=%d,gpus=3,segment=%d,oversubscription=%d,nic=100Gbps", rack * racks,
                 rack, over);
        check(spec, half, 0, 0);
        /* leaves of 6 x over ports down and 6 up, as many as there are racks, below one pod */
        snprintf(spec, sizeof spec,
                 "clos:nodes=%d,gpus=4,nics=2,radix=%d,oversubscription=%d,nic=100Gbps",
                 3 * over * racks, 6 + 6 * over, over);
        check(spec, racks / 2 * 6 * 12.5e9, 0, 0);
        int x = 2 * random_from(1, 2), y = 2 * random_from(1, 3);
        snprintf(spec, sizeof spec, "hyperx:x=%d,y=%d,gpus=2,link=1GBps,cables=2", x, y);
        check(spec, x * y / 4.0 * (x < y ? x : y) * 2e9, 0, 0);
        snprintf(spec, sizeof spec, "ocs:pods=%d,nodes=4,nic=100Gbps,circuits=%d,matching=ring",
                 pods, circuits);
        check(spec, (pods == 2 ? circuits : 2 * (circuits / 2)) * 12.5e9, 0, 0);
    }
}

static void meshes_and_tori_are_as_wide_as_their_cut(void **state)
{
    char spec[96];
    srand(3);
    for (int round = 0; round < 6; round++) {
        int members = 2 * random_from(1, 5), x = random_from(3, 5), y = 2 * random_from(3, 4);
        snprintf(spec, sizeof spec, "mesh:gpus=%d,link=10GBps", members);
        check(spec, members / 2 * (members / 2) * 10e9, 0, 0);
        snprintf(spec, sizeof spec, "node:gpus=%d,nvlink=50GBps", members);
        check(spec, members / 2 * 50e9, 0, 0);
        snprintf(spec, sizeof spec, "torus:x=%d,y=%d,link=10GBps", x, y);
        check(spec, 2 * x * 10e9, 0, 0);
        int side[3] = {4, 4, 4},
            longest = round % 3; /* the one that is cut; sides of 2 are no rings */
        side[longest] = 6;
        side[(longest + 1) % 3] = random_from(3, 4);
        snprintf(spec, sizeof spec, "torus:x=%d,y=%d,z=%d,link=10GBps", side[0], side[1], side[2]);
        check(spec, 2 * side[0] * side[1] * side[2] / 6 * 10e9, 0, 0);
    }
}

/* A bus of 3 GB/s between two hosts of 5 GB/s each; a table of SimGrid's routes says the same. */
static void a_shared_link_counts_once(void **state)
{
    static const char *const routing[] = {"Dijkstra", "Floyd"};
    static const char *const policy[] = {"SHARED", "FATPIPE"};
    for (int k = 0; k < 4; k++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f,
                "<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
                "\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
                "<zone id=\"z\" routing=\"%s\"><host id=\"a\" speed=\"1Gf\"/>"
                "<host id=\"b\" speed=\"1Gf\"/><router id=\"s\"/>"
                "<link id=\"bus\" bandwidth=\"3GBps\" latency=\"1us\"/>"
                "<link id=\"p\" bandwidth=\"5GBps\" latency=\"1us\" sharing_policy=\"%s\"/>"
                "<route src=\"a\" dst=\"s\"><link_ctn id=\"p\"/></route>"
                "<route src=\"s\" dst=\"b\"><link_ctn id=\"%s\"/></route></zone></platform>",
                routing[k % 2], policy[k / 2], k / 2 ? "p" : "bus");
        assert_int_equal(fclose(f), 0);
        struct topology t = measured(routing[k % 2]);
        assert_int_equal(t.graph.vertices > 0, k % 2 == 0);
        if (k / 2)
            assert_true(isinf(t.bisection_Bps));
        else
            expect(routing[k % 2], t.bisection_Bps, 3e9);
        topology_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(racks_are_as_wide_as_their_ports_over_the_oversubscription),
        cmocka_unit_test(trees_and_groups_are_as_wide_as_what_binds),
        cmocka_unit_test(switches_by_the_cable_are_as_wide_as_their_cables),
        cmocka_unit_test(meshes_and_tori_are_as_wide_as_their_cut),
        cmocka_unit_test(a_shared_link_counts_once),
    };
    return cmocka_run_group_tests_name("capacity", tests, NULL, NULL);
}
