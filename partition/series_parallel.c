/* Takes a graph apart: an op with one producer and one reader becomes an edge, and equal edges
 * one. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "partition/alike.h"

/* How many neighbours a vertex has on a side, and all their numbers in one exclusive or: of a
 * single one its own. */
struct around {
    size_t n;
    uint32_t all;
};

/* The ops, and behind them the two ends. */
struct reduction {
    struct arena memory;
    size_t n, waiting;
    struct around *in, *out; /* [n] */
    struct interner edges;   /* pairs of vertices, also those that have gone */
    uint32_t *wait;          /* [waiting] vertices that may have become an edge */
};

static void neighbours_toggle(struct around *a, uint32_t vertex, size_t n)
{
    a->n = n;
    a->all ^= vertex;
}

static enum status series_parallel_add_edge(struct reduction *r, uint32_t from, uint32_t to)
{
    const uint32_t pair[2] = {from, to};
    uint32_t number;
    bool fresh;
    PASS(intern(&r->edges, pair, sizeof pair, &number, &fresh));
    if (fresh) {
        neighbours_toggle(&r->out[from], to, r->out[from].n + 1);
        neighbours_toggle(&r->in[to], from, r->in[to].n + 1);
    }
    return STATUS_OK;
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

static enum status series_parallel_fill(struct reduction *r, const struct model *m)
{
    const uint32_t first = (uint32_t)m->n, last = first + 1;
    r->n = m->n + 2;
    PASS(ARENA_NEW(&r->memory, r->in, r->n));
    PASS(ARENA_NEW(&r->memory, r->out, r->n));
    for (uint32_t i = 0; i < m->n; i++) {
        for (size_t e = m->out_start[i]; e < m->out_start[i + 1]; e++)
            PASS(series_parallel_add_edge(r, i, m->out[e]));
        if (m->in_start[i] == m->in_start[i + 1])
            PASS(series_parallel_add_edge(r, first, i));
        if (m->out_start[i] == m->out_start[i + 1])
            PASS(series_parallel_add_edge(r, i, last));
    }
    for (uint32_t i = 0; i < m->n; i++)
        PASS(wait_for(r, i));
    return STATUS_OK;
}

/* A vertex between two others goes, and an edge joins these; where one does already, it stays the
 * only one. */
static enum status take_out(struct reduction *r, uint32_t vertex)
{
    uint32_t from = r->in[vertex].all, to = r->out[vertex].all;
    PASS(series_parallel_add_edge(r, from, to));
    neighbours_toggle(&r->out[from], vertex, r->out[from].n - 1);
    neighbours_toggle(&r->in[to], vertex, r->in[to].n - 1);
    r->in[vertex].n = r->out[vertex].n = 0;
    PASS(wait_for(r, from));
    return wait_for(r, to);
}

enum status model_series_parallel(const struct model *m, bool *out)
{
    enum status st;
    struct reduction r = {.edges.size = sizeof(uint32_t[2])};
    size_t left = m->n;
    TRY(series_parallel_fill(&r, m));
    while (r.waiting > 0) {
        uint32_t vertex = r.wait[--r.waiting];
        if (r.in[vertex].n != 1 || r.out[vertex].n != 1)
            continue; /* it waited twice */
        TRY(take_out(&r, vertex));
        left--;
    }
    *out = left == 0;
out:
    interner_free(&r.edges);
    arena_free(&r.memory);
    return st;
}
