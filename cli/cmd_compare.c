/* compare - plans or predictions side by side; predicted against measured iteration times. */
#include "cli/command.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "study/difference.h"

static const char details[] =
    "Of plans, predictions or runs: which is faster, memory, what of the plans differs, and where\n"
    "the time goes, what differs most first; of more than two, all of them, fastest first. Plan\n"
    "files are simulated, all alike. Where models or global batches differ, times are per token\n"
    "or sample.\n"
    "\n"
    "Of predictions and runs together, the predictions are judged.\n"
    "\n"
    "Pairs predictions (measurement files of the engines analytic and simgrid) with runs (of any\n"
    "other engine) of the same plan: equal plan_sha256, or equal plan path if a file has no hash.\n"
    "Several runs of a plan are compared by their median. Names the plan whose steps vary most;\n"
    "JSON has the fastest and slowest step of each plan.\n"
    "\n"
    "error is predicted / measured - 1. With three or more plans, kendall_tau is the rank\n"
    "correlation of predicted and measured times (1: same order, 0: none, -1: reversed; tau-b,\n"
    "ties corrected). regret is how much slower, per sample, the plan with the fastest prediction\n"
    "runs than the fastest plan; a range where several predictions are equally fast.\n"
    "\n"
    "Prints one block per pair of engines, with tab-separated columns and seconds per iteration.\n"
    "Names files without a counterpart on stderr. Exits with status 1 if nothing can be compared.";

static void compare_put_row(struct json_writer *w, const struct comparison *c)
{
    json_put_string(w, "engine", c->predicted_by);
    json_put_string(w, "measured_by", c->measured_by);
    if (c->measured_on)
        json_put_string(w, "measured_on", c->measured_on);
    json_open_array(w, "plans", false);
    for (size_t i = 0; i < c->plans; i++) {
        const struct compared_plan *p = &c->plan[i];
        json_open_object(w, NULL, true);
        json_put_string(w, "plan", p->plan);
        json_put_real(w, "predicted_s", p->predicted_s);
        json_put_real(w, "measured_s", p->measured_s);
        json_put_real(w, "error", p->error);
        json_put_integer(w, "runs", (int64_t)p->runs);
        json_put_real(w, "measured_min_s", p->least_s);
        json_put_real(w, "measured_max_s", p->most_s);
        json_close(w);
    }
    json_close(w);
    json_put_real(w, "mean_abs_error", c->mean_abs_error);
    json_put_real(w, "median_abs_error", c->median_abs_error);
    json_put_real(w, "p95_abs_error", c->p95_abs_error);
    json_put_real(w, "kendall_tau", c->kendall_tau);
    json_put_real(w, "regret", c->regret);
    json_put_real(w, "regret_least", c->regret_least);
}

/* The keys of the first comparison on top, all of them in "comparisons". */
static void compare_print_json(const struct comparisons *c)
{
    struct json_writer w = {.stream = stdout};
    json_open_object(&w, NULL, false);
    compare_put_row(&w, &c->item[0]);
    json_open_array(&w, "comparisons", false);
    for (size_t i = 0; i < c->n; i++) {
        json_open_object(&w, NULL, false);
        compare_put_row(&w, &c->item[i]);
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

static double compare_spread_of(const struct compared_plan *p)
{
    return (p->most_s - p->least_s) / p->measured_s;
}

/* The plan whose steps differ most. */
static void compare_print_spread(const struct comparison *c)
{
    const struct compared_plan *widest = &c->plan[0];
    for (size_t i = 1; i < c->plans; i++)
        widest = compare_spread_of(&c->plan[i]) > compare_spread_of(widest) ? &c->plan[i] : widest;
    if (compare_spread_of(widest) > 0)
        printf("# steps of a plan differ by up to %.1f %% (%s: %.6g to %.6g s)\n",
               100 * compare_spread_of(widest), widest->plan, widest->least_s, widest->most_s);
}

/* How well predictions choose among plans. */
static void compare_print_order(const struct comparison *c)
{
    if (c->plans < COMPARE_RANKED)
        return;
    char text[REGRET_TEXT];
    printf("# the plan predicted fastest is %s slower than the fastest (regret%s); ",
           regret_print(c->regret_least, c->regret, text),
           c->regret_least < c->regret ? ", several predictions are equal" : "");
    if (isnan(c->kendall_tau))
        puts("no order to compare");
    else
        printf("order of plans: Kendall tau %.3f\n", c->kendall_tau);
}

static void compare_print_table(const struct comparison *c)
{
    int width = 6;
    for (size_t i = 0; i < c->plans; i++) {
        size_t length = strlen(c->plan[i].plan);
        width = length > 60 ? 60 : (int)length > width ? (int)length : width;
    }
    printf("# predictions by %s are off by %.2f %% on average (median %.2f %%, p95 %.2f %%) of %zu "
           "plan%s run by %s\n",
           c->predicted_by, 100 * c->mean_abs_error, 100 * c->median_abs_error,
           100 * c->p95_abs_error, c->plans, c->plans == 1 ? "" : "s", c->measured_by);
    compare_print_order(c);
    if (c->measured_on)
        printf("# measured on %s\n", c->measured_on);
    printf("%-*s\tpredicted_s\tmeasured_s\terror_%%\truns\n", width, "# plan");
    for (size_t i = 0; i < c->plans; i++) {
        const struct compared_plan *p = &c->plan[i];
        text_put_guard(stdout, p->plan);
        printf("%-*s\t%-11.6g\t%-10.6g\t%+7.2f\t%4zu\n", width, p->plan, p->predicted_s,
               p->measured_s, 100 * p->error, p->runs);
    }
    compare_print_spread(c);
}

/* Predictions against runs. */
static enum status compare_pairs(const struct difference *d, bool json)
{
    struct comparisons c = {0};
    PASS(compare_measurements(d->m, d->path, d->n, &c));
    for (size_t i = 0; i < d->n; i++)
        if (!c.paired[i])
            fprintf(stderr,
                    "%s: not compared: no other file has a run or prediction of the same plan "
                    "(engine %s, plan %s)\n",
                    d->path[i], d->m[i].engine, d->m[i].plan ? d->m[i].plan : "unknown");
    if (json)
        compare_print_json(&c);
    for (size_t i = 0; i < c.n && !json; i++) {
        if (i > 0)
            putchar('\n');
        compare_print_table(&c.item[i]);
    }
    comparisons_free(&c);
    return STATUS_OK;
}

static enum status cmd_compare(struct invocation *in)
{
    enum status st;
    struct difference d = {0};
    if (in->operands < 2)
        return error_set(STATUS_USAGE, "compare needs at least two plans or measurement files");
    TRY(difference_read(&in->a, (const char *const *)in->operand, (size_t)in->operands, &d));
    if (d.predictions > 0 && d.runs > 0) {
        TRY(compare_pairs(&d, in->a.json));
    } else {
        TRY(difference_settle(&d));
        if (in->a.json)
            difference_print_json(&d, stdout);
        else
            difference_print(&d, stdout, stderr);
    }
out:
    difference_free(&d);
    return st;
}

const struct command command_compare = {
    .name = "compare",
    .synopsis = "PLAN|MEASUREMENT...",
    .summary = "what differs between plans, which is faster and why; predicted against measured",
    .details = details,
    .examples = "foreline compare plan.json tiny.json --engine analytic\n"
                "foreline compare predicted.json measured.json\n",
    .often = "engine framework forward-only json",
    .run = cmd_compare,
};
