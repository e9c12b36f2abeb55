/* Platform files written from topologies, found by name and listed. */
#include "topologies/write.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"

enum { DEVICES = 5, TYPES = 2, TIERS = 3, POINTS = 3 };

static const char directory[] = BINARY_DIR "/topology_write.d";
static const char written[] = BINARY_DIR "/topology_write.d/machine.xml";

/* A topology whose parts live as long as this does. */
struct machine {
    char *device[DEVICES];
    uint32_t type_of[DEVICES];
    uint32_t tier_of[TOPOLOGY_MAP_CELLS]; /* one square */
    double flop[POINTS], flops[POINTS];
    struct topology_rate rate[2];
    struct device_type type[TYPES];
    struct topology_tier tier[TIERS];
    struct topology topology;
};

static char *const names[DEVICES] = {"rank10", "rank2", "a \"b\" & <c>", "x'y", "z"};

static void build(struct machine *m)
{
    srand(3);
    *m = (struct machine){
        .flop = {1e3, 1234567.89, 1.23456789e12},
        .flops = {5e9, 4.0625e10, 3.14159265e11},
        .type = {{.name = "core <1> & \"2\"",
                  .flops = 5.4321e10,
                  .memory_Bps = 1.28e10,
                  .memory_bytes = ((int64_t)1 << 33) + 1,
                  .framework_bytes = (int64_t)3 << 20,
                  .launch_s = 1.5e-6,
                  .slowdown = 0.125,
                  .message_s = 2.5e-5,
                  .message_Bps = 3.75e9,
                  .fitted = {.host = 1.25, .interference = 0.5, .start = 1, .hop = 2},
                  .rates = 2,
                  .peak = {0, 2e10, 0, 8.5e10, 8.5e10, 1.7e11},
                  .watts = 350.5,
                  .price_per_hour = 1.25,
                  .busy_spread = 0.35},
                 {.name = "gpu",
                  .flops = 1.2e13,
                  .memory_Bps = 9e11,
                  .memory_bytes = (int64_t)1 << 34}},
        .tier = {{"memory", 0, 9.87654321e9},
                 {"loopback+nic", 3.70000001e-5, 4.1e9},
                 {"slow & far", 1e-3, 1.25e8}},
    };
    m->rate[0] = (struct topology_rate){"linear.forward", POINTS, m->flop, m->flops};
    m->rate[1] = (struct topology_rate){"adam.update", 1, m->flop, m->flops};
    m->type[0].rate = m->rate;
    for (size_t i = 0; i < DEVICES; i++) {
        m->device[i] = names[i];
        m->type_of[i] = i == 3;
        for (size_t j = 0; j < DEVICES; j++) /* not symmetric; all tiers occur */
            m->tier_of[i * TOPOLOGY_MAP_SIDE + j] =
                (uint32_t)((i * 3 + j * 2 + (size_t)(rand() % 2)) % TIERS);
    }
    m->topology = (struct topology){.name = "here",
                                    .n = DEVICES,
                                    .device = m->device,
                                    .type_of = m->type_of,
                                    .types = TYPES,
                                    .type = m->type,
                                    .tiers = TIERS,
                                    .tier = m->tier,
                                    .between = {1, {1}, {m->tier_of}}};
}

static void assert_same(double got, double expected)
{
    if (!(got >= expected * (1 - 1e-8) && got <= expected * (1 + 1e-8)))
        fail_msg("%.12g instead of %.12g", got, expected);
}

