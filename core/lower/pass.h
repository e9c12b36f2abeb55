/* pass.h - one shard's part of a step while it is appended: what replay.c and context.c share. Private. */
#ifndef CORE_LOWER_PASS_H
#define CORE_LOWER_PASS_H

#include "core/lower/lowering.h"

struct pass {
    struct lowering *l;
    const struct lowering_replica *replica;
    struct lowering_list *list;
    const struct lowering_cost *cost;
    uint32_t stage, shard, rank;
    struct schedule_step s;
};

/* Its slot in the arrays of struct lowering_replay; row: stage, or edge. */
static inline size_t pass_slot(const struct pass *a, size_t row)
{
    return lowering_slot(a->l, row, a->s.microbatch, lowering_position(a->l, a->replica->number),
                         a->shard);
}

/* replay.c: the op appended last waits for the inputs of the pass: a forward for its tensors, a
 * backward for its forward and for its gradients. */
enum status pass_depend_on_inputs(const struct pass *a) MUST_CHECK;

/* context.c: what the pass, or part `part` of it, exchanges for its attention, and, with the ring,
 * the op of the attention that computes meanwhile, whose seconds are taken off *seconds; `slower`:
 * the factor that these have. The next compute op waits for all of it. */
enum status pass_exchange(const struct pass *a, const struct lowering_exchange *e, uint8_t part,
                          double slower, double *seconds) MUST_CHECK;

#endif
