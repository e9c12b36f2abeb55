/* What platforms are built of: every family against its closed form, with parameters from a seed,
 * and files by hand. */
#include "sim/platform/inventory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "topologies/generate.h"

static struct inventory counted(const char *spec)
{
    struct file_text f;
    struct inventory v = {0};
    assert_int_equal(file_text_open(&f), STATUS_OK);
    if (file_text_close(&f, generate_platform(spec, f.stream)) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    assert_int_equal(platform_inventory(f.text, NULL, NULL, &v), STATUS_OK);
    free(f.text);
    return v;
}

/* Of one kind and name there are so many, with so many ports each (0: never mind). */
static void expect(const struct inventory *v, enum inventory_kind kind, const char *name,
                   uint64_t count, uint64_t ports)
{
    uint64_t n = 0, most = 0, least = UINT64_MAX;
    for (size_t k = 0; k < v->items; k++)
        if (v->item[k].kind == kind && !strcmp(v->item[k].name, name)) {
            n += v->item[k].count;
            most = v->item[k].ports > most ? v->item[k].ports : most;
            least = v->item[k].ports < least ? v->item[k].ports : least;
        }
    if (n != count || (n > 0 && ports > 0 && (most != ports || least != ports)))
        fail_msg("%s %s: %llu of %llu to %llu ports instead of %llu of %llu", inventory_kinds[kind],
                 name, (unsigned long long)n, (unsigned long long)least, (unsigned long long)most,
                 (unsigned long long)count, (unsigned long long)ports);
}

/* Cables of a tier, and transceivers at both ends if it is optical. */
static void expect_cables(const struct inventory *v, const char *tier, uint64_t count, bool optical)
{
    expect(v, INVENTORY_CABLE, tier, count, 0);
    expect(v, INVENTORY_TRANSCEIVER, tier, optical ? 2 * count : 0, 0);
}

/* Both ends of each cable are ports, of switches or of cards. */
static void expect_ends(const struct inventory *v)
{
    assert_int_equal(inventory_ports(v, INVENTORY_SWITCH) + inventory_ports(v, INVENTORY_NIC),
                     2 * inventory_count(v, INVENTORY_CABLE));
}

static int random_from(int least, int most)
{
    return least + rand() % (most - least + 1);
}

enum { ROUNDS = 12, SPEC = 200 };
#define SAY(spec, ...) snprintf(spec, SPEC, __VA_ARGS__)
#define U(x)           ((uint64_t)(x))

static void racks_have_leaves_and_spines(void **state)
{
    char spec[SPEC];
    (void)state;
    srand(11);
    for (int round = 0; round < ROUNDS; round++) {
        int rack = random_from(1, 4), racks = random_from(2, 5), g = random_from(2, 4),
            s = random_from(1, 4), c = random_from(1, 3), leaves = racks * g, nodes = rack * racks;
        SAY(spec, "rail:nodes=%d,gpus=%d,rack=%d,spines=%d,uplinks=%d", nodes, g, rack, s, s * c);
        struct inventory v = counted(spec);
        expect(&v, INVENTORY_DEVICE, "H100-SXM5-80GB", U(nodes * g), 0);
        expect(&v, INVENTORY_NIC, "rail", U(nodes * g), 1);
        expect(&v, INVENTORY_SWITCH, "rail+spine", U(leaves), U(rack + s * c));
        expect(&v, INVENTORY_SWITCH, "spine", U(s), U(leaves * c));
        expect_cables(&v, "rail", U(nodes * g), false);
        expect_cables(&v, "spine", U(leaves * s * c), true);
        expect_ends(&v);
        inventory_free(&v);

        SAY(spec, "rail-only:nodes=%d,gpus=%d,rack=%d,spines=%d,uplinks=%d", nodes, g, rack, s,
            s * c);
        v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "rail+spine", U(leaves), U(rack + s * c));
        expect(&v, INVENTORY_SWITCH, "spine", U(s * g), U(racks * c));
        expect_cables(&v, "spine", U(leaves * s * c), true);
        expect_ends(&v);
        inventory_free(&v);

        int planes = random_from(1, 3);
        SAY(spec, "hpn:nodes=%d,gpus=%d,segment=%d,spines=%d,uplinks=%d,planes=%d", nodes, g, rack,
            s, s * c, planes);
        v = counted(spec);
        expect(&v, INVENTORY_NIC, "rail", U(nodes * g), U(planes));
        expect(&v, INVENTORY_SWITCH, "rail+spine", U(leaves * planes), U(rack + s * c));
        expect(&v, INVENTORY_SWITCH, "spine", U(planes * s), U(leaves * c));
        expect_cables(&v, "rail", U(nodes * g * planes), false);
        expect_cables(&v, "spine", U(leaves * planes * s * c), true);
        expect_ends(&v);
        inventory_free(&v);

        SAY(spec, "leaf-spine:nodes=%d,gpus=%d,rack=%d,spines=%d", nodes, g, rack, s);
        v = counted(spec);
        expect(&v, INVENTORY_NIC, "nic", U(nodes), 1);
        expect(&v, INVENTORY_SWITCH, "nic+spine", U(racks), U(rack + s));
        expect(&v, INVENTORY_SWITCH, "spine", U(s), U(racks));
        expect_ends(&v);
        inventory_free(&v);

        /* one wide link: as many cables as ports go up */
        SAY(spec, "nvl:domains=%d,gpus=%d,oversubscription=2", racks, 2 * g);
        v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "nic+spine", U(racks), U(3 * g));
        expect(&v, INVENTORY_SWITCH, "spine", 1, U(racks * g));
        expect_cables(&v, "spine", U(racks * g), true);
        expect_ends(&v);
        inventory_free(&v);
    }
}

