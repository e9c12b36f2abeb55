/* Groups of devices: shipped platforms, hidden hierarchies under noise, a slow reference. */
#include <math.h>
#include <stdlib.h>

#include "partition/tiers.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"
#include "tests/sample.h"
#include "topologies/write.h"

static struct tiers find(const struct topology *t)
{
    struct tiers x = {0};
    if (tiers_find(t, &x) != STATUS_OK)
        fail_msg("%s", error_message());
    return x;
}

static struct topology platform(const char *name)
{
    struct topology t = {0};
    char *path = NULL;
    if (topology_resolve(name, &path) != STATUS_OK || platform_read(path, &t) != STATUS_OK)
        fail_msg("%s: %s", name, error_message());
    free(path);
    return t;
}

/* n devices; between[i * n + j] is a tier of `bandwidth` [tiers]. */
static struct topology machine(size_t n, size_t tiers, const double *bandwidth_Bps,
                               uint32_t (*between)(const void *, uint32_t, uint32_t),
                               const void *context)
{
    struct topology t = sample_clique(n, 1e-6, 1e9);
    free(t.tier[0].name);
    free(t.tier);
    topology_map_free(&t.between);
    t.tiers = tiers;
    t.tier = calloc(tiers, sizeof *t.tier);
    for (size_t k = 0; k < tiers; k++)
        t.tier[k] = (struct topology_tier){sample_text("t"), 1e-6, bandwidth_Bps[k]};
    if (map_build(n, between, context, &t.between) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

static void assert_levels(const struct tiers *x, const char *name, size_t levels,
                          const size_t (*shape)[2])
{
    if (x->levels != levels)
        fail_msg("%s: %zu levels, expected %zu", name, x->levels, levels);
    for (size_t l = 0; l < levels; l++) {
        const struct tiers_level *level = &x->level[l];
        if (level->groups != shape[l][0] || level->smallest != shape[l][1] ||
            level->largest != shape[l][1])
            fail_msg("%s: level %zu is %zu groups of %zu to %zu", name, l, level->groups,
                     level->smallest, level->largest);
    }
}

static void shipped_platforms_are_nodes_in_racks(void **state)
{
    static const struct {
        const char *name;
        size_t levels, shape[3][2];
        const char *tier[3];
    } row[] = {
        {"two-racks", 3, {{4, 4}, {2, 8}, {1, 16}}, {"nvlink", "nic", "nic+uplink"}},
        {"dgx-h100-x4", 2, {{4, 8}, {1, 32}}, {"nvlink", "rail"}},
        {"dgx-a100-x2", 2, {{2, 8}, {1, 16}}, {"nvlink", "nic"}},
        {"hidup-8xv100", 2, {{8, 8}, {1, 64}}, {"nvlink-double", "nic"}},
        {"pipedream-a", 2, {{4, 4}, {1, 16}}, {"pcie", "pcie+nic"}},
        {"rail:nodes=128,gpus=8", 3, {{128, 8}, {4, 256}, {1, 1024}}, {0}},
        {"leaf-spine:nodes=512,gpus=8,rack=32", 3, {{512, 8}, {16, 256}, {1, 4096}}, {0}},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct topology t = platform(row[i].name);
        struct tiers x = find(&t);
        assert_levels(&x, row[i].name, row[i].levels, row[i].shape);
        assert_false(x.measured);
        for (size_t l = 0; l < x.levels && row[i].tier[l]; l++)
            assert_string_equal(t.tier[x.level[l].tier].name, row[i].tier[l]);
        assert_non_null(x.k_values);
        size_t devices = 1;
        for (size_t l = 0; l < x.levels; l++)
            devices *= x.k_values[l];
        assert_int_equal(devices, t.n);
        tiers_free(&x);
        topology_free(&t);
    }
}

static uint32_t one_tier(const void *context, uint32_t from, uint32_t to)
{
    (void)context;
    (void)from;
    (void)to;
    return 0;
}

static void equal_devices_are_one_group_and_one_device_is_none(void **state)
{
    struct topology t = sample_clique(1, 0, 1e9), u = sample_clique(37, 0, 1e9);
    struct tiers x = find(&t);
    assert_int_equal(x.levels, 0);
    assert_int_equal(tiers_joining(&x, 0, 0), SIZE_MAX);
    tiers_free(&x);
    x = find(&u);
    assert_levels(&x, "equal", 1, (const size_t[][2]){{1, 37}});
    assert_int_equal(x.k_values[0], 37);
    assert_int_equal(tiers_joining(&x, 3, 30), 0);
    tiers_free(&x);
    topology_free(&u);
    u = machine(2, 1, (const double[]){5e9}, one_tier, NULL);
    x = find(&u);
    assert_levels(&x, "two", 1, (const size_t[][2]){{1, 2}});
    assert_false(x.measured);
    tiers_free(&x);
    topology_free(&u);
    topology_free(&t);
}

/* Devices 0 1 2 | 3 4 | 5, and pairs to the right of that are slow one way only. */
static uint32_t unequal(const void *context, uint32_t from, uint32_t to)
{
    (void)context;
    static const uint32_t node[] = {0, 0, 0, 1, 1, 2};
    return node[from] == node[to] ? 0 : from < to && node[to] == 2 ? 2 : 1;
}

static void unequal_groups_have_no_k_values_and_the_slower_direction_counts(void **state)
{
    struct topology t = machine(6, 3, (const double[]){100e9, 10e9, 1e9}, unequal, NULL);
    struct tiers x = find(&t);
    assert_int_equal(x.levels, 3);
    static const uint32_t groups[3][6] = {
        {0, 0, 0, 1, 1, 2}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0}};
    for (size_t l = 0; l < 3; l++) {
        assert_memory_equal(x.level[l].group_of, groups[l], sizeof groups[l]);
        assert_int_equal(x.level[l].tier, l);
    }
    assert_int_equal(x.level[0].smallest, 1);
    assert_int_equal(x.level[0].largest, 3);
    assert_null(x.k_values);
    assert_int_equal(tiers_joining(&x, 0, 2), 0);
    assert_int_equal(tiers_joining(&x, 2, 3), 1);
    assert_int_equal(tiers_joining(&x, 5, 3), 2);
    tiers_free(&x);
    topology_free(&t);
}

struct matrix {
    size_t n;
    uint32_t *tier; /* [n * n] */
};

static uint32_t at(const void *context, uint32_t from, uint32_t to)
{
    const struct matrix *m = context;
    return m->tier[from * m->n + to];
}

/* Slow and obvious: the least worst tier on any way between each pair, by Floyd's algorithm. */
static void bottlenecks(const struct matrix *m, uint32_t *worst)
{
    size_t n = m->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            uint32_t a = m->tier[i * n + j], b = m->tier[j * n + i];
            worst[i * n + j] = i == j ? 0 : a > b ? a : b;
        }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                uint32_t a = worst[i * n + k], b = worst[k * n + j];
                uint32_t way = a > b ? a : b;
                worst[i * n + j] = way < worst[i * n + j] ? way : worst[i * n + j];
            }
}

