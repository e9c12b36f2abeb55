/* Which ranks a timeline's rows stand for, and how finely it can be drawn. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/text.h"
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
    free(v->box);
    v->row = NULL;
    v->row_of = NULL;
    v->box = NULL;
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

/* ---- ops of compute that follow each other */

static int box_by_start(const void *a, const void *b)
{
    const struct timeline_box *x = a, *y = b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    return x->start_s < y->start_s ? -1 : x->start_s > y->start_s;
}

/* Does b go on where a ended: the same kind, on the same rank, with a gap that nobody misses? Of
 * boxes only narrow ones of one microbatch, as the layers of a pass are, which look like the
 * pass. */
static bool box_continues(const struct timeline_box *a, const struct timeline_box *b,
                          double narrow_s)
{
    static const double missed = 0.05; /* of the op behind the gap */
    return a->row == b->row && a->category == b->category &&
           b->start_s - a->end_s <= missed * (b->end_s - b->start_s) &&
           (narrow_s <= 0 || (a->microbatch == b->microbatch && a->narrow && b->narrow));
}

/* Those in sight, joined where they go on; *out [*n] is malloc'd, in the order of rows and starts.
 * `narrow_s` 0: only kinds count. */
static enum status box_join_ops(const struct timeline_view *v, double narrow_s,
                                struct timeline_box **out, size_t *n)
{
    struct timeline_box *s;
    size_t ops = 0, joined = 0;
    PASS(ARRAY_NEW(s, v->t->n));
    for (size_t i = 0; i < v->t->n; i++) {
        const struct trace_event *e = &v->t->event[i];
        if (!timeline_is_wire(e->category) && e->end_s > v->from_s && e->start_s < v->to_s &&
            e->end_s > e->start_s)
            s[ops++] = (struct timeline_box){.row = e->row,
                                             .category = e->category,
                                             .microbatch = e->microbatch,
                                             .start_s = e->start_s,
                                             .end_s = e->end_s,
                                             .narrow = e->end_s - e->start_s < narrow_s};
    }
    qsort(s, ops, sizeof *s, box_by_start);
    for (size_t i = 0; i < ops; i++) {
        struct timeline_box *last = joined > 0 ? &s[joined - 1] : NULL;
        if (last && box_continues(last, &s[i], narrow_s))
            last->end_s = s[i].end_s > last->end_s ? s[i].end_s : last->end_s;
        else
            s[joined++] = s[i];
    }
    *out = s;
    *n = joined;
    return STATUS_OK;
}

/* Are more than a quarter of the boxes too narrow for one? */
static bool are_narrow(const struct timeline_view *v, double narrow_s)
{
    size_t narrow = 0;
    for (size_t i = 0; i < v->boxes; i++)
        narrow += v->box[i].end_s - v->box[i].start_s < narrow_s;
    return narrow * 4 > v->boxes;
}

/* Columns of about the time from one kind of compute to another would show beats that are not
 * there: as many are summed up as hold a few. */
static enum status choose_smoothing(struct timeline_view *v)
{
    struct timeline_box *s;
    size_t n, followed = 0;
    double sum = 0;
    PASS(box_join_ops(v, 0, &s, &n));
    for (size_t i = 1; i < n; i++)
        if (s[i].row == s[i - 1].row) {
            followed++;
            sum += s[i].start_s - s[i - 1].start_s;
        }
    double columns = followed > 0 ? sum / (double)followed / v->step_s : 0;
    if (columns > 1.0 / BEATS && columns < BEATS)
        v->beside = (size_t)columns + 1;
    free(s);
    return STATUS_OK;
}

enum status timeline_arrange(struct timeline_view *v, int pixels)
{
    enum status st;
    size_t most = 1;
    TRY(ARRAY_NEW(v->row, v->t->rows));
    TRY(ARRAY_NEW(v->row_of, v->t->rows));
    while (group_ranks(v, most) > ROWS_MOST && most < v->t->rows)
        most *= 2;
    double narrow_s = NARROW * (v->to_s - v->from_s) / pixels;
    TRY(box_join_ops(v, narrow_s, &v->box, &v->boxes));
    if (v->most > 1 || are_narrow(v, narrow_s)) {
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
