/* placement_inputs.h - placement problems that nobody has tuned anything to: random graphs of the
 * shape of the published ones, and random contractions and perturbations of any graph. */
#ifndef TESTS_PLACEMENT_INPUTS_H
#define TESTS_PLACEMENT_INPUTS_H

#include "papers/placement/problem.h"

struct placement_input {
    size_t n, edges;
    struct nodes_latency *latency; /* [n] */
    double *cost;                  /* [n] of sending a node's output */
    struct model_edge *edge;       /* [edges] */
    double memory_bytes;
    size_t accelerators, cpus;
    uint64_t random; /* state of SplitMix64; what is drawn comes from it alone */
    struct arena memory;
};

/* A chain of blocks: single ops, residual blocks, and up to four branches, with weights of their
 * own now and then. Half of them train (a backward node per node, edges mirrored, one colour), half
 * have transfers that cost as much as ops (operator graphs), the others cheap ones (layer graphs).
 *   nodes  about so many forward nodes */
enum status placement_input_random(uint64_t seed, size_t nodes,
                                   struct placement_input *out) MUST_CHECK;
/* The graph of a problem, to be contracted or perturbed. */
enum status placement_input_copy(const struct placement_problem *p, uint64_t seed,
                                 struct placement_input *out) MUST_CHECK;
/* Merge the ends of random edges while the graph stays acyclic, until `colours` colours are left or
 * nothing can be merged. A merged node has the latencies, sizes and costs of both, of the costs
 * those that are still sent; forward nodes merge with forward nodes only; colours follow. */
enum status placement_input_contract(struct placement_input *in, size_t colours) MUST_CHECK;
/* Multiply latencies, sizes and costs of each node by random factors, all costs by one more, and
 * draw accelerators, CPUs and a memory in which everything fits. */
void placement_input_perturb(struct placement_input *in);
/* As the published JSON file. */
enum status placement_input_write(const struct placement_input *in, const char *path) MUST_CHECK;
void placement_input_free(struct placement_input *in); /* accepts {0}; leaves {0} */

#endif
