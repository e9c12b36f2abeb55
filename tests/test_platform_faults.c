/* platform_read on faulty files: one line with its place, nothing of SimGrid to be seen, nothing
 * left behind. */
#include "sim/platform/platform.h"
#include "sim/platform/size.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/process.h"
#include "tests/put.h"

#define PLATFORMS SOURCE_DIR "/topologies/platforms/"
#define BAD       SOURCE_DIR "/tests/platforms/bad/"

static const char scratch[] = BINARY_DIR "/test_platform_faults.xml";

static const struct {
    const char *file;
    size_t line;
    const char *what;
} faults[] = {
    {"actor", 10, "<actor>: foreline places the ranks itself"},
    {"availability-over-time", 5, "<host> 'a': availability_file: changes over time"},
    {"bandwidth-over-time", 7, "<link> 'l': bandwidth_file: changes over time"},
    {"cluster-too-large", 4, "<cluster> 100000005 hosts, expected up to 4096"},
    {"cluster-type-in-two-speeds", 7, "'d0' devices 't'"},
    {"config-crosstraffic", 5, "<config> network/crosstraffic=\"1\": expected 0"},
    {"config-factor-in-steps", 5,
     "<config> network/bandwidth-factor=\"65472:0.94;9376:0.58\": expected one"},
    {"config-factor-of-zero", 5,
     "<config> network/latency-factor=\"0\": expected one number above 0"},
    {"config-model", 5, "<config> network/model=\"LV08\": expected CM02"},
    {"config-smpi", 5, "<config> smpi/host-speed=\"1Gf\""},
    {"config-tcp-window", 5, "<config> network/TCP-gamma=\"4194304\": expected 0"},
    {"config-threads", 5, "<config> contexts/nthreads=\"2\""},
    {"config-weight", 5, "<config> network/weight-S=\"20537\": expected 0"},
    {"coordinates-with-factor", 5, "<config> network/latency-factor"},
    {"coordinates-without-links", 5, "no links from 'a' to 'b': coordinates"},
    {"device-unknown", 6, "'a' 'gpu' 'none'"},
    {"dragonfly-of-many-groups", 4, "dragonfly more groups than routers in a chassis"},
    {"duplex-without-direction", 8, "'l' directions link_ctn UP DOWN"},
    {"empty-file", 1, "not an XML file"},
    {"empty-route", 8, "Empty route"},
    {"empty-zone", 5, "no route from 'a' to 'b'"},
    {"future-version", 3, "SimGrid <platform version=\"4.1\">"},
    {"host-state-over-time", 5, "<host> 'a': state_file: changes over time"},
    {"host-twice", 7, "second host named 'b'"},
    {"include", 4, "<include>: SimGrid <include>"},
    {"infinite-bandwidth", 7, "link 'l': bandwidth inf B/s must be finite"},
    {"latency-missing", 7, "'l' latency 1us"},
    {"latency-over-time", 7, "<link> 'l': latency_file: changes over time"},
    {"latency-without-number", 7, "link 'l': latency 'some': not a number with a unit"},
    {"latency-without-unit", 7, "latency '1' has no unit"},
    {"link-state-over-time", 7, "<link> 'l': state_file: changes over time"},
    {"link-twice", 9, "declared several times"},
    {"memory-of-zero", 8, "'b' memory '0'"},
    {"memory-without-number", 7, "host 'b': memory: 'lots' a size"},
    {"missing-attribute", 6, "Required attribute `speed' not set"},
    {"missing-route-dijkstra", 5, "no route from 'a' to 'b'"},
    {"missing-route-floyd", 5, "no route from 'a' to 'b'"},
    {"missing-route-full", 5, "no route from 'a' to 'b'"},
    {"negative-bandwidth", 7, "link 'l': bandwidth -1e+09 B/s must be above zero"},
    {"negative-latency", 7, "link 'l': latency -1e-06 s must be zero or more"},
    {"negative-speed", 6, "host 'b': speed -1e+09 flop/s must be above zero"},
    {"no-device", 1, "0 devices 1 1048576"},
    {"no-doctype", 2, "the DOCTYPE line is missing; write before <platform> the line <!DOCTYPE"},
    {"no-hosts", 1, "0 devices 1 1048576"},
    {"not-xml", 1, "not an XML file"},
    {"overhead-without-unit", 7, "host 'b': launch_overhead: '5' a time"},
    {"peer-latency", 5, "<peer> 'a': SimGrid ignores lat"},
    {"profile-connected", 11, "<trace_connect>: changes over time"},
    {"rate-not-increasing", 6, "'a' rate:linear.forward increasing"},
    {"rate-of-zero", 6, "'a' rate:linear.forward '1Mflop@0Gf' above"},
    {"rate-without-at", 6, "host 'a': rate:linear.forward: '1Mflop:5Gf' work@rate"},
    {"rate-without-kind", 6, "expected the kind after 'rate:'"},
    {"rate-without-points", 6, "host 'a': rate:linear.forward: no points"},
    {"route-twice", 9, "already exists"},
    {"router-named-as-host", 7, "router named 'a'"},
    {"speed-over-time", 5, "<host> 'a': speed_file: changes over time"},
    {"type-in-two-sizes", 8, "'b' devices 't'"},
    {"unclosed-host", 7, "Starting tag <link> is not allowed here"},
    {"unknown-attribute", 7, "<link> has no attribute 'latenzy'"},
    {"unknown-element", 10, "element <switch>"},
    {"unknown-host-in-route", 8, "router 'c'"},
    {"unknown-link", 9, "link 'm'"},
    {"unknown-routing", 4, "unknown routing 'Fool'"},
    {"unknown-unit", 7, "link 'l': bandwidth '1Gflurb': unknown unit: Gflurb"},
    {"wifi-link", 7, "<link> 'l': Wi-Fi is unsupported"},
    {"wifi-zone", 4, "<zone> 'z': Wi-Fi is unsupported"},
    {"zero-bandwidth", 7, "link 'l': bandwidth 0 B/s above zero"},
    {"zero-speed", 6, "host 'b': speed 0 flop/s above zero"},
    {"zone-default-wrong", 5, "host 'a': memory_bandwidth: 'fast' a rate"},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static void reports_every_fault_in_one_line_with_its_place(void **state)
{
    for (size_t i = 0; i < FAULTS; i++) {
        char path[512], place[600];
        struct topology t = {.n = 7};
        snprintf(path, sizeof path, "%s%s.xml", BAD, faults[i].file);
        snprintf(place, sizeof place, "%s:%zu: ", path, faults[i].line);
        struct diverted d = process_divert();
        enum status st = platform_read(path, &t);
        assert_int_equal(process_restore(&d), 0);
        if (st != STATUS_PARSE || strncmp(error_message(), place, strlen(place)) != 0 ||
            !message_says(error_message(), faults[i].what) || strchr(error_message(), '\n'))
            fail_msg("status %d, '%s' does not say '%s'", (int)st, error_message(), faults[i].what);
        assert_int_equal(t.n, 7);
        t.n = 0;
    }
}

static void has_an_expectation_for_every_fault_file(void **state)
{
    size_t files = 0;
    DIR *dir = opendir(BAD);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        files += strstr(entry->d_name, ".xml") != NULL;
    closedir(dir);
    assert_int_equal(files, FAULTS);
}

static void says_which_file_is_missing(void **state)
{
    struct topology t = {0};
    assert_int_equal(platform_read("no-such-platform.xml", &t), STATUS_IO);
    assert_message(error_message(), "no-such-platform.xml: No such file or directory");
}

/* Read the first `length` bytes of a good platform: a clean message or, when only the last line
 * break is missing, success. */
static void read_cut(const char *text, size_t length, size_t whole)
{
    struct topology t = {0};
    put_bytes(scratch, text, length);
    struct diverted d = process_divert();
    enum status st = platform_read(scratch, &t);
    long printed = process_restore(&d);
    topology_free(&t);
    bool clean = st == STATUS_OK
                     ? length + 1 >= whole
                     : st == STATUS_PARSE && !strncmp(error_message(), scratch, strlen(scratch)) &&
                           error_message()[strlen(scratch)] == ':' &&
                           !strchr(error_message(), '\n');
    if (!clean || printed != 0)
        fail_msg("%zu of %zu bytes: status %d, %ld bytes printed, '%s'", length, whole, (int)st,
                 printed, error_message());
}

static void survives_truncation_and_leaves_nothing_behind(void **state)
{
    static const struct {
        const char *path;
        size_t step;
    } files[] = {{PLATFORMS "laptop.xml", 11}, {PLATFORMS "two-racks.xml", 149}};
    size_t before = process_descriptors();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text = NULL;
        size_t length;
        assert_int_equal(file_read(files[i].path, &text, &length), STATUS_OK);
        for (size_t cut = 0; cut < length; cut += files[i].step)
            read_cut(text, cut, length);
        read_cut(text, length - 1, length);
        free(text);
    }
    assert_int_equal(process_descriptors(), before);
    assert_true(process_childless());
}

