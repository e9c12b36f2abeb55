/* A page about a sweep: question, setup, best plans, where they change and why, all rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/digest.h"
#include "plots/kind.h"
#include "plots/page.h"
#include "study/rank.h"
#include "study/report.h"

enum { TABLE_ROWS = 200 };

/* What sections are about. */
struct subject {
    struct sweep s;
    struct best_table best;
};

/* ---- the answer, in three sentences */

/* Rows of best plans: how many have one, in how many it is the same as in row `like`, and how often it
 * changes. */
static size_t count_best(const struct subject *about, size_t like, size_t *alike, size_t *changes)
{
    const struct best_table *t = &about->best;
    size_t n = 0;
    *alike = *changes = 0;
    for (size_t r = 1; r < t->rows; r++) {
        if (t->best[r] == SIZE_MAX)
            continue;
        n++;
        *alike += rank_alike(&about->s.e, t->best[r], t->best[like], true, about->s.e.axes);
        *changes += t->before[r] != SIZE_MAX;
    }
    return n;
}

/* The row whose best plan is the best in most rows; 0: none has one. */
static size_t most_frequent(const struct subject *about)
{
    size_t most = 0, row = 0, alike, changes;
    for (size_t r = 1; r < about->best.rows; r++)
        if (about->best.best[r] != SIZE_MAX) {
            (void)count_best(about, r, &alike, &changes);
            row = alike > most ? r : row;
            most = alike > most ? alike : most;
        }
    return row;
}

/* Where the best plan changes first, if anywhere. */
static const char *changes_text(struct report_page *p, const struct subject *about, size_t changes)
{
    const struct experiment *e = &about->s.e;
    const struct best_table *t = &about->best;
    size_t along = rank_along(e), r = 1;
    char from[RESULT_VALUE], to[RESULT_VALUE];
    if (along == e->axes)
        return "Nothing but the plan varies.";
    if (changes == 0)
        return report_text(p, "Along %s it does not change.", e->axis[along].name);
    while (t->before[r] == SIZE_MAX)
        r++;
    return report_text(p, "Along %s it changes %zu time%s, first at %s from %s to %s.",
                       e->axis[along].name, changes, changes == 1 ? "" : "s",
                       experiment_label(e, t->best[r], along),
                       rank_plan_label(e, t->before[r], from), rank_plan_label(e, t->best[r], to));
}

/* How many choices there are to compare at one place. */
static size_t count_plans(const struct experiment *e)
{
    size_t n = 1;
    for (size_t i = 0; i < e->axes; i++)
        n *= rank_is_column(e, i, true) ? e->axis[i].n : 1;
    return n;
}

/* Of one plan: where it trains most samples, and where least. */
static enum status put_places(struct report_page *p, const struct subject *about)
{
    const struct best_table *t = &about->best;
    size_t n = 0, best = 0, worst = 0;
    double most = 0, least = INFINITY;
    char high[RESULT_VALUE], low[RESULT_VALUE];
    for (size_t r = 1; r < t->rows; r++) {
        struct point_result result;
        bool found;
        if (t->best[r] == SIZE_MAX)
            continue;
        PASS(sweep_get_best(&about->s, t->best[r], &found, &result));
        if (!found)
            continue;
        n++;
        best = result.samples_per_s > most ? r : best;
        worst = result.samples_per_s < least ? r : worst;
        most = fmax(most, result.samples_per_s);
        least = fmin(least, result.samples_per_s);
    }
    if (n < 2)
        return STATUS_OK;
    rank_group_label(&about->s.e, t->best[best], about->s.e.axes, true, high);
    rank_group_label(&about->s.e, t->best[worst], about->s.e.axes, true, low);
    report_say(
        p, "answer",
        "One plan in %zu places: it trains most in %s, %.4g samples/s (%s), and least in %s, "
        "%.4g samples/s (%s).",
        n, high, most, t->note[best], low, least, t->note[worst]);
    return STATUS_OK;
}

