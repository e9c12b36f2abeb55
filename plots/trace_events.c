/* Reads the events of a Chrome trace that foreline has written, with all lengths checked. */
#include "plots/trace_events.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/json.h"
#include "core/looks.h"
#include "core/text.h"
#include "plots/figure.h"

enum { MAX_EVENTS = 10000000, MAX_ROWS = 100000 };

static const double max_us = 1e15;

static bool find_category(const char *name, uint8_t *out)
{
    static const struct {
        const char *name;
        uint8_t category;
    } known[] = {
        {"compute", TRACE_COMPUTE},
        {"forward", TRACE_FORWARD},
        {"backward", TRACE_BACKWARD},
        {"weight", TRACE_WEIGHT},
        {"update", TRACE_UPDATE},
        {"send", TRACE_COMMUNICATION},
        {"receive", TRACE_COMMUNICATION},
        {"collective", TRACE_COMMUNICATION},
        {"copy", TRACE_COPY},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            *out = known[i].category;
            return true;
        }
    }
    return false;
}

/* ---- ranks */

/* Keep pid[] ascending; a trace lists them in order, so that insertion is at the end. */
static enum status add_row(const struct json_at *at, struct trace_events *t, int64_t pid,
                           size_t *row)
{
    size_t low = 0, high = t->rows;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->pid[middle] < pid)
            low = middle + 1;
        else
            high = middle;
    }
    *row = low;
    if (low < t->rows && t->pid[low] == pid)
        return STATUS_OK;
    if (t->rows == MAX_ROWS)
        return json_error(at, "more than %d processes", MAX_ROWS);
    PASS(ARRAY_ROOM(t->pid, t->rows));
    PASS(ARRAY_ROOM(t->rank, t->rows));
    memmove(t->pid + low + 1, t->pid + low, (t->rows - low) * sizeof *t->pid);
    memmove(t->rank + low + 1, t->rank + low, (t->rows - low) * sizeof *t->rank);
    t->pid[low] = pid;
    t->rank[low] = NULL;
    t->rows++;
    return STATUS_OK;
}

static enum status get_pid(const struct json_at *event, int64_t *pid)
{
    struct json_at at;
    PASS(json_field(event, "pid", &at));
    return json_get_integer(&at, 0, INT32_MAX, pid);
}

/* ---- events */

static enum status read_string(const struct json_at *object, const char *key, const char **out)
{
    struct json_at at;
    *out = "";
    PASS(json_optional(object, key, &at));
    if (at.value)
        PASS(json_get_string(&at, out));
    return STATUS_OK;
}

static enum status read_time(const struct json_at *object, const char *key, double *seconds)
{
    struct json_at at;
    double us;
    PASS(json_field(object, key, &at));
    PASS(json_get_real(&at, 0, max_us, &us));
    *seconds = us / 1e6;
    return STATUS_OK;
}

static enum status read_microbatch(const struct json_at *event, int64_t *out)
{
    struct json_at args, at;
    *out = -1;
    PASS(json_optional(event, "args", &args));
    if (!args.value)
        return STATUS_OK;
    PASS(json_optional(&args, "microbatch", &at));
    if (at.value)
        PASS(json_get_integer(&at, 0, INT32_MAX, out));
    return STATUS_OK;
}

/* Fill in an op; `row` is its process id for now. */
static enum status read_op(const struct json_at *at, uint8_t category, struct trace_event *out)
{
    struct trace_event e = {.category = category};
    struct json_at name;
    double duration_s;
    int64_t pid;

    PASS(read_time(at, "ts", &e.start_s));
    PASS(read_time(at, "dur", &duration_s));
    PASS(read_microbatch(at, &e.microbatch));
    PASS(get_pid(at, &pid));
    PASS(json_field(at, "name", &name));
    PASS(json_get_copy(&name, &e.name));
    e.end_s = e.start_s + duration_s;
    e.row = (uint32_t)pid;
    *out = e;
    return STATUS_OK;
}

