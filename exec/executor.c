#include "exec/executor.h"

#include <stdlib.h>
#include <string.h>

#include "exec/tcp/socket.h"

enum status executor_step_init(struct executor_step *s, const struct program *p, uint32_t rank)
{
    size_t n = p->op_start[rank + 1] - p->op_start[rank];
    double *t = calloc(2 * n + 1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "times of %zu ops", n);
    *s = (struct executor_step){.ops = n, .op_start_s = t, .op_end_s = t + n};
    return STATUS_OK;
}

enum status executor_supports(const struct program *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++) {
            const struct program_op *o = &p->op[i];
            char label[OP_LABEL];
            const char *what = p->rank[r].shard > 0        ? "tensor parallelism"
                               : o->purpose == FOR_EXPERTS ? "experts on other ranks"
                               : op_is_collective(o) && o->kind != OP_ALLREDUCE
                                   ? "sharded parameters"
                               : o->part > 0                  ? "gradient buckets"
                               : p->asynchronous              ? "updates without flush"
                               : p->rank[r].scratch_bytes > 0 ? "recomputation"
                                                              : NULL;
            if (what)
                return error_set(STATUS_UNSUPPORTED,
                                 "rank %u: %s: %s can be simulated but not run yet "
                                 "(plan --executable avoids it)",
                                 r, op_label(o, label), what);
        }
    return STATUS_OK;
}

void executor_step_free(struct executor_step *s)
{
    free(s->op_start_s);
    *s = (struct executor_step){0};
}

/* A step under way. */
struct running {
    const struct executor *e;
    uint32_t step;
    struct executor_step *out;
    size_t first; /* index of the rank's first op */
};

static void report(const struct running *r, uint32_t op, enum worker_state state)
{
    struct executor_progress *p = r->e->progress;
    if (!p)
        return;
    atomic_store(&p->op, op);
    atomic_store(&p->step, r->step);
    atomic_store(&p->state, (uint32_t)state);
}

/* Completed communication has an end; compute ops before the current one are always complete. */
static bool is_complete(const struct running *r, uint32_t op)
{
    return r->out->op_end_s[op - r->first] > 0;
}

/* Wait for a communication op and, for a RECV, hand its payload to the device. */
static enum status complete(const struct running *r, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct executor *e = r->e;
    const struct program_op *o = &e->program->op[op];
    const void *data = NULL;
    size_t k = op - r->first;

    report(r, op, WORKER_WAITS);
    TRY(e->transport->wait(e->transport_self, op, e->timeout_s, &data));
    if (o->kind == OP_RECV) {
        st = e->device->put(e->device_self, o, data);
        e->transport->release(e->transport_self, op);
        if (st != STATUS_OK)
            return st;
    }
    e->transport->times(e->transport_self, op, &r->out->op_start_s[k], &r->out->op_end_s[k]);
out:
    return st;
}

static enum status wait_for_dependencies(const struct running *r, uint32_t op)
{
    const struct program *p = r->e->program;
    for (uint32_t d = p->op[op].dep_start; d < p->op[op + 1].dep_start; d++) {
        uint32_t before = p->dep[d];
        /* collectives run one after the other anyway: need not be waited for by the next */
        if (op_computes(&p->op[before]) || is_complete(r, before) ||
            (p->op[op].kind == OP_ALLREDUCE && p->op[before].kind == OP_ALLREDUCE))
            continue;
        enum status st = complete(r, before);
        if (st != STATUS_OK)
            return st;
    }
    return STATUS_OK;
}

static enum status compute(const struct running *r, uint32_t op)
{
    enum status st;
    const struct executor *e = r->e;
    const struct program_op *o = &e->program->op[op];
    size_t k = op - r->first;
    report(r, op, WORKER_COMPUTES);
    r->out->op_start_s[k] = clock_now();
    st = e->device->compute(e->device_self, r->step, o);
    r->out->op_end_s[k] = clock_now();
    return st;
}

static enum status post(const struct running *r, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct executor *e = r->e;
    const struct program_op *o = &e->program->op[op];
    if (o->kind == OP_SEND) {
        void *data;
        TRY(e->transport->send_buffer(e->transport_self, op, &data));
        TRY(e->device->get(e->device_self, o, data));
        TRY(e->transport->send(e->transport_self, op));
    } else if (o->kind == OP_ALLREDUCE) {
        float *data;
        size_t n;
        TRY(e->device->gradients(e->device_self, o, &data, &n));
        TRY(e->transport->collective(e->transport_self, op, data, n));
    }
out:
    return st; /* RECVs are posted by the transport */
}

static enum status run_op(const struct running *r, uint32_t op)
{
    enum status st = wait_for_dependencies(r, op);
    if (st != STATUS_OK)
        return st;
    return op_computes(&r->e->program->op[op]) ? compute(r, op) : post(r, op);
}

static enum status locate(const struct running *r, uint32_t op, enum status st)
{
    char label[OP_LABEL];
    return error_context(st, "rank %u (%s) at %s step %u", r->e->rank,
                         r->e->program->rank[r->e->rank].name,
                         op_label(&r->e->program->op[op], label), r->step);
}

/* Devices that queue their ops know only now when these ran. */
static enum status finish(const struct running *r)
{
    enum status st = STATUS_OK;
    const struct executor *e = r->e;
    if (!e->device->finish)
        return STATUS_OK;
    TRY(e->device->finish(e->device_self));
    for (size_t k = 0; k < r->out->ops; k++) {
        const struct program_op *o = &e->program->op[r->first + k];
        if (op_computes(o))
            e->device->times(e->device_self, o, &r->out->op_start_s[k], &r->out->op_end_s[k]);
    }
out:
    return st;
}

enum status executor_run(const struct executor *e, uint32_t step, struct executor_step *out)
{
    enum status st = STATUS_OK;
    const struct program *p = e->program;
    struct running r = {.e = e, .step = step, .out = out, .first = p->op_start[e->rank]};
    uint32_t op = (uint32_t)r.first, end = (uint32_t)p->op_start[e->rank + 1];

    memset(out->op_start_s, 0, 2 * out->ops * sizeof *out->op_start_s);
    report(&r, op, step == 0 ? WORKER_STARTS : WORKER_WAITS);
    TRY(e->transport->barrier(e->transport_self, e->timeout_s, &out->start_s));
    clock_sleep_until(out->start_s);
    for (; op < end; op++)
        TRY(run_op(&r, op));
    for (op = (uint32_t)r.first; op < end; op++)
        if (!op_computes(&p->op[op]) && !is_complete(&r, op))
            TRY(complete(&r, op));
    TRY(finish(&r));
    out->end_s = clock_now();
    out->loss = e->device->take_loss(e->device_self);
out:
    return st == STATUS_OK ? st : locate(&r, op < end ? op : (uint32_t)r.first, st);
}

enum status executor_finish(const struct executor *e)
{
    double ignored_s;
    if (e->progress)
        atomic_store(&e->progress->state, WORKER_FINISHES);
    return e->transport->barrier(e->transport_self, e->timeout_s, &ignored_s);
}
