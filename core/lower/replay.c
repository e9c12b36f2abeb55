/* Compute ops from the schedule, and what belongs to a microbatch, by a global replay.
 *
 * Every replica of a team has its steps (schedule_replica()). A queue holds the replicas that may
 * be able to go on; one takes a turn:
 *   1. is everything there that its next step needs?  else it waits until a message wakes it
 *   2. run_step() for each shard: ALLGATHER (ZeRO 3), the compute op, collectives inside the stage
 *   3. transfer(): SEND in this list and RECV in the receiver's in the same instant
 *   4. reduce_team(), when gradients are reduced after every backward: once all replicas of the
 * team
 *      stand there, so that the collective has one place in all of their lists
 * Since each list is a part of one global order, the lists cannot deadlock (core/lower.h). */
#include <stdlib.h>

#include "core/array.h"
#include "core/lower/lowering.h"

/* A replica that may be able to go on gets a turn, once. */
static void wake(struct lowering *l, uint32_t replica)
{
    if (l->replay.replica[replica].queued)
        return;
    l->replay.replica[replica].queued = true;
    l->replay.queue[(l->replay.head + l->replay.length++) % l->shape.replicas] = replica;
}

/* Who has microbatch m of this team: replica m mod r. */
static uint32_t replica_for(const struct lowering *l, uint32_t team, uint32_t microbatch)
{
    return l->shape.first_replica[team] +
           lowering_place_of(l, microbatch % lowering_team(l, team)->replicas);
}

/* Index in the arrays [row][microbatch][shard] of struct lowering_replay. */
static size_t slot_of(const struct lowering *l, size_t row, uint32_t microbatch, uint32_t shard)
{
    return (row * l->plan->microbatches + microbatch) * l->shape.most_shards + shard;
}

/* ---- messages */

/* With sequence parallelism a boundary tensor is divided over the shards, if both ends have as
 * many; else every shard needs all of it. */
static int64_t message_bytes(const struct lowering *l, const struct lowering_edge *edge)
{
    uint32_t a = l->plan->stage[edge->from].tensor_parallel;
    uint32_t b = l->plan->stage[edge->to].tensor_parallel;
    return l->plan->sequence_parallel && a == b ? edge->bytes / a : edge->bytes;
}

/* SEND in the sender's list and, in the same instant, RECV in the receiver's. The tensor is whole
 * (or the same slice) on every shard: receiver shard k has it from sender shard k mod shards. */
static enum status send_to(struct lowering *l, uint32_t e, const struct program_op *send,
                           const struct lowering_replica *source,
                           const struct lowering_replica *target, uint32_t shard,
                           const uint32_t *computed)
{
    uint32_t from = shard % source->shards, position;
    struct lowering_list *here = &l->replay.list[source->rank + from],
                         *there = &l->replay.list[target->rank + shard];
    struct program_op op = *send;
    op.peer = target->rank + shard;
    op.match = (uint32_t)there->n;
    PASS(list_append(here, &op, &position));
    PASS(list_depend(here, computed[from]));
    op.kind = OP_RECV;
    op.match = position;
    op.stage = send->peer_stage;
    op.peer = source->rank + from;
    op.peer_stage = send->stage;
    PASS(list_append(there, &op, &position));
    uint32_t *slot = send->backward ? l->replay.returned : l->replay.arrived;
    slot[slot_of(l, e, send->microbatch, shard)] = position + 1;
    return STATUS_OK;
}

/* What edge e carries of a microbatch; computed[shards] are the ops that made it. */
static enum status transfer(struct lowering *l, uint32_t e, bool backward, uint32_t microbatch,
                            const struct lowering_replica *source, const uint32_t *computed)
{
    const struct lowering_edge *edge = &l->shape.edge[e];
    uint32_t from = backward ? edge->to : edge->from, to = backward ? edge->from : edge->to;
    uint32_t target = replica_for(l, l->shape.team_of[to], microbatch);
    const struct lowering_replica *there = &l->replay.replica[target];
    uint32_t channel = backward ? (uint32_t)l->shape.edges + e : e;
    struct program_op op = list_op(OP_SEND, FOR_PIPELINE, from, microbatch);
    op.backward = backward;
    op.peer_stage = to;
    op.tag = channel * l->plan->microbatches + microbatch;
    op.bytes = message_bytes(l, edge);
    uint32_t *slot = backward ? l->replay.returned : l->replay.arrived;
    for (uint32_t k = 0; k < there->shards; k++)
        if (there == source) /* a later stage of the same ranks */
            slot[slot_of(l, e, microbatch, k)] = computed[k] + 1;
        else
            PASS(send_to(l, e, &op, source, there, k, computed));
    wake(l, target);
    return STATUS_OK;
}

