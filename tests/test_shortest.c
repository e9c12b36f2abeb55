/* Reading large platforms without asking for every route: equal to asking wherever that can be
 * done, and possible where it cannot. */
#include "sim/platform/platform.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "topologies/generate.h"

static const char path[] = BINARY_DIR "/test_shortest.xml";

/* A flat zone being written: all links must stand before all routes. */
struct sheet {
    FILE *file;
    char *routes;
    size_t length, links;
    FILE *later;
};

static void begin(struct sheet *s, const char *routing)
{
    *s = (struct sheet){.file = fopen(path, "w")};
    s->later = open_memstream(&s->routes, &s->length);
    assert_non_null(s->file);
    assert_non_null(s->later);
    fprintf(s->file,
            "<?xml version='1.0'?>\n"
            "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\"><zone id=\"z\" routing=\"%s\">\n",
            routing);
}

static void end(struct sheet *s)
{
    fclose(s->later);
    fputs(s->routes, s->file);
    fputs("</zone></platform>\n", s->file);
    assert_int_equal(fclose(s->file), 0);
    free(s->routes);
}

static void host(struct sheet *s, size_t i)
{
    fprintf(s->file, "<host id=\"v%zu\" speed=\"1Gf\"/>\n", i);
}

static void router(struct sheet *s, size_t i)
{
    fprintf(s->file, "<router id=\"v%zu\"/>\n", i);
}

/* A route of `hops` links, each of one of `classes` qualities; one way only or both. */
static void connect(struct sheet *s, size_t a, size_t b, int hops, int classes, bool both)
{
    static const char *const latency[] = {"1us", "0.3us", "1.7us", "0.1us", "0s"};
    static const char *const bandwidth[] = {"10GBps", "25GBps", "10GBps", "400Gbps", "3GBps"};
    static const char *const policy[] = {"SPLITDUPLEX", "SHARED", "FATPIPE"};
    fprintf(s->later, "<route src=\"v%zu\" dst=\"v%zu\" symmetrical=\"%s\">", a, b,
            both ? "YES" : "NO");
    for (int h = 0; h < hops; h++) {
        int class = rand() % classes, kind = rand() % 3;
        fprintf(s->file,
                "<link id=\"l%zu\" bandwidth=\"%s\" latency=\"%s\" sharing_policy=\"%s\">"
                "<prop id=\"tier\" value=\"t%d\"/></link>\n",
                s->links, bandwidth[class], latency[class], policy[kind], class % 3);
        fprintf(s->later, "<link_ctn id=\"l%zu\"%s/>", s->links++,
                kind != 0    ? ""
                : rand() % 2 ? " direction=\"UP\""
                             : " direction=\"DOWN\"");
    }
    fputs("</route>\n", s->later);
}

