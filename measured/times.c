/* Where the time of a rank's steps went: unions and differences of intervals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "measured/run.h"

/* ---- intervals: disjoint and ascending once merged */

static int intervals_by_start(const void *a, const void *b)
{
    const struct run_interval *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Union in place; how many there are then. */
static size_t intervals_merge(struct run_interval *at, size_t n)
{
    size_t kept = 0, sorted = 1;
    while (sorted < n && at[sorted - 1].start_ns <= at[sorted].start_ns)
        sorted++; /* as files mostly are */
    if (sorted < n)
        qsort(at, n, sizeof *at, intervals_by_start);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && at[i].start_ns <= at[kept - 1].end_ns) {
            if (at[i].end_ns > at[kept - 1].end_ns)
                at[kept - 1].end_ns = at[i].end_ns;
        } else {
            at[kept++] = at[i];
        }
    }
    return kept;
}

static int64_t intervals_length(const struct run_interval *at, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += at[i].end_ns - at[i].start_ns;
    return sum;
}

/* ---- spans of a rank, clipped to its window */

/* Which spans count: all of `what`, or only those of a kind or purpose. */
struct interval_choice {
    int what, kind, purpose; /* -1: all */
};

struct interval_work {
    const struct run_rank *rank;
    struct run_interval window;
    struct run_interval *at; /* [2 * spans] room for what is looked at */
    size_t n;
    uint32_t kinds, purposes; /* bits of those that there are */
};

/* The purpose that a kind of collective mostly has, for groups that do not say theirs. */
static uint8_t usual_purpose(uint8_t kind)
{
    return kind == SPAN_ALLGATHER || kind == SPAN_REDUCESCATTER ? FOR_SHARDS
           : kind == SPAN_ALLTOALL                              ? FOR_EXPERTS
           : kind == SPAN_SENDRECV                              ? FOR_PIPELINE
                                                                : FOR_DATA;
}

uint8_t span_purpose(const struct span *s)
{
    return s->purpose < OP_PURPOSES ? s->purpose : usual_purpose(s->kind);
}

/* Add the spans that are chosen to what is there, and merge. Nanoseconds of the union. */
static int64_t intervals_add(struct interval_work *w, struct interval_choice c)
{
    bool there =
        (c.kind < 0 || w->kinds >> c.kind & 1) && (c.purpose < 0 || w->purposes >> c.purpose & 1);
    for (size_t i = 0; there && i < w->rank->spans; i++) {
        const struct span *s = &w->rank->span[i];
        struct run_interval at = {s->start_ns, s->end_ns};
        if ((c.what >= 0 && s->what != c.what) || (c.kind >= 0 && s->kind != c.kind) ||
            (c.purpose >= 0 && span_purpose(s) != c.purpose))
            continue;
        at.start_ns = at.start_ns < w->window.start_ns ? w->window.start_ns : at.start_ns;
        at.end_ns = at.end_ns > w->window.end_ns ? w->window.end_ns : at.end_ns;
        if (at.end_ns > at.start_ns)
            w->at[w->n++] = at;
    }
    w->n = intervals_merge(w->at, w->n);
    return intervals_length(w->at, w->n);
}

static int64_t intervals_alone(struct interval_work *w, struct interval_choice c)
{
    w->n = 0;
    return intervals_add(w, c);
}

enum status run_window(const struct run_rank *rank, size_t warmup, struct run_interval *out)
{
    struct run_interval w = {INT64_MAX, INT64_MIN};
    if (rank->steps > 0) {
        if (warmup >= rank->steps)
            return error_set(STATUS_INVALID,
                             "%s: no step is left of %zu after the warm-up; lower --warmup",
                             rank->name, rank->steps);
        w.start_ns = rank->step[warmup].start_ns;
        w.end_ns = rank->step[rank->steps - 1].end_ns;
    } else {
        if (warmup > 0)
            return error_set(STATUS_INVALID,
                             "%s: no steps are marked, so --warmup has nothing to skip",
                             rank->name);
        for (size_t i = 0; i < rank->spans; i++) {
            const struct span *s = &rank->span[i];
            w.start_ns = s->start_ns < w.start_ns ? s->start_ns : w.start_ns;
            w.end_ns = s->end_ns > w.end_ns ? s->end_ns : w.end_ns;
        }
    }
    if (w.end_ns <= w.start_ns)
        return error_set(STATUS_INVALID, "%s: no event has a duration", rank->name);
    *out = w;
    return STATUS_OK;
}

/* Sums that need no union. */
static void add_up(const struct interval_work *w, double per_ns, struct run_times *out)
{
    int64_t inside = 0, all = 0;
    for (size_t i = 0; i < w->rank->spans; i++) {
        const struct span *s = &w->rank->span[i];
        int64_t from = s->start_ns > w->window.start_ns ? s->start_ns : w->window.start_ns;
        int64_t to = s->end_ns < w->window.end_ns ? s->end_ns : w->window.end_ns;
        all += s->end_ns - s->start_ns;
        if (to < from)
            continue;
        inside += to - from;
        if (s->what == SPAN_COMPUTE)
            out->phase_s[s->phase] += (double)(to - from) * per_ns;
        out->guessed += s->what == SPAN_COMMUNICATION && s->purpose == OP_PURPOSES;
    }
    out->outside = all > 0 ? (double)(all - inside) / (double)all : 0;
}

enum status run_times_of(const struct run_rank *rank, size_t warmup, struct run_times *out)
{
    const struct interval_choice compute = {SPAN_COMPUTE, -1, -1},
                                 comm = {SPAN_COMMUNICATION, -1, -1};
    struct run_times t = {.steps = 1, .marked = rank->steps > 0};
    struct interval_work w = {.rank = rank};
    PASS(run_window(rank, warmup, &w.window));
    PASS(ARRAY_NEW(w.at, 2 * rank->spans + 1));
    for (size_t i = 0; i < rank->spans; i++)
        if (rank->span[i].what != SPAN_COMPUTE) {
            w.kinds |= UINT32_C(1) << rank->span[i].kind;
            w.purposes |= UINT32_C(1) << span_purpose(&rank->span[i]);
        }
    if (t.marked)
        t.steps = rank->steps - warmup;
    const double per_ns = 1e-9 / (double)t.steps;
    t.window_s = (double)(w.window.end_ns - w.window.start_ns) * per_ns;
    t.comm_s = (double)intervals_alone(&w, comm) * per_ns;
    int64_t busy = intervals_alone(&w, compute), filled = busy;
    t.busy_s = (double)busy * per_ns;
    for (int p = 0; p < OP_PURPOSES; p++) {
        int64_t more = intervals_add(&w, (struct interval_choice){SPAN_COMMUNICATION, -1, p});
        t.exposed_by_s[p] = (double)(more - filled) * per_ns;
        filled = more;
    }
    t.exposed_s = (double)(filled - busy) * per_ns;
    t.idle_s = (double)(w.window.end_ns - w.window.start_ns - filled) * per_ns;
    t.copy_alone_s =
        (double)(intervals_add(&w, (struct interval_choice){SPAN_COPY, -1, -1}) - filled) * per_ns;
    t.copy_s = (double)intervals_alone(&w, (struct interval_choice){SPAN_COPY, -1, -1}) * per_ns;
    for (int k = 0; k < SPAN_KINDS; k++)
        t.kind_s[k] =
            (double)intervals_alone(
                &w,
                (struct interval_choice){k < SPAN_COPIES ? SPAN_COMMUNICATION : SPAN_COPY, k, -1}) *
            per_ns;
    add_up(&w, per_ns, &t);
    *out = t;
    free(w.at);
    return STATUS_OK;
}
