/* Fills the map of a flat zone by the tree of its blocks and cut vertices.
 *
 * A range of devices (one, 16, 256, ...) has a meeting point: the lowest vertex or block of the
 * tree that all its ways to the rest pass. Ranges with the same values to theirs are alike,
 * whatever they are made of. The square between two ranges that meet nobody of each other below the
 * place where they meet is decided by what each is like and by the value between their meeting
 * points. */
#include "sim/platform/regular.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/intern.h"

enum {
    SIDE = TOPOLOGY_MAP_SIDE,
    CELLS = TOPOLOGY_MAP_CELLS,
    MAX_DEPTH = 64, /* blocks below each other */
    LUMP = 1024,    /* vertices of a large block */
    LEVELS = TOPOLOGY_MAP_LEVELS + 1,
};

/* Devices that follow each other. A tree node is 2 * vertex or 2 * block + 1. */
struct range {
    uint32_t meeting;   /* tree node */
    uint32_t low, high; /* branches below it that have devices */
    uint32_t up, down;  /* numbers of the lists of values to and from the meeting point's vertex
                             * that is nearest the root */
    uint32_t places;    /* of a block: number of the list of places */
    bool alone;         /* of a block: each device has a place of its own */
};

struct weaver {
    const struct route_graph *graph;
    const struct block_shapes *shapes;
    struct values *values;
    size_t n, count[LEVELS];     /* ranges of each size */
    struct range *range[LEVELS]; /* [count] of 16^level devices, the last one of fewer */
    struct interner lists;       /* of ranges */
    struct interner squares;     /* what they are decided by */
    size_t known;
    uint32_t *square; /* [known] of each such list */
    struct topology_map_builder *builder;
    bool full; /* too many values */
};

/* ---- the tree */

static uint32_t node_of_vertex(uint32_t vertex)
{
    return 2 * vertex;
}

static bool is_block(uint32_t node)
{
    return node & 1;
}

static uint32_t weaver_depth(const struct route_graph *g, uint32_t node)
{
    return is_block(node) ? 2 * g->depth[g->top[node / 2]] + 1 : 2 * g->depth[node / 2];
}

static uint32_t above(const struct route_graph *g, uint32_t node)
{
    return is_block(node) ? node_of_vertex(g->top[node / 2]) : 2 * g->block[node / 2] + 1;
}

/* The vertex of a node that is nearest the root. */
static uint32_t top_of(const struct route_graph *g, uint32_t node)
{
    return is_block(node) ? g->top[node / 2] : node / 2;
}

/* Where two nodes meet, and the nodes just below it on either side (the meeting point itself for a
 * node that is it). The zone is one piece. */
static uint32_t weaver_meeting_of(const struct route_graph *g, uint32_t a, uint32_t b,
                                  uint32_t below[2])
{
    below[0] = a;
    below[1] = b;
    while (a != b) {
        uint32_t x = weaver_depth(g, a), y = weaver_depth(g, b);
        if (x >= y) {
            below[0] = a;
            a = above(g, a);
        }
        if (y >= x) {
            below[1] = b;
            b = above(g, b);
        }
    }
    return a;
}

/* The number of a branch: of a vertex, the block; of a block, the place; of the meeting point
 * itself, one that no branch has. */
static uint32_t branch_of(const struct weaver *w, uint32_t meeting, uint32_t below)
{
    if (below == meeting)
        return (uint32_t)w->graph->blocks;
    return is_block(meeting) ? w->shapes->place[below / 2] : below / 2;
}

/* a, and then b. */
static uint16_t weaver_add(struct weaver *w, uint16_t a, uint16_t b)
{
    uint16_t sum = 0;
    w->full = !values_add(w->values, a, b, &sum) || w->full;
    return sum;
}

/* From a vertex up to one above it, or down from there. */
static uint16_t weaver_climb(struct weaver *w, uint32_t vertex, uint32_t to, bool up)
{
    const struct route_graph *g = w->graph;
    uint16_t value = 0;
    for (; vertex != to; vertex = g->top[g->block[vertex]])
        value = up ? weaver_add(w, value, w->shapes->up[vertex])
                   : weaver_add(w, w->shapes->down[vertex], value);
    return value;
}

