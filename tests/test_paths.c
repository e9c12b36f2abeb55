/* Bundles of parallel links: what families write, what readers keep, what files may not say; and
 * flows over them: ECMP against enumeration, spray against one wide link, adaptive against both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/generated.h"
#include "tests/sample.h"

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
        {"ecmp", "FATPIPE", "4", ":7: a FATPIPE link"},
        {"best", "SPLITDUPLEX", "4", ":4: path policy 'best'"},
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

/* ---- flows */

/* f nodes of a GPU in each of two racks; k spines, lanes as wide as a port, 1 GB/s. */
static struct topology two_racks(unsigned f, unsigned k)
{
    char spec[160];
    snprintf(spec, sizeof spec,
             "leaf-spine:nodes=%u,gpus=1,rack=%u,nic=1GBps,oversubscription=%.15g,spines=%u", 2 * f,
             f, (double)f / k, k);
    return generated(spec);
}

static struct simulation simulated(const struct engine *e, const struct program *p,
                                   const struct topology *t, const struct paths_options *paths)
{
    struct simulation s = {0};
    const struct simulation_options o = {.paths = *paths, .faults = paths->faults};
    if (e->run(p, t, generated_path, &o, &s) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    return s;
}

/* Each device of the first rack sends to its counterpart in the second: seconds of the slowest,
 * without latency. */
static double slowest_s(const struct program *p, const struct topology *t,
                        const struct paths_options *paths)
{
    struct simulation s = simulated(&engine_analytic, p, t, paths);
    double end = 0;
    for (size_t i = 0; i < s.timeline.n; i++)
        end = fmax(end, s.timeline.end_s[i]);
    simulation_free(&s);
    return end - topology_between(t, 0, (uint32_t)t->n - 1)->latency_s;
}

static struct program pairwise(const struct topology *t)
{
    uint32_t to[64];
    for (uint32_t i = 0; i < t->n; i++)
        to[i] = i < t->n / 2 ? i + (uint32_t)t->n / 2 : (uint32_t)t->n;
    return generated_messages(t, to);
}

/* The lane of each sender, as a number of base k. */
struct assignment {
    unsigned lane[8], k;
};

static double assigned(const void *context, uint32_t from, uint32_t to, size_t queue_pair)
{
    const struct assignment *a = context;
    (void)to, (void)queue_pair;
    return (a->lane[from] + 0.5) / a->k;
}

/* Of the k^f ways to put f flows on k lanes, those where no lane has more than `most`: f! times the
 * coefficient of x^f in (1 + x + x^2/2! + ... + x^most/most!)^k. */
static double ways_up_to(unsigned f, unsigned k, unsigned most)
{
    double c[8] = {1}, next[8], factorial = 1;
    for (unsigned lane = 0; lane < k; lane++) {
        memset(next, 0, sizeof next);
        for (unsigned i = 0; i <= f; i++) {
            double inverse = 1;
            for (unsigned j = 0; j <= most && i + j <= f; j++) {
                next[i + j] += c[i] * inverse;
                inverse /= j + 1;
            }
        }
        memcpy(c, next, sizeof c);
    }
    for (unsigned i = 2; i <= f; i++)
        factorial *= i;
    return c[f] * factorial;
}

/* The slowest of f equal flows takes as many times as long as its lane has flows. By symmetry the
 * first flow may stay on lane 0. */
static void expect_enumeration(unsigned f, unsigned k, const struct faults *faults)
{
    struct topology t = two_racks(f, faults ? k + 1 : k);
    struct program p = pairwise(&t);
    struct assignment a = {.k = k};
    const struct paths_options paths = {
        .policy = PATHS_ECMP, .hash = assigned, .context = &a, .faults = faults};
    double count[8] = {0}, below = 0;
    for (bool more = true; more;) {
        double s = slowest_s(&p, &t, &paths), most = round(s);
        assert_true(most >= 1 && most <= f && fabs(s - most) < 1e-9 * most);
        count[(unsigned)most] += k;
        unsigned i = 1;
        for (; i < f && ++a.lane[i] == k; i++)
            a.lane[i] = 0;
        more = i < f;
    }
    for (unsigned m = 1; m <= f; m++) {
        double up_to = ways_up_to(f, k, m);
        assert_float_equal(count[m], round(up_to - below), 0);
        below = up_to;
    }
    program_free(&p);
    topology_free(&t);
}

static void ecmp_has_the_distribution_of_balls_in_bins(void **state)
{
    for (unsigned f = 1; f <= 6; f++)
        for (unsigned k = 2; k <= 6; k++)
            expect_enumeration(f, k, NULL);
}

/* Over seeds: the share of hashes without a collision, of 4 flows on 4 lanes 4! / 4^4. */
static void seeds_draw_from_that_distribution(void **state)
{
    enum { DRAWS = 4000 };
    struct topology t = two_racks(4, 4);
    struct program p = pairwise(&t);
    size_t apart = 0;
    for (uint64_t seed = 0; seed < DRAWS; seed++)
        apart +=
            slowest_s(&p, &t, &(struct paths_options){.policy = PATHS_ECMP, .seed = seed}) < 1.5;
    double share = 24.0 / 256, deviation = sqrt(share * (1 - share) / DRAWS);
    assert_true(fabs((double)apart / DRAWS - share) < 4 * deviation);
    program_free(&p);
    topology_free(&t);
}

/* Greedy on equal flows: a lane has one more flow than another, at most. */
static void adaptive_is_never_worse_than_any_hash(void **state)
{
    for (unsigned f = 1; f <= 8; f++)
        for (unsigned k = 2; k <= 6; k++) {
            struct topology t = two_racks(f, k);
            struct program p = pairwise(&t);
            double s = slowest_s(&p, &t, &(struct paths_options){.policy = PATHS_ADAPTIVE});
            assert_near(s, (f + k - 1) / k, 1e-9 * f);
            program_free(&p);
            topology_free(&t);
        }
}

/* With as many queue pairs as lanes, each on one of them, nothing is lost. */
static double round_robin(const void *context, uint32_t from, uint32_t to, size_t queue_pair)
{
    (void)from, (void)to;
    return ((double)queue_pair + 0.5) / *(const unsigned *)context;
}

static void queue_pairs_share_the_bytes(void **state)
{
    const unsigned k = 4;
    struct topology t = two_racks(4, k);
    struct program p = pairwise(&t);
    const struct assignment together = {.k = k};
    struct paths_options paths = {
        .policy = PATHS_ECMP, .queue_pairs = k, .hash = round_robin, .context = &k};
    assert_near(slowest_s(&p, &t, &paths), 1, 1e-9);
    paths.hash = assigned; /* all queue pairs of all senders on one lane */
    paths.context = &together;
    assert_near(slowest_s(&p, &t, &paths), 4, 4e-9);
    program_free(&p);
    topology_free(&t);
}

/* Random senders and receivers, several of them at one port; racks of 4 nodes of 2 GPUs. */
static struct program random_messages(const struct topology *t, uint64_t seed)
{
    uint32_t to[64];
    assert_true(t->n <= 64);
    for (uint32_t i = 0; i < t->n; i++) {
        to[i] = (uint32_t)(random_at(seed, i) % (t->n + t->n / 4));
        to[i] = to[i] == i ? (uint32_t)t->n : to[i];
    }
    return generated_messages(t, to);
}

static void expect_same_times(const struct simulation *a, const struct simulation *b)
{
    assert_int_equal(a->timeline.n, b->timeline.n);

    for (size_t i = 0; i < a->timeline.n; i++)
        assert_near(a->timeline.end_s[i], b->timeline.end_s[i], 1e-9 * b->timeline.end_s[i]);
}

static const char random_racks[] =
    "leaf-spine:nodes=12,gpus=2,rack=4,nic=1GBps,oversubscription=1.5,spines=3,uplinks=6";

static void spray_is_as_one_wide_link(void **state)
{
    struct topology t = generated(random_racks);
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct program p = random_messages(&t, seed);
        struct simulation ideal = simulated(&engine_analytic, &p, &t,
                                            &(struct paths_options){.policy = PATHS_IDEAL}),
                          spray = simulated(&engine_analytic, &p, &t,
                                            &(struct paths_options){.policy = PATHS_SPRAY});
        expect_same_times(&ideal, &spray);
        simulation_free(&ideal);
        simulation_free(&spray);
        program_free(&p);
    }
    topology_free(&t);
}

