/* chakra.h - what execution traces of Chakra have in common, whatever form they are written in.
 * Private to the importers of them.
 *
 * Nodes that compute become ops. An op has the node's duration as its forward, in a profile of one
 * microbatch, and the attribute num_ops as FLOP; its inputs are those of its data dependencies that
 * compute, past communication. A trace has no backward apart: what it runs backward are nodes too.
 * Not in it: sizes of tensors and parameters. */
#ifndef MODEL_CHAKRA_H
#define MODEL_CHAKRA_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/model.h"

struct import_options;

/* NodeType of mlcommons/chakra, schema/protobuf/et_def.proto at 6dc63e1, schema 0.0.4. */
enum { COMP_NODE = 4, COMM_SEND_NODE = 5, COMM_COLL_NODE = 7 };

struct chakra_node {
    uint64_t id, type, flop, bytes;
    double duration_us;
    const char *name; /* [letters], borrowed from the file */
    size_t letters;
    size_t deps, first; /* of struct chakra: dep; as it is added */
};

struct chakra {
    const char *path;
    size_t n, deps, edges, absent; /* absent: dependencies on nodes that are not there */
    struct chakra_node *node;      /* [n] as read, then by id */
    uint64_t *dep;                 /* [deps] ids */
    uint32_t *op;                  /* [n] op of a node that computes, in order; MODEL_NO_OP */
    struct model_edge *edge;       /* [edges] between nodes, then between ops */
};

/* A node, and then its dependencies one by one. STATUS_INVALID "path: what": more than MOST_EVENTS
 * thousands of nodes, or 16 times as many dependencies; STATUS_NOMEM. */
enum status chakra_add_node(struct chakra *w, const struct chakra_node *n) MUST_CHECK;
enum status chakra_add_dependency(struct chakra *w, uint64_t id) MUST_CHECK;
/* The model of the nodes that were read; node, dep and the counts of both are filled in.
 * STATUS_PARSE "path: what": an id twice, a node that waits for itself; STATUS_INVALID: nothing
 * computes; STATUS_NOMEM. O((nodes + dependencies) log nodes). */
enum status chakra_build(struct chakra *w, const struct import_options *o,
                         struct model *out) MUST_CHECK;
void chakra_free(struct chakra *w); /* accepts {0} */

#endif
