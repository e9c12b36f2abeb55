/* collectives against slow references: step-by-step rings and trees on random links, and the
 * properties of the two trees. */
#include <math.h>
#include <string.h>

#include "core/collective/shapes.h"
#include "tests/cmocka.h"
#include "tests/racks.h"
#include "tests/sample.h"

enum { DEVICES = 9, TIERS = DEVICES * DEVICES };

static uint64_t random_state = 88172645463325252u;
static double uniform(double low, double high)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return low + (high - low) * (double)(random_state >> 11) * 0x1p-53;
}

static uint32_t own_tier(const void *context, uint32_t from, uint32_t to)
{
    (void)context;
    return from * DEVICES + to;
}

/* Every directed pair of devices has a latency and a bandwidth of its own; no nodes. */
static struct topology random_topology(double longest_s, double slowest_Bps)
{
    struct topology_tier tier[TIERS];
    for (size_t k = 0; k < TIERS; k++) /* tier 0 is on the diagonal and joins nobody */
        tier[k] = (struct topology_tier){"pair", uniform(0.1, 1) * longest_s,
                                         uniform(1, 5) * slowest_Bps};
    return racks_any(DEVICES, "device", tier, TIERS, own_tier, NULL);
}

/* n of the devices in some order. */
static void draw(uint32_t *device, size_t n)
{
    uint32_t all[DEVICES];
    memcpy(all, racks_all(), sizeof all);
    for (size_t k = 0; k < n; k++) {
        size_t other = k + (size_t)uniform(0, (double)(DEVICES - k) - 1e-9);
        device[k] = all[other];
        all[other] = all[k];
    }
}

static struct collective_shape shape_of(const struct topology *t, const uint32_t *device, size_t n,
                                        enum collective_kind kind, int64_t bytes,
                                        const char *algorithm)
{
    struct collective_group g = {0};
    struct collective_options o = {.algorithm = algorithm};
    struct collective_shape s = {0};
    if (collective_group_make(t, device, n, &g) != STATUS_OK ||
        collective_shape_make(&g, kind, bytes, &o, &s) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(g.nodes, n);
    collective_group_free(&g);
    return s;
}

/* A member sends chunk k when it has sent chunk k - 1 and received chunk k - 1 from the member
 * before it; chunk by chunk. */
static double ring_step_by_step(const struct topology *t, const uint32_t *device, size_t n,
                                size_t steps, double chunk)
{
    double sent[DEVICES] = {0}, received[DEVICES] = {0}, next[DEVICES], end = 0;
    for (size_t k = 0; k < steps; k++) {
        for (size_t m = 0; m < n; m++) {
            const struct topology_tier *tier = topology_between(t, device[m], device[(m + 1) % n]);
            sent[m] = fmax(sent[m], received[m]) + chunk / tier->bandwidth_Bps;
            next[(m + 1) % n] = sent[m] + tier->latency_s;
        }
        memcpy(received, next, sizeof next);
    }
    for (size_t m = 0; m < n; m++)
        end = fmax(end, received[m]);
    return end;
}

/* Equal where one of latency and bandwidth counts alone; never too short, and no longer than both
 * one after the other. */
static void ring_is_what_its_steps_take(void **state)
{
    for (size_t round = 0; round < 200; round++) {
        bool latency = round % 3 != 1, bandwidth = round % 3 != 2;
        struct topology t = random_topology(latency ? 10e-6 : 0, bandwidth ? 1e9 : 1e30);
        size_t n = 2 + round % (DEVICES - 1);
        bool twice = round % 2;
        uint32_t device[DEVICES];
        draw(device, n);
        struct collective_shape s = shape_of(
            &t, device, n, twice ? COLLECTIVE_ALLREDUCE : COLLECTIVE_ALLGATHER, 100000, "ring");
        double steps = ring_step_by_step(&t, device, n, (twice ? 2 : 1) * (n - 1), 1e5 / (double)n);
        if (!latency || !bandwidth)
            assert_near(s.seconds, steps, 1e-9 * steps);
        assert_true(s.seconds >= steps * (1 - 1e-12));
        assert_true(s.phase[0].transfer_s <= steps * (1 + 1e-12));
        assert_true(s.phase[0].latency_s <= steps * (1 + 1e-12));
        collective_shape_free(&s);
        topology_free(&t);
    }
}

static void ring_of_equal_edges_is_exact(void **state)
{
    for (size_t n = 2; n <= DEVICES; n++) {
        struct topology t = sample_clique(n, 7e-6, 3e9);
        struct collective_shape s =
            shape_of(&t, racks_all(), n, COLLECTIVE_ALLREDUCE, 12345678, "ring");
        assert_near(s.seconds,
                    ring_step_by_step(&t, racks_all(), n, 2 * (n - 1), 12345678 / (double)n),
                    1e-13);
        collective_shape_free(&s);
        topology_free(&t);
    }
}

/* One chunk of nothing: up when all children's have come, down when the parent's has. */
static double climb(const struct topology *t, const uint32_t *device, size_t n, bool second,
                    uint32_t root)
{
    double when = 0;
    for (uint32_t child = 0; child < n; child++)
        if (child != root && collective_tree_parent(n, second, child) == root)
            when = fmax(when, climb(t, device, n, second, child) +
                                  topology_between(t, device[child], device[root])->latency_s);
    return when;
}

static double descend(const struct topology *t, const uint32_t *device, size_t n, bool second,
                      uint32_t root, double when)
{
    double last = when;
    for (uint32_t child = 0; child < n; child++)
        if (child != root && collective_tree_parent(n, second, child) == root)
            last = fmax(
                last, descend(t, device, n, second, child,
                              when + topology_between(t, device[root], device[child])->latency_s));
    return last;
}

static uint32_t root_of(size_t n, bool second)
{
    uint32_t root = 0;
    while (collective_tree_parent(n, second, root) != UINT32_MAX)
        root++;
    return root;
}

static void trees_take_the_latency_of_one_chunk(void **state)
{
    for (size_t round = 0; round < 100; round++) {
        struct topology t = random_topology(10e-6, 1e9);
        size_t n = 2 + round % (DEVICES - 1);
        uint32_t device[DEVICES];
        draw(device, n);
        struct collective_shape s = shape_of(&t, device, n, COLLECTIVE_ALLREDUCE, 1, "tree");
        double worst = 0;
        for (int second = 0; second < 2; second++) {
            uint32_t root = root_of(n, second);
            worst = fmax(worst,
                         descend(&t, device, n, second, root, climb(&t, device, n, second, root)));
        }
        assert_near(s.phase[0].latency_s, worst, 1e-15);
        collective_shape_free(&s);
        topology_free(&t);
    }
}

/* Each edge carries half the buffer each way per tree that has it. Bandwidths differ from pair to
 * pair, so that ports add up only what goes over one and the same pair. */
static void trees_take_what_their_busiest_pair_carries(void **state)
{
    for (size_t round = 0; round < 100; round++) {
        struct topology t = random_topology(0, 1e9);
        size_t n = 2 + round % (DEVICES - 1);
        uint32_t device[DEVICES];
        draw(device, n);
        struct collective_shape s = shape_of(&t, device, n, COLLECTIVE_ALLREDUCE, 1000000, "tree");
        double worst = 0;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++) {
                double bytes = 0;
                for (int second = 0; second < 2; second++)
                    bytes += a != b && (collective_tree_parent(n, second, a) == b ||
                                        collective_tree_parent(n, second, b) == a)
                                 ? 500000
                                 : 0;
                if (a != b)
                    worst = fmax(worst,
                                 bytes / topology_between(&t, device[a], device[b])->bandwidth_Bps);
            }
        assert_near(s.seconds, worst, 1e-12);
        collective_shape_free(&s);
        topology_free(&t);
    }
}

