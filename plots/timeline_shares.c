/* Timelines of more ops than there are pixels: which share of each column's time a row spends on
 * what, as areas. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "plots/timeline.h"

/* Ops of one row of a trace and one category follow each other by their starts. */
static int by_lane(const void *a, const void *b)
{
    const struct trace_event *x = *(const struct trace_event *const *)a,
                             *y = *(const struct trace_event *const *)b;
    if (x->row != y->row)
        return x->row < y->row ? -1 : 1;
    if (x->category != y->category)
        return x->category < y->category ? -1 : 1;
    if (x->start_s < y->start_s || x->start_s > y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The seconds from `from` to `to` into the columns that they lie in. */
static void timeline_shares_add(const struct timeline_view *v, struct timeline_shares *s,
                                size_t row, int category, double from, double to)
{
    double begin = fmax(from - v->from_s, 0), end = fmin(to, v->to_s) - v->from_s;
    double part = 1 / (v->step_s * (double)v->row[row].ranks);
    for (size_t c = (size_t)fmax(begin / v->step_s, 0); c < s->columns && begin < end; c++) {
        double until = fmin((double)(c + 1) * v->step_s, end);
        if (until > begin)
            s->share[(row * s->columns + c) * TRACE_CATEGORIES + (size_t)category] +=
                (until - begin) * part;
        begin = fmax(begin, until);
    }
}

/* First category of the lane of this one. */
static int lane_first(int category)
{
    return timeline_is_wire(category) ? TRACE_COPY : TRACE_COMPUTE;
}

/* A lane has at most the whole of the time: rounding may leave a bit more, and copies go on beside
 * messages. */
static void timeline_shares_bound(const struct timeline_view *v, struct timeline_shares *s)
{
    for (size_t i = 0; i < v->rows * s->columns; i++) {
        double *share = &s->share[i * TRACE_CATEGORIES], sum[TRACE_CATEGORIES] = {0};
        for (int c = 0; c < TRACE_CATEGORIES; c++)
            sum[lane_first(c)] += share[c];
        for (int c = 0; c < TRACE_CATEGORIES; c++)
            share[c] /= fmax(sum[lane_first(c)], 1);
    }
}

/* Each column becomes the mean of itself and those beside it, as far as there are any. `sum`
 * [columns + 1]. */
static void smooth(const struct timeline_view *v, struct timeline_shares *s, double *sum)
{
    for (size_t i = 0; v->beside > 0 && i < v->rows * TRACE_CATEGORIES; i++) {
        double *at =
            &s->share[i / TRACE_CATEGORIES * s->columns * TRACE_CATEGORIES + i % TRACE_CATEGORIES];
        sum[0] = 0;
        for (size_t k = 0; k < s->columns; k++)
            sum[k + 1] = sum[k] + at[k * TRACE_CATEGORIES];
        for (size_t k = 0; k < s->columns; k++) {
            size_t from = k > v->beside ? k - v->beside : 0, to = k + v->beside + 1;
            to = to > s->columns ? s->columns : to;
            at[k * TRACE_CATEGORIES] = fmax(sum[to] - sum[from], 0) / (double)(to - from);
        }
    }
}

enum status timeline_gather(const struct timeline_view *v, struct timeline_shares *out)
{
    enum status st;
    const struct trace_events *t = v->t;
    const struct trace_event **lane = NULL;
    double *sum = NULL;
    struct timeline_shares s = {.columns = (size_t)lround((v->to_s - v->from_s) / v->step_s)};
    TRY(ARRAY_NEW(lane, t->n));
    TRY(ARRAY_NEW(s.share, v->rows * s.columns * TRACE_CATEGORIES));
    for (size_t i = 0; i < t->n; i++)
        lane[i] = &t->event[i];
    qsort(lane, t->n, sizeof(const struct trace_event *), by_lane);
    double reached = 0; /* of this row and category all before is in */
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_event *e = lane[i];
        if (i == 0 || lane[i - 1]->row != e->row || lane[i - 1]->category != e->category)
            reached = v->from_s;
        timeline_shares_add(v, &s, v->row_of[e->row], e->category, fmax(e->start_s, reached),
                            e->end_s);
        reached = fmax(reached, e->end_s);
    }
    TRY(ARRAY_NEW(sum, s.columns + 1));
    smooth(v, &s, sum);
    timeline_shares_bound(v, &s);
    MOVE(out, s);
out:
    free(sum);
    free(s.share);
    free(lane);
    return st;
}

void timeline_put_shares(FILE *table, const struct timeline_view *v,
                         const struct timeline_shares *s)
{
    fputs("# row\tfrom_s\tto_s", table);
    for (int c = 0; c < TRACE_CATEGORIES; c++)
        fprintf(table, "\t%s", timeline_category_names[c]);
    putc('\n', table);
    for (size_t r = 0; r < v->rows; r++)
        for (size_t k = 0; v->row[r].ranks > 0 && k < s->columns; k++) {
            char name[TIMELINE_NAME];
            figure_put_field(table, timeline_row_name(v, r, name));
            fprintf(table, "\t%.9g\t%.9g", v->from_s + (double)k * v->step_s,
                    v->from_s + (double)(k + 1) * v->step_s);
            for (size_t c = 0; c < TRACE_CATEGORIES; c++)
                fprintf(table, "\t%.4g", s->share[(r * s->columns + k) * TRACE_CATEGORIES + c]);
            putc('\n', table);
        }
}

static const double visible = 0.004; /* of a lane: a tenth of a pixel */

/* ---- areas: those that end highest first, so that what comes later covers all below it */

/* How high a category's area reaches: it and those below it. */
static double height(const double *share, int category)
{
    double sum = 0;
    for (int c = lane_first(category); c <= category; c++)
        sum += share[c];
    return sum;
}

/* The outline of neighbouring columns that have any of it, closed, then a blank line. */
static size_t put_area(FILE *script, const struct timeline_view *v, const struct timeline_shares *s,
                       size_t row, size_t k, int category, double per_s)
{
    const double *share = &s->share[row * s->columns * TRACE_CATEGORIES];
    bool wire = timeline_is_wire(category);
    double bottom = (double)row + (wire ? timeline_wire_bottom : timeline_compute_bottom);
    double lane = wire ? timeline_wire_bottom - timeline_wire_top
                       : timeline_compute_bottom - timeline_compute_top;
    double x = (v->from_s + (double)k * v->step_s) * per_s, before = 0;
    fprintf(script, "%.7g\t%.6g\n", x, bottom);
    for (; k < s->columns; k++) {
        double high = height(&share[k * TRACE_CATEGORIES], category);
        if (!(high > visible))
            break;
        if (fabs(high - before) > visible) { /* a step */
            x = (v->from_s + (double)k * v->step_s) * per_s;
            fprintf(script, "%.7g\t%.6g\n%.7g\t%.6g\n", x, bottom - before * lane, x,
                    bottom - high * lane);
            before = high;
        }
    }
    x = (v->from_s + (double)k * v->step_s) * per_s;
    fprintf(script, "%.7g\t%.6g\n%.7g\t%.6g\n\n", x, bottom - before * lane, x, bottom);
    return k;
}

void timeline_put_areas(FILE *script, const struct timeline_view *v,
                        const struct timeline_shares *s, double per_s)
{
    for (int c = 0; c < TRACE_CATEGORIES; c++) {
        fprintf(script, "$area%d << EOD\n%.9g\t-9\n\n", c, v->from_s * per_s); /* never empty */
        for (size_t row = 0; row < v->rows; row++)
            for (size_t k = 0; k < s->columns; k++)
                if (height(&s->share[(row * s->columns + k) * TRACE_CATEGORIES], c) > visible)
                    k = put_area(script, v, s, row, k, c, per_s);
        fputs("EOD\n", script);
    }
}

void timeline_plot_areas(FILE *script)
{
    for (int c = TRACE_CATEGORIES; c-- > 0;)
        fprintf(script, ", $area%d using 1:2 with filledcurves closed fillcolor rgb '%s' notitle",
                c, timeline_colour(c));
}
