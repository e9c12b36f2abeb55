/* read.c - the placement JSON file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "partition/published/placement/problem.h"

enum { MAX_NODES = 1000000, MAX_EDGES = 10000000, MAX_DEVICES = 65535 };
static const double max_time = 1e18, max_bytes = 1e18;
/* Out-edges of one node carry the same tensor; the published reader allows this difference. */
static const double cost_tolerance = 1e-6;

struct key {
    int64_t value;
    uint32_t node;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

size_t placement_find(const struct placement_problem *p, int64_t id)
{
    size_t low = 0, high = p->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->id[p->by_id[middle]] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n && p->id[p->by_id[low]] == id ? p->by_id[low] : p->n;
}

/* A number >= 0; `fallback` when absent, unless that is NAN: then the field is required. */
static enum status get_amount(const struct json_at *object, const char *key, double max,
                              double fallback, double *out)
{
    enum status st;
    struct json_at at;
    if (isnan(fallback)) {
        TRY(json_field(object, key, &at));
    } else {
        TRY(json_optional(object, key, &at));
    }
    *out = fallback;
    if (at.value)
        TRY(json_get_real(&at, 0, max, out));
out:
    return st;
}

/* 0, 1, true or false. */
static enum status get_flag(const struct json_at *object, const char *key, bool fallback, bool *out)
{
    enum status st;
    struct json_at at;
    int64_t number;
    TRY(json_optional(object, key, &at));
    *out = fallback;
    if (!at.value)
        return STATUS_OK;
    if (json_get_integer(&at, 0, 1, &number) == STATUS_OK)
        *out = number != 0;
    else
        TRY(json_get_bool(&at, out));
out:
    return st;
}

static enum status get_count(const struct json_at *object, const char *key, size_t *out)
{
    enum status st;
    struct json_at at;
    int64_t number = 0;
    TRY(json_field(object, key, &at));
    TRY(json_get_integer(&at, 0, MAX_DEVICES, &number));
    *out = (size_t)number;
out:
    return st;
}

static enum status read_node(const struct json_at *node, struct placement_problem *p, size_t v,
                             struct key *colour, bool *coloured)
{
    enum status st;
    struct json_at at;
    TRY(json_field(node, "id", &at));
    TRY(json_get_integer(&at, INT64_MIN, INT64_MAX, &p->id[v]));
    TRY(get_amount(node, "cpuLatency", max_time, NAN, &p->cpu[v]));
    TRY(get_amount(node, "fpgaLatency", max_time, NAN, &p->accelerator[v]));
    TRY(get_amount(node, "size", max_bytes, 0, &p->size[v]));
    TRY(get_flag(node, "supportedOnFpga", true, &p->supported[v]));
    TRY(get_flag(node, "isBackwardNode", false, &p->backward[v]));
    TRY(json_optional(node, "colorClass", &at));
    *colour = (struct key){.node = (uint32_t)v};
    *coloured = at.value != NULL;
    if (*coloured)
        TRY(json_get_integer(&at, INT64_MIN, INT64_MAX, &colour->value));
out:
    return st;
}

static enum status sort_ids(const struct json_at *nodes, struct placement_problem *p,
                            struct key *key)
{
    for (size_t v = 0; v < p->n; v++)
        key[v] = (struct key){p->id[v], (uint32_t)v};
    qsort(key, p->n, sizeof *key, compare_keys);
    for (size_t i = 0; i < p->n; i++) {
        p->by_id[i] = key[i].node;
        if (i == 0 || key[i].value != key[i - 1].value)
            continue;
        struct json_at node = json_item(nodes, key[i].node);
        return json_error(&node, "id %lld is given to two nodes", (long long)key[i].value);
    }
    return STATUS_OK;
}

static enum status read_nodes(const struct json_at *nodes, struct placement_problem *p)
{
    enum status st;
    size_t n = p->n, coloured = 0;
    struct key *key = calloc(n, sizeof *key);
    p->id = calloc(n, sizeof *p->id);
    p->cpu = calloc(n, sizeof *p->cpu);
    p->accelerator = calloc(n, sizeof *p->accelerator);
    p->size = calloc(n, sizeof *p->size);
    p->cost = calloc(n, sizeof *p->cost);
    p->supported = calloc(n, sizeof *p->supported);
    p->backward = calloc(n, sizeof *p->backward);
    p->colour = calloc(n, sizeof *p->colour);
    p->by_id = calloc(n, sizeof *p->by_id);
    if (!key || !p->id || !p->cpu || !p->accelerator || !p->size || !p->cost || !p->supported ||
        !p->backward || !p->colour || !p->by_id) {
        st = error_set(STATUS_NOMEM, "%zu nodes", n);
        goto out;
    }
    for (size_t v = 0; v < n; v++) {
        struct json_at node = json_item(nodes, v);
        bool has;
        TRY(read_node(&node, p, v, &key[coloured], &has));
        if (has)
            coloured++;
        else
            p->colour[v] = (uint32_t)p->colours++;
    }
    qsort(key, coloured, sizeof *key, compare_keys);
    for (size_t i = 0; i < coloured; i++) {
        p->colours += i == 0 || key[i].value != key[i - 1].value;
        p->colour[key[i].node] = (uint32_t)(p->colours - 1);
    }
    TRY(sort_ids(nodes, p, key));
out:
    free(key);
    return st;
}

static enum status get_end(const struct json_at *edge, const char *key,
                           const struct placement_problem *p, uint32_t *out)
{
    enum status st;
    struct json_at at;
    int64_t id;
    TRY(json_field(edge, key, &at));
    TRY(json_get_integer(&at, INT64_MIN, INT64_MAX, &id));
    size_t v = placement_find(p, id);
    if (v == p->n)
        return json_error(&at, "no node has the id %lld", (long long)id);
    *out = (uint32_t)v;
out:
    return st;
}

static enum status read_edges(const struct json_at *edges, struct placement_problem *p)
{
    enum status st;
    bool *sends = calloc(p->n, sizeof *sends);
    p->source = calloc(p->edges + 1, sizeof *p->source);
    p->dest = calloc(p->edges + 1, sizeof *p->dest);
    if (!sends || !p->source || !p->dest) {
        st = error_set(STATUS_NOMEM, "%zu edges", p->edges);
        goto out;
    }
    st = STATUS_OK;
    for (size_t e = 0; e < p->edges; e++) {
        struct json_at edge = json_item(edges, e);
        double cost;
        TRY(get_end(&edge, "sourceId", p, &p->source[e]));
        TRY(get_end(&edge, "destId", p, &p->dest[e]));
        TRY(get_amount(&edge, "cost", max_time, NAN, &cost));
        uint32_t u = p->source[e];
        if (!sends[u])
            p->cost[u] = cost;
        sends[u] = true;
        if (fabs(p->cost[u] - cost) > cost_tolerance) {
            st = json_error(&edge, "node %lld sends at cost %g and at cost %g: they must be equal",
                            (long long)p->id[u], p->cost[u], cost);
            goto out;
        }
    }
out:
    free(sends);
    return st;
}

static enum status read_devices(const struct json_at *root, const struct objective_request *r,
                                struct placement_problem *p)
{
    enum status st;
    if (r->devices)
        p->accelerators = r->devices;
    else
        TRY(get_count(root, "maxFPGAs", &p->accelerators));
    if (r->memory_bytes > 0)
        p->memory_bytes = r->memory_bytes;
    else
        TRY(get_amount(root, "maxSizePerFPGA", max_bytes, NAN, &p->memory_bytes));
    TRY(get_count(root, "maxCPUs", &p->cpus));
    if (p->accelerators > MAX_DEVICES || p->accelerators + p->cpus == 0)
        st = error_set(STATUS_INVALID, "%s: %zu accelerators and %zu CPUs, expected 1 to %d",
                       r->spec, p->accelerators, p->cpus, MAX_DEVICES);
out:
    return st;
}

enum status placement_read(const struct objective_request *r, struct placement_problem *out)
{
    enum status st;
    struct json_document d = {0};
    struct placement_problem p = {0};
    struct json_at nodes, edges;
    TRY(json_read(r->spec, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(json_field(&root, "nodes", &nodes));
    TRY(json_get_array(&nodes, MAX_NODES, &p.n));
    if (p.n == 0) {
        st = json_error(&nodes, "there are no nodes");
        goto out;
    }
    TRY(json_field(&root, "edges", &edges));
    TRY(json_get_array(&edges, MAX_EDGES, &p.edges));
    TRY(read_devices(&root, r, &p));
    TRY(read_nodes(&nodes, &p));
    TRY(read_edges(&edges, &p));
    *out = p;
    p = (struct placement_problem){0};
out:
    placement_free(&p);
    json_document_free(&d);
    return st;
}

void placement_free(struct placement_problem *p)
{
    free(p->id);
    free(p->cpu);
    free(p->accelerator);
    free(p->size);
    free(p->cost);
    free(p->supported);
    free(p->backward);
    free(p->colour);
    free(p->by_id);
    free(p->source);
    free(p->dest);
    *p = (struct placement_problem){0};
}
