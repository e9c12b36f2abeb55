/* Reads a Chrome trace as a stream of tokens and keeps what is asked for: the memory is that of the
 * ops that are kept, however long the file is. */
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/looks.h"
#include "core/base/text.h"
#include "measured/tokens.h"
#include "plots/trace_events.h"

enum { MOST_TRACE = 65536 }; /* MiB, unpacked: what is kept of it is counted by events */
enum { MAX_ROWS = 100000, SHORT = 40 };

static const double max_us = 1e15;

/* Fields of an event and of its args, and what their values are. */
enum field {
    FIELD_PHASE,
    FIELD_CATEGORY,
    FIELD_NAME,
    FIELD_PID,
    FIELD_TS,
    FIELD_DUR,
    FIELD_MICROBATCH,
    FIELD_ARGS_NAME, /* of a process */
    FIELDS
};
static const struct {
    const char *name;
    bool in_args, is_number;
} fields[FIELDS] = {
    [FIELD_PHASE] = {"ph", false, false},
    [FIELD_CATEGORY] = {"cat", false, false},
    [FIELD_NAME] = {"name", false, false},
    [FIELD_PID] = {"pid", false, true},
    [FIELD_TS] = {"ts", false, true},
    [FIELD_DUR] = {"dur", false, true},
    [FIELD_MICROBATCH] = {"microbatch", true, true},
    [FIELD_ARGS_NAME] = {"name", true, false},
};

struct open_event {
    bool has[FIELDS], is_number[FIELDS];
    char value[FIELDS][SHORT];   /* all but the two names, cut off */
    char name[2][TOKEN_LETTERS]; /* FIELD_NAME, FIELD_ARGS_NAME */
};

struct trace_reading {
    struct tokens tokens;
    const struct trace_filter *filter;
    struct trace_events t; /* rows of events are process ids until all are known */
    struct open_event e;
    bool is_trace;      /* there are "traceEvents" */
    size_t events, ops; /* of the file so far */
    double end_s;       /* of the last of its ops, kept or not */
    int64_t last;       /* the greatest process, kept or not */
};

/* ---- ranks */

enum status trace_ranks_parse(const char *text, struct trace_ranks *out)
{
    struct trace_ranks r = {0};
    for (const char *at = text; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char part[48], *ends[3];
        uint64_t first, last;
        size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", length < sizeof part ? (int)length : 0, at);
        size_t n = text_split(part, "-", ends, 3);
        bool good = n >= 1 && n <= 2 && *at != '-' && text_count(ends[0], INT32_MAX, &first) &&
                    text_count(ends[n - 1], INT32_MAX, &last) && first <= last;
        enum status st =
            good ? ARRAY_ROOM(r.range, r.n)
                 : error_set(STATUS_USAGE,
                             "--ranks: got '%.60s', expected numbers and ranges such as 0,8-15",
                             text);
        if (st != STATUS_OK) {
            free(r.range);
            return st;
        }
        r.range[r.n++] = (struct trace_range){(int64_t)first, (int64_t)last};
    }
    *out = r;
    return STATUS_OK;
}

static bool trace_read_is_kept(const struct trace_filter *f, int64_t pid)
{
    bool kept = !f || f->ranks.n == 0;
    for (size_t i = 0; f && i < f->ranks.n && !kept; i++)
        kept = pid >= f->ranks.range[i].first && pid <= f->ranks.range[i].last;
    return kept;
}

/* Keep pid[] ascending; a trace lists them in order, so that insertion is at the end. */
static enum status trace_read_add_row(struct trace_reading *r, int64_t pid, size_t *row)
{
    struct trace_events *t = &r->t;
    size_t low = t->rows > 0 && t->pid[t->rows - 1] < pid ? t->rows : 0, high = t->rows;
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
        return tokens_error(&r->tokens, "more than %d processes", MAX_ROWS);
    PASS(ARRAY_ROOM(t->pid, t->rows));
    PASS(ARRAY_ROOM(t->rank, t->rows));
    memmove(t->pid + low + 1, t->pid + low, (t->rows - low) * sizeof *t->pid);
    memmove(t->rank + low + 1, t->rank + low, (t->rows - low) * sizeof *t->rank);
    t->pid[low] = pid;
    t->rank[low] = NULL;
    t->rows++;
    return STATUS_OK;
}

/* ---- one event */

static char *trace_read_value_of(struct open_event *e, int field, size_t *size)
{
    *size = field == FIELD_NAME || field == FIELD_ARGS_NAME ? TOKEN_LETTERS : SHORT;
    return *size == SHORT ? e->value[field] : e->name[field == FIELD_ARGS_NAME];
}

static int field_of(const char *text, bool in_args)
{
    for (int k = 0; k < FIELDS; k++)
        if (fields[k].in_args == in_args && strcmp(fields[k].name, text) == 0)
            return k;
    return -1;
}

