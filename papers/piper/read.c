/* Reads Piper's JSON file: nodes and edges by papers/graphs/nodes.h, then configurations and
 * limits. */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/order.h"
#include "core/data/edges.h"
#include "papers/piper/piper.h"

enum { MAX_CONFIGS = 64, ID_TEXT = 24 };

static const double LARGEST = 1e30; /* sums and products of what is read stay finite */

void piper_input_free(struct piper_input *in)
{
    nodes_free(&in->file);
    *in = (struct piper_input){0};
}

/* ---- nodes and edges */

static enum status piper_read_edges(struct piper_input *in)
{
    struct arena *a = &in->file.memory;
    PASS(ARENA_NEW(a, in->edge, in->edges));
    PASS(ARENA_NEW(a, in->in_start, in->nodes + 2));
    PASS(ARENA_NEW(a, in->out_start, in->nodes + 2));
    PASS(ARENA_NEW(a, in->in, in->edges));
    PASS(ARENA_NEW(a, in->out, in->edges));
    for (size_t e = 0; e < in->edges; e++) {
        struct json_at at = json_item(&in->file.edge_list, e);
        in->edge[e] = (struct piper_edge){in->file.edge[e].from, in->file.edge[e].to, 0};
        PASS(json_need_real(&at, "communicationCost", 0, LARGEST, &in->edge[e].bytes));
    }
    edges_list(in->nodes, in->file.edge, in->edges, EDGES_BY_HEAD | EDGES_NUMBERS, in->in_start,
               in->in);
    edges_list(in->nodes, in->file.edge, in->edges, EDGES_BY_TAIL | EDGES_NUMBERS, in->out_start,
               in->out);
    return STATUS_OK;
}

/* ---- configurations */

/* in->degrees where the degree is new. */
static size_t degree_index(const struct piper_input *in, uint32_t degree)
{
    size_t t = 0;
    while (t < in->degrees && in->degree[t] != degree)
        t++;
    return t;
}

/* All degrees that occur, and how many configurations there are in all. */
static enum status collect_degrees(const struct json_at *nodes, struct piper_input *in)
{
    for (size_t v = 0; v < in->nodes; v++) {
        struct json_at node = json_item(nodes, v), lists;
        PASS(json_field(&node, "TMPCs", &lists));
        size_t before = in->configs;
        for (struct json_at list = json_first(&lists); list.key; list = json_next(&list)) {
            size_t length = 0;
            uint32_t degree = 0;
            PASS(nodes_degree(&list, PIPER_MAX_DEVICES, &degree));
            PASS(json_get_array(&list, MAX_CONFIGS, &length));
            in->configs += length;
            if (degree_index(in, degree) < in->degrees)
                continue;
            if (in->degrees == PIPER_DEGREES)
                return json_error(&list, "more than %d tensor-parallel degrees", PIPER_DEGREES);
            in->degree[in->degrees++] = degree;
        }
        if (in->configs == before)
            return json_error(&lists, "a node needs at least one configuration");
    }
    qsort(in->degree, in->degrees, sizeof *in->degree, order_by_id);
    return STATUS_OK;
}

/* Synchronisation bytes of the edges edge[n], keyed by the id at their other end. */
static enum status read_sync(const struct json_at *config, const char *key, struct piper_input *in,
                             const uint32_t *edge, size_t n, bool head, double **out)
{
    struct json_at map, value;
    PASS(ARENA_NEW(&in->file.memory, *out, n));
    PASS(json_field(config, key, &map));
    for (size_t i = 0; i < n; i++) {
        const struct piper_edge *e = &in->edge[edge[i]];
        char id[ID_TEXT];
        snprintf(id, sizeof id, "%lld", (long long)in->id[head ? e->to : e->from]);
        PASS(json_field(&map, id, &value));
        PASS(json_get_real(&value, 0, LARGEST, &(*out)[i]));
    }
    return STATUS_OK;
}

static const struct json_row config_rows[] = {
    {"timePerSample", JSON_MEMBER(struct piper_config, time_s), FIELD_NEED, .max = 1e30},
    {"parameterSize", JSON_MEMBER(struct piper_config, parameter_bytes), FIELD_NEED, .max = 1e30},
    {"memoryUsageA", JSON_MEMBER(struct piper_config, stash_bytes), FIELD_NEED, .max = 1e30},
    {"memoryUsageB", JSON_MEMBER(struct piper_config, fixed_bytes), FIELD_NEED, .max = 1e30},
    {0},
};

