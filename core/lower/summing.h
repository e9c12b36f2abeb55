/* summing.h - a stage while the costs of its ops are added up: what cost.c, cost_memory.c and
 * cost_buckets.c share. Private. */
#ifndef CORE_LOWER_SUMMING_H
#define CORE_LOWER_SUMMING_H

#include "core/cost/op_costs.h"
#include "core/lower/lowering.h"

struct stage_sum {
    const struct lowering *l;
    uint32_t stage;
    const struct plan_stage *s;
    const struct device_type *type;
    struct cost_split split;
    struct op_costs_key key; /* what its ops are asked for with */
    int64_t *stash, *stays;  /* [s->ops] bytes that a backward needs, and that stay until then */
    int64_t largest_bytes;   /* parameters of one op */
    int64_t flight_bytes;    /* of gradients, kept beside the rank's part of their sums */
    int64_t tied_bytes;      /* weights that ops borrow within the stage */
    int64_t context_bytes;   /* what one op exchanges, at most: of the whole sequence */
    int64_t experts_bytes;   /* what one op's rows take that go to experts elsewhere, at most */
    bool sums_measured; /* what shards sum is in the times of their ops (struct model_profile) */
    struct cost_pass forward, backward, again; /* of all ops, of those that are made again */
    struct lowering_cost c;
};

static inline struct op_cost sum_cost(const struct stage_sum *u, uint32_t op)
{
    return op_costs_of(u->l->costs, u->l->model, &u->key, op);
}

/* Bytes of a part of an op: rounded down, whole when the part is 1. */
static inline int64_t sum_scaled(int64_t bytes, double part)
{
    return part < 1 ? (int64_t)(part * (double)bytes) : bytes;
}

/* cost_memory.c: what the stage's k-th op adds to its memory, parameters and stash; then, once all
 * have been added, what crosses the stage's boundaries, replicas and buckets make of them. */
void sum_add_memory(struct stage_sum *u, size_t k, const struct cost_part *part);
enum status sum_finish_memory(struct stage_sum *u) MUST_CHECK;

/* context.c: what op exchanges for attention and gathers again, added to *to: sums, until
 * sum_mean_context(). `again`: where its forward goes that the backward makes again; NULL:
 * nowhere. */
void sum_add_context(struct stage_sum *u, uint32_t op, const struct op_cost *cost,
                     struct lowering_exchange *again, struct lowering_context *to);
/* With tensor overlap, likewise: the op's product and its sums; `again`: and those of its forward
 * in the backward. */
void sum_add_products(struct stage_sum *u, uint32_t op, const struct op_cost *cost, bool again,
                      struct lowering_context *to);
/* Of all-to-alls: what has come, which attention keeps from forward to backward. */
int64_t sum_swapped(const struct stage_sum *u, uint32_t op);
void sum_join_exchange(struct lowering_exchange *to, const struct lowering_exchange *from);
void sum_mean_context(struct lowering_context *c);
/* cost.c: seconds of what a backward makes again of op, whose forward takes so many. */
double sum_again(const struct stage_sum *u, uint32_t op, double again_s);
/* Sums become means. */
void sum_mean(struct lowering_calls *calls);
void sum_add_call(struct lowering_calls *calls, uint32_t count, int64_t bytes);

/* Bytes of what shards sum behind an op's forward (its output) and backward (gradients of its
 * inputs), of a microbatch and of this replica's tokens; 0: nothing. */
struct sum_bytes {
    int64_t forward, backward;
};
struct sum_bytes sum_of_shards(const struct stage_sum *u, uint32_t op);

/* cost_buckets.c: cut the stage into buckets, c.bucket, and say which parts each pass has. */
enum status sum_make_buckets(struct stage_sum *u) MUST_CHECK;

#endif