/* ---- one step */

/* Is everything there that this step needs from other stages? */
static bool is_ready(const struct lowering *l, uint32_t stage, const struct schedule_step *s)
{
    if (s->kind == OP_FORWARD) {
        for (size_t k = l->shape.in_start[stage]; k < l->shape.in_start[stage + 1]; k++)
            if (!l->replay.arrived[slot_of(l, l->shape.in[k], s->microbatch, 0)])
                return false;
    } else if (s->kind != OP_BACKWARD_WEIGHT) {
        for (size_t e = l->shape.out_start[stage]; e < l->shape.out_start[stage + 1]; e++)
            if (!l->replay.returned[slot_of(l, e, s->microbatch, 0)])
                return false;
    }
    return true;
}

/* A forward waits for its inputs, a backward for its forward and for its gradients. */
static enum status depend_on_inputs(const struct pass *a)
{
    const struct lowering *l = a->l;
    uint32_t microbatch = a->s.microbatch;
    if (a->s.kind == OP_FORWARD) {
        for (size_t k = l->shape.in_start[a->stage]; k < l->shape.in_start[a->stage + 1]; k++)
            PASS(list_depend(
                a->list, l->replay.arrived[slot_of(l, l->shape.in[k], microbatch, a->shard)] - 1));
    } else if (a->s.kind == OP_BACKWARD_WEIGHT) {
        PASS(list_depend(a->list, l->replay.half[slot_of(l, a->stage, microbatch, a->shard)]));
    } else {
        PASS(list_depend(a->list, l->replay.forward[slot_of(l, a->stage, microbatch, a->shard)]));
        for (size_t e = l->shape.out_start[a->stage]; e < l->shape.out_start[a->stage + 1]; e++)
            PASS(list_depend(a->list, l->replay.returned[slot_of(l, e, microbatch, a->shard)] - 1));
    }
    return STATUS_OK;
}

enum status pass_append(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                        uint32_t *position)
{
    struct lowering_list *list = a->list;
    struct program_op op = list_op(a->s.kind, FOR_PIPELINE, a->stage, a->s.microbatch);
    op.part = part;
    op.seconds = seconds;
    op.bytes = bytes;
    PASS(list_append(list, &op, position));
    PASS(depend_on_inputs(a));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    if (list->needed && a->l->plan->zero == 3)
        PASS(list_depend(list, list->needed - 1));
    list->needed = list->gathered;
    list->blocked = 0;
    list->compute[1] = list->compute[0];
    list->compute[0] = *position + 1;
    return STATUS_OK;
}

/* A collective inside the stage, which the next op waits for; *position moves on to it. */
static enum status call(const struct pass *a, enum op_kind kind, enum op_purpose purpose,
                        uint32_t group, const struct lowering_calls *calls, uint32_t *position)
{
    bool sums = kind == OP_ALLREDUCE || kind == OP_REDUCESCATTER;
    uint32_t after = *position;
    if (calls->count == 0 || group == PROGRAM_NONE)
        return STATUS_OK;
    struct program_op op = list_collective(kind, purpose, a->stage, a->s.microbatch, group,
                                           sums ? calls->reduced_bytes : calls->bytes);
    op.count = calls->count;
    PASS(list_append(a->list, &op, position));
    PASS(list_depend(a->list, after));
    a->list->blocked = *position + 1;
    return STATUS_OK;
}

/* Collectives inside the stage after a pass: tensor parallelism, then experts. */
static enum status calls_after(const struct pass *a, uint32_t *position)
{
    const struct lowering *l = a->l;
    bool forward = a->s.kind == OP_FORWARD;
    if (a->s.kind == OP_BACKWARD_WEIGHT)
        return STATUS_OK;
    const struct lowering_calls *sum = forward ? &a->cost->forward_sum : &a->cost->backward_sum;
    const struct lowering_calls *experts =
        forward ? &a->cost->forward_experts : &a->cost->backward_experts;
    uint32_t tensor = l->groups.tensor[a->replica - l->replay.replica];
    if (l->plan->sequence_parallel) {
        PASS(call(a, OP_REDUCESCATTER, FOR_TENSOR, tensor, sum, position));
        PASS(call(a, OP_ALLGATHER, FOR_TENSOR, tensor, sum, position));
    } else {
        PASS(call(a, OP_ALLREDUCE, FOR_TENSOR, tensor, sum, position));
    }
    return call(a, OP_ALLTOALL, FOR_EXPERTS, l->groups.experts[a->rank], experts, position);
}

