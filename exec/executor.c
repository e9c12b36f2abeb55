/* A rank's list of ops, run in order on a device and a transport.
 *
 * For every op: wait_for_dependencies() completes the communication that it depends on (compute ops
 * before it are complete, since they ran on this thread), then executor_compute() or post(). What
 * was posted goes on in the transport while later ops compute; what nobody waited for is completed
 * at the end of the step. Two things are not in list order:
 *   - ZeRO 3: the ALLGATHER for the next pass is posted before this pass computes (post_ahead());
 *   - tensor parallelism, and experts on other ranks: reductions and exchanges happen inside a pass
 *     and are reported as the program's op after it.
 * Where the transport can (follow()), to complete means that the device's queue waits, not this
 * thread, which goes through the whole list ahead of the device and waits at the end of the
 * step. */
#include "exec/executor_running.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "exec/device/layer.h"
#include "exec/ranges.h"

/* Of a step's time: more, and it is no measurement of the plan. */
static const double most_late = 0.02;

/* Where the rank is, for the heartbeats. */
void executor_report(const struct running *r, uint32_t op, enum worker_state state)
{
    struct executor_progress *p = r->e->progress;
    if (!p)
        return;
    atomic_store(&p->op, op);
    atomic_store(&p->step, r->step);
    atomic_store(&p->state, (uint32_t)state);
}

/* May what depends on it go on? Compute ops before the current one always are complete. */
static bool executor_is_complete(const struct running *r, uint32_t op)
{
    return *executor_state_of(r, op) >= OP_INSIDE;
}

/* What comes next waits for the op: the device's work where the transport can, else this thread. */
static enum status wait_or_follow(const struct executor *e, uint32_t op, const void **data)
{
    if (e->transport->follow)
        return e->transport->follow(e->transport_self, op, data);
    return e->transport->wait(e->transport_self, op, e->timeout_s, data);
}

/* A reduction that the op at work cannot go on without: data [n] in place. */
enum status executor_call(const struct executor *e, uint32_t op, enum element of, void *data,
                          size_t n)
{
    if (e->transport->call)
        return e->transport->call(e->transport_self, op, of, data, n, e->timeout_s);
    PASS(e->transport->collective(e->transport_self, op, of, data, n));
    return wait_or_follow(e, op, NULL);
}

/* When the op ran; where the host has not waited for it, that is asked at the end of the step. */
static void end_op(const struct running *r, uint32_t op)
{
    const struct executor *e = r->e;
    size_t k = op - r->first;
    *executor_state_of(r, op) = e->transport->follow ? OP_FOLLOWED : OP_COMPLETE;
    if (!e->transport->follow)
        e->transport->times(e->transport_self, op, &r->out->op_start_s[k], &r->out->op_end_s[k]);
}

/* Start the next call of a collective; *more: there was one to start. */
static enum status executor_call_collective(const struct running *r, uint32_t op, uint32_t k,
                                            bool *more)
{
    const struct executor *e = r->e;
    enum element of;
    void *data;
    size_t n;
    PASS(e->device->array(e->device_self, &e->program->op[op], k, &of, &data, &n));
    *more = data != NULL;
    if (data)
        PASS(e->transport->collective(e->transport_self, op, of, data, n));
    return STATUS_OK;
}

/* Sums of tensor parallelism that the device has not made in its ops: the next one waits for them,
 * all of them at once. */
static enum status executor_call_group(const struct running *r, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct executor *e = r->e;
    enum element of;
    void *data = NULL;
    size_t n;
    executor_report(r, op, WORKER_WAITS);
    for (uint32_t k = 0; k == 0 || data; k++) {
        TRY(e->device->array(e->device_self, &e->program->op[op], k, &of, &data, &n));
        if (data)
            TRY(executor_call(e, op, of, data, n));
        else if (k == 0)
            st = error_set(STATUS_INVALID, "program does not match the device: it reduces "
                                           "gradients that the device does not have");
    }
    if (st == STATUS_OK)
        end_op(r, op);
out:
    return st;
}

/* The first call has been made: wait for it, make the others, and tell the device. */
static enum status complete_collective(const struct running *r, uint32_t op)
{
    const struct executor *e = r->e;
    bool more = true;
    for (uint32_t k = 1; more; k++) {
        PASS(wait_or_follow(e, op, NULL));
        PASS(executor_call_collective(r, op, k, &more));
    }
    if (e->device->collected)
        PASS(e->device->collected(e->device_self, &e->program->op[op]));
    return STATUS_OK;
}

/* The message is the transport's memory until the device has taken it, or will have: what it queues
 * comes before the release. */
static enum status complete_receive(const struct running *r, uint32_t op)
{
    enum status st;
    const struct executor *e = r->e;
    const void *data = NULL;
    TRY(wait_or_follow(e, op, &data));
    st = e->device->put(e->device_self, &e->program->op[op], data);
    e->transport->release(e->transport_self, op);
out:
    return st;
}

