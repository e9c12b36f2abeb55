#include "partition/graph.h"

#include <stdlib.h>

#include "partition/igraph_try.h"

static enum status build(const struct model *m, igraph_t *graph)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t edge;
    if (igraph_vector_int_init(&edge, 2 * (igraph_integer_t)m->edges) != IGRAPH_SUCCESS)
        return error_set(STATUS_NOMEM, "igraph: out of memory");
    for (size_t i = 0, e = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++) {
            VECTOR(edge)[e++] = m->in[k];
            VECTOR(edge)[e++] = (igraph_integer_t)i;
        }
    TRY_IGRAPH(igraph_create(graph, &edge, (igraph_integer_t)m->n, IGRAPH_DIRECTED));
out:
    igraph_vector_int_destroy(&edge);
    return st;
}

/* Ops that a search from all sources reaches. */
static enum status check_reachable(const struct model *m, const igraph_t *graph)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t roots, order;
    bool roots_live = false, order_live = false;
    TRY_IGRAPH(igraph_vector_int_init(&roots, 0));
    roots_live = true;
    TRY_IGRAPH(igraph_vector_int_init(&order, 0));
    order_live = true;
    for (size_t i = 0; i < m->n; i++)
        if (m->in_start[i] == m->in_start[i + 1])
            TRY_IGRAPH(igraph_vector_int_push_back(&roots, (igraph_integer_t)i));
    TRY_IGRAPH(igraph_bfs(graph, 0, &roots, IGRAPH_OUT, /* unreachable = */ false, NULL, &order,
                          NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    igraph_integer_t reached = 0;
    for (igraph_integer_t k = 0; k < igraph_vector_int_size(&order); k++)
        reached += VECTOR(order)[k] >= 0;
    if (reached != (igraph_integer_t)m->n)
        st = error_set(STATUS_INVALID, "model %s: %lld of %zu ops cannot be reached", m->name,
                       (long long)m->n - (long long)reached, m->n);
out:
    if (order_live)
        igraph_vector_int_destroy(&order);
    if (roots_live)
        igraph_vector_int_destroy(&roots);
    return st;
}

enum status graph_check(const struct model *m)
{
    enum status st;
    igraph_t graph;
    bool live = false, ordered = false;
    igraph_bool_t acyclic = false;
    igraph_vector_int_t order;

    igraph_set_error_handler(igraph_error_handler_ignore);
    TRY(build(m, &graph));
    live = true;
    TRY_IGRAPH(igraph_is_dag(&graph, &acyclic));
    if (!acyclic) {
        st = error_set(STATUS_INVALID, "model %s: the graph has a cycle", m->name);
        goto out;
    }
    TRY_IGRAPH(igraph_vector_int_init(&order, 0));
    ordered = true;
    TRY_IGRAPH(igraph_topological_sorting(&graph, &order, IGRAPH_OUT));
    if (igraph_vector_int_size(&order) != (igraph_integer_t)m->n) {
        st = error_set(STATUS_INVALID, "model %s: the graph cannot be ordered", m->name);
        goto out;
    }
    TRY(check_reachable(m, &graph));
out:
    if (ordered)
        igraph_vector_int_destroy(&order);
    if (live)
        igraph_destroy(&graph);
    return st;
}

void graph_entering_bytes(const struct model *m, double *in_bytes)
{
    for (size_t i = 0; i < m->n; i++) {
        double sum = 0;
        for (size_t j = i; j < m->n; j++) {
            for (size_t k = m->in_start[j]; k < m->in_start[j + 1]; k++) {
                uint32_t p = m->in[k];
                if (p >= i)
                    continue;
                /* Counted already if a consumer between i and j - 1 reads it too. */
                bool counted = false;
                for (size_t c = m->out_start[p]; c < m->out_start[p + 1] && m->out[c] < j; c++)
                    counted = counted || m->out[c] >= i;
                if (!counted)
                    sum += (double)m->op[p].output_bytes;
            }
            in_bytes[i * m->n + j] = sum;
        }
    }
}

void graph_whole_cuts(const struct model *m, bool shards, bool *whole)
{
    for (size_t i = 0; i < m->n; i++)
        whole[i] = true;
    for (uint32_t i = 0; shards && i < m->n; i++) {
        const struct model_op *o = &m->op[i];
        uint32_t last = m->out_start[i + 1] > m->out_start[i] ? m->out[m->out_start[i + 1] - 1] : i;
        for (uint32_t k = i + 1;
             k <= last && (o->tensor == TENSOR_COLUMN || o->tensor == TENSOR_SPLIT); k++)
            whole[k] = false;
    }
}
