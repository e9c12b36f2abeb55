/* A global replay of the schedules: who takes a step when.
 *
 * Every replica of a team has its steps (schedule_replica()). A queue holds the replicas that may
 * be able to go on; one takes a turn, if everything is there that its next step needs; else it
 * waits until a message wakes it. Since each list is a part of one global order, the lists cannot
 * deadlock (core/lower/lower.h). */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/lower/lowering.h"

/* ---- the schedule of every replica */

/* Room for the ops of every step and its messages, and for the end of the iteration. */
static enum status turns_reserve(struct lowering *l, const struct lowering_replica *replica)
{
    size_t messages = 0;
    for (size_t k = 0; k < replica->steps; k++) {
        uint32_t stage = lowering_stage(l, replica->team, replica->schedule[k].chunk);
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
enum status lowering_schedule(const struct lowering *l, struct lowering_replica *replica)
{
    bool even = lowering_is_even(l);
    uint32_t streams = plan_streams(lowering_team(l, replica->team)),
             stream = replica->number / l->shape.context;
    const struct schedule_place at = plan_lower_place(l->plan, l->shape.teams, replica->team);
    PASS(ARRAY_NEW(replica->schedule, schedule_steps(l->schedule, &at)));
    size_t n = l->schedule->order(&at, replica->schedule);
    for (size_t k = 0; k < n; k++) {
        struct schedule_step s = replica->schedule[k];
        if (even)
            s.microbatch = s.microbatch * streams + lowering_crosses(l, s.chunk, stream);
        else if (s.microbatch % streams != stream)
            continue;
        replica->schedule[replica->steps++] = s;
    }
    return STATUS_OK;
}

/* Without flush: is an update behind this microbatch of the replica? */
static bool updates_now(const struct lowering *l, const struct lowering_replica *replica)
{
    uint32_t streams = plan_streams(lowering_team(l, replica->team));
    uint32_t own = replica->schedule[replica->step].microbatch / streams;
    return !l->schedule->gathers || (own + 1) * streams >= l->plan->microbatches ||
           (own + 1) % lowering_depth(l->plan, l->shape.teams, replica->team) == 0;
}

/* Are the gradients of the microbatch summed over the replicas at once? */
static bool reduces_now(const struct lowering *l, const struct lowering_replica *replica)
{
    uint8_t kind = replica->schedule[replica->step].kind;
    return (kind == OP_BACKWARD || kind == OP_BACKWARD_WEIGHT) &&
           (l->plan->zero >= 2 || (l->schedule->asynchronous && updates_now(l, replica)));
}

/* The step is taken, but for the sum of its gradients. */
static enum status end_step(struct lowering *l, struct lowering_replica *replica)
{
    if (!reduces_now(l, replica)) {
        replica->step++;
        lowering_wake(l, (uint32_t)(replica - l->replay.replica));
        return STATUS_OK; /* one step per turn: RECVs stand near where they are needed */
    }
    replica->reduces = true;
    if (++l->replay.reducing[replica->team] == lowering_replicas(l, replica->team))
        PASS(lowering_reduce_team(l, replica->team));
    return STATUS_OK;
}

/* Replicas that take their steps together, from *first on. Those between which microbatches cross:
 * what one makes is sent when collectives of both are in the lists. With gathers in passes the
 * whole team: nobody has what it gathers before all have come to it, and another pair may come by
 * another way. */
static uint32_t companions(const struct lowering *l, uint32_t c, uint32_t *first)
{
    uint32_t team = l->replay.replica[c].team, all = l->shape.first_replica[team];
    if (!l->schedule->crossed) {
        *first = c;
        return 1;
    }
    *first = l->plan->zero < 3 ? all + ((c - all) & ~1u) : all;
    return l->plan->zero < 3 ? 2 : lowering_replicas(l, team);
}

/* One step of replica c, if it can be taken. */
static enum status take_turn(struct lowering *l, uint32_t c, uint32_t *computed /* [][shards] */)
{
    uint32_t first, n = companions(l, c, &first);
    struct lowering_replica *replica = &l->replay.replica[first];
    for (uint32_t k = 0; k < n; k++)
        if (replica[k].reduces || replica[k].step == replica[k].steps ||
            !lowering_is_ready(l, &replica[k]))
            return STATUS_OK;
    for (uint32_t k = 0; k < n; k++)
        PASS(lowering_run(l, &replica[k], computed + k * l->shape.most_shards));
    for (uint32_t k = 0; k < n; k++)
        PASS(lowering_send(l, &replica[k], computed + k * l->shape.most_shards));
    for (uint32_t k = 0; k < n; k++)
        PASS(end_step(l, &replica[k]));
    return STATUS_OK;
}

/* Until nobody can go on: then all are at their end, or the schedule does not fit the stages. */
static enum status take_turns(struct lowering *l)
{
    enum status st = STATUS_OK;
    size_t remaining = 0;
    uint32_t *computed;
    TRY(ARRAY_NEW(computed, (size_t)l->shape.replicas * l->shape.most_shards));
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
        st = error_set(
            STATUS_INVALID,
            "schedule %s deadlocks on this plan: %zu replicas of its stages wait for each other",
            l->plan->schedule, remaining);
out:
    free(computed);
    return st;
}

enum status lowering_replay(struct lowering *l)
{
    enum status st = lowering_check(l);
    for (uint32_t c = 0; st == STATUS_OK && c < l->shape.replicas; c++) {
        st = lowering_schedule(l, &l->replay.replica[c]);
        st = st == STATUS_OK ? turns_reserve(l, &l->replay.replica[c]) : st;
        lowering_wake(l, c);
    }
    return st == STATUS_OK ? take_turns(l) : st;
}