static enum status piper_read_config(const struct json_at *at, struct piper_input *in, size_t v,
                                     struct piper_config *c)
{
    struct json_at name;
    const char *text = "";
    PASS(json_optional(at, "id", &name));
    if (name.value)
        PASS(json_get_string(&name, &text));
    if (!(c->name = arena_text(&in->file.memory, text)))
        return STATUS_NOMEM;
    PASS(json_rows_read(at, config_rows, c));
    PASS(read_sync(at, "syncTimeFw", in, in->in + in->in_start[v],
                   in->in_start[v + 1] - in->in_start[v], false, &c->forward_bytes));
    PASS(read_sync(at, "syncTimeBw", in, in->out + in->out_start[v],
                   in->out_start[v + 1] - in->out_start[v], true, &c->backward_bytes));
    return STATUS_OK;
}

static enum status piper_read_node(const struct json_at *node, struct piper_input *in, size_t v,
                                   size_t *filled)
{
    struct json_at lists, list;
    PASS(json_field(node, "TMPCs", &lists));
    for (size_t t = 0; t < in->degrees; t++) {
        char key[ID_TEXT];
        size_t n = 0;
        in->config_start[v * in->degrees + t] = *filled;
        snprintf(key, sizeof key, "%u", in->degree[t]);
        PASS(json_optional(&lists, key, &list));
        if (list.value)
            PASS(json_get_array(&list, MAX_CONFIGS, &n));
        for (size_t i = 0; i < n; i++) {
            struct json_at at = json_item(&list, i);
            PASS(piper_read_config(&at, in, v, &in->config[(*filled)++]));
        }
    }
    return STATUS_OK;
}

/* ---- the whole */

/* Configurations lie by node, then by degree, as in the file. */
static enum status piper_read_graph(const struct json_at *root, struct piper_input *in)
{
    size_t filled = 0;
    PASS(nodes_read(root, PIPER_MAX_NODES, 16 * (size_t)PIPER_MAX_NODES, &in->file));
    in->nodes = in->file.n;
    in->edges = in->file.edges;
    in->id = in->file.id;
    PASS(nodes_check_edges(&in->file));
    if (!(in->path = arena_text(&in->file.memory, root->document->path)))
        return STATUS_NOMEM;
    PASS(piper_read_edges(in));
    PASS(collect_degrees(&in->file.node_list, in));
    PASS(ARENA_NEW(&in->file.memory, in->config, in->configs));
    PASS(ARENA_NEW(&in->file.memory, in->config_start, in->nodes * in->degrees + 1));
    for (size_t v = 0; v < in->nodes; v++) {
        struct json_at node = json_item(&in->file.node_list, v);
        PASS(piper_read_node(&node, in, v, &filled));
    }
    in->config_start[in->nodes * in->degrees] = filled;
    return STATUS_OK;
}

/* What the request says replaces what the file says; one of them has to say it. */
static enum status read_limits(const struct json_at *root, const struct objective_request *r,
                               struct piper_input *in)
{
    int64_t devices = (int64_t)r->devices, batch = (int64_t)r->batch;
    in->memory_bytes = r->memory_bytes;
    in->bandwidth_Bps = r->levels ? r->bandwidth_Bps[0] : 0;
    if (r->devices > PIPER_MAX_DEVICES || r->batch > INT32_MAX)
        return error_set(STATUS_INVALID,
                         "--objective piper supports at most %d devices and %d microbatches",
                         PIPER_MAX_DEVICES, INT32_MAX);
    if (!devices)
        PASS(json_need_integer(root, "maxDevices", 1, PIPER_MAX_DEVICES, &devices));
    if (!batch)
        PASS(json_need_integer(root, "mbsInBatch", 1, INT32_MAX, &batch));
    if (!(in->memory_bytes > 0))
        PASS(json_need_real(root, "maxMemoryPerDevice", 0, LARGEST, &in->memory_bytes));
    if (!(in->bandwidth_Bps > 0))
        PASS(json_need_real(root, "bandwidth", 1e-9, LARGEST, &in->bandwidth_Bps));
    in->devices = (size_t)devices;
    in->batch = (size_t)batch;
    return STATUS_OK;
}

static enum status piper_read_check_acyclic(const struct piper_input *in)
{
    size_t cyclic;
    enum status st = edges_order(in->nodes, in->file.edge, in->edges, NULL, &cyclic);
    if (st == STATUS_OK && cyclic < in->edges)
        st = error_set(STATUS_INVALID, "%s: the edge from node %lld to node %lld is on a cycle",
                       in->path, (long long)in->id[in->edge[cyclic].from],
                       (long long)in->id[in->edge[cyclic].to]);
    return st;
}

enum status piper_read(const struct objective_request *r, struct piper_input *out)
{
    enum status st;
    struct json_document d = {0};
    struct piper_input in = {0};
    TRY(json_read(r->spec, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(piper_read_graph(&root, &in));
    TRY(read_limits(&root, r, &in));
    TRY(piper_read_check_acyclic(&in));
    MOVE(out, in);
out:
    json_document_free(&d);
    piper_input_free(&in);
    return st;
}
