/* Predictions beside measurements: errors, rank correlation, regret. */
#include "core/data/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/base/text.h"

/* ---- statistics */

/* Times nearer than this, relatively, are ties: engines add up in different orders. */
static const double tie = 1e-9;

static int order_of(double a, double b)
{
    double least = tie * fmax(fabs(a), fabs(b));
    return (a - b > least) - (b - a > least);
}

/* Tau-b: pairs that are ordered alike minus those ordered differently, over the geometric mean
 * of the pairs that are not tied in x and in y. O(n^2).
 * Source: Kendall, Biometrika 33 (1945) 239-251. */
double kendall_tau(const double *x, const double *y, size_t n)
{
    double balance = 0, ordered_x = 0, ordered_y = 0; /* pairs */
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            int a = order_of(x[i], x[k]), b = order_of(y[i], y[k]);
            balance += a * b;
            ordered_x += a != 0;
            ordered_y += b != 0;
        }
    }
    if (ordered_x == 0 || ordered_y == 0)
        return NAN;
    return balance / sqrt(ordered_x * ordered_y);
}

/* The plan that is chosen behind those before it: of equals the slowest, or the fastest. */
static size_t regret_next(const double *predicted, const double *measured, size_t n, bool fastest,
                          const size_t *before, size_t befores)
{
    double least = INFINITY;
    size_t chosen = n;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n; i++) {
            bool is_before = false;
            for (size_t k = 0; k < befores; k++)
                is_before |= before[k] == i;
            if (is_before)
                continue;
            if (pass == 0)
                least = fmin(least, predicted[i]);
            else if (predicted[i] <= least * (1 + tie) &&
                     (chosen == n ||
                      (fastest ? measured[i] < measured[chosen] : measured[i] > measured[chosen])))
                chosen = i;
        }
    return chosen;
}

size_t regret_chosen(const double *predicted, const double *measured, size_t n)
{
    return regret_next(predicted, measured, n, false, NULL, 0);
}

/* What is lost by running the plans that are predicted to be fastest, in parts of the best one. */
static double regret_of(const double *predicted, const double *measured, size_t n, bool fastest,
                        size_t first)
{
    size_t chosen[REGRET_FIRST];
    double best = measured[0], kept = INFINITY;
    for (size_t i = 1; i < n; i++)
        best = fmin(best, measured[i]);
    for (size_t k = 0; k < first && k < n; k++) {
        chosen[k] = regret_next(predicted, measured, n, fastest, chosen, k);
        kept = fmin(kept, measured[chosen[k]]);
    }
    return kept / best - 1;
}

double regret(const double *predicted, const double *measured, size_t n, size_t first)
{
    return regret_of(predicted, measured, n, false, first);
}

double regret_least(const double *predicted, const double *measured, size_t n, size_t first)
{
    return regret_of(predicted, measured, n, true, first);
}

const char *regret_print(double least, double most, char text[REGRET_TEXT])
{
    char from[24] = "";
    if (least < most)
        snprintf(from, sizeof from, "%.2f to ", 100 * least);
    snprintf(text, REGRET_TEXT, "%s%.2f %%", from, 100 * most);
    return text;
}

/* Errors and ranking of all plans of a comparison; ranking needs COMPARE_RANKED plans. */
static enum status comparison_summarise(struct comparison *c)
{
    size_t n = c->plans;
    double *room, sum = 0;
    bool known = true;
    PASS(ARRAY_NEW(room, 3 * n));
    double *error = room, *predicted = room + n, *measured = predicted + n;
    for (size_t i = 0; i < n; i++)
        known = known && c->plan[i].samples > 0;
    for (size_t i = 0; i < n; i++) {
        double samples = known ? c->plan[i].samples : 1;
        error[i] = fabs(c->plan[i].error);
        predicted[i] = c->plan[i].predicted_s / samples;
        measured[i] = c->plan[i].measured_s / samples;
        sum += error[i];
    }
    qsort(error, n, sizeof *error, by_value);
    c->mean_abs_error = sum / (double)n;
    c->median_abs_error = quantile_sorted(error, n, 0.5);
    c->p95_abs_error = quantile_sorted(error, n, 0.95);
    c->kendall_tau = n < COMPARE_RANKED ? NAN : kendall_tau(predicted, measured, n);
    c->regret = n < COMPARE_RANKED ? NAN : regret(predicted, measured, n, 1);
    c->regret_least = n < COMPARE_RANKED ? NAN : regret_least(predicted, measured, n, 1);
    free(room);
    return STATUS_OK;
}

/* ---- pairing */

bool engine_predicts(const char *engine)
{
    return strcmp(engine, "analytic") == 0 || strcmp(engine, "simgrid") == 0 ||
           strcmp(engine, "ns3") == 0;
}

static bool comparison_has(const char *text)
{
    return text && *text;
}

/* Passes forward alone are another program of the plan. */
bool measurement_same_plan(const struct measurement *a, const struct measurement *b)
{
    if (a->forward_only != b->forward_only)
        return false;
    if (comparison_has(a->plan_sha256) && comparison_has(b->plan_sha256))
        return strcmp(a->plan_sha256, b->plan_sha256) == 0;
    return comparison_has(a->plan) && comparison_has(b->plan) && strcmp(a->plan, b->plan) == 0;
}

/* The fastest and the slowest step so far. */
static void comparison_spread(const struct measurement *m, struct compared_plan *out)
{
    for (size_t i = 0; i < m->iterations + (m->iterations == 0); i++) {
        double s = m->iterations > 0 ? m->iterations_s[i] : m->iteration_s;
        out->least_s = out->most_s > 0 ? fmin(out->least_s, s) : s;
        out->most_s = fmax(out->most_s, s);
    }
}

