/* A page about a sweep: question, setup, best plans, where they change and why, all rows. */
#include <stdlib.h>
#include <string.h>

#include "core/digest.h"
#include "core/units.h"
#include "plots/kind.h"
#include "plots/page.h"
#include "study/report_page.h"
#include "study/report_sweep.h"

enum { TABLE_ROWS = 200, TEXT = 2048 };

/* ---- question and setup */

/* The comment that an experiment begins with, as one paragraph. */
static void put_question(FILE *to, const char *text)
{
    char line[TEXT];
    size_t n = 0;
    while (*text == '#' || *text == '\n') {
        text += strspn(text, "#");
        text += strspn(text, " ");
        size_t length = strcspn(text, "\n"), room = TEXT - 2 - n;
        length = length < room ? length : room;
        memcpy(line + n, text, length);
        n += length;
        line[n++] = ' ';
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    line[n] = '\0';
    if (n > 0)
        page_paragraph(to, "", line);
}

static void put_setup(FILE *to, const struct experiment *e)
{
    static const char *const head[] = {"setting", "values", ""};
    page_heading(to, "Setup");
    page_table_open(to);
    page_row(to, "th", head, 3);
    for (size_t i = 0; i < e->axes; i++) {
        const struct experiment_axis *a = &e->axis[i];
        char values[TEXT] = "";
        for (size_t k = 0, n = 0; k < a->n && n < sizeof values; k++)
            n += (size_t)snprintf(values + n, sizeof values - n, "%s%s", k ? ", " : "",
                                  a->choice[k].label);
        const char *const cell[] = {a->name, values,
                                    a->n == 1   ? ""
                                    : a->seeds  ? "repeats: means count"
                                    : a->chosen ? "the best of these is sought"
                                                : "for each of these"};
        page_row(to, "td", cell, 3);
    }
    page_table_close(to);
}

/* How many points are how; why those are not ok that are not. */
static enum status put_counts(FILE *to, const struct sweep_view *v)
{
    enum status st = STATUS_OK;
    char line[TEXT];
    const struct sweep_points *const points[] = {&v->all, &v->finalists};
    size_t count[POINT_STATUSES] = {0}, missing = 0, n;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < points[k]->n; i++) {
            struct point_result r;
            bool found;
            TRY(database_get(v->db, points[k]->hash[i], &found, &r));
            count[r.status] += found;
            missing += !found;
        }
    n = (size_t)snprintf(line, sizeof line, "%zu points", v->all.n);
    if (v->finalists.n)
        n += (size_t)snprintf(line + n, sizeof line - n, ", %zu of them on simgrid too",
                              v->finalists.n);
    for (size_t k = 0; k < POINT_STATUSES; k++)
        if (count[k] > 0)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s %zu %s", k ? "," : ":", count[k],
                                  point_status_names[k]);
    if (missing > 0)
        snprintf(line + n, sizeof line - n, "; %zu are not computed yet", missing);
    page_paragraph(to, missing > 0 ? "warning" : "", line);
out:
    return st;
}

/* ---- best plans */

static void put_best(FILE *to, const struct sweep_table *t)
{
    page_heading(to, "The best plans");
    page_table_open(to);
    for (size_t r = 0; r < t->rows; r++) {
        const char *cell[SWEEP_COLUMNS + 2];
        size_t n = 0;
        for (size_t c = 0; c < t->columns; c++)
            cell[n++] = t->cell[r * t->columns + c];
        cell[n++] = t->before[r] != SIZE_MAX ? "changes" : "";
        cell[n++] = t->note[r];
        page_row(to, r ? "td" : "th", cell, n);
    }
    page_table_close(to);
}

/* ---- pictures of lines */

/* Points that differ from `like` only along the axis, in the plan, and in the seed. */
struct line {
    const struct experiment *e;
    size_t like, along;
    const struct sweep_table *best; /* only plans that are the best somewhere; NULL: all */
};

static bool in_line(const struct line *l, size_t point)
{
    for (size_t i = 0; i < l->e->axes; i++)
        if (i != l->along && !l->e->axis[i].chosen && !l->e->axis[i].seeds &&
            experiment_choice(l->e, point, i) != experiment_choice(l->e, l->like, i))
            return false;
    return true;
}

