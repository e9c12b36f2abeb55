/* One step of a replica's schedule in its turn (turns.c): the compute op, or the pair of them, and
 * what belongs to its microbatch.
 *   1. lowering_is_ready(): is everything there that it needs from other stages?
 *   2. lowering_run(): for each shard ALLGATHER (ZeRO 3), the compute op, collectives inside the
 *      stage
 *   3. lowering_send(): SEND in this list and RECV in the receiver's in the same instant
 *   4. lowering_reduce_team(), when gradients are reduced after every backward: once all replicas of
 *      the team stand there, so that the collective has one place in all of their lists */
#include "core/array.h"
#include "core/lower/lowering.h"

/* A replica that may be able to go on gets a turn, once. */
void lowering_wake(struct lowering *l, uint32_t replica)
{
    if (l->replay.replica[replica].queued)
        return;
    l->replay.replica[replica].queued = true;
    l->replay.queue[(l->replay.head + l->replay.length++) % l->shape.replicas] = replica;
}

/* Who has microbatch m of a stage: replica m mod r, or the one beside it behind a crossed turn. */
static uint32_t replica_for(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    uint32_t team = l->shape.team_of[stage], r = lowering_team(l, team)->replicas;
    return l->shape.first_replica[team] +
           lowering_place_of(l, lowering_crosses(l, stage / l->shape.teams, microbatch % r));
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
    PASS(list_depend_beside(here));
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
    uint32_t target = replica_for(l, to, microbatch);
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
    lowering_wake(l, target);
    return STATUS_OK;
}

/* ---- one step */

