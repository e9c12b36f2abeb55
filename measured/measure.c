/* A recorded run as a measurement: the structure that predictions have, too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "measured/run.h"

/* ---- ranks and steps of traces */

static enum status fill_rank(const struct run_rank *from, const struct run_times *t,
                             struct measured_rank *to)
{
    to->busy_s = t->busy_s;
    to->exposed_comm_s = t->exposed_s;
    to->idle_s = t->idle_s;
    /* Kernels of the update may run beside others: their sum, up to what is busy. */
    to->update_s = fmin(t->phase_s[PHASE_UPDATE], t->busy_s);
    memcpy(to->exposed_s, t->exposed_by_s, sizeof to->exposed_s);
    return text_copy(from->name, &to->name);
}

/* How long step k of a rank took: until the next one begins. */
static double step_seconds(const struct run_rank *r, size_t k)
{
    int64_t end = k + 1 < r->steps ? r->step[k + 1].start_ns : r->step[k].end_ns;
    return (double)(end - r->step[k].start_ns) * 1e-9;
}

/* Each step is as long as on the rank that took longest. */
static enum status measured_list_steps(const struct measured_run *run, size_t warmup,
                                       const struct run_times *times, struct measurement *m)
{
    size_t fewest = SIZE_MAX, most = 0;
    for (size_t r = 0; r < run->ranks; r++) {
        fewest = times[r].steps < fewest ? times[r].steps : fewest;
        most = times[r].steps > most ? times[r].steps : most;
    }
    if (fewest < most)
        PASS(measurement_warn(m, "ranks have %zu to %zu steps; using the first %zu of each", fewest,
                              most, fewest));
    PASS(ARRAY_NEW(m->iterations_s, fewest));
    m->iterations = fewest;
    for (size_t r = 0; r < run->ranks; r++)
        for (size_t k = 0; k < fewest; k++)
            m->iterations_s[k] =
                fmax(m->iterations_s[k],
                     times[r].marked ? step_seconds(&run->rank[r], warmup + k) : times[r].window_s);
    return STATUS_OK;
}

/* ---- calls */

static const uint8_t call_kind[SPAN_KINDS] = {
    [SPAN_ALLREDUCE] = OP_ALLREDUCE,
    [SPAN_ALLGATHER] = OP_ALLGATHER,
    [SPAN_REDUCESCATTER] = OP_REDUCESCATTER,
    [SPAN_ALLTOALL] = OP_ALLTOALL,
    [SPAN_SENDRECV] = OP_SEND,
};

static int by_call(const void *a, const void *b)
{
    const struct measured_call *x = a, *y = b;
    if (x->kind != y->kind || x->purpose != y->purpose)
        return x->kind * 256 + x->purpose < y->kind * 256 + y->purpose ? -1 : 1;
    if (x->members != y->members)
        return x->members < y->members ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Every call that begins within the window of its rank, times 1 / (ranks x steps). */
static enum status list_calls(const struct measured_run *run, size_t warmup,
                              const struct run_times *times, struct measurement *m)
{
    enum status st = STATUS_OK;
    size_t all = 0, n = 0, kept = 0;
    struct measured_call *call = NULL;
    for (size_t r = 0; r < run->ranks; r++)
        for (size_t i = 0; i < run->rank[r].spans; i++)
            all += run->rank[r].span[i].what == SPAN_COMMUNICATION;
    TRY(ARRAY_NEW(call, all + 1));
    for (size_t r = 0; r < run->ranks; r++) {
        const struct run_rank *rank = &run->rank[r];
        struct run_interval w;
        const double share = 1 / ((double)run->ranks * (double)times[r].steps);
        TRY(run_window(rank, warmup, &w));
        for (size_t i = 0; i < rank->spans; i++) {
            const struct span *s = &rank->span[i];
            if (s->what != SPAN_COMMUNICATION || !call_kind[s->kind] || s->start_ns < w.start_ns ||
                s->start_ns >= w.end_ns)
                continue;
            call[n++] =
                (struct measured_call){.purpose = span_purpose(s),
                                       .kind = call_kind[s->kind],
                                       .members = s->members                 ? s->members
                                                  : s->kind == SPAN_SENDRECV ? 2
                                                  : rank->world > 0          ? (uint32_t)rank->world
                                                                             : (uint32_t)run->ranks,
                                       .bytes = s->bytes,
                                       .calls = share,
                                       .seconds = (double)(s->end_ns - s->start_ns) * 1e-9 * share};
        }
    }
    qsort(call, n, sizeof *call, by_call);
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && by_call(&call[kept - 1], &call[i]) == 0) {
            call[kept - 1].calls += call[i].calls;
            call[kept - 1].seconds += call[i].seconds;
        } else {
            call[kept++] = call[i];
        }
    }
    m->calls = kept;
    m->call = call;
    call = NULL;
    measurement_sort_calls(m);
out:
    free(call);
    return st;
}

/* ---- what a reader of the measurement should know */

static enum status warn_count(struct measurement *m, size_t n, const char *what)
{
    return n == 0 ? STATUS_OK : measurement_warn(m, "%zu %s", n, what);
}

