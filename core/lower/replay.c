/* One step of a replica's schedule in its turn (turns.c): the compute op, or the pair of them, and
 * what belongs to its microbatch.
 *   1. lowering_is_ready(): is everything there that it needs from other stages?
 *   2. lowering_run(): for each shard ALLGATHER (ZeRO 3), the compute op, collectives inside the
 *      stage
 *   3. lowering_send(): SEND in this list and RECV in the receiver's in the same instant
 *   4. lowering_reduce_team(), when gradients are reduced after every backward: once all replicas
 *      of the team stand there, so that the collective has one place in all of their lists */
#include "core/base/array.h"
#include "core/lower/lowering.h"

/* A replica that may be able to go on gets a turn, once. */
void lowering_wake(struct lowering *l, uint32_t replica)
{
    if (l->replay.replica[replica].queued)
        return;
    l->replay.replica[replica].queued = true;
    l->replay.queue[(l->replay.head + l->replay.length++) % l->shape.replicas] = replica;
}

/* Who has microbatch m of a stage: stream m mod so many, or the one beside it behind a crossed
 * turn, and of it the replica in this position. */
static uint32_t replica_for(const struct lowering *l, uint32_t stage, uint32_t microbatch,
                            uint32_t position)
{
    uint32_t team = l->shape.team_of[stage], streams = plan_streams(lowering_team(l, team));
    uint32_t stream = lowering_crosses(l, stage / l->shape.teams, microbatch % streams);
    return l->shape.first_replica[team] +
           lowering_place_of(l, stream * l->shape.context + position);
}

/* ---- messages */

/* Does the edge go from ranks to others that have as many shards? */
static bool is_between_shards(const struct lowering *l, const struct lowering_edge *edge)
{
    uint32_t a = l->plan->stage[edge->from].tensor_parallel;
    uint32_t here = lowering_crosses(l, edge->from / l->shape.teams, 0),
             there = lowering_crosses(l, edge->to / l->shape.teams, 0); /* of a pair of replicas */
    return a > 1 && a == l->plan->stage[edge->to].tensor_parallel &&
           (l->shape.team_of[edge->from] != l->shape.team_of[edge->to] || here != there);
}

/* With sequence parallelism a boundary tensor is divided over the shards, if both ends have as
 * many; else every shard needs all of it, which may be sent in parts. */
static int64_t message_bytes(const struct lowering *l, const struct lowering_edge *edge)
{
    uint32_t a = l->plan->stage[edge->from].tensor_parallel;
    bool parts = (l->plan->sequence_parallel || l->plan->p2p_scatter) && is_between_shards(l, edge);
    int64_t bytes = edge->bytes / l->shape.context; /* each position sends its own tokens */
    return parts ? bytes / a : bytes;
}

/* What has come in parts is gathered as soon as all of it is there; the pass waits for it. */
static enum status gather_received(const struct pass *a)
{
    const struct lowering *l = a->l;
    const struct lowering_shape *s = &l->shape;
    struct lowering_list *list = a->list;
    struct lowering_calls calls = {0};
    bool forward = a->s.kind == OP_FORWARD;
    size_t first = forward ? s->in_start[a->stage] : s->out_start[a->stage],
           end = forward ? s->in_start[a->stage + 1] : s->out_start[a->stage + 1];
    uint32_t position;
    for (size_t k = first; k < end; k++) {
        const struct lowering_edge *edge = &s->edge[forward ? s->in[k] : k];
        if (is_between_shards(l, edge)) {
            calls.count++;
            calls.bytes += edge->bytes / s->context;
        }
    }
    if (!l->plan->p2p_scatter || l->plan->sequence_parallel || calls.count == 0 ||
        a->s.kind == OP_BACKWARD_WEIGHT)
        return STATUS_OK;
    struct program_op op = list_collective(OP_ALLGATHER, FOR_PIPELINE, a->stage, a->s.microbatch,
                                           l->groups.tensor[a->replica - l->replay.replica],
                                           calls.bytes / calls.count);
    op.count = calls.count;
    op.backward = !forward;
    PASS(list_append(list, &op, &position));
    PASS(pass_depend_on_inputs(a));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    list->blocked = position + 1;
    return STATUS_OK;
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
    slot[lowering_slot(l, e, send->microbatch, lowering_position(l, target->number), shard)] =
        position + 1;
    return STATUS_OK;
}

/* What edge e carries of a microbatch; computed[shards] are the ops that made it. */
static enum status transfer(struct lowering *l, uint32_t e, bool backward, uint32_t microbatch,
                            const struct lowering_replica *source, const uint32_t *computed)
{
    const struct lowering_edge *edge = &l->shape.edge[e];
    uint32_t from = backward ? edge->to : edge->from, to = backward ? edge->from : edge->to;
    uint32_t at = lowering_position(l, source->number), target = replica_for(l, to, microbatch, at);
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
            slot[lowering_slot(l, e, microbatch, at, k)] = computed[k] + 1;
        else
            PASS(send_to(l, e, &op, source, there, k, computed));
    lowering_wake(l, target);
    return STATUS_OK;
}