/* A collective of a stage that says step by step what shards need of each other. */
static bool is_conversion(const struct program *p, const struct program_op *o)
{
    return op_is_collective(o) && executor_is_stepped(p, o->stage);
}

/* Sums of gradients run one after the other anyway: one need not be waited for by the next. Nor
 * need conversions, which are of other tensors or another half. */
static bool follows_anyway(const struct program *p, const struct program_op *before,
                           const struct program_op *o)
{
    if (is_conversion(p, before) && is_conversion(p, o))
        return true;
    bool again = before->kind == OP_REDUCESCATTER && o->kind == OP_ALLREDUCE; /* of what it left */
    return op_is_collective(before) && before->purpose == FOR_DATA && op_is_collective(o) &&
           o->purpose == FOR_DATA && o->microbatch == PROGRAM_NONE && !again;
}

/* Wait for a communication op and hand what has come to the device: after the sums that it did not
 * wait for when it was posted, since who depends on it relies on these as well. (Their results may
 * be in the transport's memory until then.) As deep as a stage has buckets. */
static enum status executor_complete_op(const struct running *r, uint32_t op)
{
    const struct program *p = r->e->program;
    const struct program_op *o = &p->op[op];
    for (uint32_t d = o->dep_start; d < p->op[op + 1].dep_start; d++)
        if (follows_anyway(p, &p->op[p->dep[d]], o) && !executor_is_complete(r, p->dep[d]))
            PASS(executor_complete_op(r, p->dep[d]));
    executor_report(r, op, WORKER_WAITS);
    if (o->kind == OP_RECV)
        PASS(complete_receive(r, op));
    else if (op_is_collective(o))
        PASS(complete_collective(r, op));
    else
        PASS(wait_or_follow(r->e, op, NULL));
    end_op(r, op);
    return STATUS_OK;
}

static enum status wait_for_dependencies(const struct running *r, uint32_t op)
{
    const struct program *p = r->e->program;
    for (uint32_t d = p->op[op].dep_start; d < p->op[op + 1].dep_start; d++) {
        uint32_t before = p->dep[d];
        if (op_computes(&p->op[before]) || executor_is_complete(r, before) ||
            follows_anyway(p, &p->op[before], &p->op[op]))
            continue;
        PASS(executor_complete_op(r, before));
    }
    return STATUS_OK;
}

/* Is everything complete that op depends on, `now` being the op whose turn it is? */
static bool executor_is_ready(const struct running *r, uint32_t op, uint32_t now)
{
    const struct program *p = r->e->program;
    for (uint32_t d = p->op[op].dep_start; d < p->op[op + 1].dep_start; d++)
        if (p->dep[d] >= now ||
            (!op_computes(&p->op[p->dep[d]]) && !executor_is_complete(r, p->dep[d])))
            return false;
    return true;
}

/* Begin communication: SEND packs its message, collectives their first array. */
static enum status post(struct running *r, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct executor *e = r->e;
    const struct program_op *o = &e->program->op[op];
    bool called = true;
    if (*executor_state_of(r, op) != OP_IDLE)
        return STATUS_OK;
    *executor_state_of(r, op) = OP_POSTED;
    if (o->kind == OP_SEND) {
        void *data;
        TRY(e->transport->send_buffer(e->transport_self, op, &data));
        TRY(e->device->get(e->device_self, o, data));
        TRY(e->transport->send(e->transport_self, op));
    } else if (op_is_collective(o) && !is_conversion(e->program, o) &&
               ((o->purpose == FOR_TENSOR && !o->backward) || o->purpose == FOR_EXPERTS)) {
        TRY(executor_call_group(r, op));
    } else if (op_is_collective(o)) {
        TRY(executor_call_collective(r, op, 0, &called));
        if (!called && (o->purpose == FOR_CONTEXT || o->purpose == FOR_TENSOR))
            *executor_state_of(r, op) = OP_INSIDE; /* the device exchanges it in the pass */
        else if (!called)
            st = error_set(STATUS_INVALID, "program does not match the device: it exchanges tokens "
                                           "that the device does not have");
    }
out:
    return st; /* RECVs are posted by the transport */
}

/* Parameters that the next pass needs are gathered while this one computes. Which ones follows from
 * the program alone, so that all members of a group do the same. */
static enum status post_ahead(struct running *r, uint32_t now)
{
    const struct program *p = r->e->program;
    for (uint32_t op = now + 1; op < r->end && !op_computes(&p->op[op]); op++)
        if (p->op[op].kind == OP_ALLGATHER && p->op[op].purpose == FOR_SHARDS &&
            p->op[op].microbatch != PROGRAM_NONE && executor_is_ready(r, op, now))
            PASS(post(r, op));
    return STATUS_OK;
}

