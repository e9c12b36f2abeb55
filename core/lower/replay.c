/* Compute ops from the schedule, and what belongs to a microbatch, by a global replay. */
#include <stdlib.h>

#include "core/lower/lowering.h"

static void wake(struct lowering *l, uint32_t cell)
{
    if (l->cell[cell].queued)
        return;
    l->cell[cell].queued = true;
    l->queue[(l->head + l->length++) % l->cells] = cell;
}

static uint32_t cell_for(const struct lowering *l, uint32_t team, uint32_t microbatch)
{
    return l->first_cell[team] + (l->fold ? 0 : microbatch % lowering_team(l, team)->replicas);
}

static size_t slot_of(const struct lowering *l, size_t row, uint32_t microbatch, uint32_t shard)
{
    return (row * l->plan->microbatches + microbatch) * l->most_shards + shard;
}

/* ---- messages */

static int64_t message_bytes(const struct lowering *l, const struct edge *edge)
{
    uint32_t a = l->plan->stage[edge->from].tensor_parallel;
    uint32_t b = l->plan->stage[edge->to].tensor_parallel;
    return l->plan->sequence_parallel && a == b ? edge->bytes / a : edge->bytes;
}

/* SEND in the sender's list and, in the same instant, RECV in the receiver's. The tensor is whole
 * (or the same slice) on every shard: receiver shard k has it from sender shard k mod shards. */
static enum status send_to(struct lowering *l, uint32_t e, const struct program_op *send,
                           const struct cell *source, const struct cell *target, uint32_t shard,
                           const uint32_t *computed)
{
    enum status st;
    uint32_t from = shard % source->shards, position;
    struct list *here = &l->list[source->rank + from], *there = &l->list[target->rank + shard];
    struct program_op op = *send;
    op.peer = target->rank + shard;
    op.match = (uint32_t)there->n;
    TRY(list_append(here, &op, &position));
    TRY(list_depend(here, computed[from]));
    op.kind = OP_RECV;
    op.match = position;
    op.stage = send->peer_stage;
    op.peer = source->rank + from;
    op.peer_stage = send->stage;
    TRY(list_append(there, &op, &position));
    uint32_t *slot = send->backward ? l->returned : l->arrived;
    slot[slot_of(l, e, send->microbatch, shard)] = position + 1;
out:
    return st;
}

/* What edge e carries of a microbatch; computed[shards] are the ops that made it. */
static enum status transfer(struct lowering *l, uint32_t e, bool backward, uint32_t microbatch,
                            const struct cell *source, const uint32_t *computed)
{
    enum status st = STATUS_OK;
    const struct edge *edge = &l->edge[e];
    uint32_t from = backward ? edge->to : edge->from, to = backward ? edge->from : edge->to;
    uint32_t target = cell_for(l, l->team_of[to], microbatch);
    const struct cell *there = &l->cell[target];
    uint32_t channel = backward ? (uint32_t)l->edges + e : e;
    struct program_op op = list_op(OP_SEND, FOR_PIPELINE, from, microbatch);
    op.backward = backward;
    op.peer_stage = to;
    op.tag = channel * l->plan->microbatches + microbatch;
    op.bytes = message_bytes(l, edge);
    uint32_t *slot = backward ? l->returned : l->arrived;
    for (uint32_t k = 0; k < there->shards; k++)
        if (there == source) /* a later stage of the same ranks */
            slot[slot_of(l, e, microbatch, k)] = computed[k] + 1;
        else
            TRY(send_to(l, e, &op, source, there, k, computed));
    wake(l, target);
out:
    return st;
}

/* ---- one step */

/* Is everything there that this step needs from other stages? */
static bool is_ready(const struct lowering *l, uint32_t stage, const struct schedule_step *s)
{
    if (s->kind == OP_FORWARD) {
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            if (!l->arrived[slot_of(l, l->in[k], s->microbatch, 0)])
                return false;
    } else if (s->kind != OP_BACKWARD_WEIGHT) {
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            if (!l->returned[slot_of(l, e, s->microbatch, 0)])
                return false;
    }
    return true;
}