/* A byte of a good platform replaced: whatever comes of it is clean. */
static void survives_damage_at_random_places(void **state)
{
    char *text = NULL;
    size_t length;
    srand(1);
    assert_int_equal(file_read(PLATFORMS "laptop.xml", &text, &length), STATUS_OK);
    for (int trial = 0; trial < 100; trial++) {
        size_t at = (size_t)rand() % length;
        char old = text[at];
        struct topology t = {0};
        text[at] = (char)(1 + rand() % 255);
        put_bytes(scratch, text, length);
        struct diverted d = process_divert();
        enum status st = platform_read(scratch, &t);
        assert_int_equal(process_restore(&d), 0);
        if (st != STATUS_OK && (st != STATUS_PARSE || strchr(error_message(), '\n')))
            fail_msg("byte %zu: status %d, '%s'", at, (int)st, error_message());
        topology_free(&t);
        text[at] = old;
    }
    free(text);
}

/* The child works on a copy of the countdown, so that an allocation may fail on either side. */
static void releases_everything_when_memory_runs_out(void **state)
{
    static const char text[] =
        "<?xml version='1.0'?>\n"
        "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">"
        "<prop id=\"rate:linear.forward\" value=\"1Mflop@5Gf\"/>"
        "<host id=\"a\" speed=\"1Gf\"><prop id=\"type\" value=\"t\"/></host>"
        "<host id=\"b\" speed=\"1Gf\"><prop id=\"type\" value=\"u\"/></host>"
        "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>"
        "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route></zone></platform>";
    put_bytes(scratch, text, sizeof text - 1);
    size_t before = process_descriptors();
    long k = 0;
    for (;; k++) {
        struct topology t = {0};
        fault_countdown = k;
        enum status st = platform_read(scratch, &t);
        fault_countdown = LONG_MAX;
        topology_free(&t);
        if (st == STATUS_OK)
            break;
        assert_int_equal(st, STATUS_NOMEM);
        assert_int_equal(t.n, 0);
    }
    assert_true(k > 20);
    assert_int_equal(process_descriptors(), before);
    assert_true(process_childless());
}