/* Until what is predicted of an op is over, besides the sums in it. */
static void pace(struct running *r, const struct program_op *o, double start_s)
{
    size_t now = r->now - r->first;
    double sums_s = r->out->sums_s[now] + r->out->exchanges_s[now];
    double took_s = clock_now() - start_s - sums_s;
    if (took_s > o->seconds)
        r->late_s += took_s - o->seconds;
    else
        clock_sleep_until(start_s + sums_s + o->seconds);
}

/* Paced ops that take longer than predicted make the step a measurement of this machine, not of the
 * plan: refused. The first step warms caches up. */
static enum status check_pace(const struct running *r)
{
    double step_s = r->out->end_s - r->out->start_s;
    if (!r->e->paced || r->step == 0 || r->late_s <= most_late * step_s)
        return STATUS_OK;
    return error_set(STATUS_UNSUPPORTED,
                     "ops took %.3g s longer than their predicted times in a step of %.3g s, "
                     "because this machine is too slow; use fewer ranks or raise --dilate",
                     r->late_s, step_s);
}

/* A compute op, with the reductions inside it, whose time executor_book_sums() takes off the
 * op's. */
static enum status executor_compute(struct running *r, uint32_t op)
{
    enum status st;
    const struct executor *e = r->e;
    const struct program_op *o = &e->program->op[op];
    double *start_s = r->out->op_start_s - r->first, *end_s = r->out->op_end_s - r->first;
    TRY(post_ahead(r, op));
    executor_report(r, op, WORKER_COMPUTES);
    r->now = op;
    r->sum = executor_sum_after(e->program, e->rank, op);
    r->exchange = executor_exchange_after(e->program, e->rank, op);
    start_s[op] = clock_now();
    st = e->device->compute(e->device_self, r->step, o,
                            &(struct layer_reduction){r, executor_sum, executor_exchange,
                                                      executor_move, executor_fail});
    if (e->paced)
        pace(r, o, start_s[op]);
    end_s[op] = clock_now();
    if (r->st != STATUS_OK)
        st = r->st;
out:
    return st;
}

/* One op in its turn. */
static enum status run_op(struct running *r, uint32_t op)
{
    const struct program_op *o = &r->e->program->op[op];
    const struct ranges *ranges = r->e->ranges;
    char label[OP_LABEL];
    PASS(wait_for_dependencies(r, op));
    if (ranges)
        ranges->begin(op_label(o, label), o->kind);
    enum status st = op_computes(o) ? executor_compute(r, op) : post(r, op);
    if (ranges)
        ranges->end();
    return st;
}

/* Where a failure happened, before its message. */
static enum status executor_locate_op(const struct running *r, uint32_t op, enum status st)
{
    char label[OP_LABEL];
    return error_context(st, "rank %u (%s) at %s step %u", r->e->rank,
                         r->e->program->rank[r->e->rank].name,
                         op_label(&r->e->program->op[op], label), r->step);
}

/* ---- the end of a step */

/* Of a pass whose device says only now how long shards moved rows in it: as executor_move()
 * does. */
static void book_moves(const struct running *r, uint32_t op)
{
    const struct executor *e = r->e;
    const struct program *p = e->program;
    double *sums_s = r->out->sums_s;
    for (int how = 0; how < MOVES; how++) {
        double seconds = e->device->moved(e->device_self, &p->op[op], how);
        if (how == MOVE_EXPERTS) {
            r->out->exchanges_s[op - r->first] += seconds;
            continue;
        }
        uint32_t at =
            how >= MOVE_CONTEXT_GATHER
                ? executor_context_before(p, e->rank, op, layer_move_kind((enum layer_move)how))
                : executor_move_of(p, e->rank, op, (enum layer_move)how);
        if (at == PROGRAM_NONE)
            continue;
        sums_s[at - r->first] += seconds;
        if (at > op)
            sums_s[op - r->first] += seconds;
    }
}

/* Devices that queue their ops know only now when these ran. */
static enum status finish_device(const struct running *r)
{
    const struct executor *e = r->e;
    if (!e->device->finish)
        return STATUS_OK;
    PASS(e->device->finish(e->device_self));
    for (size_t k = 0; k < r->out->ops; k++) {
        const struct program_op *o = &e->program->op[r->first + k];
        if (!op_computes(o))
            continue;
        e->device->times(e->device_self, o, &r->out->op_start_s[k], &r->out->op_end_s[k],
                         &r->out->sums_s[k]);
        if (e->device->moved)
            book_moves(r, (uint32_t)(r->first + k));
    }
    return STATUS_OK;
}

/* What nobody waited for is completed; then the host waits for what only the device's queue has
 * waited for, in the order of the list: here deadlines count and failures show. */
