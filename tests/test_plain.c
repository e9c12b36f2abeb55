/* Plain platforms read from their text are what SimGrid says of them: to the byte, and to the word
 * of a message where they are faulty. `test_plain N` changes a platform N times at random instead
 * of 40. */
#include "sim/platform/plain.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "sim/platform/platform.h"
#include "sim/platform/topology_bytes.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "topologies/write.h"

static const char scratch[] = BINARY_DIR "/test_plain.xml", sent[] = BINARY_DIR "/test_plain.bytes";
static unsigned long changes = 40;

/* Is it read without SimGrid? */
static bool is_plain(const char *path)
{
    struct platform_text p = {.path = path};
    struct topology t = {0};
    char *text;
    size_t length;
    bool fits = false;
    assert_int_equal(file_read(path, &text, &length), STATUS_OK);
    p.text = text;
    bool read = plain_describe(&p, &fits, &t) == STATUS_OK;
    topology_free(&t);
    free(text);
    return read && fits;
}

/* The bytes of the topology, or the message; malloc'd. */
static char *answer(enum status (*read)(const char *, struct topology *), const char *path,
                    size_t *length)
{
    struct topology t = {0};
    char *bytes = NULL;
    if (read(path, &t) != STATUS_OK) {
        *length = strlen(error_message());
        return strdup(error_message());
    }
    int fd = open(sent, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(topology_send(&t, fd), STATUS_OK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(file_read(sent, &bytes, length), STATUS_OK);
    topology_free(&t);
    return bytes;
}

static void expect_same(const char *path, const char *what)
{
    size_t n, m;
    char *ours = answer(platform_read, path, &n),
         *theirs = answer(platform_read_by_simgrid, path, &m);
    if (n != m || memcmp(ours, theirs, n) != 0)
        fail_msg("%s: read otherwise than by SimGrid: '%.80s', '%.80s'", what, ours, theirs);
    free(ours);
    free(theirs);
}

static void shipped_and_generated_platforms_are_plain(void **state)
{
    static const char *const names[] = {"cs336",
                                        "dgx-a100-x2",
                                        "dgx-h100-x4",
                                        "hidup-8xv100",
                                        "laptop",
                                        "pipedream-a",
                                        "two-racks",
                                        "dragonfly+:groups=3",
                                        "fat-tree:nodes=8",
                                        "leaf-spine:nodes=6,rack=2",
                                        "mesh:gpus=8",
                                        "node:gpus=2,type=A100",
                                        "nvl:gpus=8",
                                        "rail:nodes=4,gpus=8",
                                        "torus:x=3,y=3,z=3",
                                        "wan:sites=3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path;
        assert_int_equal(topology_resolve(names[i], &path), STATUS_OK);
        if (!is_plain(path))
            fail_msg("%s is not plain", names[i]);
        expect_same(path, names[i]);
        free(path);
    }
}

#define HEAD                                                                                       \
    "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
/* Routes of two links, each twice as long on the way back, and all three sharing policies. */
static const char plain[] = HEAD
    "<!-- a -- comment -->\n<platform version=\"4.1\">\n"
    "<zone id=\"z\" routing=\"Dijkstra\"><prop id=\"type\" value=\"T\"/><prop id=\"memory\" "
    "value=\"8GiB\"/>\n"
    "<host id=\"a\" speed=\"1.5Gf\" core=\"2\"><prop id=\"slowdown\" value=\"0%\"/></host>\n"
    "<router id=\"r\"/>\n<host id=\"b\" speed=\"1.5e9f\" core=\"2\"/>\n"
    "<host id=\"store\" speed=\"1f\"><prop id=\"device\" value=\"none\"/></host>\n"
    "<link id=\"l\" bandwidth=\"1GBps\" latency=\"0.1us\" sharing_policy=\"SPLITDUPLEX\">"
    "<prop id=\"tier\" value=\"up\"/></link>\n"
    "<link id=\"m\" bandwidth=\"10Gbps\" latency=\"0.7ms\"/>\n"
    "<link id=\"n\" bandwidth=\"3MBps\" latency=\"0\" sharing_policy=\"FATPIPE\"/>\n"
    "<route src=\"a\" dst=\"r\"><link_ctn id=\"l\" direction=\"UP\"/><link_ctn id=\"m\"/></route>\n"
    "<route src=\"r\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"n\"/><link_ctn "
    "id=\"m\"/></route>\n"
    "<route src=\"b\" dst=\"r\" symmetrical=\"NO\"><link_ctn id=\"m\"/></route>\n"
    "</zone>\n</platform>\n";

/* `plain` with the first `from` replaced. */
static void put_changed(const char *from, const char *to)
{
    char text[sizeof plain + 512];
    const char *at = strstr(plain, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - plain), plain, to, at + strlen(from));
    put_text(scratch, text);
}

static void what_is_not_plain_is_left_to_simgrid(void **state)
{
    static const struct {
        const char *from, *to;
        bool plain;
    } change[] = {
        {"a -- comment", "another comment", true},
        {"speed=\"1.5Gf\" core=\"2\"", "core='2'  speed='1.5Gf'", true},
        {"<router id=\"r\"/>\n", "<router id=\"r\"/> <!-- here --> <router id=\"s\" />", true},
        {"id=\"b\"", "id=\"a\"", false}, /* twice */
        {"id=\"r\"", "id=\"z\"", false}, /* the zone's */
        {"id=\"m\"", "id=\"l\"", false}, /* a link twice */
        {"id=\"m\"", "id=\"l_UP\"", false},
        {"\"b\" symmetrical=\"NO\"", "\"b\"", false}, /* the way back twice */
        {"dst=\"r\"", "dst=\"a\"", false},
        {"dst=\"r\"", "dst=\"q\"", false},
        {"</zone>", "", false},
        {"</zone>", "</zone><zone id=\"y\" routing=\"Full\"/>", false},
        {"<link_ctn id=\"n\"/>", "<link_ctn id=\"o\"/>", false},
        {"<link_ctn id=\"m\"/></route>\n<route src=\"r\"", "</route>\n<route src=\"r\"", true},
        {"1GBps", "1", false},
        {"1GBps", "0GBps", false},
        {"1GBps", "1gbps", false},
        {"0.1us", "-1us", false},
        {"0.1us", "1e-7s", true},
        {"1.5e9f", "0f", false},
        {"1.5e9f", "1.5Gf,1Gf", false},
        {"core=\"2\"/>", "core=\"0\"/>", false},
        {"core=\"2\"/>", "core=\"3\"/>", false}, /* another T */
        {"<router", "here <router", false},
        {"value=\"T\"", "value=\"&lt;T\"", false},
        {"<prop id=\"memory\" value=\"8GiB\"/>", "<prop id=\"type\" value=\"U\"/>", false},
        {"8GiB", "8 apples", false},
        {"device\" value=\"none\"", "device\" value=\"some\"", false},
        {"routing=\"Dijkstra\"", "routing=\"Floyd\"", false},
        {"routing=\"Dijkstra\"", "routing=\"dijkstra\"", false},
        {"version=\"4.1\"", "version=\"4\"", false},
        {"https://simgrid.org/simgrid.dtd", "http://simgrid.org/simgrid.dtd", false},
        {"<host id=\"b\"", "<host name=\"b\" id=\"b\"", false},
        {"<router id=\"r\"/>", "<router id=\"r\"></router>", false},
        {"SPLITDUPLEX", "splitduplex", false},
        {"direction=\"UP\"", "", false},
        {"</platform>", "</platform>x", false},
    };
    put_text(scratch, plain);
    assert_true(is_plain(scratch));
    expect_same(scratch, "plain");
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        put_changed(change[i].from, change[i].to);
        if (is_plain(scratch) != change[i].plain)
            fail_msg("'%s' for '%s' is%s plain", change[i].to, change[i].from,
                     change[i].plain ? " not" : "");
        expect_same(scratch, change[i].to);
    }
}

