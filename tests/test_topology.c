/* Topologies: uniform ones, and large ones through JSON. */
#include "core/data/topology.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"

static const char path[] = BINARY_DIR "/test_topology.json";
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
    struct topology t = uniform(16384);
    assert_int_equal(t.n, 16384);
    assert_string_equal(t.device[16383], "d16383");
    assert_string_equal(topology_type(&t, 77)->name, "gpu");
    assert_true(topology_type(&t, 77)->name != gpu); /* a copy */
    assert_string_equal(topology_between(&t, 5, 16383)->name, "wire");
    topology_free(&t);
    assert_int_equal(topology_uniform(0, &type, &tier, &t), STATUS_INVALID);
    assert_int_equal(topology_uniform(TOPOLOGY_MAX_DEVICES + 1, &type, &tier, &t), STATUS_INVALID);
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
    assert_int_equal(map_build(n, scattered, NULL, &t.between), STATUS_OK);
    return t;
}

static void read_text(const char *name, char **text)
{
    size_t length;
    assert_int_equal(file_read(name, text, &length), STATUS_OK);
}

static int64_t integer_at(const struct json_at *array, size_t i)
{
    int64_t number = -1;
    struct json_at item = json_item(array, i);
    assert_int_equal(json_get_integer(&item, 0, INT64_MAX, &number), STATUS_OK);
    return number;
}

/* The tier of a pair as a reader of the file finds it: in the matrix, or from square to square. */
static int64_t tier_in_file(const struct json_at *between, uint32_t i, uint32_t j)
{
    struct json_at levels, level, square;
    size_t n, found = 0;
    if (json_members(between) == 0) {
        struct json_at row = json_item(between, i);
        return integer_at(&row, j);
    }
    assert_int_equal(json_field(between, "levels", &levels), STATUS_OK);
    assert_int_equal(json_get_array(&levels, SIZE_MAX, &n), STATUS_OK);
    for (size_t l = n; l-- > 0;) {
        level = json_item(&levels, l);
        square = json_item(&level, found);
        found = (size_t)integer_at(&square, (i >> 4 * l & 15) * 16 + (j >> 4 * l & 15));
    }
    return (int64_t)found;
}

/* Below and above the size where the matrix gives way to squares. */
static void json_tells_the_tier_of_every_pair(void **state)
{
    static const size_t sizes[] = {1, 2, 30, 256, 257, 300};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct topology t = irregular(sizes[k]);
        struct json_document d = {0};
        struct json_at between;
        assert_int_equal(topology_write(&t, path, &by), STATUS_OK);
        assert_int_equal(json_read(path, "foreline-topology", 2, &d), STATUS_OK);
        struct json_at root = json_root(&d);
        assert_int_equal(json_field(&root, "between", &between), STATUS_OK);
        for (uint32_t i = 0; i < t.n; i++)
            for (uint32_t j = 0; j < t.n; j++)
                if (i != j)
                    assert_int_equal(tier_in_file(&between, i, j),
                                     topology_between(&t, i, j) - t.tier);
        assert_int_equal(json_members(&between) > 0, sizes[k] > 256);
        json_document_free(&d);
        topology_free(&t);
    }
}

static void a_large_regular_topology_is_a_small_file(void **state)
{
    struct topology t = uniform(3000);
    char *text = NULL;
    assert_int_equal(topology_write(&t, path, &by), STATUS_OK);
    read_text(path, &text);
    assert_true(strlen(text) < 3000 * 60);
    free(text);
    topology_free(&t);
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
    FOR_EACH_ALLOC_FAILURE(make());
    struct topology t = irregular(300);
    FOR_EACH_ALLOC_FAILURE(topology_write(&t, path, &by));
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_uniform_topology_has_one_tier_and_one_type),
        cmocka_unit_test(json_tells_the_tier_of_every_pair),
        cmocka_unit_test(a_large_regular_topology_is_a_small_file),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
