/* search.h - the cheapest strategy: a dynamic program over cuts and the forms of what crosses them.
 *
 * At cut i, before node i, a state is the one or two forms of every tensor that was made before and
 * is read behind it. Partial strategies of a state are kept unless another is no worse in the time
 * so far, the debt and the backward's debt. From each state all stages of up to `stage_nodes` nodes
 * are tried; one without communication only at the beginning, or behind a stage that was full.
 * Exact for that space; exponential in the nodes of a stage and in the tensors of a cut, linear in
 * the layers of a model, and independent of the number of devices. */
#ifndef PAPERS_HIDUP_SEARCH_H
#define PAPERS_HIDUP_SEARCH_H

#include "papers/hidup/strategy.h"

enum { SPMD_STAGE_NODES = 11, SPMD_LIVE = 64 };

struct spmd_search {
    const struct spmd_graph *graph;
    const struct spmd_costs *costs;
    uint32_t stage_nodes;     /* 1 to SPMD_STAGE_NODES; 0: as many */
    const volatile int *stop; /* non-zero: hurry; may be NULL */
    double until_s;           /* clock_now() when to hurry; 0: never */
};

struct spmd_found {
    struct spmd_strategy strategy; /* in the caller's arena; model NULL */
    double seconds;                /* spmd_seconds() of it */
    bool interrupted; /* from some cut on only the most promising states went on: best so far */
    uint64_t states, partials, steps;
};

/* STATUS_INFEASIBLE names the node that none of the forms that reach it suit; STATUS_UNSUPPORTED:
 * more than SPMD_LIVE tensors cross a cut; STATUS_NOMEM. Deterministic unless interrupted. */
enum status spmd_search(const struct spmd_search *q, struct arena *memory,
                        struct spmd_found *out) MUST_CHECK;

#endif
