/* Buckets of a stage's gradients and parameters: what is reduced and gathered together. */
#include <stdlib.h>

#include "core/array.h"
#include "core/lower/summing.h"

/* program_op.part is a byte; with ZeRO 3 a pass may have two parts for each bucket but one. */
enum { MAX_BUCKETS = 200, MAX_UNITS = 120 };

/* What op adds to a bucket: its gradients, and the weights that it borrows from another op of the
 * stage, unless a later op of the bucket does so already. */
struct share {
    int64_t dense, experts, borrowed;
};

static int64_t own_bytes(const struct sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    return sum_scaled(o->parameter_bytes, cost_part(o, &u->split).parameters);
}

/* Position k among the stage's ops; the bucket ends before position `high`. */
static struct share share_of(const struct sum *u, size_t k, size_t high)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[u->s->op[k]];
    int64_t own = own_bytes(u, u->s->op[k]);
    bool experts = u->split.expert_parallel > 1 && o->exchange_bytes > 0;
    bool borrows = o->shares != MODEL_NO_OP && u->l->shape.stage_of[o->shares] == u->stage;
    for (size_t i = k + 1; borrows && i < high; i++)
        borrows = m->op[u->s->op[i]].shares != o->shares;
    return (struct share){experts ? 0 : own, experts ? own : 0,
                          borrows ? own_bytes(u, o->shares) : 0};
}

/* lent [model->n]: ops whose weights other ops of the stage borrow. With ZeRO 3 those gather the
 * lender's bucket too, which has nothing else, therefore. */
static enum status find_lenders(const struct sum *u, bool **lent)
{
    const struct model *m = u->l->model;
    PASS(ARRAY_NEW(*lent, m->n));
    for (size_t k = 0; k < u->s->ops; k++) {
        uint32_t owner = m->op[u->s->op[k]].shares;
        if (owner != MODEL_NO_OP && u->l->shape.stage_of[owner] == u->stage)
            (*lent)[owner] = true;
    }
    return STATUS_OK;
}

/* A bucket is complete at op `low`, and another one begins. */
static void close_bucket(struct lowering_cost *c, size_t low, struct lowering_bucket *open)
{
    open->gradients.low = (uint32_t)low;
    c->bucket[c->buckets++] = *open;
    *open = (struct lowering_bucket){0};
}

static int64_t held_by(const struct lowering_bucket *b)
{
    return b->gradients.bytes + b->expert_bytes + b->borrowed_bytes;
}

/* Cut the ops into buckets, in the order in which a backward completes their gradients; *open is
 * the last one. A bucket of ZeRO 0 and 1 ends with the op that fills it. Of ZeRO 2 and 3 two are
 * in memory: one ends before it would be larger than it should. */
static void cut(struct sum *u, const bool *lent, int64_t size, struct lowering_bucket *open)
{
    struct lowering_cost *c = &u->c;
    size_t most = c->units ? MAX_UNITS : MAX_BUCKETS, high = u->s->ops;
    for (size_t k = high; k-- > 0;) {
        uint32_t op = u->s->op[k];
        struct share share = share_of(u, k, high);
        int64_t bytes = share.dense + share.experts + share.borrowed;
        if (c->units && held_by(open) > 0 && (held_by(open) + bytes > size || lent[op]) &&
            c->buckets < most) {
            close_bucket(c, k + 1, open);
            high = k + 1;
        }
        struct op_cost cost = cost_op(u->l->model, u->type, op, u->l->plan->microbatch_size,
                                      u->l->plan->optimizer, &u->split);
        open->seconds += cost.backward_s;
        open->forward_s += cost.forward_s;
        sum_add_context(u, op, &cost, &open->context);
        open->gradients.bytes += share.dense;
        open->expert_bytes += share.experts;
        open->borrowed_bytes += share.borrowed;
        if (k > 0 && c->buckets < most && (c->units ? lent[op] : open->gradients.bytes >= size)) {
            close_bucket(c, k, open);
            high = k;
        }
    }
}

/* Without a size given, a bucket of ZeRO 2 and 3 is as large as the stage's largest op: whatever
 * is gathered and reduced, that op must be. */
static int64_t bucket_size(const struct sum *u)
{
    const struct lowering_cost *c = &u->c;
    int64_t least = c->units ? 2 * c->weight_bytes / MAX_UNITS : c->replicated_bytes / MAX_BUCKETS;
    int64_t size = u->l->plan->bucket_bytes;
    size = c->units && size == 0 ? u->largest_bytes : size;
    return size > least ? size : least + 1;
}

/* With full recomputation ZeRO 3 runs the forwards again bucket by bucket, the last of them in the
 * part that makes the first gradients; else the first part recomputes all that is recomputed. The
 * last bucket has, besides its own, the copies of tied weights. */
enum status sum_make_buckets(struct sum *u)
{
    enum status st;
    const struct plan *p = u->l->plan;
    struct lowering_cost *c = &u->c;
    bool *lent = NULL;
    struct lowering_bucket open = {0};
    uint32_t zero = lowering_zero(u->l, u->stage);
    c->units = zero >= 2 && !u->l->schedule->split && c->weight_bytes > 0;
    c->overlapped = p->bucket_bytes > 0 && u->s->replicas > 1 && zero < 2 &&
                    !u->l->schedule->split && !u->l->schedule->asynchronous &&
                    c->replicated_bytes > 0;
    bool again = c->units && zero == 3 && u->s->recompute == RECOMPUTE_FULL;
    int64_t left = c->replicated_bytes;
    TRY(ARRAY_NEW(c->bucket, c->overlapped || c->units ? MAX_BUCKETS + 1 : 1));
    if (c->units)
        TRY(find_lenders(u, &lent));
    if (c->overlapped || c->units)
        cut(u, lent, bucket_size(u), &open);
    for (size_t b = 0; b < c->buckets; b++)
        left -= c->bucket[b].gradients.bytes;
    open.gradients.bytes = left;
    close_bucket(c, 0, &open);
    c->units = c->units && c->buckets > 1;
    c->bucket[0].seconds += again ? c->bucket[0].forward_s : c->recompute_s;
    sum_join_exchange(&c->bucket[0].context.backward,
                      again ? &c->bucket[0].context.remade : &c->context.remade);
    for (size_t b = 0; b < c->buckets; b++)
        sum_mean_context(&c->bucket[b].context);
out:
    free(lent);
    return st;
}