/* The runs of one plan by one engine. */
static enum status median_run(const struct measurement *m, size_t n, const struct measurement *plan,
                              const char *engine, bool *paired, struct compared_plan *out)
{
    size_t k = 0;
    double *time_s;
    PASS(ARRAY_NEW(time_s, n));
    for (size_t i = 0; i < n; i++) {
        if (strcmp(m[i].engine, engine) == 0 && measurement_same_plan(plan, &m[i])) {
            time_s[k++] = m[i].iteration_s;
            comparison_spread(&m[i], out);
            paired[i] = true;
        }
    }
    qsort(time_s, k, sizeof *time_s, by_value);
    out->runs = k;
    out->measured_s = k ? quantile_sorted(time_s, k, 0.5) : 0;
    free(time_s);
    return STATUS_OK;
}

/* What the runs of an engine were made on, each different line once. */
static enum status list_hardware(const struct measurement *m, size_t n, const char *engine,
                                 char **out)
{
    char one[MEASURED_HARDWARE], all[2 * MEASURED_HARDWARE] = "";
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(all);
        if (strcmp(m[i].engine, engine) != 0 || !*measurement_hardware(&m[i], one) ||
            strstr(all, one))
            continue;
        snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? " | " : "", one);
    }
    return *all ? text_copy(all, out) : STATUS_OK;
}

/* All plans that `predicted_by` predicts and `measured_by` ran. */
static enum status compare_engines(const struct measurement *m, size_t n, const char *predicted_by,
                                   const char *measured_by, bool *paired, struct comparison *c)
{
    PASS(text_copy(predicted_by, &c->predicted_by));
    PASS(text_copy(measured_by, &c->measured_by));
    PASS(list_hardware(m, n, measured_by, &c->measured_on));
    PASS(ARRAY_NEW(c->plan, n));
    for (size_t i = 0; i < n; i++) {
        struct compared_plan p = {.predicted_s = m[i].iteration_s,
                                  .samples = m[i].samples_per_s * m[i].iteration_s};
        if (strcmp(m[i].engine, predicted_by) != 0)
            continue;
        PASS(median_run(m, n, &m[i], measured_by, paired, &p));
        if (p.runs == 0)
            continue;
        p.error = p.predicted_s / p.measured_s - 1;
        paired[i] = true;
        PASS(text_copy(comparison_has(m[i].plan) ? m[i].plan : m[i].plan_sha256, &p.plan));
        c->plan[c->plans++] = p;
    }
    if (c->plans > 0)
        PASS(comparison_summarise(c));
    return STATUS_OK;
}

static void comparison_free(struct comparison *c)
{
    for (size_t i = 0; c->plan && i < c->plans; i++)
        free(c->plan[i].plan);
    free(c->plan);
    free(c->predicted_by);
    free(c->measured_by);
    free(c->measured_on);
    *c = (struct comparison){0};
}

void comparisons_free(struct comparisons *c)
{
    for (size_t i = 0; c->item && i < c->n; i++)
        comparison_free(&c->item[i]);
    free(c->item);
    free(c->paired);
    *c = (struct comparisons){0};
}

static enum status comparison_check(const struct measurement *m, const char *const *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!comparison_has(m[i].engine))
            return error_set(STATUS_INVALID,
                             "%s: measurement does not name an engine, expected key \"engine\"",
                             name[i]);
        if (!(m[i].iteration_s > 0 && isfinite(m[i].iteration_s)))
            return error_set(STATUS_INVALID,
                             "%s: iteration time is %g s, expected a finite number above 0",
                             name[i], m[i].iteration_s);
        for (size_t k = 0; k < i && engine_predicts(m[i].engine); k++) {
            if (strcmp(m[i].engine, m[k].engine) == 0 && measurement_same_plan(&m[i], &m[k]))
                return error_set(STATUS_INVALID,
                                 "%s and %s are both predictions of %s by %s; give one of them",
                                 name[k], name[i],
                                 comparison_has(m[i].plan) ? m[i].plan : "one plan", m[i].engine);
        }
    }
    return STATUS_OK;
}

/* Is i the first file of its engine? */
static bool first_of_engine(const struct measurement *m, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(m[k].engine, m[i].engine) == 0)
            return false;
    return true;
}

enum status compare_measurements(const struct measurement *m, const char *const *name, size_t n,
                                 struct comparisons *out)
{
    enum status st = STATUS_OK;
    struct comparisons c = {.files = n};
    size_t predictors = 0, engines = 0;

    TRY(comparison_check(m, name, n));
    for (size_t i = 0; i < n; i++) {
        predictors += first_of_engine(m, i) && engine_predicts(m[i].engine);
        engines += first_of_engine(m, i);
    }
    TRY(ARRAY_NEW(c.item, predictors * (engines - predictors)));
    TRY(ARRAY_NEW(c.paired, n));
    for (size_t i = 0; i < n; i++) {
        if (!first_of_engine(m, i) || !engine_predicts(m[i].engine))
            continue;
        for (size_t k = 0; k < n; k++) {
            if (!first_of_engine(m, k) || engine_predicts(m[k].engine))
                continue;
            struct comparison *item = &c.item[c.n++];
            TRY(compare_engines(m, n, m[i].engine, m[k].engine, c.paired, item));
            if (item->plans == 0) {
                comparison_free(item);
                c.n--;
            }
        }
    }
    if (c.n == 0)
        FAIL(STATUS_INFEASIBLE,
             "nothing to compare: none of the %zu files is a prediction (engine analytic or "
             "simgrid) of a plan that another file measured. Give both a measured run (foreline "
             "run -o, foreline measurement import) and its prediction (foreline simulate -o)",
             n);
    MOVE(out, c);
out:
    comparisons_free(&c);
    return st;
}
