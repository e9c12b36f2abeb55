/* All ideals of a partial order by a depth-first walk that tells ideals by their fronts (units
 * whose predecessors are all inside), and the prefixes of one topological order.
 *
 * missing[v] counts predecessors of v outside the current ideal; adding a unit lowers it for
 * the successors, and those that reach 0 enter the front. An ideal found before is not entered
 * again. At the end ideals are numbered by size, so that each comes after those below it. */
#include "papers/placement/family.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/intern.h"

enum { MAX_WIDTH = 20 };
_Static_assert(FAMILY_LIMIT < 1 << (MAX_WIDTH - 1), "a wider front has more ideals than the limit");

struct family_walk {
    const struct placement_graph *g;
    size_t limit;
    uint32_t *missing; /* [units] predecessors that are not in the current ideal */
    /* An ideal is told by how many units it holds, and its front, the units that may be added next:
     * an antichain. k units in the front make 2^k ideals, so fronts are short wherever the family
     * is within its limit. */
    struct interner ideals; /* numbers: units, then the front, ascending */
    uint32_t *child;        /* beside each number of a front: the ideal with that unit added */
    size_t room;            /* of child */
    struct step {
        uint32_t ideal, next;
    } * path; /* [units + 1] */
    size_t depth;
    uint32_t scratch[MAX_WIDTH + 1]; /* the record of an ideal */
    size_t width;                    /* of its front */
    bool wide;                       /* the limit is passed */
    struct arena memory;
};

/* An ideal as it is kept, until the next one comes. */
struct ideal {
    size_t at;    /* of its record, in numbers: there its units, behind it the front */
    size_t width; /* of the front */
    const uint32_t *units, *front;
};

static struct ideal ideal_of(const struct family_walk *w, size_t i)
{
    size_t at = interned_at(&w->ideals, i) / sizeof(uint32_t),
           end = interned_at(&w->ideals, i + 1) / sizeof(uint32_t);
    const uint32_t *record = (const uint32_t *)w->ideals.data + at;
    return (struct ideal){at, end - at - 1, record, record + 1};
}

/* The ideal of so many units whose front is in scratch; *fresh if it was not known. */
static enum status ideal_family_number_of(struct family_walk *w, uint32_t units, uint32_t *out,
                                          bool *fresh)
{
    w->scratch[0] = units;
    PASS(intern(&w->ideals, w->scratch, (w->width + 1) * sizeof *w->scratch, out, fresh));
    w->wide = w->wide || w->ideals.n > w->limit;
    return ARRAY_RESERVE(w->child, interned_at(&w->ideals, w->ideals.n) / sizeof *w->child,
                         w->room);
}

/* Keep the front sorted: it is the key of the ideal. */
static void ideal_family_insert(struct family_walk *w, uint32_t unit)
{
    if (w->width == MAX_WIDTH) {
        w->wide = true;
        return;
    }
    size_t i = ++w->width;
    for (; i > 1 && w->scratch[i - 1] > unit; i--)
        w->scratch[i] = w->scratch[i - 1];
    w->scratch[i] = unit;
}

/* Add unit x to the current ideal `from`: scratch becomes the new front. */
static void ideal_family_advance(struct family_walk *w, const struct ideal *from, uint32_t x)
{
    const struct placement_graph *g = w->g;
    w->width = 0;
    for (size_t i = 0; i < from->width; i++)
        if (from->front[i] != x)
            w->scratch[++w->width] = from->front[i];
    for (size_t i = g->succ_start[x]; i < g->succ_start[x + 1]; i++)
        if (--w->missing[g->succ[i]] == 0)
            ideal_family_insert(w, g->succ[i]);
}

static void retreat(struct family_walk *w, uint32_t x)
{
    for (size_t i = w->g->succ_start[x]; i < w->g->succ_start[x + 1]; i++)
        w->missing[w->g->succ[i]]++;
}

/* path[] is the stack of the walk; on the way back `missing` is restored. */
static enum status explore(struct family_walk *w)
{
    uint32_t at;
    bool fresh;
    for (uint32_t v = 0; v < w->g->n; v++) {
        w->missing[v] = (uint32_t)(w->g->pred_start[v + 1] - w->g->pred_start[v]);
        if (w->missing[v] == 0)
            ideal_family_insert(w, v);
    }
    PASS(ideal_family_number_of(w, 0, &at, &fresh));
    w->path[w->depth++] = (struct step){at, 0};
    while (w->depth > 0 && !w->wide) {
        struct step *s = &w->path[w->depth - 1];
        const struct ideal from = ideal_of(w, s->ideal);
        if (s->next == from.width) {
            w->depth--;
            if (w->depth > 0) {
                const struct step *up = &w->path[w->depth - 1];
                retreat(w, ideal_of(w, up->ideal).front[up->next - 1]);
            }
            continue;
        }
        uint32_t slot = s->next++, x = from.front[slot];
        ideal_family_advance(w, &from, x);
        PASS(ideal_family_number_of(w, *from.units + 1, &at, &fresh));
        w->child[from.at + 1 + slot] = at;
        if (fresh)
            w->path[w->depth++] = (struct step){at, 0};
        else
            retreat(w, x);
    }
    return STATUS_OK;
}