static void assert_same_type(const struct device_type *got, const struct device_type *expected)
{
    assert_string_equal(got->name, expected->name);
    assert_same(got->flops, expected->flops);
    assert_same(got->memory_Bps, expected->memory_Bps);
    assert_int_equal(got->memory_bytes, expected->memory_bytes);
    assert_int_equal(got->framework_bytes, expected->framework_bytes);
    assert_same(got->launch_s, expected->launch_s);
    assert_same(got->slowdown, expected->slowdown);
    assert_same(got->message_s, expected->message_s);
    assert_same(got->message_Bps, expected->message_Bps);
    assert_same(got->fitted.host, expected->fitted.host);
    assert_same(got->fitted.interference, expected->fitted.interference);
    assert_same(got->fitted.hop, expected->fitted.hop);
    for (size_t k = 0; k < DATA_TYPES; k++)
        assert_same(got->peak[k], expected->peak[k]);
    assert_same(got->watts, expected->watts);
    assert_same(got->price_per_hour, expected->price_per_hour);
    assert_same(got->busy_spread, expected->busy_spread);
    assert_int_equal(got->rates, expected->rates);
    for (size_t k = 0; k < got->rates; k++) {
        assert_string_equal(got->rate[k].kind, expected->rate[k].kind);
        assert_int_equal(got->rate[k].n, expected->rate[k].n);
        for (size_t p = 0; p < got->rate[k].n; p++) {
            assert_same(got->rate[k].flop[p], expected->rate[k].flop[p]);
            assert_same(got->rate[k].flops[p], expected->rate[k].flops[p]);
        }
    }
}

