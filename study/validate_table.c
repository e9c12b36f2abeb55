/* Predictions and runs of the same plans as rows, and what they come to together. */
#include "plots/figure.h"
#include "study/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "sim/engines.h"

const struct engine *validate_engine(size_t k)
{
    return k == 0 ? engine_quick() : engine_judge();
}

/* ---- rows */

/* Runs of the same plan by the same engine are one row. */
static bool validate_is_row(const struct measurement *m, const struct measurement *first)
{
    return !strcmp(m->engine, first->engine) && measurement_same_plan(m, first);
}

/* Is file i the first of its plan and engine? */
static bool validate_is_first(const struct validation *v, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (validate_is_row(&v->m[k], &v->m[i]))
            return false;
    return true;
}

/* Median and quartiles of the runs that file `first` begins; room [all iterations of v]. The
 * median of medians gives a run that was disturbed as a whole one vote; the quartiles are of all
 * iterations, to show how much they scatter. */
static void validate_measure_row(const struct validation *v, size_t first, double *room,
                                 struct validate_row *row)
{
    size_t n = 0;
    for (size_t i = first; i < v->files; i++)
        if (validate_is_row(&v->m[i], &v->m[first]))
            room[row->runs++] = v->m[i].iteration_s;
    qsort(room, row->runs, sizeof *room, by_value);
    row->measured_s = quantile_sorted(room, row->runs, 0.5);
    for (size_t i = first; i < v->files; i++) {
        if (v->m[i].iterations == 0 || !validate_is_row(&v->m[i], &v->m[first]))
            continue;
        memcpy(room + n, v->m[i].iterations_s, v->m[i].iterations * sizeof *room);
        n += v->m[i].iterations;
    }
    qsort(room, n, sizeof *room, by_value);
    row->iterations = n;
    row->low_s = n ? quantile_sorted(room, n, 0.25) : row->measured_s;
    row->high_s = n ? quantile_sorted(room, n, 0.75) : row->measured_s;
}

/* A row with the predictions of its plan; NAN where an engine has made none. The samples are those
 * of the prediction, as runs and predictions of a plan have the same. */
static struct validate_row make_row(const struct validation *v, size_t first, double *room)
{
    const struct measurement *m = &v->m[first];
    struct validate_row row = {.platform = m->platform ? m->platform : "", .engine = m->engine};
    validate_measure_row(v, first, room, &row);
    for (size_t k = 0; k < VALIDATE_ENGINES; k++) {
        row.predicted_s[k] = row.error[k] = NAN;
        for (size_t i = 0; i < v->files; i++) {
            if (strcmp(v->m[i].engine, validate_engine(k)->name) != 0 ||
                !measurement_same_plan(&v->m[i], m))
                continue;
            row.predicted_s[k] = v->m[i].iteration_s;
            row.error[k] = row.predicted_s[k] / row.measured_s - 1;
            row.samples = v->m[i].samples_per_s * v->m[i].iteration_s;
        }
    }
    style_plan_name(m->plan ? m->plan : v->file[first], row.plan, sizeof row.plan);
    return row;
}

/* ---- summaries */

static bool validate_counts(const struct validate_row *r, const struct validate_summary *s,
                            size_t k)
{
    return !isnan(r->error[k]) && !strcmp(r->engine, s->measured_by) &&
           (!s->platform || !strcmp(r->platform, s->platform));
}

/* Figures over the rows that count, room [4 * rows]: absolute errors, worst first found; the plan
 * predicted to be the fastest and the one that was, by time per sample; rank correlation and
 * regret where there are plans enough, and for regret plans of one platform only. */