/* Zones whose routes would take days or gigabytes, by a line each; the largest that are allowed are
 * not refused for their size. */
static void zones_that_would_take_forever_are_refused(void **state)
{
    static const struct {
        const char *routing;
        size_t hosts, depth;
        const char *what; /* NULL: not refused for its size */
    } tries[] = {
        {"Floyd", 1025, 1, ":1028 1024 routers routing=\"Floyd\""},
        {"Full", 16385, 1, ":16388 16384 routers routing=\"Full\""},
        {"Full", 1, 33, ":35 32"},
        {"Floyd", 500, 1, NULL},
        {"Full", 1, 32, NULL},
    };
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        struct topology t = {0};
        char *text = NULL;
        size_t n;
        FILE *to = open_memstream(&text, &n);
        assert_non_null(to);
        fputs(
            "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
            "<platform version=\"4.1\">\n",
            to);
        for (size_t i = 0; i < tries[k].depth; i++)
            fprintf(to, "<zone id=\"z%zu\" routing=\"%s\">\n", i, tries[k].routing);
        for (size_t i = 0; i < tries[k].hosts; i++)
            fprintf(to, "<host id=\"h%zu\" speed=\"1Gf\"/>\n", i);
        for (size_t i = 0; i < tries[k].depth; i++)
            fputs("</zone>\n", to);
        fputs("</platform>\n", to);
        assert_int_equal(fclose(to), 0);
        put_bytes(scratch, text, n);
        enum status st = platform_read(scratch, &t);
        assert_true(tries[k].what ? st == STATUS_PARSE : true);
        if (tries[k].what && !message_says(error_message(), tries[k].what))
            fail_msg("'%s' does not say '%s'", error_message(), tries[k].what);
        if (!tries[k].what && st != STATUS_OK)
            assert_false(message_says(error_message(), "more than"));
        topology_free(&t);
        free(text);
    }
}

/* As many of a kind as SimGrid may make, and one more: in memory, before SimGrid sees them. */
static void more_than_simgrid_may_make_is_refused(void **state)
{
    static const struct {
        const char *tag, *what;
        size_t share;
    } tries[] = {
        {"<router id='r'/>", "hosts routers", 1},
        {"<link id='l'/>", "links", 1},
        {"<route src='a' dst='b'>\n</route>", "routes", 1},
        {"<link_ctn id='l'/>", "links of routes", 4},
        {"<prop id='p' value='1'/>", "properties", 1},
        {"<trace id='t'/>", "other elements", 1},
    };
    assert_int_equal(limits_set("platform=0.001953125"), STATUS_OK);
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++)
        for (size_t more = 0; more < 2; more++) {
            char *text = NULL, says[128];
            size_t n, most = 1024 * tries[k].share;
            FILE *to = open_memstream(&text, &n);
            assert_non_null(to);
            for (size_t i = 0; i < most + more; i++)
                fputs(tries[k].tag, to);
            assert_int_equal(fclose(to), 0);
            enum status st = platform_check_size(&(struct platform_text){"p.xml", text});
            assert_int_equal(st, more ? STATUS_PARSE : STATUS_OK);
            snprintf(says, sizeof says, "%zu %s --limit platform=0.00390625 FORELINE_LIMITS", most,
                     tries[k].what);
            if (more && !message_says(error_message(), says))
                fail_msg("'%s' does not say '%s'", error_message(), says);
            free(text);
        }
    assert_int_equal(limits_set("platform=1"), STATUS_OK);
}

