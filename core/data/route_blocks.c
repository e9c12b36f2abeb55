/* Blocks of a route graph: a depth-first search along edges in either direction, with an explicit
 * stack. A vertex from whose branch nothing leads higher than its parent ends a block there. */
#include "core/data/route_graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"

/* The search. Vertices are numbered as they are entered, from 1; 0: not yet. */
struct block_descent {
    struct route_graph *graph;
    size_t *start;  /* [vertices + 1] neighbours, */
    uint32_t *near; /* [2 * edges] those that edges lead to or come from */
    size_t *next;   /* [vertices] the next one to look at */
    uint32_t *number, *low, *parent;
    uint32_t numbers;
    size_t open;
    uint32_t *stack; /* [open] vertices without a block yet */
};

/* Neighbours in compressed rows; an edge makes two entries. */
static enum status list_neighbours(struct block_descent *d)
{
    const struct route_graph *g = d->graph;
    PASS(ARRAY_NEW(d->start, g->vertices + 2));
    PASS(ARRAY_NEW(d->near, 2 * g->edges));
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++) {
            d->start[v + 2]++;
            d->start[g->to[e] + 2]++;
        }
    for (size_t v = 0; v < g->vertices; v++)
        d->start[v + 2] += d->start[v + 1];
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++) {
            d->near[d->start[v + 1]++] = g->to[e];
            d->near[d->start[g->to[e] + 1]++] = v;
        }
    return STATUS_OK;
}

static void blocks_enter_vertex(struct block_descent *d, uint32_t vertex, uint32_t parent)
{
    d->number[vertex] = d->low[vertex] = ++d->numbers;
    d->parent[vertex] = parent;
    d->next[vertex] = d->start[vertex];
    d->stack[d->open++] = vertex;
}

/* Everything above a vertex on the stack, and itself, is one block below its parent. */
static enum status end_block(struct block_descent *d, uint32_t vertex)
{
    struct route_graph *g = d->graph;
    uint32_t member;
    PASS(ARRAY_ROOM(g->top, g->blocks));
    g->top[g->blocks] = d->parent[vertex];
    do {
        member = d->stack[--d->open];
        g->block[member] = (uint32_t)g->blocks;
    } while (member != vertex);
    g->blocks++;
    return STATUS_OK;
}

/* All vertices that are joined to a root. */
static enum status blocks_descend(struct block_descent *d, uint32_t root)
{
    uint32_t at = root;
    blocks_enter_vertex(d, root, root);
    for (;;) {
        if (d->next[at] < d->start[at + 1]) {
            uint32_t to = d->near[d->next[at]++];
            if (d->number[to] == 0) {
                blocks_enter_vertex(d, to, at);
                at = to;
            } else if (d->number[to] < d->low[at]) {
                d->low[at] = d->number[to];
            }
        } else if (at == root) {
            break;
        } else {
            uint32_t up = d->parent[at];
            if (d->low[at] >= d->number[up])
                PASS(end_block(d, at));
            else if (d->low[at] < d->low[up])
                d->low[up] = d->low[at];
            at = up;
        }
    }
    d->open--; /* the root itself */
    return STATUS_OK;
}

/* Depths from the roots down: blocks are numbered from below, so the last ones are highest. */
static enum status measure_depths(struct route_graph *g)
{
    uint32_t *of_block;
    PASS(ARRAY_NEW(of_block, g->blocks));
    for (size_t b = g->blocks; b-- > 0;) {
        uint32_t above = g->block[g->top[b]];
        of_block[b] = above == ROUTE_NO_BLOCK ? 1 : of_block[above] + 1;
    }
    for (size_t v = 0; v < g->vertices; v++)
        g->depth[v] = g->block[v] == ROUTE_NO_BLOCK ? 0 : of_block[g->block[v]];
    free(of_block);
    return STATUS_OK;
}

/* ---- edges in the order of their blocks */

/* An edge of one vertex. */
struct placed {
    uint32_t block, edge;
};

/* Rewrite to, first and hop in the new order. */
static enum status blocks_sort_edges(struct route_graph *g)
{
    enum status st;
    struct placed *placed = NULL;
    uint32_t *to = NULL, *first = NULL, *hop = NULL, hops = 0;
    TRY(ARRAY_NEW(placed, g->edges));
    TRY(ARRAY_NEW(to, g->edges));
    TRY(ARRAY_NEW(first, g->edges + 1));
    TRY(ARRAY_NEW(hop, g->hops));
    for (uint32_t v = 0; v < g->vertices; v++) {
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++)
            placed[e] = (struct placed){route_graph_block(g, v, g->to[e]), e};
        if (g->start[v + 1] > g->start[v])
            qsort(placed + g->start[v], g->start[v + 1] - g->start[v], sizeof *placed,
                  order_by_pair);
    }
    for (size_t e = 0; e < g->edges; e++) {
        uint32_t old = placed[e].edge;
        to[e] = g->to[old];
        first[e] = hops;
        for (uint32_t h = g->first[old]; h < g->first[old + 1]; h++)
            hop[hops++] = g->hop[h];
    }
    first[g->edges] = hops;
    free(g->to);
    free(g->first);
    free(g->hop);
    g->to = to;
    g->first = first;
    g->hop = hop;
    to = first = hop = NULL;
out:
    free(placed);
    free(to);
    free(first);
    free(hop);
    return st;
}

enum status route_graph_find_blocks(struct route_graph *g)
{
    enum status st;
    struct block_descent d = {.graph = g};
    TRY(ARRAY_NEW(g->block, g->vertices));
    TRY(ARRAY_NEW(g->depth, g->vertices));
    TRY(list_neighbours(&d));
    TRY(ARRAY_NEW(d.next, g->vertices));
    TRY(ARRAY_NEW(d.number, g->vertices));
    TRY(ARRAY_NEW(d.low, g->vertices));
    TRY(ARRAY_NEW(d.parent, g->vertices));
    TRY(ARRAY_NEW(d.stack, g->vertices));
    memset(g->block, 0xff, g->vertices * sizeof *g->block);
    for (uint32_t v = 0; v < g->vertices; v++)
        if (d.number[v] == 0)
            TRY(blocks_descend(&d, v));
    TRY(measure_depths(g));
    TRY(blocks_sort_edges(g));
out:
    free(d.start);
    free(d.near);
    free(d.next);
    free(d.number);
    free(d.low);
    free(d.parent);
    free(d.stack);
    return st;
}
