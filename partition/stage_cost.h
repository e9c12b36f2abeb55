/* stage_cost.h - what a stage of consecutive ops costs, for the algorithms that cut chains.
 *
 * Ops i..j as stage s take their forward and backward seconds on the stage's device, plus the
 * transfer of what enters them, forward and as gradients back; a tensor counts once, wherever it
 * comes from, over the link from the stage before. Private to partition/. */
#ifndef PARTITION_STAGE_COST_H
#define PARTITION_STAGE_COST_H

#include "partition/partition.h"

struct stage_cost {
    const struct model *m;
    size_t stages, types;
    uint32_t *type;    /* [stages] of its device */
    double *until_s;   /* [types][n + 1] compute seconds of ops 0..i-1 per microbatch */
    double *pace;      /* [stages] seconds per entering byte of a sample, there and back; 0: none */
    double *latency_s; /* [stages] there and back */
};

/* device [r->stages]. O(types * n). STATUS_NOMEM. */
enum status stage_cost_begin(const struct model *m, const struct topology *t,
                             const struct partition_request *r, const uint32_t *device,
                             struct stage_cost *out) MUST_CHECK;
void stage_cost_free(struct stage_cost *c); /* accepts {0}; leaves {0} */

/* [n + 1] of the stage's device. */
static inline const double *stage_cost_until(const struct stage_cost *c, size_t stage)
{
    return c->until_s + c->type[stage] * (c->m->n + 1);
}

#endif
