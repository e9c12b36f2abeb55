/* route_graph.h - the routes of one flat zone, and the way through them that SimGrid takes.
 *
 * A vertex is a host or router, numbered as the routes of the file first mention them; an edge is a
 * route in one direction, with the links on it. SimGrid 3.32 (DijkstraZone.cpp) takes a way of
 * fewest links; of several it enters each vertex from the one that is nearest the sender, and of
 * several such from the one of least number. That rule asks nothing of the order in which vertices
 * are looked at, so that a search with buckets finds the same ways as SimGrid's heap. */
#ifndef CORE_ROUTE_GRAPH_H
#define CORE_ROUTE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct route_graph {
    size_t vertices, edges, hops;
    uint32_t *vertex; /* [devices] */
    uint32_t *start;  /* [vertices + 1] edges out of each vertex */
    uint32_t *to;     /* [edges] */
    uint32_t *first;  /* [edges + 1] hops of each edge, one at least */
    uint32_t *hop;    /* [hops] link */
};

/* Whether all numbers are inside their arrays: for graphs that come from outside. */
bool route_graph_is_sound(const struct route_graph *g, size_t devices, size_t links);
void route_graph_free(struct route_graph *g); /* accepts {0}; leaves {0} */

/* A tree of ways from one vertex. What is not below `reached` in `order` may be unfinished. */
struct route_search {
    const struct route_graph *graph;
    size_t reached;
    uint32_t *order;  /* [reached] vertices by their distance, the source first */
    uint32_t *far;    /* [vertices] links from the source; UINT32_MAX: not seen */
    uint32_t *before; /* [vertices] the vertex from which it is entered; of the source: itself */
    uint32_t *edge;   /* [vertices] and the edge */
    /* the search's own */
    size_t seen, entries, span;
    uint32_t *sight;           /* [seen] vertices */
    struct route_entry *entry; /* [edges + 1] */
    uint32_t *bucket;          /* [span] first entry + 1 of those (distance % span) away */
    bool *wanted;              /* [vertices] */
};

/* The graph must outlive the search. STATUS_NOMEM. */
enum status route_search_open(const struct route_graph *g, struct route_search *out) MUST_CHECK;
/* Search from a vertex until all goals are reached, or everything when there are none.
 *   goal  [goals] vertices
 * False if a goal cannot be reached. O(edges out of vertices nearer than the farthest goal). */
bool route_search_from(struct route_search *s, uint32_t source, size_t goals, const uint32_t *goal);
void route_search_free(struct route_search *s); /* accepts {0}; leaves {0} */

#endif
