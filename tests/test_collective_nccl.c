/* collectives: what NCCL's table chooses, at points worked out by hand. */

#include "core/collective/collective.h"
#include "tests/cmocka.h"
#include "tests/racks.h"
#include "tests/sample.h"

static const int64_t KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30;

static const struct topology_tier hopper[2] = {{"nvlink", 3.4e-6, 360e9}, {"nic", 14e-6, 50e9}};
static const struct topology_tier volta[2] = {{"pcie", 5.7e-6, 12e9}, {"pcie+nic", 56e-6, 1.25e9}};

struct point {
    enum collective_kind kind;
    int64_t bytes;
    const char *algorithm;
    enum collective_protocol protocol;
    double latency_us, GBps; /* bytes / GBps: the rest */
};

/* On `nodes` nodes of `each` with 8 NICs: the choice, and the shape that NCCL's protocols
 * make of it. */
static void check(uint32_t nodes, uint32_t each, const char *type,
                  const struct topology_tier *tiers, const struct point *point, size_t points)
{
    struct topology t = racks_nodes(nodes, each, type, tiers);
    struct collective_group g = {0};
    struct collective_options o = {.nics = 8, .nccl_protocols = true};
    assert_int_equal(collective_group_make(&t, racks_all(), t.n, &g), STATUS_OK);
    for (size_t k = 0; k < points; k++) {
        struct collective_choice c;
        struct collective_shape s = {0};
        double transfer_s = (double)point[k].bytes / (point[k].GBps * 1e9);
        assert_int_equal(collective_choose(&g, point[k].kind, point[k].bytes, &o, &c), STATUS_OK);
        assert_string_equal(c.algorithm->name, point[k].algorithm);
        assert_string_equal(collective_protocol_name[c.protocol],
                            collective_protocol_name[point[k].protocol]);
        assert_near(c.latency_s, point[k].latency_us * 1e-6, 1e-13);
        assert_near(c.transfer_s, transfer_s, 1e-9 * transfer_s);
        assert_int_equal(collective_shape_make(&g, point[k].kind, point[k].bytes, &o, &s),
                         STATUS_OK);
        assert_ptr_equal(s.algorithm, c.algorithm);
        assert_int_equal(s.protocol, c.protocol);
        assert_near(s.seconds, c.latency_s + c.transfer_s, 1e-12 * s.seconds);
        collective_shape_free(&s);
    }
    collective_group_free(&g);
    topology_free(&t);
}

/* 12 channels of 30 GB/s. LL 6.6 + 14 x 0.6 us, min(141, 360 / 2) x 8 / 14 GB/s: 28.0 us for 1 MiB;
 * Simple 8.4 + 14 x 3.4 us, 360 x 8 / 14: 1361 us for 256 MiB (both as EXECUTION.md has them).
 * LL128 14 + 14 x 1.9 us, 0.92 x 360 x 8 / 14. All-gather: 7 steps, 8 / 7. */
static void one_hopper_node_uses_rings(void **state)
{
    const struct point points[] = {
        {COLLECTIVE_ALLREDUCE, 8, "ring", COLLECTIVE_LL, 15, 141 * 8 / 14.0},
        {COLLECTIVE_ALLREDUCE, MIB, "ring", COLLECTIVE_LL, 15, 141 * 8 / 14.0},
        {COLLECTIVE_ALLREDUCE, 16 * MIB, "ring", COLLECTIVE_LL128, 40.6, 331.2 * 8 / 14},
        {COLLECTIVE_ALLREDUCE, 256 * MIB, "ring", COLLECTIVE_SIMPLE, 56, 360 * 8 / 14.0},
        {COLLECTIVE_ALLGATHER, 256 * MIB, "ring", COLLECTIVE_SIMPLE, 32.2, 360 * 8 / 7.0},
        {COLLECTIVE_REDUCESCATTER, KIB, "ring", COLLECTIVE_LL, 10.8, 141 * 8 / 7.0},
        {COLLECTIVE_BROADCAST, KIB, "ring", COLLECTIVE_LL, 10.8, 141},
    };
    check(1, 8, "H100-SXM5-80GB", hopper, points, sizeof points / sizeof *points);
}

