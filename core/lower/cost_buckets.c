/* Buckets of a stage's gradients and parameters: what is reduced and gathered together. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/lower/summing.h"

/* program_op.part is a byte: parts of a pass, some of them forwards that are made again. */
enum { MAX_BUCKETS = 200, MAX_PARTS = 250 };

/* What op adds to a bucket: its gradients, and the weights that it borrows from another op of the
 * stage, unless a later op of the bucket does so already. */
struct bucket_share {
    int64_t dense, experts, borrowed;
};

static int64_t own_bytes(const struct stage_sum *u, uint32_t op)
{
    const struct model_op *o = &u->l->model->op[op];
    return sum_scaled(o->parameter_bytes, cost_part(o, &u->split).parameters);
}

/* Position k among the stage's ops; the bucket ends before position `high`. */
static struct bucket_share bucket_share_of(const struct stage_sum *u, size_t k, size_t high)
{
    const struct model *m = u->l->model;
    const struct model_op *o = &m->op[u->s->op[k]];
    int64_t own = own_bytes(u, u->s->op[k]);
    bool experts = cost_spreads(&u->split, o);
    bool borrows = o->shares != MODEL_NO_OP && u->l->shape.stage_of[o->shares] == u->stage;
    for (size_t i = k + 1; borrows && i < high; i++)
        borrows = m->op[u->s->op[i]].shares != o->shares;
    return (struct bucket_share){experts ? 0 : own, experts ? own : 0,
                                 borrows ? own_bytes(u, o->shares) : 0};
}

/* lent [model->n]: ops whose weights other ops of the stage borrow. With ZeRO 3 those gather the
 * lender's bucket too, which has nothing else, therefore. */
static enum status find_lenders(const struct stage_sum *u, bool **lent)
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
static enum status close_bucket(struct lowering_cost *c, size_t low, struct lowering_bucket *open)
{
    PASS(ARRAY_ROOM(c->bucket, c->buckets));
    open->gradients.low = (uint32_t)low;
    c->bucket[c->buckets++] = *open;
    *open = (struct lowering_bucket){0};
    return STATUS_OK;
}

static int64_t held_by(const struct lowering_bucket *b)
{
    return b->gradients.bytes + b->expert_bytes + b->borrowed_bytes;
}

/* How a stage is cut: */
struct cutting {
    bool layers;  /* ZeRO 3, unless a size is given: at layers */
    bool nested;  /* ZeRO 3 that makes forwards again: a bucket has whole units, or a part of one */
    bool *lent;   /* [model->n] find_lenders(); NULL: not in units */
    int64_t size; /* of a bucket */
    size_t most;  /* buckets */
    bool within;  /* a bucket has begun within the unit that was come to last */
};

static uint32_t bucket_unit_at(const struct stage_sum *u, size_t k)
{
    return u->l->shape.unit[u->s->op[k]];
}

/* Bytes of the unit whose last op is at position k; too many where it has an op that must be a
 * bucket of its own. */
static int64_t unit_bytes(const struct stage_sum *u, const struct cutting *how, size_t k)
{
    int64_t bytes = 0;
    for (size_t i = k + 1; i-- > 0 && bucket_unit_at(u, i) == bucket_unit_at(u, k);) {
        struct bucket_share share = bucket_share_of(u, i, k + 1);
        bytes += share.dense + share.experts + share.borrowed;
        if (how->lent[u->s->op[i]])
            return INT64_MAX / 2;
    }
    return bytes;
}

/* Ops outside of blocks share a bucket as far as it has room for the largest of them, and a little:
 * the last layernorm stays with the head. */
static bool bucket_joins(const struct stage_sum *u, const struct cutting *how,
                         const struct lowering_bucket *open, size_t k, int64_t bytes)
{
    const struct model *m = u->l->model;
    uint32_t op = u->s->op[k], behind = u->s->op[k + 1];
    bool outside = !model_in_block(m, op) && !model_in_block(m, behind);
    return model_same_layer(m, op, behind) ||
           (outside && held_by(open) + bytes <= how->size + how->size / 64);
}

/* Does the open bucket end behind op k, of so many bytes? One without bytes may go on, but not with
 * a part of a unit. */
