/* Reads the placement JSON file: nodes and edges by papers/graphs/nodes.h, then costs and
 * devices. */
#include <math.h>

#include "papers/placement/problem.h"

enum { MAX_NODES = 1000000, MAX_EDGES = 10000000, MAX_DEVICES = 65535 };
static const double max_cost_ms = 1e18, max_bytes = 1e18;
/* Out-edges of one node carry the same tensor; the published reader allows this difference. */
static const double cost_tolerance = 1e-6;

static enum status placement_read_count(const struct json_at *object, const char *key, size_t *out)
{
    int64_t number = 0;
    enum status st = json_need_integer(object, key, 0, MAX_DEVICES, &number);
    *out = (size_t)number;
    return st;
}

static enum status placement_read_nodes(struct placement_problem *p)
{
    struct arena *a = &p->file.memory;
    PASS(ARENA_NEW(a, p->latency, p->n));
    PASS(ARENA_NEW(a, p->cost, p->n));
    for (size_t v = 0; v < p->n; v++) { /* other readers can do without CPUs */
        struct json_at node = json_item(&p->file.node_list, v), cpu;
        PASS(json_field(&node, "cpuLatency", &cpu));
    }
    return nodes_read_latencies(&p->file, p->latency, &p->colours);
}

static enum status placement_read_edges(struct placement_problem *p)
{
    bool *sends;
    PASS(ARENA_NEW(&p->file.memory, sends, p->n));
    for (size_t e = 0; e < p->edges; e++) {
        struct json_at edge = json_item(&p->file.edge_list, e);
        uint32_t u = p->edge[e].from;
        double cost;
        PASS(json_need_real(&edge, "cost", 0, max_cost_ms, &cost));
        if (!sends[u])
            p->cost[u] = cost;
        sends[u] = true;
        if (fabs(p->cost[u] - cost) > cost_tolerance)
            return json_error(
                &edge, "node %lld has out-edges of cost %g and of cost %g, expected equal costs",
                (long long)p->id[u], p->cost[u], cost);
    }
    return STATUS_OK;
}

static enum status read_devices(const struct json_at *root, const struct objective_request *r,
                                struct placement_problem *p)
{
    if (r->devices)
        p->accelerators = r->devices;
    else
        PASS(placement_read_count(root, "maxFPGAs", &p->accelerators));
    if (r->memory_bytes > 0)
        p->memory_bytes = r->memory_bytes;
    else
        PASS(json_need_real(root, "maxSizePerFPGA", 0, max_bytes, &p->memory_bytes));
    PASS(placement_read_count(root, "maxCPUs", &p->cpus));
    if (p->accelerators > MAX_DEVICES || p->accelerators + p->cpus == 0)
        return error_set(STATUS_INVALID,
                         "%s: got %zu accelerators and %zu CPUs, expected 1 to %d devices", r->spec,
                         p->accelerators, p->cpus, MAX_DEVICES);
    return STATUS_OK;
}

enum status placement_read(const struct objective_request *r, struct placement_problem *out)
{
    enum status st;
    struct json_document d = {0};
    struct placement_problem p = {0};
    TRY(json_read(r->spec, NULL, 0, &d));
    struct json_at root = json_root(&d);
    TRY(nodes_read(&root, MAX_NODES, MAX_EDGES, &p.file));
    p.n = p.file.n;
    p.edges = p.file.edges;
    p.id = p.file.id;
    p.edge = p.file.edge;
    TRY(read_devices(&root, r, &p));
    TRY(placement_read_nodes(&p));
    TRY(placement_read_edges(&p));
    *out = p;
    p = (struct placement_problem){0};
out:
    placement_free(&p);
    json_document_free(&d);
    return st;
}

void placement_free(struct placement_problem *p)
{
    nodes_free(&p->file);
    *p = (struct placement_problem){0};
}