/* Is it the last microbatch that its replica has? */
static bool is_last(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return microbatch + l->plan->stage[stage].replicas >= l->plan->microbatches;
}

/* *position: what the messages of this shard wait for. */
static enum status compute(const struct pass *a, uint32_t *position)
{
    struct lowering *l = a->l;
    const struct lowering_cost *c = a->cost;
    size_t slot = slot_of(l, a->stage, a->s.microbatch, a->shard);
    double seconds = a->s.kind == OP_FORWARD          ? c->forward_s
                     : a->s.kind == OP_BACKWARD       ? c->backward_s
                     : a->s.kind == OP_BACKWARD_INPUT ? c->input_s
                                                      : c->weight_s;
    if (l->plan->zero >= 2 && lowering_data(l, a->replica->team, a->shard) != PROGRAM_NONE)
        seconds *= 1 + c->slowdown;
    if (a->s.kind == OP_FORWARD && c->units && l->plan->zero == 3) {
        PASS(pass_forward(a, position));
    } else if (a->s.kind == OP_BACKWARD &&
               (c->units || (c->overlapped && is_last(l, a->stage, a->s.microbatch)))) {
        PASS(pass_backward(a, position));
    } else {
        if (a->s.kind != OP_BACKWARD_WEIGHT)
            PASS(pass_gather(a, 0, false));
        PASS(pass_append(a, 0, seconds, a->s.kind == OP_BACKWARD_INPUT ? 0 : c->stash_bytes,
                         position));
    }
    if (a->s.kind == OP_FORWARD)
        l->replay.forward[slot] = *position;
    if (a->s.kind == OP_BACKWARD_INPUT)
        l->replay.half[slot] = *position;
    return calls_after(a, position);
}

/* The pass of one shard in the replica's current step. */
static enum status make_pass(struct lowering *l, const struct lowering_replica *replica,
                             uint32_t shard, struct pass *a)
{
    *a = (struct pass){
        .l = l, .replica = replica, .shard = shard, .s = replica->schedule[replica->step]};
    a->stage = a->s.chunk * l->shape.teams + replica->team;
    a->rank = replica->rank + shard;
    a->list = &l->replay.list[a->rank];
    return lowering_cost(l, a->stage, lowering_device(l, replica->team, replica->number, shard),
                         &a->cost);
}

static enum status run_step(struct lowering *l, const struct lowering_replica *replica,
                            uint32_t *computed /* [shards] */)
{
    struct pass a = {0};
    for (uint32_t shard = 0; shard < replica->shards; shard++) {
        PASS(make_pass(l, replica, shard, &a));
        PASS(compute(&a, &computed[shard]));
    }
    if (a.s.kind == OP_FORWARD)
        for (size_t e = l->shape.out_start[a.stage]; e < l->shape.out_start[a.stage + 1]; e++)
            PASS(transfer(l, (uint32_t)e, false, a.s.microbatch, replica, computed));
    else if (a.s.kind != OP_BACKWARD_WEIGHT)
        for (size_t k = l->shape.in_start[a.stage]; k < l->shape.in_start[a.stage + 1]; k++)
            PASS(transfer(l, l->shape.in[k], true, a.s.microbatch, replica, computed));
    return STATUS_OK;
}

/* Are the gradients of every microbatch summed over the replicas at once? */
static bool reduces_now(const struct lowering *l, const struct lowering_replica *replica)
{
    uint8_t kind = replica->schedule[replica->step].kind;
    return (kind == OP_BACKWARD || kind == OP_BACKWARD_WEIGHT) &&
           (l->plan->zero >= 2 || l->schedule->asynchronous);
}

/* All replicas have come to their sums: these happen in this instant for all of them. */
static enum status reduce_team(struct lowering *l, uint32_t team)
{
    l->replay.reducing[team] = 0;
    for (uint32_t c = l->shape.first_replica[team]; c < l->shape.first_replica[team + 1]; c++) {
        struct lowering_replica *replica = &l->replay.replica[c];
        for (uint32_t shard = 0; shard < replica->shards; shard++) {
            struct pass a;
            PASS(make_pass(l, replica, shard, &a));
            if (!a.cost->units) /* else every part of the backward has had its sum */
                PASS(lowering_reduce(
                    l, a.rank, a.stage, a.s.microbatch,
                    &(struct lowering_sum){a.cost->replicated_bytes, a.cost->expert_bytes, 0}));
            if (l->schedule->asynchronous)
                PASS(lowering_update(l, a.rank, a.stage, a.s.microbatch, a.cost));
        }
        replica->reduces = false;
        replica->step++;
        wake(l, c);
    }
    return STATUS_OK;
}

