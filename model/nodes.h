/* nodes.h - graphs of numbered nodes in JSON, as the files of Tarnawski et al. have them:
 * {"nodes": [{"id": 7, "name": "conv1", ...}], "edges": [{"sourceId": 7, "destId": 8, ...}]}. */
#ifndef MODEL_NODES_H
#define MODEL_NODES_H

#include "core/json.h"
#include "core/model.h"

/* Largest number of bytes that a model file may say of one op; see core/model_json.c. */
extern const double nodes_max_bytes;

struct nodes {
    struct json_at node_list, edge_list; /* point at the root that nodes_read() was given */
    size_t n, edges;
    char **name;             /* [n] unique: the file's, "nodeID" without, "NAME#ID" if repeated */
    struct model_edge *edge; /* [edges] indices of nodes, in the order of the file */
};

/* Read ids, names and ends of edges. Returns STATUS_PARSE with path:line:column for missing or
 * repeated ids, edges with unknown ends or from a node to itself, and cycles; STATUS_NOMEM.
 * O((nodes + edges) log nodes). */
enum status nodes_read(const struct json_at *root, struct nodes *out) MUST_CHECK;
void nodes_free(struct nodes *g); /* accepts {0}; leaves {0} */

/* STATUS_INVALID unless samples is finite and >= 1. */
enum status nodes_check_minibatch(double samples) MUST_CHECK;

#endif
