/* The begin and the end of the iteration, in one order for all ranks:
 *   0. ZeRO 1 that keeps: ALLGATHER of the parameters that the replicas updated before
 *   1. ZeRO 1: tied weights, as long as their gradients are whole
 *   2. without ZeRO, or with ZeRO 1: gradients over the replicas, unless buckets have seen to it
 *   3. tied weights otherwise: ALLREDUCE over the stages that hold a copy
 *   4. gradients that are clipped: ALLREDUCE of what their norm is made of, over all ranks
 *   5. UPDATE of every stage; on the host if its state is there, between COPYs of gradients and of
 *      parameters
 *   6. ZeRO 1, 2: ALLGATHER of the parameters that the replicas have updated, unless that is for
 *      the next iteration to do
 * Without flush every backward has had its reduction and its update: nothing is left. */
#include "core/lower/lowering.h"

enum { NORM_BYTES = 8 }; /* of a rank: a sum of squares in two fp32 (exec/device/cpu/norm.c) */

/* The op with which the newest pass is complete. */
static uint32_t newest(const struct lowering_list *list)
{
    return (list->blocked ? list->blocked : list->compute[0]) - 1;
}

/* A collective over gradients or parameters; waits for the op at `after` and for the collective of
 * this kind before it. */
static enum status append_sum(struct lowering_list *list, struct program_op op, uint32_t after)
{
    uint32_t position;
    PASS(list_append(list, &op, &position));
    PASS(list_depend(list, after));
    PASS(list_depend_beside(list));
    if (list->scattered)
        PASS(list_depend(list, list->scattered - 1));
    if (list->raised && op.purpose == FOR_SHARDS)
        PASS(list_depend(list, list->raised - 1));
    list->scattered = position + 1;
    return STATUS_OK;
}

enum status lowering_reduce(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_sum *sum)
{
    struct lowering_list *list = &l->replay.list[rank];
    uint32_t team = l->shape.team_of[stage],
             shard = (rank - l->shape.first_rank[team]) % lowering_shards(l, team);
    uint32_t all = lowering_sharing(l, team, rank, shard);
    enum op_kind kind = l->plan->zero >= 1 ? OP_REDUCESCATTER : OP_ALLREDUCE;
    struct program_op op =
        list_collective(kind, FOR_DATA, stage, microbatch, all, lowering_reduced(l, sum->bytes));
    op.part = sum->part;
    if (all != PROGRAM_NONE && op.bytes > 0)
        PASS(append_sum(list, op, newest(list)));
    op.peer = l->groups.same[rank];
    op.bytes = lowering_reduced(l, sum->expert_bytes);
    if (op.peer != PROGRAM_NONE && op.bytes > 0)
        PASS(append_sum(list, op, newest(list)));
    return STATUS_OK;
}

enum status lowering_sum_groups(struct lowering *l, uint32_t rank, uint32_t stage,
                                uint32_t microbatch, const struct lowering_sum *sum, uint32_t after)
{
    struct lowering_list *list = &l->replay.list[rank];
    int64_t bytes = lowering_reduced(l, sum->bytes) / lowering_members(l, stage);
    if (l->groups.far[rank] == PROGRAM_NONE || bytes == 0)
        return STATUS_OK;
    struct program_op op =
        list_collective(OP_ALLREDUCE, FOR_DATA, stage, microbatch, l->groups.far[rank], bytes);
    uint32_t position;
    op.part = sum->part;
    PASS(list_append(list, &op, &position));
    PASS(list_depend(list, after - 1));
    if (list->summed)
        PASS(list_depend(list, list->summed - 1));
    list->summed = position + 1;
    return STATUS_OK;
}

/* The update waits for the newest reductions of its list, and so for all of them: each waits for
 * the one before. */
enum status lowering_update(struct lowering *l, uint32_t rank, uint32_t stage, uint32_t microbatch,
                            const struct lowering_cost *cost)
{
    struct lowering_list *list = &l->replay.list[rank];
    uint32_t position;
    struct program_op op = list_op(OP_UPDATE, FOR_PIPELINE, stage, microbatch);
    op.seconds = cost->update_s;
    PASS(list_append(list, &op, &position));
    if (list->scattered)
        PASS(list_depend(list, list->scattered - 1));
    if (list->summed)
        PASS(list_depend(list, list->summed - 1));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    list->blocked = list->beside = 0;
    list->compute[1] = list->compute[0];
    list->compute[0] = position + 1;
    return STATUS_OK;
}

