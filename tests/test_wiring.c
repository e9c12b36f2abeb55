/* wiring: every way of every platform ends where it should and is as wide as the topology says. */
#include "exec/netns/wiring.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"
#include "sim/platform/network.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/put.h"
#include "topologies/generate.h"

#define SHIPPED SOURCE_DIR "/topologies/platforms/"

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * fabs(b));
}

struct loaded {
    struct topology t;
    struct network n;
};

static void load(const char *path, struct loaded *l)
{
    *l = (struct loaded){0};
    assert_int_equal(platform_read(path, &l->t), STATUS_OK);
    if (platform_network(path, &l->t, &l->n) != STATUS_OK)
        fail_msg("%s", error_message());
}

static void loaded_free(struct loaded *l)
{
    network_free(&l->n);
    topology_free(&l->t);
}

/* Walk from a node to a rank; returns the narrowest bandwidth and checks that it arrives. */
static double walk(const struct wiring *w, uint32_t node, uint32_t rank, size_t *hops)
{
    double narrowest = INFINITY;
    uint32_t at = node;
    for (*hops = 0; at != w->space_of[rank]; (*hops)++) {
        assert_true(*hops < w->spaces);
        assert_true(*hops == 0 || w->space[at].forwards);
        uint32_t way = w->way[at * w->ranks + rank];
        assert_true(way < w->links);
        const struct wiring_link *l = &w->link[way];
        assert_true(l->space[0] == at || l->space[1] == at);
        narrowest = l->bandwidth_Bps > 0 ? fmin(narrowest, l->bandwidth_Bps) : narrowest;
        at = l->space[l->space[0] == at ? 1 : 0];
    }
    assert_int_equal(w->way[at * w->ranks + rank], WIRING_NONE);
    return narrowest;
}

static bool nodes_forward(const struct wiring *w)
{
    for (size_t i = 0; i < w->nodes; i++)
        if (w->space[i].forwards)
            return true;
    return false;
}

static void check_ways(const struct topology *t, const struct wiring *w)
{
    for (uint32_t node = 0; node < w->nodes; node++)
        for (uint32_t r = 0; r < w->ranks; r++) {
            size_t hops;
            double widest = 0;
            if (w->space_of[r] == node)
                continue;
            for (uint32_t s = 0; s < w->ranks; s++)
                if (w->space_of[s] == node)
                    widest = fmax(widest, topology_between(t, s, r)->bandwidth_Bps);
            assert_near(walk(w, node, r, &hops) / widest, 1);
        }
}

static void ways_are_as_wide_as_the_topology_says(void **state)
{
    static const struct {
        const char *path;
        size_t nodes, links;
    } shipped[] = {{SHIPPED "laptop.xml", 4, 4},       {SHIPPED "two-racks.xml", 4, 22},
                   {SHIPPED "dgx-a100-x2.xml", 2, 32}, {SHIPPED "dgx-h100-x4.xml", 4, 32},
                   {SHIPPED "pipedream-a.xml", 4, 20}, {SHIPPED "hidup-8xv100.xml", 8, 104}};
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) {
        struct loaded l;
        struct wiring w = {0};
        load(shipped[i].path, &l);
        assert_int_equal(wiring_plan(&l.t, &l.n, l.t.n, NULL, &w), STATUS_OK);
        assert_int_equal(w.nodes, shipped[i].nodes);
        assert_int_equal(w.links, shipped[i].links);
        check_ways(&l.t, &w);
        assert_false(nodes_forward(&w));
        wiring_free(&w);
        loaded_free(&l);
    }
}

/* In a torus without switches nodes are on each other's ways, and nowhere else. */
static void small_platforms_of_every_family_are_wired(void **state)
{
    static const struct {
        const char *description;
        bool forward;
    } made[] = {{"dragonfly+:groups=3,leaves=2,nodes=1,gpus=2,nics=2", false},
                {"fat-tree:nodes=8,gpus=2,nics=2,edge=2,pod=2,mesh=1", false},
                {"leaf-spine:nodes=4,rack=2,gpus=2", false},
                {"mesh:gpus=4", false},
                {"node:gpus=4", false},
                {"nvl:domains=2,gpus=4", false},
                {"rail:nodes=4,gpus=2,rack=2", false},
                {"torus:x=4,y=3", true},
                {"torus:x=2,y=2,z=2", true},
                {"torus:x=4,y=2,gpus=2", false},
                {"wan:sites=3,nodes=2,gpus=2,nics=2", false}};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        struct loaded l;
        struct wiring w = {0};
        const char *path = BINARY_DIR "/test_wiring_family.xml";
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_int_equal(generate_platform(made[i].description, f), STATUS_OK);
        assert_int_equal(fclose(f), 0);
        load(path, &l);
        if (wiring_plan(&l.t, &l.n, l.t.n, NULL, &w) != STATUS_OK)
            fail_msg("%s: %s", made[i].description, error_message());
        check_ways(&l.t, &w);
        assert_int_equal(nodes_forward(&w), made[i].forward);
        wiring_free(&w);
        loaded_free(&l);
        remove(path);
    }
}