static enum status warn_trace(const struct measured_run *run, const struct run_times *times,
                              struct measurement *m)
{
    size_t unmarked = 0, silent = 0, guessed = 0;
    double outside = 0;
    for (size_t r = 0; r < run->ranks; r++) {
        unmarked += !times[r].marked;
        silent += times[r].comm_s == 0;
        guessed += times[r].guessed;
        outside = fmax(outside, times[r].outside);
    }
    if (run->by_device)
        PASS(measurement_warn(m, "the file does not number its ranks, so foreline numbers them by "
                                 "GPU, then by process"));
    PASS(warn_count(m, run->without_time, "event(s) without a usable time are ignored"));
    PASS(warn_count(m, run->negative, "event(s) that end before they begin are ignored"));
    PASS(warn_count(m, run->repeated, "step(s) that are marked twice are ignored"));
    PASS(warn_count(m, unmarked,
                    "rank(s) have no step marks: the whole trace of each counts as one step"));
    PASS(warn_count(m, silent, "rank(s) have no NCCL or RCCL kernel"));
    PASS(warn_count(m, guessed,
                    "collective(s) run in process groups without a description, so their purpose "
                    "is guessed from their kind"));
    if (outside > 0.001)
        return measurement_warn(
            m, "ignored: up to %.1f %% of a rank's GPU time lies outside of its steps",
            100 * outside);
    return STATUS_OK;
}

/* ---- logs */

/* The time of a line, from what it says and what the plan knows; 0: it cannot be told. */
static double line_seconds(const struct run_line *l, const struct run_options *o)
{
    double samples = l->samples > 0 ? l->samples : o->samples;
    if (l->seconds > 0)
        return l->seconds;
    if (l->samples_per_s > 0 && samples > 0)
        return samples / l->samples_per_s;
    if (l->tokens_per_s_and_gpu > 0 && o->tokens > 0 && o->devices > 0)
        return o->tokens / (l->tokens_per_s_and_gpu * (double)o->devices);
    return 0;
}

static enum status measure_lines(const struct measured_run *run, const char *path,
                                 const struct run_options *o, struct measurement *m)
{
    double samples = 0;
    size_t timeless = 0;
    PASS(ARRAY_NEW(m->iterations_s, run->lines));
    for (size_t i = o->warmup; i < run->lines; i++) {
        double s = line_seconds(&run->line[i], o);
        if (s > 0)
            m->iterations_s[m->iterations++] = s;
        else
            timeless++;
        samples = run->line[i].samples > 0 ? run->line[i].samples : samples;
    }
    if (o->warmup >= run->lines)
        return error_set(STATUS_INVALID, "%s: all of its %zu steps are warm-up; lower --warmup",
                         path, run->lines);
    if (m->iterations == 0)
        return error_set(STATUS_INVALID, "%s: none of the %zu steps%s has a time%s", path,
                         run->lines, o->warmup > 0 ? " (with warm-up)" : "",
                         o->devices == 0 && timeless > 0
                             ? " (rates only); give the samples of a step with --plan PLAN"
                             : "");
    PASS(warn_count(m, timeless, "step(s) without a time are ignored"));
    PASS(warn_count(m, run->without_time, "line(s) that could not be read are ignored"));
    if (o->samples > 0 && samples > 0 && o->samples != samples)
        PASS(measurement_warn(m, "the log's batch has %g samples, but the plan's has %g", samples,
                              o->samples));
    m->iteration_s = median(m->iterations_s, m->iterations);
    m->samples_per_s = (samples > 0 ? samples : o->samples) / m->iteration_s;
    return STATUS_OK;
}

/* ---- the whole */

static enum status measure_ranks(const struct measured_run *run, size_t warmup,
                                 struct run_times *times, struct measurement *m)
{
    double idle_s = 0, window_s = 0;
    PASS(ARRAY_NEW(m->rank, run->ranks));
    m->ranks = run->ranks;
    for (size_t r = 0; r < run->ranks; r++) {
        PASS(run_times_of(&run->rank[r], warmup, &times[r]));
        PASS(fill_rank(&run->rank[r], &times[r], &m->rank[r]));
        idle_s += times[r].idle_s;
        window_s += times[r].window_s;
    }
    m->bubble_fraction = idle_s / window_s;
    PASS(measured_list_steps(run, warmup, times, m));
    PASS(list_calls(run, warmup, times, m));
    m->iteration_s = median(m->iterations_s, m->iterations);
    return warn_trace(run, times, m);
}

enum status measured_run_measure(const struct measured_run *run, const char *path,
                                 const struct run_options *o, struct measurement *out,
                                 struct run_times *times)
{
    enum status st;
    struct measurement m = {0};
    struct run_times *own = NULL;
    if (run->ranks == 0 && run->lines == 0)
        return error_set(STATUS_INVALID, "%s: no steps and no ranks found", path);
    TRY(text_copy(run->format, &m.engine));
    TRY(ARRAY_NEW(own, run->ranks));
    if (run->ranks > 0)
        TRY(measure_ranks(run, o->warmup, own, &m));
    else
        TRY(measure_lines(run, path, o, &m));
    if (!(m.iteration_s > 0))
        FAIL(STATUS_INVALID, "%s: measured iteration time is %g s, expected more than 0 s", path,
             m.iteration_s);
    if (run->ranks > 0)
        m.samples_per_s = o->samples / m.iteration_s;
    if (o->samples > 0)
        m.tokens_per_s = o->tokens / o->samples * m.samples_per_s;
    if (o->devices > 0 && run->ranks > 0 && o->devices != run->ranks)
        TRY(measurement_warn(&m, "the files have %zu ranks, but the plan has %zu", run->ranks,
                             o->devices));
    if (times && run->ranks > 0)
        memcpy(times, own, run->ranks * sizeof *own);
    MOVE(out, m);
out:
    measurement_free(&m);
    free(own);
    return st;
}
