/* piper.h - Piper's inputs, cost model and plans (Tarnawski et al., NeurIPS 2021).
 *
 * A plan is a sequence of contiguous stages; stage i has d replicas of t-way tensor parallelism and
 * one configuration (e.g. with or without recomputation) for each of its nodes. Its time per sample
 * is the slowest stage's. Times in seconds per sample, sizes in bytes. */
#ifndef PAPERS_PIPER_PIPER_H
#define PAPERS_PIPER_PIPER_H

#include <stddef.h>
#include <stdint.h>

#include "papers/common/objective.h"
#include "papers/graphs/nodes.h"

enum { PIPER_DEGREES = 32, PIPER_MAX_NODES = 100000, PIPER_MAX_DEVICES = 1 << 20 };

/* One way to run a node at a tensor-parallel degree. */
struct piper_config {
    char *name; /* e.g. "vanilla", "activation recomp" */
    double time_s, parameter_bytes;
    double stash_bytes, fixed_bytes;        /* per microbatch in flight, and once */
    double *forward_bytes, *backward_bytes; /* synchronisation per in-edge, per out-edge */
};

struct piper_edge {
    uint32_t from, to;
    double bytes;
};

struct piper_input {
    struct graph_nodes file; /* ids and edges; owns all memory here */
    char *path;
    size_t devices, batch; /* batch: microbatches */
    double memory_bytes, bandwidth_Bps;
    size_t nodes, edges, degrees;
    int64_t *id;                    /* [nodes] as in the file */
    struct piper_edge *edge;        /* [edges] */
    size_t *in_start, *out_start;   /* [nodes + 1] into in and out */
    uint32_t *in, *out;             /* [edges] edges by their head, by their tail */
    uint32_t degree[PIPER_DEGREES]; /* [degrees] ascending */
    size_t *config_start; /* [nodes * degrees + 1]: node v at degree[t] has the configurations from
                             config_start[v * degrees + t]; none where it cannot run */
    size_t configs;
    struct piper_config *config;
};

struct piper_stage {
    uint32_t replicas;
    uint32_t degree; /* index into input->degree */
};

struct piper_plan {
    size_t stages;
    struct piper_stage *stage; /* [stages] first to last */
    uint32_t *stage_of;        /* [nodes] */
    size_t *config;            /* [nodes] index into input->config */
    struct arena memory;
};

/* Read r->spec; devices, memory, bandwidth_Bps[0] and batch of *r replace the file's where given.
 * Returns STATUS_PARSE with "path:line:column: where: what" for a malformed file, STATUS_INVALID
 * for a cycle or numbers out of range in *r, STATUS_IO, STATUS_NOMEM. */
enum status piper_read(const struct objective_request *r, struct piper_input *out) MUST_CHECK;
void piper_input_free(struct piper_input *in); /* accepts {0}; leaves {0} */
void piper_plan_free(struct piper_plan *p);    /* accepts {0}; leaves {0} */

/* Time per sample of a plan, from the cost model's formulas alone. Returns
 * STATUS_INFEASIBLE naming what breaks a limit: an edge that goes backwards, replicas that do not
 * divide the batch, devices, memory. */
enum status piper_evaluate(const struct piper_input *in, const struct piper_plan *p,
                           double *value) MUST_CHECK;

/* The split in the JSON file `split` against the file r->spec. */
enum status piper_score(const struct objective_request *r, const char *split,
                        double *value) MUST_CHECK;

enum { PIPER_IDEALS = 40000, PIPER_STATES = 2048 };

/* How hard to search; piper's own limits are the two constants above. */
struct piper_limits {
    size_t ideals; /* beyond: only stages contiguous in one topological order */
    size_t states; /* of a knapsack that the relaxation does not decide; beyond: undecided */
};

struct piper_outcome {
    double value, lower_bound;
    bool all_ideals, interrupted;
    size_t ideals, passes;
};

/* Best plan by bisecting the time per sample: is there a plan at least this fast? Each question is
 * a dynamic program over the ideals whose states are non-dominated (replicas, devices) of the
 * stages behind. Returns STATUS_INFEASIBLE (with the memory that would do), STATUS_NOMEM. */
enum status piper_search(const struct piper_input *in, const struct objective_request *r,
                         const struct piper_limits *limits, struct piper_plan *plan,
                         struct piper_outcome *outcome) MUST_CHECK;

#endif
