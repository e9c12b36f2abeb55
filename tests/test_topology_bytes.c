/* A topology through a descriptor and back; damaged bytes are refused. */
#include "sim/platform/topology_bytes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/data/routes.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"

enum { LIMIT = 4096 };

static uint32_t entry(const void *matrix, uint32_t from, uint32_t to)
{
    return ((const uint32_t *)matrix)[from * 3 + to];
}

static const struct device_pair all[] = {{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}};
static unsigned char bytes[LIMIT];
static size_t length;

/* With a graph, or with a table of routes. */
static void send_example(bool flat)
{
    static char *device[] = {"g0", "g1", "g2"};
    static uint32_t type_of[] = {0, 1, 0};
    static double flop[] = {1e6, 1e9}, flops[] = {2e9, 3e10};
    static struct topology_rate rate[] = {{"linear.forward", 2, flop, flops}};
    static struct device_type type[] = {
        {.name = "fast",
         .flops = 3e12,
         .memory_Bps = 4e11,
         .memory_bytes = 5000000000,
         .framework_bytes = 7 << 20,
         .launch_s = 6e-6,
         .slowdown = 0.25,
         .message_s = 3e-5,
         .message_Bps = 2e9,
         .nics = 8,
         .rates = 1,
         .rate = rate,
         .peak = {[DATA_bf16] = 4.5e12},
         .kernels = {.product = {[DATA_fp8] = 7e12},
                     .memory = 0.9,
                     .shortest_s = 8e-6,
                     .flash = {[FLASH_VENDOR] = 0.5}},
         .watts = 700,
         .price_per_hour = 2.5,
         .busy_spread = 0.25,
         .host_Bps = 24e9,
         .host_memory_Bps = 51e9,
         .idle_cores = 3},
        {.name = "slow", .flops = 1e9, .memory_Bps = 1e10, .memory_bytes = 1 << 20}};
    static struct topology_tier tier[] = {{"near", 1e-6, 1e11}, {"far", 0, 1e9}};
    static const uint32_t tier_of[3][3] = {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}};
    static struct topology_link link[] = {{"up", 1e9, 2e-6, false, 8, 2},
                                          {"bus", 2e9, 0, true, 0, 0}};
    static uint32_t vertex[] = {0, 1, 2}, start[] = {0, 1, 3, 4}, to[] = {1, 0, 2, 1};
    static uint32_t first[] = {0, 1, 2, 4, 5}, hop[] = {0, 1, 0, 1, 1};
    static uint32_t block[] = {ROUTE_NO_BLOCK, 0, 1}, depth[] = {0, 1, 2}, top[] = {0, 1};
    static struct route_step step[] = {{1, 0}, {0, 1}};
    static uint32_t head[] = {0, 1, 2, 1, 0, 2, 1, 1, 0};
    struct topology t = {.n = 3,
                         .device = device,
                         .type_of = type_of,
                         .types = 2,
                         .type = type,
                         .tiers = 2,
                         .tier = tier,
                         .links = 2,
                         .link = link,
                         .paths = PATHS_SPRAY};
    if (flat) /* a chain, g1 in the middle; the second edge has two links */
        t.graph =
            (struct route_graph){3, 4, 5, vertex, start, to, first, hop, 2, block, depth, top};
    else
        t.table = (struct route_table){.steps = 2, .step = step, .head = head};
    assert_int_equal(map_build(3, entry, tier_of, &t.between), STATUS_OK);
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(topology_send(&t, fileno(f)), STATUS_OK);
    topology_map_free(&t.between);
    assert_int_equal(fseek(f, 0, SEEK_SET), 0);
    length = fread(bytes, 1, LIMIT, f);
    assert_true(length > 0 && length < LIMIT);
    fclose(f);
}

static void brings_a_topology_over_unchanged(void **state)
{
    struct topology t = {0};
    send_example(true);
    assert_int_equal(topology_receive(bytes, length, &t), STATUS_OK);
    assert_null(t.name);
    assert_int_equal(t.n, 3);
    assert_string_equal(t.device[2], "g2");
    assert_string_equal(topology_type(&t, 1)->name, "slow");
    const struct device_type *type = topology_type(&t, 2);
    assert_string_equal(type->name, "fast");
    assert_float_equal(type->flops, 3e12, 0);
    assert_float_equal(type->memory_Bps, 4e11, 0);
    assert_int_equal(type->memory_bytes, 5000000000);
    assert_float_equal(type->launch_s, 6e-6, 0);
    assert_true(type->slowdown == 0.25 && type->message_s == 3e-5 && type->message_Bps == 2e9);
    assert_true(type->peak[DATA_bf16] == 4.5e12 && type->watts == 700 &&
                type->price_per_hour == 2.5 && type->busy_spread == 0.25 &&
                type->host_Bps == 24e9 && type->host_memory_Bps == 51e9 && type->idle_cores == 3);
    assert_true(type->kernels.product[DATA_fp8] == 7e12 && type->kernels.memory == 0.9 &&
                type->kernels.shortest_s == 8e-6 && type->kernels.flash[FLASH_VENDOR] == 0.5);
    assert_string_equal(type->rate[0].kind, "linear.forward");
    assert_float_equal(type->rate[0].flops[1], 3e10, 0);
    assert_string_equal(topology_between(&t, 0, 1)->name, "far");
    assert_float_equal(topology_between(&t, 0, 1)->bandwidth_Bps, 1e9, 0);
    assert_string_equal(topology_between(&t, 1, 2)->name, "near");
    topology_free(&t);
}