static void groups_are_those_of_widest_paths_on_random_machines(void **state)
{
    static const double bandwidth_Bps[] = {64e9, 32e9, 16e9, 8e9, 4e9, 2e9};
    srand(7);
    for (int trial = 0; trial < 40; trial++) {
        size_t n = 5 + (size_t)rand() % 60;
        struct matrix m = {n, calloc(n * n, sizeof *m.tier)};
        uint32_t *worst = calloc(n * n, sizeof *worst);
        int rare = 1 + rand() % 60;
        for (size_t i = 0; i < n * n; i++) {
            m.tier[i] = 5;
            while (m.tier[i] > 0 && rand() % rare == 0)
                m.tier[i]--;
        }
        struct topology t = machine(n, 6, bandwidth_Bps, at, &m);
        struct tiers x = find(&t);
        bottlenecks(&m, worst);
        assert_int_equal(x.level[x.levels - 1].groups, 1);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                if (i != j)
                    assert_int_equal(x.level[tiers_joining(&x, i, j)].tier, worst[i * n + j]);
        tiers_free(&x);
        topology_free(&t);
        free(worst);
        free(m.tier);
    }
}

/* ---- measured bandwidths */

struct hidden {
    size_t n, inner[3]; /* devices in a node, in a rack; what is larger is outside */
    double bandwidth_Bps[3], noise;
    uint32_t *place; /* [n] devices stand in any order */
    struct matrix tiers;
    double *measured; /* [n * n / 2] */
};

