#include "model/components.h"

#include <stdlib.h>

struct walk {
    size_t *start; /* [n + 2] CSR of heads */
    uint32_t *head;
    size_t *next;     /* [n] arc to look at next */
    uint32_t *number; /* [n] order of discovery from 1 on; 0: not yet */
    uint32_t *low;    /* [n] least number known to be reachable within the open component */
    uint32_t *path;   /* [n] nodes being visited */
    uint32_t *open;   /* [n] nodes whose component is not known yet */
    size_t path_n, open_n;
    uint32_t numbers;
};

static void walk_free(struct walk *w)
{
    free(w->start);
    free(w->head);
    free(w->next);
    free(w->number);
    free(w->low);
    free(w->path);
    free(w->open);
}

static enum status walk_open(size_t n, const struct model_edge *arc, size_t arcs, struct walk *w)
{
    w->start = calloc(n + 2, sizeof *w->start);
    w->head = calloc(arcs + 1, sizeof *w->head);
    w->next = calloc(n + 1, sizeof *w->next);
    w->number = calloc(n + 1, sizeof *w->number);
    w->low = calloc(n + 1, sizeof *w->low);
    w->path = calloc(n + 1, sizeof *w->path);
    w->open = calloc(n + 1, sizeof *w->open);
    if (!w->start || !w->head || !w->next || !w->number || !w->low || !w->path || !w->open)
        return error_set(STATUS_NOMEM, "%zu nodes", n);
    for (size_t e = 0; e < arcs; e++)
        w->start[arc[e].from + 2]++;
    for (size_t v = 0; v < n; v++)
        w->start[v + 2] += w->start[v + 1];
    for (size_t e = 0; e < arcs; e++)
        w->head[w->start[arc[e].from + 1]++] = arc[e].to;
    return STATUS_OK;
}

static void enter(struct walk *w, uint32_t v)
{
    w->number[v] = w->low[v] = ++w->numbers;
    w->next[v] = w->start[v];
    w->path[w->path_n++] = v;
    w->open[w->open_n++] = v;
}

/* All arcs of v are done: close its component if v is its first node, and go back. */
static void leave(struct walk *w, uint32_t v, uint32_t *component, size_t *count)
{
    if (w->low[v] == w->number[v]) {
        uint32_t u;
        do {
            u = w->open[--w->open_n];
            component[u] = (uint32_t)*count;
            w->number[u] = UINT32_MAX; /* closed: larger than every open number */
        } while (u != v);
        (*count)++;
    }
    if (--w->path_n > 0) {
        uint32_t parent = w->path[w->path_n - 1];
        if (w->low[v] < w->low[parent] && w->number[v] != UINT32_MAX)
            w->low[parent] = w->low[v];
    }
}

enum status components_find(size_t n, const struct model_edge *arc, size_t arcs,
                            uint32_t *component, size_t *count)
{
    enum status st;
    struct walk w = {0};
    *count = 0;
    TRY(walk_open(n, arc, arcs, &w));
    for (uint32_t root = 0; root < n; root++) {
        if (w.number[root])
            continue;
        enter(&w, root);
        while (w.path_n > 0) {
            uint32_t v = w.path[w.path_n - 1];
            if (w.next[v] == w.start[v + 1]) {
                leave(&w, v, component, count);
                continue;
            }
            uint32_t u = w.head[w.next[v]++];
            if (!w.number[u])
                enter(&w, u);
            else if (w.number[u] < w.low[v]) /* open, so on a cycle with v */
                w.low[v] = w.number[u];
        }
    }
out:
    walk_free(&w);
    return st;
}