/* From one vertex to another, whose branches are different where they meet. */
static uint16_t between(struct weaver *w, uint32_t from, uint32_t to)
{
    const struct route_graph *g = w->graph;
    uint32_t below[2];
    uint32_t meeting = weaver_meeting_of(g, node_of_vertex(from), node_of_vertex(to), below);
    if (!is_block(meeting))
        return weaver_add(w, weaver_climb(w, from, meeting / 2, true),
                          weaver_climb(w, to, meeting / 2, false));
    const struct block_shape *shape = &w->shapes->shape[w->shapes->of_block[meeting / 2]];
    size_t row = w->shapes->place[below[0] / 2], column = w->shapes->place[below[1] / 2];
    uint16_t value = weaver_add(w, weaver_climb(w, from, below[0] / 2, true),
                                shape->between[row * shape->places + column]);
    return weaver_add(w, value, weaver_climb(w, to, below[1] / 2, false));
}

/* ---- ranges */

/* What parts are seen as from the meeting point of the whole. */
static enum status list_parts(struct weaver *w, size_t n, const struct range *part,
                              struct range *whole)
{
    const struct route_graph *g = w->graph;
    uint32_t up[2 * SIDE], down[2 * SIDE], places[6 * SIDE], top = top_of(g, whole->meeting);
    bool fresh;
    for (size_t i = 0; i < n; i++) {
        uint32_t at = top_of(g, part[i].meeting);
        up[2 * i] = part[i].up;
        up[2 * i + 1] = weaver_climb(w, at, top, true);
        down[2 * i] = part[i].down;
        down[2 * i + 1] = weaver_climb(w, at, top, false);
    }
    PASS(intern(&w->lists, up, 2 * n * sizeof *up, &whole->up, &fresh));
    PASS(intern(&w->lists, down, 2 * n * sizeof *down, &whole->down, &fresh));
    if (!is_block(whole->meeting))
        return STATUS_OK;
    whole->alone = true;
    for (size_t i = 0; i < n; i++) {
        uint32_t below[2], at = top_of(g, part[i].meeting), *to = places + 6 * i;
        bool same = part[i].meeting == whole->meeting;
        weaver_meeting_of(g, part[i].meeting, whole->meeting, below);
        uint32_t place = same ? at : below[0] / 2;
        to[0] = same;
        to[1] = same ? part[i].places : w->shapes->place[place];
        to[2] = same ? 0 : part[i].up;
        to[3] = same ? 0 : weaver_climb(w, at, place, true);
        to[4] = same ? 0 : part[i].down;
        to[5] = same ? 0 : weaver_climb(w, at, place, false);
        whole->alone =
            whole->alone && part[i].alone && (same || part[i].meeting == node_of_vertex(place));
    }
    return intern(&w->lists, places, 6 * n * sizeof *places, &whole->places, &fresh);
}

/* The range of n parts. */
static enum status weaver_join_parts(struct weaver *w, size_t n, const struct range *part,
                                     struct range *whole)
{
    uint32_t below[2];
    whole->meeting = part[0].meeting;
    for (size_t i = 1; i < n; i++)
        whole->meeting = weaver_meeting_of(w->graph, whole->meeting, part[i].meeting, below);
    whole->low = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        bool same = part[i].meeting == whole->meeting;
        weaver_meeting_of(w->graph, part[i].meeting, whole->meeting, below);
        uint32_t branch = branch_of(w, whole->meeting, below[0]);
        uint32_t low = same ? part[i].low : branch, high = same ? part[i].high : branch;
        whole->low = low < whole->low ? low : whole->low;
        whole->high = high > whole->high ? high : whole->high;
    }
    return list_parts(w, n, part, whole);
}