/* One shard's part of a step while it is appended. */
struct pass {
    struct lowering *l;
    const struct cell *cell;
    struct list *list;
    const struct stage_cost *cost;
    uint32_t stage, shard, rank;
    struct schedule_step s;
};

/* ZeRO 3: parameters of the stage, while the pass before still computes. */
static enum status gather_over(const struct pass *a, uint32_t group, int64_t bytes)
{
    enum status st = STATUS_OK;
    if (group == PROGRAM_NONE || bytes == 0)
        return STATUS_OK;
    struct program_op op =
        list_collective(OP_ALLGATHER, FOR_SHARDS, a->stage, a->s.microbatch, group, bytes);
    uint32_t position;
    TRY(list_append(a->list, &op, &position));
    if (a->list->gathered)
        TRY(list_depend(a->list, a->list->gathered - 1));
    if (a->list->compute[1])
        TRY(list_depend(a->list, a->list->compute[1] - 1));
    a->list->gathered = position + 1;
out:
    return st;
}

static enum status gather(const struct pass *a)
{
    enum status st = STATUS_OK;
    const struct lowering *l = a->l;
    if (l->plan->zero < 3)
        return STATUS_OK;
    TRY(gather_over(a, l->data[a->cell->team * l->most_shards + a->shard],
                    a->cost->replicated_bytes));
    TRY(gather_over(a, l->same[a->rank], a->cost->expert_bytes));
out:
    return st;
}

static enum status depend_on_inputs(const struct pass *a)
{
    enum status st = STATUS_OK;
    const struct lowering *l = a->l;
    uint32_t microbatch = a->s.microbatch;
    if (a->s.kind == OP_FORWARD) {
        for (size_t k = l->in_start[a->stage]; k < l->in_start[a->stage + 1]; k++)
            TRY(list_depend(a->list, l->arrived[slot_of(l, l->in[k], microbatch, a->shard)] - 1));
    } else if (a->s.kind == OP_BACKWARD_WEIGHT) {
        TRY(list_depend(a->list, l->half[slot_of(l, a->stage, microbatch, a->shard)]));
    } else {
        TRY(list_depend(a->list, l->forward[slot_of(l, a->stage, microbatch, a->shard)]));
        for (size_t e = l->out_start[a->stage]; e < l->out_start[a->stage + 1]; e++)
            TRY(list_depend(a->list, l->returned[slot_of(l, e, microbatch, a->shard)] - 1));
    }
out:
    return st;
}

/* Append a compute op that waits for its inputs and for what blocks the list. */
static enum status append_compute(const struct pass *a, uint8_t part, double seconds, int64_t bytes,
                                  uint32_t *position)
{
    enum status st;
    struct list *list = a->list;
    struct program_op op = list_op(a->s.kind, FOR_PIPELINE, a->stage, a->s.microbatch);
    op.part = part;
    op.seconds = seconds;
    op.bytes = bytes;
    TRY(list_append(list, &op, position));
    TRY(depend_on_inputs(a));
    if (list->blocked)
        TRY(list_depend(list, list->blocked - 1));
    if (list->gathered && a->l->plan->zero == 3)
        TRY(list_depend(list, list->gathered - 1));
    list->blocked = 0;
    list->compute[1] = list->compute[0];
    list->compute[0] = *position + 1;
out:
    return st;
}

/* A collective inside the stage, which the next op waits for; *position moves on to it. */
static enum status call(const struct pass *a, enum op_kind kind, enum op_purpose purpose,
                        uint32_t group, const struct calls *calls, uint32_t *position)
{
    enum status st = STATUS_OK;
    uint32_t after = *position;
    if (calls->count == 0 || group == PROGRAM_NONE)
        return STATUS_OK;
    struct program_op op =
        list_collective(kind, purpose, a->stage, a->s.microbatch, group, calls->bytes);
    op.count = calls->count;
    TRY(list_append(a->list, &op, position));
    TRY(list_depend(a->list, after));
    a->list->blocked = *position + 1;
out:
    return st;
}

