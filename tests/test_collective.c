/* collectives: closed forms by hand, what flows carry. */
#include "core/collective/collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/racks.h"
#include "tests/sample.h"

enum { MIB = 1 << 20 };

static struct collective_group group_of(const struct topology *t, const uint32_t *devices, size_t n)
{
    struct collective_group g = {0};
    if (collective_group_make(t, devices, n, &g) != STATUS_OK)
        fail_msg("%s", error_message());
    return g;
}

static struct collective_shape shape_of(const struct collective_group *g, enum collective_kind kind,
                                        int64_t bytes, const char *algorithm, double nics)
{
    struct collective_options o = {.algorithm = algorithm, .nics = nics};
    struct collective_shape s = {0};
    if (collective_shape_make(g, kind, bytes, &o, &s) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_string_equal(s.algorithm->name, algorithm);
    assert_int_equal(s.protocol, COLLECTIVE_IDEAL);
    return s;
}

static double seconds_of(const struct topology *t, enum collective_kind kind, int64_t bytes,
                         const char *algorithm)
{
    struct collective_group g = group_of(t, racks_all(), t->n);
    struct collective_shape s = shape_of(&g, kind, bytes, algorithm, 0);
    double seconds = s.seconds;
    collective_shape_free(&s);
    collective_group_free(&g);
    return seconds;
}

static void ring_takes_its_closed_form_on_equal_links(void **state)
{
    const double alpha = 3e-6, B = 25e9, S = 48 * MIB;
    for (size_t n = 2; n <= 130; n = n < 20 ? n + 1 : 2 * n + 1) {
        struct topology t = sample_clique(n, alpha, B);
        double N = (double)n, part = (N - 1) / N * S / B, lat = (N - 1) * alpha;
        assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "ring"), 2 * (part + lat),
                    1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_ALLGATHER, 48 * MIB, "ring"), part + lat, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_REDUCESCATTER, 48 * MIB, "ring"), part + lat, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_BROADCAST, 48 * MIB, "ring"), S / B + lat, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_ALLTOALL, 48 * MIB, "direct"), part + alpha, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "switch"), S / B + alpha, 1e-14);
        topology_free(&t);
    }
}

/* With 4 nodes or more some rank has a parent, two children in one tree and a parent in the other:
 * S / 2 each, in and out, is 2 S. */
static void tree_takes_twice_the_buffer_and_twice_the_depth(void **state)
{
    const double alpha = 3e-6, B = 25e9, S = 48 * MIB;
    static const struct {
        size_t n;
        double depth, buffers;
    } cases[] = {{2, 1, 1}, {3, 1, 1.5}, {4, 2, 2}, {5, 2, 2}, {8, 3, 2}, {64, 6, 2}, {100, 6, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct topology t = sample_clique(cases[k].n, alpha, B);
        assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "tree"),
                    cases[k].buffers * S / B + 2 * cases[k].depth * alpha, 1e-14);
        topology_free(&t);
    }
}

/* Pairs: each port carries (n - 1) / n of the buffer in and out, twice; broadcasts S into each
 * member, in two steps. Halving: S / 2, S / 4, ... and back, two latencies for each; of 3 members
 * two halve what the third has added before, S each way. */
static void pairs_and_halving_take_their_closed_forms(void **state)
{
    const double a = 3e-6, B = 25e9, S = 48 * MIB;
    for (size_t n = 2; n <= 64; n *= 2) {
        struct topology t = sample_clique(n, a, B);
        double part = (double)(n - 1) / (double)n * S / B, steps = log2((double)n);
        assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "pairs"), 2 * part + 2 * a,
                    1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_ALLGATHER, 48 * MIB, "pairs"), part + a, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "halving"),
                    2 * part + 2 * steps * a, 1e-14);
        assert_near(seconds_of(&t, COLLECTIVE_REDUCESCATTER, 48 * MIB, "halving"), part + steps * a,
                    1e-14);
        topology_free(&t);
    }
    struct topology t = sample_clique(3, a, B);
    assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 48 * MIB, "halving"), 3 * S / B + 4 * a,
                1e-14);
    /* 24 MiB pieces, of 64 chunks, to both others, and between these: 2 pieces leave the first, 2
     * come to each other one; one after the other it would be 3 */
    double piece = S / 2 / B;
    assert_near(seconds_of(&t, COLLECTIVE_BROADCAST, 48 * MIB, "pairs"),
                2 * piece + 2 * a + (3 * piece - 2 * piece) / 64, 1e-14);
    topology_free(&t);
}

