/* Which ranks a timeline's rows stand for, and how finely it can be drawn. */
#include <stdlib.h>

#include "core/array.h"
#include "core/text.h"
#include "plots/timeline.h"

enum {
    ROWS_MOST = 64, /* rows of ranks that can be read on a page */
    COLUMN = 2,     /* pixels of a column of shares */
    NARROW = 3,     /* pixels: narrower ops cannot be told apart */
    BEATS = 4       /* columns: ops that follow each other faster beat with them */
};

const char *const timeline_category_names[TRACE_CATEGORIES] = {
    [TRACE_COPY] = "copies",       [TRACE_COMMUNICATION] = "communication",
    [TRACE_COMPUTE] = "compute",   [TRACE_FORWARD] = "forward",
    [TRACE_BACKWARD] = "backward", [TRACE_WEIGHT] = "weight gradient",
    [TRACE_UPDATE] = "update",
};

const char *timeline_colour(int category)
{
    return category == TRACE_FORWARD    ? figure_forward
           : category == TRACE_COMPUTE  ? figure_compute
           : category == TRACE_BACKWARD ? figure_backward
           : category == TRACE_WEIGHT   ? figure_weight
           : category == TRACE_UPDATE   ? figure_update
           : category == TRACE_COPY     ? figure_copy
                                        : figure_communication;
}

void timeline_view_free(struct timeline_view *v)
{
    free(v->row);
    free(v->row_of);
    v->row = NULL;
    v->row_of = NULL;
}

/* Rows of at most `most` neighbouring ranks of one trace. Returns how many of them are ranks. */
static size_t group_ranks(struct timeline_view *v, size_t most)
{
    size_t ranks = 0;
    v->rows = 0;
    v->most = 0;
    for (size_t i = 0; i < v->t->rows; i++) {
        bool heading = v->t->pid[i] < 0;
        struct timeline_row *last = v->rows > 0 ? &v->row[v->rows - 1] : NULL;
        if (heading || !last || last->ranks == 0 || last->ranks == most) {
            v->row[v->rows++] = (struct timeline_row){.first = i};
            ranks += !heading;
        }
        v->row_of[i] = v->rows - 1;
        v->row[v->rows - 1].ranks += !heading;
        if (v->row[v->rows - 1].ranks > v->most)
            v->most = v->row[v->rows - 1].ranks;
    }
    return ranks;
}

/* Are more than a quarter of the ops of compute in sight too narrow for a box? */
static bool are_narrow(const struct timeline_view *v, int pixels)
{
    size_t ops = 0, narrow = 0;
    for (size_t i = 0; i < v->t->n; i++) {
        const struct trace_event *e = &v->t->event[i];
        if (timeline_is_wire(e->category) || e->end_s <= v->from_s || e->start_s >= v->to_s ||
            e->end_s <= e->start_s)
            continue;
        ops++;
        narrow += (e->end_s - e->start_s) / (v->to_s - v->from_s) * pixels < NARROW;
    }
    return narrow * 4 > ops;
}

/* Mean time from op to op of compute in sight, in columns; 0 where none follows another. */
static double period(const struct timeline_view *v, double *first, double *last)
{
    double sum = 0;
    size_t n = 0;
    for (size_t r = 0; r < v->t->rows; r++)
        first[r] = last[r] = -1;
    for (size_t i = 0; i < v->t->n; i++) {
        const struct trace_event *e = &v->t->event[i];
        if (timeline_is_wire(e->category) || e->end_s <= v->from_s || e->start_s >= v->to_s)
            continue;
        n += first[e->row] >= 0;
        first[e->row] =
            first[e->row] < 0 || e->start_s < first[e->row] ? e->start_s : first[e->row];
        last[e->row] = e->start_s > last[e->row] ? e->start_s : last[e->row];
    }
    for (size_t r = 0; r < v->t->rows; r++)
        sum += last[r] - first[r];
    return n > 0 ? sum / (double)n / v->step_s : 0;
}

/* Columns of about the time from op to op would show beats that are not there: as many are summed up
 * as hold a few ops. */
static enum status choose_smoothing(struct timeline_view *v)
{
    enum status st;
    double *first = NULL, *last = NULL;
    TRY(ARRAY_NEW(first, v->t->rows));
    TRY(ARRAY_NEW(last, v->t->rows));
    double columns = period(v, first, last);
    if (columns > 1.0 / BEATS && columns < BEATS)
        v->beside = (size_t)columns + 1;
out:
    free(last);
    free(first);
    return st;
}

enum status timeline_arrange(struct timeline_view *v, int pixels)
{
    enum status st;
    size_t most = 1;
    TRY(ARRAY_NEW(v->row, v->t->rows));
    TRY(ARRAY_NEW(v->row_of, v->t->rows));
    while (group_ranks(v, most) > ROWS_MOST && most < v->t->rows)
        most *= 2;
    if (v->most > 1 || are_narrow(v, pixels)) {
        v->step_s = (v->to_s - v->from_s) / (pixels / COLUMN);
        TRY(choose_smoothing(v));
    }
out:
    return st;
}

const char *timeline_row_name(const struct timeline_view *v, size_t row, char text[TIMELINE_NAME])
{
    const struct timeline_row *r = &v->row[row];
    const struct trace_events *t = v->t;
    if (r->ranks > 1)
        snprintf(text, TIMELINE_NAME, "ranks %lld–%lld", (long long)t->pid[r->first],
                 (long long)t->pid[r->first + r->ranks - 1]);
    else if (t->rank[r->first])
        text_shorten(t->rank[r->first], SIZE_MAX, text, TIMELINE_NAME);
    else
        snprintf(text, TIMELINE_NAME, "rank %lld", (long long)t->pid[r->first]);
    return text;
}