static bool bucket_ends_before(const struct stage_sum *u, const struct cutting *how,
                               const struct lowering_bucket *open, size_t k, int64_t bytes)
{
    bool other = how->nested && bucket_unit_at(u, k) != bucket_unit_at(u, k + 1);
    bool begins = other && bucket_unit_at(u, k) > 0, something = held_by(open) > 0;
    if (other && how->within)
        return true;
    if (how->lent[u->s->op[k]])
        return something;
    if (begins)
        bytes = unit_bytes(u, how, k);
    bool full =
        how->layers ? !bucket_joins(u, how, open, k, bytes) : held_by(open) + bytes > how->size;
    return full && (something || begins);
}

/* Op k and what follows it in the backward are in the next bucket. */
static void begin_bucket(const struct stage_sum *u, struct cutting *how, size_t k)
{
    how->within = bucket_unit_at(u, k) > 0 && k + 1 < u->s->ops &&
                  bucket_unit_at(u, k) == bucket_unit_at(u, k + 1);
}

/* Cut the ops into buckets, in the order in which a backward completes their gradients; *open is
 * the last one. A bucket of ZeRO 0 and 1 ends with the op that fills it. Of ZeRO 2 and 3 two are
 * in memory: one ends before it would be larger than it should. */
static enum status bucket_cut_ops(struct stage_sum *u, struct cutting *how,
                                  struct lowering_bucket *open)
{
    struct lowering_cost *c = &u->c;
    size_t high = u->s->ops;
    for (size_t k = high; k-- > 0;) {
        uint32_t op = u->s->op[k];
        struct bucket_share share = bucket_share_of(u, k, high);
        int64_t bytes = share.dense + share.experts + share.borrowed;
        if (c->units && k + 1 < high && bucket_ends_before(u, how, open, k, bytes)) {
            PASS(close_bucket(c, k + 1, open));
            high = k + 1;
            begin_bucket(u, how, k);
            share = bucket_share_of(u, k, high);
        } else if (k + 1 < u->s->ops && bucket_unit_at(u, k) != bucket_unit_at(u, k + 1)) {
            how->within = false;
        }
        open->gradients.bytes += share.dense;
        open->expert_bytes += share.experts;
        open->borrowed_bytes += share.borrowed;
        if (k > 0 && (c->units ? how->lent[op]
                               : open->gradients.bytes >= how->size && c->buckets < how->most)) {
            PASS(close_bucket(c, k, open));
            high = k;
            begin_bucket(u, how, k - 1);
        }
    }
    return STATUS_OK;
}

/* Without a size given, a bucket of ZeRO 2 is as large as the stage's largest op: whatever is
 * gathered and reduced, that op must be. One of ZeRO 3 is a layer; ops outside of blocks are as
 * large as the largest of them. */
static int64_t bucket_size(const struct stage_sum *u, const struct cutting *how)
{
    const struct lowering_cost *c = &u->c;
    int64_t size = u->l->plan->bucket_bytes, least = c->replicated_bytes / MAX_BUCKETS;
    if (how->layers)
        for (size_t k = 0; k < u->s->ops; k++) {
            int64_t own = own_bytes(u, u->s->op[k]);
            size = own > size && !model_in_block(u->l->model, u->s->op[k]) ? own : size;
        }
    else if (c->units && size == 0)
        size = u->largest_bytes;
    return size > least || c->units ? size : least + 1;
}

/* Ops low .. high - 1 of each bucket: seconds of its passes; with ZeRO 3 a part of a unit is made
 * again by itself, else all of a unit where its last op is. */
