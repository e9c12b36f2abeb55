/* platform_check_features(): every name of SimGrid's DTD has a decision, and what is simulated is
 * simulated alike. */
#include "sim/platform/features.h"

#include <stdio.h>
#include <string.h>

#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/put.h"
#include "tests/sample.h"

static const char scratch[] = BINARY_DIR "/test_platform_features.xml";

/* Elements and attributes of simgrid.dtd as SimGrid 3.32 and 4.1 have it, and one letter for each
 * of the attributes: u used, n no effect, r refused. In capitals: all of the element. */
static const struct {
    const char *element, *attributes;
    char whole;
    const char *expected;
} dtd[] = {
    {"platform", "version", 'u', "u"},
    {"include", "file", 'r', "r"},
    {"trace", "id file periodicity", 'n', "nnn"},
    {"random", "id min max mean std_deviation seed radical generator", 'n', "nnnnnnnn"},
    {"trace_connect", "kind trace element", 'r', "rrr"},
    {"AS", "id routing", 'u', "uu"},
    {"zone", "id routing", 'u', "uu"},
    {"storage_type", "id model size content", 'n', "nnnn"},
    {"storage", "id typeId content attach", 'n', "nnnn"},
    {"mount", "storageId name", 'n', "nn"},
    {"host", "id speed core speed_file availability_file state_file coordinates pstate", 'u',
     "uuurrruu"},
    {"disk", "id read_bw write_bw", 'n', "nnn"},
    {"host_link", "id up down", 'u', "uuu"},
    {"cluster",
     "id prefix suffix radical speed core bw lat sharing_policy topology topo_parameters bb_bw "
     "bb_lat bb_sharing_policy router_id limiter_link loopback_bw loopback_lat",
     'u', "uuuuuuuuuuuuuuuunn"},
    {"cabinet", "id prefix suffix radical speed bw lat", 'u', "uuuuuuu"},
    {"peer", "id speed bw_in bw_out lat coordinates speed_file availability_file state_file", 'u',
     "uuuuuurrr"},
    {"router", "id coordinates", 'u', "uu"},
    {"backbone", "id bandwidth latency", 'u', "uuu"},
    {"link", "id bandwidth bandwidth_file latency latency_file state_file sharing_policy", 'u',
     "uurur"
     "ru"},
    {"route", "src dst symmetrical", 'u', "uuu"},
    {"ASroute", "src dst gw_src gw_dst symmetrical", 'u', "uuuuu"},
    {"bypassASroute", "src dst gw_src gw_dst", 'u', "uuuu"},
    {"zoneRoute", "src dst gw_src gw_dst symmetrical", 'u', "uuuuu"},
    {"link_ctn", "id direction", 'u', "uu"},
    {"bypassRoute", "src dst", 'u', "uu"},
    {"bypassZoneRoute", "src dst gw_src gw_dst", 'u', "uuuu"},
    {"process", "host function start_time kill_time on_failure", 'r', "rrrrr"},
    {"actor", "host function start_time kill_time on_failure", 'r', "rrrrr"},
    {"argument", "value", 'n', "n"},
    {"config", "id", 'n', "n"},
    {"prop", "id value", 'u', "uu"},
    {"model_prop", "id value", 'n', "nn"},
};

static enum feature named(char letter)
{
    return letter == 'u' ? FEATURE_USED : letter == 'n' ? FEATURE_NO_EFFECT : FEATURE_REFUSED;
}

static void decides_on_every_name_of_the_dtd(void **state)
{
    for (size_t i = 0; i < sizeof dtd / sizeof *dtd; i++) {
        assert_int_equal(platform_feature(dtd[i].element, NULL), named(dtd[i].whole));
        size_t k = 0;
        for (const char *at = dtd[i].attributes; *at; k++) {
            char name[32];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
            if (platform_feature(dtd[i].element, name) != named(dtd[i].expected[k]))
                fail_msg("<%s %s>: not '%c'", dtd[i].element, name, dtd[i].expected[k]);
            at += strlen(name);
            at += *at == ' ';
        }
        assert_int_equal(k, strlen(dtd[i].expected));
        assert_int_equal(platform_feature(dtd[i].element, "colour"),
                         dtd[i].whole == 'r' ? FEATURE_REFUSED : FEATURE_UNKNOWN);
    }
    assert_int_equal(platform_feature("switch", NULL), FEATURE_UNKNOWN);
}

/* Two stages on a file of two hosts: 1 ms and 2 ms of compute each, and 1 MB forth and back. */
static double iteration_on(const char *config, const char *zone)
{
    char text[2048];
    struct lowered s = {.model = sample_chain(2, 1e-3, 2e-3, 0, 1000000)};
    snprintf(text, sizeof text,
             "<?xml version='1.0'?>\n"
             "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
             "<platform version=\"4.1\">\n%s%s</platform>\n",
             config, zone);
    put_text(scratch, text);
    if (platform_read(scratch, &s.topology) != STATUS_OK)
        fail_msg("%s", error_message());
    s.plan = sample_plan(&s.model, 2, 1, 1, "1f1b");
    s.platform = sample_text(scratch);
    double t = lowered_seconds(&s, NULL); /* which compares both engines */
    lowered_free(&s);
    return t;
}

