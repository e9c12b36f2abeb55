/* METIS's parts of the graph, with the compute time of units balanced. */
#include "partition/graph/metis.h"
#include "partition/graph/proposers.h"

/* How much more than the average a part may compute. */
static const struct metis_options usual = {.seed = 1, .imbalance = 1.05};

static enum status find_edges(const struct units *u, struct arena *a, struct metis_graph *g)
{
    struct metis_edge *edge;
    double *weight;
    PASS(ARENA_NEW(a, weight, u->n));
    PASS(ARENA_NEW(a, edge, u->reader_start[u->tensors]));
    for (size_t k = 0; k < u->n; k++)
        weight[k] = u->forward_s[k] + u->backward_s[k];
    for (size_t k = 0; k < u->tensors; k++)
        for (size_t r = u->reader_start[k]; r < u->reader_start[k + 1]; r++)
            edge[r] = (struct metis_edge){u->tensor[k].from, u->reader[r], u->tensor[k].bytes};
    *g = (struct metis_graph){u->n, weight, u->reader_start[u->tensors], edge};
    return STATUS_OK;
}

enum status proposer_metis(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct arena a = {0};
    struct metis_graph g;
    uint32_t *part;
    TRY(find_edges(u, &a, &g));
    TRY(ARENA_NEW(&a, part, u->n));
    TRY(metis_partition(&g, parts, &usual, part));
    TRY(proposers_group(u, part, key));
out:
    arena_free(&a);
    return st;
}