static void add_seconds(struct stage_sum *u, const struct cutting *how)
{
    struct lowering_cost *c = &u->c;
    size_t high = u->s->ops;
    /* parts take their shares of a pass, of the time that the device waits for the host as well */
    double forward = cost_pass_stretch(&u->forward), backward = cost_pass_stretch(&u->backward);
    double stretch = cost_pass_stretch(&u->again);
    double again_s = 0; /* of the unit, up to the op that was come to last, */
    struct lowering_exchange again = {0};
    for (size_t b = 0; b < c->buckets; high = c->bucket[b++].gradients.low)
        c->bucket[b].gradients.again = how->nested && high < u->s->ops &&
                                       bucket_unit_at(u, high) > 0 && high > 0 &&
                                       bucket_unit_at(u, high - 1) == bucket_unit_at(u, high);
    for (size_t k = 0, b = c->buckets - 1; k < u->s->ops; k++) {
        while (b > 0 && k >= c->bucket[b - 1].gradients.low)
            b--;
        struct lowering_bucket *at = &c->bucket[b];
        struct op_cost cost = sum_cost(u, u->s->op[k]);
        at->seconds += backward * cost.backward_s;
        at->forward_s += forward * cost.forward_s;
        at->seconds += bucket_unit_at(u, k) > 0 ? 0 : stretch * sum_again(u, u->s->op[k], 0);
        bool made_again = bucket_unit_at(u, k) > 0 && !at->gradients.again;
        again_s += made_again ? stretch * cost.again_s : 0;
        sum_add_context(u, u->s->op[k], &cost, made_again ? &again : NULL, &at->context);
        sum_add_products(u, u->s->op[k], &cost, made_again, &at->context);
        if (k + 1 == u->s->ops || bucket_unit_at(u, k + 1) != bucket_unit_at(u, k)) {
            at->seconds += again_s;
            sum_join_exchange(&at->context.backward, &again);
            again_s = 0;
            again = (struct lowering_exchange){0};
        }
    }
}

static size_t bucket_count_parts(const struct stage_sum *u)
{
    size_t n = u->c.buckets;
    for (size_t b = 0; b < u->c.buckets; b++)
        n += u->c.bucket[b].gradients.again;
    return n;
}

/* With larger buckets, if need be, until a pass has no more parts than it may have. The last bucket
 * has, besides its own, the copies of tied weights. */
static enum status make_buckets(struct stage_sum *u, struct cutting *how)
{
    struct lowering_cost *c = &u->c;
    how->size = bucket_size(u, how);
    do {
        struct lowering_bucket open = {0};
        int64_t left = c->replicated_bytes;
        free(c->bucket);
        c->bucket = NULL;
        c->buckets = 0;
        how->within = false;
        if (c->overlapped || c->units)
            PASS(bucket_cut_ops(u, how, &open));
        for (size_t b = 0; b < c->buckets; b++)
            left -= c->bucket[b].gradients.bytes;
        open.gradients.bytes = left;
        PASS(close_bucket(c, 0, &open));
        if (c->overlapped || c->units) /* else passes come whole */
            add_seconds(u, how);
        int64_t least = c->weight_bytes / MAX_PARTS;
        how->layers = false;
        how->size = 2 * (how->size > least ? how->size : least + 1);
    } while (c->units && bucket_count_parts(u) > MAX_PARTS);
    c->units = c->units && c->buckets > 1;
    for (int k = 0; k < 2 && c->units; k++) { /* parts of them, in any pass */
        c->context.products[k] = (struct lowering_exchange){0};
        for (size_t b = 0; b < c->buckets; b++)
            sum_join_exchange(&c->context.products[k], &c->bucket[b].context.products[k]);
    }
    for (size_t b = 0; b < c->buckets; b++)
        sum_mean_context(&c->bucket[b].context);
    return STATUS_OK;
}

enum status sum_make_buckets(struct stage_sum *u)
{
    enum status st = STATUS_OK;
    const struct plan *p = u->l->plan;
    struct lowering_cost *c = &u->c;
    uint32_t zero = lowering_zero(u->l, u->stage);
    struct cutting how = {.most = MAX_BUCKETS,
                          .layers = zero == 3 && p->bucket_bytes == 0,
                          .nested = lowering_reshards(u->l, u->stage) &&
                                    strategy_repeats_units(&u->s->own)};
    c->units = zero >= 2 && !u->l->schedule->split && c->weight_bytes > 0;
    c->overlapped = p->bucket_bytes > 0 && u->s->replicas > 1 && zero < 2 &&
                    !u->l->schedule->split && !u->l->schedule->asynchronous &&
                    c->replicated_bytes > 0;
    if (c->units)
        TRY(find_lenders(u, &how.lent));
    TRY(make_buckets(u, &how));
out:
    free(how.lent);
    return st;
}
