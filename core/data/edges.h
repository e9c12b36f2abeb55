/* edges.h - algorithms on directed graphs with nodes 0 .. n - 1, given as lists of edges. */
#ifndef CORE_DATA_EDGES_H
#define CORE_DATA_EDGES_H

#include "core/data/model.h"

/* What edges_list() groups and lists. */
enum {
    EDGES_BY_TAIL = 0,
    EDGES_BY_HEAD = 1,
    EDGES_NUMBERS = 2, /* list edges by their number instead of the node at their other end */
};

/* The edges of every node, in CSR form and in the order of edge[].
 *   how    sum of the above
 *   start  [n + 1] out: the edges of node v are list[start[v]] to list[start[v + 1] - 1]; has room
 *          for n + 2
 *   list   [edges] out
 * O(n + edges). */
void edges_list(size_t n, const struct model_edge *edge, size_t edges, int how, size_t *start,
                uint32_t *list);

/* A topological order, depth first: a node follows its producer directly where it can.
 *   position  [n] out: place of each node; NULL: not wanted
 *   cyclic    out: an edge that is part of a cycle; `edges` when there is none
 * O(n + edges), deterministic. STATUS_NOMEM.
 * Source: Kahn, CACM 5 (1962) 558-562, with a stack. */
enum status edges_order(size_t n, const struct model_edge *edge, size_t edges, uint32_t *position,
                        size_t *cyclic) MUST_CHECK;

/* Strongly connected components.
 *   component  [n] out: < *count; nodes on a common cycle, and only they, have the same number
 * O(n + edges), without recursion. STATUS_NOMEM.
 * Source: Tarjan, SIAM J. Comput. 1 (1972) 146-160. */
enum status edges_components(size_t n, const struct model_edge *edge, size_t edges,
                             uint32_t *component, size_t *count) MUST_CHECK;

/* Order for qsort(): by head, then by tail. */
int edges_compare(const void *a, const void *b);

/* Representative of the set of v, paths halved on the way; parent[v] == v for representatives
 * (union-find). */
static inline uint32_t edges_root(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

#endif