static const struct topology_tier two_tiers[2] = {{"fast", 2e-6, 100e9}, {"slow", 10e-6, 10e9}};

/* 2 nodes of 4; S = 80 MB. Ring: 7/4 S cross each slow edge; 14 consecutive of the 8 edges are all
 * of them once, then 6 with both slow ones. Tree: 1.0 S in each direction between the two heads
 * (S / 2 up one tree, S / 2 down the other), and 6 fast steps and 2 slow ones. Hierarchical: 3/4 S
 * inside twice, S / 4 across. */
static void two_nodes_take_what_is_worked_out_by_hand(void **state)
{
    const double S = 80e6, f = 2e-6, s = 10e-6;
    struct topology t = racks_nodes(2, 4, "device", two_tiers);
    assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 80000000, "ring"),
                1.75 * S / 10e9 + (6 * f + 2 * s) + (4 * f + 2 * s), 1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_ALLGATHER, 80000000, "ring"),
                0.875 * S / 10e9 + 5 * f + 2 * s, 1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_BROADCAST, 80000000, "ring"), S / 10e9 + 6 * f + s,
                1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 80000000, "tree"), S / 10e9 + 2 * (3 * f + s),
                1e-14);
    double inside = 0.75 * S / 100e9 + 3 * f, across = S / 4 * 0.5 / 10e9 + s;
    assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 80000000, "hierarchical"),
                2 * inside + 2 * across, 1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_ALLGATHER, 80000000, "hierarchical"), inside + across,
                1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_REDUCESCATTER, 80000000, "hierarchical"), inside + across,
                1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_BROADCAST, 80000000, "hierarchical"),
                S / 10e9 + s + S / 100e9 + 3 * f, 1e-14);
    /* pairs of 10 MB: 2 x 3 inside, then 4 across; all at once: 3 and 4 */
    assert_near(seconds_of(&t, COLLECTIVE_ALLTOALL, 80000000, "hierarchical"),
                60e6 / 100e9 + f + 40e6 / 10e9 + s, 1e-14);
    assert_near(seconds_of(&t, COLLECTIVE_ALLTOALL, 80000000, "direct"), 40e6 / 10e9 + s, 1e-14);
    /* S inside, S / 4 across, at the same time */
    assert_near(seconds_of(&t, COLLECTIVE_ALLREDUCE, 80000000, "switch"), S / 4 / 10e9 + f + s,
                1e-14);
    topology_free(&t);
}

/* 4 rings side by side leave each node through each of its members once: 7/16 S cross each slow
 * edge; over the fast port of a member goes the rest. */
static void nics_carry_a_ring_or_tree_each(void **state)
{
    struct topology t = racks_nodes(2, 4, "device", two_tiers);
    struct collective_group g = group_of(&t, racks_all(), 8);
    struct collective_shape s = shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "ring", 4);
    assert_int_equal(s.flows, 32);
    assert_near(s.phase[0].transfer_s, 1.75 / 4 * 80e6 / 10e9, 1e-14);
    collective_shape_free(&s);
    s = shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "tree", 99); /* no more than members */
    assert_int_equal(s.flows, 4 * (2 * 6 + 4));
    assert_near(s.phase[0].transfer_s, 80e6 / 4 / 10e9, 1e-14);
    collective_shape_free(&s);
    s = shape_of(&g, COLLECTIVE_BROADCAST, 80000000, "ring", 4);
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(s.flow[7 * k].from, 0);
    assert_near(s.seconds, 80e6 / 4 / 10e9 + 5 * 2e-6 + 2 * 10e-6, 1e-14);
    collective_shape_free(&s);
    collective_group_free(&g);
    topology_free(&t);
}

/* A NIC for all 4 members of a node: S / 4 from each across is S through it, 4 x 4 pairs of 10 MB
 * are 160 MB; two NICs take half of that, eight are no better than one for each member; of one that
 * is half as fast again as what leads to it all can be used. */
