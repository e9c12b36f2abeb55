/* A page about a sweep: answer, question, setup, best plans, where they change and why, all
 * rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "plots/kind.h"
#include "plots/page.h"
#include "sim/engines.h"
#include "study/rank.h"
#include "study/report.h"

/* What sections are about. */
struct sweep_subject {
    struct sweep s;
    struct best_table best;
};

static enum status report_sweep_put_answer(struct report_page *p, const void *what)
{
    const struct sweep_subject *about = what;
    return report_answer(p, &about->s, &about->best);
}

/* ---- question and setup */

/* The comment that an experiment begins with, as one paragraph. */
static enum status report_sweep_put_question(struct report_page *p, const void *what)
{
    const struct sweep_subject *about = what;
    const char *text = about->s.e.text, *line = "";
    while (*text == '#' || *text == '\n') {
        text += strspn(text, "#");
        text += strspn(text, " ");
        size_t length = strcspn(text, "\n");
        line = report_text(p, "%s%.*s ", line, (int)length, text);
        text += length;
        text += *text == '\n';
    }
    if (*line)
        page_paragraph(p->to, "", line);
    return STATUS_OK;
}

/* Every axis with what it is for; constants are axes of one value. */
static enum status report_sweep_put_setup(struct report_page *p, const void *what)
{
    const struct experiment *e = &((const struct sweep_subject *)what)->s.e;
    page_table_open(p->to, "Settings");
    REPORT_ROW(p, "th", "setting", "values", "");
    for (size_t i = 0; i < e->axes; i++) {
        const struct experiment_axis *a = &e->axis[i];
        char values[2048] = "";
        for (size_t k = 0, n = 0; k < a->n && n < sizeof values; k++)
            n += (size_t)snprintf(values + n, sizeof values - n, "%s%s", k ? ", " : "",
                                  a->choice[k].label);
        REPORT_ROW(p, "td", a->name, values,
                   a->n == 1   ? ""
                   : a->seeds  ? "repeats: medians count"
                   : a->chosen ? "the best of these is sought"
                               : "for each of these");
    }
    page_table_close(p->to);
    return STATUS_OK;
}

/* How many points are how; why those are not ok that are not. */
static enum status put_counts(struct report_page *p, const void *what)
{
    const struct sweep *s = &((const struct sweep_subject *)what)->s;
    size_t count[POINT_STATUSES] = {0}, missing;
    PASS(sweep_count(s, count, &missing, NULL));
    const char *line = report_text(p, "%zu points", s->all.n);
    if (s->has_finalists)
        line = report_text(p, "%s, %zu of them on simgrid too", line, s->finalists.n);
    for (size_t k = 0; k < POINT_STATUSES; k++)
        if (count[k] > 0)
            line =
                report_text(p, "%s%s %zu %s", line, k ? "," : ":", count[k], point_status_names[k]);
    if (missing > 0)
        line = report_text(p, "%s; %zu are not computed yet", line, missing);
    page_paragraph(p->to, missing > 0 ? "warning" : "", line);
    return STATUS_OK;
}

/* Where the engines disagree most. */
static enum status put_disagreement(struct report_page *p, const struct sweep *s)
{
    char plan[RESULT_VALUE];
    double least = 1;
    size_t worst = 0;
    for (size_t i = 0; i < s->finalists.n; i++) {
        struct point_result quick, last;
        bool found, both;
        PASS(sweep_get(s, s->finalists.number[i], false, &found, &quick));
        PASS(database_get(s->db, s->finalists.hash[i], &both, &last));
        if (!found || !both || !(quick.samples_per_s > 0) || !(last.samples_per_s > 0) ||
            last.samples_per_s / quick.samples_per_s >= least)
            continue;
        least = last.samples_per_s / quick.samples_per_s;
        worst = s->finalists.number[i];
    }
    if (least < 0.9)
        report_say(
            p, "warning",
            "Links are shared: SimGrid gives point %zu (%s) only %.0f %% of the samples that "
            "the analytic engine gives it. With few finalists the best plan by SimGrid may "
            "not be among them.",
            worst, rank_plan_label(&s->e, worst, plan), 100 * least);
    return STATUS_OK;
}