/* Of 16 GPUs in two nodes, those of the second are reached through eight different last links. */
static void a_rank_is_reached_through_its_own_links(void **state)
{
    struct loaded l;
    struct wiring w = {0};
    load(SHIPPED "dgx-a100-x2.xml", &l);
    assert_int_equal(wiring_plan(&l.t, &l.n, 16, NULL, &w), STATUS_OK);
    for (uint32_t r = 8; r < 16; r++) {
        assert_int_equal(w.space_of[r], 1);
        assert_int_equal(w.local[r], r - 8);
        for (uint32_t s = 8; s < r; s++)
            assert_int_not_equal(w.way[r], w.way[s]);
    }
    wiring_free(&w);
    loaded_free(&l);
}

static void leaves_out_what_no_rank_needs(void **state)
{
    struct loaded l;
    struct wiring w = {0};
    size_t hops;
    load(SHIPPED "two-racks.xml", &l);
    assert_int_equal(wiring_plan(&l.t, &l.n, 4, NULL, &w), STATUS_OK); /* one node */
    assert_int_equal(w.nodes, 1);
    assert_int_equal(w.spaces, 1);
    assert_int_equal(w.links, 0);
    assert_true(w.sending_Bps == 0);
    wiring_free(&w);
    assert_int_equal(wiring_plan(&l.t, &l.n, 5, NULL, &w), STATUS_OK); /* two, in one rack */
    assert_int_equal(w.nodes, 2);
    assert_int_equal(w.space[0].ranks, 4);
    assert_int_equal(w.space[1].ranks, 1);
    assert_string_equal(w.space[1].name, "r0n1g0");
    assert_near(walk(&w, 0, 4, &hops), 12.5e9);
    assert_near(w.sending_Bps, 25e9);
    wiring_free(&w);
    loaded_free(&l);
}

/* Ranks 0 and 2 on one node of two-racks, 1 and 3 on another in the other rack. */
static void ranks_sit_where_they_are_told(void **state)
{
    static const uint32_t device[] = {15, 0, 13, 3}, twice[] = {1, 1};
    struct loaded l;
    struct wiring w = {0};
    size_t hops;
    load(SHIPPED "two-racks.xml", &l);
    assert_int_equal(wiring_plan(&l.t, &l.n, 4, device, &w), STATUS_OK);
    assert_int_equal(w.nodes, 2);
    assert_int_equal(w.space_of[0], 0);
    assert_int_equal(w.space_of[1], 1);
    assert_int_equal(w.space_of[2], 0);
    assert_int_equal(w.space_of[3], 1);
    assert_int_equal(w.local[3], 1);
    assert_string_equal(w.space[1].name, "r0n0g0");
    assert_near(walk(&w, 0, 3, &hops), 12.5e9);
    assert_int_equal(hops, 6); /* PCIe, NIC, two uplinks, NIC, PCIe */
    wiring_free(&w);
    assert_int_equal(wiring_plan(&l.t, &l.n, 2, twice, &w), STATUS_INVALID);
    loaded_free(&l);
}

static void refuses_more_ranks_than_devices(void **state)
{
    struct loaded l;
    struct wiring w = {0};
    load(SHIPPED "laptop.xml", &l);
    assert_int_equal(wiring_plan(&l.t, &l.n, 5, NULL, &w), STATUS_INVALID);
    assert_int_equal(wiring_plan(&l.t, &l.n, 0, NULL, &w), STATUS_INVALID);
    size_t links = l.n.links;
    l.n.links = 1; /* the others cannot be reached */
    assert_int_equal(wiring_plan(&l.t, &l.n, 2, NULL, &w), STATUS_UNSUPPORTED);
    assert_message(error_message(), "no route");
    l.n.links = links;
    loaded_free(&l);
}

