#include "model/placement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/components.h"
#include "model/graph.h"
#include "model/nodes.h"

enum { NOTE = 320 };

static const double max_ms = 1e18;

struct node {
    double cpu_ms, accelerator_ms, size, tensor; /* tensor: largest of its out-edges, bytes */
    int64_t colour;
    uint32_t group;
    bool coloured, backward, unsupported;
    bool fed, read; /* has in-edges; its output goes forward to another op */
    bool weights;   /* parameters that are a node of their own */
};

/* What a colour, or colours on a common cycle, come to. */
struct group {
    double forward_ms, backward_ms, cpu_forward_ms, cpu_backward_ms;
    double parameter_bytes, stash_bytes, output_bytes;
    uint32_t named_by; /* node */
    uint32_t op;       /* index in the graph */
    size_t nodes, backward_nodes;
};

struct work {
    struct nodes g;
    struct node *node;          /* [g.n] */
    double *edge_bytes;         /* [g.edges] */
    struct group *group;        /* [groups] */
    struct model_edge *arc;     /* [arcs] order between groups */
    double *forward, *backward; /* [groups] seconds by op */
    size_t groups, arcs, unsized, unsupported;
    bool weights_are_nodes;
};

static void work_free(struct work *w)
{
    nodes_free(&w->g);
    free(w->node);
    free(w->edge_bytes);
    free(w->group);
    free(w->arc);
    free(w->forward);
    free(w->backward);
}

/* ---- reading */

/* 0, 1, true or false. */
static enum status may_flag(const struct json_at *object, const char *key, bool *out)
{
    enum status st;
    struct json_at at;
    int64_t number;
    TRY(json_optional(object, key, &at));
    if (!at.value)
        return STATUS_OK;
    if (json_get_integer(&at, 0, 1, &number) == STATUS_OK)
        *out = number != 0;
    else
        TRY(json_get_bool(&at, out));
out:
    return st;
}

static enum status read_node(const struct json_at *at, struct node *v)
{
    enum status st;
    struct json_at colour;
    bool supported = true;
    TRY(json_need_real(at, "fpgaLatency", 0, max_ms, &v->accelerator_ms));
    TRY(json_may_real(at, "cpuLatency", 0, max_ms, &v->cpu_ms));
    TRY(json_may_real(at, "size", 0, nodes_max_bytes, &v->size));
    TRY(may_flag(at, "isBackwardNode", &v->backward));
    TRY(may_flag(at, "supportedOnFpga", &supported));
    v->unsupported = !supported;
    TRY(json_optional(at, "colorClass", &colour));
    v->coloured = colour.value != NULL;
    if (v->coloured)
        TRY(json_get_integer(&colour, INT64_MIN, INT64_MAX, &v->colour));
out:
    return st;
}

static enum status read_edge(struct work *w, size_t e)
{
    enum status st;
    struct json_at at = json_item(&w->g.edge_list, e), size;
    struct node *from = &w->node[w->g.edge[e].from], *to = &w->node[w->g.edge[e].to];
    if (from->backward && !to->backward)
        return json_error(&at, "a forward node reads what a backward node makes");
    TRY(json_optional(&at, "size", &size));
    if (size.value)
        TRY(json_get_real(&size, 0, nodes_max_bytes, &w->edge_bytes[e]));
    else
        w->unsized++;
    from->tensor = fmax(from->tensor, w->edge_bytes[e]);
    to->fed = true;
out:
    return st;
}

static enum status read_all(const struct json_at *root, struct work *w)
{
    enum status st;
    TRY(nodes_read(root, &w->g));
    w->node = calloc(w->g.n, sizeof *w->node);
    w->edge_bytes = calloc(w->g.edges + 1, sizeof *w->edge_bytes);
    w->arc = calloc(w->g.edges + 1, sizeof *w->arc);
    if (!w->node || !w->edge_bytes || !w->arc) {
        st = error_set(STATUS_NOMEM, "%zu nodes", w->g.n);
        goto out;
    }
    for (size_t v = 0; v < w->g.n; v++) {
        struct json_at at = json_item(&w->g.node_list, v);
        TRY(read_node(&at, &w->node[v]));
        w->unsupported += w->node[v].unsupported;
    }
    for (size_t e = 0; e < w->g.edges; e++)
        TRY(read_edge(w, e));
out:
    return st;
}

