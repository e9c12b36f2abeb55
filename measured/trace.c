/* Recorded runs as timelines, in the form of foreline's own (core/data/trace.h). */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/data/trace.h"
#include "measured/bytes.h"
#include "measured/run.h"

/* In the order of enum span_what. */
static const char *const thread_names[TRACE_THREADS] = {"compute", "communication", "copy"};

static const char *measured_trace_category_of(const struct span *s)
{
    static const char *const phase[PHASES] = {[PHASE_UNKNOWN] = "compute",
                                              [PHASE_FORWARD] = "forward",
                                              [PHASE_BACKWARD] = "backward",
                                              [PHASE_UPDATE] = "update"};
    return s->what == SPAN_COMPUTE         ? phase[s->phase]
           : s->what == SPAN_COMMUNICATION ? "collective"
                                           : "copy";
}

static void put_span(struct json_writer *w, const struct span *s, const char *name, uint32_t rank,
                     int tid, int64_t zero_ns)
{
    json_open_object(w, NULL, true);
    json_put_string(w, "name", name);
    json_put_string(w, "cat", measured_trace_category_of(s));
    json_put_string(w, "ph", "X");
    json_put_real(w, "ts", (double)(s->start_ns - zero_ns) / 1e3);
    json_put_real(w, "dur", (double)(s->end_ns - s->start_ns) / 1e3);
    json_put_integer(w, "pid", rank);
    json_put_integer(w, "tid", tid);
    json_open_object(w, "args", true);
    json_put_integer(w, "stream", s->stream);
    if (s->what != SPAN_COMPUTE)
        json_put_string(w, "kind", span_kind_names[s->kind]);
    if (s->bytes > 0)
        json_put_integer(w, "bytes", s->bytes);
    json_close(w);
    json_close(w);
}

/* What begins within the window; the earliest window of all begins at 0. */
static enum status measured_trace_put_rank(struct json_writer *w, const struct measured_run *run,
                                           uint32_t r, size_t warmup, int64_t zero_ns)
{
    enum status st;
    const struct run_rank *rank = &run->rank[r];
    struct run_interval window;
    char name[512];
    double *start = NULL, *end = NULL;
    uint8_t *thread = NULL;
    uint32_t *lane = NULL;
    TRY(run_window(rank, warmup, &window));
    TRY(ARRAY_NEW(start, rank->spans));
    TRY(ARRAY_NEW(end, rank->spans));
    TRY(ARRAY_NEW(thread, rank->spans));
    TRY(ARRAY_NEW(lane, rank->spans));
    for (size_t i = 0; i < rank->spans; i++) {
        start[i] = (double)(rank->span[i].start_ns - zero_ns);
        end[i] = (double)(rank->span[i].end_ns - zero_ns);
        thread[i] = rank->span[i].what;
    }
    TRY(trace_lanes(rank->spans, start, end, thread, lane));
    trace_put_name(w, "process_name", r, 0, rank->name);
    trace_put_threads(w, r, thread_names, rank->spans, thread, lane);
    for (size_t i = 0; i < rank->spans; i++) {
        const struct span *s = &rank->span[i];
        if (s->start_ns < window.start_ns || s->start_ns >= window.end_ns)
            continue;
        put_span(w, s, run_name(run, s->name, name, sizeof name), r,
                 trace_thread(thread[i], lane[i]), zero_ns);
    }
out:
    free(start);
    free(end);
    free(thread);
    free(lane);
    return st;
}

static enum status measured_trace_put(const struct measured_run *run, size_t warmup, FILE *to,
                                      const struct provenance *by)
{
    int64_t zero_ns = INT64_MAX;
    for (size_t r = 0; r < run->ranks; r++) {
        struct run_interval window;
        PASS(run_window(&run->rank[r], warmup, &window));
        zero_ns = window.start_ns < zero_ns ? window.start_ns : zero_ns;
    }
    struct json_writer w = {.stream = to};
    trace_open(&w, by);
    json_close(&w);
    json_open_array(&w, "traceEvents", false);
    for (uint32_t r = 0; r < run->ranks; r++)
        PASS(measured_trace_put_rank(&w, run, r, warmup, zero_ns));
    json_close(&w);
    json_close(&w);
    return STATUS_OK;
}

enum status measured_run_trace(const struct measured_run *run, size_t warmup, const char *path,
                               const struct provenance *by)
{
    enum status st;
    struct bytes_out f = {0};
    if (run->ranks == 0)
        return error_set(
            STATUS_INVALID,
            "%s: logs have no timeline. Give a trace (PyTorch profiler, Nsight Systems)", path);
    TRY(bytes_create(path, false, &f));
    TRY(measured_trace_put(run, warmup, f.stream, by));
    TRY(bytes_commit(&f));
out:
    bytes_discard(&f);
    return st;
}
