/* cost.h - what operators and conversions of a graph take, and what a stage adds to a plan.
 *
 * A batch runs as two halves, A and B: while one computes, the other communicates. A stage is a run
 * of nodes and, before it, conversions of tensors into the forms that they need:
 *
 *     communicate k (A)  beside  compute k - 1 (B)
 *     compute k (A)      beside  communicate k (B)
 *
 * and at the end B computes the last stage alone, its `debt`. The backward is the same from
 * behind. The published model (`compat`) counts a half as a whole, and leaves the last backward of
 * B out. */
#ifndef PAPERS_HIDUP_COST_H
#define PAPERS_HIDUP_COST_H

#include "papers/hidup/graph.h"

/* What of compute and communication goes on side by side. */
enum spmd_overlap {
    OVERLAP_FORWARD, /* only in the forward: the published code, as it was last */
    OVERLAP_FULL,    /* in the backward, too */
    OVERLAP_NONE,
    OVERLAPS
};
extern const char *const spmd_overlap_names[OVERLAPS + 1]; /* ends with NULL */

/* Constants of a machine; `devices` is a real number, for the noise of the published experiment
 * falls on it too. */
struct spmd_profile {
    double devices, flop_per_s;
    double bandwidth_Bps[STEPS]; /* of the whole tensor; 0: the step is free */
    double latency_s;            /* of every step that is not free */
};

/* A row of profiles.def. */
struct spmd_machine {
    const char *name, *summary;
    struct spmd_profile profile; /* devices 0 */
};
extern const struct spmd_machine *const spmd_machines[]; /* [spmd_machines_n] the default first */
extern const size_t spmd_machines_n;

/* Seconds on a platform, of half a batch, or of a whole one where nothing overlaps. */
struct spmd_table {
    double (*node_s)[2][2];  /* [nodes] whole or divided; forward, backward. Of parameters: of their
                             * update, 0 */
    double (*step_s)[STEPS]; /* [tensors] */
    double (*taken_s)[STEPS]; /* [tensors] from the compute beside which they go */
};

struct spmd_costs {
    struct spmd_profile profile;
    enum spmd_overlap overlap;
    bool compat;
    const double *noise;            /* [nodes] factors of each node's work; NULL: 1 */
    const struct spmd_table *table; /* instead of the profile; or NULL */
};

/* Without overlap there is no reason for halves, but the published model has them. */
static inline bool spmd_is_plain(const struct spmd_costs *c)
{
    return !c->compat && c->overlap == OVERLAP_NONE;
}

/* Seconds of what stands in a stage; sums of nodes and conversions, in their order. Communication
 * of the first half has the parameters, which both share. */
struct spmd_load {
    double compute_s, compute_back_s;
    double first_s, second_s, first_back_s, second_back_s;
    /* on a platform only: */
    double update_s;
    double first_taken_s, second_taken_s, first_back_taken_s, second_back_taken_s;
};
void spmd_add_node(const struct spmd_costs *c, const struct spmd_graph *g, uint32_t node,
                   const struct spmd_signature *s, struct spmd_load *load);
void spmd_add_conversion(const struct spmd_costs *c, const struct spmd_graph *g, uint32_t tensor,
                         const struct form_conversion *conversion, struct spmd_load *load);

/* Seconds up to a stage, but for what the second half still has to compute. */
struct spmd_time {
    double acc_s, debt_s, debt_back_s;
};
struct spmd_time spmd_after(const struct spmd_costs *c, const struct spmd_time *before,
                            const struct spmd_load *stage);
double spmd_total(const struct spmd_costs *c, const struct spmd_time *t);

#endif