static void trees_have_pods_and_cores(void **state)
{
    char spec[SPEC];
    (void)state;
    srand(12);
    for (int round = 0; round < ROUNDS; round++) {
        int edge = random_from(1, 3), pod = random_from(2, 3), pods = random_from(2, 4),
            nics = random_from(1, 2), u = random_from(1, 3), each = random_from(1, 3),
            edges = pod * pods, nodes = edge * edges;
        SAY(spec, "fat-tree:nodes=%d,gpus=2,nics=%d,edge=%d,pod=%d,uplinks=%d,spines=%d", nodes,
            nics, edge, pod, u, u * each);
        struct inventory v = counted(spec);
        expect(&v, INVENTORY_NIC, "nic", U(nodes * nics), 1);
        expect(&v, INVENTORY_SWITCH, "nic+pod", U(edges), U(edge * nics + u));
        expect(&v, INVENTORY_SWITCH, "core+pod", U(pods * u), U(pod + each));
        expect(&v, INVENTORY_SWITCH, "core", U(u * each), U(pods));
        expect_cables(&v, "pod", U(edges * u), true);
        expect_cables(&v, "core", U(pods * u * each), true);
        expect_ends(&v);
        inventory_free(&v);
    }
}

/* A full tree of radix k has 5/4 k^2 switches of k ports, and k^3/4 cables on each level. */
static void a_full_clos_has_only_full_switches(void **state)
{
    char spec[SPEC];
    (void)state;
    for (int k = 4; k <= 16; k += 2) {
        SAY(spec, "clos:nodes=%d,gpus=1,nics=1,radix=%d", k * k * k / 4, k);
        struct inventory v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "nic+pod", U(k * k / 2), U(k));
        expect(&v, INVENTORY_SWITCH, "core+pod", U(k * k / 2), U(k));
        expect(&v, INVENTORY_SWITCH, "core", U(k * k / 4), U(k));
        expect_cables(&v, "nic", U(k * k * k / 4), false);
        expect_cables(&v, "pod", U(k * k * k / 4), true);
        expect_cables(&v, "core", U(k * k * k / 4), true);
        expect_ends(&v);
        inventory_free(&v);
    }
}