/* Failures, at most so many; then where the engines disagree. */
static enum status report_sweep_put_warnings(struct report_page *p, const void *what)
{
    enum { MOST = 8 };
    const struct sweep *s = &((const struct sweep_subject *)what)->s;
    char plan[RESULT_VALUE];
    size_t told = 0;
    for (size_t i = 0; i < s->all.n && told < MOST; i++) {
        struct point_result r;
        bool found;
        PASS(database_get(s->db, s->all.hash[i], &found, &r));
        if (!found || r.status != POINT_FAILED)
            continue;
        report_say(p, "warning", "point %zu (%s) failed: %s", s->all.number[i],
                   rank_plan_label(&s->e, s->all.number[i], plan), r.reason);
        told++;
    }
    return put_disagreement(p, s);
}

/* ---- best plans */

static enum status put_best(struct report_page *p, const void *what)
{
    const struct sweep_subject *about = what;
    const struct best_table *t = &about->best;
    const char *name = rank_plans(&about->s.e) > 1 ? "The best plans" : "Every combination";
    page_heading(p->to, name);
    page_table_open(p->to, name);
    for (size_t r = 0; r < t->rows; r++) {
        const char *cell[BEST_COLUMNS + 2];
        size_t n = 0;
        for (size_t c = 0; c < t->columns; c++)
            cell[n++] = t->cell[r * t->columns + c];
        cell[n++] = t->before[r] != SIZE_MAX ? "changes" : "";
        cell[n++] = t->note[r];
        page_row(p->to, r ? "td" : "th", cell, n);
    }
    page_table_close(p->to);
    return STATUS_OK;
}

/* Nothing can change where nothing is chosen, or nothing else varies. */
static enum status put_changes(struct report_page *p, const void *what)
{
    const struct sweep_subject *about = what;
    if (rank_plans(&about->s.e) == 1 || rank_along(&about->s.e) == about->s.e.axes)
        return STATUS_OK;
    page_heading(p->to, "Where the best plan changes, and why");
    return report_changes(p, &about->s, &about->best);
}

static enum status put_best_plans(struct report_page *p, const void *what)
{
    const struct sweep_subject *about = what;
    page_heading(p->to, rank_plans(&about->s.e) > 1 ? "Time and memory of the best plans"
                                                    : "Time and memory");
    return report_best_plans(p, &about->s, &about->best);
}

/* ---- pictures of lines */

/* Points that differ from `like` only along the axis, in the plan, and in the seed. */
struct sweep_line {
    const struct experiment *e;
    size_t like, along;
    const struct best_table *best; /* only plans that are the best somewhere; NULL: all */
};

static bool in_line(const struct sweep_line *l, size_t point)
{
    return rank_alike(l->e, point, l->like, false, l->along);
}

/* All points of a line, or only those of plans that are the best somewhere on it: more lines than
 * can be told apart say nothing. */
static bool report_keep_point(const void *context, size_t point)
{
    const struct sweep_line *l = context;
    if (!in_line(l, point))
        return false;
    for (size_t r = 1; l->best && r < l->best->rows; r++)
        if (l->best->best[r] != SIZE_MAX && in_line(l, l->best->best[r]) &&
            rank_alike(l->e, l->best->best[r], point, true, l->e->axes))
            return true;
    return !l->best;
}

/* One picture of the rows that report_keep_point() says, by the first engine or by SimGrid alone:
 * lines of two engines in one picture would look like two plans. */
static enum status put_line(struct report_page *p, const struct sweep *s,
                            const struct sweep_line *l, const char *kind, const char *what,
                            bool second)
{
    enum status st;
    struct plot_table t = {0};
    size_t engine;
    char name[RESULT_VALUE], where[64];
    const struct plot_request request = {.path = (const char *const[]){s->e.name},
                                         .n = 1,
                                         .table = &t,
                                         .x = s->e.axis[l->along].name,
                                         .y = s->e.by_days          ? "days"
                                              : s->e.fewest_seconds ? "iteration_s"
                                                                    : "samples_per_s",
                                         .by = rank_plans(&s->e) > 1 ? "plan" : NULL,
                                         .where = where};
    rank_group_label(l->e, l->like, l->along, true, name);
    TRY(sweep_table(s, report_keep_point, l, &t));
    TRY(table_column(&t, "engine", &engine));
    snprintf(where, sizeof where, "engine=%.50s",
             second ? engine_judge()->name : table_cell(&t, 0, engine));
    TRY(report_plot(p, kind, &request,
                    report_text(p, "%s by %s%s%s%s%s", what, where + strlen("engine="),
                                second ? ", the finalists" : "", *name ? ": " : "", name,
                                l->best ? " (plans that are the best somewhere)" : "")));
out:
    table_free(&t);
    return st == STATUS_PARSE ? STATUS_OK : st; /* no rows yet */
}

