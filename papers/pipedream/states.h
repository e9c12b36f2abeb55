/* states.h - where a pipeline may be cut: the states of PipeDream's antichain walk.
 * Private to papers/pipedream/.
 *
 * A state is an antichain, and stands for the down-set of its nodes and their ancestors; down-sets
 * are what is kept here. From a down-set D the walk goes to D + v + ancestors of v for every v
 * outside D that reads something made in D: that is the published rule (replace a node of the
 * augmented antichain by a consumer, drop what has a successor inside) in terms of sets, and one
 * state comes before another in the walk exactly if its set is contained. */
#ifndef PAPERS_PIPEDREAM_STATES_H
#define PAPERS_PIPEDREAM_STATES_H

#include "papers/pipedream/graph.h"

/* States in order of size, the first {node 0} and its ancestors, the last everything reached.
 * Sums are over the down-set. */
struct pipedream_states {
    size_t n, words, before_words;
    uint64_t *set;       /* [n * words] nodes */
    uint64_t *before;    /* [n * before_words] states strictly contained in state j */
    double *compute_s;   /* [n] */
    double *activation;  /* [n] bytes */
    double *parameter;   /* [n] bytes */
    double *cut_bytes;   /* [n] activations charged for a cut after the state */
    bool complete;       /* the last state has every node */
    struct arena memory; /* of the arrays */
};

/* Walk from node 0. When there are more than `limit` states, *too_many becomes true, the status is
 * STATUS_OK and *s, {0} before, has no states. O(n * (nodes + edges * nodes / 64)). Returns
 * STATUS_NOMEM. */
enum status pipedream_states_build(const struct pipedream_graph *g, size_t limit,
                                   struct pipedream_states *s, bool *too_many) MUST_CHECK;
void pipedream_states_free(struct pipedream_states *s); /* after a failure, too; leaves {0} */

#endif