static void clusters_are_counted_together(void **state)
{
    static const char one[] = "<cluster id='c' prefix='%*s' suffix='x' radical='0-4'/>";
    static const struct {
        size_t clusters;
        int prefix;
        const char *what; /* NULL: not refused */
    } tries[] = {
        {2, 254, NULL},
        {3, 1, "p.xml:1 <cluster> 15 earlier 10"},
        {1, 255, "p.xml:1 255 characters"},
    };
    assert_int_equal(limits_set("platform=0.00244140625"), STATUS_OK);
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        char text[2048];
        size_t n = 0;
        for (size_t i = 0; i < tries[k].clusters; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, one, tries[k].prefix, "h");
        enum status st = platform_check_size(&(struct platform_text){"p.xml", text});
        assert_int_equal(st, tries[k].what ? STATUS_PARSE : STATUS_OK);
        if (tries[k].what && !message_says(error_message(), tries[k].what))
            fail_msg("'%s' does not say '%s'", error_message(), tries[k].what);
    }
    assert_int_equal(limits_set("platform=1"), STATUS_OK);
}

/* 16 hosts with a link each, and 4 switches with 2 parents each. */
static void links_of_fat_trees_are_counted(void **state)
{
    static const char tree[] = "<cluster id='c' prefix='h' suffix='' radical='0-15' "
                               "topology='FAT_TREE' topo_parameters='2; 4,4;1,2 ;1,%d'/>";
    assert_int_equal(limits_set("platform=0.0078125"), STATUS_OK);
    for (int cables = 510; cables <= 511; cables++) {
        char text[256];
        snprintf(text, sizeof text, tree, cables); /* 16 + 8 * cables */
        enum status st = platform_check_size(&(struct platform_text){"p.xml", text});
        assert_int_equal(st, cables == 510 ? STATUS_OK : STATUS_PARSE);
        if (cables == 511)
            assert_message(error_message(),
                           "p.xml:1 4096 --limit platform=0.015625 FORELINE_LIMITS");
    }
    assert_int_equal(limits_set("platform=1"), STATUS_OK);
}

static void limits_are_what_the_environment_says(void **state)
{
    static const char text[] =
        "<?xml version='1.0'?><!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">"
        "<platform version=\"4.1\"><zone id=\"z\" routing=\"Floyd\">"
        "<cluster id=\"c\" prefix=\"c\" suffix=\"\" radical=\"0-4\" speed=\"1Gf\" bw=\"1GBps\" "
        "lat=\"1us\"/><host id=\"a\" speed=\"1Gf\"/><host id=\"b\" "
        "speed=\"1Gf\"/></zone></platform>";
    static const struct {
        const char *limits;
        enum status st;
        const char *says;
    } tries[] = {
        {"platform=0.001953125", STATUS_PARSE, "2 hosts routers"},
        {"start=9s,platform=0.0009765625", STATUS_PARSE, "<cluster> 5 hosts, expected up to 4"},
        {"platfor=2", STATUS_USAGE, "limit 'platfor'; did you mean 'platform'?"},
        {"platform=-1", STATUS_USAGE, "platform: "},
        {"platform", STATUS_USAGE, "platform: "},
    };
    put_bytes(scratch, text, sizeof text - 1);
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        struct topology t = {0};
        enum status st = limits_set(tries[k].limits);
        assert_int_equal(st == STATUS_OK ? platform_read(scratch, &t) : st, tries[k].st);
        if (!message_says(error_message(), tries[k].says))
            fail_msg("'%s' does not say '%s'", error_message(), tries[k].says);
    }
    assert_int_equal(limits_set("start=20s,platform=1"), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_that_would_take_forever_are_refused),
        cmocka_unit_test(more_than_simgrid_may_make_is_refused),
        cmocka_unit_test(clusters_are_counted_together),
        cmocka_unit_test(links_of_fat_trees_are_counted),
        cmocka_unit_test(limits_are_what_the_environment_says),
        cmocka_unit_test(reports_every_fault_in_one_line_with_its_place),
        cmocka_unit_test(has_an_expectation_for_every_fault_file),
        cmocka_unit_test(says_which_file_is_missing),
        cmocka_unit_test(survives_truncation_and_leaves_nothing_behind),
        cmocka_unit_test(survives_damage_at_random_places),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("platform_faults", tests, NULL, NULL);
}