static void no_node_is_inside_both_trees(void **state)
{
    for (size_t n = 1; n <= 600; n++) {
        uint8_t children[2][600] = {{0}};
        for (int second = 0; second < 2; second++) {
            size_t roots = 0, deepest = 0;
            for (uint32_t k = 0; k < n; k++) {
                uint32_t parent = collective_tree_parent(n, second, k);
                size_t depth = 0;
                roots += parent == UINT32_MAX;
                if (parent != UINT32_MAX)
                    children[second][parent]++;
                for (; parent != UINT32_MAX; depth++) { /* spans: everyone reaches the root */
                    assert_true(parent < n && depth < n);
                    parent = collective_tree_parent(n, second, parent);
                }
                deepest = depth > deepest ? depth : deepest;
            }
            assert_int_equal(roots, 1);
            assert_int_equal(deepest, (size_t)floor(log2((double)n)));
        }
        for (size_t k = 0; k < n; k++) {
            assert_true(children[0][k] <= 2 && children[1][k] <= 2);
            assert_false(children[0][k] && children[1][k]);
        }
    }
}

static void worst_window_is_the_largest_sum_of_neighbours(void **state)
{
    for (size_t n = 1; n <= 12; n++)
        for (size_t length = 0; length <= 3 * n; length++) {
            double value[12], worst = 0;
            for (size_t i = 0; i < n; i++)
                value[i] = uniform(0, 1);
            for (size_t i = 0; i < n; i++) {
                double sum = 0;
                for (size_t k = 0; k < length; k++)
                    sum += value[(i + k) % n];
                worst = fmax(worst, sum);
            }
            assert_near(collective_worst_window(value, n, length), worst, 1e-12);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_is_what_its_steps_take),
        cmocka_unit_test(ring_of_equal_edges_is_exact),
        cmocka_unit_test(trees_take_the_latency_of_one_chunk),
        cmocka_unit_test(trees_take_what_their_busiest_pair_carries),
        cmocka_unit_test(no_node_is_inside_both_trees),
        cmocka_unit_test(worst_window_is_the_largest_sum_of_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
