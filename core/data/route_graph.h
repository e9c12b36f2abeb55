/* route_graph.h - the routes of one flat zone, and the way through them that SimGrid takes.
 *
 * A vertex is a host or router, numbered as the routes of the file first mention them; an edge is a
 * route in one direction, with the links on it. SimGrid 3.32 (DijkstraZone.cpp) takes a way of
 * fewest links; of several it enters each vertex from the one that is nearest the sender, and of
 * several such from the one of least number. That rule asks nothing of the order in which vertices
 * are looked at, so that a search with buckets finds the same ways as SimGrid's heap. */
#ifndef CORE_DATA_ROUTE_GRAPH_H
#define CORE_DATA_ROUTE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct route_graph {
    size_t vertices, edges, hops;
    uint32_t *vertex; /* [devices] */
    uint32_t *start;  /* [vertices + 1] edges out of each vertex, those of a block together */
    uint32_t *to;     /* [edges] */
    uint32_t *first;  /* [edges + 1] hops of each edge, one at least */
    uint32_t *hop;    /* [hops] link */
    /* Its blocks: parts that only a cut vertex joins to the rest, and that have none themselves.
     * They make a tree; every way passes the blocks and cut vertices between its ends, and the
     * parts of the way in each block are found for themselves. */
    size_t blocks;
    uint32_t *block; /* [vertices] towards the root; ROUTE_NO_BLOCK: of a root */
    uint32_t *depth; /* [vertices] blocks up to the root */
    uint32_t *top;   /* [blocks] the vertex of the block that is nearest the root */
};

#define ROUTE_NO_BLOCK UINT32_MAX

/* Fill in the blocks of a graph that has all the rest, and put the edges in order. O(edges *
 * log(edges)). Source: Hopcroft & Tarjan, CACM 16 (1973) 372. STATUS_NOMEM. */
enum status route_graph_find_blocks(struct route_graph *g) MUST_CHECK;
/* The block of an edge from a vertex to another. */
static inline uint32_t route_graph_block(const struct route_graph *g, uint32_t from, uint32_t to)
{
    bool below = g->block[to] != ROUTE_NO_BLOCK &&
                 (g->block[to] == g->block[from] || g->top[g->block[to]] == from);
    return below ? g->block[to] : g->block[from];
}

/* The first edge out of a vertex in that block or a later one; start[vertex + 1] if there is
 * none. */
uint32_t route_graph_first(const struct route_graph *g, uint32_t vertex, uint32_t block);

/* Whether all numbers are inside their arrays: for graphs that come from outside. */
bool route_graph_is_sound(const struct route_graph *g, size_t devices, size_t links);
void route_graph_free(struct route_graph *g); /* accepts {0}; leaves {0} */

/* A tree of ways from one vertex, as far as it was asked for. */
struct route_search {
    const struct route_graph *graph;
    uint32_t source, within; /* the block, or ROUTE_NO_BLOCK: all of them */
    size_t reached;
    uint32_t *order;  /* [reached] vertices by their distance, the source first */
    uint32_t *far;    /* [vertices] links from the source; UINT32_MAX: not seen */
    uint32_t *before; /* [vertices] the vertex from which it is entered; of the source: itself */
    uint32_t *edge;   /* [vertices] and the edge */
    /* the search's own */
    size_t seen, entries, span;
    uint32_t now, next;        /* distance being looked at, and the entry + 1 */
    uint32_t *sight;           /* [seen] vertices */
    struct route_entry *entry; /* [edges + 1] */
    uint32_t *bucket;          /* [span] first entry + 1 of those (distance % span) away */
    bool *settled;             /* [vertices] */
};

/* The graph must outlive the search. STATUS_NOMEM. */
enum status route_search_open(const struct route_graph *g, struct route_search *out) MUST_CHECK;
/* Begin at a vertex, inside a block of it or everywhere. */
void route_search_begin(struct route_search *s, uint32_t source, uint32_t within);
/* Go on until the way to a vertex is found, or until there is nothing left when it is UINT32_MAX.
 * False if it cannot be reached. O(edges out of vertices that are nearer). */
bool route_search_reach(struct route_search *s, uint32_t vertex);
void route_search_free(struct route_search *s); /* accepts {0}; leaves {0} */

#endif
