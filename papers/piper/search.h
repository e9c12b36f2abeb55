/* search.h - one question of Piper's search: is there a plan at most this slow? Private to piper/.
 *
 * For every ideal (set of nodes closed under successors: the stages behind some point) the pass
 * keeps the non-dominated pairs (replicas, devices) with which it can be run in time. More replicas
 * behind a stage only raise the number of its microbatches in flight, so fewer of both is better,
 * and of the replica counts of one stage only the least that fits in time and memory is needed. */
#ifndef PAPERS_PIPER_SEARCH_H
#define PAPERS_PIPER_SEARCH_H

#include "papers/common/lattice.h"
#include "papers/piper/knapsack.h"
#include "papers/piper/piper.h"

struct piper_state {
    uint32_t replicas, devices; /* of all stages from this one on */
    uint32_t behind, from;      /* ideal and state of the stages after this one */
    struct piper_stage stage;
};

/* Sums over an ideal at one tensor-parallel degree, each node in its cheapest configuration (in
 * every column for itself; `fastest` means the configuration that time_s is of). */
struct piper_sums {
    double time_s, parameter_bytes, stash_bytes, fixed_bytes;
    double fastest_stash_bytes, fastest_fixed_bytes;
    size_t unable; /* nodes that cannot run at this degree */
};

struct piper_pass {
    const struct piper_input *in;
    const struct objective_request *r;
    double begin_s, memory_bytes;
    struct lattice lattice;
    struct lattice_walk walk;
    struct knapsack knapsack;
    struct piper_sums *sums;    /* [ideals * degrees] */
    double *work;               /* [ideals] least device seconds per sample */
    bool uniform;               /* configurations of a node differ in time and memory only */
    double *forward, *backward; /* [edges * degrees] least synchronisation bytes */
    double *edge_bytes;         /* [ideals * degrees] of the stage between top and this ideal */
    size_t divisors;
    uint32_t *divisor; /* [divisors] of the batch, ascending, at most `devices` */
    size_t states, state_room;
    struct piper_state *state; /* by ideal */
    size_t *state_start;       /* [ideals + 1] */
    size_t front, front_room;
    struct arena memory;         /* of the arrays but state and fresh */
    struct piper_state *fresh;   /* [front] of the ideal at hand, unordered */
    double limit_s, next_s;      /* question; the answer cannot change below next_s */
    bool undecided, interrupted; /* a knapsack was; stopped before the answer */
};

/* Answer the question for limit_s (may be INFINITY) into *feasible. STATUS_NOMEM. */
enum status piper_pass_run(struct piper_pass *s, double limit_s, bool *feasible) MUST_CHECK;

/* The plan that the last feasible pass found, with the cheapest configurations. */
enum status piper_pass_plan(struct piper_pass *s, struct piper_plan *out) MUST_CHECK;

#endif
