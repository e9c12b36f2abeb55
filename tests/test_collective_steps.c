/* Every algorithm of the table but the torus (unit.torus) and the switch, which has no steps,
 * executed step by step with sets of contributions for numbers: everybody ends with what the
 * collective promises, and the flows carry what was sent. */
#include <stdlib.h>
#include <string.h>

#include "core/collective/collective.h"
#include "core/collective/shapes.h"
#include "tests/cmocka.h"
#include "tests/holdings.h"
#include "tests/racks.h"
#include "tests/random_plan.h"

/* Bytes of a chunk: all are whole numbers. */
static const double piece = 64;

struct case_of_steps {
    struct topology topology;
    struct collective_group g;
    struct holdings h;
};

static const struct topology_tier tiers[2] = {{"fast", 2e-6, 100e9}, {"slow", 10e-6, 10e9}};

/* Nodes of `each` members, in any order. */
static void draw(uint64_t *seed, bool one_size, struct case_of_steps *x)
{
    uint32_t nodes = 1 + random_below(seed, 6), each = 1 + random_below(seed, 5), device[64];
    size_t n = nodes * each;
    for (uint32_t k = 0; k < n; k++)
        device[k] = k;
    for (size_t k = n; k > 1; k--) {
        uint32_t other = random_below(seed, (uint32_t)k), kept = device[k - 1];
        device[k - 1] = device[other];
        device[other] = kept;
    }
    if (!one_size && n > 2)
        n -= random_below(seed, 2);
    x->topology = racks_nodes(nodes, each, "device", tiers);
    assert_int_equal(collective_group_make(&x->topology, device, n, &x->g), STATUS_OK);
}

static bool executed[32][COLLECTIVE_KINDS]; /* rows of the table, and what they were asked for */

/* Against the shape; `chunks` of `piece` bytes are the buffer. */
static void finish(struct case_of_steps *x, enum collective_kind kind, const char *algorithm,
                   double nics)
{
    struct collective_options o = {.algorithm = algorithm, .nics = nics};
    struct collective_shape s = {0};
    int64_t bytes = (int64_t)((double)x->h.chunks * piece);
    if (collective_shape_make(&x->g, kind, bytes, &o, &s) != STATUS_OK)
        fail_msg("%s", error_message());
    if (x->g.n > 1) {
        assert_string_equal(s.algorithm->name, algorithm);
        holdings_expect_flows(&x->h, &s);
        for (size_t a = 0; a < collective_algorithms_n; a++)
            executed[a][kind] |= collective_algorithms[a] == s.algorithm;
    }
    collective_shape_free(&s);
    holdings_free(&x->h);
}

static void release(struct case_of_steps *x)
{
    collective_group_free(&x->g);
    topology_free(&x->topology);
}

/* What all-reduces, reduce-scatters (chunk c: of member c) and all-gathers promise. */
static void expect_promise(const struct case_of_steps *x, bool reduce, bool gather,
                           const uint32_t *owner)
{
    for (uint32_t m = 0; m < x->h.n; m++)
        for (size_t c = 0; c < x->h.chunks; c++)
            if (reduce && (gather || owner[c] == m))
                assert_true(holdings_complete(&x->h, m, c));
            else if (!reduce)
                assert_true(x->h.of[m * x->h.chunks + c] == UINT64_C(1) << owner[c]);
}

enum { KINDS = 3 };
static const struct {
    enum collective_kind kind;
    bool reduce, gather;
} three[KINDS] = {{COLLECTIVE_ALLREDUCE, true, true},
                  {COLLECTIVE_REDUCESCATTER, true, false},
                  {COLLECTIVE_ALLGATHER, false, true}};

/* Chunk c around a row of members, reduced up to place c, then from there on. */
static void around(struct case_of_steps *x, const uint32_t *row, size_t n, size_t place,
                   size_t chunk, bool reduce)
{
    for (size_t step = 0; step + 1 < n; step++) {
        size_t from = place + step + (reduce ? 1 : 0);
        holdings_send(&x->h, row[from % n], row[(from + 1) % n], chunk, piece, reduce);
    }
}

static void rings_keep_their_promise(void **state)
{
    uint64_t seed = 1;
    for (int draws = 0; draws < 40; draws++)
        for (size_t k = 0; k < KINDS; k++) {
            struct case_of_steps x;
            draw(&seed, false, &x);
            x.h = holdings_begin(x.g.n, x.g.n, three[k].reduce ? NULL : x.g.order);
            for (size_t c = 0; c < x.g.n; c++) { /* place c's chunk is number c */
                if (three[k].reduce)
                    around(&x, x.g.order, x.g.n, c, c, true);
                if (three[k].gather)
                    around(&x, x.g.order, x.g.n, c, c, false);
            }
            expect_promise(&x, three[k].reduce, three[k].gather, x.g.order);
            finish(&x, three[k].kind, "ring", 0);
            release(&x);
        }
}