static void members_share_the_nics_of_their_node(void **state)
{
    struct topology t = racks_nodes(2, 4, "device", two_tiers);
    struct collective_group g = group_of(&t, racks_all(), 8);
    static const double nics[] = {0, 1, 2, 8, 1.5};
    static const double ways[] = {4, 1, 2, 4, 1.5};
    for (size_t k = 0; k < 5; k++) {
        struct collective_shape s =
            shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "hierarchical", nics[k]);
        assert_near(s.phase[0].transfer_s, 60e6 / 100e9, 1e-14); /* does not leave */
        assert_near(s.phase[1].transfer_s, 80e6 / 10e9 / ways[k], 1e-14);
        collective_shape_free(&s);
        s = shape_of(&g, COLLECTIVE_ALLTOALL, 80000000, "direct", nics[k]);
        assert_near(s.phase[0].transfer_s, 160e6 / 10e9 / ways[k], 1e-14);
        collective_shape_free(&s);
        s = shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "ring", nics[k]);
        assert_near(s.phase[0].transfer_s, 140e6 / 10e9 / (k > 0 ? ways[k] : 1), 1e-14);
        collective_shape_free(&s);
    }
    collective_group_free(&g);
    topology_free(&t);
}

/* 4 members and 2: those send S / 4 each to the 2, which send S / 2 each back. */
static void a_switch_joins_nodes_of_different_sizes(void **state)
{
    struct topology t = racks_nodes(2, 4, "device", two_tiers);
    struct collective_group g = group_of(&t, racks_all(), 6);
    struct collective_shape s = shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "switch", 0);
    assert_near(s.seconds, 40e6 / 10e9 + 12e-6, 1e-14);
    collective_shape_free(&s);
    s = shape_of(&g, COLLECTIVE_ALLREDUCE, 80000000, "tree", 0);
    assert_near(s.seconds, 80e6 / 10e9 + 2 * (3 * 2e-6 + 10e-6), 1e-14);
    collective_shape_free(&s);
    collective_group_free(&g);
    topology_free(&t);
}

static uint32_t third_behind_uplink(const void *context, uint32_t from, uint32_t to)
{
    (void)context;
    return from == 2 || to == 2;
}

/* All-to-all of 3 members with 10 MB a pair: each sends to one over "nic" and to one over
 * "nic+uplink", or to both over the latter; the same port either way. */
static void tiers_of_one_bandwidth_share_a_port(void **state)
{
    static const struct topology_tier tiers[2] = {{"nic", 5e-6, 10e9}, {"nic+uplink", 6e-6, 10e9}};
    struct topology t = racks_any(3, "device", tiers, 2, third_behind_uplink, NULL);
    assert_near(seconds_of(&t, COLLECTIVE_ALLTOALL, 30000000, "direct"), 20e6 / 10e9 + 6e-6, 1e-14);
    topology_free(&t);
}

static void one_member_or_nothing_to_move_takes_no_time(void **state)
{
    struct topology t = sample_clique(3, 1e-6, 1e9);
    for (size_t n = 1; n <= 3; n += 2) {
        struct collective_group g = group_of(&t, racks_all(), n);
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
            struct collective_shape s = {0};
            assert_int_equal(
                collective_shape_make(&g, (enum collective_kind)kind, n == 1 ? MIB : 0, NULL, &s),
                STATUS_OK);
            assert_int_equal(s.phases + s.flows, 0);
            assert_non_null(s.algorithm);
            assert_near(s.seconds, 0, 0);
            collective_shape_free(&s);
        }
        collective_group_free(&g);
    }
    topology_free(&t);
}

static void sum_flows(const struct collective_shape *s, double *out, double *in)
{
    for (size_t f = 0; f < s->flows; f++) {
        assert_int_not_equal(s->flow[f].from, s->flow[f].to);
        assert_true(s->flow[f].bytes > 0);
        out[s->flow[f].from] += s->flow[f].bytes;
        in[s->flow[f].to] += s->flow[f].bytes;
    }
}

