/* Grids: which platforms and groups are some, and collectives on them against their bounds on both
 * engines and against an execution of all steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/collective/collective.h"
#include "sim/call.h"
#include "sim/engines.h"
#include "sim/platform/platform.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/generated.h"
#include "tests/holdings.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { MOST = 64 };

/* ---- what is a grid */

static void expect_grid(const struct topology *t, uint32_t x, uint32_t y, uint32_t z, bool wraps)
{
    const uint32_t length[] = {x, y, z};
    for (size_t d = 0; d < GRID_DIMENSIONS; d++) {
        assert_int_equal(t->grid.length[d], length[d]);
        assert_int_equal(t->grid.wraps[d], wraps && length[d] > 2);
    }
}

static struct topology read_text(const char *text)
{
    struct topology t = {0};
    FILE *f = fopen(generated_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    if (platform_read(generated_path, &t) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

static const char head[] = "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM "
                           "\"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n";

/* A row of 5 hosts, by links or by a bus that all pairs share. */
static struct topology row(bool bus)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "%s<zone id=\"z\" routing=\"%s\">\n", head,
                     bus ? "Full" : "DijkstraCache");
    for (int k = 0; k < 5; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, "<host id=\"h%d\" speed=\"1Gf\"/>\n", k);
    for (int k = 0; k < (bus ? 1 : 4); k++)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "<link id=\"l%d\" bandwidth=\"1GBps\" latency=\"1us\"%s/>\n", k,
                      bus ? "" : " sharing_policy=\"SPLITDUPLEX\"");
    for (int k = 0; k < 5; k++)
        for (int j = k + 1; j < (bus ? 5 : k + 2) && j < 5; j++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          "<route src=\"h%d\" dst=\"h%d\"><link_ctn id=\"l%d\"%s/></route>\n", k, j,
                          bus ? 0 : k, bus ? "" : " direction=\"UP\"");
    snprintf(text + n, sizeof text - (size_t)n, "</zone></platform>\n");
    return read_text(text);
}

static void grids_are_found_in_any_file(void **state)
{
    char cluster[1024];
    struct topology t = generated("torus:x=4,y=3,z=2");
    expect_grid(&t, 4, 3, 2, true);
    topology_free(&t);
    t = generated("torus:x=2,y=3,gpus=4");
    expect_grid(&t, 2, 3, 1, true);
    assert_int_equal(t.grid.each, 4);
    topology_free(&t);
    t = generated("torus:x=5,y=1");
    expect_grid(&t, 5, 1, 1, true);
    topology_free(&t);
    snprintf(cluster, sizeof cluster,
             "%s<cluster id='c' prefix='h' suffix='' radical='0-11' speed='1Gf' bw='1GBps' "
             "lat='1us' topology='TORUS' topo_parameters='3,4' "
             "sharing_policy='SPLITDUPLEX'/></platform>",
             head);
    t = read_text(cluster);
    expect_grid(&t, 3, 4, 1, true);
    topology_free(&t);
    t = row(false);
    expect_grid(&t, 5, 1, 1, false);
    topology_free(&t);
}

static void other_networks_are_none(void **state)
{
    static const char *const others[] = {"rail:nodes=4,gpus=2",     "mesh:gpus=8",
                                         "fat-tree:nodes=4,gpus=2", "node:gpus=4",
                                         "dragonfly+:gpus=1",       "torus:x=1,y=1"};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        struct topology t = generated(others[k]);
        assert_int_equal(t.grid.dimensions, 0);
        topology_free(&t);
    }
    struct topology t = row(true);
    assert_int_equal(t.grid.dimensions, 0);
    topology_free(&t);
}

/* ---- groups */

static struct collective_group group_of(const struct topology *t, const uint32_t *device, size_t n)
{
    struct collective_group g;
    if (collective_group_make(t, device, n, &g) != STATUS_OK)
        fail_msg("%s", error_message());
    return g;
}

