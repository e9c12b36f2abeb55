/* Topologies: uniform ones, and large ones through JSON. */
#include "core/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/file.h"
#include "core/provenance.h"
#include "tests/fault.h"

static const char path[] = BINARY_DIR "/test_topology.json", again[] = BINARY_DIR "/again.json";
static char gpu[] = "gpu", wire[] = "wire";
static const struct device_type type = {
    .name = gpu, .flops = 1e12, .memory_Bps = 1e11, .memory_bytes = 1 << 30};
static const struct topology_tier tier = {wire, 1e-6, 1e9};
static const struct provenance by = {"foreline 0", "test", NULL, 0};

static struct topology uniform(size_t n)
{
    struct topology t = {0};
    assert_int_equal(topology_uniform(n, &type, &tier, &t), STATUS_OK);
    return t;
}

static void a_uniform_topology_has_one_tier_and_one_type(void **state)
{
    (void)state;
    struct topology t = uniform(16384);
    assert_int_equal(t.n, 16384);
    assert_string_equal(t.device[16383], "d16383");
    assert_string_equal(topology_type(&t, 77)->name, "gpu");
    assert_true(topology_type(&t, 77)->name != gpu); /* a copy */
    assert_string_equal(topology_between(&t, 5, 16383)->name, "wire");
    topology_free(&t);
    assert_int_equal(topology_uniform(0, &type, &tier, &t), STATUS_INVALID);
    assert_int_equal(topology_uniform(65537, &type, &tier, &t), STATUS_INVALID);
}

static uint32_t scattered(const void *unused, uint32_t from, uint32_t to)
{
    (void)unused;
    return (from * 7919u + to * 104729u) % 11 % 3;
}

/* n devices, three tiers, no symmetry. */
static struct topology irregular(size_t n)
{
    static const char *const names[] = {"a", "b", "c"};
    struct topology t = uniform(n);
    free(t.tier[0].name);
    t.tier = realloc(t.tier, 3 * sizeof *t.tier);
    assert_non_null(t.tier);
    for (size_t k = 0; k < 3; k++)
        t.tier[k] = (struct topology_tier){strdup(names[k]), 1e-6 / 3 * (double)k, 1e9 / 7};
    t.tiers = 3;
    assert_int_equal(topology_map_build(n, scattered, NULL, &t.between), STATUS_OK);
    return t;
}

static void read_text(const char *name, char **text)
{
    size_t length;
    assert_int_equal(file_read(name, text, &length), STATUS_OK);
}

/* Below and above the size where the matrix gives way to squares. */
static void json_brings_every_pair_back_and_the_same_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 30, 256, 257, 600};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct topology t = irregular(sizes[k]), back = {0};
        char *first = NULL, *second = NULL;
        assert_int_equal(topology_write(&t, path, &by), STATUS_OK);
        if (topology_read(path, &back) != STATUS_OK)
            fail_msg("%s", error_message());
        for (uint32_t i = 0; i < t.n; i++)
            for (uint32_t j = 0; j < t.n; j++)
                if (i != j)
                    assert_string_equal(topology_between(&back, i, j)->name,
                                        topology_between(&t, i, j)->name);
        assert_int_equal(topology_write(&back, again, &by), STATUS_OK);
        read_text(path, &first);
        read_text(again, &second);
        assert_string_equal(first, second);
        assert_int_equal(strstr(first, "\"levels\"") != NULL, sizes[k] > 256);
        free(first);
        free(second);
        topology_free(&back);
        topology_free(&t);
    }
}

static void a_large_regular_topology_is_a_small_file(void **state)
{
    (void)state;
    struct topology t = uniform(3000), back = {0};
    char *text = NULL;
    assert_int_equal(topology_write(&t, path, &by), STATUS_OK);
    read_text(path, &text);
    assert_true(strlen(text) < 3000 * 60);
    free(text);
    assert_int_equal(topology_read(path, &back), STATUS_OK);
    assert_int_equal(back.n, 3000);
    assert_string_equal(topology_between(&back, 0, 2999)->name, "wire");
    topology_free(&back);
    topology_free(&t);
}

/* A file of two devices around the given "between". */
static void expect_refusal(const char *between, const char *message)
{
    struct topology t = {0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f,
            "{\"format\":\"foreline-topology\",\"version\":2,\"name\":\"x\",\"types\":["
            "{\"name\":\"g\",\"flops\":1,\"memory_Bps\":1,\"memory_bytes\":1,\"launch_s\":0}],"
            "\"tiers\":[{\"name\":\"t\",\"latency_s\":0,\"bandwidth_Bps\":1}],"
            "\"devices\":[{\"name\":\"a\",\"type\":0},{\"name\":\"b\",\"type\":0}],"
            "\"between\":%s}\n",
            between);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(topology_read(path, &t), STATUS_PARSE);
    if (!strstr(error_message(), message))
        fail_msg("'%s' does not say '%s'", error_message(), message);
}

static void refuses_squares_that_do_not_fit(void **state)
{
    (void)state;
    expect_refusal("{}", "between");
    expect_refusal("{\"side\":16}", "levels");
    expect_refusal("{\"side\":8,\"levels\":[]}", "side");
    expect_refusal("{\"side\":16,\"levels\":[[],[]]}", "2 levels for 2 devices, expected 1");
    expect_refusal("{\"side\":16,\"levels\":[[]]}", "0 squares");
    expect_refusal("{\"side\":16,\"levels\":[[[0,0]]]}", "2 entries, expected 256");
    expect_refusal("{\"side\":16,\"levels\":[[[],[]]]}", "2 squares");
    expect_refusal("[[0,0]]", "1 rows for 2 devices");
    expect_refusal("[[0,1],[0,0]]", "between[0][1]");
}

static enum status make(void)
{
    struct topology t = {0};
    enum status st = topology_uniform(3, &type, &tier, &t);
    topology_free(&t);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    (void)state;
    FOR_EACH_ALLOC_FAILURE(make());
    struct topology t = irregular(300), back = {0};
    assert_int_equal(topology_write(&t, path, &by), STATUS_OK);
    topology_free(&t);
    for (long k = 0;; k += 7) { /* jansson has its own allocator: ours are few */
        fault_countdown = k;
        enum status st = topology_read(path, &back);
        bool failed = fault_countdown < 0;
        fault_countdown = LONG_MAX;
        if (!failed)
            break;
        assert_int_equal(st, STATUS_NOMEM);
    }
    topology_free(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_uniform_topology_has_one_tier_and_one_type),
        cmocka_unit_test(json_brings_every_pair_back_and_the_same_bytes),
        cmocka_unit_test(a_large_regular_topology_is_a_small_file),
        cmocka_unit_test(refuses_squares_that_do_not_fit),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