/* SimGrid's transfers have whole bytes: so many queue pairs divide them. */
static const size_t queue_pairs[] = {1, 2, 4};

static void both_engines_hash_alike(void **state)
{
    struct topology t = generated(random_racks);
    for (uint64_t seed = 0; seed < 24; seed++) {
        struct program p = random_messages(&t, seed);
        const struct paths_options o = {
            .policy = PATHS_ECMP, .queue_pairs = queue_pairs[seed % 3], .seed = seed};
        struct simulation a = simulated(&engine_analytic, &p, &t, &o),
                          b = simulated(&engine_simgrid, &p, &t, &o);
        expect_same_times(&a, &b);
        assert_int_equal(a.links, b.links);
        for (size_t l = 0; l < a.links; l++)
            assert_true(!strcmp(a.link[l].name, b.link[l].name) &&
                        a.link[l].bytes == b.link[l].bytes);
        simulation_free(&a);
        simulation_free(&b);
        program_free(&p);
    }
    topology_free(&t);
}

static void collectives_choose_alike_on_both_engines(void **state)
{
    struct model m = sample_chain(3, 1e-3, 2e-3, 40000000, 8000000);
    struct topology t =
        generated("leaf-spine:nodes=12,gpus=2,rack=4,nic=1GBps,oversubscription=1.5,spines=6");
    struct plan plan = sample_plan(&m, 3, 8, 8, "1f1b");
    struct program p = {0};
    assert_int_equal(plan_lower(&plan, &m, &t, &p), STATUS_OK);
    double least = INFINITY, most = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        const struct paths_options o = {.policy = seed % 2 ? PATHS_ECMP : PATHS_ADAPTIVE,
                                        .queue_pairs = queue_pairs[seed % 3],
                                        .seed = seed};
        struct simulation a = simulated(&engine_analytic, &p, &t, &o),
                          b = simulated(&engine_simgrid, &p, &t, &o);
        double end = 0;
        expect_same_times(&a, &b);
        for (size_t i = 0; i < a.timeline.n; i++)
            end = fmax(end, a.timeline.end_s[i]);
        least = fmin(least, end);
        most = fmax(most, end);
        simulation_free(&a);
        simulation_free(&b);
    }
    assert_true(most > least * 1.01); /* hashes do matter here */
    program_free(&p);
    plan_free(&plan);
    model_free(&m);
    topology_free(&t);
}

