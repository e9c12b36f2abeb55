/* Routes of a topology against SimGrid's own: every family and platform, link by link, and the
 * tier of a pair against the sum of its links. */
#include "core/data/routes.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/link.h>
#include <xbt/dynar.h>

#include "sim/child.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "topologies/generate.h"

enum { PAIRS = 400, SIMGRID_NAME = 300, MOST_LINKS = 256 };

static const char path[] = BINARY_DIR "/test_routes.xml";

/* What the child compares. */
struct question {
    const char *path;
    const struct topology *t;
    const struct device_pair *pair;
    struct routes routes;
};

static int in_order(const void *a, const void *b)
{
    const struct device_pair *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The links of both lists; SimGrid 3.32 reverses those within a <route>, so in any order. */
static enum status compare_links(const struct topology *t, size_t n, const uint32_t *mine,
                                 xbt_dynar_t route, const char *what)
{
    const char *name[2][MOST_LINKS];
    if (n != xbt_dynar_length(route) || n > MOST_LINKS)
        return error_set(STATUS_INVALID, "%s: %zu links, SimGrid %lu", what, n,
                         xbt_dynar_length(route));
    for (size_t h = 0; h < n; h++) {
        sg_link_t link;
        xbt_dynar_get_cpy(route, h, &link);
        name[0][h] = t->link[mine[h]].name;
        name[1][h] = sg_link_get_name(link);
    }
    for (int k = 0; k < 2; k++)
        qsort(name[k], n, sizeof *name[k], by_name);
    for (size_t h = 0; h < n; h++)
        if (strcmp(name[0][h], name[1][h]) != 0)
            return error_set(STATUS_INVALID, "%s: %s, SimGrid's %s", what, name[0][h], name[1][h]);
    return STATUS_OK;
}

/* The links of pair k are SimGrid's, and add up to its tier. */
static enum status compare(const struct question *q, size_t k, xbt_dynar_t route)
{
    const struct topology *t = q->t;
    uint32_t from = q->pair[k].from, to = q->pair[k].to;
    const uint32_t *mine = q->routes.link + q->routes.start[k];
    size_t n = q->routes.start[k + 1] - q->routes.start[k];
    double latency_s = 0, bandwidth_Bps = INFINITY;
    char what[SIMGRID_NAME];
    snprintf(what, sizeof what, "%s to %s", t->device[from], t->device[to]);
    PASS(compare_links(t, n, mine, route, what));
    for (size_t h = 0; h < n; h++) {
        const_sg_link_t link = sg_link_by_name(t->link[mine[h]].name);
        if (t->link[mine[h]].fat == (bool)sg_link_is_shared(link) ||
            fabs(t->link[mine[h]].bandwidth_Bps - sg_link_get_bandwidth(link)) > 0)
            return error_set(STATUS_INVALID, "link %s is another", t->link[mine[h]].name);
        latency_s += sg_link_get_latency(link);
        bandwidth_Bps = fmin(bandwidth_Bps, t->link[mine[h]].bandwidth_Bps);
    }
    const struct topology_tier *tier = topology_between(t, from, to);
    if (fabs(tier->latency_s - latency_s) > 1e-9 * latency_s ||
        fabs(tier->bandwidth_Bps - bandwidth_Bps) > 1e-9 * bandwidth_Bps)
        return error_set(STATUS_INVALID, "%s: tier %g s, links %g s", what, tier->latency_s,
                         latency_s);
    return STATUS_OK;
}

static enum status ask_simgrid(void *argument, int fd)
{
    const struct question *q = argument;
    char *argv[] = {"test", "--log=root.fmt:@@%m%n", "--log=root.thres:error", NULL};
    int argc = 3;
    enum status st = STATUS_OK;
    (void)fd;
    simgrid_init(&argc, argv);
    simgrid_load_platform(q->path);
    simgrid_run_until(0);
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    for (size_t k = 0; st == STATUS_OK && k < q->routes.n; k++) {
        xbt_dynar_reset(route);
        sg_host_get_route(sg_host_by_name(q->t->device[q->pair[k].from]),
                          sg_host_by_name(q->t->device[q->pair[k].to]), route);
        st = compare(q, k, route);
    }
    xbt_dynar_free(&route);
    return st;
}

/* Random pairs, or all when there are few. The routes come out of a search when `flat`: SimGrid's
 * samples agreed with it. */
static void expect_simgrids_routes(const char *file, const char *what, bool flat)
{
    struct topology t = {0};
    struct device_pair pair[PAIRS];
    struct child_output none = {0};
    size_t n = 0;
    if (platform_read(file, &t) != STATUS_OK)
        fail_msg("%s: %s", what, error_message());
    for (size_t k = 0; k < PAIRS && t.n > 1; k++) {
        bool all = t.n * t.n <= PAIRS;
        pair[n].from = (uint32_t)(all ? k / t.n : (size_t)rand() % t.n);
        pair[n].to = (uint32_t)(all ? k % t.n : (size_t)rand() % t.n);
        n += pair[n].from < t.n && pair[n].from != pair[n].to;
    }
    qsort(pair, n, sizeof *pair, in_order);
    struct question q = {.path = file, .t = &t, .pair = pair};
    if (topology_routes(&t, n, pair, &q.routes) != STATUS_OK)
        fail_msg("%s: %s", what, error_message());
    if (t.n > 1 && child_run(ask_simgrid, &q, &none) != STATUS_OK)
        fail_msg("%s: %s", what, error_message());
    if (t.links == 0 || flat != (t.graph.vertices > 0))
        fail_msg("%s: %zu links, %zu vertices", what, t.links, t.graph.vertices);
    child_output_free(&none);
    routes_free(&q.routes);
    topology_free(&t);
}

static void write_generated(const char *spec)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    if (generate_platform(spec, f) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    assert_int_equal(fclose(f), 0);
}

static void shipped_platforms_route_as_simgrid(void **state)
{
    static const char *const names[] = {"dgx-a100-x2", "dgx-h100-x4", "hidup-8xv100",
                                        "laptop",      "pipedream-a", "two-racks"};
    srand(1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[512];
        snprintf(file, sizeof file, SOURCE_DIR "/topologies/platforms/%s.xml", names[i]);
        expect_simgrids_routes(file, names[i], true);
    }
}

/* Ties everywhere: tori with even sides, two ways round every ring. */
static void generated_platforms_route_as_simgrid(void **state)
{
    static const char *const specs[] = {
        "node:gpus=8",
        "node:gpus=2",
        "mesh:gpus=8",
        "rail:nodes=5,gpus=3",
        "rail:nodes=9,gpus=4,rack=4,oversubscription=4",
        "leaf-spine:nodes=7,gpus=3,rack=2,oversubscription=3",
        "torus:x=6,y=4,z=2",
        "torus:x=4,y=4,z=4,gpus=2",
        "torus:x=8,y=1,z=1",
        "dragonfly+:groups=5,leaves=3,nodes=2,gpus=4",
        "dragonfly+:groups=3,leaves=2,nodes=3,gpus=4,nics=2,mesh=1",
        "fat-tree",
        "nvl",
        "wan",
    };
    srand(2);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        write_generated(specs[i]);
        expect_simgrids_routes(path, specs[i], true);
    }
}

