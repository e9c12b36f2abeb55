#include "partition/published/lattice.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

void lattice_free(struct lattice *l)
{
    free(l->set);
    free(l->below_start);
    free(l->below);
    free(l->node);
    *l = (struct lattice){0};
}

bool lattice_has(const struct lattice *l, size_t ideal, size_t node)
{
    return l->set[ideal * l->words + node / 64] >> (node % 64) & 1;
}

/* ---- the graph as predecessor masks and successor lists */

struct graph {
    size_t nodes, words;
    uint64_t *before; /* [nodes * words] direct predecessors */
    size_t *start;    /* [nodes + 1] */
    uint32_t *after;  /* direct successors */
};

static void graph_free(struct graph *g)
{
    free(g->before);
    free(g->start);
    free(g->after);
}

static enum status graph_build(size_t nodes, const struct lattice_arc *arc, size_t arcs,
                               bool reversed, struct graph *g)
{
    g->nodes = nodes;
    g->words = nodes / 64 + 1;
    PASS(ARRAY_NEW(g->before, nodes * g->words));
    PASS(ARRAY_NEW(g->start, nodes + 2));
    PASS(ARRAY_NEW(g->after, arcs + 1));
    for (size_t i = 0; i < arcs; i++) {
        uint32_t from = reversed ? arc[i].to : arc[i].from, to = reversed ? arc[i].from : arc[i].to;
        g->before[to * g->words + from / 64] |= UINT64_C(1) << (from % 64);
        g->start[from + 2]++;
    }
    for (size_t v = 0; v < nodes; v++)
        g->start[v + 2] += g->start[v + 1];
    for (size_t i = 0; i < arcs; i++) {
        uint32_t from = reversed ? arc[i].to : arc[i].from, to = reversed ? arc[i].from : arc[i].to;
        g->after[g->start[from + 1]++] = to;
    }
    return STATUS_OK;
}

/* ---- the ideals, level by level: all of one size before the next */

struct builder {
    struct lattice l;
    size_t room, pairs, pair_room, slots, limit;
    uint32_t *slot;  /* [slots] open addressing: ideal + 1, 0 empty */
    uint32_t *upper; /* [pairs] larger ideal of the pair; l.below and l.node beside it */
};

