/* Compute ops from the schedule, and messages inserted by a global replay. */
#include "core/lowering.h"

#include <stdlib.h>

static uint32_t rank_for(const struct lowering *l, uint32_t stage, uint32_t microbatch)
{
    return l->first_rank[stage] + microbatch % l->plan->stage[stage].replicas;
}

enum status list_append(struct list *list, const struct program_op *op, uint32_t *position)
{
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct program_op *larger = realloc(list->op, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu ops", room);
        list->op = larger;
        list->room = room;
    }
    list->op[list->n] = *op;
    list->op[list->n].dep_start = (uint32_t)list->deps;
    if (position)
        *position = (uint32_t)list->n;
    list->n++;
    return STATUS_OK;
}

/* The op appended last depends on the one at `position`. */
enum status list_depend(struct list *list, uint32_t position)
{
    if (list->deps == list->dep_room) {
        size_t room = list->dep_room ? 2 * list->dep_room : 64;
        uint32_t *larger = realloc(list->dep, room * sizeof *larger);
        if (!larger)
            return error_set(STATUS_NOMEM, "%zu dependencies", room);
        list->dep = larger;
        list->dep_room = room;
    }
    list->dep[list->deps++] = position;
    return STATUS_OK;
}

static void wake(struct lowering *l, uint32_t rank)
{
    if (l->list[rank].queued)
        return;
    l->list[rank].queued = true;
    l->queue[(l->head + l->length++) % lowering_ranks(l)] = rank;
}

/* SEND in the sender's list and, in the same instant, RECV in the receiver's. */
static enum status transfer(struct lowering *l, uint32_t e, bool backward, uint32_t microbatch,
                            uint32_t computed)
{
    enum status st;
    const struct edge *edge = &l->edge[e];
    uint32_t from = backward ? edge->to : edge->from, to = backward ? edge->from : edge->to;
    uint32_t source = rank_for(l, from, microbatch), target = rank_for(l, to, microbatch);
    uint32_t channel = backward ? (uint32_t)l->edges + e : e, position;
    struct program_op op = {.kind = OP_SEND,
                            .backward = backward,
                            .stage = from,
                            .microbatch = microbatch,
                            .peer = target,
                            .peer_stage = to,
                            .tag = channel * l->plan->microbatches + microbatch,
                            .bytes = edge->bytes};
    TRY(list_append(&l->list[source], &op, NULL));
    TRY(list_depend(&l->list[source], computed));
    op.kind = OP_RECV;
    op.stage = to;
    op.peer = source;
    op.peer_stage = from;
    TRY(list_append(&l->list[target], &op, &position));
    uint32_t *slot = backward ? l->returned : l->arrived;
    slot[(size_t)e * l->plan->microbatches + microbatch] = position + 1;
    wake(l, target);
out:
    return st;
}

static size_t slot_of(const struct lowering *l, size_t edge, uint32_t microbatch)
{
    return edge * l->plan->microbatches + microbatch;
}

/* Is everything there that this step needs from other stages? */
static bool is_ready(const struct lowering *l, uint32_t stage, uint8_t kind, uint32_t microbatch)
{
    if (kind == OP_FORWARD) {
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            if (!l->arrived[slot_of(l, l->in[k], microbatch)])
                return false;
    } else {
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            if (!l->returned[slot_of(l, e, microbatch)])
                return false;
    }
    return true;
}

static enum status compute(struct lowering *l, uint32_t rank, uint32_t stage,
                           const struct stage_cost *cost, uint8_t kind, uint32_t microbatch,
                           uint32_t *forward /* [microbatches] position of each forward */)
{
    enum status st;
    struct list *list = &l->list[rank];
    uint32_t position;
    bool backward = kind == OP_BACKWARD;
    struct program_op op = {.kind = kind,
                            .stage = stage,
                            .microbatch = microbatch,
                            .peer = PROGRAM_NONE,
                            .peer_stage = PROGRAM_NONE,
                            .tag = PROGRAM_NONE,
                            .seconds = backward ? cost->backward_s : cost->forward_s,
                            .bytes = cost->stash_bytes};
    TRY(list_append(list, &op, &position));
    if (backward) {
        TRY(list_depend(list, forward[microbatch]));
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            TRY(list_depend(list, l->returned[slot_of(l, e, microbatch)] - 1));
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            TRY(transfer(l, l->in[k], true, microbatch, position));
    } else {
        forward[microbatch] = position;
        for (size_t k = l->in_start[stage]; k < l->in_start[stage + 1]; k++)
            TRY(list_depend(list, l->arrived[slot_of(l, l->in[k], microbatch)] - 1));
        for (size_t e = l->out_start[stage]; e < l->out_start[stage + 1]; e++)
            TRY(transfer(l, (uint32_t)e, false, microbatch, position));
    }
out:
    return st;
}

/* The steps of every rank, in its own list's terms. */
static enum status schedule_ranks(struct lowering *l)
{
    enum status st;
    const struct schedule *schedule;
    const struct plan *p = l->plan;

    TRY(schedule_find(p->schedule, &schedule));
    for (uint32_t rank = 0; rank < lowering_ranks(l); rank++) {
        uint32_t stage = lowering_stage_of(l, rank), replica = rank - l->first_rank[stage];
        uint32_t replicas = p->stage[stage].replicas;
        size_t mine = (p->microbatches - replica + replicas - 1) / replicas;
        struct list *list = &l->list[rank];
        list->steps = 2 * mine;
        list->schedule = calloc(list->steps + 1, sizeof *list->schedule);
        if (!list->schedule)
            return error_set(STATUS_NOMEM, "schedule of %zu steps", list->steps);
        schedule->steps(p->stages, stage, mine, list->schedule);
        wake(l, rank);
    }
out:
    return st;
}

static enum status take_turns(struct lowering *l, const struct stage_cost *cost /* [ranks] */)
{
    enum status st = STATUS_OK;
    size_t remaining = lowering_ranks(l);
    uint32_t *forward =
        calloc((size_t)lowering_ranks(l) + l->plan->microbatches * l->plan->stages + 1,
               sizeof *forward); /* a microbatch has one rank per stage */
    if (!forward)
        return error_set(STATUS_NOMEM, "%u microbatches", l->plan->microbatches);
    while (l->length > 0) {
        uint32_t rank = l->queue[l->head], stage = lowering_stage_of(l, rank);
        uint32_t replicas = l->plan->stage[stage].replicas, replica = rank - l->first_rank[stage];
        struct list *list = &l->list[rank];
        l->head = (l->head + 1) % lowering_ranks(l);
        l->length--;
        list->queued = false;
        if (list->step == list->steps)
            continue;
        struct schedule_step s = list->schedule[list->step];
        uint32_t microbatch = s.microbatch * replicas + replica;
        if (!is_ready(l, stage, s.kind, microbatch))
            continue;
        TRY(compute(l, rank, stage, &cost[rank], s.kind, microbatch,
                    forward + (size_t)stage * l->plan->microbatches));
        remaining -= ++list->step == list->steps;
        wake(l, rank); /* one step per turn: RECVs stand near where they are needed */
    }
    if (remaining > 0)
        st = error_set(STATUS_INVALID,
                       "schedule %s cannot run on these stages: %zu ranks wait for "
                       "each other",
                       l->plan->schedule, remaining);
out:
    free(forward);
    return st;
}

enum status lowering_replay(struct lowering *l, const struct stage_cost *cost)
{
    enum status st = schedule_ranks(l);
    return st == STATUS_OK ? take_turns(l, cost) : st;
}
