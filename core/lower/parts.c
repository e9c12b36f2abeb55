/* Passes in parts, a bucket each (program_part_bucket()): with ZeRO 3 behind the gather of the
 * bucket's parameters, which is one part ahead; backwards are followed by the sum of what they
 * completed. */
#include "core/lower/lowering.h"

/* ZeRO 3: parameters of the stage or of a bucket, while the op before still computes. */
static enum status gather_over(const struct pass *a, uint32_t group, uint8_t part, bool ahead,
                               int64_t bytes)
{
    if (group == PROGRAM_NONE || bytes == 0)
        return STATUS_OK;
    struct program_op op =
        list_collective(OP_ALLGATHER, FOR_SHARDS, a->stage, a->s.microbatch, group, bytes);
    op.part = part;
    uint32_t position;
    PASS(list_append(a->list, &op, &position));
    if (a->list->gathered)
        PASS(list_depend(a->list, a->list->gathered - 1));
    uint32_t user = a->list->compute[ahead ? 0 : 1]; /* of the memory that it goes to */
    if (user)
        PASS(list_depend(a->list, user - 1));
    a->list->gathered = position + 1;
    if (!ahead)
        a->list->needed = a->list->gathered;
    return STATUS_OK;
}

/* ZeRO 1: the next compute op needs what has been gathered for it since the iteration began:
 * experts, then buckets from the first op on (lowering_begin()). */
static void need_spread(const struct pass *a, size_t part)
{
    const struct lowering *l = a->l;
    const struct lowering_cost *c = a->cost;
    uint32_t first = l->replay.spread[a->rank * l->shape.chunks + a->s.chunk], n = 0;
    for (size_t b = part > 0 ? part - 1 : 0; b < c->buckets; b++)
        n += c->bucket[b].gradients.bytes > 0 &&
             lowering_sharing(l, a->replica->team, a->rank, a->shard) != PROGRAM_NONE;
    n += c->expert_bytes > 0 && l->groups.same[a->rank] != PROGRAM_NONE;
    if (first > 0 && n > 0)
        a->list->needed = first + n - 1;
}

bool pass_gathers(const struct pass *a)
{
    const struct lowering *l = a->l;
    if (l->plan->zero == 3 ? !l->plan->zero_keep : !lowering_spreads_late(l))
        return l->plan->zero == 3;
    return !l->replay.gathered[a->rank * l->shape.chunks + a->s.chunk];
}

enum status pass_gather(const struct pass *a, size_t part, bool ahead)
{
    const struct lowering *l = a->l;
    const struct lowering_bucket *b = part > 0 ? &a->cost->bucket[part - 1] : NULL;
    int64_t dense = b ? b->gradients.bytes + b->borrowed_bytes : a->cost->replicated_bytes,
            experts = b ? b->expert_bytes : a->cost->expert_bytes;
    if (!pass_gathers(a))
        return STATUS_OK;
    if (lowering_spreads_late(l)) {
        need_spread(a, part);
        return STATUS_OK;
    }
    if (b && l->plan->zero_keep) /* lenders come before: theirs are there */
        dense -= b->borrowed_bytes;
    PASS(gather_over(a, lowering_sharing(l, a->replica->team, a->rank, a->shard), (uint8_t)part,
                     ahead, dense));
    return gather_over(a, l->groups.same[a->rank], (uint8_t)part, ahead, experts);
}

/* A forward of the ops of a bucket. */
static enum status pass_forward_of(const struct pass *a, size_t b, uint8_t part,
                                   int64_t stash_bytes, uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    double slower = 1 + c->slowdown, seconds = slower * c->bucket[b].forward_s;
    PASS(pass_exchange(a, &c->bucket[b].context, true, part, slower, &seconds));
    return pass_append(a, part, seconds, stash_bytes, position);
}

/* The first part takes the stash. */
enum status pass_forward(const struct pass *a, uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    for (size_t b = c->buckets; b-- > 0;) {
        PASS(pass_gather(a, b + 1, false));
        PASS(pass_forward_of(a, b, (uint8_t)(c->buckets - b),
                             b + 1 == c->buckets ? c->stash_bytes : 0, position));
    }
    return STATUS_OK;
}

