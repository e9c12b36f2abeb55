/* pippy.h - PiPPy's graph split: balanced memory and communication, least cut (pull request 1080).
 *
 * Ops have memory (parameters, in elements) and edges have weight (elements of the tensor); stages
 * are numbered along the edges. With avg = all weight / stages, the program minimises
 *     cut weight + cut edges + avg * z - constant,   1 <= z <= 2,
 * where avg * z is at least the weight of the edges that touch any one stage.
 * Here z has no upper limit when a given split is valued, so that every forward split has a value.
 */
#ifndef PAPERS_PIPPY_PIPPY_H
#define PAPERS_PIPPY_PIPPY_H

#include "papers/common/objective.h"

struct pippy_edge {
    uint32_t from, to;
    double weight;
    uint32_t count; /* edges of the graph that it stands for */
};

struct pippy_graph {
    size_t nodes, edges;
    double *memory;          /* [nodes] */
    struct pippy_edge *edge; /* [edges] parallel ones kept */
    struct arena owned;      /* the arrays */
};

/* What is left after presolve: clusters of nodes that the program keeps together. */
struct pippy_problem {
    size_t stages, nodes, edges;
    size_t kept;             /* edges of the graph between clusters, parallel ones counted each */
    double *memory, *inner;  /* [nodes] memory and weight of the edges inside */
    struct pippy_edge *edge; /* [edges] between clusters, parallel ones merged */
    uint32_t *cluster_of;    /* [graph nodes] */
    double all_memory, all_weight;
    struct arena owned; /* the arrays */
};

/* Both of these leave *out to its _free() after a failure, too.
 *
 * One node per op, weight = output elements, memory = parameter elements; with `parameters` also
 * one source of no memory per op that has parameters, as traced graphs have. STATUS_NOMEM. */
enum status pippy_graph_of(const struct model *m, bool parameters,
                           struct pippy_graph *g) MUST_CHECK;
void pippy_graph_free(struct pippy_graph *g); /* accepts {0}; leaves {0} */

/* Zero the edges out of sources without memory (in *g), then merge the ends of every edge whose
 * source has no other edge, whose sink has no other edge, or that is the only way between two nodes
 * in the middle of a chain. STATUS_NOMEM. */
enum status pippy_presolve(struct pippy_graph *g, size_t stages,
                           struct pippy_problem *p) MUST_CHECK;
void pippy_problem_free(struct pippy_problem *p); /* accepts {0}; leaves {0} */

/* Value of any split of the graph's nodes: stage_of[nodes] < p->stages. Edges that presolve merged
 * count by weight only. STATUS_INVALID when an edge goes backwards, STATUS_NOMEM. */
enum status pippy_value(const struct pippy_graph *g, const struct pippy_problem *p,
                        const uint32_t *stage_of, double *value) MUST_CHECK;

/* The edges at every node, both ways: those of v are incident[start[v]] to incident[start[v + 1] -
 * 1], start[nodes + 1]. The ends alone: (*out)[edges]. All in `memory`. STATUS_NOMEM. */
enum status pippy_incident(size_t nodes, const struct pippy_edge *edge, size_t edges,
                           struct arena *memory, size_t **start, uint32_t **incident) MUST_CHECK;
enum status pippy_edges(const struct pippy_edge *edge, size_t edges, struct arena *memory,
                        struct model_edge **out) MUST_CHECK;

enum pippy_verdict {
    PIPPY_OPTIMAL,
    PIPPY_CLOSE,      /* at most PIPPY_GAP of the program's objective above the optimum, proved */
    PIPPY_FEASIBLE,   /* stopped with the best so far */
    PIPPY_INFEASIBLE, /* proved */
    PIPPY_UNKNOWN,    /* stopped without a split */
};

enum { PIPPY_IDEALS = 20000 };
/* Where the original's solver, HiGHS, stops. */
#define PIPPY_GAP 1e-4