static enum status calls_after(const struct pass *a, uint32_t *position)
{
    enum status st = STATUS_OK;
    const struct lowering *l = a->l;
    bool forward = a->s.kind == OP_FORWARD;
    if (a->s.kind == OP_BACKWARD_WEIGHT)
        return STATUS_OK;
    const struct calls *sum = forward ? &a->cost->forward_sum : &a->cost->backward_sum;
    const struct calls *experts = forward ? &a->cost->forward_experts : &a->cost->backward_experts;
    uint32_t tensor = l->tensor[a->cell - l->cell];
    if (l->plan->sequence_parallel) {
        TRY(call(a, OP_REDUCESCATTER, FOR_TENSOR, tensor, sum, position));
        TRY(call(a, OP_ALLGATHER, FOR_TENSOR, tensor, sum, position));
    } else {
        TRY(call(a, OP_ALLREDUCE, FOR_TENSOR, tensor, sum, position));
    }
    TRY(call(a, OP_ALLTOALL, FOR_EXPERTS, l->experts[a->rank], experts, position));
out:
    return st;
}

/* The last backward in parts, each followed by the sum of what it completed. */
static enum status backward_in_buckets(const struct pass *a, uint32_t *position)
{
    enum status st = STATUS_OK;
    const struct stage_cost *c = a->cost;
    for (size_t b = 0; b < c->buckets; b++) {
        bool last = b + 1 == c->buckets;
        double slower = b > 0 ? 1 + c->slowdown : 1; /* the bucket before is being summed */
        TRY(append_compute(a, (uint8_t)(b + 1), slower * c->bucket[b].seconds,
                           last ? c->stash_bytes : 0, position));
        TRY(lowering_reduce(a->l, a->rank, a->stage, PROGRAM_NONE, c, c->bucket[b].gradients.bytes,
                            false));
    }
out:
    return st;
}

static bool is_last(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return microbatch + l->plan->stage[stage].replicas >= l->plan->microbatches;
}

/* *position: what the messages of this shard wait for. */
static enum status compute(const struct pass *a, uint32_t *position)
{
    enum status st;
    struct lowering *l = a->l;
    const struct stage_cost *c = a->cost;
    size_t slot = slot_of(l, a->stage, a->s.microbatch, a->shard);
    double seconds = a->s.kind == OP_FORWARD          ? c->forward_s
                     : a->s.kind == OP_BACKWARD       ? c->backward_s
                     : a->s.kind == OP_BACKWARD_INPUT ? c->input_s
                                                      : c->weight_s;
    if (l->plan->zero >= 2 && l->data[a->cell->team * l->most_shards + a->shard] != PROGRAM_NONE)
        seconds *= 1 + c->slowdown;
    if (a->s.kind != OP_BACKWARD_WEIGHT)
        TRY(gather(a));
    if (a->s.kind == OP_BACKWARD && c->overlapped && is_last(l, a->stage, a->s.microbatch))
        TRY(backward_in_buckets(a, position));
    else
        TRY(append_compute(a, 0, seconds, a->s.kind == OP_BACKWARD_INPUT ? 0 : c->stash_bytes,
                           position));
    if (a->s.kind == OP_FORWARD)
        l->forward[slot] = *position;
    if (a->s.kind == OP_BACKWARD_INPUT)
        l->half[slot] = *position;
    TRY(calls_after(a, position));
out:
    return st;
}

/* The pass of one shard in the cell's current step. */
static enum status make_pass(struct lowering *l, const struct cell *cell, uint32_t shard,
                             struct pass *a)
{
    *a = (struct pass){.l = l, .cell = cell, .shard = shard, .s = cell->schedule[cell->step]};
    a->stage = a->s.chunk * l->teams + cell->team;
    a->rank = cell->rank + shard;
    a->list = &l->list[a->rank];
    return lowering_cost(l, a->stage, lowering_device(l, cell->team, cell->replica, shard),
                         &a->cost);
}

