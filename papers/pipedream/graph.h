/* graph.h - what PipeDream's planner sees of a profiled model: a DAG of costs, maybe contracted.
 * Private to papers/pipedream/. */
#ifndef PAPERS_PIPEDREAM_GRAPH_H
#define PAPERS_PIPEDREAM_GRAPH_H

#include "core/base/array.h"
#include "papers/common/sets.h"

struct model;

enum { PIPEDREAM_MAX_NODES = 20000, PIPEDREAM_DROPPED = UINT32_MAX };

enum pipedream_contraction {
    CONTRACT_NOTHING,
    CONTRACT_BRANCHES, /* every chain inside a branching region becomes one node */
    CONTRACT_REGIONS,  /* a whole region and the op that joins its branches: what is left is a chain
                        */
    PIPEDREAM_CONTRACTIONS
};

/* Nodes stand in topological order. */
struct pipedream_graph {
    size_t n, words;     /* words of 64 bits in a set of nodes */
    double *compute_s;   /* [n] forward + backward of a minibatch */
    double *activation;  /* [n] bytes that leave the node */
    double *parameter;   /* [n] bytes */
    size_t *out_start;   /* [n + 1] */
    uint32_t *out;       /* consumers */
    uint64_t *ancestors; /* [n * words] the node itself included */
    uint64_t *open;      /* [n * words] strict ancestors with an edge to a node that is no
                            ancestor of this one */
    uint32_t *node_of;   /* [ops of the model]; an op that costs nothing and is left out of
                            planning: node of a neighbour, or PIPEDREAM_DROPPED */
    bool *dropped;       /* [ops of the model] left out of planning */
    struct arena memory; /* of the arrays */
};

/* Build *g, {0} before, from the first profile of `m`. Sources of a kind that starts with "Input"
 * and sinks of a kind that starts with "__getitem__" are left out, as PipeDream does.
 *   rooted  put a node without cost before all sources, so that all of them are reached from node 0
 * O(n * edges / 64). Returns STATUS_INVALID (no profile, nothing left to plan), STATUS_UNSUPPORTED
 * (more than PIPEDREAM_MAX_NODES ops), STATUS_NOMEM. */
enum status pipedream_graph_build(const struct model *m, enum pipedream_contraction contract,
                                  bool rooted, struct pipedream_graph *g) MUST_CHECK;
void pipedream_graph_free(struct pipedream_graph *g); /* after a failure, too; leaves {0} */

/* Is the node in the down-set `set` [words], and none of its consumers? */
bool pipedream_is_maximal(const struct pipedream_graph *g, const uint64_t *set, size_t node);

/* Bytes of the tensors that PipeDream charges when it cuts after the down-set `set` [words]: the
 * activations of its maximal nodes and of what is open at each of them (its "augmented antichain").
 * `room` [words] is scratch. */
double pipedream_cut_bytes(const struct pipedream_graph *g, const uint64_t *set, uint64_t *room);

#endif