static void blocks_and_every_other_node_are_grids(void **state)
{
    static const struct {
        uint32_t device[8];
        size_t n, x, y;
        bool ring_x, ring_y;
    } cases[] = {
        {{0, 1, 2, 3}, 4, 4, 1, true, false},           /* a row that goes around */
        {{1, 2, 3}, 3, 3, 1, false, false},             /* part of it */
        {{2, 6, 10, 14, 18, 22}, 6, 1, 6, false, true}, /* a column */
        {{2, 10, 18}, 3, 1, 3, false, true},            /* every other of it */
        {{14, 2, 22, 10, 6, 18}, 6, 1, 6, false, true}, /* in any order */
        {{5, 6, 9, 10, 13, 14}, 6, 2, 3, false, false},
        {{0, 2, 8, 10}, 4, 2, 2, false, false},
        {{0, 1, 5}, 3, 0, 0, false, false}, /* no block */
        {{0, 4, 12}, 3, 0, 0, false, false},
        {{7}, 1, 0, 0, false, false},
    };
    struct topology t = generated("torus:x=4,y=6");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct collective_group g = group_of(&t, cases[k].device, cases[k].n);
        if (cases[k].x == 0) {
            assert_null(g.grid);
        } else {
            assert_non_null(g.grid);
            assert_int_equal(g.grid->length[0], cases[k].x);
            assert_int_equal(g.grid->length[1], cases[k].y);
            assert_int_equal(g.grid->ring[0], cases[k].ring_x);
            assert_int_equal(g.grid->ring[1], cases[k].ring_y);
        }
        collective_group_free(&g);
    }
    topology_free(&t);
}

static enum status shape_once(const struct topology *t)
{
    static const uint32_t device[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    struct collective_group g = {0};
    struct collective_shape s = {0};
    enum status st = collective_group_make(t, device, 9, &g);
    for (int kind = 0; kind < COLLECTIVE_KINDS && st == STATUS_OK; kind++) {
        collective_shape_free(&s);
        st = collective_shape_make(&g, (enum collective_kind)kind, 1 << 20, NULL, &s);
    }
    collective_shape_free(&s);
    collective_group_free(&g);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    struct topology t = generated("torus:x=3,y=3");
    FOR_EACH_ALLOC_FAILURE(shape_once(&t));
    topology_free(&t);
}

/* ---- bounds */

/* All-reduce of S over n nodes with links each way: 2 S (n - 1) / n / (links x bandwidth). */
static void all_reduces_take_their_bound_on_both_engines(void **state)
{
    static const struct {
        const char *spec;
        double nodes, links;
        int64_t least; /* bytes; latencies inside nodes are 4.4 us a step */
    } cases[] = {{"torus:x=4,y=4", 16, 4, 64000000},     {"torus:x=8,y=8", 64, 4, 64000000},
                 {"torus:x=4,y=4,z=4", 64, 6, 64000000}, {"torus:x=3,y=5", 15, 4, 64000000},
                 {"torus:x=6,y=4,z=2", 48, 5, 64000000}, {"torus:x=2,y=2", 4, 2, 64000000},
                 {"torus:x=2,y=7", 14, 3, 64000000},     {"torus:x=2,y=2,z=2", 8, 3, 64000000},
                 {"torus:x=9,y=1", 9, 2, 64000000},      {"torus:x=3,y=2,gpus=4", 6, 3, 960000000}};
    const double Bps = 50e9;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct topology t = generated(cases[k].spec);
        for (int64_t bytes = cases[k].least; bytes <= 960000000; bytes *= 15)
            for (enum op_kind kind = OP_ALLREDUCE; kind <= OP_REDUCESCATTER; kind++)
                for (int quick = 0; quick < 2; quick++) {
                    const struct call c = {&t, generated_path, t.n, kind, bytes};
                    double seconds, twice = kind == OP_ALLREDUCE ? 2 : 1;
                    double n = cases[k].nodes;
                    double bound = twice * (double)bytes * (n - 1) / n / (cases[k].links * Bps);
                    if (call_simulate(&c, quick ? &engine_analytic : &engine_simgrid, NULL,
                                      &seconds) != STATUS_OK)
                        fail_msg("%s", error_message());
                    if (!(seconds >= bound && seconds <= 1.05 * bound))
                        fail_msg("%s, %s of %g bytes: %g s, bound %g s", cases[k].spec,
                                 collective_kind_name[op_collective[kind]], (double)bytes, seconds,
                                 bound);
                }
        topology_free(&t);
    }
}