static void chains_keep_their_promise(void **state)
{
    uint64_t seed = 2;
    for (int draws = 0; draws < 40; draws++) {
        struct case_of_steps x;
        draw(&seed, false, &x);
        uint32_t root = 0;
        x.h = holdings_begin(x.g.n, 1, &root);
        assert_int_equal(x.g.order[0], 0);
        for (size_t k = 0; k + 1 < x.g.n; k++)
            holdings_send(&x.h, x.g.order[k], x.g.order[k + 1], 0, piece, false);
        for (size_t k = 0; k < x.g.n; k++)
            assert_true(x.h.of[k] == 1);
        finish(&x, COLLECTIVE_BROADCAST, "ring", 0);
        x.h = holdings_begin(x.g.n, 1, NULL);
        for (size_t k = x.g.n; k-- > 1;)
            holdings_send(&x.h, x.g.order[k], x.g.order[k - 1], 0, piece, true);
        assert_true(holdings_complete(&x.h, 0, 0));
        finish(&x, COLLECTIVE_REDUCE, "ring", 0);
        release(&x);
    }
}

/* Up from everybody below a node, through its chain to its head; or down again. */
static void climb(struct case_of_steps *x, bool second, uint32_t node, size_t chunk, bool up)
{
    const struct collective_group *g = &x->g;
    const uint32_t *chain = g->order + g->node_start[node];
    size_t size = g->node_start[node + 1] - g->node_start[node];
    for (size_t k = 1; !up && k < size; k++)
        holdings_send(&x->h, chain[k - 1], chain[k], chunk, piece, false);
    for (uint32_t child = 0; child < g->nodes; child++) {
        if (child == node || collective_tree_parent(g->nodes, second, child) != node)
            continue;
        uint32_t below = g->order[g->node_start[child]];
        if (!up)
            holdings_send(&x->h, chain[0], below, chunk, piece, false);
        climb(x, second, child, chunk, up);
        if (up)
            holdings_send(&x->h, below, chain[0], chunk, piece, true);
    }
    for (size_t k = size; up && k-- > 1;)
        holdings_send(&x->h, chain[k], chain[k - 1], chunk, piece, true);
}

static void trees_keep_their_promise(void **state)
{
    uint64_t seed = 3;
    for (int draws = 0; draws < 40; draws++) {
        struct case_of_steps x;
        draw(&seed, false, &x);
        x.h = holdings_begin(x.g.n, 2, NULL);
        for (int second = 0; second < 2; second++) {
            uint32_t root = 0;
            while (collective_tree_parent(x.g.nodes, second, root) != UINT32_MAX)
                root++;
            climb(&x, second, root, (size_t)second, true);
            climb(&x, second, root, (size_t)second, false);
        }
        expect_promise(&x, true, true, NULL);
        finish(&x, COLLECTIVE_ALLREDUCE, "tree", 0);
        release(&x);
    }
}

/* In each node around its members, chunk by chunk of those that are of position p; or across, around
 * the p-th of all nodes. Chunk j * p + i is of member i of node j. */
static void level(struct case_of_steps *x, bool across, bool reduce, bool all)
{
    const struct collective_group *g = &x->g;
    size_t nodes = g->nodes, each = g->n / nodes;
    uint32_t row[64];
    for (size_t r = 0; r < (across ? each : nodes); r++)
        for (size_t c = 0; c < g->n; c++) {
            size_t n = across ? nodes : each, node = c / each, position = c % each;
            if (across && position != r)
                continue;
            if (!across && !all && node != r)
                continue;
            for (size_t k = 0; k < n; k++)
                row[k] = g->order[across ? k * each + r : r * each + k];
            around(x, row, n, across ? node : position, c, reduce);
        }
}

static void levels_keep_their_promise(void **state)
{
    uint64_t seed = 4;
    for (int draws = 0; draws < 40; draws++)
        for (size_t k = 0; k < KINDS; k++) {
            struct case_of_steps x;
            bool pipelined = draws % 2 == 1;
            draw(&seed, true, &x);
            x.h = holdings_begin(x.g.n, x.g.n, three[k].reduce ? NULL : x.g.order);
            if (three[k].reduce) {
                level(&x, false, true, true);
                level(&x, true, true, true);
            }
            if (three[k].gather) {
                level(&x, true, false, true);
                level(&x, false, false, true);
            }
            expect_promise(&x, three[k].reduce, three[k].gather, x.g.order);
            finish(&x, three[k].kind, pipelined ? "pipelined" : "hierarchical", 0);
            release(&x);
        }
}

