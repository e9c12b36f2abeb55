/* Graphs of operators as models: an op for each function. */
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "papers/hidup/lowered.h"
#include "papers/hidup/models.h"

int64_t spmd_batch(const struct spmd_graph *g)
{
    return g->tensor[g->node[0].made].size[0];
}

/* The function whose op a tensor is an output of; MODEL_NO_OP: it is an input or a parameter. */
static uint32_t producer(const struct spmd_graph *g, const uint32_t *op_of, uint32_t tensor)
{
    const struct spmd_node *n = &g->node[g->tensor[tensor].node];
    if (n->kind == SPMD_ADAPTIVE)
        return producer(g, op_of, n->read[0]);
    return op_of[g->tensor[tensor].node];
}

bool spmd_is_weight(const struct spmd_graph *g, uint32_t tensor)
{
    const struct spmd_node *n = &g->node[g->tensor[tensor].node];
    return n->kind == SPMD_PARAMETER && strcmp(n->op, "mask") != 0;
}

/* Masks of attention are the same for all samples and small beside its other traffic. */
static enum status fill_op(const struct spmd_graph *g, uint32_t node, struct model_op *o)
{
    const struct spmd_node *n = &g->node[node];
    double batch = (double)spmd_batch(g), made = 0, read = 0;
    double flop = n->product ? n->flop * 2 / 3 : n->flop;
    *o = (struct model_op){.shares = MODEL_NO_OP, .tensor = TENSOR_SPLIT};
    for (size_t k = 0; k < n->reads; k++) {
        double bytes = spmd_bytes(g, n->read[k]);
        if (spmd_is_weight(g, n->read[k]))
            o->parameter_bytes += (int64_t)bytes;
        else if (g->node[g->tensor[n->read[k]].node].kind != SPMD_PARAMETER)
            read += bytes;
    }
    for (uint32_t k = 0; k < n->makes; k++)
        made += spmd_bytes(g, n->made + k);
    o->sparse = !strcmp(n->op, "embedding"); /* rows that are read, as many as are made */
    read += o->sparse ? made : 0;
    o->forward_flop = flop / batch;
    o->backward_flop = 2 * flop / batch;
    o->forward_bytes = (read + made) / batch;
    o->backward_bytes = 2 * (read + made) / batch;
    o->stash_bytes = o->output_bytes = (int64_t)(made / batch);
    PASS(text_copy(n->name, &o->name));
    return text_copy(n->op, &o->kind);
}

/* Each producer once, in the order of arguments. */
static void add_edges(const struct spmd_graph *g, uint32_t node, const uint32_t *op_of,
                      struct model_edge *edge, size_t *edges)
{
    const struct spmd_node *n = &g->node[node];
    size_t first = *edges;
    for (size_t k = 0; k < n->reads; k++) {
        uint32_t from = producer(g, op_of, n->read[k]);
        bool known = from == MODEL_NO_OP;
        for (size_t e = first; e < *edges; e++)
            known = known || edge[e].from == from;
        if (!known)
            edge[(*edges)++] = (struct model_edge){from, op_of[node]};
    }
}

enum status spmd_to_model(const struct spmd_graph *g, const char *name, struct model *out,
                          uint32_t *op_of)
{
    enum status st;
    struct model m = {.element_bytes = data_type_bytes(spmd_dtype(g)), .dtype = spmd_dtype(g)};
    struct model_edge *edge = NULL;
    size_t edges = 0;
    if (g->tensor[g->node[0].made].rank < 4) /* no images */
        m.tokens_per_sample = (double)g->tensor[g->node[0].made].size[1];
    TRY(ARRAY_NEW(edge, g->nodes * SPMD_READS));
    TRY(ARRAY_NEW(m.op, g->nodes));
    TRY(text_copy(name, &m.name));
    for (uint32_t i = 0; i < g->nodes; i++) {
        op_of[i] = MODEL_NO_OP;
        if (g->node[i].kind != SPMD_FUNCTION)
            continue;
        op_of[i] = (uint32_t)m.n;
        TRY(fill_op(g, i, &m.op[m.n++]));
        add_edges(g, i, op_of, edge, &edges);
    }
    struct model finished = m;
    m = (struct model){0}; /* which is freed on failure */
    TRY(model_finish(&finished, edge, edges, name));
    *out = finished;
out:
    model_free(&m);
    free(edge);
    return st;
}

enum status spmd_load_model(const char *spec, struct model *out)
{
    enum status st;
    struct spmd_graph g = {0};
    uint32_t *op_of = NULL;
    PASS(spmd_model(spec, false, &g));
    TRY(ARRAY_NEW(op_of, g.nodes));
    TRY(spmd_to_model(&g, spec, out, op_of));
out:
    free(op_of);
    spmd_graph_free(&g);
    return st;
}
