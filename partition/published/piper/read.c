#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/text.h"
#include "partition/published/lattice.h"
#include "partition/published/piper/piper.h"

enum { MAX_CONFIGS = 64, ID_TEXT = 24 };

static const double LARGEST = 1e30; /* sums and products of what is read stay finite */

void piper_input_free(struct piper_input *in)
{
    for (size_t c = 0; in->config && c < in->configs; c++) {
        free(in->config[c].name);
        free(in->config[c].forward_bytes);
        free(in->config[c].backward_bytes);
    }
    free(in->config);
    free(in->config_start);
    free(in->path);
    free(in->id);
    free(in->edge);
    free(in->in_start);
    free(in->out_start);
    free(in->in);
    free(in->out);
    *in = (struct piper_input){0};
}

size_t piper_find(const struct piper_input *in, int64_t id)
{
    size_t v = 0;
    while (v < in->nodes && in->id[v] != id)
        v++;
    return v;
}

/* ---- ids and edges */

struct id_at {
    int64_t id;
    uint32_t node;
};

static int compare_ids(const void *a, const void *b)
{
    const struct id_at *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static enum status read_ids(const struct json_at *nodes, struct piper_input *in,
                            struct id_at *sorted)
{
    enum status st = STATUS_OK;
    for (size_t v = 0; v < in->nodes; v++) {
        struct json_at node = json_item(nodes, v);
        TRY(json_need_integer(&node, "id", INT64_MIN, INT64_MAX, &in->id[v]));
        sorted[v] = (struct id_at){in->id[v], (uint32_t)v};
    }
    qsort(sorted, in->nodes, sizeof *sorted, compare_ids);
    for (size_t i = 1; i < in->nodes; i++)
        if (sorted[i].id == sorted[i - 1].id) {
            struct json_at node = json_item(nodes, sorted[i].node);
            st = json_error(&node, "a node with id %lld stands twice", (long long)sorted[i].id);
            goto out;
        }
out:
    return st;
}

static enum status read_end(const struct json_at *edge, const char *key,
                            const struct piper_input *in, const struct id_at *sorted, uint32_t *out)
{
    struct id_at wanted = {0, 0};
    enum status st = json_need_integer(edge, key, INT64_MIN, INT64_MAX, &wanted.id);
    if (st != STATUS_OK)
        return st;
    const struct id_at *found = bsearch(&wanted, sorted, in->nodes, sizeof *sorted, compare_ids);
    if (!found)
        return json_error(edge, "%s: no node has the id %lld", key, (long long)wanted.id);
    *out = found->node;
    return STATUS_OK;
}

static enum status read_edges(const struct json_at *edges, struct piper_input *in,
                              const struct id_at *sorted)
{
    enum status st = STATUS_OK;
    for (size_t e = 0; e < in->edges; e++) {
        struct json_at at = json_item(edges, e);
        struct piper_edge *edge = &in->edge[e];
        TRY(read_end(&at, "sourceId", in, sorted, &edge->from));
        TRY(read_end(&at, "destId", in, sorted, &edge->to));
        TRY(json_need_real(&at, "communicationCost", 0, LARGEST, &edge->bytes));
        if (edge->from == edge->to) {
            st = json_error(&at, "an edge from node %lld to itself", (long long)in->id[edge->to]);
            goto out;
        }
        in->in_start[edge->to + 1]++;
        in->out_start[edge->from + 1]++;
    }
    for (size_t v = 0; v < in->nodes; v++) {
        in->in_start[v + 1] += in->in_start[v];
        in->out_start[v + 1] += in->out_start[v];
    }
    for (size_t e = in->edges; e-- > 0;) { /* fills each list from its end, then restores starts */
        in->in[--in->in_start[in->edge[e].to + 1]] = (uint32_t)e;
        in->out[--in->out_start[in->edge[e].from + 1]] = (uint32_t)e;
    }
    for (size_t v = 0; v < in->nodes; v++) {
        in->in_start[v] = in->in_start[v + 1];
        in->out_start[v] = in->out_start[v + 1];
    }
    in->in_start[in->nodes] = in->out_start[in->nodes] = in->edges;
out:
    return st;
}

/* ---- configurations */

static int compare_degrees(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static enum status degree_of(const struct json_at *list, uint32_t *out)
{
    char *end;
    long t = strtol(list->key, &end, 10);
    if (*end || t < 1 || t > PIPER_MAX_DEVICES)
        return json_error(list, "expected a tensor-parallel degree as the key");
    *out = (uint32_t)t;
    return STATUS_OK;
}

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
    enum status st = STATUS_OK;
    for (size_t v = 0; v < in->nodes; v++) {
        struct json_at node = json_item(nodes, v), lists;
        TRY(json_field(&node, "TMPCs", &lists));
        size_t n = json_members(&lists), before = in->configs;
        for (size_t i = 0; i < n; i++) {
            struct json_at list = json_member(&lists, i);
            size_t length = 0;
            uint32_t degree = 0;
            TRY(degree_of(&list, &degree));
            TRY(json_get_array(&list, MAX_CONFIGS, &length));
            in->configs += length;
            if (degree_index(in, degree) < in->degrees)
                continue;
            if (in->degrees == PIPER_DEGREES) {
                st = json_error(&list, "more than %d tensor-parallel degrees", PIPER_DEGREES);
                goto out;
            }
            in->degree[in->degrees++] = degree;
        }
        if (in->configs == before) {
            st = json_error(&lists, "a node needs at least one configuration");
            goto out;
        }
    }
    qsort(in->degree, in->degrees, sizeof *in->degree, compare_degrees);
out:
    return st;
}

/* Synchronisation bytes of the edges edge[n], keyed by the id at their other end. */
static enum status read_sync(const struct json_at *config, const char *key,
                             const struct piper_input *in, const uint32_t *edge, size_t n,
                             bool head, double **out)
{
    enum status st;
    struct json_at map, value;
    double *bytes = calloc(n + 1, sizeof *bytes);
    if (!bytes)
        return error_set(STATUS_NOMEM, "%zu edges", n);
    TRY(json_field(config, key, &map));
    for (size_t i = 0; i < n; i++) {
        const struct piper_edge *e = &in->edge[edge[i]];
        char id[ID_TEXT];
        snprintf(id, sizeof id, "%lld", (long long)in->id[head ? e->to : e->from]);
        TRY(json_field(&map, id, &value));
        TRY(json_get_real(&value, 0, LARGEST, &bytes[i]));
    }
    *out = bytes;
    bytes = NULL;
out:
    free(bytes);
    return st;
}

static enum status read_config(const struct json_at *at, const struct piper_input *in, size_t v,
                               struct piper_config *c)
{
    enum status st;
    TRY(json_may_text(at, "id", &c->name));
    if (!c->name)
        TRY(text_copy("", &c->name));
    TRY(json_need_real(at, "timePerSample", 0, LARGEST, &c->time_s));
    TRY(json_need_real(at, "parameterSize", 0, LARGEST, &c->parameter_bytes));
    TRY(json_need_real(at, "memoryUsageA", 0, LARGEST, &c->stash_bytes));
    TRY(json_need_real(at, "memoryUsageB", 0, LARGEST, &c->fixed_bytes));
    TRY(read_sync(at, "syncTimeFw", in, in->in + in->in_start[v],
                  in->in_start[v + 1] - in->in_start[v], false, &c->forward_bytes));
    TRY(read_sync(at, "syncTimeBw", in, in->out + in->out_start[v],
                  in->out_start[v + 1] - in->out_start[v], true, &c->backward_bytes));
out:
    return st;
}

static enum status read_node(const struct json_at *node, struct piper_input *in, size_t v,
                             size_t *filled)
{
    enum status st;
    struct json_at lists, list;
    TRY(json_field(node, "TMPCs", &lists));
    for (size_t t = 0; t < in->degrees; t++) {
        char key[ID_TEXT];
        size_t n = 0;
        in->config_start[v * in->degrees + t] = *filled;
        snprintf(key, sizeof key, "%u", in->degree[t]);
        TRY(json_optional(&lists, key, &list));
        if (list.value)
            TRY(json_get_array(&list, MAX_CONFIGS, &n));
        if (n > in->configs - *filled) { /* "02" beside "2" */
            st = json_error(&list, "degree %u stands twice", in->degree[t]);
            goto out;
        }
        for (size_t i = 0; i < n; i++) {
            struct json_at at = json_item(&list, i);
            TRY(read_config(&at, in, v, &in->config[(*filled)++]));
        }
    }
out:
    return st;
}

/* ---- the whole */

static enum status allocate(struct piper_input *in, struct id_at **sorted)
{
    size_t n = in->nodes + 1, m = in->edges + 1;
    in->id = calloc(n, sizeof *in->id);
    in->edge = calloc(m, sizeof *in->edge);
    in->in_start = calloc(n + 1, sizeof *in->in_start);
    in->out_start = calloc(n + 1, sizeof *in->out_start);
    in->in = calloc(m, sizeof *in->in);
    in->out = calloc(m, sizeof *in->out);
    *sorted = calloc(n, sizeof **sorted);
    if (!in->id || !in->edge || !in->in_start || !in->out_start || !in->in || !in->out || !*sorted)
        return error_set(STATUS_NOMEM, "%s: %zu nodes", in->path, in->nodes);
    return STATUS_OK;
}

static enum status read_graph(const struct json_at *root, struct piper_input *in)
{
    enum status st;
    struct json_at nodes, edges;
    struct id_at *sorted = NULL;
    size_t filled = 0;
    TRY(json_field(root, "nodes", &nodes));
    TRY(json_get_array(&nodes, PIPER_MAX_NODES, &in->nodes));
    TRY(json_field(root, "edges", &edges));
    TRY(json_get_array(&edges, 16 * (size_t)PIPER_MAX_NODES, &in->edges));
    if (!in->nodes) {
        st = json_error(&nodes, "no nodes");
        goto out;
    }
    TRY(allocate(in, &sorted));
    TRY(read_ids(&nodes, in, sorted));
    TRY(read_edges(&edges, in, sorted));
    TRY(collect_degrees(&nodes, in));
    in->config = calloc(in->configs + 1, sizeof *in->config);
    in->config_start = calloc(in->nodes * in->degrees + 1, sizeof *in->config_start);
    if (!in->config || !in->config_start) {
        st = error_set(STATUS_NOMEM, "%s: %zu configurations", in->path, in->configs);
        goto out;
    }
    for (size_t v = 0; v < in->nodes; v++) {
        struct json_at node = json_item(&nodes, v);
        TRY(read_node(&node, in, v, &filled));
    }
    in->config_start[in->nodes * in->degrees] = filled;
out:
    free(sorted);
    return st;
}

/* What the request says replaces what the file says; one of them has to say it. */
static enum status read_limits(const struct json_at *root, const struct objective_request *r,
                               struct piper_input *in)
{
    enum status st = STATUS_OK;
    int64_t devices = (int64_t)r->devices, batch = (int64_t)r->batch;
    in->memory_bytes = r->memory_bytes;
    in->bandwidth_Bps = r->levels ? r->bandwidth_Bps[0] : 0;
    if (r->devices > PIPER_MAX_DEVICES || r->batch > INT32_MAX)
        return error_set(STATUS_INVALID, "at most %d devices and %d microbatches",
                         PIPER_MAX_DEVICES, INT32_MAX);
    if (!devices)
        TRY(json_need_integer(root, "maxDevices", 1, PIPER_MAX_DEVICES, &devices));
    if (!batch)
        TRY(json_need_integer(root, "mbsInBatch", 1, INT32_MAX, &batch));
    if (!(in->memory_bytes > 0))
        TRY(json_need_real(root, "maxMemoryPerDevice", 0, LARGEST, &in->memory_bytes));
    if (!(in->bandwidth_Bps > 0))
        TRY(json_need_real(root, "bandwidth", 1e-9, LARGEST, &in->bandwidth_Bps));
    in->devices = (size_t)devices;
    in->batch = (size_t)batch;
out:
    return st;
}

static enum status check_acyclic(const struct piper_input *in)
{
    enum status st;
    uint32_t cyclic = 0, *order = calloc(in->nodes, sizeof *order);
    struct lattice_arc *arc = calloc(in->edges + 1, sizeof *arc);
    if (!order || !arc) {
        st = error_set(STATUS_NOMEM, "%s: %zu nodes", in->path, in->nodes);
        goto out;
    }
    for (size_t e = 0; e < in->edges; e++)
        arc[e] = (struct lattice_arc){in->edge[e].from, in->edge[e].to};
    TRY(lattice_order(in->nodes, arc, in->edges, order, &cyclic));
    if (cyclic < in->nodes)
        st = error_set(STATUS_INVALID, "%s: the edges form a cycle on or before node %lld",
                       in->path, (long long)in->id[cyclic]);
out:
    free(order);
    free(arc);
    return st;
}

enum status piper_read(const struct objective_request *r, struct piper_input *out)
{
    enum status st;
    struct json_document d = {0};
    struct piper_input in = {0};
    TRY(json_read(r->spec, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(text_copy(r->spec, &in.path));
    TRY(read_graph(&root, &in));
    TRY(read_limits(&root, r, &in));
    TRY(check_acyclic(&in));
    *out = in;
    in = (struct piper_input){0};
out:
    json_document_free(&d);
    piper_input_free(&in);
    return st;
}
