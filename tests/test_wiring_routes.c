/* wiring of platforms that are no plain wires: each way passes the links of SimGrid's route, in
 * their order and no others, or the platform is refused in one line. */
#include "exec/netns/wiring.h"

#include <stdio.h>
#include <string.h>

#include "core/data/routes.h"
#include "sim/platform/network.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/random_platform.h"

static const char scratch[] = BINARY_DIR "/test_wiring_routes.xml";
enum { PLATFORMS = 200 };

/* Whether the wiring's link is one of these directions of the topology's. */
static bool is_of(const struct wiring_link *l, const char *name)
{
    size_t n = strlen(l->name);
    return !strncmp(l->name, name, n) &&
           (!name[n] || !strcmp(name + n, "_UP") || !strcmp(name + n, "_DOWN"));
}

/* From rank a to rank b, which are devices too. */
static void check_way(const struct topology *t, const struct wiring *w, uint32_t a, uint32_t b)
{
    const struct device_pair pair = {a, b};
    struct routes routes = {0};
    uint32_t at = a;
    size_t h = 0, steps = 0;
    assert_int_equal(topology_routes(t, 1, &pair, &routes), STATUS_OK);
    while (at != b) {
        assert_true(steps++ < 4 * w->spaces);
        uint32_t way = wiring_way(w, at, a, b);
        assert_true(way < w->links);
        const struct wiring_link *l = &w->link[way];
        assert_true(l->space[0] == at || (!l->one_way && l->space[1] == at));
        at = l->space[0] == at ? l->space[1] : l->space[0];
        if (l->bandwidth_Bps <= 0)
            continue;
        assert_true(h < routes.start[1]);
        const struct topology_link *expected = &t->link[routes.link[h++]];
        if (!is_of(l, expected->name))
            fail_msg("%s to %s over %s, expected %s", t->device[a], t->device[b], l->name,
                     expected->name);
        assert_true(l->bandwidth_Bps >= expected->bandwidth_Bps &&
                    l->bandwidth_Bps <= expected->bandwidth_Bps);
        assert_true(l->latency_s >= expected->latency_s && l->latency_s <= expected->latency_s);
        assert_int_equal(l->fat, expected->fat);
    }
    assert_int_equal(h, routes.start[1]);
    routes_free(&routes);
}

/* Wire the platform in the scratch file; false when it is refused. */
static bool wire(const struct topology *t)
{
    struct network n = {0};
    struct wiring w = {0};
    enum status st = platform_network(scratch, t, &n);
    if (st == STATUS_UNSUPPORTED) {
        assert_int_equal(strncmp(error_message(), scratch, strlen(scratch)), 0);
        assert_null(strchr(error_message(), '\n'));
        return false;
    }
    if (st != STATUS_OK || wiring_plan(t, &n, t->n, NULL, &w) != STATUS_OK)
        fail_msg("%s", error_message());
    for (uint32_t a = 0; a < t->n; a++)
        for (uint32_t b = 0; b < t->n; b++)
            if (a != b)
                check_way(t, &w, a, b);
    wiring_free(&w);
    network_free(&n);
    return true;
}

static void ways_are_the_routes_of_random_platforms(void **state)
{
    static struct random_platform p;
    size_t wired = 0, refused = 0;
    for (uint64_t seed = 0; seed < PLATFORMS; seed++) {
        struct topology t = {0};
        random_platform(seed, &p);
        if (p.line > 0)
            continue;
        put_text(scratch, p.text);
        assert_int_equal(platform_read(scratch, &t), STATUS_OK);
        bool done = wire(&t);
        wired += done;
        refused += !done;
        topology_free(&t);
    }
    print_message("%zu wired, %zu refused\n", wired, refused);
    assert_true(wired > 2 * refused);
}

/* Two hosts on a link that both directions share: it is one, from the one point to the other. */
static void both_directions_of_a_shared_link_pass_one_link(void **state)
{
    struct topology t = {0};
    struct network n = {0};
    put_text(scratch, "<?xml version='1.0'?>\n"
                      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                      "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\n"
                      "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>\n"
                      "<link id=\"l\" bandwidth=\"1GBps\" latency=\"3us\"/>\n"
                      "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n"
                      "</zone></platform>\n");
    size_t limited = 0;
    assert_int_equal(platform_read(scratch, &t), STATUS_OK);
    assert_true(wire(&t));
    assert_int_equal(platform_network(scratch, &t, &n), STATUS_OK);
    for (size_t k = 0; k < n.links; k++)
        limited += n.link[k].bandwidth_Bps > 0;
    assert_int_equal(limited, 1);
    network_free(&n);
    FOR_EACH_ALLOC_FAILURE(platform_network(scratch, &t, &n));
    network_free(&n);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_the_routes_of_random_platforms),
        cmocka_unit_test(both_directions_of_a_shared_link_pass_one_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
