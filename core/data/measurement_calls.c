/* Messages and collectives by purpose, kind and size. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/data/collective_kind.h"
#include "core/data/measurement.h"
#include "core/data/steady.h"

bool measured_calls_alike(const struct measured_call *a, const struct measured_call *b)
{
    return a->bytes == b->bytes && a->purpose == b->purpose && a->kind == b->kind &&
           a->members == b->members;
}

const char *const measured_call_names[MEASURED_CALLS] = {
    "send",      "all-reduce", "all-gather", "reduce-scatter", "all-to-all",
    "broadcast", "reduce",     "gather",     "scatter",        "copy"};
const uint8_t measured_call_kinds[MEASURED_CALLS] = {
    OP_SEND,      OP_ALLREDUCE, OP_ALLGATHER, OP_REDUCESCATTER, OP_ALLTOALL,
    OP_BROADCAST, OP_REDUCE,    OP_GATHER,    OP_SCATTER,       OP_COPY};

const char *measured_kind_name(uint8_t kind)
{
    size_t k = 0;
    while (k + 1 < MEASURED_CALLS && measured_call_kinds[k] != kind)
        k++;
    return measured_call_names[k];
}

const char *measured_call_name(const struct measured_call *c)
{
    return measured_kind_name(c->kind);
}

double measured_call_seconds(const struct measured_call *c)
{
    return c->calls > 0 ? c->seconds / c->calls : 0;
}

double measured_call_algbw(const struct measured_call *c)
{
    return c->seconds > 0 ? (double)c->bytes * c->calls / c->seconds : 0;
}

/* A message moves its bytes once; collectives by nccl-tests' factor. */
double measured_call_busbw(const struct measured_call *c)
{
    double factor =
        c->kind == OP_SEND ? 1 : collective_bus_factor(op_collective[c->kind], c->members);
    return factor * measured_call_algbw(c);
}

/* From when the last member was ready until the last one was done. */
static double collective_seconds(const struct program *p, const struct timeline *t, size_t i)
{
    double start = t->start_s[i], end = t->end_s[i];
    for (size_t j = p->op[i].match; j != i; j = p->op[j].match) {
        start = fmax(start, t->start_s[j]);
        end = fmax(end, t->end_s[j]);
    }
    return fmax(0, end - start);
}

/* The row of invocations alike to `wanted`, found or added; *last is tried first, since
 * neighbours in a program are often alike. */
static enum status row_for(struct measurement *m, const struct measured_call *wanted, size_t *last)
{
    if (*last < m->calls && measured_calls_alike(&m->call[*last], wanted))
        return STATUS_OK;
    for (*last = 0; *last < m->calls; ++*last)
        if (measured_calls_alike(&m->call[*last], wanted))
            return STATUS_OK;
    PASS(ARRAY_ROOM(m->call, m->calls));
    m->call[m->calls++] = *wanted;
    return STATUS_OK;
}

/* Ties by size, purpose and kind, so that the order is the same everywhere. */
static int longest_first(const void *a, const void *b)
{
    const struct measured_call *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->purpose != y->purpose ? (x->purpose < y->purpose ? -1 : 1) : x->kind - y->kind;
}

void measurement_sort_calls(struct measurement *m)
{
    if (m->calls > 0)
        qsort(m->call, m->calls, sizeof *m->call, longest_first);
}

/* The call that op i of a rank is, `times` over. Messages count at their sender, collectives at
 * the first member of their group, those of a folded program for all their copies; *row is where
 * the last one was found. */
static enum status add_call(struct measurement *out, const struct program *p,
                            const struct timeline *t, uint32_t rank, size_t i, double times,
                            size_t *row)
{
    const struct program_op *o = &p->op[i];
    bool message = o->kind == OP_SEND;
    if (!message && (!op_is_collective(o) || p->member[p->group_start[o->peer]] != rank))
        return STATUS_OK;
    const struct measured_call call = {
        .purpose = o->purpose,
        .kind = o->kind,
        .members =
            message ? 2 : (uint32_t)(p->device_start[o->peer + 1] - p->device_start[o->peer]),
        .bytes = o->bytes};
    if (!message)
        times *= (double)program_group_copies(p, o->peer);
    else if (p->folded)
        times *=
            (double)(p->copies.channel_start[o->channel + 1] - p->copies.channel_start[o->channel]);
    PASS(row_for(out, &call, row));
    out->call[*row].calls += times * (message ? 1 : o->count);
    out->call[*row].seconds +=
        times * (message ? t->end_s[o->match] - t->start_s[i] : collective_seconds(p, t, i));
    return STATUS_OK;
}

enum status measurement_add_calls(struct measurement *out, const struct program *p,
                                  const struct timeline *t)
{
    size_t row = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = p->op_start[r]; i < p->op_start[r + 1]; i++)
            PASS(add_call(out, p, t, r, i, 1, &row));
    measurement_sort_calls(out);
    return STATUS_OK;
}

enum status measurement_repeat_calls(struct measurement *m, const struct program *p,
                                     const struct timeline *t, const struct steady *s, double times)
{
    size_t row = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (size_t i = s->from[r]; i < s->to[r]; i++)
            PASS(add_call(m, p, t, r, i, times, &row));
    measurement_sort_calls(m);
    return STATUS_OK;
}