/* A flat zone of random routes: of several links, of all policies, of one direction. Few
 * qualities: many ties. */
static void write_random(size_t hosts, size_t routers, size_t more)
{
    static const char *const policy[] = {"SPLITDUPLEX", "SHARED", "FATPIPE"};
    size_t n = hosts + routers, links = 0, length;
    char *routes = NULL;
    bool *joined = calloc(n * n, sizeof *joined);
    FILE *f = fopen(path, "w"), *later = open_memstream(&routes, &length);
    assert_true(f && later && joined);
    fputs("<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\"><zone id=\"z\" routing=\"DijkstraCache\">\n",
          f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, i < hosts ? "<host id=\"v%zu\" speed=\"1Gf\"/>" : "<router id=\"v%zu\"/>", i);
    for (size_t i = 1; i < n + more; i++) {
        size_t a = i < n ? i : (size_t)rand() % n, b = (size_t)rand() % (i < n ? i : n);
        int hops = rand() % 3 ? 1 : 1 + rand() % 3;
        if (a == b || joined[a * n + b] || joined[b * n + a])
            continue;
        joined[a * n + b] = joined[b * n + a] = true;
        fprintf(later, "<route src=\"v%zu\" dst=\"v%zu\" symmetrical=\"%s\">", a, b,
                i < n || rand() % 2 ? "YES" : "NO");
        for (int h = 0; h < hops; h++) {
            int kind = rand() % 3;
            fprintf(f,
                    "<link id=\"l%zu\" bandwidth=\"%dGBps\" latency=\"%dus\" "
                    "sharing_policy=\"%s\"/>\n",
                    links, 1 + rand() % 3, rand() % 3, policy[kind]);
            fprintf(later, "<link_ctn id=\"l%zu\"%s/>", links++,
                    kind != 0    ? ""
                    : rand() % 2 ? " direction=\"UP\""
                                 : " direction=\"DOWN\"");
        }
        fputs("</route>\n", later);
    }
    fclose(later);
    fprintf(f, "%s</zone></platform>\n", routes);
    assert_int_equal(fclose(f), 0);
    free(routes);
    free(joined);
}

