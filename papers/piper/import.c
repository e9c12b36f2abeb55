/* The importer of Piper's JSON: one op per node, one profile per tensor-parallel degree.
 *
 * Piper (Tarnawski et al., NeurIPS 2021) lists for every node and tensor-parallel degree its
 * configurations: {"nodes": [{"id", "name", "TMPCs": {"1": [{"id", "timePerSample",
 * "parameterSize", "memoryUsageA", "memoryUsageB"}]}}], "edges": [{"sourceId", "destId",
 * "communicationCost"}]}, times in seconds per sample, sizes in bytes.
 *
 * A node becomes an op, and every degree that all nodes have becomes a profile of the fastest
 * configurations. What a configuration that stashes less takes longer is one more forward pass, so
 * it tells forward from backward time; without one, a third of the time is forward. Sizes are those
 * of degree 1 (of the least degree, times it, where that is missing). memoryUsageB, synchronisation
 * bytes and the limits of devices are left out; model.note says what was done.
 * O((nodes + edges) log (nodes + edges)); *out is untouched on failure. STATUS_PARSE with
 * path:line:column, STATUS_INVALID (minibatch_size < 1), STATUS_NOMEM. */
#include "core/base/order.h"
#include "papers/common/importers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/data/edges.h"
#include "model/graph.h"
#include "papers/graphs/nodes.h"

enum { DEGREES = 32, MAX_DEGREE = 65536, MAX_CONFIGS = 64, NOTE = 320 };

static const double rounding = 1e-9;

/* A node at one degree: times of its fastest configuration. */
struct times {
    double forward_s, backward_s;
};

struct piper_import {
    struct graph_nodes g;
    char **name; /* [g.n] */
    size_t degrees;
    uint32_t degree[DEGREES]; /* [degrees] of the first node, ascending */
    size_t missing[DEGREES];  /* nodes that cannot run at that degree */
    struct times *times;      /* [g.n * degrees] */
    double *parameter_bytes, *stash_bytes, *output_bytes; /* [g.n] */
    double *forward, *backward;                           /* [g.n] */
    size_t guessed; /* configurations whose forward share is not in the file */
    struct arena memory;
};

/* ---- configurations */

struct config {
    double time_s, parameter_bytes, stash_bytes;
};

static const struct json_row config_rows[] = {
    {"timePerSample", JSON_MEMBER(struct config, time_s), FIELD_NEED, .max = 1e15},
    {"parameterSize", JSON_MEMBER(struct config, parameter_bytes), FIELD_NEED, .max = 1e14},
    {"memoryUsageA", JSON_MEMBER(struct config, stash_bytes), FIELD_NEED, .max = 1e14},
    {0},
};

/* The fastest configuration of a list, and what the forward pass takes: the difference to one that
 * stashes less and therefore runs forward twice. */
static enum status piper_import_read_list(const struct json_at *list, struct config *plain,
                                          struct times *times, bool *guessed)
{
    struct config c[MAX_CONFIGS], best, recompute;
    size_t n;
    PASS(json_get_array(list, MAX_CONFIGS, &n));
    if (n == 0)
        return json_error(list, "an empty list of configurations");
    for (size_t i = 0; i < n; i++) {
        struct json_at at = json_item(list, i);
        PASS(json_rows_read(&at, config_rows, &c[i]));
    }
    best = recompute = c[0];
    for (size_t i = 1; i < n; i++) {
        if (c[i].time_s < best.time_s)
            best = c[i];
        if (c[i].stash_bytes < recompute.stash_bytes)
            recompute = c[i];
    }
    double forward = recompute.time_s - best.time_s;
    *guessed = !(recompute.stash_bytes < best.stash_bytes && forward > 0 &&
                 forward <= best.time_s * (1 + rounding));
    forward = *guessed ? best.time_s / 3 : fmin(forward, best.time_s);
    *times = (struct times){forward, best.time_s - forward};
    *plain = best;
    return STATUS_OK;
}

/* Only degrees of the first node can be degrees of all. */
static enum status piper_import_read_degrees(struct piper_import *w)
{
    struct json_at node = json_item(&w->g.node_list, 0), lists;
    PASS(json_field(&node, "TMPCs", &lists));
    size_t n = json_members(&lists);
    if (n > DEGREES)
        return json_error(&lists, "more than %d tensor-parallel degrees", DEGREES);
    for (struct json_at list = json_first(&lists); list.key; list = json_next(&list)) {
        PASS(nodes_degree(&list, MAX_DEGREE, &w->degree[w->degrees]));
        w->degrees++;
    }
    qsort(w->degree, w->degrees, sizeof *w->degree, order_by_id);
    return STATUS_OK;
}

/* Sizes come from the least degree, times it; times from every degree that the first node has. */
static enum status piper_import_read_node(struct piper_import *w, size_t v)
{
    struct json_at node = json_item(&w->g.node_list, v), lists;
    uint32_t least = MAX_DEGREE + 1;
    bool found[DEGREES] = {false};
    PASS(json_field(&node, "TMPCs", &lists));
    size_t n = json_members(&lists);
    if (n == 0)
        return json_error(&lists, "a node needs at least one configuration");
    for (struct json_at list = json_first(&lists); list.key; list = json_next(&list)) {
        struct config c = {0};
        struct times times = {0};
        uint32_t degree;
        bool guessed = false;
        PASS(nodes_degree(&list, MAX_DEGREE, &degree));
        PASS(piper_import_read_list(&list, &c, &times, &guessed));
        if (degree < least) {
            least = degree;
            w->parameter_bytes[v] = c.parameter_bytes * degree;
            w->stash_bytes[v] = c.stash_bytes * degree;
        }
        for (size_t t = 0; t < w->degrees; t++)
            if (w->degree[t] == degree) {
                w->times[v * w->degrees + t] = times;
                w->guessed += guessed && times.forward_s > 0;
                found[t] = true;
            }
    }
    for (size_t t = 0; t < w->degrees; t++)
        w->missing[t] += !found[t];
    if (w->parameter_bytes[v] > nodes_max_bytes || w->stash_bytes[v] > nodes_max_bytes)
        return json_error(&node, "this node has parameters or activations of more than %g bytes",
                          nodes_max_bytes);
    return STATUS_OK;
}