/* Single devices, then sixteen ranges to one until one is left. */
static enum status find_ranges(struct weaver *w)
{
    uint32_t nothing;
    bool fresh;
    PASS(intern(&w->lists, "", 0, &nothing, &fresh));
    w->count[0] = w->n;
    PASS(ARRAY_NEW(w->range[0], w->n));
    for (size_t i = 0; i < w->n; i++)
        w->range[0][i] = (struct range){.meeting = node_of_vertex(w->graph->vertex[i]),
                                        .low = (uint32_t)w->graph->blocks,
                                        .high = (uint32_t)w->graph->blocks,
                                        .up = nothing,
                                        .down = nothing,
                                        .alone = true};
    for (unsigned l = 1; l < LEVELS && w->count[l - 1] > 1; l++) {
        w->count[l] = (w->count[l - 1] + SIDE - 1) / SIDE;
        PASS(ARRAY_NEW(w->range[l], w->count[l]));
        for (size_t i = 0; i < w->count[l]; i++) {
            size_t left = w->count[l - 1] - i * SIDE;
            PASS(weaver_join_parts(w, left < SIDE ? left : SIDE, w->range[l - 1] + i * SIDE,
                                   &w->range[l][i]));
        }
    }
    return STATUS_OK;
}

/* ---- squares */

/* The list that decides the square between two ranges; its length, 0 when they meet somebody of
 * each other. */
static size_t decide(struct weaver *w, unsigned level, const struct range *a, const struct range *b,
                     uint32_t key[8])
{
    const struct route_graph *g = w->graph;
    uint32_t below[2], meeting = weaver_meeting_of(g, a->meeting, b->meeting, below);
    bool from_here = a->meeting == meeting, to_here = b->meeting == meeting;
    uint32_t x = branch_of(w, meeting, below[0]), y = branch_of(w, meeting, below[1]);
    uint32_t low[2] = {from_here ? a->low : x, to_here ? b->low : y};
    uint32_t high[2] = {from_here ? a->high : x, to_here ? b->high : y};
    bool apart = high[0] < low[1] || high[1] < low[0];
    uint32_t at[2] = {top_of(g, a->meeting), top_of(g, b->meeting)};
    key[0] = level;
    if (is_block(meeting) && (from_here || to_here)) {
        if (!apart && !(from_here && to_here && a->alone && b->alone))
            return 0;
        key[1] = w->shapes->of_block[meeting / 2] * 4 + (from_here ? 1 : 0) + (to_here ? 2 : 0);
        key[2] = from_here ? a->places : a->up;
        key[3] = from_here ? 0 : x;
        key[4] = from_here ? 0 : weaver_climb(w, at[0], below[0] / 2, true);
        key[5] = to_here ? b->places : b->down;
        key[6] = to_here ? 0 : y;
        key[7] = to_here ? 0 : weaver_climb(w, at[1], below[1] / 2, false);
        return 8;
    }
    if (!apart)
        return 0;
    key[1] = a->up;
    key[2] = b->down;
    key[3] = between(w, at[0], at[1]);
    return 4;
}

/* The square of the map's level - 1 between two ranges of 16^level devices. */
static enum status weave(struct weaver *w, unsigned level, size_t row, size_t column,
                         uint32_t *square)
{
    uint32_t key[8], cell[CELLS] = {0}, number = 0;
    bool fresh = false;
    size_t length = decide(w, level, &w->range[level][row], &w->range[level][column], key);
    if (length > 0) {
        PASS(intern(&w->squares, key, length * sizeof *key, &number, &fresh));
        if (!fresh) {
            *square = w->square[number];
            return STATUS_OK;
        }
        PASS(ARRAY_ROOM(w->square, w->known));
        w->known++;
    }
    for (size_t r = 0; r < SIDE && !w->full; r++)
        for (size_t c = 0; c < SIDE && !w->full; c++) {
            size_t from = row * SIDE + r, to = column * SIDE + c;
            uint32_t *out = &cell[r * SIDE + c];
            if (from >= w->count[level - 1] || to >= w->count[level - 1])
                continue;
            if (level > 1)
                PASS(weave(w, level - 1, from, to, out));
            else if (from != to)
                *out = between(w, w->graph->vertex[from], w->graph->vertex[to]);
        }
    PASS(topology_map_square(w->builder, level - 1, cell, square));
    if (length > 0)
        w->square[number] = *square;
    return STATUS_OK;
}

