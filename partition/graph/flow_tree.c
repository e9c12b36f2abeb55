/* The Gomory-Hu tree says what the minimum cut between any two units is (J. SIAM 9, 1961); what is
 * left when its smallest cuts are taken out belongs together. */
#include <math.h>

#include "core/base/statistics.h"
#include "partition/graph/weighed.h"

enum { MOST_UNITS = 400 }; /* a flow for each */

/* As many edges of the tree as make so many parts, the smallest first: groups of what is left. */
static enum status cut_tree_edges(const igraph_t *tree, const igraph_vector_t *flow, size_t parts,
                                  igraph_vector_int_t *group)
{
    enum status st;
    igraph_vector_int_t order = {0}, gone = {0};
    igraph_t rest;
    bool has_rest = false;
    TRY_IGRAPH(igraph_vector_int_init(&order, 0));
    TRY_IGRAPH(igraph_vector_int_init(&gone, 0));
    TRY_IGRAPH(igraph_vector_qsort_ind(flow, &order, IGRAPH_ASCENDING));
    for (igraph_integer_t k = 0; k < (igraph_integer_t)parts - 1; k++)
        TRY_IGRAPH(igraph_vector_int_push_back(&gone, VECTOR(order)[k]));
    TRY_IGRAPH(igraph_copy(&rest, tree));
    has_rest = true;
    TRY_IGRAPH(igraph_delete_edges(&rest, igraph_ess_vector(&gone)));
    TRY_IGRAPH(igraph_connected_components(&rest, group, NULL, NULL, IGRAPH_WEAK));
out:
    if (has_rest)
        igraph_destroy(&rest);
    igraph_vector_int_destroy(&gone);
    igraph_vector_int_destroy(&order);
    return st;
}

enum status proposer_tree(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct weighed w = {0};
    igraph_vector_t flow = {0};
    igraph_vector_int_t group = {0};
    igraph_t tree;
    bool has_tree = false;
    if (u->n > MOST_UNITS || parts > u->n)
        return error_set(STATUS_UNSUPPORTED,
                         "flow trees: model graph has %zu nodes, expected at most %d", u->n,
                         MOST_UNITS);
    TRY(weighed_make(u, &w));
    TRY_IGRAPH(igraph_vector_init(&flow, 0));
    TRY_IGRAPH(igraph_vector_int_init(&group, 0));
    TRY_IGRAPH(igraph_gomory_hu_tree(&w.graph, &tree, &flow, &w.weight));
    has_tree = true;
    TRY(cut_tree_edges(&tree, &flow, parts, &group));
    TRY(weighed_keys(u, &group, key));
out:
    if (has_tree)
        igraph_destroy(&tree);
    igraph_vector_int_destroy(&group);
    igraph_vector_destroy(&flow);
    weighed_free(&w);
    return st;
}
