/* Takes a graph apart: an op with one producer and one reader becomes an edge, and equal edges one. */

#include "core/array.h"
#include "partition/alike.h"

/* Neighbours of a vertex, no one twice. */
struct around {
    size_t n;
    uint32_t *at; /* [n] */
};

/* The ops, and behind them the two ends. */
struct reduction {
    struct arena memory;
    size_t n, waiting;
    struct around *in, *out; /* [n] */
    uint32_t *wait;          /* [waiting] vertices that may have become an edge */
};

static size_t position(const struct around *a, uint32_t vertex)
{
    size_t i = 0;
    while (i < a->n && a->at[i] != vertex)
        i++;
    return i;
}

static enum status join(struct reduction *r, uint32_t from, uint32_t to)
{
    PASS(ARENA_ROOM(&r->memory, r->out[from].at, r->out[from].n));
    PASS(ARENA_ROOM(&r->memory, r->in[to].at, r->in[to].n));
    r->out[from].at[r->out[from].n++] = to;
    r->in[to].at[r->in[to].n++] = from;
    return STATUS_OK;
}

/* `old` becomes `now`; where that is there already, the two are one. */
static void replace(struct around *a, uint32_t old, uint32_t now)
{
    size_t at = position(a, old);
    if (position(a, now) < a->n)
        a->at[at] = a->at[--a->n];
    else
        a->at[at] = now;
}

/* Every vertex waits at most once for each time that its neighbours change. */
static enum status wait_for(struct reduction *r, uint32_t vertex)
{
    if (vertex + 2 >= r->n || r->in[vertex].n != 1 || r->out[vertex].n != 1)
        return STATUS_OK;
    PASS(ARENA_ROOM(&r->memory, r->wait, r->waiting));
    r->wait[r->waiting++] = vertex;
    return STATUS_OK;
}

static enum status fill(struct reduction *r, const struct model *m)
{
    const uint32_t first = (uint32_t)m->n, last = first + 1;
    r->n = m->n + 2;
    PASS(ARENA_NEW(&r->memory, r->in, r->n));
    PASS(ARENA_NEW(&r->memory, r->out, r->n));
    for (uint32_t i = 0; i < m->n; i++) {
        for (size_t e = m->out_start[i]; e < m->out_start[i + 1]; e++)
            PASS(join(r, i, m->out[e]));
        if (m->in_start[i] == m->in_start[i + 1])
            PASS(join(r, first, i));
        if (m->out_start[i] == m->out_start[i + 1])
            PASS(join(r, i, last));
    }
    for (uint32_t i = 0; i < m->n; i++)
        PASS(wait_for(r, i));
    return STATUS_OK;
}

enum status model_series_parallel(const struct model *m, bool *out)
{
    enum status st;
    struct reduction r = {0};
    size_t left = m->n;
    TRY(fill(&r, m));
    while (r.waiting > 0) {
        uint32_t vertex = r.wait[--r.waiting];
        if (r.in[vertex].n != 1 || r.out[vertex].n != 1)
            continue; /* it waited twice */
        uint32_t from = r.in[vertex].at[0], to = r.out[vertex].at[0];
        replace(&r.out[from], vertex, to);
        replace(&r.in[to], vertex, from);
        r.in[vertex].n = r.out[vertex].n = 0;
        left--;
        TRY(wait_for(&r, from));
        TRY(wait_for(&r, to));
    }
    *out = left == 0;
out:
    arena_free(&r.memory);
    return st;
}