/* What can be asked for by name is not faster than what auto takes, by the shares of links. */
static void auto_is_the_fastest_on_a_torus(void **state)
{
    static const char *const specs[] = {"torus:x=4,y=4", "torus:x=5,y=2", "torus:x=3,y=3,z=2",
                                        "torus:x=7,y=1", "torus:x=2,y=3,gpus=2"};
    for (size_t k = 0; k < sizeof specs / sizeof *specs; k++) {
        struct topology t = generated(specs[k]);
        for (int64_t bytes = 1024; bytes <= 1 << 30; bytes *= 32)
            for (enum op_kind kind = OP_ALLREDUCE; kind < OP_COPY; kind++) {
                const struct call c = {&t, generated_path, t.n, kind, bytes};
                double chosen_s, seconds;
                assert_int_equal(call_simulate(&c, &engine_analytic, NULL, &chosen_s), STATUS_OK);
                for (size_t a = 0; a < collective_algorithms_n; a++) {
                    struct collective_options o = {.algorithm = collective_algorithms[a]->name};
                    if (!strcmp(o.algorithm, "switch")) /* what if */
                        continue;
                    assert_int_equal(call_simulate(&c, &engine_analytic, &o, &seconds), STATUS_OK);
                    if (!(chosen_s <= 1.02 * seconds))
                        fail_msg("%s, %s of %lld bytes: auto %g s, %s %g s", specs[k],
                                 collective_kind_name[op_collective[kind]], (long long)bytes,
                                 chosen_s, o.algorithm, seconds);
                }
            }
        topology_free(&t);
    }
}

/* ---- step by step */

struct steps {
    const struct collective_grid *grid;
    size_t dimensions, dimension[GRID_DIMENSIONS];
    double part[GRID_DIMENSIONS]; /* share that begins with each */
    double bytes;
    struct holdings h;
};

static size_t coordinate(const struct collective_grid *g, size_t node, size_t d)
{
    for (size_t k = 0; k < d; k++)
        node /= g->length[k];
    return node % g->length[d];
}

static size_t with_coordinate(const struct collective_grid *g, size_t node, size_t d, size_t c)
{
    size_t stride = 1;
    for (size_t k = 0; k < d; k++)
        stride *= g->length[k];
    return node + stride * c - stride * coordinate(g, node, d);
}

static uint32_t member(const struct steps *x, size_t node, size_t position)
{
    return x->grid->member[node * x->grid->each + position];
}

static size_t chunk_of(const struct steps *x, size_t position, size_t part, size_t piece)
{
    return (position * 2 * x->dimensions + part) * x->grid->nodes + piece;
}

/* Parts for which all dimensions take equally long: of D equations in D unknowns. */
static void solve_parts(struct steps *x, bool both)
{
    size_t n = x->dimensions;
    double a[GRID_DIMENSIONS][GRID_DIMENSIONS + 1], sum = 0;
    for (size_t k = 0; k < n; k++) {
        double length = (double)x->grid->length[x->dimension[k]];
        bool ring = x->grid->ring[x->dimension[k]];
        a[k][n] = ring ? 2 * length / (length - 1) : both ? 2 : length / (length - 1);
        for (size_t s = 0; s < n; s++) {
            a[k][s] = 1;
            for (size_t i = s; i % n != k; i++)
                a[k][s] /= (double)x->grid->length[x->dimension[i % n]];
        }
    }
    for (size_t i = 0; i < n; i++) /* diagonals are 1, the rest at most 1/2: no pivots */
        for (size_t k = 0; k < n; k++)
            for (size_t j = n + 1; k != i && j-- > i;)
                a[k][j] -= a[k][i] / a[i][i] * a[i][j];
    for (size_t i = 0; i < n; i++)
        sum += x->part[i] = a[i][n] / a[i][i];
    for (size_t i = 0; i < n; i++)
        assert_true((x->part[i] /= sum) > 0);
}

/* A hop between two places of the row or ring of `node` in dimension d. */
static void hop(struct steps *x, size_t node, size_t position, size_t d, size_t from, size_t to,
                size_t chunk, double bytes, bool reduce)
{
    holdings_send(&x->h, member(x, with_coordinate(x->grid, node, d, from), position),
                  member(x, with_coordinate(x->grid, node, d, to), position), chunk, bytes, reduce);
}

/* Piece c of a ring is reduced on the way around to c, or spread on the way around from c; that of
 * a row comes to c from both ends, or goes there. */
static void pass_piece(struct steps *x, size_t node, size_t position, size_t d, size_t c, bool back,
                       size_t chunk, double bytes, bool reduce)
{
    size_t length = x->grid->length[d], way = back ? length - 1 : 1;
    if (x->grid->ring[d]) {
        size_t at = reduce ? (c + way) % length : c;
        for (size_t step = 1; step < length; step++, at = (at + way) % length)
            hop(x, node, position, d, at, (at + way) % length, chunk, bytes, reduce);
        return;
    }
    for (size_t k = 0; reduce && k < c; k++)
        hop(x, node, position, d, k, k + 1, chunk, bytes, true);
    for (size_t k = length - 1; reduce && k > c; k--)
        hop(x, node, position, d, k, k - 1, chunk, bytes, true);
    for (size_t k = c; !reduce && k > 0; k--)
        hop(x, node, position, d, k, k - 1, chunk, bytes, false);
    for (size_t k = c; !reduce && k + 1 < length; k++)
        hop(x, node, position, d, k, k + 1, chunk, bytes, false);
}

