/* Bundles of parallel links: what families write, what readers keep, and what files may not say. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/generated.h"

static const char file[] = BINARY_DIR "/paths.xml";

static const struct topology_link *link_of(const struct topology *t, const char *name)
{
    for (size_t l = 0; l < t->links; l++)
        if (!strcmp(t->link[l].name, name))
            return &t->link[l];
    fail_msg("no link %s", name);
    return NULL;
}

static void families_have_a_lane_for_each_cable(void **state)
{
    static const struct {
        const char *spec, *link;
        uint32_t lanes, cables;
        enum paths_policy policy;
    } cases[] = {
        {"leaf-spine:nodes=4,rack=2", "leaf0-up_UP", 0, 0, PATHS_UNSAID},
        {"leaf-spine:nodes=4,rack=2,spines=3", "leaf1-up_DOWN", 3, 1, PATHS_UNSAID},
        {"leaf-spine:nodes=4,rack=2,spines=2,uplinks=4,paths=ecmp", "leaf0-up_UP", 4, 2,
         PATHS_ECMP},
        {"leaf-spine:nodes=4,rack=2,uplinks=4", "leaf0-up_UP", 4, 4, PATHS_UNSAID},
        {"rail:nodes=4,rack=2,spines=4,paths=spray", "leaf1x7-up_UP", 4, 1, PATHS_SPRAY},
        {"rail:nodes=4,rack=2,spines=4", "n0g0-nic_UP", 0, 0, PATHS_UNSAID},
        {"nvl:spines=9,uplinks=18,paths=adaptive", "leaf1-up_UP", 18, 2, PATHS_ADAPTIVE},
        {"fat-tree:uplinks=2,spines=6,paths=ideal", "edge3-up_DOWN", 2, 1, PATHS_IDEAL},
        {"fat-tree:uplinks=2,spines=6", "pod1-up_UP", 6, 1, PATHS_UNSAID},
        {"fat-tree:uplinks=2", "pod1-up_UP", 2, 1, PATHS_UNSAID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology t = generated(cases[i].spec), by_simgrid = {0};
        const struct topology_link *l = link_of(&t, cases[i].link);
        assert_int_equal(l->lanes, cases[i].lanes);
        assert_int_equal(l->cables, cases[i].cables);
        assert_int_equal(t.paths, cases[i].policy);
        assert_int_equal(platform_read_by_simgrid(generated_path, &by_simgrid), STATUS_OK);
        l = link_of(&by_simgrid, cases[i].link);
        assert_int_equal(l->lanes, cases[i].lanes);
        assert_int_equal(l->cables, cases[i].cables);
        assert_int_equal(by_simgrid.paths, cases[i].policy);
        topology_free(&by_simgrid);
        topology_free(&t);
    }
}

/* All the rest of such a platform is as if the bundle were one link. */
static void a_bundle_has_the_bandwidth_of_all_its_lanes(void **state)
{
    struct topology one = generated("rail:nodes=8,gpus=2,rack=2,oversubscription=2"),
                    many = generated(
                        "rail:nodes=8,gpus=2,rack=2,oversubscription=2,spines=5,paths=ecmp");
    assert_int_equal(one.links, many.links);
    for (size_t l = 0; l < one.links; l++)
        assert_true(one.link[l].bandwidth_Bps == many.link[l].bandwidth_Bps &&
                    !strcmp(one.link[l].name, many.link[l].name));
    assert_int_equal(one.tiers, many.tiers);
    for (uint32_t a = 0; a < one.n; a++)
        for (uint32_t b = 0; b < one.n; b++)
            if (a != b)
                assert_int_equal(topology_map_at(&one.between, a, b),
                                 topology_map_at(&many.between, a, b));
    topology_free(&one);
    topology_free(&many);
}

static void refuses_lanes_and_policies_that_make_no_sense(void **state)
{
    static const struct {
        const char *policy, *sharing, *lanes, *message;
    } cases[] = {
        {"ecmp", "SPLITDUPLEX", "0", ":7: lanes '0', expected a number of switches such as 16"},
        {"ecmp", "SPLITDUPLEX", "4097", ":7: lanes '4097', expected"},
        {"ecmp", "SPLITDUPLEX", "65x64", ":7: lanes '65x64', expected"},
        {"ecmp", "SPLITDUPLEX", "4x", ":7: lanes '4x', expected"},
        {"ecmp", "SPLITDUPLEX", "x4", ":7: lanes 'x4', expected"},
        {"ecmp", "SPLITDUPLEX", "2x2x2", ":7: lanes '2x2x2', expected"},
        {"ecmp", "SPLITDUPLEX", "-4", ":7: lanes '-4', expected"},
        {"ecmp", "SPLITDUPLEX", "18446744073709551617", ":7: lanes '18446744073709551617'"},
        {"ecmp", "FATPIPE", "4", ":7: a FATPIPE link has no lanes"},
        {"best", "SPLITDUPLEX", "4", ":4: no policy of paths is called 'best'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topology t = {0};
        FILE *f = fopen(file, "w");
        bool fat = !strcmp(cases[i].sharing, "FATPIPE");
        assert_non_null(f);
        fprintf(f,
                "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                "\"https://simgrid.org/simgrid.dtd\">\n"
                "<platform version=\"4.1\"><zone id=\"z\" routing=\"DijkstraCache\">\n"
                "<prop id=\"paths\" value=\"%s\"/>\n"
                "<host id=\"a\" speed=\"1Tf\"/><host id=\"b\" speed=\"1Tf\"/>\n"
                "<link id=\"l\" bandwidth=\"1GBps\" latency=\"0s\" sharing_policy=\"%s\">\n"
                "<prop id=\"lanes\" value=\"%s\"/></link>\n"
                "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"%s/></route>\n"
                "</zone></platform>\n",
                cases[i].policy, cases[i].sharing, cases[i].lanes, fat ? "" : " direction=\"UP\"");
        fclose(f);
        assert_int_equal(platform_read(file, &t), STATUS_PARSE);
        if (!message_says(error_message(), cases[i].message))
            fail_msg("'%s' does not say '%s'", error_message(), cases[i].message);
    }
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_a_lane_for_each_cable),
        cmocka_unit_test(a_bundle_has_the_bandwidth_of_all_its_lanes),
        cmocka_unit_test(refuses_lanes_and_policies_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
