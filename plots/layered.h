/* layered.h - where the boxes and lines of a directed graph go: columns from left to right, lines
 * through gaps between boxes. Private.
 *
 * Sugiyama, Tagawa & Toda, "Methods for visual understanding of hierarchical system structures",
 * IEEE Trans. SMC 11 (1981) 109-125: longest paths, barycentres; heights by isotonic regression. */
#ifndef PLOTS_LAYERED_H
#define PLOTS_LAYERED_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

struct layered_edge {
    size_t from, to; /* from < to */
};

/* A place in a column: a box, or where the lines of a box that ends further left pass. */
struct layered_item {
    size_t node, column;
    bool passes;   /* no box */
    size_t before; /* of what passes: the item of the same node one column to the left */
    double y;      /* of its middle, from 0 downwards */
    double height;
};

struct layered {
    size_t columns, items;
    struct layered_item *item; /* [items] the nodes first, in their order */
    double height;
    size_t *source; /* [edges] item to the left of edge[k].to that its line comes from */
};

/* Nodes 0 to n - 1 in a topological order.
 *
 *   edge   [edges] in the order of `to`, each pair once
 *   box    [n] heights
 *   gap    between two items of a column
 *
 * One line leaves a node for all that read it. O(n edges + items log items), where items are at
 * most n times the columns. STATUS_NOMEM. */
enum status layered_place(size_t n, const struct layered_edge *edge, size_t edges,
                          const double *box, double gap, struct layered *out) MUST_CHECK;
void layered_free(struct layered *l); /* accepts {0}; leaves {0} */

#endif