static enum status ideal_family_allocate(size_t ideals, size_t arcs, struct placement_family *f)
{
    *f = (struct placement_family){.n = ideals};
    PASS(ARENA_NEW(&f->memory, f->down_start, ideals + 2));
    PASS(ARENA_NEW(&f->memory, f->down, arcs + 1));
    PASS(ARENA_NEW(&f->memory, f->without, arcs + 1));
    return STATUS_OK;
}

/* Sort by number of units and turn the arcs round. */
static enum status ideal_family_finish(struct family_walk *w, struct placement_family *f)
{
    size_t n = w->ideals.n, *level;
    uint32_t *number;
    PASS(ARENA_NEW(&w->memory, number, n));
    PASS(ARENA_NEW(&w->memory, level, w->g->n + 2));
    PASS(ideal_family_allocate(n, interned_at(&w->ideals, n) / sizeof *w->child - n, f));
    for (size_t i = 0; i < n; i++)
        level[*ideal_of(w, i).units + 1]++;
    for (size_t k = 0; k <= w->g->n; k++)
        level[k + 1] += level[k];
    for (size_t i = 0; i < n; i++) {
        const struct ideal x = ideal_of(w, i);
        number[i] = (uint32_t)level[*x.units]++;
    }
    for (size_t i = 0; i < n; i++) {
        const struct ideal x = ideal_of(w, i);
        for (size_t k = 0; k < x.width; k++)
            f->down_start[number[w->child[x.at + 1 + k]] + 2]++;
    }
    for (size_t i = 0; i < f->n; i++)
        f->down_start[i + 2] += f->down_start[i + 1];
    for (size_t i = 0; i < n; i++) {
        const struct ideal x = ideal_of(w, i);
        for (size_t k = 0; k < x.width; k++) {
            size_t at = f->down_start[number[w->child[x.at + 1 + k]] + 1]++;
            f->down[at] = number[i];
            f->without[at] = x.front[k];
        }
    }
    return STATUS_OK;
}

/* FAMILY_LIMIT bounds the width of fronts, too: k units in one make 2^k ideals. */
enum status placement_family_all(const struct placement_graph *g, size_t limit, bool *complete,
                                 struct placement_family *out)
{
    enum status st;
    struct family_walk w = {.g = g, .limit = limit < FAMILY_LIMIT ? limit : FAMILY_LIMIT};
    TRY(ARENA_NEW(&w.memory, w.missing, g->n));
    TRY(ARENA_NEW(&w.memory, w.path, g->n + 2));
    TRY(explore(&w));
    if (!w.wide)
        TRY(ideal_family_finish(&w, out));
    *complete = !w.wide;
out:
    arena_free(&w.memory);
    interner_free(&w.ideals);
    free(w.child);
    return st;
}

enum status placement_family_chain(const struct placement_graph *g, bool depth_first, bool backward,
                                   struct placement_family *f)
{
    const size_t *waits = backward ? g->succ_start : g->pred_start;
    const size_t *start = backward ? g->pred_start : g->succ_start;
    const uint32_t *next = backward ? g->pred : g->succ;
    size_t done = 0, ready = 0;
    uint32_t *missing, *queue;
    PASS(ideal_family_allocate(g->n + 1, g->n, f));
    PASS(ARENA_NEW(&f->memory, missing, g->n));
    PASS(ARENA_NEW(&f->memory, queue, g->n));
    for (uint32_t v = 0; v < g->n; v++) {
        missing[v] = (uint32_t)(waits[v + 1] - waits[v]);
        if (missing[v] == 0)
            queue[ready++] = v;
    }
    for (; done < g->n; done++) {
        /* Breadth first takes the oldest of those that are ready; depth first the newest, and
         * queue[] is a stack without history. */
        uint32_t v = depth_first ? queue[--ready] : queue[done];
        f->down[done] = (uint32_t)done;
        f->without[backward ? g->n - 1 - done : done] = v;
        f->down_start[done + 2] = done + 1;
        for (size_t i = start[v]; i < start[v + 1]; i++)
            if (--missing[next[i]] == 0)
                queue[ready++] = next[i];
    }
    return STATUS_OK;
}

void placement_family_free(struct placement_family *f)
{
    arena_free(&f->memory);
    *f = (struct placement_family){0};
}