/* Every member sends and receives what the algorithm says; phases cover the flows. */
static void members_send_and_receive_their_share(void **state)
{
    const double S = 1 << 24;
    static const uint32_t nodes[] = {1, 2, 3, 8}, each[] = {1, 2, 5, 8};
    for (size_t a = 0; a < 16; a++) {
        uint32_t p = each[a % 4], k = nodes[a / 4], n = k * p;
        double N = (double)n, P = (double)p, K = (double)k, others = (N - 1) / N * S;
        if (n == 1)
            continue;
        const struct {
            const char *algorithm;
            enum collective_kind kind;
            double bytes;
        } cases[] = {
            {"ring", COLLECTIVE_ALLREDUCE, 2 * others},
            {"ring", COLLECTIVE_ALLGATHER, others},
            {"ring", COLLECTIVE_REDUCESCATTER, others},
            {"direct", COLLECTIVE_ALLTOALL, others},
            {"hierarchical", COLLECTIVE_ALLREDUCE, 2 * others},
            {"hierarchical", COLLECTIVE_ALLGATHER, others},
            {"hierarchical", COLLECTIVE_REDUCESCATTER, others},
            {"hierarchical", COLLECTIVE_ALLTOALL, S / N * ((P - 1) * K + (K - 1) * P)},
            {"switch", COLLECTIVE_ALLREDUCE, (p > 1 ? S : 0) + (k > 1 ? S / P : 0)},
        };
        struct topology t = racks_nodes(k, p, "device", two_tiers);
        struct collective_group g = group_of(&t, racks_all(), n);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            double out[64] = {0}, in[64] = {0};
            struct collective_shape s = shape_of(&g, cases[c].kind, 1 << 24, cases[c].algorithm, 0);
            sum_flows(&s, out, in);
            for (size_t m = 0; m < n; m++) {
                assert_near(out[m], cases[c].bytes, 1e-6);
                assert_near(in[m], cases[c].bytes, 1e-6);
            }
            assert_int_equal(s.phase[0].flow_start, 0);
            assert_int_equal(s.phase[s.phases - 1].flow_end, s.flows);
            for (size_t i = 1; i < s.phases; i++)
                assert_int_equal(s.phase[i].flow_start, s.phase[i - 1].flow_end);
            collective_shape_free(&s);
        }
        collective_group_free(&g);
        topology_free(&t);
    }
}

/* A broadcast brings S to everyone but the root; both trees together move 2 (n - 1) S. */
static void broadcasts_and_trees_reach_everyone(void **state)
{
    static const uint32_t nodes[] = {2, 3, 7, 8};
    for (size_t a = 0; a < 4; a++) {
        size_t n = nodes[a] * 3;
        struct topology t = racks_nodes(nodes[a], 3, "device", two_tiers);
        struct collective_group g = group_of(&t, racks_all(), n);
        for (uint32_t c = 1; c <= 3; c++) {
            double out[64] = {0}, in[64] = {0}, total = 0;
            struct collective_shape s = shape_of(&g, COLLECTIVE_BROADCAST, 1200, "ring", c);
            sum_flows(&s, out, in);
            for (size_t m = 0; m < n; m++)
                assert_near(in[m], m == 0 ? 0 : 1200, 1e-9);
            collective_shape_free(&s);
            memset(out, 0, sizeof out);
            memset(in, 0, sizeof in);
            s = shape_of(&g, COLLECTIVE_REDUCE, 1200, "ring", c);
            sum_flows(&s, out, in);
            for (size_t m = 0; m < n; m++) /* everybody but the first gives S */
                assert_near(out[m], m == 0 ? 0 : 1200, 1e-9);
            collective_shape_free(&s);
            memset(out, 0, sizeof out);
            memset(in, 0, sizeof in);
            s = shape_of(&g, COLLECTIVE_ALLREDUCE, 1200, "tree", c);
            sum_flows(&s, out, in);
            for (size_t m = 0; m < n; m++) {
                total += in[m];
                assert_near(in[m], out[m], 1e-9); /* what goes up comes down */
            }
            assert_near(total, 2 * (double)(n - 1) * 1200, 1e-6);
            collective_shape_free(&s);
        }
        collective_group_free(&g);
        topology_free(&t);
    }
}

/* Above COLLECTIVE_PAIRS_MAX members each sends inside and across what all pairs would carry. */
static void large_all_to_all_is_folded_with_the_same_load(void **state)
{
    struct topology t = racks_nodes(40, 8, "device", two_tiers);
    struct collective_group g = group_of(&t, racks_all(), 320);
    struct collective_shape s = shape_of(&g, COLLECTIVE_ALLTOALL, 320000, "direct", 0);
    double *out = calloc(2 * 320, sizeof *out), *across = out + 320;
    assert_non_null(out);
    assert_true(s.flows <= 8 * 320);
    for (size_t f = 0; f < s.flows; f++) {
        assert_int_not_equal(s.flow[f].from, s.flow[f].to);
        out[s.flow[f].from] += s.flow[f].bytes;
        if (s.flow[f].from / 8 != s.flow[f].to / 8)
            across[s.flow[f].to] += s.flow[f].bytes;
    }
    for (size_t m = 0; m < 320; m++) {
        assert_near(out[m], 319 * 1000, 1e-6);
        assert_near(across[m], 312 * 1000, 1e-6);
    }
    assert_near(s.seconds, 312e3 / 10e9 + 10e-6, 1e-14);
    collective_shape_free(&s);
    /* 40 x 7 pairs inside for other nodes' members too, then 8 x 39 across */
    s = shape_of(&g, COLLECTIVE_ALLTOALL, 320000, "hierarchical", 0);
    assert_int_equal(s.flows, 8 * 320);
    assert_near(s.seconds, 280e3 / 100e9 + 312e3 / 10e9 + 12e-6, 1e-14);
    free(out);
    collective_shape_free(&s);
    collective_group_free(&g);
    topology_free(&t);
}