static bool same_plan(const struct experiment *e, size_t a, size_t b)
{
    for (size_t i = 0; i < e->axes; i++)
        if (e->axis[i].chosen && !e->axis[i].seeds &&
            experiment_choice(e, a, i) != experiment_choice(e, b, i))
            return false;
    return true;
}

static bool keep(const void *context, size_t point)
{
    const struct line *l = context;
    if (!in_line(l, point))
        return false;
    for (size_t r = 1; l->best && r < l->best->rows; r++)
        if (l->best->best[r] != SIZE_MAX && in_line(l, l->best->best[r]) &&
            same_plan(l->e, l->best->best[r], point))
            return true;
    return !l->best;
}

static size_t count_plans(const struct experiment *e)
{
    size_t n = 1;
    for (size_t i = 0; i < e->axes; i++)
        n *= e->axis[i].chosen && !e->axis[i].seeds ? e->axis[i].n : 1;
    return n;
}

/* "devices 64, model gpt2-xl": what a line has that others have not. */
static void name_line(const struct line *l, char text[RESULT_VALUE])
{
    size_t n = 0;
    *text = '\0';
    for (size_t i = 0; i < l->e->axes && n < RESULT_VALUE; i++)
        if (i != l->along && l->e->axis[i].n > 1 && !l->e->axis[i].chosen && !l->e->axis[i].seeds)
            n += (size_t)snprintf(text + n, RESULT_VALUE - n, "%s%s %s", n ? ", " : "",
                                  l->e->axis[i].name, experiment_label(l->e, l->like, i));
}

static enum status put_line(struct report_page *p, const struct sweep_view *v, const struct line *l,
                            const char *kind, const char *what, bool second)
{
    enum status st;
    struct table t = {0};
    size_t engine;
    char name[RESULT_VALUE], caption[2 * RESULT_VALUE], where[64];
    const struct plot_request request = {.path = (const char *const[]){v->e.name},
                                         .n = 1,
                                         .table = &t,
                                         .x = v->e.axis[l->along].name,
                                         .y = v->e.fewest_seconds ? "iteration_s" : "samples_per_s",
                                         .by = "plan",
                                         .where = where};
    name_line(l, name);
    TRY(sweep_view_table(v, keep, l, &t));
    TRY(table_column(&t, "engine", &engine));
    snprintf(where, sizeof where, "engine=%.50s", second ? "simgrid" : table_cell(&t, 0, engine));
    snprintf(caption, sizeof caption, "%s by %s%s%s%s%s", what, where + strlen("engine="),
             second ? ", the finalists" : "", *name ? ": " : "", name,
             l->best ? " (plans that are the best somewhere)" : "");
    TRY(report_plot(p, kind, &request, caption));
out:
    table_free(&t);
    return st == STATUS_PARSE ? STATUS_OK : st; /* no rows yet */
}

static enum status put_lines(struct report_page *p, const struct sweep_view *v,
                             const struct sweep_table *best)
{
    enum { MOST_LINES = 8, MOST_PICTURES = 6 };
    enum status st = STATUS_OK;
    struct line l = {.e = &v->e, .along = sweep_along(&v->e)};
    size_t drawn = 0;
    if (l.along == v->e.axes)
        return STATUS_OK;
    l.best = count_plans(&v->e) > MOST_LINES ? best : NULL;
    page_heading(p->to, "Pictures");
    for (size_t g = 0; g < v->e.points && drawn < MOST_PICTURES; g++) {
        if (!sweep_is_group(&v->e, g) || experiment_choice(&v->e, g, l.along) != 0)
            continue;
        l.like = g;
        drawn++;
        TRY(put_line(p, v, &l, "throughput", "Throughput", false));
        if (v->finalists.n)
            TRY(put_line(p, v, &l, "throughput", "Throughput", true));
        if (l.best) /* most plans are not in the picture: nothing to compare with */
            continue;
        TRY(put_line(p, v, &l, "speedup", "Over the first value", false));
        TRY(put_line(p, v, &l, "regret", "Behind the best", false));
    }
out:
    return st;
}

