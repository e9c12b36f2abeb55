/* platform_read: the shipped platforms against numbers worked by hand, and what a file may say. */
#include "sim/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/cmocka.h"
#include "tests/put.h"
#include "topologies/write.h"

static const char scratch[] = BINARY_DIR "/test_platform.xml";

/* A platform around the given body. */
static void write_platform(const char *routing, const char *body)
{
    char text[8192];
    int n = snprintf(text, sizeof text,
                     "<?xml version='1.0'?>\n"
                     "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                     "<platform version=\"4.1\"><zone id=\"z\" routing=\"%s\">\n%s"
                     "</zone></platform>\n",
                     routing, body);
    assert_true(n > 0 && (size_t)n < sizeof text);
    put_bytes(scratch, text, (size_t)n);
}

static void assert_close(double got, double expected)
{
    if (!(got >= expected * (1 - 1e-9) && got <= expected * (1 + 1e-9)))
        fail_msg("%.12g instead of %.12g", got, expected);
}

static struct topology read_platform(const char *path)
{
    struct topology t = {0};
    if (platform_read(path, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

static const struct topology_tier *between(const struct topology *t, const char *from,
                                           const char *to)
{
    uint32_t i = topology_find(t, from), j = topology_find(t, to);
    assert_true(i < t->n && j < t->n);
    return topology_between(t, i, j);
}

/* ---- shipped platforms */

/* Latencies add up along the route, the slowest link gives the bandwidth. */
static void gives_each_tier_of_the_shipped_platforms_as_worked_by_hand(void **state)
{
    static const struct {
        const char *platform, *from, *to, *tier;
        double latency_s, bandwidth_Bps;
    } pairs[] = {
        /* one NVLink bridge: 3.4 us, 4 links x 20 GB/s */
        {"two-racks", "r0n0g0", "r0n0g3", "nvlink", 3.4e-6, 80e9},
        /* PCIe 0 + NIC 7 + NIC 7 + PCIe 0 us; min(24, 12.5) GB/s */
        {"two-racks", "r0n0g0", "r0n1g0", "nic", 14e-6, 12.5e9},
        /* 7 + 0.3 + 0.3 + 7 us; NIC and uplink both 12.5 GB/s */
        {"two-racks", "r1n1g3", "r0n0g0", "nic+uplink", 14.6e-6, 12.5e9},
        /* up and down NVSwitch: 2 x 1.7 us, 12 links x 20 GB/s */
        {"dgx-a100-x2", "n1g0", "n1g7", "nvlink", 3.4e-6, 240e9},
        /* 2 x (0 + 7) us; min(PCIe 24, NIC 25) GB/s */
        {"dgx-a100-x2", "n0g2", "n1g5", "nic", 14e-6, 24e9},
        /* 2 x 1.7 us, 18 links x 20.6 GB/s */
        {"dgx-h100-x4", "n0g0", "n0g1", "nvlink", 3.4e-6, 370.8e9},
        /* same rail: 2 x 7 us, 400 Gb/s */
        {"dgx-h100-x4", "n0g5", "n3g5", "rail", 14e-6, 50e9},
        /* other rail: one NVSwitch crossing of 3.4 us more */
        {"dgx-h100-x4", "n2g1", "n1g6", "nvlink+rail", 17.4e-6, 50e9},
        /* one or two NVLinks of 20 GB/s */
        {"hidup-8xv100", "n0g0", "n0g1", "nvlink-single", 3.4e-6, 20e9},
        {"hidup-8xv100", "n7g6", "n7g7", "nvlink-double", 3.4e-6, 40e9},
        /* 25 + 25 us; 9.71 Gb/s */
        {"hidup-8xv100", "n0g0", "n7g7", "nic", 50e-6, 1.21375e9},
        /* 2 x 2.85 us */
        {"pipedream-a", "n0g0", "n0g1", "pcie", 5.7e-6, 12e9},
        /* 2.85 + 25 + 25 + 2.85 us; 10 Gb/s */
        {"pipedream-a", "n0g0", "n3g3", "pcie+nic", 55.7e-6, 1.25e9},
        {"laptop", "rank0", "rank3", "loopback", 30e-6, 4e9},
        /* a lecture's figures: NVLink 4 in a node and across, PCIe v7.0 x16, Ethernet */
        {"cs336", "d0g0", "d0g1", "nvlink", 3.4e-6, 900e9},
        {"cs336", "d0g0", "d1g1", "nvlink", 3.4e-6, 900e9},
        {"cs336", "h1g0", "h1g1", "pcie", 5.7e-6, 242e9},
        {"cs336", "h0g0", "h1g1", "pcie+ethernet", 19.7e-6, 200e6},
        {"cs336", "d0g0", "h1g1", "nvlink+pcie+ethernet", 18.55e-6, 200e6},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *path = NULL;
        assert_int_equal(topology_resolve(pairs[i].platform, &path), STATUS_OK);
        struct topology t = read_platform(path);
        const struct topology_tier *tier = between(&t, pairs[i].from, pairs[i].to);
        assert_string_equal(tier->name, pairs[i].tier);
        assert_close(tier->latency_s, pairs[i].latency_s);
        assert_close(tier->bandwidth_Bps, pairs[i].bandwidth_Bps);
        const struct topology_tier *back = between(&t, pairs[i].to, pairs[i].from);
        assert_ptr_equal(back, tier);
        assert_string_equal(t.name, path);
        topology_free(&t);
        free(path);
    }
}

static void knows_devices_and_types_of_the_shipped_platforms(void **state)
{
    static const double GiB = 1073741824.0;
    static const struct {
        const char *platform, *first, *last, *type;
        size_t devices, tiers;
        double flops, memory_bytes, memory_Bps, launch_s;
    } rows[] = {
        {"two-racks", "r0n0g0", "r1n1g3", "A100-SXM4-40GB", 16, 3, 268e12, 40, 1555e9, 5e-6},
        {"dgx-a100-x2", "n0g0", "n1g7", "A100-SXM4-40GB", 16, 2, 268e12, 40, 1555e9, 5e-6},
        {"dgx-h100-x4", "n0g0", "n3g7", "H100-SXM5-80GB", 32, 3, 792e12, 80, 3350e9, 5e-6},
        {"hidup-8xv100", "n0g0", "n7g7", "V100-SXM2-16GB", 64, 5, 12e12, 16, 900e9, 5e-6},
        {"pipedream-a", "n0g0", "n3g3", "V100-PCIE-16GB", 16, 2, 12e12, 16, 900e9, 5e-6},
        {"laptop", "rank0", "rank3", "core", 4, 1, 50e9, 4, 12.8e9, 1e-6},
        {"cs336", "d0g0", "h1g1", "H100-SXM5-80GB", 8, 4, 792e12, 80, 3900e9, 5e-6},
    };
    char **names = NULL;
    size_t n = 0;
    assert_int_equal(topology_list(&names, &n), STATUS_OK);
    assert_int_equal(n, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < n; i++) {
        char *path = NULL;
        assert_int_equal(topology_resolve(rows[i].platform, &path), STATUS_OK);
        struct topology t = read_platform(path);
        assert_int_equal(t.n, rows[i].devices);
        assert_string_equal(t.device[0], rows[i].first);
        assert_string_equal(t.device[t.n - 1], rows[i].last);
        assert_int_equal(t.tiers, rows[i].tiers);
        assert_int_equal(t.types, 1);
        const struct device_type *type = topology_type(&t, 0);
        assert_string_equal(type->name, rows[i].type);
        assert_close(type->flops, rows[i].flops);
        assert_close((double)type->memory_bytes, rows[i].memory_bytes * GiB);
        assert_close(type->memory_Bps, rows[i].memory_Bps);
        assert_close(type->launch_s, rows[i].launch_s);
        topology_free(&t);
        free(path);
    }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- what a file may say */

static const char pair[] = "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>"
                           "<route src=\"a\" dst=\"b\"><link_ctn id=\"l\"/></route>\n";

static void write_pair(const char *defaults, const char *of_a, const char *of_b)
{
    char body[4096];
    snprintf(body, sizeof body,
             "%s<host id=\"a\" speed=\"1Gf\">%s</host>\n<host id=\"b\" speed=\"1Gf\">%s</host>\n%s",
             defaults, of_a, of_b, pair);
    write_platform("Full", body);
}

static void fills_in_what_a_host_does_not_say(void **state)
{
    write_pair("", "", "");
    struct topology t = read_platform(scratch);
    const struct device_type *type = topology_type(&t, 0);
    assert_int_equal(t.types, 1);
    assert_string_equal(type->name, "1 Gflop/s");
    assert_int_equal(type->memory_bytes, (int64_t)16 << 30);
    assert_close(type->memory_Bps, 100e9);
    assert_true(type->launch_s == 0);
    assert_int_equal(type->rates, 0);
    assert_string_equal(t.tier[0].name, "tier0");
    topology_free(&t);
}

static void takes_properties_of_the_outermost_zone_for_defaults(void **state)
{
    write_pair("<prop id=\"type\" value=\"slow\"/><prop id=\"memory\" value=\"2GB\"/>"
               "<prop id=\"rate:gelu.forward\" value=\"1Mflop@2Gf\"/>",
               "", "<prop id=\"type\" value=\"big\"/><prop id=\"memory\" value=\"3GB\"/>");
    struct topology t = read_platform(scratch);
    assert_int_equal(t.types, 2);
    assert_string_equal(topology_type(&t, 0)->name, "slow");
    assert_int_equal(topology_type(&t, 0)->memory_bytes, 2000000000);
    assert_string_equal(topology_type(&t, 1)->name, "big");
    assert_int_equal(topology_type(&t, 1)->memory_bytes, 3000000000);
    assert_int_equal(topology_type(&t, 1)->rates, 1);
    topology_free(&t);
}

static void reads_rates_in_the_order_of_the_file(void **state)
{
    static const char rates[] =
        "<prop id=\"type\" value=\"core\"/>"
        "<prop id=\"rate:linear.forward\" value=\" 1Mflop@5Gf  100Mflop@40Gf \"/>"
        "<prop id=\"rate:adam.update\" value=\"1.5e+06flop@2.25e+09f\"/>";
    write_pair("", rates, rates);
    struct topology t = read_platform(scratch);
    const struct device_type *type = topology_type(&t, 0);
    assert_int_equal(t.types, 1);
    assert_int_equal(type->rates, 2);
    assert_string_equal(type->rate[0].kind, "linear.forward");
    assert_int_equal(type->rate[0].n, 2);
    assert_close(type->rate[0].flop[1], 100e6);
    assert_close(type->rate[0].flops[1], 40e9);
    assert_string_equal(type->rate[1].kind, "adam.update");
    assert_close(type->rate[1].flop[0], 1.5e6);
    assert_close(type->rate[1].flops[0], 2.25e9);
    topology_free(&t);
}

static void keeps_the_order_of_the_file_and_leaves_out_hosts_that_are_no_devices(void **state)
{
    write_platform("Full",
                   "<host id=\"g10\" speed=\"1Gf\"/><host id=\"cpu\" speed=\"1Gf\">"
                   "<prop id=\"device\" value=\"none\"/></host><host id=\"g2\" speed=\"1Gf\"/>"
                   "<host id=\"b\" speed=\"1Gf\"/>"
                   "<link id=\"l\" bandwidth=\"1GBps\" latency=\"1us\"/>"
                   "<route src=\"g10\" dst=\"g2\"><link_ctn id=\"l\"/></route>"
                   "<route src=\"g10\" dst=\"b\"><link_ctn id=\"l\"/></route>"
                   "<route src=\"b\" dst=\"g2\"><link_ctn id=\"l\"/></route>");
    struct topology t = read_platform(scratch);
    assert_int_equal(t.n, 3);
    assert_string_equal(t.device[0], "g10");
    assert_string_equal(t.device[1], "g2");
    assert_string_equal(t.device[2], "b");
    topology_free(&t);
}

static void orders_the_hosts_of_a_cluster_by_number(void **state)
{
    static const char text[] =
        "<?xml version='1.0'?><!DOCTYPE platform SYSTEM "
        "\"https://simgrid.org/simgrid.dtd\"><platform version=\"4.1\">"
        "<cluster id=\"c\" prefix=\"g\" suffix=\"\" radical=\"0-11\" speed=\"1Gf\" "
        "bw=\"1GBps\" lat=\"1us\"/></platform>";
    put_bytes(scratch, text, sizeof text - 1);
    struct topology t = read_platform(scratch);
    assert_int_equal(t.n, 12);
    assert_string_equal(t.device[2], "g2");
    assert_string_equal(t.device[11], "g11");
    assert_int_equal(t.tiers, 1);
    assert_close(t.tier[0].latency_s, 2e-6);
    topology_free(&t);
}

/* Routes of one direction, links named alike, and sums that differ only in rounding. */
static void sorts_tiers_by_speed_and_keeps_their_names_apart(void **state)
{
    write_platform(
        "Full",
        "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/><host id=\"c\" speed=\"1Gf\"/>"
        "<link id=\"x\" bandwidth=\"1GBps\" latency=\"0.1us\"><prop id=\"tier\" "
        "value=\"w\"/></link>"
        "<link id=\"y\" bandwidth=\"1GBps\" latency=\"0.2us\"><prop id=\"tier\" "
        "value=\"w\"/></link>"
        "<link id=\"z\" bandwidth=\"1GBps\" latency=\"0.3us\"/>"
        "<link id=\"f\" bandwidth=\"9GBps\" latency=\"9us\"><prop id=\"tier\" value=\"f\"/></link>"
        "<route src=\"a\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"x\"/><link_ctn id=\"y\"/>"
        "<link_ctn id=\"z\"/></route>"
        "<route src=\"b\" dst=\"a\" symmetrical=\"NO\"><link_ctn id=\"z\"/><link_ctn id=\"y\"/>"
        "<link_ctn id=\"x\"/></route>"
        "<route src=\"a\" dst=\"c\"><link_ctn id=\"f\"/></route>"
        "<route src=\"b\" dst=\"c\"><link_ctn id=\"f\"/><link_ctn id=\"x\"/></route>");
    struct topology t = read_platform(scratch);
    assert_int_equal(t.tiers, 3);
    assert_string_equal(t.tier[0].name, "f"); /* 9 GB/s */
    assert_close(t.tier[0].bandwidth_Bps, 9e9);
    assert_string_equal(t.tier[1].name, "w"); /* 1 GB/s, 0.6 us in both directions */
    assert_close(t.tier[1].latency_s, 0.6e-6);
    assert_string_equal(t.tier[2].name, "f+w"); /* 1 GB/s, 9.1 us */
    assert_ptr_equal(between(&t, "a", "b"), between(&t, "b", "a"));
    assert_ptr_equal(between(&t, "b", "c"), &t.tier[2]);
    topology_free(&t);

    write_platform("Full", "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/>"
                           "<link id=\"x\" bandwidth=\"1GBps\" latency=\"2us\"><prop id=\"tier\" "
                           "value=\"w\"/></link><link id=\"y\" bandwidth=\"1GBps\" "
                           "latency=\"1us\"><prop id=\"tier\" value=\"w\"/></link>"
                           "<route src=\"a\" dst=\"b\" symmetrical=\"NO\"><link_ctn id=\"x\"/>"
                           "</route><route src=\"b\" dst=\"a\" symmetrical=\"NO\">"
                           "<link_ctn id=\"y\"/></route>");
    t = read_platform(scratch);
    assert_int_equal(t.tiers, 2);
    assert_string_equal(between(&t, "b", "a")->name, "w");
    assert_string_equal(between(&t, "a", "b")->name, "w-2");
    topology_free(&t);
}

static void reads_a_platform_with_a_single_device(void **state)
{
    write_platform("Full", "<host id=\"only\" speed=\"1Gf\"/>");
    struct topology t = read_platform(scratch);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.tiers, 0);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_each_tier_of_the_shipped_platforms_as_worked_by_hand),
        cmocka_unit_test(knows_devices_and_types_of_the_shipped_platforms),
        cmocka_unit_test(fills_in_what_a_host_does_not_say),
        cmocka_unit_test(takes_properties_of_the_outermost_zone_for_defaults),
        cmocka_unit_test(reads_rates_in_the_order_of_the_file),
        cmocka_unit_test(keeps_the_order_of_the_file_and_leaves_out_hosts_that_are_no_devices),
        cmocka_unit_test(orders_the_hosts_of_a_cluster_by_number),
        cmocka_unit_test(sorts_tiers_by_speed_and_keeps_their_names_apart),
        cmocka_unit_test(reads_a_platform_with_a_single_device),
    };
    return cmocka_run_group_tests_name("platform", tests, NULL, NULL);
}