/* ---- one step */

static bool pass_is_ready(const struct lowering *l, const struct lowering_replica *replica,
                          const struct schedule_step *s)
{
    uint32_t stage = lowering_stage(l, replica->team, s->chunk),
             at = lowering_position(l, replica->number);
    if (s->kind == OP_FORWARD) {
        for (size_t k = l->shape.in_start[stage]; k < l->shape.in_start[stage + 1]; k++)
            if (!l->replay.arrived[lowering_slot(l, l->shape.in[k], s->microbatch, at, 0)])
                return false;
    } else if (s->kind != OP_BACKWARD_WEIGHT) {
        for (size_t e = l->shape.out_start[stage]; e < l->shape.out_start[stage + 1]; e++)
            if (!l->replay.returned[lowering_slot(l, e, s->microbatch, at, 0)])
                return false;
    }
    return true;
}

bool lowering_is_ready(const struct lowering *l, const struct lowering_replica *replica)
{
    const struct schedule_step *s = &replica->schedule[replica->step];
    return pass_is_ready(l, replica, s) && (!s->paired || pass_is_ready(l, replica, s + 1));
}

enum status pass_depend_on_inputs(const struct pass *a)
{
    const struct lowering *l = a->l;
    PASS(pass_depend_on_copies(a));
    if (a->s.kind == OP_FORWARD) {
        for (size_t k = l->shape.in_start[a->stage]; k < l->shape.in_start[a->stage + 1]; k++)
            PASS(list_depend(a->list, l->replay.arrived[pass_slot(a, l->shape.in[k])] - 1));
    } else if (a->s.kind == OP_BACKWARD_WEIGHT) {
        PASS(list_depend(a->list, l->replay.half[pass_slot(a, a->stage)]));
    } else {
        PASS(list_depend(a->list, l->replay.forward[pass_slot(a, a->stage)]));
        for (size_t e = l->shape.out_start[a->stage]; e < l->shape.out_start[a->stage + 1]; e++)
            PASS(list_depend(a->list, l->replay.returned[pass_slot(a, e)] - 1));
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

enum status pass_append(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                        uint32_t *position)
{
    struct lowering_list *list = a->list;
    struct program_op op = list_op(a->s.kind, FOR_PIPELINE, a->stage, a->s.microbatch);
    op.part = part;
    op.seconds = seconds;
    op.bytes = bytes;
    PASS(list_append(list, &op, position));
    PASS(pass_depend_on_inputs(a));
    if (a->beside)
        PASS(pass_depend_on_inputs(a->beside));
    if (list->blocked)
        PASS(list_depend(list, list->blocked - 1));
    if (list->needed)
        PASS(list_depend(list, list->needed - 1));
    list->needed = list->gathered;
    list->blocked = list->beside = 0;
    list->compute[1] = list->compute[0];
    list->compute[0] = *position + 1;
    return STATUS_OK;
}

/* A collective inside the stage, which the next op waits for; *position moves on to it. The first
 * one of a pair runs beside its compute ops. */
static enum status pass_call_collective(const struct pass *a, enum op_kind kind,
                                        enum op_purpose purpose, uint32_t group,
                                        const struct lowering_calls *calls, uint32_t *position)
{
    uint32_t after = *position;
    if (calls->count == 0 || group == PROGRAM_NONE)
        return STATUS_OK;
    struct program_op op =
        list_collective(kind, purpose, a->stage, a->s.microbatch, group, calls->bytes);
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
    const struct lowering_exchange *beside = &a->cost->context.products[!forward];
    uint32_t shards = lowering_team(l, a->replica->team)->tensor_parallel;
    struct lowering_calls sums = forward ? a->cost->forward_sum : a->cost->backward_sum,
                          gathers = forward ? a->cost->forward_gather : a->cost->backward_gather;
    if (!a->slower) {
        sums = lowering_left(&sums, &beside->scatter, shards);
        gathers = lowering_left(&gathers, &beside->gather, shards);
    }
    const struct lowering_calls *sum = &sums, *gather = &gathers;
    const struct lowering_calls *experts =
        forward ? &a->cost->forward_experts : &a->cost->backward_experts;
    uint32_t tensor = l->groups.tensor[a->replica - l->replay.replica];
    if (l->plan->sequence_parallel) {
        PASS(pass_call_collective(a, OP_REDUCESCATTER, FOR_TENSOR, tensor, sum, position));
        PASS(pass_call_collective(a, OP_ALLGATHER, FOR_TENSOR, tensor, gather, position));
        if (a->begin && !forward) /* of a pair all collectives run beside compute ops */
            PASS(pass_call_collective(a, OP_ALLGATHER, FOR_TENSOR, tensor,
                                      &a->cost->context.inputs.gather, position));
    } else {
        PASS(pass_call_collective(a, OP_ALLREDUCE, FOR_TENSOR, tensor, sum, position));
    }
    return pass_call_collective(a, OP_ALLTOALL, FOR_EXPERTS, l->groups.experts[a->rank], experts,
                                position);
}

int64_t pass_bytes(enum op_kind kind, const struct lowering_cost *c)
{
    bool half = kind == OP_BACKWARD_INPUT || kind == OP_BACKWARD_WEIGHT;
    return (kind == OP_BACKWARD_INPUT ? 0 : c->stash_bytes) + (half ? c->waiting_bytes : 0);
}

/* Without the collectives that follow; *position: the last compute op. */
static enum status pass_compute(const struct pass *a, uint32_t *position)
{
    struct lowering *l = a->l;
    const struct lowering_cost *c = a->cost;
    size_t slot = pass_slot(a, a->stage);
    double seconds = a->s.kind == OP_FORWARD          ? c->forward_s
                     : a->s.kind == OP_BACKWARD       ? c->backward_s
                     : a->s.kind == OP_BACKWARD_INPUT ? c->input_s
                                                      : c->weight_s;
    PASS(gather_received(a));
    bool shared =
        l->plan->zero >= 2 && lowering_data(l, a->replica->team, a->shard) != PROGRAM_NONE;
    double slower = a->slower || shared ? 1 + c->slowdown : 1;
    seconds *= slower;
    if (a->s.kind == OP_FORWARD && (c->units || c->overlapped) && pass_gathers(a)) {
        PASS(pass_forward(a, position));
    } else if (a->s.kind == OP_BACKWARD &&
               (c->units || (c->overlapped && lowering_is_last(l, a->stage, a->s.microbatch)))) {
        PASS(pass_backward(a, position));
    } else {
        bool forward = a->s.kind == OP_FORWARD;
        if (a->s.kind != OP_BACKWARD_WEIGHT) {
            PASS(pass_gather(a, 0, false));
            PASS(pass_exchange(a, &c->context, forward, 0, slower, &seconds));
        }
        PASS(pass_append(a, 0, seconds, pass_bytes(a->s.kind, c), position));
    }
    if (a->s.kind == OP_FORWARD) {
        l->replay.forward[slot] = *position;
        l->replay.gathered[a->rank * l->shape.chunks + a->s.chunk] = true;
    }
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
            (forward ? c->forward_sum.count : c->backward_sum.count) +
                    (l->plan->sequence_parallel
                         ? (forward ? c->forward_gather.count : c->backward_gather.count)
                         : 0) >
                0) ||
           (l->groups.experts[a->rank] != PROGRAM_NONE &&
            (forward ? c->forward_experts.count : c->backward_experts.count) > 0);
}

/* Two passes side by side, as fine as can be: together they take as long as the compute of both or
 * as the collectives of both, whichever is longer, and what they make is there at the end.
 * (DeepSeek-V3, arXiv:2412.19437, section 3.2.1: attention and experts of the one by turns with
 * all-to-alls of the other.) Collectives stand behind the compute op that they are of and begin
 * with the first one. */
static enum status run_beside(struct pass *a /* [2] */, uint32_t *position)
{
    struct lowering_list *list = a->list;
    a[0].before = a[1].before = list->compute[0];
    a[0].slower = a[1].slower = has_calls(&a[0]) || has_calls(&a[1]);
    a[0].beside = &a[1];
    PASS(pass_compute(&a[0], position));
    a[0].begin = a[1].begin = *position + 1;
    PASS(calls_after(&a[0], position));
    uint32_t called = list->blocked, second;
    list->blocked = 0;
    PASS(pass_compute(&a[1], &second));
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
    if (paired && (l->plan->offload & OFFLOAD_ACTIVATIONS))
        return error_set(STATUS_UNSUPPORTED, "schedule %s does not support offloaded activations",
                         l->plan->schedule);
    if (paired && l->shape.context > 1)
        return error_set(STATUS_UNSUPPORTED, "schedule %s does not support context parallelism",
                         l->plan->schedule);
    for (uint32_t shard = 0; shard < replica->shards; shard++) {
        for (size_t k = 0; k <= paired; k++)
            PASS(make_pass(l, replica, replica->step + k, shard, &a[k]));
        if (paired) {
            PASS(run_beside(a, &computed[shard]));
        } else {
            PASS(pass_raise(a));
            PASS(pass_compute(a, &computed[shard]));
            PASS(pass_lower(a, computed[shard]));
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
            struct lowering_sum sum = {a.cost->replicated_bytes, a.cost->expert_bytes, 0};
            if (!a.cost->units) /* else every part of the backward has had its sum */
                PASS(lowering_reduce(l, a.rank, a.stage, a.s.microbatch, &sum));
            if (!a.cost->units && lowering_is_last(l, a.stage, a.s.microbatch))
                PASS(lowering_sum_groups(l, a.rank, a.stage, a.s.microbatch, &sum,
                                         a.list->scattered));
            if (l->schedule->asynchronous)
                PASS(lowering_update(l, a.rank, a.stage, a.s.microbatch, a.cost));
        }
        replica->reduces = false;
        replica->step++;
        lowering_wake(l, c);
    }
    return STATUS_OK;
}