/* The members of an object that is open, and of `args` within. */
static enum status trace_read_members(struct tokens *s, struct open_event *e, bool in_args)
{
    enum token t;
    for (;;) {
        PASS(tokens_next(s, &t));
        if (t == TOKEN_OBJECT_END)
            return STATUS_OK;
        int k = field_of(s->text, in_args);
        bool args = !in_args && strcmp(s->text, "args") == 0;
        PASS(tokens_next(s, &t));
        if (args && t == TOKEN_OBJECT) {
            PASS(trace_read_members(s, e, true));
        } else if (k >= 0 && (t == TOKEN_TEXT || t == TOKEN_NUMBER)) {
            size_t size, n = s->length;
            char *value = trace_read_value_of(e, k, &size);
            n = n < size ? n : size - 1;
            memcpy(value, s->text, n);
            value[n] = '\0';
            e->has[k] = true;
            e->is_number[k] = t == TOKEN_NUMBER;
        } else {
            PASS(tokens_skip(s, t));
        }
    }
}

/* A field that an event must have, a number between 0 and `most`. */
static enum status need(struct trace_reading *r, enum field k, double most, double *out)
{
    const struct open_event *e = &r->e;
    size_t i = r->events - 1;
    if (!e->has[k])
        return tokens_error(&r->tokens, "traceEvents[%zu]: \"%s\" is missing", i, fields[k].name);
    if (!e->is_number[k] || !text_real(e->value[k], out))
        return tokens_error(&r->tokens, "traceEvents[%zu].%s: got '%s', expected a number", i,
                            fields[k].name, e->value[k]);
    if (*out < 0 || *out > most)
        return tokens_error(&r->tokens, "traceEvents[%zu].%s: %s is out of range, expected 0 to %g",
                            i, fields[k].name, e->value[k], most);
    return STATUS_OK;
}

static enum status need_pid(struct trace_reading *r, int64_t *pid)
{
    double value;
    PASS(need(r, FIELD_PID, INT32_MAX, &value));
    *pid = (int64_t)value;
    r->last = *pid > r->last ? *pid : r->last;
    return STATUS_OK;
}

static enum status take_process(struct trace_reading *r)
{
    int64_t pid;
    size_t row;
    PASS(need_pid(r, &pid));
    if (!r->e.has[FIELD_ARGS_NAME])
        return tokens_error(&r->tokens, "traceEvents[%zu]: \"args.name\" is missing",
                            r->events - 1);
    if (!trace_read_is_kept(r->filter, pid))
        return STATUS_OK;
    PASS(trace_read_add_row(r, pid, &row));
    free(r->t.rank[row]);
    r->t.rank[row] = NULL;
    return text_copy(r->e.name[1], &r->t.rank[row]);
}

static enum status keep_op(struct trace_reading *r, struct trace_event *e)
{
    struct trace_events *t = &r->t;
    char more[LIMIT_MORE];
    size_t most = (size_t)limit_size(MOST_EVENTS);
    if (t->n == most)
        return error_set(
            STATUS_INVALID,
            "%s: more than %zu ops to draw; choose fewer with --ranks, --from and --to%s",
            r->tokens.bytes->path, most, limit_more(LIMIT_size, more));
    PASS(ARRAY_ROOM(t->event, t->n));
    PASS(text_copy(r->e.name[0], &e->name));
    t->event[t->n++] = *e;
    return STATUS_OK;
}

static enum status trace_read_take_op(struct trace_reading *r, uint8_t category)
{
    const struct trace_filter *f = r->filter;
    struct trace_event e = {.category = category, .microbatch = -1};
    double start_us, duration_us, microbatch;
    int64_t pid;
    size_t row;
    PASS(need(r, FIELD_TS, max_us, &start_us));
    PASS(need(r, FIELD_DUR, max_us, &duration_us));
    PASS(need_pid(r, &pid));
    if (!r->e.has[FIELD_NAME])
        return tokens_error(&r->tokens, "traceEvents[%zu]: \"name\" is missing", r->events - 1);
    if (r->e.has[FIELD_MICROBATCH]) {
        PASS(need(r, FIELD_MICROBATCH, INT32_MAX, &microbatch));
        e.microbatch = (int64_t)microbatch;
    }
    e.start_s = start_us / 1e6;
    e.end_s = e.start_s + duration_us / 1e6;
    e.row = (uint32_t)pid;
    r->ops++;
    r->end_s = e.end_s > r->end_s ? e.end_s : r->end_s;
    if (!trace_read_is_kept(f, pid))
        return STATUS_OK;
    PASS(trace_read_add_row(r, pid, &row));
    r->t.until_s = e.end_s > r->t.until_s ? e.end_s : r->t.until_s;
    bool in_sight = !f || (e.end_s > f->from_s && (f->to_s <= 0 || e.start_s < f->to_s));
    return in_sight ? keep_op(r, &e) : STATUS_OK;
}

static enum status trace_read_take_event(struct trace_reading *r)
{
    const struct open_event *e = &r->e;
    uint8_t category;
    if (!strcmp(e->value[FIELD_PHASE], "M") && !strcmp(e->name[0], "process_name"))
        return take_process(r);
    if (!strcmp(e->value[FIELD_PHASE], "X") &&
        trace_category_find(e->value[FIELD_CATEGORY], &category))
        return trace_read_take_op(r, category);
    return STATUS_OK;
}