/* ---- groups: colours, then colours on a common cycle */

struct key {
    int64_t colour;
    uint32_t node;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->colour != y->colour)
        return x->colour < y->colour ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

static enum status group_by_colour(struct work *w)
{
    size_t n = w->g.n, coloured = 0;
    struct key *key = calloc(n, sizeof *key);
    if (!key)
        return error_set(STATUS_NOMEM, "%zu nodes", n);
    for (uint32_t v = 0; v < n; v++)
        if (w->node[v].coloured)
            key[coloured++] = (struct key){w->node[v].colour, v};
        else
            w->node[v].group = (uint32_t)w->groups++;
    qsort(key, coloured, sizeof *key, compare_keys);
    for (size_t i = 0; i < coloured; i++) {
        w->groups += i == 0 || key[i].colour != key[i - 1].colour;
        w->node[key[i].node].group = (uint32_t)(w->groups - 1);
    }
    free(key);
    return STATUS_OK;
}

/* Order between groups: forward edges as they are. A group that has no forward node takes its
 * place from what it reads of forward nodes and, mirrored, from edges between backward nodes:
 * gradients flow against the order. */
static void find_arcs(struct work *w, const bool *forward)
{
    w->arcs = 0;
    for (size_t e = 0; e < w->g.edges; e++) {
        const struct node *u = &w->node[w->g.edge[e].from], *v = &w->node[w->g.edge[e].to];
        if (u->group == v->group)
            continue;
        if (!u->backward && (!v->backward || !forward[v->group]))
            w->arc[w->arcs++] = (struct model_edge){u->group, v->group};
        else if (u->backward && (!forward[u->group] || !forward[v->group]))
            w->arc[w->arcs++] = (struct model_edge){v->group, u->group};
    }
}

/* Every node by itself, every edge an arc. */
static void keep_apart(struct work *w)
{
    w->groups = w->g.n;
    w->arcs = w->g.edges;
    for (uint32_t v = 0; v < w->g.n; v++)
        w->node[v].group = v;
    for (size_t e = 0; e < w->g.edges; e++)
        w->arc[e] = w->g.edge[e];
}

static enum status fuse_cycles(struct work *w)
{
    enum status st;
    size_t components;
    uint32_t *component = calloc(w->groups, sizeof *component);
    bool *forward = calloc(w->groups, sizeof *forward);
    if (!component || !forward) {
        st = error_set(STATUS_NOMEM, "%zu nodes", w->g.n);
        goto out;
    }
    for (size_t v = 0; v < w->g.n; v++)
        if (!w->node[v].backward)
            forward[w->node[v].group] = true;
    find_arcs(w, forward);
    TRY(components_find(w->groups, w->arc, w->arcs, component, &components));
    for (size_t v = 0; v < w->g.n; v++)
        w->node[v].group = component[w->node[v].group];
    size_t kept = 0;
    for (size_t a = 0; a < w->arcs; a++) {
        struct model_edge arc = {component[w->arc[a].from], component[w->arc[a].to]};
        if (arc.from != arc.to)
            w->arc[kept++] = arc;
    }
    w->arcs = kept;
    w->groups = components;
out:
    free(component);
    free(forward);
    return st;
}

/* ---- sums */

/* Sources that take no time and stand with other forward nodes in one colour are their weights. */
static void find_weights(struct work *w, const uint32_t *forward_nodes)
{
    for (size_t v = 0; v < w->g.n; v++) {
        struct node *x = &w->node[v];
        x->weights = !x->backward && !x->fed && x->size > 0 && x->accelerator_ms == 0 &&
                     x->cpu_ms == 0 && forward_nodes[x->group] > 1;
        w->weights_are_nodes = w->weights_are_nodes || x->weights;
    }
}