static size_t hash(const uint64_t *set, size_t words)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < words; i++) {
        h = (h ^ set[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return (size_t)h;
}

static enum status reserve_pair(struct builder *b)
{
    if (b->pairs < b->pair_room)
        return STATUS_OK;
    size_t room = b->pair_room ? b->pair_room * 2 : 256;
    uint32_t **array[] = {&b->upper, &b->l.below, &b->l.node};
    for (size_t i = 0; i < sizeof array / sizeof *array; i++) {
        uint32_t *larger = realloc(*array[i], room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu pairs of ideals", room);
        *array[i] = larger;
    }
    b->pair_room = room;
    return STATUS_OK;
}

static void rehash(struct builder *b)
{
    const struct lattice *l = &b->l;
    memset(b->slot, 0, b->slots * sizeof *b->slot);
    for (size_t i = 0; i < l->ideals; i++) {
        size_t at = hash(l->set + i * l->words, l->words) & (b->slots - 1);
        while (b->slot[at])
            at = (at + 1) & (b->slots - 1);
        b->slot[at] = (uint32_t)i + 1;
    }
}

/* Room for one more ideal; the table of slots stays at most half full. */
static enum status reserve_ideal(struct builder *b)
{
    struct lattice *l = &b->l;
    if (l->ideals < b->room)
        return STATUS_OK;
    size_t room = b->room * 2, slots = b->slots;
    while (slots < 2 * room)
        slots *= 2;
    uint64_t *set = realloc(l->set, room * l->words * sizeof *set);
    if (set)
        l->set = set;
    uint32_t *slot = realloc(b->slot, slots * sizeof *slot);
    if (slot)
        b->slot = slot;
    if (!set || !slot)
        return error_set(STATUS_NOMEM, "%zu ideals of %zu nodes", room, l->nodes);
    b->room = room;
    b->slots = slots;
    rehash(b);
    return STATUS_OK;
}

/* The ideal `base` with `node` added: an old one or a new one. */
static enum status add_ideal(struct builder *b, size_t base, size_t node)
{
    enum status st = STATUS_OK;
    struct lattice *l = &b->l;
    TRY(reserve_ideal(b));
    TRY(reserve_pair(b));
    uint64_t *fresh = l->set + l->ideals * l->words;
    memcpy(fresh, l->set + base * l->words, l->words * sizeof *fresh);
    fresh[node / 64] |= UINT64_C(1) << (node % 64);
    size_t at = hash(fresh, l->words) & (b->slots - 1);
    while (b->slot[at] &&
           memcmp(l->set + (b->slot[at] - 1) * l->words, fresh, l->words * sizeof *fresh) != 0)
        at = (at + 1) & (b->slots - 1);
    if (!b->slot[at])
        b->slot[at] = (uint32_t)++l->ideals;
    b->upper[b->pairs] = b->slot[at] - 1;
    l->below[b->pairs] = (uint32_t)base;
    l->node[b->pairs++] = (uint32_t)node;
out:
    return st;
}

static bool contains(const uint64_t *set, const uint64_t *part, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (part[i] & ~set[i])
            return false;
    return true;
}

static enum status expand(struct builder *b, const struct graph *g)
{
    enum status st = STATUS_OK;
    struct lattice *l = &b->l;
    for (size_t i = 0; i < l->ideals && l->ideals <= b->limit; i++)
        for (size_t v = 0; v < l->nodes; v++)
            if (!lattice_has(l, i, v) &&
                contains(l->set + i * l->words, g->before + v * l->words, l->words))
                TRY(add_ideal(b, i, v));
out:
    return st;
}

/* Sort the pairs by their larger ideal into CSR. */
static enum status sort_pairs(struct builder *b)
{
    struct lattice *l = &b->l;
    size_t *start = calloc(l->ideals + 2, sizeof *start);
    uint32_t *below = malloc((b->pairs + 1) * sizeof *below);
    uint32_t *node = malloc((b->pairs + 1) * sizeof *node);
    if (!start || !below || !node) {
        free(start);
        free(below);
        free(node);
        return error_set(STATUS_NOMEM, "%zu ideals", l->ideals);
    }
    for (size_t i = 0; i < b->pairs; i++)
        start[b->upper[i] + 2]++;
    for (size_t i = 0; i < l->ideals; i++)
        start[i + 2] += start[i + 1];
    for (size_t i = 0; i < b->pairs; i++) {
        size_t at = start[b->upper[i] + 1]++;
        below[at] = l->below[i];
        node[at] = l->node[i];
    }
    free(l->below);
    free(l->node);
    l->below_start = start;
    l->below = below;
    l->node = node;
    return STATUS_OK;
}

enum status lattice_build(size_t nodes, const struct lattice_arc *arc, size_t arcs, bool successors,
                          size_t limit, struct lattice *out, bool *complete)
{
    enum status st;
    struct graph g = {0};
    struct builder b = {.l = {.nodes = nodes, .words = nodes / 64 + 1, .ideals = 1},
                        .room = 64,
                        .slots = 256,
                        .limit = limit};
    TRY(graph_build(nodes, arc, arcs, successors, &g));
    TRY(ARRAY_NEW(b.l.set, b.room * b.l.words));
    TRY(ARRAY_NEW(b.slot, b.slots));
    rehash(&b);
    TRY(expand(&b, &g));
    *complete = b.l.ideals <= limit;
    if (!*complete)
        goto out;
    for (size_t v = 0; v < nodes; v++)
        if (!lattice_has(&b.l, b.l.ideals - 1, v)) {
            st = error_set(STATUS_INVALID, "the graph has a cycle");
            goto out;
        }
    TRY(sort_pairs(&b));
    *out = b.l;
    b.l = (struct lattice){0};
out:
    lattice_free(&b.l);
    free(b.slot);
    free(b.upper);
    graph_free(&g);
    return st;
}

enum status lattice_order(size_t nodes, const struct lattice_arc *arc, size_t arcs, uint32_t *order,
                          uint32_t *cyclic)
{
    enum status st = STATUS_OK;
    size_t *start = calloc(nodes + 2, sizeof *start), done = 0;
    uint32_t *after = calloc(arcs + 1, sizeof *after), *waits = calloc(nodes + 1, sizeof *waits);
    if (!start || !after || !waits) {
        st = error_set(STATUS_NOMEM, "order of %zu nodes", nodes);
        goto out;
    }
    for (size_t i = 0; i < arcs; i++) {
        start[arc[i].from + 2]++;
        waits[arc[i].to]++;
    }
    for (size_t v = 0; v < nodes; v++)
        start[v + 2] += start[v + 1];
    for (size_t i = 0; i < arcs; i++)
        after[start[arc[i].from + 1]++] = arc[i].to;
    /* Depth first from a stack that is the tail of `order`: branches stay together. */
    size_t top = nodes;
    for (size_t v = nodes; v-- > 0;)
        if (!waits[v])
            order[--top] = (uint32_t)v;
    while (top < nodes) {
        uint32_t v = order[top++];
        order[done++] = v;
        for (size_t i = start[v + 1]; i-- > start[v];)
            if (--waits[after[i]] == 0)
                order[--top] = after[i];
    }
    *cyclic = (uint32_t)nodes;
    for (size_t v = 0; done < nodes && v < nodes; v++)
        if (waits[v]) {
            *cyclic = (uint32_t)v;
            break;
        }
out:
    free(start);
    free(after);
    free(waits);
    return st;
}

/* ---- walking */

enum status lattice_walk_open(const struct lattice *l, struct lattice_walk *out)
{
    struct lattice_walk w = {.l = l};
    w.stamp = calloc(l->ideals, sizeof *w.stamp);
    w.via = calloc(l->ideals, sizeof *w.via);
    w.node = calloc(l->ideals, sizeof *w.node);
    w.stack = calloc(l->ideals, sizeof *w.stack);
    if (!w.stamp || !w.via || !w.node || !w.stack) {
        lattice_walk_close(&w);
        return error_set(STATUS_NOMEM, "walk over %zu ideals", l->ideals);
    }
    *out = w;
    return STATUS_OK;
}

void lattice_walk_close(struct lattice_walk *w)
{
    free(w->stamp);
    free(w->via);
    free(w->node);
    free(w->stack);
    *w = (struct lattice_walk){0};
}

void lattice_descend(struct lattice_walk *w, uint32_t ideal)
{
    const struct lattice *l = w->l;
    for (size_t i = l->below_start[ideal]; i < l->below_start[ideal + 1]; i++) {
        uint32_t sub = l->below[i];
        if (w->stamp[sub] == w->round)
            continue;
        w->stamp[sub] = w->round;
        w->via[sub] = ideal;
        w->node[sub] = l->node[i];
        w->stack[w->height++] = sub;
    }
}

void lattice_begin(struct lattice_walk *w, uint32_t top)
{
    if (++w->round == 0) { /* stamps of 2^32 walks ago */
        memset(w->stamp, 0, w->l->ideals * sizeof *w->stamp);
        w->round = 1;
    }
    w->height = 0;
    lattice_descend(w, top);
}

bool lattice_next(struct lattice_walk *w, uint32_t *ideal)
{
    if (!w->height)
        return false;
    *ideal = w->stack[--w->height];
    return true;
}