/* A route of three links has two joints, which are routers. */
static void a_route_of_several_links_gets_joints(void **state)
{
    static const char text[] =
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Dijkstra\">\n"
        "<host id=\"h.0\" speed=\"1Gf\"/><host id=\"h.1\" speed=\"1Gf\"/>\n"
        "<link id=\"x\" bandwidth=\"1GBps\" latency=\"1us\" sharing_policy=\"SPLITDUPLEX\"/>\n"
        "<link id=\"y\" bandwidth=\"16Mbps\" latency=\"2us\" sharing_policy=\"SPLITDUPLEX\"/>\n"
        "<link id=\"z\" bandwidth=\"1GBps\" latency=\"1us\" sharing_policy=\"SPLITDUPLEX\"/>\n"
        "<route src=\"h.0\" dst=\"h.1\"><link_ctn id=\"x\" direction=\"UP\"/>"
        "<link_ctn id=\"y\" direction=\"UP\"/><link_ctn id=\"z\" direction=\"DOWN\"/></route>\n"
        "</zone></platform>\n";
    const char *path = BINARY_DIR "/test_wiring.xml";
    put_text(path, text);
    struct loaded l;
    struct wiring w = {0};
    size_t hops;
    load(path, &l);
    assert_int_equal(wiring_plan(&l.t, &l.n, 2, NULL, &w), STATUS_OK);
    assert_int_equal(w.spaces, 4);
    assert_string_equal(w.space[0].name, "h-0");
    assert_string_equal(w.space[2].name, "joint2");
    assert_near(walk(&w, 1, 0, &hops), 2e6);
    assert_int_equal(hops, 3);
    assert_near(w.link[1].latency_s, 2e-6);
    wiring_free(&w);
    loaded_free(&l);
    remove(path);
}

#define TWO_GPUS                                                                                   \
    "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"      \
    "<platform version=\"4.1\"><zone id=\"z\" routing=\"Dijkstra\">\n"                             \
    "<host id=\"g0\" speed=\"1Gf\"/><host id=\"g1\" speed=\"1Gf\"/><host id=\"far\" "              \
    "speed=\"1Gf\"/>\n"                                                                            \
    "<router id=\"s\"/>\n" LINK("a0") LINK("a1") LINK("nic") LINK("f")
#define LINK(id)                                                                                   \
    "<link id=\"" id "\" bandwidth=\"1GBps\" latency=\"0s\" sharing_policy=\"SPLITDUPLEX\"/>\n"
#define HOP(id, way)          "<link_ctn id=\"" id "\" direction=\"" way "\"/>"
#define ROUTE(from, to, hops) "<route src=\"" from "\" dst=\"" to "\">" hops "</route>\n"

static enum status read_text(const char *text, struct loaded *l)
{
    const char *path = BINARY_DIR "/test_wiring_shared.xml";
    put_text(path, text);
    *l = (struct loaded){0};
    assert_int_equal(platform_read(path, &l->t), STATUS_OK);
    enum status st = platform_network(path, &l->t, &l->n);
    remove(path);
    return st;
}

/* Both GPUs reach the switch over the same NIC, in whichever direction the routes are written. */
static void a_link_of_several_routes_is_one_link(void **state)
{
    static const char *const text[] = {
        TWO_GPUS ROUTE("g0", "s", HOP("a0", "UP") HOP("nic", "UP"))
            ROUTE("g1", "s", HOP("a1", "UP") HOP("nic", "UP"))
                ROUTE("far", "s", HOP("f", "UP")) "</zone></platform>\n",
        TWO_GPUS ROUTE("g0", "s", HOP("a0", "UP") HOP("nic", "UP"))
            ROUTE("s", "g1", HOP("nic", "DOWN") HOP("a1", "DOWN"))
                ROUTE("far", "s", HOP("f", "UP")) "</zone></platform>\n"};
    for (size_t k = 0; k < sizeof text / sizeof *text; k++) {
        struct loaded l;
        struct wiring w = {0};
        size_t hops;
        if (read_text(text[k], &l) != STATUS_OK)
            fail_msg("%s", error_message());
        assert_int_equal(l.n.links, 4);
        assert_int_equal(wiring_plan(&l.t, &l.n, 3, NULL, &w), STATUS_OK);
        assert_int_equal(w.links, 4);
        assert_int_equal(w.spaces, 5); /* three nodes, the switch, a joint before the NIC */
        walk(&w, 0, 2, &hops);
        assert_int_equal(hops, 3);
        walk(&w, 1, 0, &hops); /* from the joint back: not over the NIC */
        assert_int_equal(hops, 2);
        wiring_free(&w);
        loaded_free(&l);
    }
}

