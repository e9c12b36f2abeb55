/* collectives: which members form nodes, and what is refused. */
#include "core/collective/collective.h"

#include <string.h>

#include "tests/cmocka.h"
#include "tests/racks.h"
#include "tests/sample.h"

static const struct topology_tier two_tiers[2] = {{"fast", 2e-6, 100e9}, {"slow", 10e-6, 10e9}};

static struct collective_group group_of(const struct topology *t, const uint32_t *devices, size_t n)
{
    struct collective_group g = {0};
    if (collective_group_make(t, devices, n, &g) != STATUS_OK)
        fail_msg("%s", error_message());
    return g;
}

static void groups_keep_the_members_of_a_node_together(void **state)
{
    struct topology t = racks_nodes(3, 4, "device", two_tiers);
    static const uint32_t mixed[] = {5, 0, 8, 4, 1, 9, 7};
    static const uint32_t order[] = {0, 3, 6, 1, 4, 2, 5};
    struct collective_group g = group_of(&t, mixed, 7);
    assert_int_equal(g.nodes, 3);
    assert_memory_equal(g.order, order, sizeof order);
    assert_int_equal(g.node_start[1], 3);
    assert_int_equal(g.node_start[2], 5);
    assert_int_equal(g.node_start[3], 7);
    collective_group_free(&g);
    static const uint32_t strided[] = {9, 5, 1};
    g = group_of(&t, strided, 3);
    assert_int_equal(g.nodes, 3); /* no two in a node */
    collective_group_free(&g);
    topology_free(&t);
}

/* "nvlink+rail" leaves the node; PCIe and any NVLink do not; one unnamed tier makes no nodes. */
static void names_of_tiers_tell_nodes(void **state)
{
    static const struct topology_tier nv[2] = {{"nvlink-double", 1e-6, 40e9},
                                               {"pcie+nvlink-single-2", 1e-6, 20e9}};
    static const struct topology_tier rail[2] = {{"nvlink", 1e-6, 40e9},
                                                 {"nvlink+rail", 1e-6, 20e9}};
    struct topology t = racks_nodes(2, 2, "device", nv);
    struct collective_group g = group_of(&t, racks_all(), 4);
    assert_int_equal(g.nodes, 1);
    collective_group_free(&g);
    topology_free(&t);
    t = racks_nodes(2, 2, "device", rail);
    g = group_of(&t, racks_all(), 4);
    assert_int_equal(g.nodes, 2);
    collective_group_free(&g);
    topology_free(&t);
    t = sample_clique(4, 1e-6, 1e9);
    g = group_of(&t, racks_all(), 4);
    assert_int_equal(g.nodes, 4);
    collective_group_free(&g);
    topology_free(&t);
}

static void refuses_what_breaks_the_contract(void **state)
{
    struct topology t = sample_clique(3, 1e-6, 1e9);
    static const uint32_t wrong[] = {0, 3};
    struct collective_group g = {0};
    assert_int_equal(collective_group_make(&t, wrong, 2, &g), STATUS_INVALID);
    assert_int_equal(collective_group_make(&t, wrong, 0, &g), STATUS_INVALID);
    assert_null(g.device);
    g = group_of(&t, racks_all(), 3);
    struct collective_shape s = {0};
    struct collective_options o = {.algorithm = "rings"};
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLREDUCE, 1, &o, &s), STATUS_INVALID);
    assert_message(error_message(), "'rings'");
    assert_int_equal(collective_shape_make(&g, COLLECTIVE_ALLREDUCE, -1, NULL, &s), STATUS_INVALID);
    assert_null(s.phase);
    collective_group_free(&g);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_keep_the_members_of_a_node_together),
        cmocka_unit_test(names_of_tiers_tell_nodes),
        cmocka_unit_test(refuses_what_breaks_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
