/* PiPPy's graph of a model, presolve, and the value of a split.
 *
 * Presolve keeps together what no best split parts: it merges the ends of edges that are the
 * only one of their source, or sink, or of a link in a chain. Clusters are what is left, with
 * their memory and inner weight; parallel edges between two clusters are summed, and their
 * number counts, since the program charges one unit per cut edge. */
#include <math.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/data/edges.h"
#include "papers/pippy/pippy.h"

void pippy_graph_free(struct pippy_graph *g)
{
    arena_free(&g->owned);
    *g = (struct pippy_graph){0};
}

void pippy_problem_free(struct pippy_problem *p)
{
    arena_free(&p->owned);
    *p = (struct pippy_problem){0};
}

/* Elements, own and borrowed: a stage that borrows needs a copy. */
static double parameters_of(const struct model *m, size_t i)
{
    return (double)(m->op[i].parameter_bytes + m->op[i].shared_bytes) / (double)m->element_bytes;
}

/* An edge per tensor and reader; a tensor that two ops read counts twice, as in PiPPy. */
enum status pippy_graph_of(const struct model *m, bool parameters, struct pippy_graph *g)
{
    size_t extra = 0;
    *g = (struct pippy_graph){.nodes = m->n};
    for (size_t i = 0; parameters && i < m->n; i++)
        extra += parameters_of(m, i) > 0;
    PASS(ARENA_NEW(&g->owned, g->memory, m->n + extra));
    PASS(ARENA_NEW(&g->owned, g->edge, m->edges + extra));
    for (size_t i = 0; i < m->n; i++) {
        g->memory[i] = parameters_of(m, i);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++) {
            double weight = (double)m->op[m->in[k]].output_bytes / (double)m->element_bytes;
            g->edge[g->edges++] = (struct pippy_edge){m->in[k], (uint32_t)i, weight, 1};
        }
    }
    for (uint32_t i = 0; extra && i < m->n; i++)
        if (g->memory[i] > 0)
            g->edge[g->edges++] = (struct pippy_edge){(uint32_t)g->nodes++, i, g->memory[i], 1};
    return STATUS_OK;
}

/* Every edge as one out of either end, so that edges_list() lists it at both. */
enum status pippy_incident(size_t nodes, const struct pippy_edge *edge, size_t edges,
                           struct arena *memory, size_t **start, uint32_t **incident)
{
    struct model_edge *end;
    PASS(ARENA_NEW(memory, *start, nodes + 2));
    PASS(ARENA_NEW(memory, *incident, 2 * edges));
    PASS(ARENA_NEW(memory, end, 2 * edges));
    for (size_t e = 0; e < edges; e++) {
        end[2 * e] = (struct model_edge){edge[e].from, edge[e].to};
        end[2 * e + 1] = (struct model_edge){edge[e].to, edge[e].from};
    }
    edges_list(nodes, end, 2 * edges, EDGES_BY_TAIL | EDGES_NUMBERS, *start, *incident);
    for (size_t i = 0; i < 2 * edges; i++)
        (*incident)[i] /= 2;
    return STATUS_OK;
}

enum status pippy_edges(const struct pippy_edge *edge, size_t edges, struct arena *memory,
                        struct model_edge **out)
{
    PASS(ARENA_NEW(memory, *out, edges));
    for (size_t e = 0; e < edges; e++)
        (*out)[e] = (struct model_edge){edge[e].from, edge[e].to};
    return STATUS_OK;
}

/* ---- presolve */

/* cluster_of[nodes]: merged as the header says; returns the number of clusters. */
static size_t pippy_graph_merge(struct pippy_graph *g, const uint32_t *in, const uint32_t *out,
                                uint32_t *parent, uint32_t *cluster_of)
{
    size_t clusters = 0;
    for (uint32_t v = 0; v < g->nodes; v++)
        parent[v] = v;
    for (size_t e = 0; e < g->edges; e++) {
        uint32_t u = g->edge[e].from, v = g->edge[e].to;
        if (!in[u] && g->memory[u] <= 0)
            g->edge[e].weight = 0;
        bool source = !in[u] && out[u] == 1, sink = in[v] == 1 && !out[v];
        if (source || sink || (out[u] == 1 && in[v] == 1 && out[v] == 1))
            parent[edges_root(parent, u)] = edges_root(parent, v);
    }
    for (size_t v = 0; v < g->nodes; v++)
        cluster_of[v] = UINT32_MAX;
    for (uint32_t v = 0; v < g->nodes; v++) {
        uint32_t root = edges_root(parent, v);
        if (cluster_of[root] == UINT32_MAX)
            cluster_of[root] = (uint32_t)clusters++;
    }
    for (uint32_t v = 0; v < g->nodes; v++) /* roots last: they are still looked up */
        if (edges_root(parent, v) != v)
            cluster_of[v] = cluster_of[edges_root(parent, v)];
    return clusters;
}

