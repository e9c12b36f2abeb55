/* Edges sorted and merged. */
#include "partition/graph/weighed.h"

#include <stdlib.h>

#include "core/base/order.h"

struct weighed_edge {
    uint32_t a, b; /* a < b */
    double bytes;
};

void weighed_free(struct weighed *w)
{
    if (w->has_graph)
        igraph_destroy(&w->graph);
    if (w->has_weight)
        igraph_vector_destroy(&w->weight);
    *w = (struct weighed){0};
}

/* *edge is malloc'd. Nothing weighs nothing. */
static enum status merge_edges(const struct units *u, struct weighed_edge **edge, size_t *edges)
{
    size_t n = u->reader_start[u->tensors], kept = 0;
    struct weighed_edge *e;
    PASS(ARRAY_NEW(e, n));
    for (size_t k = 0; k < u->tensors; k++)
        for (size_t r = u->reader_start[k]; r < u->reader_start[k + 1]; r++)
            e[r] = (struct weighed_edge){u->tensor[k].from, u->reader[r], u->tensor[k].bytes + 1};
    qsort(e, n, sizeof *e, order_by_pair);
    for (size_t k = 0; k < n; k++)
        if (kept > 0 && order_by_pair(&e[kept - 1], &e[k]) == 0)
            e[kept - 1].bytes += e[k].bytes;
        else
            e[kept++] = e[k];
    *edge = e;
    *edges = kept;
    return STATUS_OK;
}

enum status weighed_make(const struct units *u, struct weighed *out)
{
    enum status st;
    struct weighed w = {0};
    struct weighed_edge *edge = NULL;
    igraph_vector_int_t ends = {0};
    size_t n;
    double all = 0;
    igraph_set_error_handler(igraph_error_handler_ignore);
    igraph_rng_seed(igraph_rng_default(), 1);
    TRY(merge_edges(u, &edge, &n));
    TRY_IGRAPH(igraph_vector_int_init(&ends, (igraph_integer_t)(2 * n)));
    TRY_IGRAPH(igraph_vector_init(&w.weight, (igraph_integer_t)n));
    w.has_weight = true;
    for (size_t k = 0; k < n; k++) {
        VECTOR(ends)[2 * k] = edge[k].a;
        VECTOR(ends)[2 * k + 1] = edge[k].b;
        all += edge[k].bytes;
    }
    for (size_t k = 0; k < n; k++)
        VECTOR(w.weight)[k] = edge[k].bytes / all * (double)n;
    TRY_IGRAPH(igraph_create(&w.graph, &ends, (igraph_integer_t)u->n, IGRAPH_UNDIRECTED));
    w.has_graph = true;
    MOVE(out, w);
out:
    igraph_vector_int_destroy(&ends);
    free(edge);
    weighed_free(&w);
    return st;
}

enum status weighed_keys(const struct units *u, const igraph_vector_int_t *group, double *key)
{
    enum status st;
    uint32_t *of = NULL;
    TRY(ARRAY_NEW(of, u->n));
    for (size_t k = 0; k < u->n; k++)
        of[k] = (uint32_t)VECTOR(*group)[k];
    TRY(proposers_group(u, of, key));
out:
    free(of);
    return st;
}