static struct topology hide(struct hidden *h, bool both_ways)
{
    size_t n = h->n, tiers = 0;
    h->tiers = (struct matrix){n, calloc(n * n, sizeof *h->tiers.tier)};
    h->measured = calloc(n * n, sizeof *h->measured);
    h->place = calloc(n, sizeof *h->place);
    for (size_t i = 0; i < n; i++)
        h->place[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)rand() % i;
        uint32_t swap = h->place[k];
        h->place[k] = h->place[i - 1];
        h->place[i - 1] = swap;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            size_t a = h->place[i], b = h->place[j];
            size_t level = a / h->inner[0] == b / h->inner[0]   ? 0
                           : a / h->inner[1] == b / h->inner[1] ? 1
                                                                : 2;
            double scatter = 1 + h->noise * (2.0 * rand() / RAND_MAX - 1);
            if (i == j || (i > j && !both_ways)) {
                h->tiers.tier[i * n + j] = h->tiers.tier[j * n + i];
                continue;
            }
            h->measured[tiers] = h->bandwidth_Bps[level] * scatter;
            h->tiers.tier[i * n + j] = (uint32_t)tiers++;
        }
    return machine(n, tiers, h->measured, at, &h->tiers);
}

static void unhide(struct hidden *h, struct topology *t)
{
    free(h->tiers.tier);
    free(h->measured);
    free(h->place);
    topology_free(t);
}

/* Does level l have exactly the groups of `size` hidden neighbours? */
static bool recovers(const struct hidden *h, const struct tiers *x, size_t l, size_t size)
{
    bool right = l < x->levels && x->level[l].smallest == size && x->level[l].largest == size;
    for (size_t i = 0; right && i < h->n; i++)
        for (size_t j = 0; right && j < i; j++)
            right = (h->place[i] / size == h->place[j] / size) ==
                    (x->level[l].group_of[i] == x->level[l].group_of[j]);
    return right;
}

static void hidden_hierarchies_are_recovered_under_ten_percent_of_noise(void **state)
{
    static const size_t shape[][3] = {{16, 4, 8}, {24, 2, 6}, {48, 8, 16}, {6, 3, 6}, {64, 8, 32}};
    srand(11);
    for (int trial = 0; trial < 60; trial++) {
        const size_t *s = shape[trial % 5];
        struct hidden h = {.n = s[0], .inner = {s[1], s[2], s[0]}, .noise = 0.1};
        h.bandwidth_Bps[2] = 1e9;
        h.bandwidth_Bps[1] = h.bandwidth_Bps[2] * (1.6 + rand() % 100 / 25.0);
        h.bandwidth_Bps[0] = h.bandwidth_Bps[1] * (1.6 + rand() % 100 / 25.0);
        struct topology t = hide(&h, trial % 2);
        struct tiers x = find(&t);
        assert_true(x.measured);
        bool flat = s[2] == s[0];
        if (x.levels != (flat ? 2u : 3u) || !recovers(&h, &x, 0, s[1]) ||
            !recovers(&h, &x, 1, s[2]))
            fail_msg("trial %d: %zu levels, first %zu groups", trial, x.levels, x.level[0].groups);
        double joins = t.tier[x.level[0].tier].bandwidth_Bps / h.bandwidth_Bps[0];
        assert_true(joins > 0.9 && joins < 1.1);
        tiers_free(&x);
        unhide(&h, &t);
    }
}