#define ZONE(hosts, link)                                                                          \
    "<zone id=\"z\" routing=\"Full\">" hosts "<link id=\"l\" " link "/>"                           \
    "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route></zone>\n"
#define HOSTS             "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>"
#define LINK              "bandwidth=\"1GBps\" latency=\"10us\""
#define ITEM(name, value) "<prop id=\"network/" name "\" value=\"" value "\"/>"

static void both_engines_take_the_factors_of_config(void **state)
{
    static const char zone[] = ZONE(HOSTS, LINK);
    assert_near(iteration_on("", zone), 6e-3 + 2 * (10e-6 + 1e-3), 1e-9);
    assert_near(iteration_on("<config>" ITEM("bandwidth-factor", "0.5") "</config>", zone),
                6e-3 + 2 * (10e-6 + 2e-3), 1e-9);
    assert_near(iteration_on("<config id=\"f\">" ITEM("latency-factor", "13.01")
                                 ITEM("bandwidth-factor", "0.97") "</config>",
                             zone),
                6e-3 + 2 * (130.1e-6 + 1e-3 / 0.97), 1e-9);
}

/* What is accepted because nothing depends on it. */
static void results_do_not_depend_on_what_has_no_effect(void **state)
{
    double expected = iteration_on("", ZONE(HOSTS, LINK));
    assert_near(iteration_on("<config><prop id=\"tracing\" value=\"yes\"/>"
                             "<prop id=\"tracing/filename\" value=\"/no/such/folder/t\"/>"
                             "<prop id=\"cpu/optim\" value=\"TI\"/>"
                             "<prop id=\"network/model\" value=\"CM02\"/></config>",
                             ZONE(HOSTS, LINK)),
                expected, 1e-12);
    assert_near(iteration_on("", ZONE("<host id=\"a\" speed=\"1Gf\"><disk id=\"d\" "
                                      "read_bw=\"1kBps\" write_bw=\"1kBps\"/></host>"
                                      "<host id=\"b\" speed=\"1Gf\">"
                                      "<prop id=\"wattage_per_state\" value=\"95:200\"/></host>",
                                      LINK)),
                expected, 1e-12);
}

/* A device is one core in its first state, or in the one that its file names. */
static void a_host_computes_on_one_core_in_its_state(void **state)
{
    struct topology t = {0};
    put_text(scratch, "<?xml version='1.0'?>\n"
                      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                      "<platform version=\"4.1\">\n" ZONE(
                          "<host id=\"a\" speed=\"3Gf,2Gf,1Gf\" pstate=\"1\" core=\"4\"/>"
                          "<host id=\"b\" speed=\"3Gf,2Gf,1Gf\"/>",
                          LINK) "</platform>\n");
    assert_int_equal(platform_read(scratch, &t), STATUS_OK);
    assert_near(topology_type(&t, 0)->flops, 2e9, 0);
    assert_near(topology_type(&t, 1)->flops, 3e9, 0);
    assert_near(topology_type(&t, 0)->idle_cores, 3, 0);
    assert_near(topology_type(&t, 1)->idle_cores, 0, 0);
    topology_free(&t);
}

/* 23.530 and 23.531 are one number in four digits; hosts of one speed may differ otherwise. */
static void types_without_a_name_are_told_apart(void **state)
{
    struct topology t = {0};
    put_text(scratch, "<?xml version='1.0'?>\n"
                      "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                      "<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Full\">"
                      "<host id=\"a\" speed=\"23.53Gf\"/><host id=\"b\" speed=\"23.531Gf\"/>"
                      "<host id=\"c\" speed=\"23.53Gf\"><prop id=\"memory\" value=\"8GiB\"/></host>"
                      "<host id=\"d\" speed=\"23.53Gf\"/>"
                      "<link id=\"l\" " LINK "/>"
                      "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>"
                      "<route src=\"a\" dst=\"c\"><link_ctn id=\"l\"/></route>"
                      "<route src=\"a\" dst=\"d\"><link_ctn id=\"l\"/></route>"
                      "<route src=\"b\" dst=\"c\"><link_ctn id=\"l\"/></route>"
                      "<route src=\"b\" dst=\"d\"><link_ctn id=\"l\"/></route>"
                      "<route src=\"c\" dst=\"d\"><link_ctn id=\"l\"/></route>"
                      "</zone></platform>\n");
    if (platform_read(scratch, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(t.types, 3);
    assert_string_equal(topology_type(&t, 0)->name, "23.53 Gflop/s");
    assert_string_equal(topology_type(&t, 1)->name, "23.531 Gflop/s");
    assert_string_equal(topology_type(&t, 2)->name, "23.53 Gflop/s-2");
    assert_string_equal(topology_type(&t, 3)->name, "23.53 Gflop/s");
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decides_on_every_name_of_the_dtd),
        cmocka_unit_test(both_engines_take_the_factors_of_config),
        cmocka_unit_test(results_do_not_depend_on_what_has_no_effect),
        cmocka_unit_test(a_host_computes_on_one_core_in_its_state),
        cmocka_unit_test(types_without_a_name_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