/* The output of a node is its largest out-edge: they all carry the same tensor. */
static enum status piper_import_read_all(const struct json_at *root, struct piper_import *w)
{
    PASS(nodes_read(root, MODEL_MAX_OPS, 16 * (size_t)MODEL_MAX_OPS, &w->g));
    PASS(nodes_check_edges(&w->g));
    PASS(nodes_name(&w->g, &w->name));
    PASS(nodes_check_acyclic(&w->g, w->name));
    PASS(piper_import_read_degrees(w));
    size_t n = w->g.n;
    PASS(ARENA_NEW(&w->memory, w->times, n * w->degrees));
    PASS(ARENA_NEW(&w->memory, w->parameter_bytes, n));
    PASS(ARENA_NEW(&w->memory, w->stash_bytes, n));
    PASS(ARENA_NEW(&w->memory, w->output_bytes, n));
    PASS(ARENA_NEW(&w->memory, w->forward, n));
    PASS(ARENA_NEW(&w->memory, w->backward, n));
    for (size_t v = 0; v < n; v++)
        PASS(piper_import_read_node(w, v));
    for (size_t e = 0; e < w->g.edges; e++) {
        struct json_at at = json_item(&w->g.edge_list, e);
        double bytes, *largest = &w->output_bytes[w->g.edge[e].from];
        PASS(json_need_real(&at, "communicationCost", 0, nodes_max_bytes, &bytes));
        *largest = fmax(*largest, bytes);
    }
    return STATUS_OK;
}

/* ---- the model */

/* Ops in the order of the file; several edges between the same nodes become one. */
static enum status piper_import_add_ops(struct piper_import *w, double minibatch, struct graph *g)
{
    for (size_t v = 0; v < w->g.n; v++) {
        struct json_at node = json_item(&w->g.node_list, v), name;
        const char *kind = "node";
        PASS(json_optional(&node, "name", &name));
        if (name.value)
            PASS(json_get_string(&name, &kind));
        int64_t output = llround(w->output_bytes[v] / minibatch);
        int64_t stash = llround(w->stash_bytes[v] / minibatch);
        graph_add(g, &(struct graph_op){.name = w->name[v],
                                        .kind = kind,
                                        .parameter_bytes = llround(w->parameter_bytes[v]),
                                        .shares = MODEL_NO_OP,
                                        .stash_bytes = stash,
                                        .output_bytes = output});
    }
    qsort(w->g.edge, w->g.edges, sizeof *w->g.edge, edges_compare);
    for (size_t e = 0; e < w->g.edges; e++)
        if (e == 0 || edges_compare(&w->g.edge[e - 1], &w->g.edge[e]) != 0)
            graph_connect(g, w->g.edge[e].from, w->g.edge[e].to);
    return STATUS_OK;
}

/* One profile per degree that all nodes have; *left_out the other degrees. */
static size_t add_profiles(struct piper_import *w, const struct import_options *o, struct graph *g)
{
    size_t added = 0;
    for (size_t t = 0; t < w->degrees; t++) {
        if (w->missing[t])
            continue;
        for (size_t v = 0; v < w->g.n; v++) {
            w->forward[v] = w->times[v * w->degrees + t].forward_s;
            w->backward[v] = w->times[v * w->degrees + t].backward_s;
        }
        graph_profile(g, &(struct model_profile){.device = (char *)o->device,
                                                 .samples = o->minibatch_size,
                                                 .tensor_parallel = w->degree[t],
                                                 .forward_s = w->forward,
                                                 .backward_s = w->backward});
        added++;
    }
    return added;
}

/* What was guessed or left out, for the model's note. */
static void piper_import_describe(const struct piper_import *w, char note[NOTE])
{
    int used = snprintf(note, NOTE,
                        "Piper graph, one op per node; times of the fastest configurations; left "
                        "out: memoryUsageB, synchronisation bytes, device limits");
    if (w->guessed)
        used += snprintf(note + used, (size_t)(NOTE - used),
                         "; a third of the time is forward where no configuration recomputes (%zu)",
                         w->guessed);
    if (w->degree[0] != 1 || w->missing[0])
        snprintf(note + used, (size_t)(NOTE - used),
                 "; not all nodes run unsplit: no times without tensor parallelism");
}

/* Steps: (1) nodes, degrees and configurations; (2) ops and edges; (3) a profile per degree that
 * all nodes have; (4) the note. */
enum status piper_read_model(const struct json_at *root, const struct import_options *o,
                             struct model *out)
{
    enum status st;
    struct piper_import w = {0};
    struct graph g = {.model = {.element_bytes = 4}};
    char note[NOTE];
    TRY(import_check_options(o));
    TRY(piper_import_read_all(root, &w));
    TRY(piper_import_add_ops(&w, o->minibatch_size, &g));
    if (add_profiles(&w, o, &g) == 0) {
        st = json_error(&w.g.node_list, "no tensor-parallel degree has times for all nodes");
        goto out;
    }
    piper_import_describe(&w, note);
    TRY(nodes_tell_members(o, &w.g, w.name, NULL));
    TRY(graph_finish(&g, root->document->path, note, out));
out:
    graph_free(&g);
    nodes_free(&w.g);
    arena_free(&w.memory);
    return st;
}