/* Whether the tree is one piece and not too deep. */
static bool is_shallow(const struct route_graph *g)
{
    size_t roots = 0;
    for (size_t v = 0; v < g->vertices; v++) {
        roots += g->block[v] == ROUTE_NO_BLOCK;
        if (roots > 1 || g->depth[v] > MAX_DEPTH)
            return false;
    }
    return true;
}

/* Whether a search of each row is quicker: one block is large, and the zone is not. */
static enum status is_lump(const struct route_graph *g, size_t n, bool *out)
{
    size_t largest = 0, *members;
    PASS(ARRAY_NEW(members, g->blocks + 1));
    for (size_t v = 0; v < g->vertices; v++)
        if (g->block[v] != ROUTE_NO_BLOCK && ++members[g->block[v]] > largest)
            largest = members[g->block[v]];
    *out = largest > LUMP && n * g->edges <= (size_t)INT32_MAX;
    free(members);
    return STATUS_OK;
}

/* The squares, if they are few. */
static enum status map_squares(const struct flat_zone *zone, size_t n, struct values *w, bool *fits,
                               struct topology_map *out)
{
    enum status st = STATUS_OK;
    struct block_shapes shapes = {0};
    struct weaver v = {.graph = &zone->graph, .shapes = &shapes, .values = w, .n = n};
    unsigned levels = topology_map_levels(n);
    uint32_t top;
    *fits = n > 1 && is_shallow(&zone->graph);
    if (*fits)
        TRY(block_shapes_find(zone, n, w, fits, &shapes));
    if (!*fits)
        goto out;
    TRY(topology_map_begin(n, &v.builder));
    TRY(find_ranges(&v));
    TRY(weave(&v, levels, 0, 0, &top));
    *fits = !v.full;
    if (*fits)
        TRY(topology_map_finish(v.builder, out));
out:
    topology_map_builder_free(v.builder);
    for (unsigned l = 0; l < LEVELS; l++)
        free(v.range[l]);
    interner_free(&v.lists);
    interner_free(&v.squares);
    free(v.square);
    block_shapes_free(&shapes);
    return st;
}

/* ---- all rows, each searched for itself */

static enum status map_rows(const struct flat_zone *zone, size_t n, struct values *values,
                            bool *fits, struct topology_map *out)
{
    enum status st;
    const uint32_t *vertex = zone->graph.vertex;
    struct route_search search = {0};
    struct topology_map_builder *b = NULL;
    uint32_t *row = NULL;
    *fits = true;
    TRY(ARRAY_NEW(row, n));
    TRY(route_search_open(&zone->graph, &search));
    TRY(topology_map_begin(n, &b));
    for (size_t i = 0; i < n && *fits; i++) {
        route_search_begin(&search, vertex[i], ROUTE_NO_BLOCK);
        *fits = route_search_reach(&search, UINT32_MAX);
        const uint16_t *value = values_along(values, &search);
        for (size_t j = 0; j < n; j++) {
            *fits = *fits && value && search.far[vertex[j]] != UINT32_MAX;
            row[j] = *fits ? value[vertex[j]] : 0;
        }
        TRY(topology_map_row(b, row));
    }
    if (*fits)
        TRY(topology_map_finish(b, out));
out:
    topology_map_builder_free(b);
    route_search_free(&search);
    free(row);
    return st;
}

enum status regular_map(const struct flat_zone *zone, size_t n, struct values *w, bool *fits,
                        struct topology_map *out)
{
    bool squares = false, lump;
    PASS(is_lump(&zone->graph, n, &lump));
    if (!lump)
        PASS(map_squares(zone, n, w, &squares, out));
    *fits = true;
    return squares ? STATUS_OK : map_rows(zone, n, w, fits, out);
}