static void a_clos_has_no_switch_above_its_radix(void **state)
{
    char spec[SPEC];
    (void)state;
    srand(13);
    for (int n = 0; n < 2 * ROUNDS; n++) {
        int k = 2 * random_from(4, 10), nics = random_from(1, 2), over = random_from(1, 3),
            up = (int)round((double)k / (1 + over)), leaf = (k - up) / nics,
            nodes = random_from(1, leaf * k * 2), leaves = (nodes + leaf - 1) / leaf;
        int pods = leaves <= k ? 1 : (leaves + k / 2 - 1) / (k / 2);
        SAY(spec, "clos:nodes=%d,gpus=2,nics=%d,radix=%d,oversubscription=%d", nodes, nics, k,
            over);
        struct inventory v = counted(spec);
        expect_cables(&v, "nic", U(nodes * nics), false);
        expect_cables(&v, "pod", U(leaves > 1 ? leaves * up : 0), true);
        expect_cables(&v, "core", U(pods > 1 ? pods * up * k / 2 : 0), true);
        for (size_t i = 0; i < v.items; i++) {
            if (v.item[i].kind == INVENTORY_SWITCH && v.item[i].ports > U(k))
                fail_msg("%s: a switch of %d ports", spec, (int)v.item[i].ports);
            if (v.item[i].rate_Bps > 0)
                assert_true(fabs(v.item[i].rate_Bps - 50e9) < 1);
        }
        expect_ends(&v);
        inventory_free(&v);
    }
}

static void groups_and_grids_have_all_their_cables(void **state)
{
    char spec[SPEC];
    (void)state;
    srand(14);
    for (int round = 0; round < ROUNDS; round++) {
        int g = random_from(2, 5), l = random_from(1, 3), n = random_from(1, 2),
            s = random_from(1, 3), c = s * random_from(1, 2);
        SAY(spec, "dragonfly+:groups=%d,leaves=%d,nodes=%d,gpus=2,nics=2,spines=%d,cables=%d", g, l,
            n, s, c);
        struct inventory v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "nic+spine", U(g * l), U(2 * n + s));
        expect(&v, INVENTORY_SWITCH, "spine+global", U(g * s), U(l + (g - 1) * c / s));
        expect_cables(&v, "global", U(g * (g - 1) / 2 * c), true);
        expect_ends(&v);
        inventory_free(&v);

        int x = random_from(1, 4), y = random_from(1, 4), z = random_from(2, 3),
            k = random_from(1, 3), rows = x + y + z - 3, all = x * y * z;
        SAY(spec, "hyperx:x=%d,y=%d,z=%d,nodes=%d,gpus=2,nics=1,cables=%d", x, y, z, n, k);
        v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "nic+hyperx", U(all), U(n + k * rows));
        expect_cables(&v, "hyperx", U(k * all * rows / 2), true);
        expect_ends(&v);
        inventory_free(&v);

        int side[3] = {x, y, z}, cables = 0;
        for (int d = 0; d < 3; d++)
            cables += side[d] > 2 ? all : side[d] == 2 ? all / 2 : 0;
        SAY(spec, "torus:x=%d,y=%d,z=%d,gpus=%d", x, y, z, n);
        v = counted(spec);
        expect(&v, INVENTORY_NIC, "torus", U(2 * cables), 1);
        expect_cables(&v, "torus", U(cables), false);
        assert_int_equal(inventory_count(&v, INVENTORY_SWITCH), 0);
        inventory_free(&v);

        SAY(spec, "wan:sites=%d,nodes=%d,gpus=2", g, n);
        v = counted(spec);
        expect(&v, INVENTORY_SWITCH, "nic+wan", U(g), U(n + 1));
        expect(&v, INVENTORY_SWITCH, "wan", 1, U(g));
        expect_ends(&v);
        inventory_free(&v);
    }
}