/* ---- failed lanes */

static struct faults failed(const char *list)
{
    struct faults f = {0};
    assert_int_equal(faults_add(&f, FAULT_FAIL, list), STATUS_OK);
    return f;
}

/* With a spine gone f flows are hashed onto k - 1 lanes, or on the lanes of one leaf. */
static void flows_are_hashed_onto_what_is_left(void **state)
{
    struct faults spine = failed("*-up.1@0"), leaf = failed("leaf1-up.2@0");
    for (unsigned f = 1; f <= 4; f++)
        for (unsigned k = 2; k <= 4; k++) {
            expect_enumeration(f, k, &spine);
            if (k > 2)
                expect_enumeration(f, k, &leaf);
        }
    faults_free(&spine);
    faults_free(&leaf);
}

static void others_share_what_is_left(void **state)
{
    struct faults spine = failed("*-up.0@0");
    for (unsigned f = 1; f <= 8; f++)
        for (unsigned k = 2; k <= 6; k++) {
            struct topology t = two_racks(f, k);
            struct program p = pairwise(&t);
            struct paths_options o = {.policy = PATHS_ADAPTIVE, .faults = &spine};
            assert_near(slowest_s(&p, &t, &o), (f + k - 2) / (k - 1), 1e-9 * f);
            o.policy = PATHS_SPRAY;
            assert_near(slowest_s(&p, &t, &o), fmax(1, (double)f / (k - 1)), 1e-9 * f);
            o.policy = PATHS_IDEAL;
            assert_near(slowest_s(&p, &t, &o), fmax(1, (double)f / (k - 1)), 1e-9 * f);
            program_free(&p);
            topology_free(&t);
        }
    faults_free(&spine);
}

/* Racks A, B and C of four; four lanes, of which A has lost one. A sends over three lanes what takes
 * 4/3 s; what C sends to itself is not concerned. From B, three senders into A have 3 lanes. */
static void only_paths_over_a_failed_lane_are_lost(void **state)
{
    struct topology t =
        generated("leaf-spine:nodes=12,gpus=1,rack=4,nic=1GBps,oversubscription=1,spines=4");
    struct faults lane = failed("leaf0-up.3@0s");
    const struct paths_options o = {.policy = PATHS_SPRAY, .faults = &lane};
    const uint32_t none = 12, out[] = {4, 5, 6, 7, 8, 9, 10, 11, none, none, none, none};
    struct program p = generated_messages(&t, out);
    struct simulation s = simulated(&engine_analytic, &p, &t, &o);
    double latency_s = topology_between(&t, 0, 11)->latency_s;
    for (uint32_t r = 0; r < 12; r++)
        for (size_t i = p.op_start[r]; i < p.op_start[r + 1]; i++)
            if (p.op[i].kind == OP_RECV)
                assert_near(s.timeline.end_s[i] - latency_s, r < 8 ? 4.0 / 3 : 1, 1e-9);
    simulation_free(&s);
    program_free(&p);
    faults_free(&lane);
    topology_free(&t);
}

