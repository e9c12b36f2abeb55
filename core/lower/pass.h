/* pass.h - one shard's part of a step while it is appended: what replay.c, parts.c and context.c share. Private. */
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
    /* Of a pair, else NULL and 0: */
    const struct pass *beside; /* the second pass, whose inputs the first one waits for as well */
    uint32_t begin, before; /* position + 1 of the pair's first compute op, of the one before it */
    bool slower;            /* collectives run meanwhile */
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

/* A compute op, or a part of one, that waits for its inputs and for what blocks the list. */
enum status pass_append(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                        uint32_t *position) MUST_CHECK;

/* parts.c: forward or backward in a part per bucket. */
enum status pass_forward(const struct pass *a, uint32_t *position) MUST_CHECK;
enum status pass_backward(const struct pass *a, uint32_t *position) MUST_CHECK;
/* ZeRO 3: dense parameters of bucket part - 1, or of all when part is 0, and those of experts, over
 * the replicas that have the same; ahead: not for the next compute op but for the one behind it. */
enum status pass_gather(const struct pass *a, size_t part, bool ahead) MUST_CHECK;
/* Does the pass have to gather? With zero_keep the first forward does. */
bool pass_gathers(const struct pass *a);

#endif