/* ---- the schedule of every replica */

/* Room for the ops of every step and its messages, and for the end of the iteration. */
static enum status reserve(struct lowering *l, const struct lowering_replica *replica)
{
    size_t messages = 0;
    for (size_t k = 0; k < replica->steps; k++) {
        uint32_t stage = replica->schedule[k].chunk * l->shape.teams + replica->team;
        if (replica->schedule[k].kind != OP_BACKWARD_WEIGHT)
            messages += l->shape.in_start[stage + 1] - l->shape.in_start[stage] +
                        l->shape.out_start[stage + 1] - l->shape.out_start[stage];
    }
    size_t ops = replica->steps + messages + 2 * l->shape.chunks;
    for (uint32_t k = 0; k < replica->shards; k++)
        PASS(list_reserve(&l->replay.list[replica->rank + k], ops, ops));
    return STATUS_OK;
}

/* With equal replicas each orders its own microbatches. Otherwise one order is made for all the
 * stage's replicas together, of which each has its part: what one replica waits for, all earlier
 * stages do early enough. The depth is then PipeDream's (Narayanan et al., SOSP 2019). */
static enum status schedule_replica(struct lowering *l, struct lowering_replica *replica)
{
    bool even = lowering_is_even(l);
    uint32_t replicas = lowering_team(l, replica->team)->replicas;
    const struct schedule_place at = lowering_place(l->plan, l->shape.teams, replica->team);
    size_t n = schedule_steps(l->schedule, &at);
    PASS(ARRAY_NEW(replica->schedule, n));
    l->schedule->order(&at, replica->schedule);
    for (size_t k = 0; k < n; k++) {
        struct schedule_step s = replica->schedule[k];
        if (even)
            s.microbatch = s.microbatch * replicas + replica->number;
        else if (s.microbatch % replicas != replica->number)
            continue;
        replica->schedule[replica->steps++] = s;
    }
    return reserve(l, replica);
}

/* One step of replica c, if it can be taken. */
static enum status take_turn(struct lowering *l, uint32_t c, uint32_t *computed /* [shards] */)
{
    struct lowering_replica *replica = &l->replay.replica[c];
    if (replica->reduces || replica->step == replica->steps)
        return STATUS_OK;
    const struct schedule_step *s = &replica->schedule[replica->step];
    if (!is_ready(l, s->chunk * l->shape.teams + replica->team, s))
        return STATUS_OK;
    PASS(run_step(l, replica, computed));
    if (!reduces_now(l, replica)) {
        replica->step++;
        wake(l, c); /* one step per turn: RECVs stand near where they are needed */
        return STATUS_OK;
    }
    replica->reduces = true;
    if (++l->replay.reducing[replica->team] == lowering_replicas(l, replica->team))
        PASS(reduce_team(l, replica->team));
    return STATUS_OK;
}

/* Until nobody can go on: then all are at their end, or the schedule does not fit the stages. */
static enum status take_turns(struct lowering *l)
{
    enum status st = STATUS_OK;
    size_t remaining = 0;
    uint32_t *computed;
    TRY(ARRAY_NEW(computed, l->shape.most_shards));
    while (l->replay.length > 0) {
        uint32_t c = l->replay.queue[l->replay.head];
        l->replay.head = l->replay.head + 1 < l->shape.replicas ? l->replay.head + 1 : 0;
        l->replay.length--;
        l->replay.replica[c].queued = false;
        TRY(take_turn(l, c, computed));
    }
    for (uint32_t c = 0; c < l->shape.replicas; c++)
        remaining += l->replay.replica[c].step < l->replay.replica[c].steps;
    if (remaining > 0)
        st = error_set(STATUS_INVALID,
                       "schedule %s cannot run on these stages: %zu replicas wait for each other",
                       l->plan->schedule, remaining);
out:
    free(computed);
    return st;
}

enum status lowering_replay(struct lowering *l)
{
    enum status st = lowering_check(l);
    for (uint32_t c = 0; st == STATUS_OK && c < l->shape.replicas; c++) {
        st = schedule_replica(l, &l->replay.replica[c]);
        wake(l, c);
    }
    return st == STATUS_OK ? take_turns(l) : st;
}