/* A chain over the first members of nodes, then one in each node. */
static void levels_broadcast_what_they_promise(void **state)
{
    uint64_t seed = 8;
    uint32_t root = 0;
    for (int draws = 0; draws < 40; draws++) {
        struct case_of_steps x;
        draw(&seed, true, &x);
        const uint32_t *row = x.g.order;
        size_t each = x.g.n / x.g.nodes;
        x.h = holdings_begin(x.g.n, 1, &root);
        for (size_t k = each; k < x.g.n; k += each)
            holdings_send(&x.h, row[k - each], row[k], 0, piece, false);
        for (size_t k = 1; k < x.g.n; k++)
            if (k % each)
                holdings_send(&x.h, row[k - 1], row[k], 0, piece, false);
        for (size_t k = 0; k < x.g.n; k++)
            assert_true(x.h.of[k] == 1);
        finish(&x, COLLECTIVE_BROADCAST, draws % 2 ? "pipelined" : "hierarchical", 0);
        release(&x);
    }
}

/* Member 0 gets what each member has, or gives each its own. */
static void gathers_and_scatters_keep_their_promise(void **state)
{
    uint64_t seed = 9;
    uint32_t own[64], zero[64] = {0};
    for (uint32_t k = 0; k < 64; k++)
        own[k] = k;
    for (int draws = 0; draws < 40; draws++) {
        struct case_of_steps x;
        bool back = draws % 2;
        draw(&seed, false, &x);
        x.h = holdings_begin(x.g.n, x.g.n, back ? own : zero);
        for (uint32_t k = 1; k < x.g.n; k++)
            holdings_send(&x.h, back ? k : 0, back ? 0 : k, k, piece, false);
        for (uint32_t k = 0; k < x.g.n; k++)
            assert_true(x.h.of[back ? k : k * x.g.n + k] == UINT64_C(1) << (back ? k : 0));
        finish(&x, back ? COLLECTIVE_GATHER : COLLECTIVE_SCATTER, "direct", 0);
        release(&x);
    }
}

/* Which of `count` takes part for a chunk's place, and who takes part as number q. */
static size_t part_of(size_t pairs, size_t place)
{
    return place < 2 * pairs ? place / 2 : place - pairs;
}

static void halve(struct case_of_steps *x, const uint32_t *who, size_t count, size_t apart,
                  bool reduce)
{
    for (size_t k = 0; k < count; k++)
        for (size_t c = 0; c < x->h.chunks; c++) {
            size_t at = part_of(x->h.chunks - count, c), with = reduce ? k ^ apart : k;
            /* reducing: what the partner goes on with; gathering: what this one has */
            if (((at ^ with) & (2 * apart - 1)) == 0)
                holdings_send(&x->h, who[k], who[k ^ apart], c, piece, reduce);
        }
}

static void halvings_keep_their_promise(void **state)
{
    uint64_t seed = 5;
    for (int draws = 0; draws < 60; draws++)
        for (size_t k = 0; k < KINDS; k++) {
            struct case_of_steps x;
            draw(&seed, false, &x);
            size_t count = 1, n = x.g.n;
            uint32_t who[64];
            while (2 * count <= n)
                count *= 2;
            size_t pairs = n - count;
            for (size_t q = 0; q < count; q++)
                who[q] = x.g.order[q < pairs ? 2 * q + 1 : q + pairs];
            size_t chunks = three[k].reduce && three[k].gather ? count : n;
            x.h = holdings_begin(n, chunks, three[k].reduce ? NULL : x.g.order);
            for (size_t q = 0; q < pairs; q++)
                for (size_t c = 0; c < chunks; c++)
                    if (three[k].reduce || c == 2 * q)
                        holdings_send(&x.h, x.g.order[2 * q], who[q], c, piece, three[k].reduce);
            for (size_t apart = 1; three[k].reduce && apart < count; apart *= 2)
                halve(&x, who, count, apart, true);
            for (size_t apart = count / 2; three[k].gather && apart > 0; apart /= 2)
                halve(&x, who, count, apart, false);
            for (size_t q = 0; q < pairs; q++)
                for (size_t c = 0; c < chunks; c++)
                    if (!three[k].gather ? c == 2 * q : three[k].reduce || c != 2 * q)
                        holdings_send(&x.h, who[q], x.g.order[2 * q], c, piece, false);
            expect_promise(&x, three[k].reduce, three[k].gather, x.g.order);
            finish(&x, three[k].kind, "halving", 0);
            release(&x);
        }
}

static void to_all(struct case_of_steps *x, size_t chunk, bool reduce)
{
    for (uint32_t m = 0; m < x->g.n; m++)
        if (m != chunk)
            holdings_send(&x->h, reduce ? m : (uint32_t)chunk, reduce ? (uint32_t)chunk : m, chunk,
                          piece, reduce);
}