/* Sums by cluster; edges between clusters are sorted so that parallel ones stand together. */
static void sum_clusters(const struct pippy_graph *g, struct pippy_problem *p)
{
    for (size_t v = 0; v < g->nodes; v++) {
        p->memory[p->cluster_of[v]] += g->memory[v];
        p->all_memory += g->memory[v];
    }
    for (size_t e = 0; e < g->edges; e++) {
        struct pippy_edge x = g->edge[e];
        x.from = p->cluster_of[x.from];
        x.to = p->cluster_of[x.to];
        p->all_weight += x.weight;
        if (x.from == x.to)
            p->inner[x.from] += x.weight;
        else
            p->edge[p->kept++] = x;
    }
    qsort(p->edge, p->kept, sizeof *p->edge, order_by_pair);
    for (size_t e = 0; e < p->kept; e++) {
        struct pippy_edge *last = p->edges ? &p->edge[p->edges - 1] : NULL;
        if (last && !order_by_pair(last, &p->edge[e])) {
            last->weight += p->edge[e].weight;
            last->count += p->edge[e].count;
        } else {
            p->edge[p->edges++] = p->edge[e];
        }
    }
}

enum status pippy_presolve(struct pippy_graph *g, size_t stages, struct pippy_problem *p)
{
    uint32_t *in, *degree, *parent;
    *p = (struct pippy_problem){.stages = stages};
    PASS(ARENA_NEW(&p->owned, in, g->nodes));
    PASS(ARENA_NEW(&p->owned, degree, g->nodes));
    PASS(ARENA_NEW(&p->owned, parent, g->nodes));
    PASS(ARENA_NEW(&p->owned, p->cluster_of, g->nodes));
    PASS(ARENA_NEW(&p->owned, p->memory, g->nodes));
    PASS(ARENA_NEW(&p->owned, p->inner, g->nodes));
    PASS(ARENA_NEW(&p->owned, p->edge, g->edges));
    for (size_t e = 0; e < g->edges; e++) {
        degree[g->edge[e].from]++;
        in[g->edge[e].to]++;
    }
    p->nodes = pippy_graph_merge(g, in, degree, parent, p->cluster_of);
    sum_clusters(g, p);
    return STATUS_OK;
}

/* ---- value */

/* Cut weight + cut edges + average x z - constant, with average x z the largest weight that
 * touches a stage but at least the average; edges inside clusters are never cut in the
 * program, and their cuts are not counted here. */
enum status pippy_value(const struct pippy_graph *g, const struct pippy_problem *p,
                        const uint32_t *stage_of, double *value)
{
    double cut = 0, most = p->all_weight / (double)p->stages;
    double *touching;
    PASS(ARRAY_NEW(touching, p->stages));
    for (size_t e = 0; e < g->edges; e++) {
        const struct pippy_edge *x = &g->edge[e];
        uint32_t from = stage_of[x->from], to = stage_of[x->to];
        if (from > to) {
            free(touching);
            return error_set(STATUS_INVALID,
                             "an edge of the model leads from stage %u to the earlier stage %u",
                             from, to);
        }
        touching[from] += x->weight;
        if (from == to)
            continue;
        touching[to] += x->weight;
        cut += x->weight + (p->cluster_of[x->from] != p->cluster_of[x->to] ? 1 : 0);
    }
    for (size_t j = 0; j < p->stages; j++)
        most = fmax(most, touching[j]);
    free(touching);
    *value = cut + most - p->all_weight - (double)p->kept;
    return STATUS_OK;
}

/* The constants 2.5, 1.1 and 2 are PiPPy's. */
struct pippy_limits pippy_limits(const struct pippy_problem *p)
{
    double k = (double)p->stages;
    return (struct pippy_limits){2.5 * p->all_memory / k, 1.1 * p->all_weight / k,
                                 2 * p->all_weight / k};
}
