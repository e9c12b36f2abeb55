/* The importer of PipeDream's graph.txt: one op per node, its times as the profile.
 *
 * PipeDream's profiler (Narayanan et al., SOSP 2019) writes what each layer of a network took in
 * one minibatch; grammar in pipedream_text.h. Op names are node names, kinds the layer types.
 * The times become one profile (samples = minibatch_size); sizes are divided by minibatch_size and
 * rounded; FLOP are unknown, 0. Sources called "Input..." become ops of kind "Input" that take no
 * time: they load data, which PipeDream's planner leaves out too. A stage_id becomes attribute
 * "stage". O((nodes + edges) log nodes); *out is untouched on failure. Returns STATUS_PARSE with
 * path:line, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
#include "papers/common/importers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/data/edges.h"
#include "model/graph.h"
#include "papers/pipedream/pipedream_text.h"

static const char input_kind[] = "Input";

/* ---- names */

/* As strcmp(); a prefix comes first. */
static int compare_slices(struct text_slice a, struct text_slice b)
{
    int order = memcmp(a.text, b.text, a.length < b.length ? a.length : b.length);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

/* By name, then by line. */
static int compare_nodes(const void *a, const void *b)
{
    const struct pipedream_node *x = *(struct pipedream_node *const *)a;
    const struct pipedream_node *y = *(struct pipedream_node *const *)b;
    int order = compare_slices(x->id, y->id);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* The node called `id` that stands above `line`. */
static enum status find_node(const struct pipedream_text *t, struct pipedream_node *const *by_name,
                             struct text_slice id, size_t line, uint32_t *out)
{
    size_t low = 0, high = t->nodes; /* the answer is in [low, high) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_slices(id, by_name[middle]->id);
        if (order == 0) {
            if (by_name[middle]->line > line)
                return pipedream_error(
                    t->path, line, "edge before its node: node '%.*s' is declared only in line %zu",
                    (int)id.length, id.text, by_name[middle]->line);
            *out = (uint32_t)(by_name[middle] - t->node);
            return STATUS_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return pipedream_error(t->path, line, "the edge names an unknown node '%.*s'", (int)id.length,
                           id.text);
}

/* Fill in the ends of every edge. */
static enum status pipedream_import_resolve(struct pipedream_text *t)
{
    enum status st;
    struct pipedream_node **by_name = NULL;
    TRY(ARRAY_NEW(by_name, t->nodes));
    for (size_t i = 0; i < t->nodes; i++)
        by_name[i] = &t->node[i];
    qsort(by_name, t->nodes, sizeof *by_name, compare_nodes);
    for (size_t i = 1; i < t->nodes; i++) {
        struct text_slice id = by_name[i]->id;
        if (compare_slices(by_name[i - 1]->id, id) == 0) {
            st = pipedream_error(t->path, by_name[i]->line,
                                 "node '%.*s' is declared twice, first in line %zu", (int)id.length,
                                 id.text, by_name[i - 1]->line);
            goto out;
        }
    }
    for (size_t i = 0; i < t->edges; i++) {
        struct pipedream_edge *e = &t->edge[i];
        TRY(find_node(t, by_name, e->from_id, e->line, &e->from));
        TRY(find_node(t, by_name, e->to_id, e->line, &e->to));
    }
out:
    free(by_name);
    return st;
}

/* ---- shape of the graph */

/* By ends, then by line. */
static int compare_edges(const void *a, const void *b)
{
    const struct pipedream_edge *x = *(struct pipedream_edge *const *)a;
    const struct pipedream_edge *y = *(struct pipedream_edge *const *)b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

/* An edge that stands twice would be counted twice when a cut is priced. */
static enum status check_edges_differ(const struct pipedream_text *t)
{
    enum status st;
    struct pipedream_edge **sorted = NULL;
    TRY(ARRAY_NEW(sorted, t->edges));
    for (size_t i = 0; i < t->edges; i++)
        sorted[i] = &t->edge[i];
    qsort(sorted, t->edges, sizeof *sorted, compare_edges);
    for (size_t i = 1; i < t->edges; i++) {
        const struct pipedream_edge *a = sorted[i - 1], *b = sorted[i];
        if (a->from == b->from && a->to == b->to) {
            st = pipedream_error(t->path, b->line,
                                 "edge '%.*s -- %.*s' is declared twice, first in line %zu",
                                 (int)b->from_id.length, b->from_id.text, (int)b->to_id.length,
                                 b->to_id.text, a->line);
            goto out;
        }
    }
out:
    free(sorted);
    return st;
}

static enum status pipedream_import_check_acyclic(const struct pipedream_text *t,
                                                  const struct model_edge *edge)
{
    size_t cyclic;
    enum status st = edges_order(t->nodes, edge, t->edges, NULL, &cyclic);
    if (st != STATUS_OK || cyclic == t->edges)
        return st;
    const struct pipedream_edge *e = &t->edge[cyclic];
    return pipedream_error(t->path, e->line, "edge '%.*s -- %.*s' is part of a cycle",
                           (int)e->from_id.length, e->from_id.text, (int)e->to_id.length,
                           e->to_id.text);
}

/* ---- model */

/* Sources that stand for the input pipeline. */
static void find_inputs(const struct pipedream_text *t, bool *is_input)
{
    for (size_t i = 0; i < t->nodes; i++) {
        struct text_slice d = t->node[i].description;
        is_input[i] =
            d.length >= strlen(input_kind) && memcmp(d.text, input_kind, strlen(input_kind)) == 0;
    }
    for (size_t e = 0; e < t->edges; e++)
        is_input[t->edge[e].to] = false;
}

/* Sizes per sample; parameters are the same for every minibatch. */
static void pipedream_import_add_op(struct graph *g, const struct pipedream_node *node,
                                    bool is_input, double minibatch)
{
    char name[SLICE_LIMIT + 1], kind[SLICE_LIMIT + 1];
    int64_t output = llround(node->activation_bytes / minibatch);
    snprintf(name, sizeof name, "%.*s", (int)node->id.length, node->id.text);
    snprintf(kind, sizeof kind, "%.*s", (int)node->description.length, node->description.text);
    graph_add(g, &(struct graph_op){
                     .name = name,
                     .kind = is_input ? input_kind : kind,
                     .attribute = {{node->stage >= 0 ? "stage" : NULL, node->stage}},
                     .parameter_bytes = llround(node->parameter_bytes),
                     .shares = MODEL_NO_OP,
                     .stash_bytes = output,
                     .output_bytes = output,
                 });
}

/* In seconds; inputs load data and take no time, as in PipeDream's planner. */
static enum status pipedream_import_profile(struct graph *g, const struct pipedream_text *t,
                                            const bool *is_input, const struct import_options *o)
{
    enum status st;
    double *forward_s = NULL, *backward_s = NULL;
    TRY(ARRAY_NEW(forward_s, t->nodes));
    TRY(ARRAY_NEW(backward_s, t->nodes));
    for (size_t i = 0; i < t->nodes; i++) {
        forward_s[i] = is_input[i] ? 0 : t->node[i].forward_ms / 1e3;
        backward_s[i] = is_input[i] ? 0 : t->node[i].backward_ms / 1e3;
    }
    graph_profile(g, &(struct model_profile){.device = (char *)o->device,
                                             .samples = o->minibatch_size,
                                             .tensor_parallel = 1,
                                             .forward_s = forward_s,
                                             .backward_s = backward_s});
out:
    free(forward_s);
    free(backward_s);
    return st;
}

static enum status pipedream_import_build(const struct pipedream_text *t,
                                          const struct import_options *o, struct graph *g)
{
    enum status st;
    bool *is_input = NULL;
    TRY(pipedream_import_check_acyclic(t, g->edge));
    TRY(ARRAY_NEW(is_input, t->nodes));
    find_inputs(t, is_input);
    for (size_t i = 0; i < t->nodes; i++)
        pipedream_import_add_op(g, &t->node[i], is_input[i], o->minibatch_size);
    TRY(pipedream_import_profile(g, t, is_input, o));
out:
    free(is_input);
    return st;
}

enum status pipedream_read_model(const char *path, const char *text, size_t length,
                                 const struct import_options *o, struct model *out)
{
    enum status st;
    struct pipedream_text t = {0};
    struct graph g = {.model = {.element_bytes = 4}};
    char note[96];

    TRY(import_check_options(o));
    TRY(pipedream_text_parse(path, text, length, &t));
    if (t.nodes == 0) {
        st = pipedream_error(path, 1, "%s",
                             t.edges ? "the file has edges but no nodes" : "no node in the file");
        goto out;
    }
    TRY(pipedream_import_resolve(&t));
    TRY(check_edges_differ(&t));
    for (size_t e = 0; e < t.edges; e++)
        graph_connect(&g, t.edge[e].from, t.edge[e].to);
    TRY(g.status);
    TRY(pipedream_import_build(&t, o, &g));
    snprintf(note, sizeof note, "PipeDream profile, minibatch of %g samples", o->minibatch_size);
    TRY(graph_finish(&g, path, note, out));
out:
    graph_free(&g);
    pipedream_text_free(&t);
    return st;
}
