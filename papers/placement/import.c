/* The importer of dnn-partitioning's JSON: one op per colour of nodes.
 *
 * Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS
 * 2020) publish layer and operator graphs: {"nodes": [{"id", "name", "cpuLatency", "fpgaLatency",
 * "size", "isBackwardNode", "colorClass"}], "edges": [{"sourceId", "destId", "cost", "size"}]},
 * latencies in ms, sizes in bytes. Only id and fpgaLatency are needed here.
 *
 * Nodes of one colour share a device, so a colour becomes one op, cycles among colours too; its
 * backward nodes are the op's backward time, its most expensive forward node names it. Colours
 * without a forward node stand where the mirrored edges of their backward nodes put them. Sizes of
 * backward nodes, edge costs and device limits are left out. A model.note says what was done.
 * O((nodes + edges) log (nodes + edges)); *out is untouched on failure. STATUS_PARSE with
 * path:line:column, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
#include "papers/common/importers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/data/edges.h"
#include "model/graph.h"
#include "papers/graphs/nodes.h"

enum { NOTE = 320 };

/* What follows from the file about a node. */
struct placement_node {
    struct nodes_latency is; /* as the file says */
    double tensor;           /* largest of its out-edges, bytes */
    uint32_t group;
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

struct placement_import {
    struct graph_nodes g;
    char **name;                 /* [g.n] */
    struct placement_node *node; /* [g.n] */
    double *edge_bytes;          /* [g.edges] */
    struct group *group;         /* [groups] */
    struct model_edge *arc;      /* [arcs] order between groups */
    double *forward, *backward;  /* [groups] seconds by op */
    size_t groups, arcs, unsized, unsupported;
    bool weights_are_nodes;
    struct arena memory;
};

/* ---- reading */

/* An edge without a size carries nothing; the note counts them. */
static enum status read_edge(struct placement_import *w, size_t e)
{
    struct json_at at = json_item(&w->g.edge_list, e), size;
    struct placement_node *from = &w->node[w->g.edge[e].from], *to = &w->node[w->g.edge[e].to];
    if (from->is.backward && !to->is.backward)
        return json_error(&at, "a forward node reads the output of a backward node");
    PASS(json_optional(&at, "size", &size));
    if (size.value)
        PASS(json_get_real(&size, 0, nodes_max_bytes, &w->edge_bytes[e]));
    else
        w->unsized++;
    from->tensor = fmax(from->tensor, w->edge_bytes[e]);
    to->fed = true;
    return STATUS_OK;
}

static enum status placement_import_read_all(const struct json_at *root, struct placement_import *w)
{
    struct nodes_latency *latency;
    PASS(nodes_read(root, MODEL_MAX_OPS, 16 * (size_t)MODEL_MAX_OPS, &w->g));
    PASS(nodes_check_edges(&w->g));
    PASS(nodes_name(&w->g, &w->name));
    PASS(nodes_check_acyclic(&w->g, w->name));
    PASS(ARENA_NEW(&w->memory, latency, w->g.n));
    PASS(ARENA_NEW(&w->memory, w->node, w->g.n));
    PASS(ARENA_NEW(&w->memory, w->edge_bytes, w->g.edges));
    PASS(ARENA_NEW(&w->memory, w->arc, w->g.edges));
    PASS(nodes_read_latencies(&w->g, latency, &w->groups));
    for (size_t v = 0; v < w->g.n; v++) {
        w->node[v] = (struct placement_node){.is = latency[v], .group = latency[v].colour};
        w->unsupported += !latency[v].supported;
    }
    for (size_t e = 0; e < w->g.edges; e++)
        PASS(read_edge(w, e));
    return STATUS_OK;
}

/* ---- groups: colours, then colours on a common cycle */

/* Order between groups: forward edges as they are. A group that has no forward node takes its
 * place from what it reads of forward nodes and, mirrored, from edges between backward nodes:
 * gradients flow against the order. */
static void find_arcs(struct placement_import *w, const bool *forward)
{
    w->arcs = 0;
    for (size_t e = 0; e < w->g.edges; e++) {
        const struct placement_node *u = &w->node[w->g.edge[e].from],
                                    *v = &w->node[w->g.edge[e].to];
        if (u->group == v->group)
            continue;
        if (!u->is.backward && (!v->is.backward || !forward[v->group]))
            w->arc[w->arcs++] = (struct model_edge){u->group, v->group};
        else if (u->is.backward && (!forward[u->group] || !forward[v->group]))
            w->arc[w->arcs++] = (struct model_edge){v->group, u->group};
    }
}

/* Every node by itself, every edge an arc. */
static void keep_apart(struct placement_import *w)
{
    w->groups = w->g.n;
    w->arcs = w->g.edges;
    for (uint32_t v = 0; v < w->g.n; v++)
        w->node[v].group = v;
    for (size_t e = 0; e < w->g.edges; e++)
        w->arc[e] = w->g.edge[e];
}

/* Colours on a common cycle cannot be ordered, so they become one op: (1) arcs between the colours;
 * (2) strongly connected components; (3) components are the groups, arcs inside them vanish. */
static enum status fuse_cycles(struct placement_import *w)
{
    size_t components, kept = 0;
    uint32_t *component;
    bool *forward;
    PASS(ARENA_NEW(&w->memory, component, w->groups));
    PASS(ARENA_NEW(&w->memory, forward, w->groups));
    for (size_t v = 0; v < w->g.n; v++)
        if (!w->node[v].is.backward)
            forward[w->node[v].group] = true;
    find_arcs(w, forward);
    PASS(edges_components(w->groups, w->arc, w->arcs, component, &components));
    for (size_t v = 0; v < w->g.n; v++)
        w->node[v].group = component[w->node[v].group];
    for (size_t a = 0; a < w->arcs; a++) {
        struct model_edge arc = {component[w->arc[a].from], component[w->arc[a].to]};
        if (arc.from != arc.to)
            w->arc[kept++] = arc;
    }
    w->arcs = kept;
    w->groups = components;
    return STATUS_OK;
}

/* ---- sums */

/* Sources that take no time and stand with other forward nodes in one colour are their weights. */
static void find_weights(struct placement_import *w, const uint32_t *forward_nodes)
{
    for (size_t v = 0; v < w->g.n; v++) {
        struct placement_node *x = &w->node[v];
        x->weights = !x->is.backward && !x->fed && x->is.size > 0 && x->is.accelerator_ms == 0 &&
                     x->is.cpu_ms == 0 && forward_nodes[x->group] > 1;
        w->weights_are_nodes = w->weights_are_nodes || x->weights;
    }
}

/* A group is named by its most expensive forward node. Of a node's size, as much as its output
 * tensor is stashed, the rest are parameters; where parameters are nodes of their own, all of it
 * is stashed. */
static void placement_import_add_node(struct placement_import *w, uint32_t v)
{
    const struct placement_node *x = &w->node[v];
    struct group *g = &w->group[x->group];
    const struct placement_node *name = &w->node[g->named_by];
    if (g->nodes == 0 || (name->is.backward && !x->is.backward) ||
        (name->is.backward == x->is.backward && x->is.accelerator_ms > name->is.accelerator_ms))
        g->named_by = v;
    g->nodes++;
    if (x->is.backward) {
        g->backward_nodes++;
        g->backward_ms += x->is.accelerator_ms;
        g->cpu_backward_ms += x->is.cpu_ms;
        return;
    }
    double kept = x->weights ? 0 : w->weights_are_nodes ? x->is.size : fmin(x->is.size, x->tensor);
    g->forward_ms += x->is.accelerator_ms;
    g->cpu_forward_ms += x->is.cpu_ms;
    g->stash_bytes += kept;
    g->parameter_bytes += x->is.size - kept;
    if (x->read)
        g->output_bytes += x->tensor;
}

static void add_node_apart(struct placement_import *w, uint32_t v)
{
    const struct placement_node *x = &w->node[v];
    struct group *g = &w->group[v];
    *g = (struct group){.named_by = v,
                        .nodes = 1,
                        .backward_nodes = x->is.backward,
                        .parameter_bytes = x->is.size,
                        .output_bytes = x->tensor};
    *(x->is.backward ? &g->backward_ms : &g->forward_ms) = x->is.accelerator_ms;
    *(x->is.backward ? &g->cpu_backward_ms : &g->cpu_forward_ms) = x->is.cpu_ms;
}

/* Sums of a colour have to fit a model as well. */
static enum status placement_import_check_sums(const struct placement_import *w)
{
    for (size_t k = 0; k < w->groups; k++) {
        const struct group *g = &w->group[k];
        struct json_at node = json_item(&w->g.node_list, g->named_by);
        if (!(g->parameter_bytes <= nodes_max_bytes && g->stash_bytes <= nodes_max_bytes &&
              g->output_bytes <= nodes_max_bytes))
            return json_error(
                &node, "this node and all nodes with the same colorClass hold more than %g bytes",
                nodes_max_bytes);
    }
    return STATUS_OK;
}

/* Steps: (1) which nodes are weights; (2) which outputs leave their group; (3) sums of every
 * group. */
static enum status sum_up(struct placement_import *w, bool apart)
{
    uint32_t *forward_nodes;
    PASS(ARENA_NEW(&w->memory, forward_nodes, w->groups));
    PASS(ARENA_NEW(&w->memory, w->group, w->groups));
    PASS(ARENA_NEW(&w->memory, w->forward, w->groups));
    PASS(ARENA_NEW(&w->memory, w->backward, w->groups));
    for (size_t v = 0; v < w->g.n; v++)
        forward_nodes[w->node[v].group] += !w->node[v].is.backward;
    find_weights(w, forward_nodes);
    for (size_t e = 0; e < w->g.edges; e++) {
        struct placement_node *u = &w->node[w->g.edge[e].from], *v = &w->node[w->g.edge[e].to];
        if (u->group != v->group && !u->is.backward &&
            (!v->is.backward || forward_nodes[v->group] == 0))
            u->read = true;
    }
    for (uint32_t v = 0; v < w->g.n; v++)
        (apart ? add_node_apart : placement_import_add_node)(w, v);
    PASS(placement_import_check_sums(w));
    return STATUS_OK;
}

/* ---- the model */

/* Ops in the order of the nodes that name them, edges without repetition. */
static void placement_import_add_ops(struct placement_import *w, double minibatch, struct graph *g)
{
    for (uint32_t v = 0; v < w->g.n; v++) {
        struct group *x = &w->group[w->node[v].group];
        if (x->named_by != v)
            continue;
        int64_t output = llround(x->output_bytes / minibatch);
        int64_t stash = llround(x->stash_bytes / minibatch);
        x->op = graph_add(g, &(struct graph_op){
                                 .name = w->name[v],
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
    qsort(w->arc, w->arcs, sizeof *w->arc, edges_compare);
    for (size_t a = 0; a < w->arcs; a++)
        if (a == 0 || edges_compare(&w->arc[a - 1], &w->arc[a]) != 0)
            graph_connect(g, w->arc[a].from, w->arc[a].to);
}

/* Times in seconds, of the accelerator or of the CPU. */
static void placement_import_add_profile(struct placement_import *w, const char *device, bool cpu,
                                         double samples, struct graph *g)
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

/* What was folded or left out, for the model's note. */
static void placement_import_describe(const struct placement_import *w,
                                      const struct import_options *o, char note[NOTE])
{
    size_t backward = 0;
    bool with_cpu = o->device != NULL;
    if (o->nodes_apart) {
        snprintf(note, NOTE, "dnn-partitioning graph, an op per node, sizes as parameters");
        return;
    }
    for (size_t v = 0; v < w->g.n; v++)
        backward += w->node[v].is.backward;
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
                 "; %zu nodes may not be on accelerators, which the model cannot express",
                 w->unsupported);
}

static enum status tell_members(struct placement_import *w, const struct import_options *o)
{
    uint32_t *named_by;
    PASS(ARENA_NEW(&w->memory, named_by, w->g.n));
    for (size_t v = 0; v < w->g.n; v++)
        named_by[v] = w->group[w->node[v].group].named_by;
    return nodes_tell_members(o, &w->g, w->name, named_by);
}

/* Steps: (1) nodes and edges; (2) groups: colours, cycles of colours fused; (3) sums; (4) ops,
 * edges and profiles; (5) the note. */
enum status placement_read_model(const struct json_at *root, const struct import_options *o,
                                 struct model *out)
{
    enum status st;
    struct placement_import w = {0};
    struct graph g = {.model = {.element_bytes = o->nodes_apart ? 1 : 4}};
    char note[NOTE];
    bool with_cpu = o->device != NULL; /* an unnamed profile would speak for CPUs as well */
    TRY(import_check_options(o));
    TRY(placement_import_read_all(root, &w));
    if (o->nodes_apart)
        keep_apart(&w);
    else
        TRY(fuse_cycles(&w));
    TRY(sum_up(&w, o->nodes_apart));
    placement_import_add_ops(&w, o->minibatch_size, &g);
    placement_import_add_profile(&w, o->device, false, o->minibatch_size, &g);
    if (with_cpu)
        placement_import_add_profile(&w, "cpu", true, o->minibatch_size, &g);
    placement_import_describe(&w, o, note);
    TRY(tell_members(&w, o));
    TRY(graph_finish(&g, root->document->path, note, out));
out:
    graph_free(&g);
    nodes_free(&w.g);
    arena_free(&w.memory);
    return st;
}
