/* The compressed matrix of tiers against a plain one. */
#include "core/data/topology_map.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"

struct matrix {
    size_t n;
    uint32_t *cell;
};

static uint32_t entry(const void *argument, uint32_t from, uint32_t to)
{
    const struct matrix *m = argument;
    return m->cell[from * m->n + to];
}

static struct matrix random_matrix(size_t n, uint32_t numbers)
{
    struct matrix m = {n, calloc(n * n + 1, sizeof *m.cell)};
    assert_non_null(m.cell);
    for (size_t i = 0; i < n * n; i++)
        m.cell[i] = (uint32_t)rand() % numbers;
    return m;
}

static struct topology_map build(const struct matrix *m)
{
    struct topology_map map = {0};
    assert_int_equal(map_build(m->n, entry, m, &map), STATUS_OK);
    return map;
}

static size_t all_squares(const struct topology_map *map)
{
    size_t n = 0;
    for (unsigned l = 0; l < map->levels; l++)
        n += map->squares[l];
    return n;
}

static bool same_map(const struct topology_map *a, const struct topology_map *b)
{
    if (a->levels != b->levels)
        return false;
    for (unsigned l = 0; l < a->levels; l++)
        if (a->squares[l] != b->squares[l] ||
            memcmp(a->cell[l], b->cell[l],
                   a->squares[l] * TOPOLOGY_MAP_CELLS * sizeof *a->cell[l]) != 0)
            return false;
    return true;
}

static const size_t sizes[] = {1, 2, 3, 15, 16, 17, 100, 255, 256, 257, 300};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void gives_every_pair_back(void **state)
{
    srand(1);
    for (size_t k = 0; k < SIZES; k++) {
        struct matrix m = random_matrix(sizes[k], 5);
        struct topology_map map = build(&m);
        assert_int_equal(map.levels, sizes[k] == 1     ? 0
                                     : sizes[k] <= 16  ? 1
                                     : sizes[k] <= 256 ? 2
                                                       : 3);
        for (uint32_t i = 0; i < m.n; i++)
            for (uint32_t j = 0; j < m.n; j++)
                assert_int_equal(topology_map_at(&map, i, j), i == j ? 0 : entry(&m, i, j));
        assert_true(topology_map_is_sound(&map, m.n, 5));
        topology_map_free(&map);
        free(m.cell);
    }
}

/* Nodes of 6, racks of 7 nodes; neither divides 16. */
static uint32_t racks(const void *unused, uint32_t from, uint32_t to)
{
    (void)unused;
    return from / 6 == to / 6 ? 0 : from / 42 != to / 42 ? 2 : 1;
}

static void regular_machines_take_few_squares_and_pairs_are_counted(void **state)
{
    enum { N = 42 * 50 };
    struct topology_map map = {0};
    uint64_t pairs[3];
    assert_int_equal(map_build(N, racks, NULL, &map), STATUS_OK);
    assert_true(all_squares(&map) < 1000); /* of 17,424 */
    assert_int_equal(topology_map_at(&map, 6, 11), 0);
    assert_int_equal(topology_map_at(&map, 6, 12), 1);
    assert_int_equal(topology_map_at(&map, 41, 42), 2);
    assert_int_equal(topology_map_count(&map, N, 3, pairs), STATUS_OK);
    assert_int_equal(pairs[0], N * 5);
    assert_int_equal(pairs[1], N * 36);
    assert_int_equal(pairs[2], (uint64_t)N * (N - 42));
    topology_map_free(&map);
}

static void equal_pairs_take_no_squares(void **state)
{
    struct matrix m = random_matrix(300, 1);
    struct topology_map map = build(&m);
    uint64_t pairs;
    assert_int_equal(map.levels, 0);
    assert_true(topology_map_is_sound(&map, 300, 1));
    assert_int_equal(topology_map_count(&map, 300, 1, &pairs), STATUS_OK);
    assert_int_equal(pairs, 300 * 299);
    free(m.cell);
}

static void counts_pairs_of_irregular_machines(void **state)
{
    srand(2);
    for (size_t k = 0; k < SIZES; k++) {
        uint64_t pairs[4], expected[4] = {0};
        struct matrix m = random_matrix(sizes[k], 4);
        struct topology_map map = build(&m);
        for (uint32_t i = 0; i < m.n; i++)
            for (uint32_t j = 0; j < m.n; j++)
                expected[entry(&m, i, j)] += i != j;
        assert_int_equal(topology_map_count(&map, m.n, 4, pairs), STATUS_OK);
        assert_memory_equal(pairs, expected, sizeof pairs);
        topology_map_free(&map);
        free(m.cell);
    }
}

/* Two numbers become one: the same map as when built that way. */
static void renumbering_merges_what_became_equal(void **state)
{
    static const uint32_t number[] = {0, 2, 1, 1, 0}, none[5] = {0};
    srand(3);
    for (size_t k = 1; k < SIZES; k++) {
        struct matrix m = random_matrix(sizes[k], 5);
        struct topology_map map = build(&m);
        for (size_t i = 0; i < m.n * m.n; i++)
            m.cell[i] = number[m.cell[i]];
        struct topology_map expected = build(&m);
        assert_int_equal(topology_map_renumber(&map, number), STATUS_OK);
        for (uint32_t i = 0; i < m.n; i++)
            for (uint32_t j = 0; j < m.n; j++)
                assert_int_equal(topology_map_at(&map, i, j), i == j ? 0 : entry(&m, i, j));
        assert_int_equal(all_squares(&map), all_squares(&expected));
        assert_int_equal(topology_map_renumber(&map, none), STATUS_OK);
        assert_int_equal(map.levels, 0);
        topology_map_free(&expected);
        topology_map_free(&map);
        free(m.cell);
    }
}