/* Nodes of 3 and 1: "hierarchical" is not for all-reduce; trees do not gather. */
static void what_an_algorithm_cannot_do_is_left_to_the_choice(void **state)
{
    struct topology t = racks_nodes(2, 3, "device", two_tiers);
    struct collective_group g = group_of(&t, racks_all(), 4);
    static const struct {
        const char *asked;
        enum collective_kind kind;
        const char *got;
    } cases[] = {{"hierarchical", COLLECTIVE_REDUCESCATTER, "ring"},
                 {"tree", COLLECTIVE_ALLGATHER, "ring"},
                 {"ring", COLLECTIVE_ALLTOALL, "direct"},
                 {"switch", COLLECTIVE_BROADCAST, "ring"},
                 {"auto", COLLECTIVE_ALLTOALL, "direct"},
                 {"hierarchical", COLLECTIVE_REDUCE, "ring"},
                 {"ring", COLLECTIVE_GATHER, "direct"},
                 {"tree", COLLECTIVE_SCATTER, "direct"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct collective_options o = {.algorithm = cases[k].asked};
        struct collective_shape s = {0};
        assert_int_equal(collective_shape_make(&g, cases[k].kind, MIB, &o, &s), STATUS_OK);
        assert_string_equal(s.algorithm->name, cases[k].got);
        assert_true(s.seconds > 0);
        collective_shape_free(&s);
    }
    collective_group_free(&g);
    topology_free(&t);
}

/* nccl-tests, doc/PERFORMANCE.md. */
static void bus_factors_are_those_of_nccl_tests(void **state)
{
    static const double at8[COLLECTIVE_KINDS] = {1.75, 0.875, 0.875, 0.875, 1, 1, 0.875, 0.875};
    for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
        assert_near(collective_bus_factor((enum collective_kind)kind, 8), at8[kind], 1e-15);
        assert_near(collective_bus_factor((enum collective_kind)kind, 1), 1, 0);
    }
}

static enum status everything(const struct topology *t)
{
    enum status st;
    struct collective_group g = {0};
    struct collective_shape s = {0};
    TRY(collective_group_make(t, racks_all(), t->n, &g));
    for (size_t i = 0; i < collective_algorithms_n; i++)
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
            struct collective_options o = {.algorithm = collective_algorithms[i]->name,
                                           .nccl_protocols = true};
            TRY(collective_shape_make(&g, (enum collective_kind)kind, MIB, &o, &s));
            collective_shape_free(&s);
        }
out:
    collective_shape_free(&s);
    collective_group_free(&g);
    return st;
}

static void survives_every_failing_allocation(void **state)
{
    struct topology t = racks_nodes(2, 3, "A100", two_tiers);
    FOR_EACH_ALLOC_FAILURE(everything(&t))
    topology_free(&t);
    t = racks_nodes(33, 8, "A100", two_tiers);
    FOR_EACH_ALLOC_FAILURE(everything(&t))
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_takes_its_closed_form_on_equal_links),
        cmocka_unit_test(pairs_and_halving_take_their_closed_forms),
        cmocka_unit_test(tree_takes_twice_the_buffer_and_twice_the_depth),
        cmocka_unit_test(two_nodes_take_what_is_worked_out_by_hand),
        cmocka_unit_test(nics_carry_a_ring_or_tree_each),
        cmocka_unit_test(members_share_the_nics_of_their_node),
        cmocka_unit_test(a_switch_joins_nodes_of_different_sizes),
        cmocka_unit_test(tiers_of_one_bandwidth_share_a_port),
        cmocka_unit_test(one_member_or_nothing_to_move_takes_no_time),
        cmocka_unit_test(members_send_and_receive_their_share),
        cmocka_unit_test(broadcasts_and_trees_reach_everyone),
        cmocka_unit_test(large_all_to_all_is_folded_with_the_same_load),
        cmocka_unit_test(what_an_algorithm_cannot_do_is_left_to_the_choice),
        cmocka_unit_test(bus_factors_are_those_of_nccl_tests),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