static struct topology read_or_fail(enum status (*read)(const char *, struct topology *))
{
    struct topology t = {0};
    if (read(path, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

/* Tiers with names, numbers and order, and the tier of every pair. */
static void expect_same_both_ways(void)
{
    struct topology a = read_or_fail(platform_read), b = read_or_fail(platform_read_exhaustively);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.tiers, b.tiers);
    for (size_t k = 0; k < a.tiers; k++) {
        assert_string_equal(a.tier[k].name, b.tier[k].name);
        assert_memory_equal(&a.tier[k].latency_s, &b.tier[k].latency_s, sizeof(double));
        assert_memory_equal(&a.tier[k].bandwidth_Bps, &b.tier[k].bandwidth_Bps, sizeof(double));
    }
    for (uint32_t i = 0; i < a.n; i++)
        for (uint32_t j = 0; j < a.n; j++)
            if (topology_map_at(&a.between, i, j) != topology_map_at(&b.between, i, j))
                fail_msg("%s to %s: tier %u, exhaustively %u", a.device[i], a.device[j],
                         topology_map_at(&a.between, i, j), topology_map_at(&b.between, i, j));
    topology_free(&a);
    topology_free(&b);
}

/* A tree of random arity, then some edges more; the fewer qualities the more ties. */
static void write_random(size_t hosts, size_t routers, size_t more, int classes)
{
    struct sheet s;
    size_t n = hosts + routers;
    bool *joined = calloc(n * n, sizeof *joined);
    assert_non_null(joined);
    begin(&s, n < 24 && rand() % 2 ? "Dijkstra" : "DijkstraCache"); /* the former is slow */
    for (size_t i = 0; i < n; i++) { /* routers anywhere in between */
        if (i % n < hosts)
            host(&s, i);
        else
            router(&s, i);
    }
    for (size_t i = 1; i < n + more; i++) {
        size_t a = i < n ? i : (size_t)rand() % n, b = (size_t)rand() % (i < n ? i : n);
        bool both = i < n || rand() % 2;
        if (a == b || joined[a * n + b] || joined[b * n + a])
            continue;
        joined[a * n + b] = joined[b * n + a] = true;
        connect(&s, a, b, rand() % 4 ? 1 : 2 + rand() % 2, classes, both);
    }
    end(&s);
    free(joined);
}

static void random_platforms_read_as_if_every_pair_were_asked(void **state)
{
    srand(1);
    for (int round = 0; round < 40; round++) {
        size_t hosts = 8 + (size_t)rand() % (round % 8 ? 25 : 121);
        write_random(hosts, (size_t)rand() % 12, (size_t)rand() % (2 * hosts), 1 + round % 5);
        expect_same_both_ways();
    }
}

/* All links alike: many shortest routes, all equal. */
static void a_torus_reads_as_if_every_pair_were_asked(void **state)
{
    enum { X = 6, Y = 5 };
    struct sheet s;
    begin(&s, "DijkstraCache");
    for (size_t i = 0; i < X * Y; i++)
        host(&s, i);
    for (size_t y = 0; y < Y; y++)
        for (size_t x = 0; x < X; x++) {
            connect(&s, y * X + x, y * X + (x + 1) % X, 1, 1, true);
            connect(&s, y * X + x, (y + 1) % Y * X + x, 1, 1, true);
        }
    end(&s);
    expect_same_both_ways();
}

static void write_generated(const char *spec)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    if (generate_platform(spec, f) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(fclose(f), 0);
}

static void generated_platforms_read_as_if_every_pair_were_asked(void **state)
{
    static const char *const specs[] = {
        "node:gpus=8",
        "rail:nodes=5,gpus=3",
        "rail:nodes=9,gpus=4,rack=4,oversubscription=4",
        "rail:nodes=16,gpus=8,rack=8,type=B200",
        "leaf-spine:nodes=7,gpus=3,rack=2,oversubscription=3",
        "leaf-spine:nodes=20,gpus=1,rack=5,nic=10Gbps",
        "rail:nodes=50,gpus=6,rack=7,oversubscription=2", /* racks that fill no squares */
        "leaf-spine:nodes=37,gpus=8,rack=16",
        "fat-tree:nodes=40,gpus=8,nics=2,edge=3,pod=4,core=2",
        "dragonfly+:groups=5,leaves=3,nodes=3,gpus=6,nics=3,mesh=1",
        "torus:x=5,y=4,z=3,gpus=4",
        "wan:sites=3,nodes=5,gpus=7",
        "nvl:domains=3,gpus=36",
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        write_generated(specs[i]);
        expect_same_both_ways();
    }
}

/* v0 -> v1 -> v2 -> v0 only: the way back is another. */
static void a_ring_of_one_direction_reads_as_if_every_pair_were_asked(void **state)
{
    enum { N = 9 };
    struct sheet s;
    srand(5);
    begin(&s, "DijkstraCache");
    for (size_t i = 0; i < N; i++)
        host(&s, i);
    for (size_t i = 0; i < N; i++)
        connect(&s, i, (i + 1) % N, 1, 3, false);
    end(&s);
    expect_same_both_ways();
}

/* Names with entities, and routings without shortest routes, are left to SimGrid. */
static void other_platforms_are_still_asked(void **state)
{
    struct sheet s;
    begin(&s, "Floyd");
    for (size_t i = 0; i < 8; i++)
        host(&s, i);
    for (size_t i = 1; i < 8; i++)
        connect(&s, 0, i, 1, 3, true);
    end(&s);
    expect_same_both_ways();

    begin(&s, "DijkstraCache");
    fputs("<host id=\"a&amp;b\" speed=\"1Gf\"/><host id=\"v0\" speed=\"1Gf\"/>"
          "<link id=\"x\" bandwidth=\"1GBps\" latency=\"1us\"/>"
          "<route src=\"a&amp;b\" dst=\"v0\"><link_ctn id=\"x\"/></route>",
          s.file);
    end(&s);
    expect_same_both_ways();
}

/* Above 4096 devices only the search can do it. */
static void reads_more_devices_than_could_be_asked_for(void **state)
{
    write_generated("rail:nodes=520,rack=64");
    struct topology t = read_or_fail(platform_read);
    uint64_t pairs[4];
    assert_int_equal(t.n, 4160);
    assert_int_equal(t.tiers, 4);
    assert_string_equal(topology_between(&t, 0, 7)->name, "nvlink");
    assert_string_equal(topology_between(&t, 0, 8)->name, "rail");
    assert_string_equal(topology_between(&t, 0, 9)->name, "nvlink+rail");
    assert_string_equal(topology_between(&t, 511, 512)->name, "spine+rail");
    assert_int_equal(topology_map_count(&t.between, t.n, t.tiers, pairs), STATUS_OK);
    assert_int_equal(pairs[0], 4160 * 7);
    assert_int_equal(pairs[1], 8 * 512 * 63 + 64 * 7); /* eight racks of 64 nodes, one of 8 */
    topology_free(&t);
}

static void expect_refusal(const char *message)
{
    struct topology t = {0};
    assert_int_equal(platform_read(path, &t), STATUS_PARSE);
    if (!message_says(error_message(), message))
        fail_msg("'%s' does not say '%s'", error_message(), message);
}

static void says_why_a_large_platform_cannot_be_read(void **state)
{
    enum { N = 4100 };
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
            "\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
            "<cluster id=\"c\" prefix=\"g\" suffix=\"\" radical=\"0-%d\" speed=\"1Gf\" "
            "bw=\"1GBps\" lat=\"1us\"/></platform>",
            N - 1);
    assert_int_equal(fclose(f), 0);
    expect_refusal("<cluster> 4100 hosts, expected up to 4096; --limit platform=2");
}

/* Two switches, one fast and one slow, on everybody's way: SimGrid takes the one that routes name
 * first. */
static void large_platforms_may_have_ways_of_different_speeds(void **state)
{
    enum { N = 4100 };
    struct sheet s;
    begin(&s, "DijkstraCache");
    for (size_t i = 0; i < N; i++)
        host(&s, i);
    fputs("<router id=\"a\"/><router id=\"b\"/>"
          "<link id=\"fast\" bandwidth=\"9GBps\" latency=\"1us\"/>"
          "<link id=\"slow\" bandwidth=\"1GBps\" latency=\"1us\"/>",
          s.file);
    for (size_t i = 0; i < N; i++)
        fprintf(s.later,
                "<route src=\"v%zu\" dst=\"b\"><link_ctn id=\"slow\"/></route>"
                "<route src=\"v%zu\" dst=\"a\"><link_ctn id=\"fast\"/></route>",
                i, i);
    end(&s);
    struct topology t = read_or_fail(platform_read);
    assert_int_equal(t.tiers, 1);
    assert_float_equal(t.tier[0].bandwidth_Bps, 1e9, 0);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_platforms_read_as_if_every_pair_were_asked),
        cmocka_unit_test(a_torus_reads_as_if_every_pair_were_asked),
        cmocka_unit_test(generated_platforms_read_as_if_every_pair_were_asked),
        cmocka_unit_test(a_ring_of_one_direction_reads_as_if_every_pair_were_asked),
        cmocka_unit_test(other_platforms_are_still_asked),
        cmocka_unit_test(reads_more_devices_than_could_be_asked_for),
        cmocka_unit_test(large_platforms_may_have_ways_of_different_speeds),
        cmocka_unit_test(says_why_a_large_platform_cannot_be_read),
    };
    return cmocka_run_group_tests_name("shortest", tests, NULL, NULL);
}
