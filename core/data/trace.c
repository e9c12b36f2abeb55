/* Timelines in the format of Chrome's trace viewer: a process per rank, a thread per kind of op. */
#include "core/data/trace.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/provenance.h"

enum { THREAD_COMPUTE, THREAD_SEND, THREAD_RECV, THREAD_COLLECTIVE };
static const char *const thread_names[TRACE_THREADS] = {"compute", "send", "receive", "collective"};

/* The line of the viewer that an op is on. */
static uint8_t thread_of(const struct program_op *o)
{
    return op_computes(o)       ? THREAD_COMPUTE
           : o->kind == OP_SEND ? THREAD_SEND
           : o->kind == OP_RECV ? THREAD_RECV
                                : THREAD_COLLECTIVE;
}

/* What the viewer colours ops by. */
static const char *trace_category_of(const struct program_op *o)
{
    static const char *const names[OP_KINDS] = {
        [OP_FORWARD] = "forward",
        [OP_BACKWARD] = "backward",
        [OP_BACKWARD_INPUT] = "backward",
        [OP_BACKWARD_WEIGHT] = "weight",
        [OP_UPDATE] = "update",
        [OP_SEND] = "send",
        [OP_RECV] = "receive",
    };
    if (o->kind == OP_COMPUTE)
        return op_phase_names[o->phase];
    return names[o->kind] ? names[o->kind] : "collective";
}

void trace_put_name(struct json_writer *w, const char *what, uint32_t pid, int tid,
                    const char *name)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "name", what);
    json_put_string(w, "ph", "M");
    json_put_integer(w, "pid", pid);
    json_put_integer(w, "tid", tid);
    json_open_object(w, "args", true);
    json_put_string(w, "name", name);
    json_close(w);
    json_close(w);
}

/* ---- lanes */

struct trace_slice {
    double start, end;
    uint8_t thread;
    size_t index;
};

static int trace_by_start(const void *a, const void *b)
{
    const struct trace_slice *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

enum status trace_lanes(size_t n, const double *start, const double *end, const uint8_t *thread,
                        uint32_t *lane)
{
    static const double never = -1e300;
    double free_at[TRACE_THREADS][TRACE_LANES];
    struct trace_slice *s;
    PASS(ARRAY_NEW(s, n + 1));
    for (size_t i = 0; i < n; i++)
        s[i] = (struct trace_slice){start[i], end[i], thread[i], i};
    qsort(s, n, sizeof *s, trace_by_start);
    for (size_t t = 0; t < TRACE_THREADS; t++)
        for (size_t k = 0; k < TRACE_LANES; k++)
            free_at[t][k] = never;
    for (size_t i = 0; i < n; i++) {
        double *at = free_at[s[i].thread];
        uint32_t k = 0;
        while (k + 1 < TRACE_LANES && at[k] > s[i].start)
            k++;
        at[k] = s[i].end;
        lane[s[i].index] = k;
    }
    free(s);
    return STATUS_OK;
}

void trace_put_threads(struct json_writer *w, uint32_t pid, const char *const name[TRACE_THREADS],
                       size_t n, const uint8_t *thread, const uint32_t *lane)
{
    uint32_t lanes[TRACE_THREADS] = {1, 1, 1, 1};
    char text[64];
    for (size_t i = 0; i < n; i++)
        if (lane[i] >= lanes[thread[i]])
            lanes[thread[i]] = lane[i] + 1;
    for (uint8_t t = 0; t < TRACE_THREADS && name[t]; t++)
        for (uint32_t k = 0; k < lanes[t]; k++) {
            if (k > 0)
                snprintf(text, sizeof text, "%s %u", name[t], k + 1);
            trace_put_name(w, "thread_name", pid, trace_thread(t, k), k > 0 ? text : name[t]);
        }
}

/* Arrow from a SEND to its RECV: `phase` "s" at the start, "f" at the end. */
static void put_flow(struct json_writer *w, const char *phase, size_t id, uint32_t pid, int tid,
                     double time_s)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "name", "message");
    json_put_string(w, "cat", "flow");
    json_put_string(w, "ph", phase);
    if (*phase == 'f')
        json_put_string(w, "bp", "e");
    json_put_integer(w, "id", (int64_t)id);
    json_put_real(w, "ts", time_s * 1e6);
    json_put_integer(w, "pid", pid);
    json_put_integer(w, "tid", tid);
    json_close(w);
}