static enum status executor_finish_op(const struct running *r, uint32_t *op)
{
    const struct executor *e = r->e;
    for (*op = (uint32_t)r->first; *op < r->end; ++*op)
        if (!op_computes(&e->program->op[*op]) && !executor_is_complete(r, *op))
            PASS(executor_complete_op(r, *op));
    for (*op = (uint32_t)r->first; *op < r->end && e->transport->follow; ++*op) {
        size_t k = *op - r->first;
        if (op_computes(&e->program->op[*op]))
            continue;
        executor_report(r, *op, WORKER_WAITS);
        PASS(e->transport->wait(e->transport_self, *op, e->timeout_s, NULL));
        e->transport->times(e->transport_self, *op, &r->out->op_start_s[k], &r->out->op_end_s[k]);
    }
    PASS(finish_device(r));
    executor_book_context(e->program, e->rank, r->out);
    executor_book_sums(e->program, e->rank, r->out);
    return STATUS_OK;
}

/* A profiler sees the step from the moment that the trace calls 0. */
static void executor_begin_step(const struct executor *e, uint32_t step)
{
    char name[32];
    snprintf(name, sizeof name, "step %u", step);
    if (e->ranges)
        e->ranges->begin(name, OP_KINDS);
}

enum status executor_run(const struct executor *e, uint32_t step, struct executor_step *out)
{
    enum status st = STATUS_OK;
    const struct program *p = e->program;
    struct running r = {.e = e,
                        .step = step,
                        .out = out,
                        .first = p->op_start[e->rank],
                        .end = p->op_start[e->rank + 1]};
    uint32_t op = (uint32_t)r.first, end = (uint32_t)r.end;

    memset(out->op_start_s, 0, 2 * out->ops * sizeof *out->op_start_s);
    memset(out->sums_s, 0, 2 * out->ops * sizeof *out->sums_s);
    memset(out->state, 0, out->ops * sizeof *out->state);
    executor_report(&r, op, step == 0 ? WORKER_CONNECTS : WORKER_WAITS);
    TRY(e->transport->barrier(e->transport_self, e->timeout_s, &out->start_s));
    clock_sleep_until(out->start_s);
    executor_begin_step(e, step);
    for (; op < end; op++)
        TRY(run_op(&r, op));
    TRY(executor_finish_op(&r, &op));
    out->end_s = clock_now();
    if (e->ranges)
        e->ranges->end();
    TRY(check_pace(&r));
    out->loss = e->device->take_loss(e->device_self);
    out->hits[0] = out->hits[1] = NAN;
    if (e->device->take_hits)
        e->device->take_hits(e->device_self, out->hits);
out:
    return st == STATUS_OK ? st : executor_locate_op(&r, op < end ? op : (uint32_t)r.first, st);
}

/* One more call of an op that gathers parameters. */
static enum status gather_again(const struct running *r, uint32_t op)
{
    const struct executor *e = r->e;
    bool more;
    PASS(executor_call_collective(r, op, 0, &more));
    PASS(complete_collective(r, op));
    if (e->transport->follow)
        PASS(e->transport->wait(e->transport_self, op, e->timeout_s, NULL));
    return e->device->gathered ? e->device->gathered(e->device_self, &e->program->op[op])
                               : STATUS_OK;
}

/* With ZeRO 3, or kept parameters, nobody has all after the last update: gather them once more,
 * stage by stage and bucket by bucket, by one more call of the first op of each that does. */
static enum status gather_parameters(const struct executor *e)
{
    const struct program *p = e->program;
    struct running r = {.e = e, .first = p->op_start[e->rank], .end = p->op_start[e->rank + 1]};
    for (uint32_t stage = 0; stage < p->stages; stage++) {
        uint32_t seen[UINT8_MAX + 1][2] = {0}; /* by part: groups + 1, one of experts maybe */
        bool gathers = p->stage[stage].zero == 3 || p->stage[stage].keep;
        for (uint32_t op = (uint32_t)r.first; op < r.end && gathers; op++) {
            const struct program_op *o = &p->op[op];
            uint32_t *groups = seen[o->part], group = o->peer + 1;
            if (o->kind != OP_ALLGATHER || o->purpose != FOR_SHARDS || o->stage != stage ||
                groups[0] == group || groups[1] == group)
                continue;
            groups[groups[0] ? 1 : 0] = group;
            PASS(gather_again(&r, op));
        }
    }
    return STATUS_OK;
}

enum status executor_finish(const struct executor *e)
{
    double ignored_s;
    if (e->progress)
        atomic_store(&e->progress->state, WORKER_FINISHES);
    enum status st = gather_parameters(e);
    return st == STATUS_OK ? e->transport->barrier(e->transport_self, e->timeout_s, &ignored_s)
                           : st;
}
