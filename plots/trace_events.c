/* Several Chrome traces one below the other. */
#include "plots/trace_events.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/json.h"
#include "core/base/looks.h"
#include "core/base/text.h"
#include "plots/figure.h"

enum { MAX_ROWS = 100000 };

bool trace_category_find(const char *name, uint8_t *out)
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
    style_plan_name(path, name, sizeof name);
    if (step >= 0)
        snprintf(text, sizeof text, "%s, step %lld", name, (long long)step);
    else
        snprintf(text, sizeof text, "%s", name);
    PASS(add_row_behind(t, -1, 0, NULL));
    return text_copy(text, &t->rank[t->rows - 1]);
}

/* Heading, rows and ops of *from behind those of *to. */
static enum status trace_events_append(struct trace_events *to, struct trace_events *from,
                                       const char *path)
{
    if (to->rows + 1 + from->rows > MAX_ROWS)
        return error_set(STATUS_INVALID,
                         "%s: traces have more than %d rows together; choose fewer with --ranks",
                         path, MAX_ROWS);
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

enum status trace_events_read_all(const char *const *path, size_t n,
                                  const struct trace_filter *filter, struct trace_events *out)
{
    enum status st = STATUS_OK;
    struct trace_events all = {.step = -1}, one = {0};
    for (size_t i = 0; i < n; i++) {
        TRY(trace_events_read(path[i], filter, &one));
        if (n == 1) {
            MOVE(&all, one);
        } else if (one.rows > 0) {
            all.until_s = one.until_s > all.until_s ? one.until_s : all.until_s;
            TRY(trace_events_append(&all, &one, path[i]));
        }
        trace_events_free(&one);
    }
    if (all.rows == 0)
        FAIL(STATUS_INVALID, "%s: trace has none of the ranks of --ranks", path[0]);
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