/* ZeRO 2, 3: the gradients of a bucket grow where those of the bucket before the last one were,
 * until their sum is complete. */
static enum status depend_on_memory(struct lowering_list *list)
{
    return list->reduced[1] ? list_depend(list, list->reduced[1] - 1) : STATUS_OK;
}

/* A part of a backward: a forward that is made again, or what completes the gradients of
 * `bucket`. */
struct parameter_part {
    size_t bucket;
    bool again;
};

/* The part behind `now`; of a unit over several buckets all but the first are made again, from
 * the stage's first op on, before the backward of that one. Behind the last part: .bucket ==
 * buckets. */
static struct parameter_part pass_next_part(const struct lowering_cost *c,
                                            const struct parameter_part *now)
{
    size_t first = now->bucket + 1, end;
    if (now->again && !c->bucket[now->bucket - 1].gradients.again)
        return (struct parameter_part){now->bucket - 1, false};
    if (now->again)
        return (struct parameter_part){now->bucket - 1, true};
    if (first == c->buckets || c->bucket[first].gradients.again) /* made again already */
        return (struct parameter_part){first, false};
    for (end = first + 1; end < c->buckets && c->bucket[end].gradients.again;)
        end++;
    return (struct parameter_part){end - 1, end - 1 > first};
}

/* What groups of replicas have still to sum, and what has scattered it. */
struct owed {
    struct lowering_sum sum;
    uint32_t after;
};

/* What completes the gradients of a bucket, and their sum. Groups of replicas sum theirs one part
 * later, so that no part waits for what was scattered behind the one before it. */
static enum status complete_bucket(const struct pass *a, size_t b, uint8_t part, struct owed *owed,
                                   uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    const struct lowering_bucket *bucket = &c->bucket[b];
    /* beside the sum of the bucket before, if there is one, or a gather */
    double slower = b > 0 || c->units ? 1 + c->slowdown : 1, seconds = slower * bucket->seconds;
    struct lowering_sum sum = {bucket->gradients.bytes, c->units ? bucket->expert_bytes : 0,
                               (uint8_t)(c->units ? b + 1 : 0)};
    PASS(pass_exchange(a, &bucket->context, false, part, slower, &seconds));
    PASS(pass_append(a, part, seconds, b + 1 == c->buckets ? c->stash_bytes : 0, position));
    if (c->units)
        PASS(depend_on_memory(a->list));
    uint32_t microbatch = c->units ? a->s.microbatch : PROGRAM_NONE;
    PASS(lowering_reduce(a->l, a->rank, a->stage, microbatch, &sum));
    PASS(lowering_sum_groups(a->l, a->rank, a->stage, microbatch, &owed->sum, owed->after));
    *owed = (struct owed){.after = a->list->scattered};
    if (lowering_is_last(a->l, a->stage, a->s.microbatch))
        owed->sum = (struct lowering_sum){.bytes = sum.bytes, .part = (uint8_t)(b + 1)};
    if (c->units && sum.bytes + sum.expert_bytes > 0) {
        a->list->reduced[1] = a->list->reduced[0];
        a->list->reduced[0] = a->list->scattered;
    }
    return STATUS_OK;
}

/* The gather for a part stands before the part before it, and so before the sum that follows that
 * one, which it need not wait for. */
enum status pass_backward(const struct pass *a, uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    size_t first = 0;
    while (first + 1 < c->buckets && c->bucket[first + 1].gradients.again)
        first++;
    struct parameter_part now = {first, first > 0}, next;
    struct owed owed = {0};
    if (c->units)
        PASS(pass_gather(a, now.bucket + 1, false));
    for (uint8_t part = 1; now.bucket < c->buckets; part++, now = next) {
        next = pass_next_part(c, &now);
        if (c->units && next.bucket < c->buckets)
            PASS(pass_gather(a, next.bucket + 1, true));
        if (now.again)
            PASS(pass_forward_of(a, now.bucket, part, 0, position));
        else
            PASS(complete_bucket(a, now.bucket, part, &owed, position));
    }
    return lowering_sum_groups(a->l, a->rank, a->stage, c->units ? a->s.microbatch : PROGRAM_NONE,
                               &owed.sum, owed.after);
}