static void validate_summarise(const struct validate_table *t, size_t k, bool one_platform,
                               double *room, struct validate_summary *s)
{
    double *error = room, *predicted = room + t->rows, *measured = predicted + t->rows;
    double *spread = measured + t->rows;
    size_t n = 0;
    for (size_t i = 0; i < t->rows; i++) {
        const struct validate_row *r = &t->row[i];
        if (!validate_counts(r, s, k))
            continue;
        error[n] = fabs(r->error[k]);
        predicted[n] = r->predicted_s[k] / r->samples;
        measured[n] = r->measured_s / r->samples;
        spread[n] = (r->high_s - r->low_s) / r->measured_s;
        s->noisy += spread[n] > error[n];
        if (n == 0 || error[n] > s->worst_error) {
            s->worst = i;
            s->worst_error = error[n];
        }
        if (n == 0 || measured[n] < t->row[s->best].measured_s / t->row[s->best].samples)
            s->best = i;
        n++;
    }
    s->plans = n;
    size_t chosen = n > 0 ? regret_chosen(predicted, measured, n) : 0;
    for (size_t i = 0, row = 0; i < t->rows && row <= chosen; i++)
        if (validate_counts(&t->row[i], s, k) && row++ == chosen)
            s->chosen = i;
    s->kendall_tau = n < COMPARE_RANKED ? NAN : kendall_tau(predicted, measured, n);
    bool ranked = n >= COMPARE_RANKED && one_platform;
    s->regret = ranked ? regret(predicted, measured, n, 1) : NAN;
    s->regret_least = ranked ? regret_least(predicted, measured, n, 1) : NAN;
    s->regret_first = ranked ? regret(predicted, measured, n, REGRET_FIRST) : NAN;
    qsort(error, n, sizeof *error, by_value);
    s->median_error = n ? quantile_sorted(error, n, 0.5) : NAN;
    qsort(spread, n, sizeof *spread, by_value);
    s->spread = n ? quantile_sorted(spread, n, 0.5) : NAN;
}

/* Is row i the first of its engine, and of its platform too unless `any`? */
static bool validate_begins(const struct validate_table *t, size_t i, bool any)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(t->row[k].engine, t->row[i].engine) &&
            (any || !strcmp(t->row[k].platform, t->row[i].platform)))
            return false;
    return true;
}

/* Did this engine run plans on several platforms? */
static bool has_platforms(const struct validate_table *t, const char *engine)
{
    const char *first = NULL;
    for (size_t i = 0; i < t->rows; i++) {
        if (strcmp(t->row[i].engine, engine) != 0)
            continue;
        if (first && strcmp(first, t->row[i].platform) != 0)
            return true;
        first = t->row[i].platform;
    }
    return false;
}

/* The summary of a row's engine, over all platforms or over the row's; left out when the
 * predicting engine has predicted none of the plans. */
static void add_summary(struct validate_table *t, size_t row, size_t k, bool all, double *room)
{
    bool several = has_platforms(t, t->row[row].engine);
    struct validate_summary s = {.predicted_by = validate_engine(k)->name,
                                 .measured_by = t->row[row].engine,
                                 .platform = all ? NULL : t->row[row].platform};
    validate_summarise(t, k, !all || !several, room, &s);
    if (s.plans > 0)
        t->summary[t->summaries++] = s;
}

/* Per predicting engine and engine that ran: over all plans, then per platform if several. */
static void add_summaries(struct validate_table *t, double *room)
{
    for (size_t k = 0; k < VALIDATE_ENGINES; k++) {
        for (size_t i = 0; i < t->rows; i++)
            if (validate_begins(t, i, true))
                add_summary(t, i, k, true, room);
        for (size_t i = 0; i < t->rows; i++)
            if (validate_begins(t, i, false) && has_platforms(t, t->row[i].engine))
                add_summary(t, i, k, false, room);
    }
}

/* Every run is either part of a row or has no prediction to be compared with. */
enum status validate_tabulate(const struct validation *v, struct validate_table *out)
{
    enum status st;
    struct validate_table t = {0};
    double *room = NULL;
    size_t most = v->files;
    for (size_t i = 0; i < v->files; i++)
        most += v->m[i].iterations;
    TRY(ARRAY_NEW(room, 4 * most));
    TRY(ARRAY_NEW(t.row, v->files));
    TRY(ARRAY_NEW(t.summary, 2 * VALIDATE_ENGINES * v->files));
    for (size_t i = 0; i < v->files; i++) {
        if (engine_predicts(v->m[i].engine) || !validate_is_first(v, i))
            continue;
        t.row[t.rows] = make_row(v, i, room);
        bool predicted = false;
        for (size_t k = 0; k < VALIDATE_ENGINES; k++)
            predicted |= !isnan(t.row[t.rows].error[k]);
        t.rows += predicted;
    }
    add_summaries(&t, room);
    MOVE(out, t);
out:
    free(room);
    validate_table_free(&t);
    return st;
}

void validate_table_free(struct validate_table *t)
{
    free(t->row);
    free(t->summary);
    *t = (struct validate_table){0};
}

/* ---- for people */

