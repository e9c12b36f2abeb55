/* The walk from neighbour to neighbour against the plain search of all devices. */
#include "partition/device_order.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/cost.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/generated.h"
#include "tests/map_build.h"

enum { TIERS = 4, LARGEST = 8192 };

static char gpu[] = "gpu", wire[] = "wire";
static const struct device_type type = {
    .name = gpu, .flops = 1e12, .memory_Bps = 1e11, .memory_bytes = 1 << 30};

struct machine {
    size_t n, node, rack;    /* devices of each */
    uint32_t place[LARGEST]; /* of each device; a permutation */
    uint32_t noise;          /* 0, or every entry is random among so many tiers */
};

static uint32_t tier_of(const void *argument, uint32_t from, uint32_t to)
{
    const struct machine *m = argument;
    uint32_t a = m->place[from], b = m->place[to];
    if (m->noise)
        return (a * 2654435761u ^ b * 40503u) >> 7 & (m->noise - 1);
    return a / m->node == b / m->node ? 0 : a / m->rack != b / m->rack ? 2 : a % 8 == b % 8 ? 1 : 3;
}

static struct topology build(const struct machine *m)
{
    static const struct topology_tier tiers[TIERS] = {
        {NULL, 3e-6, 4e11}, {NULL, 14e-6, 5e10}, {NULL, 15e-6, 5e10}, {NULL, 14e-6, 4e10}};
    struct topology t = {0};
    assert_int_equal(topology_uniform(m->n, &type, &(struct topology_tier){wire, 0, 1}, &t),
                     STATUS_OK);
    free(t.tier[0].name);
    t.tier = realloc(t.tier, sizeof tiers);
    assert_non_null(t.tier);
    memcpy(t.tier, tiers, sizeof tiers);
    t.tiers = TIERS;
    assert_int_equal(map_build(m->n, tier_of, m, &t.between), STATUS_OK);
    return t;
}

static void slowly(const struct topology *t, uint32_t *order)
{
    const double bytes = 1048576;
    bool *visited = calloc(t->n, sizeof *visited);
    assert_non_null(visited);
    order[0] = 0;
    visited[0] = true;
    for (size_t k = 1; k < t->n; k++) {
        double least = INFINITY;
        for (uint32_t d = 0; d < t->n; d++) {
            double distance =
                cost_transfer(t, order[k - 1], d, bytes) + cost_transfer(t, d, order[k - 1], bytes);
            if (!visited[d] && distance < least) {
                least = distance;
                order[k] = d;
            }
        }
        visited[order[k]] = true;
    }
    free(visited);
}

static void shuffle(struct machine *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        m->place[i] = i;
    for (size_t i = m->n; i-- > 1;) {
        size_t j = (size_t)rand() % (i + 1);
        uint32_t keep = m->place[i];
        m->place[i] = m->place[j];
        m->place[j] = keep;
    }
}

static void equals_the_search_of_all_devices(void **state)
{
    static struct machine m;
    srand(1);
    for (int round = 0; round < 200; round++) {
        uint32_t order[300], expected[300];
        m.n = 1 + (size_t)rand() % 300;
        m.node = 1 + (size_t)rand() % 9;
        m.rack = m.node * (1 + (size_t)rand() % 5);
        m.noise = round % 4 == 3 ? TIERS : 0;
        shuffle(&m);
        for (uint32_t i = 0; i < m.n && round % 2; i++)
            m.place[i] = i;
        struct topology t = build(&m);
        slowly(&t, expected);
        assert_int_equal(device_order_near(&t, order), STATUS_OK);
        assert_memory_equal(order, expected, m.n * sizeof *order);
        topology_free(&t);
    }
}

/* From GPU 7 of a node its rail leads to GPU 7 of the next, whose node is then filled. */
static void fills_node_after_node_of_a_large_pod(void **state)
{
    static struct machine m = {.n = 4096, .node = 8, .rack = 256};
    static uint32_t order[4096];
    for (uint32_t i = 0; i < m.n; i++)
        m.place[i] = i;
    struct topology t = build(&m);
    assert_int_equal(device_order_near(&t, order), STATUS_OK);
    for (uint32_t k = 0; k < m.n; k++)
        assert_int_equal(order[k] / 8, k / 8);
    assert_int_equal(order[8], 15);
    assert_int_equal(order[9], 8);
    assert_int_equal(order[16], 22); /* the node of 15, 8, 9 ... 14 ends on rail 6 */
    assert_non_null(t.node_of = malloc(m.n * sizeof *t.node_of));
    for (uint32_t i = 0; i < m.n; i++)
        t.node_of[i] = i / 8;
    assert_int_equal(device_order_near(&t, order), STATUS_OK);
    for (uint32_t k = 0; k < m.n; k++)
        assert_int_equal(order[k], k); /* nodes that are known are taken in their own order */
    topology_free(&t);
}

static void equally_far_devices_keep_their_order(void **state)
{
    static uint32_t order[65536];
    struct topology t = {0};
    const struct topology_tier tier = {wire, 0, 1};
    assert_int_equal(topology_uniform(65536, &type, &tier, &t), STATUS_OK);
    assert_int_equal(device_order_near(&t, order), STATUS_OK);
    for (uint32_t k = 0; k < t.n; k++)
        assert_int_equal(order[k], k);
    topology_free(&t);
}

/* On equal racks every node is followed by one of the next rack; nodes stay whole. */
static void spread_devices_go_around_the_racks(void **state)
{
    static const unsigned racks[] = {2, 3, 4}, nodes[] = {1, 2, 5}, gpus[] = {2, 4};
    for (int k = 0; k < 18; k++) {
        unsigned r = racks[k % 3], n = nodes[k / 3 % 3], g = gpus[k / 9];
        char spec[120];
        uint32_t order[80], listed[80];
        snprintf(spec, sizeof spec, "leaf-spine:nodes=%u,gpus=%u,rack=%u,oversubscription=4", r * n,
                 g, n);
        struct topology t = generated(spec);
        assert_int_equal(device_order_find(&t, DEVICES_SPREAD, order), STATUS_OK);
        assert_int_equal(device_order_find(&t, DEVICES_FRAMEWORK, listed), STATUS_OK);
        for (unsigned i = 0; i < t.n; i++) {
            unsigned place = i / g, node = n == 1 ? place : place % r * n + place / r;
            assert_int_equal(listed[i], i);
            assert_int_equal(order[i], node * g + i % g);
        }
        topology_free(&t);
    }
}

/* The two racks of 3 nodes, between which more is possible, alternate, and both with the third
 * one's node. */
static void spread_devices_are_a_permutation(void **state)
{
    struct topology t = generated("leaf-spine:nodes=7,gpus=2,rack=3,oversubscription=8");
    static const uint32_t expected[] = {0, 1, 12, 13, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
    uint32_t order[14];
    assert_int_equal(device_order_find(&t, DEVICES_SPREAD, order), STATUS_OK);
    assert_memory_equal(order, expected, sizeof expected);
    FOR_EACH_ALLOC_FAILURE(device_order_find(&t, DEVICES_SPREAD, order));
    topology_free(&t);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    static struct machine m = {.n = 40, .node = 4, .rack = 8};
    uint32_t order[40];
    shuffle(&m);
    struct topology t = build(&m);
    FOR_EACH_ALLOC_FAILURE(device_order_near(&t, order));
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_search_of_all_devices),
        cmocka_unit_test(fills_node_after_node_of_a_large_pod),
        cmocka_unit_test(equally_far_devices_keep_their_order),
        cmocka_unit_test(spread_devices_go_around_the_racks),
        cmocka_unit_test(spread_devices_are_a_permutation),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}