static void random_platforms_route_as_simgrid(void **state)
{
    for (unsigned seed = 1; seed <= 60; seed++) {
        char what[32];
        srand(seed);
        snprintf(what, sizeof what, "seed %u", seed);
        size_t hosts = 4 + (size_t)rand() % 40;
        write_random(hosts, (size_t)rand() % 20, (size_t)rand() % (3 * hosts));
        expect_simgrids_routes(path, what, true);
    }
}

/* Zones that are not flat, and clusters: SimGrid's own answers are kept. */
static void other_platforms_keep_simgrids_routes(void **state)
{
    static const char *const bodies[] = {
        "<cluster id=\"c\" prefix=\"g\" suffix=\"\" radical=\"0-11\" speed=\"1Gf\" bw=\"1GBps\" "
        "lat=\"1us\" bb_bw=\"3GBps\" bb_lat=\"2us\"/>",
        "<cluster id=\"c\" prefix=\"g\" suffix=\"\" radical=\"0-15\" speed=\"1Gf\" bw=\"1GBps\" "
        "lat=\"1us\" topology=\"FAT_TREE\" topo_parameters=\"2;4,4;1,2;1,2\"/>",
        "<cluster id=\"c\" prefix=\"g\" suffix=\"\" radical=\"0-11\" speed=\"1Gf\" bw=\"1GBps\" "
        "lat=\"1us\" topology=\"TORUS\" topo_parameters=\"3,2,2\"/>",
        "<zone id=\"z\" routing=\"Full\"><zone id=\"a\" routing=\"Full\"><host id=\"a0\" "
        "speed=\"1Gf\"/></zone><zone id=\"b\" routing=\"Full\"><host id=\"b0\" speed=\"1Gf\"/>"
        "</zone><link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/><zoneRoute src=\"a\" "
        "dst=\"b\" gw_src=\"a0\" gw_dst=\"b0\"><link_ctn id=\"l\"/></zoneRoute></zone>",
    };
    srand(3);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f,
                "<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
                "\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">%s</platform>",
                bodies[i]);
        assert_int_equal(fclose(f), 0);
        expect_simgrids_routes(path, bodies[i], false);
    }
}

/* Two hosts and a switch, by hand. */
static void both_directions_of_a_shared_link_are_one(void **state)
{
    FILE *f = fopen(path, "w");
    struct topology t = {0};
    struct routes r = {0};
    const struct device_pair pair[] = {{0, 0}, {0, 1}, {1, 0}};
    assert_non_null(f);
    fputs("<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
          "<platform version=\"4.1\"><zone id=\"z\" routing=\"Dijkstra\">"
          "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/><router id=\"s\"/>"
          "<link id=\"bus\" bandwidth=\"2GBps\" latency=\"1us\"/>"
          "<link id=\"port\" bandwidth=\"1GBps\" latency=\"1us\" sharing_policy=\"SPLITDUPLEX\"/>"
          "<route src=\"a\" dst=\"s\"><link_ctn id=\"bus\"/></route>"
          "<route src=\"b\" dst=\"s\"><link_ctn id=\"port\" direction=\"UP\"/></route>"
          "</zone></platform>",
          f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(platform_read(path, &t), STATUS_OK);
    assert_int_equal(t.links, 3);
    assert_int_equal(topology_routes(&t, 3, pair, &r), STATUS_OK);
    assert_int_equal(r.start[1], 0);
    assert_int_equal(r.start[2], 2);
    assert_int_equal(r.start[3], 4);
    assert_string_equal(t.link[r.link[0]].name, "bus");
    assert_string_equal(t.link[r.link[1]].name, "port_DOWN");
    assert_string_equal(t.link[r.link[2]].name, "port_UP");
    assert_string_equal(t.link[r.link[3]].name, "bus");
    routes_free(&r);

    const struct device_pair unsorted[] = {{1, 0}, {0, 1}}, strange[] = {{0, 2}};
    assert_int_equal(topology_routes(&t, 2, unsorted, &r), STATUS_INVALID);
    assert_int_equal(topology_routes(&t, 1, strange, &r), STATUS_INVALID);
    FOR_EACH_ALLOC_FAILURE(topology_routes(&t, 3, pair, &r));
    routes_free(&r);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_platforms_route_as_simgrid),
        cmocka_unit_test(generated_platforms_route_as_simgrid),
        cmocka_unit_test(random_platforms_route_as_simgrid),
        cmocka_unit_test(other_platforms_keep_simgrids_routes),
        cmocka_unit_test(both_directions_of_a_shared_link_are_one),
    };
    return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