/* Complete event of an op, microseconds; a SEND draws an arrow to its RECV. */
static void trace_put_op(struct json_writer *w, const struct program *p, const struct timeline *t,
                         const uint32_t *lane, uint32_t rank, size_t i)
{
    const struct program_op *o = &p->op[i];
    char label[OP_LABEL];
    int tid = trace_thread(thread_of(o), lane[i]);
    json_open_object(w, NULL, true);
    json_put_string(w, "name", op_label(o, label));
    json_put_string(w, "cat", trace_category_of(o));
    json_put_string(w, "ph", "X");
    json_put_real(w, "ts", t->start_s[i] * 1e6);
    json_put_real(w, "dur", (t->end_s[i] - t->start_s[i]) * 1e6);
    json_put_integer(w, "pid", rank);
    json_put_integer(w, "tid", tid);
    json_open_object(w, "args", true);
    json_put_integer(w, "stage", o->stage);
    if (o->microbatch != PROGRAM_NONE)
        json_put_integer(w, "microbatch", o->microbatch);
    if (!op_computes(o))
        json_put_integer(w, "bytes", o->bytes);
    if (op_is_collective(o) && o->count > 1)
        json_put_integer(w, "calls", o->count); /* of so many bytes each */
    if (op_is_message(o))
        json_put_integer(w, "peer", o->peer);
    if (op_is_collective(o))
        json_put_string(w, "for", op_purpose_names[o->purpose]);
    json_close(w);
    json_close(w);
    if (o->kind == OP_SEND) {
        put_flow(w, "s", i, rank, tid, t->start_s[i]);
        put_flow(w, "f", i, o->peer, trace_thread(THREAD_RECV, lane[o->match]), t->end_s[o->match]);
    }
}

void trace_open(struct json_writer *w, const struct provenance *by)
{
    json_open_object(w, NULL, false);
    json_put_string(w, "displayTimeUnit", "ms");
    json_open_object(w, "otherData", true);
    json_put_string(w, "version", by->version);
    json_put_string(w, "command", by->command);
    json_put_integer(w, "seed", (int64_t)by->seed);
}

/* A process per rank with a thread per kind of op, named first, then all ops of the rank. */
enum status trace_put(const struct program *p, const struct timeline *t, FILE *to,
                      const struct provenance *by)
{
    enum status st;
    uint8_t *thread = NULL;
    uint32_t *lane = NULL;
    TRY(ARRAY_NEW(thread, p->ops + 1));
    TRY(ARRAY_NEW(lane, p->ops + 1));
    for (size_t i = 0; i < p->ops; i++)
        thread[i] = thread_of(&p->op[i]);
    for (size_t r = 0; r < p->ranks; r++) {
        size_t first = p->op_start[r], n = p->op_start[r + 1] - first;
        TRY(trace_lanes(n, t->start_s + first, t->end_s + first, thread + first, lane + first));
    }
    struct json_writer w = {.stream = to};
    trace_open(&w, by);
    if (t->monotonic_s > 0) {
        json_put_integer(&w, "step", t->step);
        json_put_real(&w, "clock_monotonic_s", t->monotonic_s);
        json_put_real(&w, "unix_s", t->unix_s);
    }
    json_close(&w);
    json_open_array(&w, "traceEvents", false);
    for (uint32_t r = 0; r < p->ranks; r++) {
        char name[128];
        snprintf(name, sizeof name, "rank %u %.100s", r, p->rank[r].name);
        trace_put_name(&w, "process_name", r, 0, name);
        size_t first = p->op_start[r];
        trace_put_threads(&w, r, thread_names, p->op_start[r + 1] - first, thread + first,
                          lane + first);
        for (size_t i = first; i < p->op_start[r + 1]; i++)
            trace_put_op(&w, p, t, lane, r, i);
    }
    json_close(&w);
    json_close(&w);
out:
    free(thread);
    free(lane);
    return st;
}