/* One dimension of one part: all rows, all pieces that are at home there. */
static void pass_dimension(struct steps *x, size_t position, size_t part, size_t turn, bool reduce)
{
    const struct collective_grid *g = x->grid;
    size_t s = part / 2, d = x->dimension[(s + turn) % x->dimensions];
    double bytes = x->bytes * x->part[s] / 2 / (double)(g->each * g->nodes);
    for (size_t node = 0; node < g->nodes; node++)
        for (size_t piece = 0; piece < g->nodes && coordinate(g, node, d) == 0; piece++) {
            bool here = true;
            for (size_t k = 0; k < turn; k++) {
                size_t e = x->dimension[(s + k) % x->dimensions];
                here = here && coordinate(g, piece, e) == coordinate(g, node, e);
            }
            if (here)
                pass_piece(x, node, position, d, coordinate(g, piece, d), part % 2 == 1,
                           chunk_of(x, position, part, piece), bytes, reduce);
        }
}

/* Around the members of each node. */
static void pass_inside(struct steps *x, bool reduce)
{
    const struct collective_grid *g = x->grid;
    size_t chunks = 2 * x->dimensions * g->nodes;
    for (size_t node = 0; node < g->nodes; node++)
        for (size_t e = 0; e < g->each; e++)
            for (size_t step = 0; step + 1 < g->each; step++)
                for (size_t c = 0; c < chunks; c++) {
                    size_t from = e + step + (reduce ? 1 : 0);
                    double share = x->part[c / g->nodes / 2] / 2 / (double)(g->each * g->nodes);
                    holdings_send(&x->h, member(x, node, from % g->each),
                                  member(x, node, (from + 1) % g->each), e * chunks + c,
                                  x->bytes * share, reduce);
                }
}

static void run_steps(struct steps *x, bool reduce, bool gather)
{
    const struct collective_grid *g = x->grid;
    size_t parts = 2 * x->dimensions, chunks = g->each * parts * g->nodes, n = g->each * g->nodes;
    uint32_t *owner = calloc(chunks, sizeof *owner);
    for (size_t e = 0; e < g->each; e++)
        for (size_t part = 0; part < parts; part++)
            for (size_t piece = 0; piece < g->nodes; piece++)
                owner[chunk_of(x, e, part, piece)] = member(x, piece, e);
    solve_parts(x, reduce && gather);
    x->h = holdings_begin(n, chunks, reduce ? NULL : owner);
    if (reduce)
        pass_inside(x, true);
    for (int back = !reduce; back < 1 + gather; back++)
        for (size_t e = 0; e < g->each; e++)
            for (size_t part = 0; part < parts; part++)
                for (size_t k = 0; k < x->dimensions; k++)
                    pass_dimension(x, e, part, back ? x->dimensions - 1 - k : k, !back);
    if (gather)
        pass_inside(x, false);
    for (uint32_t m = 0; m < n; m++)
        for (size_t c = 0; c < chunks; c++) {
            if (reduce && (gather || owner[c] == m))
                assert_true(holdings_complete(&x->h, m, c));
            if (!reduce)
                assert_true(x->h.of[m * chunks + c] == UINT64_C(1) << owner[c]);
        }
    free(owner);
}

/* A block of a torus: of each dimension all, a part or every second; devices in any order. */
static size_t draw_block(uint64_t *seed, const struct topology *t, uint32_t *device)
{
    const struct topology_grid *p = &t->grid;
    uint32_t first[3], step[3], count[3], each = 1 + random_below(seed, p->each);
    size_t n = 0;
    for (size_t d = 0; d < GRID_DIMENSIONS; d++) {
        uint32_t length = p->length[d], how = random_below(seed, 3);
        first[d] = how == 1 ? random_below(seed, length) : 0;
        step[d] = how == 2 && length % 2 == 0 ? 2 : 1;
        count[d] = how == 1 ? 1 + random_below(seed, length - first[d]) : length / step[d];
    }
    for (uint32_t z = 0; z < count[2]; z++)
        for (uint32_t y = 0; y < count[1]; y++)
            for (uint32_t x = 0; x < count[0]; x++)
                for (uint32_t e = 0; e < each; e++) {
                    uint32_t node = first[0] + step[0] * x +
                                    p->length[0] * (first[1] + step[1] * y +
                                                    p->length[1] * (first[2] + step[2] * z));
                    device[n++] = node * p->each + e;
                }
    for (size_t k = n; k > 1; k--) {
        uint32_t other = random_below(seed, (uint32_t)k), kept = device[k - 1];
        device[k - 1] = device[other];
        device[other] = kept;
    }
    return n;
}

