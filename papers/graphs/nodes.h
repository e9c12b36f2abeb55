/* nodes.h - the published JSON files of Tarnawski et al., graphs of numbered nodes, from which
 * model/ makes models and papers/ the problems of the papers.
 *
 *     {"nodes": [{"id": 7, "name": "conv1", ...}], "edges": [{"sourceId": 7, "destId": 8, ...}]} */
#ifndef PAPERS_GRAPHS_NODES_H
#define PAPERS_GRAPHS_NODES_H

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/data/model.h"

struct import_options;

/* Largest number of bytes that a file may say of one node, as a model file of one op. */
extern const double nodes_max_bytes;

struct graph_nodes {
    struct json_at node_list, edge_list; /* point at the root that nodes_read() was given */
    size_t n, edges;                     /* n >= 1 */
    int64_t *id;                         /* [n] in the order of the file, all different */
    uint32_t *by_id;                     /* [n] nodes in ascending order of id */
    struct model_edge *edge;             /* [edges] indices of nodes, in the order of the file */
    struct arena memory;
};

/* Read ids and ends of edges. Returns STATUS_PARSE with path:line:column for no, too many or
 * repeated nodes, and edges with unknown ends; STATUS_NOMEM. O((nodes + edges) log nodes). */
enum status nodes_read(const struct json_at *root, size_t max_nodes, size_t max_edges,
                       struct graph_nodes *out) MUST_CHECK;
void nodes_free(struct graph_nodes *g); /* accepts {0}; leaves {0} */
/* Node called `id`, g->n when there is none. O(log n). */
size_t nodes_find(const struct graph_nodes *g, int64_t id);
/* Unique names, in g->memory: the file's, "nodeID" without, "NAME#ID" if repeated.
 *   name  out: [n] */
enum status nodes_name(struct graph_nodes *g, char ***name) MUST_CHECK;

/* STATUS_PARSE that names an edge from a node to itself, or on a cycle, if there is one. */
enum status nodes_check_edges(const struct graph_nodes *g) MUST_CHECK;
enum status nodes_check_acyclic(const struct graph_nodes *g, char *const *name) MUST_CHECK;

/* What a file of dnn-partitioning (NeurIPS 2020) says of a node. */
struct nodes_latency {
    double cpu_ms, accelerator_ms; /* cpuLatency 0 when absent */
    double size;                   /* bytes */
    bool backward, supported;      /* a node of the backward pass; may be on accelerators */
    uint32_t colour;               /* nodes of one colour share a device */
};
/* Read latency[g->n]. Nodes without a colour get one each, before the others; *colours of them. */
enum status nodes_read_latencies(const struct graph_nodes *g, struct nodes_latency *latency,
                                 size_t *colours) MUST_CHECK;

/* The key of a list of Piper's configurations (NeurIPS 2021), a tensor-parallel degree up to `max`:
 * STATUS_PARSE for anything but a decimal number without leading zeros. */
enum status nodes_degree(const struct json_at *list, uint32_t max, uint32_t *out) MUST_CHECK;

/* Fill o->members where it is wanted.
 *   name      [g->n] of nodes
 *   named_by  [g->n] the node whose name its op has; NULL: itself
 * STATUS_NOMEM. */
enum status nodes_tell_members(const struct import_options *o, const struct graph_nodes *g,
                               char *const *name, const uint32_t *named_by) MUST_CHECK;

#endif