static void same_pairs_give_the_same_bytes(void **state)
{
    srand(4);
    struct matrix m = random_matrix(300, 3);
    struct topology_map a = build(&m), b = build(&m);
    assert_true(same_map(&a, &b));
    m.cell[1] = 1 - (m.cell[1] & 1);
    topology_map_free(&b);
    b = build(&m);
    assert_int_equal(same_map(&a, &b), topology_map_at(&a, 0, 1) == m.cell[1]);
    topology_map_free(&a);
    topology_map_free(&b);
    free(m.cell);
}

static void refuses_more_than_a_million_devices(void **state)
{
    struct topology_map_builder *b = NULL;
    assert_int_equal(topology_map_begin(1048577, &b), STATUS_INVALID);
    assert_message(error_message(), "1048577");
    assert_null(b);
    assert_int_equal(topology_map_begin(1048576, &b), STATUS_OK);
    topology_map_builder_free(b);
}

static void notices_unsound_maps(void **state)
{
    srand(5);
    struct matrix m = random_matrix(40, 3);
    struct topology_map map = build(&m);
    assert_true(topology_map_is_sound(&map, 40, 3));
    assert_false(topology_map_is_sound(&map, 40, 2));
    assert_false(topology_map_is_sound(&map, 16, 3)); /* a level too many */
    assert_false(topology_map_is_sound(&map, 257, 3));
    map.cell[1][5] = (uint32_t)map.squares[0];
    assert_false(topology_map_is_sound(&map, 40, 3));
    map.levels = 0;
    assert_true(topology_map_is_sound(&map, 40, 1));
    assert_false(topology_map_is_sound(&map, 40, 0)); /* pairs but no tiers */
    assert_true(topology_map_is_sound(&map, 1, 0));
    topology_map_free(&map);
    free(m.cell);
}

static enum status build_count_renumber(const struct matrix *m)
{
    enum status st;
    static const uint32_t number[] = {0, 1, 1};
    uint64_t pairs[3];
    struct topology_map map = {0};
    TRY(map_build(m->n, entry, m, &map));
    TRY(topology_map_count(&map, m->n, 3, pairs));
    TRY(topology_map_renumber(&map, number));
out:
    topology_map_free(&map);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    srand(6);
    struct matrix m = random_matrix(100, 3);
    FOR_EACH_ALLOC_FAILURE(build_count_renumber(&m));
    free(m.cell);
}

/* Numbers in random blocks of random sizes, as scattered and as regular as can be. */
static void finds_where_each_number_is_first_met(void **state)
{
    enum { MOST = 700, NUMBERS = 9 };
    static uint32_t row[MOST];
    srand(7);
    for (int round = 0; round < 40; round++) {
        size_t n = 2 + (size_t)rand() % (round % 4 ? 60 : MOST - 2),
               grain = 1 + (size_t)rand() % 20;
        struct topology_map map = {0};
        struct topology_map_builder *b = NULL;
        struct topology_map_place first[NUMBERS], expected[NUMBERS];
        uint32_t salt = (uint32_t)rand();
        for (size_t k = 0; k < NUMBERS; k++)
            expected[k] = (struct topology_map_place){(uint32_t)n, (uint32_t)n};
        assert_int_equal(topology_map_begin(n, &b), STATUS_OK);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++) {
                uint32_t hash = (uint32_t)(i / grain * 31 + j / grain * 17 + salt) * 2654435761U;
                row[j] = i == j ? 0 : 1 + (hash >> 24) % (NUMBERS - 2);
                if (expected[row[j]].from == n)
                    expected[row[j]] = (struct topology_map_place){i, j};
            }
            assert_int_equal(topology_map_row(b, row), STATUS_OK);
        }
        assert_int_equal(topology_map_finish(b, &map), STATUS_OK);
        assert_int_equal(topology_map_first(&map, n, NUMBERS, first), STATUS_OK);
        assert_memory_equal(first, expected, sizeof first);
        topology_map_builder_free(b);
        topology_map_free(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_pair_back),
        cmocka_unit_test(regular_machines_take_few_squares_and_pairs_are_counted),
        cmocka_unit_test(equal_pairs_take_no_squares),
        cmocka_unit_test(counts_pairs_of_irregular_machines),
        cmocka_unit_test(renumbering_merges_what_became_equal),
        cmocka_unit_test(same_pairs_give_the_same_bytes),
        cmocka_unit_test(refuses_more_than_a_million_devices),
        cmocka_unit_test(notices_unsound_maps),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
        cmocka_unit_test(finds_where_each_number_is_first_met),
    };
    return cmocka_run_group_tests_name("topology_map", tests, NULL, NULL);
}