/* 2 nodes of 8: ring steps inside cost at least the network's overhead (1 us, Simple 3 us).
 * Tree LL 6.8 + 2 (7 x 0.6 + 5) us against ring LL 6.6 + 28 x 1 + 2 x 2.7; min(331.2 / 3.8, 39) / 2
 * GB/s, 0.9 of it at 1 KiB. Ring Simple 1.4 (8.4 + 28 x 3.4 + 2 x 14) us. */
static void two_nodes_use_trees_for_little_and_rings_for_much(void **state)
{
    const struct point points[] = {
        {COLLECTIVE_ALLREDUCE, KIB, "tree", COLLECTIVE_LL, 25.2, 39 / 2.0 * 0.9},
        {COLLECTIVE_ALLREDUCE, GIB, "ring", COLLECTIVE_SIMPLE, 1.4 * 131.6, 360 * 16 / 30.0},
    };
    check(2, 8, "H100-SXM5-80GB", hopper, points, sizeof points / sizeof *points);
}

/* 16 nodes of 8, floor(log2 16) = 4. Tree LL 6.8 + 2 (4.2 + 4 x 5) us against ring's 311.6; LL is
 * limited to 20.4 GB/s. 1 GiB: tree Simple 8.4 + 2 (28 + 56) us at 331.2 / 2 is 6660 us, ring
 * Simple 1.4 (8.4 + 224 x 3.4 + 30 x 14) us at 360 x 128 / 254 is 7585 us; at 8 GiB the ring wins.
 */
static void many_nodes_use_trees_for_much_too(void **state)
{
    const struct point points[] = {
        {COLLECTIVE_ALLREDUCE, KIB, "tree", COLLECTIVE_LL, 55.2, 20.4 / 2 * 0.9},
        {COLLECTIVE_ALLREDUCE, 256 * MIB, "tree", COLLECTIVE_LL128, 99.5, 310.5 / 2},
        {COLLECTIVE_ALLREDUCE, 512 * MIB, "tree", COLLECTIVE_SIMPLE, 176.4, 331.2 / 2},
        {COLLECTIVE_ALLREDUCE, GIB, "tree", COLLECTIVE_SIMPLE, 176.4, 331.2 / 2},
        {COLLECTIVE_ALLREDUCE, 8 * GIB, "ring", COLLECTIVE_SIMPLE, 1.4 * 1190, 360 * 128 / 254.0},
        {COLLECTIVE_ALLGATHER, KIB, "ring", COLLECTIVE_LL, 6.6 + 112 + 15 * 2.7,
         20.4 * 128 / 127.0},
    };
    check(16, 8, "H100-SXM5-80GB", hopper, points, sizeof points / sizeof *points);
}

/* 4 x 4 V100 on PCIe, 8 NICs of which 4 members can use 4: 5 GB/s in all. No LL128. The route's 56
 * us are 42 more than the table's 14. Tree LL 6.8 + 2 (3 x 1 + 2 x 47) us at 5 x 0.92 / 3.8 / 2;
 * ring Simple 1.9 (8.4 + 24 x 5.7 + 6 x 56) us at 5 x 16 / 30, where 20 GB/s channels are 2. */
static void pcie_and_slow_networks_do_without_ll128(void **state)
{
    const struct point points[] = {
        {COLLECTIVE_ALLREDUCE, KIB, "tree", COLLECTIVE_LL, 200.8, 4.6 / 7.6 * 0.9},
        {COLLECTIVE_ALLREDUCE, GIB, "ring", COLLECTIVE_SIMPLE, 1.9 * 481.2, 5 * 16 / 30.0},
    };
    check(4, 4, "V100-PCIE-16GB", volta, points, sizeof points / sizeof *points);
}

/* 16 MiB on 8 devices, 18 channels of 20 GB/s: LL128 14 + 14 x 1.9 us at 331.2 x 8 / 14 where the
 * GPU is known to have it, else Simple. */