/* ---- the file */

static enum status trace_read_events(struct trace_reading *r)
{
    enum token t;
    for (;;) {
        r->tokens.tokens = 0;
        PASS(tokens_next(&r->tokens, &t));
        if (t == TOKEN_ARRAY_END)
            return STATUS_OK;
        if (t != TOKEN_OBJECT)
            return tokens_error(&r->tokens, "traceEvents[%zu]: expected an object", r->events);
        r->events++;
        memset(r->e.has, 0, sizeof r->e.has);
        for (size_t k = 0; k < FIELDS; k++)
            r->e.value[k][0] = '\0';
        r->e.name[0][0] = r->e.name[1][0] = '\0';
        PASS(trace_read_members(&r->tokens, &r->e, false));
        PASS(trace_read_take_event(r));
    }
}

/* The step of a run, which "otherData" has. */
static enum status trace_read_about(struct trace_reading *r)
{
    struct tokens *s = &r->tokens;
    enum token t;
    uint64_t step;
    for (;;) {
        PASS(tokens_next(s, &t));
        if (t == TOKEN_OBJECT_END)
            return STATUS_OK;
        bool is_step = strcmp(s->text, "step") == 0;
        PASS(tokens_next(s, &t));
        if (!is_step)
            PASS(tokens_skip(s, t));
        else if (t == TOKEN_NUMBER && text_count(s->text, INT32_MAX, &step))
            r->t.step = (int64_t)step;
        else
            return tokens_error(s, "otherData.step: expected a number of at least 0");
    }
}

static enum status trace_read_root(struct trace_reading *r, const char *looks)
{
    struct tokens *s = &r->tokens;
    enum token t;
    PASS(tokens_next(s, &t));
    while (t != TOKEN_OBJECT_END) {
        if (t != TOKEN_OBJECT && t != TOKEN_KEY)
            return tokens_error(s, "expected a trace that --trace wrote%s", looks);
        s->tokens = 0;
        if (t == TOKEN_KEY) {
            bool events = strcmp(s->text, "traceEvents") == 0,
                 about = strcmp(s->text, "otherData") == 0;
            PASS(tokens_next(s, &t));
            r->is_trace |= events && t == TOKEN_ARRAY;
            if (events && t == TOKEN_ARRAY)
                PASS(trace_read_events(r));
            else if (about && t == TOKEN_OBJECT)
                PASS(trace_read_about(r));
            else
                PASS(tokens_skip(s, t));
        }
        PASS(tokens_next(s, &t));
    }
    PASS(tokens_next(s, &t)); /* nothing may follow */
    if (!r->is_trace)
        return tokens_error(s, "expected a trace that --trace wrote%s", looks);
    return r->ops > 0 ? STATUS_OK : tokens_error(s, "traceEvents: trace has no ops");
}

/* Has the trace all ranks that are asked for? */
static enum status check_ranks(const struct trace_reading *r)
{
    const struct trace_ranks *ranks = r->filter ? &r->filter->ranks : NULL;
    for (size_t i = 0; ranks && i < ranks->n; i++)
        if (ranks->range[i].last > r->last)
            return error_set(STATUS_USAGE, "--ranks: no rank %lld in %s; the last is %lld",
                             (long long)ranks->range[i].last, r->tokens.bytes->path,
                             (long long)r->last);
    return STATUS_OK;
}

/* Process ids become rows. */
static enum status number_rows(struct trace_reading *r)
{
    struct trace_events *t = &r->t;
    size_t row;
    for (size_t i = 0; i < t->n; i++) {
        PASS(trace_read_add_row(r, t->event[i].row, &row));
        t->event[i].row = (uint32_t)row;
    }
    PASS(ARRAY_NEW(t->end_s, t->rows));
    for (row = 0; row < t->rows; row++)
        t->end_s[row] = r->end_s;
    return STATUS_OK;
}

enum status trace_events_read(const char *path, const struct trace_filter *filter,
                              struct trace_events *out)
{
    enum status st;
    struct bytes b = {0};
    struct trace_reading r = {
        .tokens = {.bytes = &b, .most = SIZE_MAX}, .filter = filter, .t.step = -1};
    char looks[LOOKS], what[512];
    TRY(bytes_open(path, &b));
    b.most_mib = MOST_TRACE;
    TRY(bytes_more(&b));
    looks_like((const char *)b.piece, b.end, looks);
    st = trace_read_root(&r, looks);
    if (st == STATUS_PARSE && !r.is_trace && *looks && !strstr(error_message(), looks)) {
        snprintf(what, sizeof what, "%s", error_message());
        st = error_set(st, "%s%s", what, looks);
    }
    if (st == STATUS_OK)
        TRY(check_ranks(&r));
    if (st == STATUS_OK)
        TRY(number_rows(&r));
    if (st == STATUS_OK)
        MOVE(out, r.t);
out:
    trace_events_free(&r.t);
    bytes_close(&b);
    return st;
}
