/* chain_cost.h - what a stage of consecutive ops costs, for the algorithms that cut chains.
 *
 * Ops i..j as stage s take their forward and backward seconds on the stage's device, plus the
 * transfer of what enters them, forward and as gradients back; a tensor counts once, wherever it
 * comes from, over the link from the stage before. Private to partition/. */
#ifndef PARTITION_CHAIN_COST_H
#define PARTITION_CHAIN_COST_H

#include "core/base/array.h"
#include "partition/partition.h"

struct chain_cost {
    const struct model *m;
    size_t stages, types;
    uint32_t *type;    /* [stages] of its device */
    double *until_s;   /* [types][n + 1] compute seconds of ops 0..i-1 per microbatch */
    double *gap_s;     /* [stages] per entering byte of a sample, there and back; 0: no link */
    double *latency_s; /* [stages] there and back */
    uint32_t *reader;  /* [edges] of edge k, m->in[k] -> j: 1 + the op before j that reads the same
                        * tensor, 0 if j is the first */
    struct arena memory;
};

/* O(types * n + edges). STATUS_NOMEM. */
enum status chain_cost_begin(const struct partition_problem *p, struct chain_cost *c) MUST_CHECK;
void chain_cost_free(struct chain_cost *c); /* after a failure, too; leaves {0} */

/* Bytes per sample that op j adds to what enters a stage that begins with op `first`: of every
 * tensor from before it that no op from `first` to j - 1 reads. */
double chain_cost_entering(const struct chain_cost *c, size_t first, size_t j);

/* [n + 1] of the stage's device. */
static inline const double *chain_cost_until(const struct chain_cost *c, size_t stage)
{
    return c->until_s + c->type[stage] * (c->m->n + 1);
}

/* Seconds of stage s with the ops first .. end - 1, which so many bytes per sample enter. */
static inline double chain_cost_load(const struct chain_cost *c, size_t s, size_t first, size_t end,
                                     double bytes)
{
    const double *until = chain_cost_until(c, s);
    return until[end] - until[first] + c->latency_s[s] + c->gap_s[s] * bytes;
}

#endif