static enum status read_process_name(const struct json_at *at, struct trace_events *t)
{
    struct json_at args, name;
    int64_t pid;
    size_t row;
    PASS(get_pid(at, &pid));
    PASS(add_row(at, t, pid, &row));
    PASS(json_field(at, "args", &args));
    PASS(json_field(&args, "name", &name));
    free(t->rank[row]);
    t->rank[row] = NULL;
    return json_get_copy(&name, &t->rank[row]);
}

static enum status read_event(const struct json_at *at, struct trace_events *t)
{
    const char *phase, *text;
    uint8_t category;
    size_t row;

    PASS(read_string(at, "ph", &phase));
    if (strcmp(phase, "M") == 0) {
        PASS(read_string(at, "name", &text));
        if (strcmp(text, "process_name") == 0)
            PASS(read_process_name(at, t));
    } else if (strcmp(phase, "X") == 0) {
        PASS(read_string(at, "cat", &text));
        if (!find_category(text, &category))
            return STATUS_OK;
        PASS(read_op(at, category, &t->event[t->n]));
        PASS(add_row(at, t, t->event[t->n++].row, &row));
    }
    return STATUS_OK;
}

static enum status read_step(const struct json_at *root, int64_t *step)
{
    struct json_at about;
    PASS(json_optional(root, "otherData", &about));
    return json_kind(&about) == JSON_IS_OBJECT
               ? json_may_integer(&about, "step", 0, INT32_MAX, step)
               : STATUS_OK;
}

static enum status find_end(struct trace_events *t)
{
    double end_s = 0;
    PASS(ARRAY_NEW(t->end_s, t->rows));
    for (size_t i = 0; i < t->n; i++)
        end_s = t->event[i].end_s > end_s ? t->event[i].end_s : end_s;
    for (size_t row = 0; row < t->rows; row++)
        t->end_s[row] = end_s;
    return STATUS_OK;
}

enum status trace_events_read(const char *path, struct trace_events *out)
{
    enum status st = STATUS_OK;
    struct json_document d = {0};
    struct trace_events t = {.step = -1};
    size_t n, row;
    char looks[LOOKS];

    TRY(json_read(path, NULL, 0, &d));
    struct json_at root = json_root(&d), events;
    TRY(json_optional(&root, "traceEvents", &events));
    if (!events.value) {
        st = json_error(&root, "expected a trace, as --trace writes it%s",
                        looks_like(d.text, strlen(d.text), looks));
        goto out;
    }
    TRY(json_get_array(&events, MAX_EVENTS, &n));
    TRY(ARRAY_NEW(t.event, n + 1));
    for (size_t i = 0; i < n; i++) {
        struct json_at event = json_item(&events, i);
        TRY(read_event(&event, &t));
    }
    TRY(read_step(&root, &t.step));
    if (t.n == 0) {
        st = json_error(&events, "no op in the trace");
        goto out;
    }
    for (size_t i = 0; i < t.n; i++) { /* process ids become rows */
        TRY(add_row(&events, &t, t.event[i].row, &row));
        t.event[i].row = (uint32_t)row;
    }
    TRY(find_end(&t));
    MOVE(out, t);
out:
    trace_events_free(&t);
    json_document_free(&d);
    return st;
}

/* ---- some ranks */

/* Is a process id in "0,8-15"? STATUS_USAGE where the list is none. */
static enum status is_among(const char *ranks, int64_t pid, bool *out)
{
    const char *at = ranks;
    *out = false;
    do {
        char part[48], *ends[3];
        uint64_t end[2] = {0, 0};
        int length = (int)strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", length, at);
        size_t n = text_split(part, "-", ends, 3);
        bool good = n >= 1 && n <= 2 && length < (int)sizeof part && *at != '-' &&
                    text_count(ends[0], INT32_MAX, &end[0]) &&
                    text_count(ends[n - 1], INT32_MAX, &end[1]) && end[0] <= end[1];
        if (!good)
            return error_set(STATUS_USAGE,
                             "'%.60s' is no list of ranks; expected numbers and ranges: 0,8-15",
                             ranks);
        *out |= (uint64_t)pid >= end[0] && (uint64_t)pid <= end[1];
        at += length + 1;
    } while (at[-1] == ',');
    return STATUS_OK;
}