/* Every pod has the same circuits, and fewer than two ports without one. */
static void circuits_use_the_ports_of_every_pod(void **state)
{
    static const char *const matching[] = {"even", "ring", "torus"};
    char spec[SPEC];
    (void)state;
    srand(15);
    for (int round = 0; round < 4 * ROUNDS; round++) {
        int pods = random_from(2, 12), n = random_from(1, 2), c = random_from(4, 40);
        SAY(spec, "ocs:pods=%d,nodes=%d,gpus=2,nics=2,circuits=%d,matching=%s", pods, n, c,
            matching[round % 3]);
        struct inventory v = counted(spec);
        uint64_t cables = 0, used = 0;
        for (size_t k = 0; k < v.items; k++) {
            cables += v.item[k].kind == INVENTORY_CABLE && !strcmp(v.item[k].name, "ocs")
                          ? v.item[k].count
                          : 0;
            if (v.item[k].kind == INVENTORY_SWITCH)
                used = v.item[k].ports - U(2 * n);
        }
        expect(&v, INVENTORY_SWITCH, "nic+ocs", U(pods), 0);
        assert_int_equal(2 * cables, U(pods) * used); /* all alike */
        if (used > U(c) || used + 2 <= U(c))
            fail_msg("%s: %d circuits of a pod", spec, (int)used);
        expect_ends(&v);
        inventory_free(&v);
    }
}

static const char zones[] =
    "<platform version=\"4.1\"><zone id=\"all\" routing=\"Full\">"
    "<prop id=\"type\" value=\"T\"/>"
    "<zone id=\"a\" routing=\"Full\"><host id=\"h\" speed=\"1Gf\"/><host id=\"i\" speed=\"1Gf\">"
    "<prop id=\"type\" value=\"U\"/><prop id=\"device\" value=\"none\"/></host><router id=\"r\"/>"
    "<link id=\"p\" bandwidth=\"9GBps\" latency=\"1us\" sharing_policy=\"SPLITDUPLEX\">"
    "<prop id=\"tier\" value=\"pcie\"/></link>"
    "<route src=\"h\" dst=\"r\"><link_ctn id=\"p\" direction=\"UP\"/></route></zone>"
    "<zone id=\"b\" routing=\"Full\"><router id=\"s\"/></zone>"
    "<link id=\"n\" bandwidth=\"5GBps\" latency=\"1us\" sharing_policy=\"SPLITDUPLEX\">"
    "<prop id=\"tier\" value=\"net\"/></link>"
    "<link id=\"bus\" bandwidth=\"5GBps\" latency=\"1us\"><prop id=\"tier\" value=\"net\"/></link>"
    "<zoneRoute src=\"a\" dst=\"b\" gw_src=\"r\" gw_dst=\"s\">"
    "<link_ctn id=\"bus\"/><link_ctn id=\"n\" direction=\"UP\"/></zoneRoute>"
    "</zone></platform>";

static void a_router_inside_of_a_node_is_no_switch(void **state)
{
    struct inventory v = {0};
    (void)state;
    assert_int_equal(platform_inventory(zones, NULL, NULL, &v), STATUS_OK);
    assert_int_equal(v.items, 4); /* device, card, switch, cable: pcie and bus are inside */
    expect(&v, INVENTORY_DEVICE, "T", 1, 0);
    expect(&v, INVENTORY_NIC, "net", 1, 1);
    expect(&v, INVENTORY_SWITCH, "net", 1, 1);
    expect_cables(&v, "net", 1, false);
    inventory_free(&v);
    assert_int_equal(platform_inventory("<cluster id=\"c\"/><host id=\"h\"/>", NULL, NULL, &v),
                     STATUS_OK);
    assert_int_equal(v.items, 0); /* not known */
}

static void survives_every_failing_allocation(void **state)
{
    struct inventory v = {0};
    (void)state;
    FOR_EACH_ALLOC_FAILURE(platform_inventory(zones, NULL, NULL, &v));
    assert_int_equal(v.items, 4);
    inventory_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(racks_have_leaves_and_spines),
        cmocka_unit_test(trees_have_pods_and_cores),
        cmocka_unit_test(a_full_clos_has_only_full_switches),
        cmocka_unit_test(a_clos_has_no_switch_above_its_radix),
        cmocka_unit_test(groups_and_grids_have_all_their_cables),
        cmocka_unit_test(circuits_use_the_ports_of_every_pod),
        cmocka_unit_test(a_router_inside_of_a_node_is_no_switch),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