/* Largest load that a stage may have: memory, weight inside, weight that touches it. */
struct pippy_limits {
    double memory, inside, touching;
};
struct pippy_limits pippy_limits(const struct pippy_problem *p);

/* Two exact ways to solve the program; stage_of[p->nodes] is of clusters.
 *
 * ideals: dynamic program over the down-sets of the clusters with the non-dominated pairs
 *   (cut, z) of each; *ideals is their number, 0 (and PIPPY_UNKNOWN) when there are more than
 * limit. branch: mixed integer program on GLPK. x[i, j] is written as u[i, j] - u[i, j - 1], where
 * u[i, j] says that cluster i is in stage j or before: u grows with j and falls along edges, which
 * is PiPPy's order constraint with a much tighter relaxation. It branches on the cluster in the
 * middle of those whose place is open, and stops within PIPPY_GAP. STATUS_EXTERNAL when GLPK
 * fails. */
enum status pippy_ideals(const struct pippy_problem *p, const struct objective_request *r,
                         size_t limit, uint32_t *stage_of, enum pippy_verdict *verdict,
                         size_t *ideals) MUST_CHECK;
enum status pippy_branch(const struct pippy_problem *p, const struct objective_request *r,
                         uint32_t *stage_of, enum pippy_verdict *verdict) MUST_CHECK;

/* A split along one topological order whose stages' largest share of memory or weight is least:
 * always exists. *used stages, all of p->stages when there are as many nodes. */
enum status pippy_balance(const struct pippy_graph *g, const struct pippy_problem *p,
                          uint32_t *stage_of, size_t *used) MUST_CHECK;

/* The graph split by times instead (graphsplit.c): the least seconds of an iteration of a pipeline
 * of r->stages on the first devices of r->topology, as estimated. No limits of memory. */
enum { PIPPY_MICROBATCHES = 8, PIPPY_TRIED = 4 }; /* where r->microbatches is 0 */
struct pippy_timed {
    double by_size_s;            /* of pippy_evenly() */
    size_t tried;                /* splits, each better than the one before: by size, as even as */
    double seconds[PIPPY_TRIED]; /* an order lets the work be, least along the model's order, */
    uint32_t *stage_of[PIPPY_TRIED]; /* [ops] least of all */
    size_t ideals;                   /* 0: too many */
    bool in_order, exact;            /* least of all along the model's order, of all */
    bool interrupted;
    struct arena memory;
};
/* STATUS_INFEASIBLE, STATUS_NOMEM. */
enum status pippy_by_time(const struct objective_request *r, struct pippy_timed *out) MUST_CHECK;
void pippy_timed_free(struct pippy_timed *x); /* accepts {0}; leaves {0} */

/* Why the program has no solution, in words, into text[size]. */
void pippy_explain(const struct pippy_problem *p, char *text, size_t size);

/* PiPPy's split by size: walk the ops, cut before one that would exceed the threshold (after one
 * that alone exceeds it), at most `most` stages. Borrowed parameters count once per stage.
 * stage_of[m->n]; *used stages. STATUS_NOMEM. */
enum status pippy_by_threshold(const struct model *m, double threshold, size_t most,
                               uint32_t *stage_of, size_t *used) MUST_CHECK;

/* Exactly so many stages by the rule above with an even share as its *threshold; where that
 * makes fewer, *used, the largest are cut again. STATUS_INFEASIBLE: more stages than ops;
 * STATUS_NOMEM. */
enum status pippy_evenly(const struct model *m, size_t stages, double *threshold,
                         uint32_t *stage_of, size_t *used) MUST_CHECK;

/* Cut stages of the sequence again until there are `wanted` <= n: the heaviest that has two nodes,
 * where its halves balance best. at[n]: stage by position, ascending; weight[n]. */
void pippy_cut_more(size_t n, const double *weight, size_t wanted, uint32_t *at, size_t *used);

#endif