/* Rows that are not among `ranks` go, with their ops. */
static enum status keep_ranks(const char *ranks, struct trace_events *t)
{
    enum status st = STATUS_OK;
    static const uint32_t gone = UINT32_MAX;
    size_t rows = 0, n = 0;
    uint32_t *now = NULL;
    TRY(ARRAY_NEW(now, t->rows));
    for (size_t r = 0; r < t->rows; r++) {
        bool kept;
        TRY(is_among(ranks, t->pid[r], &kept));
        now[r] = kept ? (uint32_t)rows++ : gone;
    }
    for (size_t r = 0; r < t->rows; r++) {
        char *name = t->rank[r];
        t->rank[r] = NULL;
        if (now[r] == gone) {
            free(name);
            continue;
        }
        t->pid[now[r]] = t->pid[r];
        t->end_s[now[r]] = t->end_s[r];
        t->rank[now[r]] = name;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct trace_event e = t->event[i];
        e.row = now[e.row];
        if (e.row == gone)
            free(e.name);
        else
            t->event[n++] = e;
    }
    t->rows = rows;
    t->n = n;
out:
    free(now);
    return st;
}

/* ---- several traces */

static enum status add_row_behind(struct trace_events *t, int64_t pid, double end_s, char *name)
{
    PASS(ARRAY_ROOM(t->pid, t->rows));
    PASS(ARRAY_ROOM(t->rank, t->rows));
    PASS(ARRAY_ROOM(t->end_s, t->rows));
    t->pid[t->rows] = pid;
    t->end_s[t->rows] = end_s;
    t->rank[t->rows++] = name;
    return STATUS_OK;
}

/* "a/b/predicted.json" is called "predicted", a run "measured, step 3". */
static enum status add_heading(struct trace_events *t, const char *path, int64_t step)
{
    char text[160], name[120];
    figure_plan_name(path, name, sizeof name);
    if (step >= 0)
        snprintf(text, sizeof text, "%s, step %lld", name, (long long)step);
    else
        snprintf(text, sizeof text, "%s", name);
    PASS(add_row_behind(t, -1, 0, NULL));
    return text_copy(text, &t->rank[t->rows - 1]);
}

/* Heading, rows and ops of *from behind those of *to. */
static enum status append(struct trace_events *to, struct trace_events *from, const char *path)
{
    if (to->rows + 1 + from->rows > MAX_ROWS)
        return error_set(STATUS_INVALID, "%s: more than %d rows together", path, MAX_ROWS);
    PASS(add_heading(to, path, from->step));
    size_t before = to->rows;
    for (size_t r = 0; r < from->rows; r++) {
        PASS(add_row_behind(to, from->pid[r], from->end_s[r], from->rank[r]));
        from->rank[r] = NULL; /* moved */
    }
    for (size_t i = 0; i < from->n; i++) {
        PASS(ARRAY_ROOM(to->event, to->n));
        to->event[to->n] = from->event[i];
        to->event[to->n++].row += (uint32_t)before;
        from->event[i].name = NULL; /* moved */
    }
    return STATUS_OK;
}

enum status trace_events_read_all(const char *const *path, size_t n, const char *ranks,
                                  struct trace_events *out)
{
    enum status st = STATUS_OK;
    struct trace_events all = {.step = -1}, one = {0};
    for (size_t i = 0; i < n; i++) {
        TRY(trace_events_read(path[i], &one));
        if (ranks)
            TRY(keep_ranks(ranks, &one));
        if (n == 1) {
            MOVE(&all, one);
        } else if (one.rows > 0) {
            TRY(append(&all, &one, path[i]));
        }
        trace_events_free(&one);
    }
    if (all.rows == 0)
        FAIL(STATUS_INVALID, "%s: no rank is among %.60s", path[0], ranks);
    MOVE(out, all);
out:
    trace_events_free(&one);
    trace_events_free(&all);
    return st;
}

void trace_events_free(struct trace_events *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->event[i].name);
    for (size_t i = 0; t->rank && i < t->rows; i++)
        free(t->rank[i]);
    free(t->event);
    free(t->rank);
    free(t->pid);
    free(t->end_s);
    *t = (struct trace_events){0};
}