static size_t files_in(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void reads_back_what_was_written(void **state)
{
    struct machine m;
    struct topology t = {0};
    const struct provenance by = {"foreline 0", "foreline calibrate -- <x>", "host", 7};
    build(&m);
    assert_int_equal(topology_write_platform(&m.topology, written, &by), STATUS_OK);
    assert_int_equal(files_in(directory), 1);
    if (platform_read(written, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(t.n, DEVICES);
    assert_int_equal(t.types, TYPES);
    assert_int_equal(t.tiers, TIERS);
    for (uint32_t i = 0; i < DEVICES; i++) {
        assert_string_equal(t.device[i], names[i]);
        assert_same_type(topology_type(&t, i), topology_type(&m.topology, i));
        for (uint32_t j = 0; j < DEVICES; j++) {
            if (i == j)
                continue;
            const struct topology_tier *got = topology_between(&t, i, j);
            const struct topology_tier *expected = topology_between(&m.topology, i, j);
            assert_string_equal(got->name, expected->name);
            assert_same(got->latency_s, expected->latency_s);
            assert_same(got->bandwidth_Bps, expected->bandwidth_Bps);
        }
    }
    topology_free(&t);
}

static void says_in_the_file_where_it_comes_from(void **state)
{
    struct machine m;
    char *text = NULL, *summary = NULL;
    size_t length;
    const struct provenance by = {"foreline 0.1.0 (abc)", "foreline calibrate -o x.xml", NULL, 7};
    build(&m);
    assert_int_equal(topology_write_platform(&m.topology, written, &by), STATUS_OK);
    assert_int_equal(file_read(written, &text, &length), STATUS_OK);
    assert_non_null(strstr(text, "foreline 0.1.0 (abc)"));
    assert_message(text, "foreline calibrate -o x.xml"); /* a lone - may stay */
    assert_non_null(strstr(text, "seed 7"));
    free(text);
    assert_int_equal(topology_summary(written, &summary), STATUS_OK);
    assert_message(summary, "here 5 devices");
    free(summary);
}

static void refuses_more_than_64_devices_and_writes_nothing(void **state)
{
    static const char path[] = BINARY_DIR "/topology_write.d/large.xml";
    struct topology t = {.n = 65};
    assert_int_equal(topology_write_platform(&t, path, NULL), STATUS_INVALID);
    assert_int_equal(access(path, F_OK), -1);
    t.n = 0;
    assert_int_equal(topology_write_platform(&t, path, NULL), STATUS_INVALID);
}

static void reports_a_directory_that_does_not_exist(void **state)
{
    struct machine m;
    build(&m);
    assert_int_equal(topology_write_platform(&m.topology, "/no/such/place/x.xml", NULL), STATUS_IO);
    assert_message(error_message(), "/no/such/place/x.xml");
}

static enum status resolve(const char *name, char *out, size_t size)
{
    char *path = NULL;
    enum status st = topology_resolve(name, &path);
    if (st == STATUS_OK)
        snprintf(out, size, "%s", path);
    free(path);
    return st;
}

static void finds_shipped_platforms_by_name_and_others_by_path(void **state)
{
    char path[512];
    assert_int_equal(resolve("two-racks", path, sizeof path), STATUS_OK);
    assert_string_equal(path, SOURCE_DIR "/topologies/platforms/two-racks.xml");
    assert_int_equal(resolve(written, path, sizeof path), STATUS_OK);
    assert_string_equal(path, written);
    assert_int_equal(resolve("no/such/file.xml", path, sizeof path), STATUS_OK);
    assert_int_equal(resolve("two-rax", path, sizeof path), STATUS_INVALID);
    assert_message(error_message(), "two-rax");
    assert_message(error_message(), "laptop");
    assert_int_equal(resolve("", path, sizeof path), STATUS_INVALID);
}

static void prefers_the_directory_in_the_environment(void **state)
{
    char path[512];
    char **found = NULL;
    size_t n = 0;
    setenv("FORELINE_DATA", directory, 1);
    assert_int_equal(resolve("machine", path, sizeof path), STATUS_OK);
    assert_string_equal(path, written);
    assert_int_equal(topology_list(&found, &n), STATUS_OK);
    assert_int_equal(n, 1);
    assert_string_equal(found[0], "machine");
    free(found[0]);
    free(found);
    unsetenv("FORELINE_DATA");
}

static void lists_the_shipped_platforms_in_order(void **state)
{
    static const char *const expected[] = {"cs336",  "dgx-a100-x2", "dgx-h100-x4", "hidup-8xv100",
                                           "laptop", "pipedream-a", "two-racks"};
    char **found = NULL;
    size_t n = 0;
    assert_int_equal(topology_list(&found, &n), STATUS_OK);
    assert_int_equal(n, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(found[i], expected[i]);
        free(found[i]);
    }
    free(found);
}

static void summarises_a_file_without_a_comment_as_nothing(void **state)
{
    static const char path[] = BINARY_DIR "/topology_write.d/plain.xml";
    char *summary = NULL;
    put_text(path, "<platform/>\n");
    assert_int_equal(topology_summary(path, &summary), STATUS_OK);
    assert_string_equal(summary, "");
    free(summary);
    put_text(path, "<!--  one line   -->\n");
    assert_int_equal(topology_summary(path, &summary), STATUS_OK);
    assert_string_equal(summary, "one line");
    free(summary);
    unlink(path);
}

static enum status write_resolve_and_list(void)
{
    enum status st;
    struct machine m;
    char *path = NULL, *summary = NULL, **found = NULL;
    size_t n = 0;
    build(&m);
    TRY(topology_write_platform(&m.topology, written, NULL));
    TRY(topology_resolve("two-racks", &path));
    TRY(topology_summary(path, &summary));
    TRY(topology_list(&found, &n));
out:
    for (size_t i = 0; i < n; i++)
        free(found[i]);
    free(found);
    free(summary);
    free(path);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    FOR_EACH_ALLOC_FAILURE(write_resolve_and_list());
    assert_int_equal(files_in(directory), 1);
}

static int make_directory(void **state)
{
    unsetenv("FORELINE_DATA");
    mkdir(directory, 0777);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back_what_was_written),
        cmocka_unit_test(says_in_the_file_where_it_comes_from),
        cmocka_unit_test(refuses_more_than_64_devices_and_writes_nothing),
        cmocka_unit_test(reports_a_directory_that_does_not_exist),
        cmocka_unit_test(finds_shipped_platforms_by_name_and_others_by_path),
        cmocka_unit_test(prefers_the_directory_in_the_environment),
        cmocka_unit_test(lists_the_shipped_platforms_in_order),
        cmocka_unit_test(summarises_a_file_without_a_comment_as_nothing),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("topology_write", tests, make_directory, NULL);
}