static void unknown_devices_do_without_ll128(void **state)
{
    const struct point with = {COLLECTIVE_ALLREDUCE, 16 * MIB, "ring",
                               COLLECTIVE_LL128,     40.6,     331.2 * 8 / 14};
    const struct point without = {COLLECTIVE_ALLREDUCE, 16 * MIB, "ring",
                                  COLLECTIVE_SIMPLE,    56,       360 * 8 / 14.0};
    check(1, 8, "A100-SXM4-40GB", hopper, &with, 1);
    check(1, 8, "core", hopper, &without, 1);
}

/* NVLink of 13.4 us is 10 more than the table's: on every step inside. */
static void longer_links_inside_count(void **state)
{
    const struct topology_tier tiers[2] = {{"nvlink", 13.4e-6, 360e9}, {"nic", 14e-6, 50e9}};
    const struct point one = {COLLECTIVE_BROADCAST, KIB, "ring", COLLECTIVE_LL,
                              6.6 + 7 * 10.6,       141};
    const struct point two = {COLLECTIVE_ALLREDUCE,     KIB,           "tree", COLLECTIVE_LL,
                              6.8 + 2 * (7 * 10.6 + 5), 39 / 2.0 * 0.9};
    check(1, 8, "H100-SXM5-80GB", tiers, &one, 1);
    check(2, 8, "H100-SXM5-80GB", tiers, &two, 1);
}

/* One member in a node: a step of the ring takes the tree's network latency. */
static void lone_members_take_the_network_latency_of_trees(void **state)
{
    const struct point points[] = {
        {COLLECTIVE_ALLGATHER, 512, "ring", COLLECTIVE_LL, 6.6 + 7 * 5, 20.4 * 8 / 7},
    };
    check(8, 1, "A100-SXM4-40GB", hopper, points, sizeof points / sizeof *points);
}

/* By what the topology says the cheapest ring costs the same as without the table. */
static void ideal_costs_do_not_know_protocols(void **state)
{
    struct topology t = racks_nodes(2, 8, "H100-SXM5-80GB", hopper);
    struct collective_group g = {0};
    struct collective_shape a = {0}, b = {0};
    struct collective_options ring = {.algorithm = "ring"};
    assert_int_equal(collective_group_make(&t, racks_all(), t.n, &g), STATUS_OK);
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLREDUCE, GIB, NULL, &a), STATUS_OK);
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLREDUCE, GIB, &ring, &b), STATUS_OK);
    assert_int_equal(a.protocol, COLLECTIVE_IDEAL);
    assert_ptr_equal(a.algorithm, b.algorithm);
    assert_near(a.seconds, b.seconds, 0);
    assert_near(a.seconds, 1.875 * 0x1p30 / 50e9 + 26 * 3.4e-6 + 4 * 14e-6, 1e-12);
    collective_shape_free(&a);
    collective_shape_free(&b);
    collective_group_free(&g);
    topology_free(&t);
}

static void more_bytes_never_take_less_time(void **state)
{
    struct topology t = racks_nodes(4, 8, "A100-SXM4-40GB", hopper);
    struct collective_group g = {0};
    assert_int_equal(collective_group_make(&t, racks_all(), t.n, &g), STATUS_OK);
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        double last = 0;
        for (int64_t bytes = 1; bytes < 4 * GIB; bytes += bytes / 3 + 1) {
            struct collective_shape s = {0};
            struct collective_options o = {.algorithm = "ring"};
            assert_int_equal(collective_shape_make(&g, (enum collective_kind)kind, bytes, &o, &s),
                             STATUS_OK);
            assert_true(s.seconds >= last);
            last = s.seconds;
            collective_shape_free(&s);
        }
    }
    collective_group_free(&g);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hopper_node_uses_rings),
        cmocka_unit_test(two_nodes_use_trees_for_little_and_rings_for_much),
        cmocka_unit_test(many_nodes_use_trees_for_much_too),
        cmocka_unit_test(pcie_and_slow_networks_do_without_ll128),
        cmocka_unit_test(unknown_devices_do_without_ll128),
        cmocka_unit_test(longer_links_inside_count),
        cmocka_unit_test(lone_members_take_the_network_latency_of_trees),
        cmocka_unit_test(ideal_costs_do_not_know_protocols),
        cmocka_unit_test(more_bytes_never_take_less_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