/* Nodes at 1 and racks at 0.75, both +- `noise`, the rest at 0.2: how many of 40 are recovered? */
static int recovered(double noise, int *overlap)
{
    int right = 0;
    srand(13);
    for (int trial = 0; trial < 40; trial++) {
        struct hidden h = {
            .n = 32, .inner = {4, 16, 32}, .bandwidth_Bps = {10e9, 7.5e9, 2e9}, .noise = noise};
        struct topology t = hide(&h, false);
        struct tiers x = find(&t);
        double inside = INFINITY, between = 0;
        for (uint32_t i = 0; i < h.n; i++)
            for (uint32_t j = 0; j < i; j++) {
                double own = h.measured[at(&h.tiers, i, j)];
                if (h.place[i] / 4 == h.place[j] / 4)
                    inside = fmin(inside, own);
                else
                    between = fmax(between, own);
            }
        *overlap += between > inside;
        right += x.levels == 3 && recovers(&h, &x, 0, 4) && recovers(&h, &x, 1, 16);
        tiers_free(&x);
        unhide(&h, &t);
    }
    return right;
}

static void communities_part_what_no_threshold_does(void **state)
{
    int overlap = 0;
    assert_int_equal(recovered(0.12, &overlap), 40); /* gaps of 5 % at most */
    int right = recovered(0.15, &overlap);
    print_message("%d of 40 machines are recovered, %d where bandwidths overlap\n", right, overlap);
    assert_true(overlap >= 30 && right >= 25);
}

static void noise_alone_makes_no_groups(void **state)
{
    srand(17);
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 3 + (size_t)rand() % 30;
        struct hidden h = {
            .n = n, .inner = {n, n, n}, .bandwidth_Bps = {10e9, 1e9, 1e9}, .noise = 0.1};
        struct topology t = hide(&h, trial % 2);
        struct tiers x = find(&t);
        assert_int_equal(x.levels, 1);
        tiers_free(&x);
        unhide(&h, &t);
    }
}

static uint32_t of_16k(const void *context, uint32_t from, uint32_t to)
{
    (void)context;
    return from / 8 == to / 8 ? 0 : from / 256 == to / 256 ? 1 : from / 4096 == to / 4096 ? 2 : 3;
}

static void sixteen_thousand_devices_are_grouped(void **state)
{
    struct topology t = machine(16384, 4, (const double[]){400e9, 50e9, 25e9, 1e9}, of_16k, NULL);
    struct tiers x = find(&t);
    assert_levels(&x, "16k", 4, (const size_t[][2]){{2048, 8}, {64, 256}, {4, 4096}, {1, 16384}});
    assert_memory_equal(x.k_values, ((const size_t[]){4, 16, 32, 8}), 4 * sizeof(size_t));
    tiers_free(&x);
    topology_free(&t);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct topology t = machine(20, 3, (const double[]){100e9, 10e9, 1e9}, of_16k, NULL);
    struct hidden h = {
        .n = 16, .inner = {4, 8, 16}, .bandwidth_Bps = {10e9, 5e9, 2e9}, .noise = 0.1};
    struct topology u = hide(&h, true);
    struct tiers x = {0};
    FOR_EACH_ALLOC_FAILURE(tiers_find(&t, &x));
    tiers_free(&x);
    FOR_EACH_ALLOC_FAILURE(tiers_find(&u, &x));
    tiers_free(&x);
    unhide(&h, &u);
    topology_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_platforms_are_nodes_in_racks),
        cmocka_unit_test(equal_devices_are_one_group_and_one_device_is_none),
        cmocka_unit_test(unequal_groups_have_no_k_values_and_the_slower_direction_counts),
        cmocka_unit_test(groups_are_those_of_widest_paths_on_random_machines),
        cmocka_unit_test(hidden_hierarchies_are_recovered_under_ten_percent_of_noise),
        cmocka_unit_test(communities_part_what_no_threshold_does),
        cmocka_unit_test(noise_alone_makes_no_groups),
        cmocka_unit_test(sixteen_thousand_devices_are_grouped),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("tiers", tests, NULL, NULL);
}
