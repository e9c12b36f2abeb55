/* lowered.h - graphs of operators as models of this project, their costs on a platform, and
 * strategies as plans. */
#ifndef PAPERS_HIDUP_LOWERED_H
#define PAPERS_HIDUP_LOWERED_H

#include "core/data/model.h"
#include "core/data/plan.h"
#include "core/data/topology.h"
#include "papers/hidup/strategy.h"

/* Functions become ops of the same name, in their order; parameters are those of the function that
 * reads them first, and items of tuples are what made these. Work is two operations for each
 * multiplication and addition; sizes are of one sample.
 *
 *   op_of  [nodes] out: the op of each function, MODEL_NO_OP of other nodes
 *
 * STATUS_NOMEM. */
enum status spmd_to_model(const struct spmd_graph *g, const char *name, struct model *out,
                          uint32_t *op_of) MUST_CHECK;
/* spmd_model() as such a model: what `foreline plan --model tmlp` reads. */
enum status spmd_load_model(const char *spec, struct model *out) MUST_CHECK;

/* Is the tensor a parameter that is trained? */
bool spmd_is_weight(const struct spmd_graph *g, uint32_t tensor);
/* Samples of the batch: of the first input. */
int64_t spmd_batch(const struct spmd_graph *g);

/* A platform's first `devices` devices. */
struct spmd_platform {
    const struct topology *topology;
    const struct model *model; /* spmd_to_model() */
    const uint32_t *op_of;
    size_t devices;
    size_t samples; /* of a microbatch: the batch, or half of it */
    const char *optimizer;
    /* Seconds of collectives, as of struct objective_request; NULL: closed forms. */
    enum status (*collectives)(const struct topology *t, size_t devices, size_t n,
                               const uint8_t *kind, const int64_t *bytes, double *seconds);
    /* The graph with the samples of a microbatch only, whose tensors the plan's operators are of;
     * NULL: the plan has none and can only be simulated. */
    const struct spmd_graph *part;
};

/* Seconds of every node, by core/cost/cost.h, of a parameter those of its update, and of every step
 * of every tensor, by the closed forms of core/collective/collective.h, out of *memory. O(tensors *
 * devices). STATUS_INFEASIBLE: more devices than there are; STATUS_NOMEM. */
enum status spmd_tabulate(const struct spmd_graph *g, const struct spmd_platform *on,
                          struct arena *memory, struct spmd_table *out) MUST_CHECK;

/* The stage, the steps and the operators of a plan, which is otherwise empty: one microbatch, or
 * two halves. */
enum status spmd_to_plan(const struct spmd_graph *g, const struct spmd_strategy *s,
                         const struct spmd_platform *on, struct plan *out) MUST_CHECK;

/* The operators of a plan: the nodes of on->part, which has those of g, in the forms and stages of
 * s. STATUS_NOMEM. O(nodes). */
enum status spmd_to_operators(const struct spmd_graph *part, const struct spmd_strategy *s,
                              struct operators *out) MUST_CHECK;

#endif
