/* Builds the ideals of a DAG level by level, every ideal growing by every node whose
 * predecessors it has, and walks over those below one. The ideals are down-sets; contiguous
 * stages are differences of two of them, so a dynamic program over pairs of ideals sees every
 * contiguous stage: Tarnawski et al., NeurIPS 2020 and NeurIPS 2021, and the same holds for
 * PiPPy's program. */
#include "papers/common/lattice.h"

#include <stdlib.h>
#include <string.h>

#include "core/data/edges.h"

void lattice_free(struct lattice *l)
{
    interner_free(&l->sets);
    arena_free(&l->memory);
    *l = (struct lattice){0};
}

bool lattice_has(const struct lattice *l, size_t ideal, size_t node)
{
    return set_has(l->set + ideal * l->words, node);
}

/* ---- the ideals: all of one size before the next */

/* Ideal `upper` is ideal `below` with `node` added. */
struct lattice_pair {
    uint32_t upper, below, node;
};

struct lattice_builder {
    struct lattice l;
    size_t limit, pairs;
    size_t *start;    /* [nodes + 2] what a node needs in the ideal: its predecessors, */
    uint32_t *before; /* [edges] CSR */
    uint64_t *fresh;  /* [words] scratch */
    struct lattice_pair *pair;
    struct arena memory;
};

/* The empty ideal, and what each node needs: its predecessors, or with `successors` the nodes
 * that it feeds, which makes the ideals those of the reversed graph. */
static enum status lattice_open_builder(struct lattice_builder *b, const struct model_edge *edge,
                                        size_t edges, bool successors)
{
    struct lattice *l = &b->l;
    uint32_t empty;
    PASS(ARENA_NEW(&b->memory, b->start, l->nodes + 2));
    PASS(ARENA_NEW(&b->memory, b->before, edges));
    PASS(ARENA_NEW(&b->memory, b->fresh, l->words));
    edges_list(l->nodes, edge, edges, successors ? EDGES_BY_TAIL : EDGES_BY_HEAD, b->start,
               b->before);
    return intern(&l->sets, b->fresh, l->sets.size, &empty, NULL);
}

/* Can `ideal` grow by v? */
static bool grows_by(const struct lattice_builder *b, const uint64_t *ideal, size_t v)
{
    if (set_has(ideal, v))
        return false;
    for (size_t k = b->start[v]; k < b->start[v + 1]; k++)
        if (!set_has(ideal, b->before[k]))
            return false;
    return true;
}

/* The ideal `base` with `node` added, which several bases may lead to: intern() finds it
 * again. The pair is kept in any case, as an arc of the Hasse diagram. */
static enum status add_ideal(struct lattice_builder *b, size_t base, size_t node)
{
    struct lattice *l = &b->l;
    struct lattice_pair p = {.below = (uint32_t)base, .node = (uint32_t)node};
    memcpy(b->fresh, (const uint64_t *)l->sets.data + base * l->words, l->sets.size);
    set_add(b->fresh, node);
    PASS(intern(&l->sets, b->fresh, l->sets.size, &p.upper, NULL));
    PASS(ARRAY_ROOM(b->pair, b->pairs));
    b->pair[b->pairs++] = p;
    return STATUS_OK;
}

/* Ideals are found in the order of their sizes, as a queue of them is worked off. */
static enum status lattice_expand(struct lattice_builder *b)
{
    struct lattice *l = &b->l;
    for (size_t i = 0; i < l->sets.n && l->sets.n <= b->limit; i++)
        for (size_t v = 0; v < l->nodes; v++)
            if (grows_by(b, (const uint64_t *)l->sets.data + i * l->words, v))
                PASS(add_ideal(b, i, v));
    return STATUS_OK;
}

/* Sort the pairs by their larger ideal into CSR. */
static enum status sort_pairs(struct lattice_builder *b)
{
    struct lattice *l = &b->l;
    PASS(ARENA_NEW(&l->memory, l->below_start, l->ideals + 2));
    PASS(ARENA_NEW(&l->memory, l->below, b->pairs));
    PASS(ARENA_NEW(&l->memory, l->node, b->pairs));
    for (size_t i = 0; i < b->pairs; i++)
        l->below_start[b->pair[i].upper + 2]++;
    for (size_t i = 0; i < l->ideals; i++)
        l->below_start[i + 2] += l->below_start[i + 1];
    for (size_t i = 0; i < b->pairs; i++) {
        size_t at = l->below_start[b->pair[i].upper + 1]++;
        l->below[at] = b->pair[i].below;
        l->node[at] = b->pair[i].node;
    }
    return STATUS_OK;
}

/* The last ideal lacks a node exactly if that node waits for itself: then the graph has a
 * cycle. */
enum status lattice_build(size_t nodes, const struct model_edge *edge, size_t edges,
                          bool successors, size_t limit, struct lattice *out, bool *complete)
{
    enum status st;
    size_t words = nodes / 64 + 1;
    struct lattice_builder b = {
        .l = {.nodes = nodes, .words = words, .sets = {.size = words * sizeof(uint64_t)}},
        .limit = limit};
    TRY(lattice_open_builder(&b, edge, edges, successors));
    TRY(lattice_expand(&b));
    b.l.ideals = b.l.sets.n;
    b.l.set = b.l.sets.data;
    *complete = b.l.ideals <= limit;
    if (!*complete)
        goto out;
    for (size_t v = 0; v < nodes; v++)
        if (!lattice_has(&b.l, b.l.ideals - 1, v))
            FAIL(STATUS_INVALID, "the graph has a cycle");
    TRY(sort_pairs(&b));
    MOVE(out, b.l);
out:
    lattice_free(&b.l);
    free(b.pair);
    arena_free(&b.memory);
    return st;
}

/* ---- walking */

enum status lattice_walk_open(const struct lattice *l, struct lattice_walk *w)
{
    *w = (struct lattice_walk){.l = l};
    PASS(ARENA_NEW(&w->memory, w->stamp, l->ideals));
    PASS(ARENA_NEW(&w->memory, w->via, l->ideals));
    PASS(ARENA_NEW(&w->memory, w->node, l->ideals));
    return ARENA_NEW(&w->memory, w->stack, l->ideals);
}

void lattice_walk_close(struct lattice_walk *w)
{
    arena_free(&w->memory);
    *w = (struct lattice_walk){0};
}

/* Put the ideals one node below `ideal` on the stack, unless this walk has seen them. The
 * ideal from which one is reached first is remembered with the node that lies between: sums
 * over a stage are then updated by that node alone. */
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
