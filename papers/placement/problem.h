/* problem.h - the published device-placement problem: nodes with measured latencies, tensors with
 * a cost, accelerators with a memory limit, and CPUs.
 *
 * Latencies and costs are in the file's own time unit (ms), sizes in bytes. Devices are numbered
 * 0 .. accelerators - 1, then the CPUs. Load of a set of nodes S on an accelerator: its latencies,
 * plus the cost of every node whose output enters S or leaves S, once each; on a CPU: its
 * latencies alone. The value of a split is the largest load.
 * Source: Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators,
 * NeurIPS 2020, and the input files published with it. */
#ifndef PAPERS_PLACEMENT_PROBLEM_H
#define PAPERS_PLACEMENT_PROBLEM_H

#include "papers/common/objective.h"
#include "papers/graphs/nodes.h"

struct placement_problem {
    struct graph_nodes file; /* ids and edges; owns all arrays here */
    size_t n;                /* >= 1 */
    int64_t *id;
    struct nodes_latency *latency; /* [n] on either kind of device, size, colour < colours */
    double *cost;                  /* [n] of sending a node's output; 0 when nobody reads it */
    size_t colours;
    size_t edges;
    const struct model_edge *edge; /* [edges] */
    double memory_bytes;           /* of an accelerator */
    size_t accelerators, cpus;
};

/* Read r->spec; r->devices and r->memory_bytes, where given, replace the file's numbers.
 * STATUS_PARSE with file:line:column, STATUS_INVALID without any device, STATUS_NOMEM. */
enum status placement_read(const struct objective_request *r,
                           struct placement_problem *out) MUST_CHECK;
void placement_free(struct placement_problem *p); /* accepts {0}; leaves {0} */

/* Loads of a split by the definition above.
 *   group   [n] of each node, < groups
 *   on_cpu  [groups]
 *   load    [groups] out; 0 for an empty group
 * O(n + edges + groups). */
enum status placement_loads(const struct placement_problem *p, const uint32_t *group, size_t groups,
                            const bool *on_cpu, double *load) MUST_CHECK;

/* Objective.score: a split as the published checker takes it ({"cpus": [...], "fpgas": [...]}, all
 * CPUs summed into one) or as this project writes it ({"parts": [...]}, every device for itself).
 * A node that is not named goes where the rest of its colour is. STATUS_INFEASIBLE when a colour is
 * torn apart or too many devices are used, as the checker does; memory is not checked, as there. */
enum status placement_score(const struct objective_request *r, const char *split, double *value);

/* Fill out->part, device by device in the order `order` ([devices], NULL: by number), empty ones
 * left out, and out->value; accelerators are numbered from 1 in that order.
 *   device  [n] of each node */
enum status placement_result(const struct placement_problem *p, const uint32_t *device,
                             const uint32_t *order, struct objective_result *out) MUST_CHECK;

#endif