/* Offloaded state: the rank's gradients go to its host, when they are summed. */
static enum status lower_gradients(struct lowering *l, uint32_t rank, uint32_t stage,
                                   const struct lowering_cost *cost)
{
    struct lowering_list *list = &l->replay.list[rank];
    struct program_op op = list_collective(OP_COPY, FOR_HOST, stage, PROGRAM_NONE,
                                           l->groups.host[0][rank], cost->updated_bytes);
    if (op.bytes == 0)
        return STATUS_OK;
    PASS(append_sum(list, op, newest(list)));
    return list->summed ? list_depend(list, list->summed - 1) : STATUS_OK;
}

/* And the parameters come back from there. */
static enum status raise_parameters(struct lowering *l, uint32_t rank, uint32_t stage,
                                    const struct lowering_cost *cost)
{
    struct lowering_list *list = &l->replay.list[rank];
    struct program_op op = list_collective(OP_COPY, FOR_HOST, stage, PROGRAM_NONE,
                                           l->groups.host[1][rank], cost->updated_bytes);
    uint32_t position;
    op.backward = true;
    if (op.bytes == 0)
        return STATUS_OK;
    PASS(list_append(list, &op, &position));
    PASS(list_depend(list, list->compute[0] - 1));
    list->raised = position + 1;
    return STATUS_OK;
}

/* ZeRO 1 and 2: every replica has updated its part of the parameters; now all need all, a call for
 * each bucket that has any. */
static enum status spread_parameters(struct lowering *l, uint32_t rank, uint32_t stage,
                                     const struct lowering_cost *cost)
{
    uint32_t team = l->shape.team_of[stage],
             shard = (rank - l->shape.first_rank[team]) % lowering_shards(l, team), calls = 0,
             experts = 0;
    struct lowering_list *list = &l->replay.list[rank];
    for (size_t b = 0; b < cost->buckets; b++) {
        calls += cost->bucket[b].gradients.bytes > 0;
        experts += l->plan->zero == 2 && cost->bucket[b].expert_bytes > 0;
    }
    struct program_op op =
        list_collective(OP_ALLGATHER, FOR_SHARDS, stage, PROGRAM_NONE,
                        lowering_sharing(l, team, rank, shard), cost->replicated_bytes);
    op.count = calls > 0 ? calls : 1;
    op.bytes /= op.count;
    if (op.peer != PROGRAM_NONE && op.bytes > 0)
        PASS(append_sum(list, op, newest(list)));
    op.peer = l->groups.same[rank];
    op.count = experts > 0 ? experts : 1; /* of ZeRO 1 in one piece */
    op.bytes = cost->expert_bytes / op.count;
    if (op.peer != PROGRAM_NONE && op.bytes > 0)
        PASS(append_sum(list, op, newest(list)));
    return STATUS_OK;
}

/* Every stage of every rank, in one order for all ranks. */
static enum status for_each_stage(struct lowering *l,
                                  enum status (*act)(struct lowering *l, uint32_t rank,
                                                     uint32_t stage, const struct lowering_cost *c))
{
    for (uint32_t c = 0; c < l->shape.replicas; c++)
        for (uint32_t k = 0; k < l->replay.replica[c].shards; k++)
            for (uint32_t i = 0; i < l->shape.chunks; i++) {
                const struct lowering_cost *cost;
                uint32_t s = lowering_stage(l, l->replay.replica[c].team, i);
                uint32_t device =
                    lowering_device(l, l->replay.replica[c].team, l->replay.replica[c].number, k);
                PASS(lowering_cost(l, s, device, &cost));
                PASS(act(l, l->replay.replica[c].rank + k, s, cost));
            }
    return STATUS_OK;
}

static enum status lower_reduction(struct lowering *l, uint32_t rank, uint32_t stage,
                                   const struct lowering_cost *cost)
{
    /* with buckets the dense ones are under way already */
    const struct lowering_sum sum = {cost->overlapped ? 0 : cost->replicated_bytes,
                                     cost->expert_bytes, 0};
    PASS(lowering_reduce(l, rank, stage, PROGRAM_NONE, &sum));
    return lowering_sum_groups(l, rank, stage, PROGRAM_NONE, &sum, l->replay.list[rank].scattered);
}

static enum status lower_update(struct lowering *l, uint32_t rank, uint32_t stage,
                                const struct lowering_cost *cost)
{
    PASS(lowering_update(l, rank, stage, PROGRAM_NONE, cost));
    bool offloaded = l->plan->offload & OFFLOAD_OPTIMIZER;
    return offloaded ? raise_parameters(l, rank, stage, cost) : STATUS_OK;
}

/* The stage of this team that has the owner or, else, a borrower. */
static uint32_t tied_stage(const struct lowering *l, uint32_t owner, uint32_t team)
{
    uint32_t op = owner;
    while (l->shape.team_of[l->shape.stage_of[op]] != team)
        do
            op++;
        while (l->model->op[op].shares != owner);
    return l->shape.stage_of[op];
}

