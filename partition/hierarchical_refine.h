/* hierarchical_refine.h - better cuts from cuts. Private to partition/hierarchical*.c. */
#ifndef PARTITION_HIERARCHICAL_REFINE_H
#define PARTITION_HIERARCHICAL_REFINE_H

#include "partition/chain_cost.h"

/* Cuts of n ops into stages: stage s has the ops cut[s] .. cut[s + 1] - 1, and may begin with
 * cut[s] (partition_may_begin). */
struct cuts {
    const struct partition_problem *problem;
    const struct chain_cost *cost;
    size_t n, stages;
    size_t *cut;    /* [stages + 1] increasing, cut[0] == 0, cut[stages] == n: the best so far */
    double value_s; /* of the slowest stage, as balanced computes it */
    size_t *trial;  /* [stages + 1] scratch */
    double work;    /* steps of refinement so far */
    double *live;   /* [n + 1] bytes of the tensors from before op i that i or later ops read */
    struct arena memory;
};

enum status cuts_begin(const struct partition_problem *p, const struct chain_cost *c,
                       struct cuts *x) MUST_CHECK;
void cuts_free(struct cuts *x); /* after a failure, too */

/* Take c->trial if it is better than c->cut. O(n + edges). */
void cuts_offer(struct cuts *c);

/* Fill the stages in order as far as a bound allows, for smaller and smaller bounds. Of the ends
 * that a stage may have, the one from which the next stage gets furthest: what crosses an end takes
 * from the next stage's time. O(n + edges) per bound, some 40 bounds. */
void cuts_fill(struct cuts *c);

/* Dynamic programming, exact among all cuts that are each within a window of the present ones; the
 * windows move with the cuts, and grow when nothing better is in them. Stops when the largest
 * window brings nothing or after a fixed amount of work. O(width (n + edges) + width^2 stages) per
 * round. */
enum status cuts_refine(struct cuts *c) MUST_CHECK;

#endif