static bool is_ready(const struct lowering *l, const struct lowering_replica *replica,
                     const struct schedule_step *s)
{
    uint32_t stage = lowering_stage(l, replica->team, s->chunk);
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

bool lowering_is_ready(const struct lowering *l, const struct lowering_replica *replica)
{
    const struct schedule_step *s = &replica->schedule[replica->step];
    return is_ready(l, replica, s) && (!s->paired || is_ready(l, replica, s + 1));
}

/* One shard's part of a step while it is appended. */
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

/* Dense parameters of bucket part - 1, or of all when part is 0, and those of experts, over the
 * replicas that have the same; ahead: not for the next compute op but for the one behind it. */
static enum status gather(const struct pass *a, size_t part, bool ahead)
{
    const struct lowering *l = a->l;
    const struct lowering_bucket *b = part > 0 ? &a->cost->bucket[part - 1] : NULL;
    int64_t dense = b ? b->gradients.bytes + b->borrowed_bytes : a->cost->replicated_bytes,
            experts = b ? b->expert_bytes : a->cost->expert_bytes;
    if (l->plan->zero < 3)
        return STATUS_OK;
    PASS(gather_over(a, lowering_data(l, a->replica->team, a->shard), (uint8_t)part, ahead, dense));
    return gather_over(a, l->groups.same[a->rank], (uint8_t)part, ahead, experts);
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

/* What the first compute op of a pair waits for, and the compute op before it. */
static enum status depend_on_begin(const struct pass *a)
{
    struct lowering_list *list = a->list;
    const struct program_op *first = &list->op[a->begin - 1];
    uint32_t from = first->dep_start, end = first[1].dep_start;
    for (uint32_t d = from; d < end; d++)
        PASS(list_depend(list, list->dep[d]));
    return a->before ? list_depend(list, a->before - 1) : STATUS_OK;
}

/* Append a compute op that waits for its inputs and for what blocks the list. */
static enum status append_compute(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                                  uint32_t *position)
{
    struct lowering_list *list = a->list;
    struct program_op op = list_op(a->s.kind, FOR_PIPELINE, a->stage, a->s.microbatch);
    op.part = part;
    op.seconds = seconds;
    op.bytes = bytes;
    PASS(list_append(list, &op, position));
    PASS(depend_on_inputs(a));
    if (a->beside)
        PASS(depend_on_inputs(a->beside));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    if (list->needed && a->l->plan->zero == 3)
        PASS(list_depend(list, list->needed - 1));
    list->needed = list->gathered;
    list->blocked = list->beside = 0;
    list->compute[1] = list->compute[0];
    list->compute[0] = *position + 1;
    return STATUS_OK;
}

/* A collective inside the stage, which the next op waits for; *position moves on to it. The first one
 * of a pair runs beside its compute ops. */
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
    if (a->begin && op_computes(&a->list->op[after]))
        PASS(depend_on_begin(a));
    else
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

/* ZeRO 3: forwards bucket by bucket, from the stage's first op on, each behind the gather of its
 * parameters; all but the last `kept` buckets. The first of them takes the stash. */
static enum status forward_in_units(const struct pass *a, size_t kept, int64_t stash_bytes,
                                    uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    for (size_t b = c->buckets; b-- > kept; stash_bytes = 0) {
        PASS(gather(a, b + 1, false));
        PASS(append_compute(a, (uint8_t)(c->buckets - b),
                            (1 + c->slowdown) * c->bucket[b].forward_s, stash_bytes, position));
    }
    return STATUS_OK;
}

/* Does the backward of the stage recompute its forward bucket by bucket? */
static bool remakes_units(const struct pass *a)
{
    return a->l->plan->zero == 3 && a->l->plan->stage[a->stage].recompute == RECOMPUTE_FULL;
}

/* ZeRO 2, 3: the gradients of a bucket grow where those of the bucket before the last one were, until
 * their sum is complete. */
static enum status depend_on_memory(struct lowering_list *list)
{
    return list->reduced[1] ? list_depend(list, list->reduced[1] - 1) : STATUS_OK;
}

/* A backward in parts, each followed by the sum of what it completed. */
static enum status backward_in_buckets(const struct pass *a, uint32_t *position)
{
    const struct lowering_cost *c = a->cost;
    size_t before = 0;
    if (c->units && remakes_units(a)) {
        before = c->buckets - 1;
        PASS(forward_in_units(a, 1, 0, position));
    }
    for (size_t b = 0; b < c->buckets; b++) {
        const struct lowering_bucket *bucket = &c->bucket[b];
        bool last = b + 1 == c->buckets;
        /* beside the sum of the bucket before, if there is one, or a gather */
        double slower = b > 0 || c->units ? 1 + c->slowdown : 1;
        struct lowering_sum sum = {bucket->gradients.bytes, c->units ? bucket->expert_bytes : 0,
                                   (uint8_t)(c->units ? b + 1 : 0)};
        if (c->units && b == 0)
            PASS(gather(a, 1, false));
        if (c->units && !last) /* before the sum of this one, which it need not wait for */
            PASS(gather(a, b + 2, true));
        PASS(append_compute(a, (uint8_t)(before + b + 1), slower * bucket->seconds,
                            last ? c->stash_bytes : 0, position));
        if (c->units)
            PASS(depend_on_memory(a->list));
        PASS(lowering_reduce(a->l, a->rank, a->stage, c->units ? a->s.microbatch : PROGRAM_NONE,
                             &sum));
        if (c->units && sum.bytes + sum.expert_bytes > 0) {
            a->list->reduced[1] = a->list->reduced[0];
            a->list->reduced[0] = a->list->scattered;
        }
    }
    return STATUS_OK;
}

/* Is it the last microbatch that its replica has? */
static bool is_last(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return microbatch + l->plan->stage[stage].replicas >= l->plan->microbatches;
}

/* Without the collectives that follow; *position: the last compute op. */
static enum status compute(const struct pass *a, uint32_t *position)
{
    struct lowering *l = a->l;
    const struct lowering_cost *c = a->cost;
    size_t slot = slot_of(l, a->stage, a->s.microbatch, a->shard);
    double seconds = a->s.kind == OP_FORWARD          ? c->forward_s
                     : a->s.kind == OP_BACKWARD       ? c->backward_s
                     : a->s.kind == OP_BACKWARD_INPUT ? c->input_s
                                                      : c->weight_s;
    if (a->slower ||
        (l->plan->zero >= 2 && lowering_data(l, a->replica->team, a->shard) != PROGRAM_NONE))
        seconds *= 1 + c->slowdown;
    if (a->s.kind == OP_FORWARD && c->units && l->plan->zero == 3) {
        PASS(forward_in_units(a, 0, c->stash_bytes, position));
    } else if (a->s.kind == OP_BACKWARD &&
               (c->units || (c->overlapped && is_last(l, a->stage, a->s.microbatch)))) {
        PASS(backward_in_buckets(a, position));
    } else {
        if (a->s.kind != OP_BACKWARD_WEIGHT)
            PASS(gather(a, 0, false));
        PASS(append_compute(a, 0, seconds, a->s.kind == OP_BACKWARD_INPUT ? 0 : c->stash_bytes,
                            position));
    }
    if (a->s.kind == OP_FORWARD)
        l->replay.forward[slot] = *position;
    if (a->s.kind == OP_BACKWARD_INPUT)
        l->replay.half[slot] = *position;
    return STATUS_OK;
}

/* The pass of one shard in a step of the replica. */
static enum status make_pass(struct lowering *l, const struct lowering_replica *replica,
                             size_t step, uint32_t shard, struct pass *a)
{
    *a = (struct pass){.l = l, .replica = replica, .shard = shard, .s = replica->schedule[step]};
    a->stage = lowering_stage(l, replica->team, a->s.chunk);
    a->rank = replica->rank + shard;
    a->list = &l->replay.list[a->rank];
    return lowering_cost(l, a->stage, lowering_device(l, replica->team, replica->number, shard),
                         &a->cost);
}

/* To the stages that read what this one has made. */
static enum status send_on(const struct pass *a, const uint32_t *computed /* [shards] */)
{
    struct lowering *l = a->l;
    const struct lowering_shape *s = &l->shape;
    if (a->s.kind == OP_FORWARD)
        for (size_t e = s->out_start[a->stage]; e < s->out_start[a->stage + 1]; e++)
            PASS(transfer(l, (uint32_t)e, false, a->s.microbatch, a->replica, computed));
    else if (a->s.kind != OP_BACKWARD_WEIGHT)
        for (size_t k = s->in_start[a->stage]; k < s->in_start[a->stage + 1]; k++)
            PASS(transfer(l, s->in[k], true, a->s.microbatch, a->replica, computed));
    return STATUS_OK;
}

/* Has the pass collectives of its stage? */
static bool has_calls(const struct pass *a)
{
    const struct lowering *l = a->l;
    const struct lowering_cost *c = a->cost;
    bool forward = a->s.kind == OP_FORWARD;
    return (l->groups.tensor[a->replica - l->replay.replica] != PROGRAM_NONE &&
            (forward ? c->forward_sum.count : c->backward_sum.count) > 0) ||
           (l->groups.experts[a->rank] != PROGRAM_NONE &&
            (forward ? c->forward_experts.count : c->backward_experts.count) > 0);
}

/* Two passes side by side, as fine as can be: together they take as long as the compute of both or
 * as the collectives of both, whichever is longer, and what they make is there at the end. (DeepSeek-V3,
 * arXiv:2412.19437, section 3.2.1: attention and experts of the one by turns with all-to-alls of the
 * other.) Collectives stand behind the compute op that they are of and begin with the first one. */
static enum status run_beside(struct pass *a /* [2] */, uint32_t *position)
{
    struct lowering_list *list = a->list;
    a[0].before = a[1].before = list->compute[0];
    a[0].slower = a[1].slower = has_calls(&a[0]) || has_calls(&a[1]);
    a[0].beside = &a[1];
    PASS(compute(&a[0], position));
    a[0].begin = a[1].begin = *position + 1;
    PASS(calls_after(&a[0], position));
    uint32_t called = list->blocked, second;
    list->blocked = 0;
    PASS(compute(&a[1], &second));
    *position = called ? *position : second;
    list->blocked = called;
    PASS(calls_after(&a[1], position));
    list->beside = list->blocked ? list->compute[0] : 0;
    return STATUS_OK;
}

enum status lowering_run(struct lowering *l, const struct lowering_replica *replica,
                         uint32_t *computed)
{
    struct pass a[2];
    bool paired = replica->schedule[replica->step].paired;
    for (uint32_t shard = 0; shard < replica->shards; shard++) {
        for (size_t k = 0; k <= paired; k++)
            PASS(make_pass(l, replica, replica->step + k, shard, &a[k]));
        if (paired) {
            PASS(run_beside(a, &computed[shard]));
        } else {
            PASS(compute(a, &computed[shard]));
            PASS(calls_after(a, &computed[shard]));
        }
    }
    return STATUS_OK;
}

enum status lowering_send(struct lowering *l, struct lowering_replica *replica,
                          const uint32_t *computed)
{
    struct pass a;
    bool paired = replica->schedule[replica->step].paired;
    for (size_t k = 0; k <= paired; k++) {
        PASS(make_pass(l, replica, replica->step + k, 0, &a));
        PASS(send_on(&a, computed));
    }
    replica->step += paired;
    return STATUS_OK;
}

enum status lowering_reduce_team(struct lowering *l, uint32_t team)
{
    l->replay.reducing[team] = 0;
    for (uint32_t c = l->shape.first_replica[team]; c < l->shape.first_replica[team + 1]; c++) {
        struct lowering_replica *replica = &l->replay.replica[c];
        for (uint32_t shard = 0; shard < replica->shards; shard++) {
            struct pass a;
            PASS(make_pass(l, replica, replica->step, shard, &a));
            if (!a.cost->units) /* else every part of the backward has had its sum */
                PASS(lowering_reduce(
                    l, a.rank, a.stage, a.s.microbatch,
                    &(struct lowering_sum){a.cost->replicated_bytes, a.cost->expert_bytes, 0}));
            if (l->schedule->asynchronous)
                PASS(lowering_update(l, a.rank, a.stage, a.s.microbatch, a.cost));
        }
        replica->reduces = false;
        replica->step++;
        lowering_wake(l, c);
    }
    return STATUS_OK;
}