/* ---- the rest */

static void put_source(void *context, const struct database_source *s)
{
    char points[32], cpu[UNITS_TEXT];
    snprintf(points, sizeof points, "%zu", s->points);
    const char *const cell[] = {
        s->version, s->command, s->host, points, units_print(UNIT_SECONDS, s->cpu_s, cpu),
        s->first,   s->last};
    page_row(context, "td", cell, 7);
}

static enum status put_provenance(struct report_page *p, const struct sweep_view *v)
{
    enum status st;
    static const char *const head[] = {"version", "command", "host",         "points",
                                       "CPU",     "first",   "last finished"};
    struct table t = {0};
    char line[TEXT];
    report_made_by(p);
    snprintf(line, sizeof line, "Experiment %.200s (%.200s), SHA-256 %s.", v->e.name, v->e.path,
             v->e.sha256);
    page_paragraph(p->to, "", line);
    page_table_open(p->to);
    page_row(p->to, "th", head, 7);
    TRY(database_sources(v->db, v->id, put_source, p->to));
    page_table_close(p->to);
    st = sweep_view_table(v, NULL, NULL, &t);
    if (st == STATUS_PARSE) {
        st = STATUS_OK; /* nothing is computed */
        goto out;
    }
    TRY(st);
    page_heading(p->to, "All rows");
    page_table(p->to, &t, TABLE_ROWS);
out:
    table_free(&t);
    return st;
}

/* Reasons of points that are not ok, and where the engines disagree. */
static enum status put_warnings(FILE *to, const struct sweep_view *v)
{
    enum { MOST = 8 };
    enum status st = STATUS_OK;
    char line[TEXT], plan[RESULT_VALUE];
    double least = 1;
    size_t told = 0, worst = 0;
    for (size_t i = 0; i < v->all.n && told < MOST; i++) {
        struct point_result r;
        bool found;
        TRY(database_get(v->db, v->all.hash[i], &found, &r));
        if (!found || r.status != POINT_FAILED)
            continue;
        snprintf(line, sizeof line, "point %zu (%.200s) failed: %.250s", v->all.number[i],
                 sweep_plan_label(&v->e, v->all.number[i], plan), r.reason);
        page_paragraph(to, "warning", line);
        told++;
    }
    for (size_t i = 0; i < v->finalists.n; i++) {
        struct point_result quick, last;
        bool found, both;
        TRY(sweep_view_get(v, v->finalists.number[i], false, &found, &quick));
        TRY(database_get(v->db, v->finalists.hash[i], &both, &last));
        if (!found || !both || !(quick.samples_per_s > 0) || !(last.samples_per_s > 0))
            continue;
        double ratio = last.samples_per_s / quick.samples_per_s;
        if (ratio < least) {
            least = ratio;
            worst = v->finalists.number[i];
        }
    }
    if (least < 0.9) {
        snprintf(line, sizeof line,
                 "Links are shared: SimGrid gives point %zu (%.200s) only %.0f %% of the samples "
                 "that the analytic engine gives it. With few finalists the best plan by SimGrid "
                 "may not be among them.",
                 worst, sweep_plan_label(&v->e, worst, plan), 100 * least);
        page_paragraph(to, "warning", line);
    }
out:
    return st;
}

enum status report_sweep(struct report_page *p, const char *database)
{
    enum status st;
    struct sweep_view v = {0};
    struct sweep_table best = {0};
    TRY(sweep_view_open(database, &v));
    TRY(sweep_tabulate(&v.all, sweep_view_finalists(&v), v.db, &best));
    page_open(p->to, p->question ? p->question : v.e.name);
    put_question(p->to, v.e.text);
    put_setup(p->to, &v.e);
    TRY(put_counts(p->to, &v));
    TRY(put_warnings(p->to, &v));
    put_best(p->to, &best);
    TRY(report_changes(p, &v, &best));
    TRY(put_lines(p, &v, &best));
    page_heading(p->to, "The experiment");
    page_lines(p->to, v.e.text);
    TRY(put_provenance(p, &v));
    page_close(p->to);
out:
    sweep_table_free(&best);
    sweep_view_close(&v);
    return st;
}
