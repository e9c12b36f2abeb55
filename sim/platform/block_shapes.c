/* Describes each block as a list of numbers, its vertices in the order of their numbers: blocks
 * with equal lists have equal ways, ties included, so only the first of them is searched. */
#include "sim/platform/block_shapes.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/intern.h"

enum { PLACE = 1, TOP = 2 }; /* of a vertex in a block's description */
/* Entries of all tables: 2 bytes each. */
static const size_t max_entries = (size_t)1 << 28;

/* What the finding works on. */
struct block_finder {
    const struct route_graph *graph;
    struct values *values;
    struct block_shapes *shapes;
    struct route_search search;
    size_t *start;    /* [blocks + 1] members without the top, */
    uint32_t *member; /* [vertices] by their number */
    bool *has_place;  /* [vertices] a device, or the top of a block */
    uint32_t *local;  /* [vertices] number among the members of the block at hand */
    size_t members, places;
    uint32_t *inside, *at; /* [members] of the block at hand; [places] those that have one */
    struct interner lists;
    size_t words, entries;
    uint32_t *word; /* [words] of the description */
};

/* Members by their blocks, and who has a place. */
static enum status list_members(struct block_finder *f, size_t devices)
{
    const struct route_graph *g = f->graph;
    PASS(ARRAY_NEW(f->start, g->blocks + 2));
    PASS(ARRAY_NEW(f->member, g->vertices));
    PASS(ARRAY_NEW(f->has_place, g->vertices));
    for (size_t v = 0; v < g->vertices; v++)
        if (g->block[v] != ROUTE_NO_BLOCK)
            f->start[g->block[v] + 2]++;
    for (size_t b = 0; b < g->blocks; b++)
        f->start[b + 2] += f->start[b + 1];
    for (uint32_t v = 0; v < g->vertices; v++)
        if (g->block[v] != ROUTE_NO_BLOCK)
            f->member[f->start[g->block[v] + 1]++] = v;
    for (size_t i = 0; i < devices; i++)
        f->has_place[g->vertex[i]] = true;
    for (size_t b = 0; b < g->blocks; b++)
        f->has_place[g->top[b]] = true;
    return STATUS_OK;
}

/* The members of a block with its top, by their numbers; places go to those that need one. */
static void block_shape_gather(struct block_finder *f, uint32_t block)
{
    const struct route_graph *g = f->graph;
    uint32_t top = g->top[block];
    bool waits = true; /* the top has not come yet */
    f->members = f->places = 0;
    for (size_t m = f->start[block]; m < f->start[block + 1] || waits;) {
        bool last = m == f->start[block + 1];
        uint32_t v = waits && (last || top < f->member[m]) ? top : f->member[m];
        waits = waits && v != top;
        m += v != top;
        f->local[v] = (uint32_t)f->members;
        f->inside[f->members++] = v;
        if (!f->has_place[v])
            continue;
        if (v != top)
            f->shapes->place[v] = (uint32_t)f->places;
        f->at[f->places++] = v;
    }
}

static enum status say(struct block_finder *f, uint32_t word)
{
    PASS(ARRAY_ROOM(f->word, f->words));
    f->word[f->words++] = word;
    return STATUS_OK;
}

/* The block as a list: each vertex's role, then its edges by where they go and their kind. */
static enum status block_shape_describe(struct block_finder *f, uint32_t block)
{
    const struct route_graph *g = f->graph;
    free(f->word);
    f->word = NULL;
    f->words = 0;
    for (size_t m = 0; m < f->members; m++) {
        uint32_t v = f->inside[m];
        PASS(say(f, (f->has_place[v] ? PLACE : 0) | (v == g->top[block] ? TOP : 0)));
        for (uint32_t e = route_graph_first(g, v, block);
             e < g->start[v + 1] && route_graph_block(g, v, g->to[e]) == block; e++) {
            PASS(say(f, f->local[g->to[e]] + 4)); /* no role is that large */
            PASS(say(f, values_kind(f->values, e)));
        }
    }
    return STATUS_OK;
}

/* The table of a block that looks like none before. */
static enum status search_block(struct block_finder *f, uint32_t block, bool *fits)
{
    struct block_shapes *s = f->shapes;
    f->entries += f->places * f->places;
    *fits = f->entries <= max_entries;
    if (!*fits)
        return STATUS_OK;
    PASS(ARRAY_ROOM(s->shape, s->n));
    struct block_shape *shape = &s->shape[s->n++];
    shape->places = f->places;
    PASS(ARRAY_NEW(shape->between, f->places * f->places));
    for (size_t i = 0; *fits && i < f->places; i++) {
        route_search_begin(&f->search, f->at[i], block);
        *fits = route_search_reach(&f->search, UINT32_MAX);
        const uint16_t *value = values_along(f->values, &f->search);
        for (size_t j = 0; j < f->places; j++) {
            *fits = *fits && value && f->search.far[f->at[j]] != UINT32_MAX;
            if (*fits)
                shape->between[i * f->places + j] = value[f->at[j]];
        }
    }
    return STATUS_OK;
}

/* One block: its shape, and its vertices' ways up and down. */
static enum status take_block(struct block_finder *f, uint32_t block, bool *fits)
{
    struct block_shapes *s = f->shapes;
    uint32_t top = 0;
    bool fresh;
    block_shape_gather(f, block);
    PASS(block_shape_describe(f, block));
    PASS(intern(&f->lists, f->word, f->words * sizeof *f->word, &s->of_block[block], &fresh));
    if (fresh)
        PASS(search_block(f, block, fits));
    if (!*fits)
        return STATUS_OK;
    const struct block_shape *shape = &s->shape[s->of_block[block]];
    while (f->at[top] != f->graph->top[block])
        top++;
    for (size_t i = 0; i < f->places; i++) {
        if (i == top)
            continue;
        s->up[f->at[i]] = shape->between[i * f->places + top];
        s->down[f->at[i]] = shape->between[top * f->places + i];
    }
    return STATUS_OK;
}

enum status block_shapes_find(const struct flat_zone *zone, size_t devices, struct values *w,
                              bool *fits, struct block_shapes *out)
{
    enum status st;
    const struct route_graph *g = &zone->graph;
    struct block_shapes shapes = {0};
    struct block_finder f = {.graph = g, .values = w, .shapes = &shapes};
    TRY(ARRAY_NEW(shapes.of_block, g->blocks));
    TRY(ARRAY_NEW(shapes.place, g->vertices));
    TRY(ARRAY_NEW(shapes.up, g->vertices));
    TRY(ARRAY_NEW(shapes.down, g->vertices));
    TRY(list_members(&f, devices));
    TRY(ARRAY_NEW(f.local, g->vertices));
    TRY(ARRAY_NEW(f.inside, g->vertices));
    TRY(ARRAY_NEW(f.at, g->vertices));
    TRY(route_search_open(g, &f.search));
    *fits = true;
    for (uint32_t b = 0; *fits && b < g->blocks; b++)
        TRY(take_block(&f, b, fits));
    if (*fits) {
        *out = shapes;
        shapes = (struct block_shapes){0};
    }
out:
    route_search_free(&f.search);
    interner_free(&f.lists);
    free(f.start);
    free(f.member);
    free(f.has_place);
    free(f.local);
    free(f.inside);
    free(f.at);
    free(f.word);
    block_shapes_free(&shapes);
    return st;
}

void block_shapes_free(struct block_shapes *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->shape[i].between);
    free(s->shape);
    free(s->of_block);
    free(s->place);
    free(s->up);
    free(s->down);
    *s = (struct block_shapes){0};
}
