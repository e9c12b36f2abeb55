/* CSR lists, topological order and strongly connected components of lists of edges. */
#include "core/data/edges.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* Counting sort by the node that the edges are grouped by; start[] is kept one entry ahead while
 * the lists fill, so that start[v + 1] ends where the next edge of v goes. */
void edges_list(size_t n, const struct model_edge *edge, size_t edges, int how, size_t *start,
                uint32_t *list)
{
    bool by_head = how & EDGES_BY_HEAD;
    memset(start, 0, (n + 2) * sizeof *start);
    for (size_t e = 0; e < edges; e++)
        start[(by_head ? edge[e].to : edge[e].from) + 2]++;
    for (size_t v = 0; v < n; v++)
        start[v + 2] += start[v + 1];
    for (size_t e = 0; e < edges; e++) {
        uint32_t node = by_head ? edge[e].to : edge[e].from;
        uint32_t other = by_head ? edge[e].from : edge[e].to;
        list[start[node + 1]++] = how & EDGES_NUMBERS ? (uint32_t)e : other;
    }
}

int edges_compare(const void *a, const void *b)
{
    const struct model_edge *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

/* ---- order */

/* An edge of a cycle among the nodes that no order can place, those with waiting[v] > 0: each has a
 * producer among them, so n steps backwards along via[v], an edge to v from such a node, end on a
 * cycle. */
static size_t find_cycle(size_t n, const struct model_edge *edge, size_t edges,
                         const size_t *waiting, size_t *via)
{
    size_t at = 0;
    for (size_t e = 0; e < edges; e++)
        if (waiting[edge[e].from] > 0 && waiting[edge[e].to] > 0)
            via[edge[e].to] = e;
    while (waiting[at] == 0)
        at++;
    for (size_t step = 0; step < n; step++)
        at = edge[via[at]].from;
    return via[at];
}

/* Steps: (1) count the producers of every node; (2) put those without any on a stack, the lowest
 * on top; (3) take the top, place it, and push the consumers that waited for nothing else; (4)
 * nodes that were never taken lie on or behind a cycle. */
enum status edges_order(size_t n, const struct model_edge *edge, size_t edges, uint32_t *position,
                        size_t *cyclic)
{
    enum status st;
    size_t *waiting = NULL, *start = NULL, depth = 0,
           placed = 0; /* waiting for so many producers */
    uint32_t *consumer = NULL, *stack = NULL;
    TRY(ARRAY_NEW(waiting, n));
    TRY(ARRAY_NEW(start, n + 2));
    TRY(ARRAY_NEW(consumer, edges));
    TRY(ARRAY_NEW(stack, n));
    edges_list(n, edge, edges, EDGES_BY_TAIL, start, consumer);
    for (size_t e = 0; e < edges; e++)
        waiting[edge[e].to]++;
    for (size_t v = n; v-- > 0;)
        if (waiting[v] == 0)
            stack[depth++] = (uint32_t)v;
    while (depth > 0) {
        uint32_t v = stack[--depth];
        if (position)
            position[v] = (uint32_t)placed;
        placed++;
        for (size_t k = start[v + 1]; k-- > start[v];)
            if (--waiting[consumer[k]] == 0)
                stack[depth++] = consumer[k];
    }
    *cyclic = placed < n ? find_cycle(n, edge, edges, waiting, start) : edges;
out:
    free(stack);
    free(consumer);
    free(start);
    free(waiting);
    return st;
}

/* ---- components */

struct component_walk {
    size_t *start; /* [n + 2] CSR of heads */
    uint32_t *head;
    size_t *next;     /* [n] edge to look at next */
    uint32_t *number; /* [n] order of discovery from 1 on; 0: not yet */
    uint32_t *low;    /* [n] least number known to be reachable within the open component */
    uint32_t *path;   /* [n] nodes being visited */
    uint32_t *open;   /* [n] nodes whose component is not known yet */
    size_t path_n, open_n;
    uint32_t numbers;
    struct arena memory;
};

static enum status walk_open(size_t n, const struct model_edge *edge, size_t edges,
                             struct component_walk *w)
{
    PASS(ARENA_NEW(&w->memory, w->start, n + 2));
    PASS(ARENA_NEW(&w->memory, w->head, edges));
    PASS(ARENA_NEW(&w->memory, w->next, n));
    PASS(ARENA_NEW(&w->memory, w->number, n));
    PASS(ARENA_NEW(&w->memory, w->low, n));
    PASS(ARENA_NEW(&w->memory, w->path, n));
    PASS(ARENA_NEW(&w->memory, w->open, n));
    edges_list(n, edge, edges, EDGES_BY_TAIL, w->start, w->head);
    return STATUS_OK;
}

/* Discover v: it becomes the end of the path and a member of an open component. */
static void component_enter(struct component_walk *w, uint32_t v)
{
    w->number[v] = w->low[v] = ++w->numbers;
    w->next[v] = w->start[v];
    w->path[w->path_n++] = v;
    w->open[w->open_n++] = v;
}

/* All edges of v are done: close its component if v is its first node, and go back. */
static void component_leave(struct component_walk *w, uint32_t v, uint32_t *component,
                            size_t *count)
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

/* Depth first with an explicit path. low[v] is the least number reachable from v over edges into
 * the open components; a node that reaches nothing older than itself closes its component. */
enum status edges_components(size_t n, const struct model_edge *edge, size_t edges,
                             uint32_t *component, size_t *count)
{
    enum status st;
    struct component_walk w = {0};
    *count = 0;
    TRY(walk_open(n, edge, edges, &w));
    for (uint32_t root = 0; root < n; root++) {
        if (w.number[root])
            continue;
        component_enter(&w, root);
        while (w.path_n > 0) {
            uint32_t v = w.path[w.path_n - 1];
            if (w.next[v] == w.start[v + 1]) {
                component_leave(&w, v, component, count);
                continue;
            }
            uint32_t u = w.head[w.next[v]++];
            if (!w.number[u])
                component_enter(&w, u);
            else if (w.number[u] < w.low[v]) /* open, so on a cycle with v */
                w.low[v] = w.number[u];
        }
    }
out:
    arena_free(&w.memory);
    return st;
}
