/* weighed.h - units and what they exchange as a graph for igraph: no directions, one edge for each
 * pair of units, which weighs the bytes of all tensors from one to the other. */
#ifndef PARTITION_GRAPH_WEIGHED_H
#define PARTITION_GRAPH_WEIGHED_H

#include "partition/graph/proposers.h"
#include "partition/igraph_error.h"

struct weighed {
    igraph_t graph;
    igraph_vector_t weight; /* > 0, 1 on average */
    bool has_graph, has_weight;
};

/* Also makes igraph's errors come back as values, and its random numbers the same every time.
 * STATUS_NOMEM, STATUS_EXTERNAL. */
enum status weighed_make(const struct units *u, struct weighed *out) MUST_CHECK;
void weighed_free(struct weighed *w); /* accepts {0}; leaves {0} */

/* Groups of units become keys: groups follow each other by the mean of their units' places in the
 * model, units of a group by their own.
 *   group  [u->n] */
enum status weighed_keys(const struct units *u, const igraph_vector_int_t *group,
                         double *key) MUST_CHECK;

#endif