const char *validate_describe(const struct validate_table *t, const struct validate_summary *s,
                              char text[VALIDATE_TEXT])
{
    char tau[48] = "", lost[240] = "", first[48] = "", range[REGRET_TEXT];
    if (!isnan(s->kendall_tau))
        snprintf(tau, sizeof tau, "; Kendall tau %.3f", s->kendall_tau);
    if (!isnan(s->regret))
        snprintf(lost, sizeof lost, "; regret %s (chosen %s%s, best %s)",
                 regret_print(s->regret_least, s->regret, range),
                 s->regret_least < s->regret ? "among equal predictions, at worst " : "",
                 t->row[s->chosen].plan, t->row[s->best].plan);
    if (!isnan(s->regret_first) && s->plans > REGRET_FIRST)
        snprintf(first, sizeof first, ", %.2f %% where the first %d are run", 100 * s->regret_first,
                 REGRET_FIRST);
    if (s->plans < COMPARE_RANKED)
        snprintf(lost, sizeof lost, "; tau and regret need %d plans", COMPARE_RANKED);
    snprintf(text, VALIDATE_TEXT,
             "%s against %s%s%.60s: %zu plan%s; absolute error: median %.2f %%, worst %.2f %% "
             "(%s)%s%s%s",
             s->predicted_by, s->measured_by, s->platform ? " on " : "",
             s->platform ? s->platform : "", s->plans, s->plans == 1 ? "" : "s",
             100 * s->median_error, 100 * s->worst_error, t->row[s->worst].plan, tau, lost, first);
    return text;
}

/* What runs of this engine can do about other programs. */
static const char *noise_advice(const char *engine)
{
    if (!strcmp(engine, "tcp") || !strcmp(engine, "mpi"))
        return "stop other work, or use --compute paced or --engine netns";
    return strstr(engine, "-paced") ? "stop other work, or use --engine netns"
                                    : "stop other work and run the plans again";
}

const char *validate_noise(const struct validate_table *t, char text[VALIDATE_TEXT])
{
    static const double usual = 0.1; /* quartiles of an idle machine are nearer */
    const struct validate_summary *last = NULL, *noisy = NULL;
    if (t->summaries > 0)
        last = &t->summary[t->summaries - 1];
    for (size_t i = 0; i < t->summaries; i++) {
        const struct validate_summary *s = &t->summary[i];
        if (!s->platform && !strcmp(s->predicted_by, last->predicted_by) &&
            2 * s->noisy >= s->plans && s->spread > usual)
            noisy = s;
    }
    if (!noisy)
        return NULL;
    snprintf(text, VALIDATE_TEXT,
             "noise: the runs of %zu of %zu plan%s differ by more than their error (quartiles "
             "%.0f %% of the median): the machine is too busy to judge these predictions; %s",
             noisy->noisy, noisy->plans, noisy->plans == 1 ? "" : "s", 100 * noisy->spread,
             noise_advice(noisy->measured_by));
    return text;
}

void validate_print(const struct validation *v, const struct validate_table *t, FILE *out)
{
    char text[VALIDATE_TEXT];
    int width = 6;
    for (size_t i = 0; i < t->rows; i++) {
        int length = (int)strlen(t->row[i].plan);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < t->summaries; i++)
        fprintf(out, "# %s\n", validate_describe(t, &t->summary[i], text));
    if (validate_noise(t, text))
        fprintf(out, "# %s\n", text);
    fprintf(out, "%-*s\tengine\truns\tsamples\tmeasured_s\tq1_s\tq3_s", width, "# plan");
    for (size_t k = 0; k < VALIDATE_ENGINES; k++)
        fprintf(out, "\t%s_s\terror_%%", validate_engine(k)->name);
    putc('\n', out);
    for (size_t i = 0; i < t->rows; i++) {
        const struct validate_row *r = &t->row[i];
        text_put_guard(out, r->plan);
        fprintf(out, "%-*s\t%s\t%zu\t%.6g\t%.6g\t%.6g\t%.6g", width, r->plan, r->engine, r->runs,
                r->samples, r->measured_s, r->low_s, r->high_s);
        for (size_t k = 0; k < VALIDATE_ENGINES; k++)
            if (isnan(r->error[k]))
                fprintf(out, "\t-\t-");
            else
                fprintf(out, "\t%.6g\t%+.2f", r->predicted_s[k], 100 * r->error[k]);
        putc('\n', out);
    }
    for (size_t i = 0; i < v->points; i++)
        if (v->point[i].failure)
            fprintf(out, "# failed: %s: %s\n", v->point[i].name, v->point[i].failure);
}