static void both_engines_avoid_failed_lanes(void **state)
{
    struct topology t = generated(random_racks);
    struct faults lanes = failed("leaf0-up.1@0,leaf2-up.4@0,leaf2-up.5@0");
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct program p = random_messages(&t, seed);
        const struct paths_options o = {
            .policy = PATHS_ECMP, .queue_pairs = 2, .seed = seed, .faults = &lanes};
        struct simulation a = simulated(&engine_analytic, &p, &t, &o),
                          b = simulated(&engine_simgrid, &p, &t, &o);
        expect_same_times(&a, &b);
        for (size_t l = 0; l < a.links; l++)
            assert_false(!strncmp(a.link[l].name, "leaf0-up.1_", 11) ||
                         !strncmp(a.link[l].name, "leaf2-up.4_", 11) ||
                         !strncmp(a.link[l].name, "leaf2-up.5_", 11));
        simulation_free(&a);
        simulation_free(&b);
        program_free(&p);
    }
    faults_free(&lanes);
    topology_free(&t);
}

static void says_when_no_path_is_left(void **state)
{
    static const struct {
        const char *faults;
        enum status status;
        const char *says;
    } cases[] = {{"leaf0-up.*@0", STATUS_EXTERNAL, "no path left from n0g0 to n2g0"},
                 {"leaf0-up.0@0,leaf1-up.1@0", STATUS_EXTERNAL, "no path left"},
                 {"leaf0-up.1@0.5s", STATUS_UNSUPPORTED, "lane leaf0-up.1 fails at 0.5 s"},
                 {"leaf0-up@0", STATUS_UNSUPPORTED, "link leaf0-up only lanes"}};
    struct topology t = two_racks(2, 2);
    struct program p = pairwise(&t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct faults f = failed(cases[i].faults);
        struct simulation s = {0};
        const struct simulation_options o = {.paths.policy = PATHS_ECMP, .faults = &f};
        for (int k = 0; k < 2; k++) {
            const struct engine *e = k ? &engine_simgrid : &engine_analytic;
            assert_int_equal(e->run(&p, &t, generated_path, &o, &s), cases[i].status);
            if (!message_says(error_message(), cases[i].says))
                fail_msg("'%s' does not say '%s'", error_message(), cases[i].says);
        }
        faults_free(&f);
    }
    program_free(&p);
    topology_free(&t);
}

static void both_engines_adapt_alike(void **state)
{
    struct topology t =
        generated("leaf-spine:nodes=12,gpus=2,rack=4,nic=1GBps,oversubscription=1.5,spines=6");
    struct faults lane = failed("leaf1-up.3@0");
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct program p = random_messages(&t, seed);
        const struct paths_options o = {.policy = PATHS_ADAPTIVE,
                                        .queue_pairs = queue_pairs[seed % 3],
                                        .faults = seed % 2 ? &lane : NULL};
        struct simulation a = simulated(&engine_analytic, &p, &t, &o),
                          b = simulated(&engine_simgrid, &p, &t, &o);
        expect_same_times(&a, &b);
        simulation_free(&a);
        simulation_free(&b);
        program_free(&p);
    }
    faults_free(&lane);
    topology_free(&t);
    t = generated(random_racks);
    struct program p = random_messages(&t, 1);
    struct simulation s = {0};
    const struct simulation_options o = {.paths.policy = PATHS_ADAPTIVE};
    assert_int_equal(engine_simgrid.run(&p, &t, generated_path, &o, &s), STATUS_UNSUPPORTED);
    program_free(&p);
    topology_free(&t);
}

static void a_policy_needs_something_to_choose_from(void **state)
{
    struct topology t = generated("leaf-spine:nodes=4,gpus=1,rack=2");
    struct program p = pairwise(&t);
    struct simulation s = {0};
    struct simulation_options o = {.paths.policy = PATHS_ECMP};
    assert_int_equal(engine_analytic.run(&p, &t, generated_path, &o, &s), STATUS_INVALID);
    assert_true(message_says(error_message(), "path between two devices spines=16"));
    program_free(&p);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_a_lane_for_each_cable),
        cmocka_unit_test(a_bundle_has_the_bandwidth_of_all_its_lanes),
        cmocka_unit_test(refuses_lanes_and_policies_that_make_no_sense),
        cmocka_unit_test(ecmp_has_the_distribution_of_balls_in_bins),
        cmocka_unit_test(seeds_draw_from_that_distribution),
        cmocka_unit_test(adaptive_is_never_worse_than_any_hash),
        cmocka_unit_test(queue_pairs_share_the_bytes),
        cmocka_unit_test(spray_is_as_one_wide_link),
        cmocka_unit_test(both_engines_hash_alike),
        cmocka_unit_test(collectives_choose_alike_on_both_engines),
        cmocka_unit_test(flows_are_hashed_onto_what_is_left),
        cmocka_unit_test(others_share_what_is_left),
        cmocka_unit_test(only_paths_over_a_failed_lane_are_lost),
        cmocka_unit_test(both_engines_avoid_failed_lanes),
        cmocka_unit_test(both_engines_adapt_alike),
        cmocka_unit_test(says_when_no_path_is_left),
        cmocka_unit_test(a_policy_needs_something_to_choose_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