static void add_node(struct work *w, uint32_t v)
{
    const struct node *x = &w->node[v];
    struct group *g = &w->group[x->group];
    const struct node *name = &w->node[g->named_by];
    if (g->nodes == 0 || (name->backward && !x->backward) ||
        (name->backward == x->backward && x->accelerator_ms > name->accelerator_ms))
        g->named_by = v;
    g->nodes++;
    if (x->backward) {
        g->backward_nodes++;
        g->backward_ms += x->accelerator_ms;
        g->cpu_backward_ms += x->cpu_ms;
        return;
    }
    double kept = x->weights ? 0 : w->weights_are_nodes ? x->size : fmin(x->size, x->tensor);
    g->forward_ms += x->accelerator_ms;
    g->cpu_forward_ms += x->cpu_ms;
    g->stash_bytes += kept;
    g->parameter_bytes += x->size - kept;
    if (x->read)
        g->output_bytes += x->tensor;
}

static void add_node_apart(struct work *w, uint32_t v)
{
    const struct node *x = &w->node[v];
    struct group *g = &w->group[v];
    *g = (struct group){.named_by = v,
                        .nodes = 1,
                        .backward_nodes = x->backward,
                        .parameter_bytes = x->size,
                        .output_bytes = x->tensor};
    *(x->backward ? &g->backward_ms : &g->forward_ms) = x->accelerator_ms;
    *(x->backward ? &g->cpu_backward_ms : &g->cpu_forward_ms) = x->cpu_ms;
}

static enum status check_sums(const struct work *w)
{
    for (size_t k = 0; k < w->groups; k++) {
        const struct group *g = &w->group[k];
        struct json_at node = json_item(&w->g.node_list, g->named_by);
        if (!(g->parameter_bytes <= nodes_max_bytes && g->stash_bytes <= nodes_max_bytes &&
              g->output_bytes <= nodes_max_bytes))
            return json_error(&node, "this node and those of its colour hold more than %g bytes",
                              nodes_max_bytes);
    }
    return STATUS_OK;
}

static enum status sum_up(struct work *w, bool apart)
{
    enum status st;
    uint32_t *forward_nodes = calloc(w->groups, sizeof *forward_nodes);
    w->group = calloc(w->groups, sizeof *w->group);
    w->forward = calloc(w->groups, sizeof *w->forward);
    w->backward = calloc(w->groups, sizeof *w->backward);
    if (!forward_nodes || !w->group || !w->forward || !w->backward) {
        st = error_set(STATUS_NOMEM, "%zu nodes", w->g.n);
        goto out;
    }
    for (size_t v = 0; v < w->g.n; v++)
        forward_nodes[w->node[v].group] += !w->node[v].backward;
    find_weights(w, forward_nodes);
    for (size_t e = 0; e < w->g.edges; e++) {
        struct node *u = &w->node[w->g.edge[e].from], *v = &w->node[w->g.edge[e].to];
        if (u->group != v->group && !u->backward && (!v->backward || forward_nodes[v->group] == 0))
            u->read = true;
    }
    for (uint32_t v = 0; v < w->g.n; v++)
        (apart ? add_node_apart : add_node)(w, v);
    TRY(check_sums(w));
out:
    free(forward_nodes);
    return st;
}

/* ---- the model */

