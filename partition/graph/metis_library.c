/* Recursive bisection by METIS, whose own recursion is not used (see metis_bisect()). */
#include "partition/graph/metis.h"

#include <math.h>
#include <stdlib.h>

#include <metis.h>

#include "core/base/array.h"
#include "core/base/order.h"

const char metis_guarantee[] = "none: a baseline";

static const double total_weight = 1e7; /* sums stay far below the 2^31 of METIS's integers */

struct metis_arc {
    uint32_t from, to;
    double weight;
};

/* The graph in integers, and room for a part of it. METIS takes compressed rows: the arcs of vertex
 * i of the subgraph are sub_start[i] .. sub_start[i + 1] - 1, to sub_head[] with weights
 * sub_pull[]. */
struct metis_work {
    const struct metis_options *o;
    uint32_t *part;        /* [n] out */
    struct metis_arc *arc; /* [arcs] both ways, sorted and merged */
    size_t *start;         /* [n + 1] into arc */
    double vertex_scale, edge_scale;
    const double *weight; /* [n] */
    uint32_t *place;      /* [n] index of a vertex in the subgraph at hand */
    idx_t *sub_start, *sub_head, *sub_pull, *sub_weight, *side; /* METIS's view of it */
    struct arena memory;
};

/* Both directions of every edge, in order, parallel ones added up. */
static size_t collect_arcs(const struct metis_graph *g, struct metis_arc *arc)
{
    size_t n = 0, kept = 0;
    for (size_t e = 0; e < g->edges; e++) {
        const struct metis_edge *x = &g->edge[e];
        if (x->a == x->b)
            continue;
        arc[n++] = (struct metis_arc){x->a, x->b, x->weight};
        arc[n++] = (struct metis_arc){x->b, x->a, x->weight};
    }
    qsort(arc, n, sizeof *arc, order_by_pair);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && order_by_pair(&arc[kept - 1], &arc[i]) == 0)
            arc[kept - 1].weight += arc[i].weight;
        else
            arc[kept++] = arc[i];
    return kept;
}

static double metis_scale(double sum)
{
    return sum > 0 ? total_weight / sum : 0;
}

static enum status metis_prepare(const struct metis_graph *g, struct metis_work *w)
{
    double vertices = 0, edges = 0;
    size_t n = g->n, most = 2 * g->edges + 1;
    w->weight = g->weight;
    PASS(ARENA_NEW(&w->memory, w->arc, most));
    PASS(ARENA_NEW(&w->memory, w->start, n + 1));
    PASS(ARENA_NEW(&w->memory, w->place, n));
    PASS(ARENA_NEW(&w->memory, w->sub_start, n + 1));
    PASS(ARENA_NEW(&w->memory, w->sub_head, most));
    PASS(ARENA_NEW(&w->memory, w->sub_pull, most));
    PASS(ARENA_NEW(&w->memory, w->sub_weight, n));
    PASS(ARENA_NEW(&w->memory, w->side, n));
    size_t arcs = collect_arcs(g, w->arc);
    for (size_t k = 0; k < arcs; k++) {
        edges += w->arc[k].weight;
        w->start[w->arc[k].from + 1]++;
    }
    for (size_t v = 0; v < n; v++) {
        w->start[v + 1] += w->start[v];
        vertices += g->weight[v];
    }
    w->edge_scale = metis_scale(edges);
    w->vertex_scale = metis_scale(vertices);
    return STATUS_OK;
}

/* The subgraph of vertex[n]; others have place UINT32_MAX. METIS wants positive edge weights. */
static void cut_out(struct metis_work *w, const uint32_t *vertex, size_t n)
{
    size_t arcs = 0;
    for (size_t i = 0; i < n; i++)
        w->place[vertex[i]] = (uint32_t)i;
    for (size_t i = 0; i < n; i++) {
        uint32_t v = vertex[i];
        w->sub_weight[i] = (idx_t)(w->weight[v] * w->vertex_scale);
        for (size_t k = w->start[v]; k < w->start[v + 1]; k++) {
            uint32_t u = w->place[w->arc[k].to];
            if (u == UINT32_MAX)
                continue;
            w->sub_head[arcs] = (idx_t)u;
            w->sub_pull[arcs++] = 1 + (idx_t)(w->arc[k].weight * w->edge_scale);
        }
        w->sub_start[i + 1] = (idx_t)arcs;
    }
    for (size_t i = 0; i < n; i++)
        w->place[vertex[i]] = UINT32_MAX;
}

/* Move the vertices of side 1 behind those of side 0; how many there are of side 0. */
static size_t separate(const struct metis_work *w, uint32_t *vertex, size_t n, uint32_t *spare)
{
    size_t zeros = 0, ones = 0;
    for (size_t i = 0; i < n; i++)
        if (w->side[i] == 0)
            vertex[zeros++] = vertex[i];
        else
            spare[ones++] = vertex[i];
    for (size_t i = 0; i < ones; i++)
        vertex[zeros + i] = spare[i];
    return zeros;
}

/* 1. Cut the subgraph out. 2. METIS gives each vertex a side; the sides have weights in proportion
 * to the parts that they get, left of them and parts - left. 3. Vertices of side 0 come first in
 * vertex[n]; each side is bisected in turn.
 *
 * Bisect until every part is one, or has as many vertices as parts are left. METIS's own recursion
 * prints complaints on standard output when a side runs out of vertices; a bisection does not. */
static enum status metis_bisect(struct metis_work *w, uint32_t *vertex, size_t n, uint32_t first,
                                size_t parts, uint32_t *spare)
{
    if (n <= parts || parts == 1) {
        for (size_t i = 0; i < n; i++)
            w->part[vertex[i]] = first + (parts == 1 ? 0 : (uint32_t)i);
        return STATUS_OK;
    }
    size_t left = parts / 2;
    real_t share[2] = {(real_t)((double)left / (double)parts), 0};
    share[1] = 1 - share[0];
    idx_t count = (idx_t)n, one = 1, two = 2, cut = 0, options[METIS_NOPTIONS];
    cut_out(w, vertex, n);
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = (idx_t)(w->o->seed % INT32_MAX);
    options[METIS_OPTION_UFACTOR] = (idx_t)lround(1000 * (w->o->imbalance - 1));
    int done =
        METIS_PartGraphRecursive(&count, &one, w->sub_start, w->sub_head, w->sub_weight, NULL,
                                 w->sub_pull, &two, share, NULL, options, &cut, w->side);
    if (done != METIS_OK)
        return error_set(STATUS_EXTERNAL,
                         "METIS could not partition a graph of %zu vertices (METIS error code %d)",
                         n, done);
    size_t zeros = separate(w, vertex, n, spare);
    PASS(metis_bisect(w, vertex, zeros, first, left, spare));
    return metis_bisect(w, vertex + zeros, n - zeros, first + (uint32_t)left, parts - left, spare);
}

enum status metis_partition(const struct metis_graph *g, size_t parts,
                            const struct metis_options *o, uint32_t *part)
{
    enum status st;
    struct metis_work w = {.o = o, .part = part};
    uint32_t *vertex, *spare;
    TRY(ARENA_NEW(&w.memory, vertex, g->n));
    TRY(ARENA_NEW(&w.memory, spare, g->n));
    TRY(metis_prepare(g, &w));
    for (size_t v = 0; v < g->n; v++) {
        vertex[v] = (uint32_t)v;
        w.place[v] = UINT32_MAX;
    }
    TRY(metis_bisect(&w, vertex, g->n, 0, parts, spare));
out:
    arena_free(&w.memory);
    return st;
}