static enum status run_step(struct lowering *l, const struct cell *cell,
                            uint32_t *computed /* [shards] */)
{
    enum status st = STATUS_OK;
    struct pass a = {0};
    for (uint32_t shard = 0; shard < cell->shards; shard++) {
        TRY(make_pass(l, cell, shard, &a));
        TRY(compute(&a, &computed[shard]));
    }
    if (a.s.kind == OP_FORWARD)
        for (size_t e = l->out_start[a.stage]; e < l->out_start[a.stage + 1]; e++)
            TRY(transfer(l, (uint32_t)e, false, a.s.microbatch, cell, computed));
    else if (a.s.kind != OP_BACKWARD_WEIGHT)
        for (size_t k = l->in_start[a.stage]; k < l->in_start[a.stage + 1]; k++)
            TRY(transfer(l, l->in[k], true, a.s.microbatch, cell, computed));
out:
    return st;
}

/* Are the gradients of every microbatch summed over the replicas at once? */
static bool sums_now(const struct lowering *l, const struct cell *cell)
{
    uint8_t kind = cell->schedule[cell->step].kind;
    return (kind == OP_BACKWARD || kind == OP_BACKWARD_WEIGHT) &&
           (l->plan->zero >= 2 || l->schedule->asynchronous);
}

/* All replicas have come to their sums: these happen in this instant for all of them. */
static enum status sum_team(struct lowering *l, uint32_t team)
{
    enum status st = STATUS_OK;
    l->summing[team] = 0;
    for (uint32_t c = l->first_cell[team]; c < l->first_cell[team + 1]; c++) {
        struct cell *cell = &l->cell[c];
        for (uint32_t shard = 0; shard < cell->shards; shard++) {
            struct pass a;
            TRY(make_pass(l, cell, shard, &a));
            TRY(lowering_reduce(l, a.rank, a.stage, a.s.microbatch, a.cost,
                                a.cost->replicated_bytes, true));
            if (l->schedule->asynchronous)
                TRY(lowering_update(l, a.rank, a.stage, a.s.microbatch, a.cost));
        }
        cell->sums = false;
        cell->step++;
        wake(l, c);
    }
out:
    return st;
}

/* ---- the schedule of every cell */

/* Do all stages have equally many replicas, and these equally many microbatches? */
static bool is_even(const struct lowering *l)
{
    uint32_t replicas = l->plan->stage[0].replicas;
    for (uint32_t t = 1; t < l->teams; t++)
        if (lowering_team(l, t)->replicas != replicas)
            return false;
    return l->plan->microbatches % replicas == 0;
}

static enum status check_combination(const struct lowering *l)
{
    const struct plan *p = l->plan;
    const char *what = l->chunks > 1  ? "several stages on a device"
                       : p->zero >= 2 ? "ZeRO 2 or 3"
                       : l->fold      ? "folding"
                                      : NULL;
    for (size_t s = 0; s < p->stages; s++)
        if (p->stage[s].expert_parallel > 1)
            what = "spreading experts over replicas";
    if (what && !is_even(l))
        return error_set(STATUS_UNSUPPORTED,
                         "%s needs equally many replicas of every stage, and these equally many of "
                         "the %u microbatches",
                         what, p->microbatches);
    if (l->schedule->asynchronous && p->zero > 0)
        return error_set(STATUS_UNSUPPORTED, "schedule %s with ZeRO", p->schedule);
    for (uint32_t t = 0; l->schedule->asynchronous && t < l->teams; t++)
        if (p->microbatches % lowering_team(l, t)->replicas != 0)
            return error_set(STATUS_UNSUPPORTED,
                             "schedule %s: %u microbatches for the %u replicas of stage %u",
                             p->schedule, p->microbatches, lowering_team(l, t)->replicas, t);
    return STATUS_OK;
}