/* Which plan is the best, where that changes, and what holds it back. */
static enum status put_answer(struct report_page *p, const void *what)
{
    const struct subject *about = what;
    size_t row = most_frequent(about), alike, changes;
    char plan[RESULT_VALUE], group[RESULT_VALUE];
    if (row == 0) {
        page_paragraph(p->to, "answer", "No plan of this sweep has run to its end yet, or fits.");
        return STATUS_OK;
    }
    size_t n = count_best(about, row, &alike, &changes);
    if (n > 1 && count_plans(&about->s.e) == 1)
        return put_places(p, about);
    rank_plan_label(&about->s.e, about->best.best[row], plan);
    const char *first =
        n == 1 ? report_text(p, "The best plan is %s.", plan)
        : alike == n
            ? report_text(p, "In all %zu combinations the best plan is %s.", n, plan)
            : report_text(p, "In %zu of %zu combinations the best plan is %s.", alike, n, plan);
    rank_group_label(&about->s.e, about->best.best[row], about->s.e.axes, true, group);
    report_say(p, "answer", "%s %s Where its time goes%s%s: %s.", first,
               changes_text(p, about, changes), *group ? ", for " : "", group,
               about->best.note[row]);
    return STATUS_OK;
}

/* ---- question and setup */

/* The comment that an experiment begins with, as one paragraph. */
static enum status put_question(struct report_page *p, const void *what)
{
    const struct subject *about = what;
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
static enum status put_setup(struct report_page *p, const void *what)
{
    const struct experiment *e = &((const struct subject *)what)->s.e;
    page_table_open(p->to);
    REPORT_ROW(p, "th", "setting", "values", "");
    for (size_t i = 0; i < e->axes; i++) {
        const struct experiment_axis *a = &e->axis[i];
        char values[2048] = "";
        for (size_t k = 0, n = 0; k < a->n && n < sizeof values; k++)
            n += (size_t)snprintf(values + n, sizeof values - n, "%s%s", k ? ", " : "",
                                  a->choice[k].label);
        REPORT_ROW(p, "td", a->name, values,
                   a->n == 1   ? ""
                   : a->seeds  ? "repeats: means count"
                   : a->chosen ? "the best of these is sought"
                               : "for each of these");
    }
    page_table_close(p->to);
    return STATUS_OK;
}

/* How many points are how; why those are not ok that are not. */
static enum status put_counts(struct report_page *p, const void *what)
{
    const struct sweep *s = &((const struct subject *)what)->s;
    size_t count[POINT_STATUSES] = {0}, missing;
    PASS(sweep_count(s, count, &missing));
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
static enum status put_warnings(struct report_page *p, const void *what)
{
    enum { MOST = 8 };
    const struct sweep *s = &((const struct subject *)what)->s;
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
    const struct best_table *t = &((const struct subject *)what)->best;
    page_table_open(p->to);
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

static enum status put_changes(struct report_page *p, const void *what)
{
    const struct subject *about = what;
    return report_changes(p, &about->s, &about->best);
}

static enum status put_best_plans(struct report_page *p, const void *what)
{
    const struct subject *about = what;
    return report_best_plans(p, &about->s, &about->best);
}

/* ---- pictures of lines */

/* Points that differ from `like` only along the axis, in the plan, and in the seed. */
struct line {
    const struct experiment *e;
    size_t like, along;
    const struct best_table *best; /* only plans that are the best somewhere; NULL: all */
};

static bool in_line(const struct line *l, size_t point)
{
    return rank_alike(l->e, point, l->like, false, l->along);
}

/* All points of a line, or only those of plans that are the best somewhere on it: more lines than
 * can be told apart say nothing. */
static bool keep(const void *context, size_t point)
{
    const struct line *l = context;
    if (!in_line(l, point))
        return false;
    for (size_t r = 1; l->best && r < l->best->rows; r++)
        if (l->best->best[r] != SIZE_MAX && in_line(l, l->best->best[r]) &&
            rank_alike(l->e, l->best->best[r], point, true, l->e->axes))
            return true;
    return !l->best;
}

/* One picture of the rows that keep() says, by the first engine or by SimGrid alone: lines of two
 * engines in one picture would look like two plans. */
static enum status put_line(struct report_page *p, const struct sweep *s, const struct line *l,
                            const char *kind, const char *what, bool second)
{
    enum status st;
    struct table t = {0};
    size_t engine;
    char name[RESULT_VALUE], where[64];
    const struct plot_request request = {.path = (const char *const[]){s->e.name},
                                         .n = 1,
                                         .table = &t,
                                         .x = s->e.axis[l->along].name,
                                         .y = s->e.fewest_seconds ? "iteration_s" : "samples_per_s",
                                         .by = "plan",
                                         .where = where};
    rank_group_label(l->e, l->like, l->along, true, name);
    TRY(sweep_table(s, keep, l, &t));
    TRY(table_column(&t, "engine", &engine));
    snprintf(where, sizeof where, "engine=%.50s", second ? "simgrid" : table_cell(&t, 0, engine));
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
    const struct subject *about = what;
    const struct sweep *s = &about->s;
    struct line l = {.e = &s->e, .along = rank_along(&s->e)};
    size_t drawn = 0;
    if (l.along == s->e.axes)
        return STATUS_OK;
    l.best = count_plans(&s->e) > MOST_LINES ? &about->best : NULL;
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
        PASS(put_line(p, s, &l, "regret", "Behind the best", false));
    }
    return STATUS_OK;
}

/* ---- the rest */

static enum status put_experiment(struct report_page *p, const void *what)
{
    page_lines(p->to, ((const struct subject *)what)->s.e.text);
    return STATUS_OK;
}

static void put_source(void *context, const struct database_source *s)
{
    struct report_page *p = context;
    REPORT_ROW(p, "td", s->version, s->command, s->host, report_text(p, "%zu", s->points),
               report_quantity(p, UNIT_SECONDS, s->cpu_s), s->first, s->last);
}

static enum status put_provenance(struct report_page *p, const void *what)
{
    const struct sweep *s = &((const struct subject *)what)->s;
    report_made_by(p);
    report_say(p, "", "Experiment %s (%s), SHA-256 %s.", s->e.name, s->e.path, s->e.sha256);
    page_table_open(p->to);
    REPORT_ROW(p, "th", "version", "command", "host", "points", "CPU", "first", "last finished");
    PASS(database_sources(s->db, s->id, put_source, p));
    page_table_close(p->to);
    return STATUS_OK;
}

/* Everything, for those who doubt the rest. */
static enum status put_rows(struct report_page *p, const void *what)
{
    struct table t = {0};
    enum status st = sweep_table(&((const struct subject *)what)->s, NULL, NULL, &t);
    if (st == STATUS_OK) {
        page_heading(p->to, "All rows");
        page_table(p->to, &t, TABLE_ROWS);
    }
    table_free(&t);
    return st == STATUS_PARSE ? STATUS_OK : st; /* nothing is computed */
}

static const struct report_section sections[] = {
    {NULL, put_answer},
    {NULL, put_question},
    {"Setup", put_setup},
    {NULL, put_counts},
    {NULL, put_warnings},
    {"The best plans", put_best},
    {"Where the best plan changes, and why", put_changes},
    {"Time and memory of the best plans", put_best_plans},
    {NULL, put_lines},
    {"The experiment", put_experiment},
    {"Where this comes from", put_provenance},
    {NULL, put_rows},
};

enum status report_sweep(struct report_page *p, const char *database)
{
    enum status st;
    struct subject about = {0};
    TRY(sweep_open(database, &about.s));
    TRY(best_tabulate(&about.s, &about.best));
    TRY(report_sections(p, about.s.e.name, sections, sizeof sections / sizeof *sections, &about));
out:
    best_table_free(&about.best);
    sweep_free(&about.s);
    return st;
}