/* A link that begins at two places is made of one-way links, which routes lead over as before. */
static void a_link_may_begin_at_two_places(void **state)
{
    static const char text[] = TWO_GPUS ROUTE("g0", "s", HOP("nic", "UP"))
        ROUTE("g1", "s", HOP("nic", "UP")) ROUTE("far", "s", HOP("f", "UP")) "</zone></platform>\n";
    struct loaded l;
    struct wiring w = {0};
    size_t hops;
    if (read_text(text, &l) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(wiring_plan(&l.t, &l.n, 3, NULL, &w), STATUS_OK);
    assert_near(walk(&w, 0, 1, &hops), 1e9);
    assert_near(walk(&w, 2, 0, &hops), 1e9);
    wiring_free(&w);
    loaded_free(&l);
}

static void survives_every_failing_allocation(void **state)
{
    struct loaded l;
    struct wiring w = {0};
    struct network n = {0};
    load(SHIPPED "two-racks.xml", &l);
    FOR_EACH_ALLOC_FAILURE(wiring_plan(&l.t, &l.n, 16, NULL, &w));
    wiring_free(&w);
    FOR_EACH_ALLOC_FAILURE(wiring_pair(&w));
    wiring_free(&w);
    FOR_EACH_ALLOC_FAILURE(wiring_dumbbell(2, 1e6, &w));
    size_t hops;
    walk(&w, 0, 2, &hops);
    assert_int_equal(hops, 3);
    assert_near(w.link[w.way[4 * w.ranks + 2]].bandwidth_Bps, 1e6); /* between the routers */
    wiring_free(&w);
    FOR_EACH_ALLOC_FAILURE(platform_network(SHIPPED "two-racks.xml", &l.t, &n));
    network_free(&n);
    loaded_free(&l);
}

static void load_made(const char *description, struct loaded *l)
{
    const char *path = BINARY_DIR "/test_wiring_bundle.xml";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(generate_platform(description, f), STATUS_OK);
    assert_int_equal(fclose(f), 0);
    load(path, l);
    remove(path);
}

/* Of a bundle whose flows are hashed each cable is a link; a way leads over the first of them. */
static void a_bundle_is_wired_cable_by_cable_where_flows_are_hashed(void **state)
{
    struct loaded ideal, hashed;
    struct wiring one = {0}, many = {0};
    load_made("leaf-spine:nodes=4,gpus=1,rack=2,spines=3", &ideal);
    load_made("leaf-spine:nodes=4,gpus=1,rack=2,spines=3,paths=ecmp", &hashed);
    assert_int_equal(wiring_plan(&ideal.t, &ideal.n, 4, NULL, &one), STATUS_OK);
    assert_int_equal(wiring_plan(&hashed.t, &hashed.n, 4, NULL, &many), STATUS_OK);
    assert_int_equal(many.links, one.links + 2 * 2); /* two bundles of three */
    size_t bundles = 0;
    for (size_t i = 0; i < many.links; i++) {
        const struct wiring_link *first = &many.link[i];
        if (first->lanes == 0)
            continue;
        bundles++;
        assert_int_equal(first->lanes, 3);
        for (uint32_t k = 0; k < 3; k++) {
            const struct wiring_link *l = first + k;
            assert_true(l->lane == k && !strcmp(l->name, first->name) &&
                        l->space[0] == first->space[0] && l->space[1] == first->space[1]);
            assert_int_equal(l->interface[0], first->interface[0] + k);
            assert_near(l->bandwidth_Bps, 2 * 25e9 / 3);
            assert_true(wiring_leads_over(&many, (uint32_t)i, i + k));
        }
        assert_false(wiring_leads_over(&many, (uint32_t)i, i + 3));
    }
    assert_int_equal(bundles, 2);
    for (uint32_t r = 2; r < 4; r++) {
        size_t hops;
        walk(&many, 0, r, &hops);
        assert_true(hops >= 4);
    }
    wiring_free(&one);
    wiring_free(&many);
    loaded_free(&ideal);
    loaded_free(&hashed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_as_wide_as_the_topology_says),
        cmocka_unit_test(small_platforms_of_every_family_are_wired),
        cmocka_unit_test(a_rank_is_reached_through_its_own_links),
        cmocka_unit_test(leaves_out_what_no_rank_needs),
        cmocka_unit_test(ranks_sit_where_they_are_told),
        cmocka_unit_test(refuses_more_ranks_than_devices),
        cmocka_unit_test(a_route_of_several_links_gets_joints),
        cmocka_unit_test(a_link_of_several_routes_is_one_link),
        cmocka_unit_test(a_link_may_begin_at_two_places),
        cmocka_unit_test(a_bundle_is_wired_cable_by_cable_where_flows_are_hashed),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