/* Owner by owner, so that every rank meets its ties in the same order. */
static enum status tie(struct lowering *l)
{
    const struct lowering_grouping *g = &l->groups.all;
    for (size_t k = 0; k < l->groups.ties; k++) {
        const struct lowering_tie *tie = &l->groups.tie[k];
        for (size_t i = g->start[tie->group]; i < g->start[tie->group + 1]; i++) {
            struct lowering_list *list = &l->replay.list[g->member[i]];
            uint32_t stage = tied_stage(l, tie->owner, lowering_team_of_rank(l, g->member[i]));
            struct program_op op = list_collective(OP_ALLREDUCE, FOR_TIES, stage, PROGRAM_NONE,
                                                   tie->group, lowering_reduced(l, tie->bytes));
            op.tag = tie->owner;
            PASS(append_sum(list, op, newest(list)));
        }
    }
    return STATUS_OK;
}

/* Behind all sums of gradients of a rank; updates wait for it as for the last of these. */
static enum status lower_norm(struct lowering *l)
{
    const struct lowering_grouping *g = &l->groups.all;
    const uint32_t group = l->groups.norm;
    if (group == PROGRAM_NONE)
        return STATUS_OK;
    int64_t bytes = (int64_t)(g->device_start[group + 1] - g->device_start[group]) * NORM_BYTES;
    for (size_t i = g->start[group]; i < g->start[group + 1]; i++) {
        struct lowering_list *list = &l->replay.list[g->member[i]];
        uint32_t stage = lowering_stage(l, lowering_team_of_rank(l, g->member[i]), 0);
        PASS(append_sum(list,
                        list_collective(OP_ALLREDUCE, FOR_NORM, stage, PROGRAM_NONE, group, bytes),
                        newest(list)));
        if (list->summed)
            PASS(list_depend(list, list->summed - 1));
    }
    return STATUS_OK;
}

enum status lowering_finish(struct lowering *l)
{
    if (l->schedule->asynchronous) /* every update has its own */
        return STATUS_OK;
    if (l->plan->zero ==
        1) /* once scattered, what the copies of a weight have is in other places */
        PASS(tie(l));
    if (l->plan->zero < 2)
        PASS(for_each_stage(l, lower_reduction));
    if (l->plan->zero != 1)
        PASS(tie(l));
    PASS(lower_norm(l));
    if (l->plan->offload & OFFLOAD_OPTIMIZER)
        PASS(for_each_stage(l, lower_gradients));
    PASS(for_each_stage(l, lower_update));
    if ((l->plan->zero == 1 || l->plan->zero == 2) && !lowering_spreads_late(l))
        PASS(for_each_stage(l, spread_parameters));
    return STATUS_OK;
}

/* An ALLGATHER behind the one before it; *first: position + 1 of the stage's first one. */
static enum status append_gather(struct lowering_list *list, const struct program_op *op,
                                 uint32_t *first)
{
    uint32_t position;
    if (op->peer == PROGRAM_NONE || op->bytes == 0)
        return STATUS_OK;
    PASS(list_append(list, op, &position));
    if (list->gathered)
        PASS(list_depend(list, list->gathered - 1));
    list->gathered = position + 1;
    *first = *first ? *first : position + 1;
    return STATUS_OK;
}

/* Experts in one piece, then bucket after bucket from the stage's first op on. */
static enum status spread_late(struct lowering *l, uint32_t rank, uint32_t stage,
                               const struct lowering_cost *cost)
{
    uint32_t team = l->shape.team_of[stage], shards = lowering_shards(l, team);
    struct lowering_list *list = &l->replay.list[rank];
    uint32_t *first = &l->replay.spread[rank * l->shape.chunks + stage / l->shape.teams];
    struct program_op op = list_collective(OP_ALLGATHER, FOR_SHARDS, stage, PROGRAM_NONE,
                                           l->groups.same[rank], cost->expert_bytes);
    PASS(append_gather(list, &op, first));
    op.peer = lowering_sharing(l, team, rank, (rank - l->shape.first_rank[team]) % shards);
    for (size_t b = cost->buckets; b-- > 0;) {
        op.part = cost->buckets > 1 ? (uint8_t)(b + 1) : 0;
        op.bytes = cost->bucket[b].gradients.bytes;
        PASS(append_gather(list, &op, first));
    }
    return STATUS_OK;
}

enum status lowering_begin(struct lowering *l)
{
    if (!lowering_spreads_late(l))
        return STATUS_OK;
    PASS(for_each_stage(l, spread_late));
    for (uint32_t r = 0; r < lowering_ranks(l); r++)
        l->replay.list[r].gathered = 0; /* passes wait for what they need */
    return STATUS_OK;
}