static struct topology draw_torus(uint64_t *seed)
{
    char spec[64];
    uint32_t x = 1 + random_below(seed, 5), y = 1 + random_below(seed, 5);
    uint32_t z = 1 + random_below(seed, 3), gpus = random_below(seed, 3) == 0 ? 2 : 1;
    while (x * y * z * gpus > MOST)
        x--;
    snprintf(spec, sizeof spec, "torus:x=%u,y=%u,z=%u,gpus=%u", x + 1, y, z, gpus);
    return x * y * z * gpus + y * z * gpus > MOST ? generated("torus:x=4,y=4,z=3")
                                                  : generated(spec);
}

static void check_steps(const struct collective_group *g, bool reduce, bool gather)
{
    struct steps x = {.grid = g->grid, .bytes = 1 << 26};
    struct collective_shape s = {0};
    struct collective_options o = {.algorithm = "torus"};
    enum collective_kind kind = !gather  ? COLLECTIVE_REDUCESCATTER
                                : reduce ? COLLECTIVE_ALLREDUCE
                                         : COLLECTIVE_ALLGATHER;
    for (size_t d = 0; d < GRID_DIMENSIONS; d++)
        if (g->grid->length[d] > 1)
            x.dimension[x.dimensions++] = d;
    run_steps(&x, reduce, gather);
    if (collective_shape_make(g, kind, 1 << 26, &o, &s) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_string_equal(s.algorithm->name, "torus");
    holdings_expect_flows(&x.h, &s);
    holdings_free(&x.h);
    collective_shape_free(&s);
}

/* Every piece of every pair dimension by dimension, the shorter way around; the two parts of what
 * goes half around take both ways. */
static void check_pairs(const struct collective_group *g)
{
    const struct collective_grid *grid = g->grid;
    struct steps x = {.grid = grid};
    struct collective_shape s = {0};
    struct collective_options o = {.algorithm = "torus"};
    uint32_t *owner = calloc(2 * g->n * g->n, sizeof *owner);
    for (size_t c = 0; c < 2 * g->n * g->n; c++)
        owner[c] = (uint32_t)(c / 2 / g->n);
    x.h = holdings_begin(g->n, 2 * g->n * g->n, owner);
    for (size_t c = 0; c < 2 * g->n * g->n; c++) {
        uint32_t at = owner[c], to = (uint32_t)(c / 2 % g->n);
        size_t position = 0;
        while (member(&x, grid->node[to], position) != to)
            position++;
        uint32_t next = member(&x, grid->node[at], position);
        if (next != at)
            holdings_send(&x.h, at, next, c, 1, false);
        at = next;
        for (size_t d = 0; d < GRID_DIMENSIONS; d++)
            for (size_t end = coordinate(grid, grid->node[to], d), length = grid->length[d];
                 coordinate(grid, grid->node[at], d) != end; at = next) {
                size_t here = coordinate(grid, grid->node[at], d);
                size_t up = (end + length - here) % length;
                size_t whole = (end + length - coordinate(grid, grid->node[owner[c]], d)) % length;
                bool back = !grid->ring[d]        ? end < here
                            : 2 * whole == length ? c % 2 == 1
                                                  : 2 * up > length;
                size_t then = back ? (here + length - 1) % length : (here + 1) % length;
                next = member(&x, with_coordinate(grid, grid->node[at], d, then), position);
                holdings_send(&x.h, at, next, c, 1, false);
            }
        assert_true(at == to && x.h.of[to * x.h.chunks + c] == UINT64_C(1) << owner[c]);
    }
    int64_t bytes = 2 * (int64_t)g->n; /* a byte for each piece */
    if (collective_shape_make(g, COLLECTIVE_ALLTOALL, bytes, &o, &s) != STATUS_OK)
        fail_msg("%s", error_message());
    holdings_expect_flows(&x.h, &s);
    holdings_free(&x.h);
    collective_shape_free(&s);
    free(owner);
}

static bool augment(uint8_t room[MOST][MOST], size_t n, size_t from, size_t to, bool *seen)
{
    if (from == to)
        return true;
    seen[from] = true;
    for (size_t k = 0; k < n; k++)
        if (room[from][k] > 0 && !seen[k] && augment(room, n, k, to, seen)) {
            room[from][k]--;
            room[k][from]++;
            return true;
        }
    return false;
}

/* As many ways without a common link from the root to every node as there are trees: then there are
 * as many spanning trees without a common link. Edmonds, Edge-disjoint branchings, 1973. */
static void check_trees(const struct collective_group *g, bool towards)
{
    const struct collective_grid *grid = g->grid;
    struct collective_shape s = {0};
    struct collective_options o = {.algorithm = "torus"};
    size_t trees = 0, dimensions = 0, across = 0;
    bool rings = true;
    for (size_t d = 0; d < GRID_DIMENSIONS; d++) {
        dimensions += grid->length[d] > 1;
        rings = rings && (grid->length[d] == 1 || grid->ring[d]);
    }
    trees = rings ? 2 * dimensions : dimensions;
    if (collective_shape_make(g, towards ? COLLECTIVE_REDUCE : COLLECTIVE_BROADCAST, 7200, &o,
                              &s) != STATUS_OK)
        fail_msg("%s", error_message());
    for (uint32_t to = 1; to < g->n; to++) {
        uint8_t room[MOST][MOST] = {{0}};
        across = 0;
        for (size_t f = 0; f < s.flows; f++) {
            uint32_t a = towards ? s.flow[f].to : s.flow[f].from;
            uint32_t b = towards ? s.flow[f].from : s.flow[f].to;
            bool leaves = grid->node[a] != grid->node[b];
            assert_int_equal(room[a][b], 0);
            assert_near(s.flow[f].bytes, leaves ? 7200.0 / (double)trees : 7200, 1e-9);
            room[a][b] = leaves ? 1 : (uint8_t)trees;
            across += leaves;
        }
        assert_int_equal(across, trees * (grid->nodes - 1));
        for (size_t k = 0; k < trees; k++) {
            bool seen[MOST] = {0};
            assert_true(augment(room, g->n, 0, to, seen));
        }
    }
    collective_shape_free(&s);
}

/* What comes to a member and does not leave it again is its n-th. */
static void check_spread(const struct collective_group *g, bool towards)
{
    struct collective_shape s = {0};
    struct collective_options o = {.algorithm = "torus"};
    double kept[MOST] = {0};
    const double S = 7200;
    if (collective_shape_make(g, towards ? COLLECTIVE_GATHER : COLLECTIVE_SCATTER, 7200, &o, &s) !=
        STATUS_OK)
        fail_msg("%s", error_message());
    for (size_t f = 0; f < s.flows; f++) {
        assert_true(s.flow[f].bytes > 0);
        kept[towards ? s.flow[f].from : s.flow[f].to] += s.flow[f].bytes;
        kept[towards ? s.flow[f].to : s.flow[f].from] -= s.flow[f].bytes;
    }
    for (uint32_t m = 0; m < g->n; m++)
        assert_near(kept[m], S / (double)g->n - (m == 0 ? S : 0), 1e-9);
    collective_shape_free(&s);
}

static void flows_are_those_of_all_steps(void **state)
{
    uint64_t seed = 42;
    size_t blocks = 0;
    for (size_t draw = 0; draw < 60; draw++) {
        uint32_t device[MOST];
        struct topology t = draw_torus(&seed);
        size_t n = draw_block(&seed, &t, device);
        struct collective_group g = group_of(&t, device, n);
        if (g.grid) {
            check_steps(&g, true, true);
            check_steps(&g, true, false);
            check_steps(&g, false, true);
            check_pairs(&g);
            check_trees(&g, false);
            check_trees(&g, true);
            check_spread(&g, false);
            check_spread(&g, true);
            blocks++;
        }
        collective_group_free(&g);
        topology_free(&t);
    }
    assert_true(blocks > 40); /* the others are in one node */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_are_found_in_any_file),
        cmocka_unit_test(other_networks_are_none),
        cmocka_unit_test(blocks_and_every_other_node_are_grids),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(all_reduces_take_their_bound_on_both_engines),
        cmocka_unit_test(auto_is_the_fastest_on_a_torus),
        cmocka_unit_test(flows_are_those_of_all_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