/* Room for the ops of every step and its messages, and for the end of the iteration. */
static enum status reserve(struct lowering *l, const struct cell *cell)
{
    enum status st = STATUS_OK;
    size_t messages = 0;
    for (size_t k = 0; k < cell->steps; k++) {
        uint32_t stage = cell->schedule[k].chunk * l->teams + cell->team;
        if (cell->schedule[k].kind != OP_BACKWARD_WEIGHT)
            messages += l->in_start[stage + 1] - l->in_start[stage] + l->out_start[stage + 1] -
                        l->out_start[stage];
    }
    size_t ops = cell->steps + messages + 2 * l->chunks;
    for (uint32_t k = 0; k < cell->shards; k++)
        TRY(list_reserve(&l->list[cell->rank + k], ops, ops));
out:
    return st;
}

/* With equal replicas each orders its own microbatches. Otherwise one order is made for all the
 * stage's replicas together, of which each has its part: what one replica waits for, all earlier
 * stages do early enough. The depth is then PipeDream's (Narayanan et al., SOSP 2019). */
static enum status schedule_cell(struct lowering *l, struct cell *cell)
{
    enum status st = STATUS_OK;
    bool even = is_even(l);
    uint32_t replicas = lowering_team(l, cell->team)->replicas, depth = 0;
    for (uint32_t t = cell->team; t < l->teams; t++)
        depth += even ? 1 : lowering_team(l, t)->replicas;
    struct schedule_place at = {.teams = l->teams,
                                .team = cell->team,
                                .chunks = l->chunks,
                                .microbatches = l->plan->microbatches / (even ? replicas : 1),
                                .depth = depth};
    size_t n = schedule_steps(l->schedule, &at);
    cell->schedule = calloc(n + 1, sizeof *cell->schedule);
    if (!cell->schedule)
        return error_set(STATUS_NOMEM, "schedule of %zu steps", n);
    l->schedule->order(&at, cell->schedule);
    for (size_t k = 0; k < n; k++) {
        struct schedule_step s = cell->schedule[k];
        if (even)
            s.microbatch = s.microbatch * replicas + cell->replica;
        else if (s.microbatch % replicas != cell->replica)
            continue;
        cell->schedule[cell->steps++] = s;
    }
    TRY(reserve(l, cell));
out:
    return st;
}

/* One step of cell c, if it can be taken. */
static enum status take_turn(struct lowering *l, uint32_t c, uint32_t *computed /* [shards] */)
{
    enum status st = STATUS_OK;
    struct cell *cell = &l->cell[c];
    if (cell->sums || cell->step == cell->steps)
        return STATUS_OK;
    const struct schedule_step *s = &cell->schedule[cell->step];
    if (!is_ready(l, s->chunk * l->teams + cell->team, s))
        return STATUS_OK;
    TRY(run_step(l, cell, computed));
    if (!sums_now(l, cell)) {
        cell->step++;
        wake(l, c); /* one step per turn: RECVs stand near where they are needed */
        goto out;
    }
    cell->sums = true;
    if (++l->summing[cell->team] == lowering_replicas(l, cell->team))
        TRY(sum_team(l, cell->team));
out:
    return st;
}

static enum status take_turns(struct lowering *l)
{
    enum status st = STATUS_OK;
    size_t remaining = 0;
    uint32_t *computed = calloc(l->most_shards + 1, sizeof *computed);
    if (!computed)
        return error_set(STATUS_NOMEM, "%u shards", l->most_shards);
    while (l->length > 0) {
        uint32_t c = l->queue[l->head];
        l->head = l->head + 1 < l->cells ? l->head + 1 : 0;
        l->length--;
        l->cell[c].queued = false;
        TRY(take_turn(l, c, computed));
    }
    for (uint32_t c = 0; c < l->cells; c++)
        remaining += l->cell[c].step < l->cell[c].steps;
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
    enum status st = check_combination(l);
    for (uint32_t c = 0; st == STATUS_OK && c < l->cells; c++) {
        st = schedule_cell(l, &l->cell[c]);
        wake(l, c);
    }
    return st == STATUS_OK ? take_turns(l) : st;
}
