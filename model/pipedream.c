#include "model/pipedream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/graph.h"
#include "model/pipedream_text.h"

static const char input_kind[] = "Input";

/* ---- names */

static int compare_slices(struct slice a, struct slice b)
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
                             struct slice id, size_t line, uint32_t *out)
{
    size_t low = 0, high = t->nodes; /* the answer is in [low, high) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_slices(id, by_name[middle]->id);
        if (order == 0) {
            if (by_name[middle]->line > line)
                return pipedream_error(t->path, line,
                                       "edge before its node: '%.*s' is declared in line %zu",
                                       (int)id.length, id.text, by_name[middle]->line);
            *out = (uint32_t)(by_name[middle] - t->node);
            return STATUS_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return pipedream_error(t->path, line, "edge with unknown node '%.*s'", (int)id.length, id.text);
}

/* Fill in the ends of every edge. */
static enum status resolve(struct pipedream_text *t)
{
    enum status st = STATUS_OK;
    struct pipedream_node **by_name = malloc(t->nodes * sizeof *by_name);
    if (!by_name)
        return error_set(STATUS_NOMEM, "%s: %zu nodes", t->path, t->nodes);
    for (size_t i = 0; i < t->nodes; i++)
        by_name[i] = &t->node[i];
    qsort(by_name, t->nodes, sizeof *by_name, compare_nodes);
    for (size_t i = 1; i < t->nodes; i++) {
        struct slice id = by_name[i]->id;
        if (compare_slices(by_name[i - 1]->id, id) == 0) {
            st = pipedream_error(t->path, by_name[i]->line, "node '%.*s' twice, first in line %zu",
                                 (int)id.length, id.text, by_name[i - 1]->line);
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

static enum status check_edges_differ(const struct pipedream_text *t)
{
    enum status st = STATUS_OK;
    struct pipedream_edge **sorted = malloc((t->edges + 1) * sizeof *sorted);
    if (!sorted)
        return error_set(STATUS_NOMEM, "%s: %zu edges", t->path, t->edges);
    for (size_t i = 0; i < t->edges; i++)
        sorted[i] = &t->edge[i];
    qsort(sorted, t->edges, sizeof *sorted, compare_edges);
    for (size_t i = 1; i < t->edges; i++) {
        const struct pipedream_edge *a = sorted[i - 1], *b = sorted[i];
        if (a->from == b->from && a->to == b->to) {
            st = pipedream_error(t->path, b->line, "edge '%.*s -- %.*s' twice, first in line %zu",
                                 (int)b->from_id.length, b->from_id.text, (int)b->to_id.length,
                                 b->to_id.text, a->line);
            goto out;
        }
    }
out:
    free(sorted);
    return st;
}

/* Name one edge of a cycle; waiting[i] > 0 for the nodes that no order can place. */
static enum status cycle_error(const struct pipedream_text *t, const size_t *waiting, size_t *via)
{
    size_t at = 0;
    for (size_t e = 0; e < t->edges; e++) { /* via[i]: an edge to i from another such node */
        if (waiting[t->edge[e].from] > 0 && waiting[t->edge[e].to] > 0)
            via[t->edge[e].to] = e;
    }
    while (waiting[at] == 0)
        at++;
    for (size_t step = 0; step < t->nodes; step++) /* backwards: n steps lead into a cycle */
        at = t->edge[via[at]].from;
    const struct pipedream_edge *e = &t->edge[via[at]];
    return pipedream_error(t->path, e->line, "edge '%.*s -- %.*s' is part of a cycle",
                           (int)e->from_id.length, e->from_id.text, (int)e->to_id.length,
                           e->to_id.text);
}

/* Kahn's algorithm: take nodes whose producers have all been taken. */
static enum status check_acyclic(const struct pipedream_text *t)
{
    enum status st = STATUS_OK;
    size_t n = t->nodes, ready = 0;
    size_t *waiting = calloc(n, sizeof *waiting), *stack = calloc(n, sizeof *stack);
    size_t *start = calloc(n + 2, sizeof *start); /* CSR of consumers, one entry ahead */
    size_t *consumer = calloc(t->edges + 1, sizeof *consumer);
    if (!waiting || !stack || !start || !consumer) {
        st = error_set(STATUS_NOMEM, "%s: %zu nodes", t->path, n);
        goto out;
    }
    for (size_t e = 0; e < t->edges; e++) {
        waiting[t->edge[e].to]++;
        start[t->edge[e].from + 2]++;
    }
    for (size_t i = 0; i < n; i++)
        start[i + 2] += start[i + 1];
    for (size_t e = 0; e < t->edges; e++)
        consumer[start[t->edge[e].from + 1]++] = t->edge[e].to;

    size_t taken = 0;
    for (size_t i = 0; i < n; i++) {
        if (waiting[i] == 0)
            stack[ready++] = i;
    }
    for (; ready > 0; taken++) {
        size_t i = stack[--ready];
        for (size_t k = start[i]; k < start[i + 1]; k++) {
            if (--waiting[consumer[k]] == 0)
                stack[ready++] = consumer[k];
        }
    }
    if (taken < n)
        st = cycle_error(t, waiting, stack);
out:
    free(consumer);
    free(start);
    free(stack);
    free(waiting);
    return st;
}

/* ---- model */

/* Sources that stand for the input pipeline. */
static void find_inputs(const struct pipedream_text *t, bool *is_input)
{
    for (size_t i = 0; i < t->nodes; i++) {
        struct slice d = t->node[i].description;
        is_input[i] =
            d.length >= strlen(input_kind) && memcmp(d.text, input_kind, strlen(input_kind)) == 0;
    }
    for (size_t e = 0; e < t->edges; e++)
        is_input[t->edge[e].to] = false;
}

static void add_op(struct graph *g, const struct pipedream_node *node, bool is_input,
                   double minibatch)
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

/* Attach the measured times as the model's only profile. */
static enum status add_profile(struct model *m, const struct pipedream_text *t,
                               const bool *is_input, const struct import_options *o)
{
    struct model_profile *p = m->profile = calloc(1, sizeof *p);
    if (!p)
        return error_set(STATUS_NOMEM, "%s: profile", t->path);
    const char *device = o->device ? o->device : "";
    m->profiles = 1;
    p->samples = o->minibatch_size;
    p->tensor_parallel = 1;
    p->device = malloc(strlen(device) + 1);
    p->forward_s = calloc(t->nodes, sizeof *p->forward_s);
    p->backward_s = calloc(t->nodes, sizeof *p->backward_s);
    if (!p->device || !p->forward_s || !p->backward_s)
        return error_set(STATUS_NOMEM, "%s: profile of %zu nodes", t->path, t->nodes);
    strcpy(p->device, device);
    for (size_t i = 0; i < t->nodes; i++) {
        p->forward_s[i] = is_input[i] ? 0 : t->node[i].forward_ms / 1e3;
        p->backward_s[i] = is_input[i] ? 0 : t->node[i].backward_ms / 1e3;
    }
    return STATUS_OK;
}

static enum status build(const struct pipedream_text *t, const struct import_options *o,
                         struct model *out)
{
    enum status st = STATUS_OK;
    struct graph g = {.model = {.element_bytes = 4}};
    bool *is_input = calloc(t->nodes, sizeof *is_input);
    if (!is_input) {
        st = error_set(STATUS_NOMEM, "%s: %zu nodes", t->path, t->nodes);
        goto out;
    }
    find_inputs(t, is_input);
    for (size_t i = 0; i < t->nodes; i++)
        add_op(&g, &t->node[i], is_input[i], o->minibatch_size);
    for (size_t e = 0; e < t->edges; e++)
        graph_connect(&g, t->edge[e].from, t->edge[e].to);
    if (g.status == STATUS_OK)
        g.status = add_profile(&g.model, t, is_input, o);
    char note[96];
    snprintf(note, sizeof note, "PipeDream profile, minibatch of %g samples", o->minibatch_size);
    TRY(graph_finish(&g, t->path, note, out));
out:
    free(is_input);
    graph_free(&g);
    return st;
}

bool pipedream_recognises(const char *text, size_t length)
{
    static const char mark[] = " -- ";
    const char *newline = memchr(text, '\n', length);
    size_t n = newline ? (size_t)(newline - text) : length;
    for (size_t i = 0; i + sizeof mark - 1 <= n; i++) {
        if (memcmp(text + i, mark, sizeof mark - 1) == 0)
            return true;
    }
    return false;
}

enum status pipedream_parse(const char *path, const char *text, size_t length,
                            const struct import_options *o, struct model *out)
{
    enum status st = STATUS_OK;
    struct pipedream_text t = {0};

    if (!(o->minibatch_size >= 1 && isfinite(o->minibatch_size)))
        return error_set(STATUS_INVALID, "minibatch size %g: at least 1 sample is needed",
                         o->minibatch_size);
    TRY(pipedream_text_parse(path, text, length, &t));
    if (t.nodes == 0) {
        st = pipedream_error(path, 1, "%s", t.edges ? "edges but no node" : "no node in the file");
        goto out;
    }
    TRY(resolve(&t));
    TRY(check_edges_differ(&t));
    TRY(check_acyclic(&t));
    TRY(build(&t, o, out));
out:
    pipedream_text_free(&t);
    return st;
}