static void brings_routes_over_unchanged(void **state)
{
    for (int flat = 0; flat < 2; flat++) {
        struct topology t = {0};
        struct routes r = {0};
        send_example(flat);
        assert_int_equal(topology_receive(bytes, length, &t), STATUS_OK);
        assert_int_equal(t.links, 2);
        assert_string_equal(t.link[1].name, "bus");
        assert_true(t.link[1].fat && !t.link[0].fat && t.link[0].latency_s == 2e-6);
        assert_true(t.link[0].lanes == 8 && t.link[0].cables == 2 && t.link[1].lanes == 0);
        assert_int_equal(t.paths, PATHS_SPRAY);
        assert_int_equal(topology_routes(&t, 6, all, &r), STATUS_OK);
        assert_int_equal(r.start[2] - r.start[1], flat ? 3 : 2);
        assert_int_equal(r.link[r.start[1]], 0);
        assert_int_equal(r.link[r.start[2] - 1], 1);
        routes_free(&r);
        topology_free(&t);
    }
}

/* The state of these says which example it is. */
static void refuses_every_truncation_and_anything_extra(void **state)
{
    struct topology t = {0};
    send_example(*state != NULL);
    for (size_t n = 0; n < length; n++) {
        unsigned char *cut = malloc(n + 1); /* so that reading too far is noticed */
        assert_non_null(cut);
        memcpy(cut, bytes, n);
        assert_int_equal(topology_receive(cut, n, &t), STATUS_EXTERNAL);
        free(cut);
    }
    bytes[length] = 0;
    assert_int_equal(topology_receive(bytes, length + 1, &t), STATUS_EXTERNAL);
}

static void survives_any_byte_being_wrong(void **state)
{
    send_example(*state != NULL);
    for (size_t i = 0; i < length; i++)
        for (int k = 0; k < 8; k++) {
            struct topology t = {0};
            bytes[i] ^= (unsigned char)(1 << k);
            enum status st = topology_receive(bytes, length, &t);
            assert_true(st == STATUS_OK || st == STATUS_EXTERNAL);
            for (size_t l = 0; l < t.links; l++)
                assert_true(topology_lanes(&t.link[l]) <= PATHS_LANES_MAX &&
                            (t.link[l].lanes == 0 || t.link[l].lanes % t.link[l].cables == 0));
            assert_true(t.paths < PATHS_POLICIES);
            for (uint32_t a = 0; a < t.n; a++) /* whatever came through holds together */
                for (uint32_t b = 0; b < t.n; b++)
                    if (a != b)
                        assert_true(topology_between(&t, a, b)->bandwidth_Bps > 0 &&
                                    topology_type(&t, a)->flops > 0);
            struct routes r = {0};
            if (t.n == 3 && topology_routes(&t, 6, all, &r) == STATUS_OK)
                for (size_t h = 0; h < r.start[6]; h++)
                    assert_true(r.link[h] < t.links);
            routes_free(&r);
            topology_free(&t);
            bytes[i] ^= (unsigned char)(1 << k);
        }
}

static void reports_a_descriptor_that_cannot_be_written(void **state)
{
    const struct topology t = {0};
    assert_int_equal(topology_send(&t, -1), STATUS_IO);
}

static enum status receive(void)
{
    struct topology t = {0};
    enum status st = topology_receive(bytes, length, &t);
    topology_free(&t);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    send_example(*state != NULL);
    FOR_EACH_ALLOC_FAILURE(receive());
}

int main(void)
{
    static bool flat;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brings_a_topology_over_unchanged),
        cmocka_unit_test(brings_routes_over_unchanged),
        cmocka_unit_test(refuses_every_truncation_and_anything_extra),
        cmocka_unit_test_prestate(refuses_every_truncation_and_anything_extra, &flat),
        cmocka_unit_test(survives_any_byte_being_wrong),
        cmocka_unit_test_prestate(survives_any_byte_being_wrong, &flat),
        cmocka_unit_test(reports_a_descriptor_that_cannot_be_written),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
        cmocka_unit_test_prestate(releases_everything_when_memory_runs_out, &flat),
    };
    return cmocka_run_group_tests_name("topology_bytes", tests, NULL, NULL);
}