static int compare_arcs(const void *a, const void *b)
{
    const struct model_edge *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

/* Ops in the order of the nodes that name them, edges without repetition. */
static void add_ops(struct work *w, double minibatch, struct graph *g)
{
    for (uint32_t v = 0; v < w->g.n; v++) {
        struct group *x = &w->group[w->node[v].group];
        if (x->named_by != v)
            continue;
        int64_t output = llround(x->output_bytes / minibatch);
        int64_t stash = llround(x->stash_bytes / minibatch);
        x->op = graph_add(g, &(struct graph_op){
                                 .name = w->g.name[v],
                                 .kind = "nodes",
                                 .attribute = {{"nodes", (int64_t)x->nodes},
                                               {"backward_nodes", (int64_t)x->backward_nodes}},
                                 .parameter_bytes = llround(x->parameter_bytes),
                                 .shares = MODEL_NO_OP,
                                 .stash_bytes = stash > output ? stash : output,
                                 .output_bytes = output,
                             });
    }
    for (size_t a = 0; a < w->arcs; a++)
        w->arc[a] = (struct model_edge){w->group[w->arc[a].from].op, w->group[w->arc[a].to].op};
    qsort(w->arc, w->arcs, sizeof *w->arc, compare_arcs);
    for (size_t a = 0; a < w->arcs; a++)
        if (a == 0 || compare_arcs(&w->arc[a - 1], &w->arc[a]) != 0)
            graph_connect(g, w->arc[a].from, w->arc[a].to);
}

static void add_profile(struct work *w, const char *device, bool cpu, double samples,
                        struct graph *g)
{
    for (size_t k = 0; k < w->groups; k++) {
        const struct group *x = &w->group[k];
        w->forward[x->op] = (cpu ? x->cpu_forward_ms : x->forward_ms) / 1e3;
        w->backward[x->op] = (cpu ? x->cpu_backward_ms : x->backward_ms) / 1e3;
    }
    graph_profile(g, &(struct model_profile){.device = (char *)device,
                                             .samples = samples,
                                             .tensor_parallel = 1,
                                             .forward_s = w->forward,
                                             .backward_s = w->backward});
}

static void describe(const struct work *w, const struct import_options *o, char note[NOTE])
{
    size_t backward = 0;
    bool with_cpu = o->device != NULL;
    if (o->nodes_apart) {
        snprintf(note, NOTE, "dnn-partitioning graph, an op per node, sizes as parameters");
        return;
    }
    for (size_t v = 0; v < w->g.n; v++)
        backward += w->node[v].backward;
    int used = snprintf(note, NOTE,
                        "dnn-partitioning graph, %zu nodes in %zu ops (one per colour, %zu "
                        "backward nodes folded in); left out: edge costs, device limits%s%s",
                        w->g.n, w->groups, backward, with_cpu ? "" : ", CPU latencies",
                        backward ? ", sizes of backward nodes" : "; forward times only");
    if (w->unsized)
        used += snprintf(note + used, (size_t)(NOTE - used), "; %zu edges have no size: 0 bytes",
                         w->unsized);
    if (w->unsupported)
        snprintf(note + used, (size_t)(NOTE - used),
                 "; %zu nodes may not be on accelerators: not expressed", w->unsupported);
}

bool placement_recognises(const struct json_at *root)
{
    struct json_at nodes, node, field;
    size_t n;
    if (json_optional(root, "nodes", &nodes) != STATUS_OK || !nodes.value)
        return false;
    if (json_optional(root, "maxFPGAs", &field) == STATUS_OK && field.value)
        return true;
    if (json_get_array(&nodes, SIZE_MAX, &n) != STATUS_OK || n == 0)
        return false;
    node = json_item(&nodes, 0);
    return json_optional(&node, "fpgaLatency", &field) == STATUS_OK && field.value;
}

enum status placement_read_model(const struct json_at *root, const struct import_options *o,
                                 struct model *out)
{
    enum status st;
    struct work w = {0};
    struct graph g = {.model = {.element_bytes = o->nodes_apart ? 1 : 4}};
    char note[NOTE];
    bool with_cpu = o->device != NULL; /* an unnamed profile would speak for CPUs as well */
    TRY(nodes_check_minibatch(o->minibatch_size));
    TRY(read_all(root, &w));
    if (o->nodes_apart) {
        keep_apart(&w);
    } else {
        TRY(group_by_colour(&w));
        TRY(fuse_cycles(&w));
    }
    TRY(sum_up(&w, o->nodes_apart));
    add_ops(&w, o->minibatch_size, &g);
    add_profile(&w, o->device, false, o->minibatch_size, &g);
    if (with_cpu)
        add_profile(&w, "cpu", true, o->minibatch_size, &g);
    describe(&w, o, note);
    TRY(graph_finish(&g, root->document->path, note, out));
out:
    graph_free(&g);
    work_free(&w);
    return st;
}
