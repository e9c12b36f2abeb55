/* chain_cost.h - what a stage of consecutive ops costs, for the algorithms that cut chains.
 *
 * Ops i..j as stage s take their forward and backward seconds on the stage's device, plus the
 * transfer of what enters them, forward and as gradients back; a tensor counts once, wherever it
 * comes from, over the link from the stage before. Private to partition/. */
#ifndef PARTITION_CHAIN_COST_H
#define PARTITION_CHAIN_COST_H

#include "partition/partition.h"

struct chain_cost {
    const struct model *m;
    size_t stages, types;
    uint32_t *type;    /* [stages] of its device */
    double *until_s;   /* [types][n + 1] compute seconds of ops 0..i-1 per microbatch */
    double *gap_s;     /* [stages] per entering byte of a sample, there and back; 0: no link */
    double *latency_s; /* [stages] there and back */
};

/* O(types * n). STATUS_NOMEM. */
enum status chain_cost_begin(const struct partition_problem *p, struct chain_cost *out) MUST_CHECK;
void chain_cost_free(struct chain_cost *c); /* accepts {0}; leaves {0} */

/* [n + 1] of the stage's device. */
static inline const double *chain_cost_until(const struct chain_cost *c, size_t stage)
{
    return c->until_s + c->type[stage] * (c->m->n + 1);
}

#endif