/* A letter or a tag less, or a tag twice. */
static void changed_at_random_it_is_still_the_same(void **state)
{
    srand(1);
    for (unsigned long k = 0; k < changes; k++) {
        char text[2 * sizeof plain], what[64];
        size_t at = strlen(HEAD) + (size_t)rand() % (sizeof plain - sizeof HEAD - 1), n = 1,
               times = 0;
        if (rand() % 4 > 0) { /* from a tag to the next */
            while (plain[at] != '<')
                at--;
            n = 1 + strcspn(plain + at + 1, "<");
            times = rand() % 2 ? 2 : 0;
        }
        snprintf(text, sizeof text, "%.*s%.*s%.*s%s", (int)at, plain, times > 0 ? (int)n : 0,
                 plain + at, times > 1 ? (int)n : 0, plain + at, plain + at + n);
        snprintf(what, sizeof what, "change %lu: %zu times %.*s", k, times, (int)(n < 30 ? n : 30),
                 plain + at);
        put_text(scratch, text);
        expect_same(scratch, what);
    }
}

static void no_memory_is_survived(void **state)
{
    struct platform_text p = {scratch, plain};
    enum status st = STATUS_NOMEM;
    for (long k = 0; st == STATUS_NOMEM; k++) {
        struct topology t = {0};
        bool fits = false;
        fault_countdown = k;
        st = plain_describe(&p, &fits, &t);
        fault_countdown = LONG_MAX;
        assert_true(st == STATUS_NOMEM || (st == STATUS_OK && fits));
        topology_free(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_and_generated_platforms_are_plain),
        cmocka_unit_test(what_is_not_plain_is_left_to_simgrid),
        cmocka_unit_test(changed_at_random_it_is_still_the_same),
        cmocka_unit_test(no_memory_is_survived),
    };
    if (limits_set("routes=10s") !=
        STATUS_OK) /* SimGrid looks for ever for a way back that is not there */
        return 1;
    if (argc > 1)
        changes = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