static void pairs_keep_their_promise(void **state)
{
    uint64_t seed = 6;
    uint32_t own[64];
    for (uint32_t k = 0; k < 64; k++)
        own[k] = k;
    for (int draws = 0; draws < 30; draws++) {
        struct case_of_steps x;
        draw(&seed, false, &x);
        size_t n = x.g.n;
        for (size_t k = 0; k < KINDS; k++) {
            x.h = holdings_begin(n, n, three[k].reduce ? NULL : own);
            for (size_t c = 0; c < n; c++) {
                if (three[k].reduce)
                    to_all(&x, c, true);
                if (three[k].gather)
                    to_all(&x, c, false);
            }
            expect_promise(&x, three[k].reduce, three[k].gather, own);
            finish(&x, three[k].kind, "pairs", 0);
        }
        if (n > 1) {
            uint32_t zero[64] = {0};
            x.h = holdings_begin(n, n - 1, NULL); /* chunk c by way of member c + 1 */
            for (uint32_t c = 0; c + 1 < n; c++) {
                for (uint32_t m = 1; m < n; m++)
                    if (m != c + 1)
                        holdings_send(&x.h, m, c + 1, c, piece, true);
                holdings_send(&x.h, c + 1, 0, c, piece, true);
                assert_true(holdings_complete(&x.h, 0, c));
            }
            finish(&x, COLLECTIVE_REDUCE, "pairs", 0);
            x.h = holdings_begin(n, n - 1, zero);
            for (uint32_t c = 0; c + 1 < n; c++) {
                holdings_send(&x.h, 0, c + 1, c, piece, false);
                for (uint32_t m = 1; m < n; m++)
                    if (m != c + 1)
                        holdings_send(&x.h, c + 1, m, c, piece, false);
            }
            for (size_t k = 0; k < n * (n - 1); k++)
                assert_true(x.h.of[k] == 1);
            finish(&x, COLLECTIVE_BROADCAST, "pairs", 0);
        }
        release(&x);
    }
}

/* Everybody's k-th piece to the k-th: directly, or inside nodes to the receiver's position first. */
static void all_to_alls_keep_their_promise(void **state)
{
    uint64_t seed = 7;
    for (int draws = 0; draws < 30; draws++)
        for (int levels = 0; levels < 3; levels++) {
            static const char *const name[] = {"direct", "hierarchical", "pipelined"};
            struct case_of_steps x;
            draw(&seed, levels, &x);
            size_t n = x.g.n, each = n / x.g.nodes;
            uint32_t *owner = calloc(n * n, sizeof *owner);
            for (size_t c = 0; c < n * n; c++)
                owner[c] = x.g.order[c / n];
            x.h = holdings_begin(n, n * n, owner);
            for (size_t c = 0; c < n * n; c++) {
                size_t from = c / n, to = c % n, by = levels ? from / each * each + to % each : to;
                if (from != by)
                    holdings_send(&x.h, x.g.order[from], x.g.order[by], c, piece, false);
                if (by != to)
                    holdings_send(&x.h, x.g.order[by], x.g.order[to], c, piece, false);
                assert_true(x.h.of[x.g.order[to] * n * n + c] == UINT64_C(1) << owner[c]);
            }
            x.h.chunks = n; /* bytes are the input of each member */
            finish(&x, COLLECTIVE_ALLTOALL, name[levels], 0);
            release(&x);
            free(owner);
        }
}

/* The last test: what the others have executed. */
static void every_row_of_the_table_is_executed(void **state)
{
    static const char *const elsewhere[] = {"torus" /* unit.torus */, "switch" /* has no steps */,
                                            "fastest" /* is one of the others */};
    assert_true(collective_algorithms_n <= sizeof executed / sizeof *executed);
    for (size_t a = 0; a < collective_algorithms_n; a++)
        for (int kind = 0; kind < COLLECTIVE_KINDS; kind++) {
            const struct collective_algorithm *row = collective_algorithms[a];
            bool done = executed[a][kind] || !row->serves[kind];
            for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
                done = done || !strcmp(row->name, elsewhere[i]);
            if (!done)
                fail_msg("no test executes the steps of %s, %s", row->name,
                         collective_kind_name[kind]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_keep_their_promise),
        cmocka_unit_test(chains_keep_their_promise),
        cmocka_unit_test(trees_keep_their_promise),
        cmocka_unit_test(levels_keep_their_promise),
        cmocka_unit_test(halvings_keep_their_promise),
        cmocka_unit_test(pairs_keep_their_promise),
        cmocka_unit_test(all_to_alls_keep_their_promise),
        cmocka_unit_test(levels_broadcast_what_they_promise),
        cmocka_unit_test(gathers_and_scatters_keep_their_promise),
        cmocka_unit_test(every_row_of_the_table_is_executed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