/* A picture for each group but for the axis that changes are sought along, which becomes the x
 * axis. */
static enum status put_lines(struct report_page *p, const void *what)
{
    enum { MOST_LINES = 8, MOST_PICTURES = 6 };
    const struct sweep_subject *about = what;
    const struct sweep *s = &about->s;
    struct sweep_line l = {.e = &s->e, .along = rank_along(&s->e)};
    size_t drawn = 0;
    if (l.along == s->e.axes)
        return STATUS_OK;
    l.best = rank_plans(&s->e) > MOST_LINES ? &about->best : NULL;
    page_heading(p->to, "Pictures");
    for (size_t g = 0; g < s->e.points && drawn < MOST_PICTURES; g++) {
        if (!rank_is_group(&s->e, g) || experiment_choice(&s->e, g, l.along) != 0)
            continue;
        l.like = g;
        drawn++;
        PASS(put_line(p, s, &l, "throughput", "Throughput", false));
        if (s->has_finalists)
            PASS(put_line(p, s, &l, "throughput", "Throughput", true));
        if (l.best) /* most plans are not in the picture: nothing to compare with */
            continue;
        PASS(put_line(p, s, &l, "speedup", "Over the first value", false));
        if (rank_plans(&s->e) > 1)
            PASS(put_line(p, s, &l, "regret", "Behind the best", false));
    }
    return STATUS_OK;
}

/* ---- the rest */

static enum status report_sweep_put_experiment(struct report_page *p, const void *what)
{
    page_lines(p->to, ((const struct sweep_subject *)what)->s.e.text);
    return STATUS_OK;
}

static void put_source(void *context, const struct database_source *s)
{
    struct report_page *p = context;
    REPORT_ROW(p, "td", s->version, s->command, s->host, report_text(p, "%zu", s->points),
               report_quantity(p, UNIT_SECONDS, s->cpu_s), s->first, s->last);
}

static enum status report_sweep_put_provenance(struct report_page *p, const void *what)
{
    const struct sweep *s = &((const struct sweep_subject *)what)->s;
    report_made_by(p);
    report_say(p, "", "Experiment %s (%s), SHA-256 %s.", s->e.name, s->e.path, s->e.sha256);
    page_table_open(p->to, "Sources");
    REPORT_ROW(p, "th", "version", "command", "host", "points", "CPU", "first", "last finished");
    PASS(database_sources(s->db, s->id, put_source, p));
    page_table_close(p->to);
    return STATUS_OK;
}

/* Everything, for those who choose by other columns, or doubt the rest. */
static enum status report_sweep_put_rows(struct report_page *p, const void *what)
{
    const struct sweep *s = &((const struct sweep_subject *)what)->s;
    struct plot_table t = {0};
    enum status st = sweep_table(s, NULL, NULL, &t);
    if (st == STATUS_PARSE) /* nothing is computed */
        return STATUS_OK;
    page_heading(p->to, "All points");
    report_say(p, "note", "foreline sweep %s --export csv prints the same rows.", s->e.path);
    if (st == STATUS_OK)
        st = report_points(p, s, &t);
    table_free(&t);
    return st;
}

static const struct report_section sections[] = {
    {NULL, report_sweep_put_answer},
    {NULL, report_sweep_put_question},
    {NULL, put_counts},
    {NULL, report_sweep_put_warnings},
    {NULL, report_sweep_put_rows},
    {NULL, put_best},
    {NULL, put_changes},
    {NULL, put_best_plans},
    {NULL, put_lines},
    {"Settings", report_sweep_put_setup},
    {"The experiment", report_sweep_put_experiment},
    {"Where this comes from", report_sweep_put_provenance},
};

enum status report_sweep(struct report_page *p, const char *database)
{
    enum status st;
    struct sweep_subject about = {0};
    TRY(sweep_open(database, &about.s));
    TRY(best_tabulate(&about.s, &about.best));
    TRY(report_sections(p, about.s.e.name, sections, sizeof sections / sizeof *sections, &about));
out:
    best_table_free(&about.best);
    sweep_free(&about.s);
    return st;
}
