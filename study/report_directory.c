/* A page about what is in a directory: measurements, traces and tables. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/data/breakdown.h"
#include "core/data/compare.h"
#include "core/data/model.h"
#include "model/zoo.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/page.h"
#include "study/report.h"
#include "study/report_files.h"

enum { MAX_DETAILS = 4 };

/* ---- the answer, in three sentences */

/* How many plans there are, and of how many models. */
static void count_plans(const struct contents *c, size_t *plans, size_t *models)
{
    *plans = *models = 0;
    for (size_t i = 0; i < c->measurements; i++) {
        const struct measurement *m = &c->m[i];
        bool plan = true, model = true;
        for (size_t k = 0; k < i; k++) {
            plan &= !measurement_same_plan(&c->m[k], m);
            model &= strcmp(c->m[k].model ? c->m[k].model : "", m->model ? m->model : "") != 0;
        }
        *plans += plan;
        *models += model;
    }
}

/* The fastest and the slowest step of all files alike (contents_alike) one of them. */
static void find_steps(const struct contents *c, size_t i, double *least_s, double *most_s)
{
    *least_s = INFINITY;
    *most_s = 0;
    for (size_t k = 0; k < c->measurements; k++)
        for (size_t n = 0; contents_alike(c, i, k) && n < c->m[k].iterations; n++) {
            *least_s = fmin(*least_s, c->m[k].iterations_s[n]);
            *most_s = fmax(*most_s, c->m[k].iterations_s[n]);
        }
}

/* How far steps are apart, over their median; 0 of one step. */
static double report_spread(const struct contents *c, size_t i)
{
    double least_s, most_s;
    find_steps(c, i, &least_s, &most_s);
    return most_s > least_s ? (most_s - least_s) / c->m[i].iteration_s : 0;
}

/* What a run says of its machine while it ran; "": nothing. */
static const char *busy_text(struct report_page *p, const struct measurement *m)
{
    for (size_t i = 0; i < m->warnings; i++)
        if (strstr(m->warning[i], "was not idle"))
            return report_text(p, " While it ran, %s.", m->warning[i]);
    return "";
}

/* Does the fastest lead by more than steps differ? Of plans that engines predict it does. */
static const char *noise_text(struct report_page *p, const struct contents *c)
{
    size_t first = c->order[0], second = c->representatives > 1 ? c->order[1] : first;
    const char *busy = busy_text(p, &c->m[first]);
    char name[128];
    if (second == first || !(c->samples_per_s[second] > 0) ||
        engine_predicts(c->m[first].engine) != engine_predicts(c->m[second].engine))
        return busy;
    double lead = c->samples_per_s[first] / c->samples_per_s[second] - 1;
    double apart = fmax(report_spread(c, first), report_spread(c, second));
    if (lead >= apart)
        return busy;
    return report_text(p,
                       " But that is not decided: it leads by %.3g %% (%s is the second), and "
                       "steps of the same plan are up to %.3g %% apart.%s",
                       100 * lead, contents_plan_name(c, second, name, sizeof name), 100 * apart,
                       busy);
}

/* How far predictions were off, by the pair of engines with most plans. */
static const char *errors_text(struct report_page *p, const struct contents *c,
                               const struct measured_expectation *expected)
{
    struct comparisons pairs = {0};
    const char *text =
        expected->runs > 0
            ? report_text(p,
                          "Nothing here was both predicted and run; of published runs half are "
                          "within %.0f %% of such predictions, nine in ten within %.0f %% (most "
                          "alike: %zu runs of %s).",
                          100 * expected->median, 100 * expected->nine_in_ten, expected->runs,
                          expected->of ? expected->of : "any framework")
            : "Nothing here was both predicted and run, so that how far predictions are off "
              "is not known.";
    if (compare_measurements(c->m, c->name, c->measurements, &pairs) != STATUS_OK)
        return text;
    const struct comparison *most = &pairs.item[0];
    for (size_t i = 1; i < pairs.n; i++)
        most = pairs.item[i].plans > most->plans ? &pairs.item[i] : most;
    text = report_text(p, "%s's predictions of %zu plan%s that %s ran are off by %.1f %% (median)",
                       most->predicted_by, most->plans, most->plans == 1 ? "" : "s",
                       most->measured_by, 100 * most->median_abs_error);
    text = most->plans < COMPARE_RANKED ? report_text(p, "%s; too few to rank plans by.", text)
           : most->regret > 0
               ? report_text(p,
                             "%s, and the plan that they choose is %s%.1f %% slower than the "
                             "fastest.",
                             text, most->regret_least < most->regret ? "up to " : "",
                             100 * most->regret)
               : report_text(p, "%s, and they choose the plan that is the fastest.", text);
    comparisons_free(&pairs);
    return text;
}

static struct report_speed speed_of(const struct contents *c, size_t i, char *name, size_t room)
{
    return (struct report_speed){contents_plan_name(c, i, name, room), (double)c->m[i].ranks,
                                 c->m[i].tokens_per_s, c->samples_per_s[i]};
}

/* Plans of one model on different numbers of GPUs: the best per GPU, of those that fit and are
 * predicted, or run, as the fastest is. "": all have as many, or none fits. */
static const char *per_gpu_text(struct report_page *p, const struct contents *c)
{
    char first[128], name[2][128];
    struct report_speed fastest = speed_of(c, c->order[0], first, sizeof first), each = fastest;
    bool differ = false, fits = measurement_overfull(&c->m[c->order[0]]) == 0;
    for (size_t k = 1; k < c->representatives; k++) {
        size_t i = c->order[k], spare = each.name == name[0];
        struct report_speed speed = speed_of(c, i, name[spare], sizeof name[spare]);
        if (engine_predicts(c->m[i].engine) != engine_predicts(c->m[c->order[0]].engine) ||
            !(speed.gpus > 0 && fastest.gpus > 0) ||
            (speed.tokens_per_s > 0) != (fastest.tokens_per_s > 0))
            continue;
        differ |= speed.gpus != fastest.gpus;
        if (measurement_overfull(&c->m[i]) > 0 ||
            (fits && !(report_each(&speed) > report_each(&each) * (1 + 1e-9))))
            continue;
        each = speed;
        fits = true;
    }
    return differ && fits ? report_per_gpu(p, &fastest, &each) : "";
}

/* Which plan is the fastest, how far that can be trusted, and what holds it back. */
static enum status report_directory_put_answer(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    size_t plans, models, best = c->representatives > 0 ? c->order[0] : SIZE_MAX;
    char plan[128], why[BREAKDOWN_TEXT];
    if (best == SIZE_MAX || !(c->samples_per_s[best] > 0)) {
        page_paragraph(p->to, "answer",
                       "No measurement here has the speed of a plan; the files found are below.");
        return STATUS_OK;
    }
    const struct measurement *m = &c->m[best];
    count_plans(c, &plans, &models);
    contents_plan_name(c, best, plan, sizeof plan);
    const char *first = report_text(
        p, plans > 1 ? "Of %zu plans%s the fastest is %s" : "There is %zu plan%s: %s", plans,
        models > 1 ? report_text(p, " of %zu models, whose samples differ,", models) : "", plan);
    const char *per_gpu = models == 1 ? per_gpu_text(p, c) : "";
    if (*per_gpu)
        first = report_text(p, "%s on %zu GPU%s", first, m->ranks, m->ranks == 1 ? "" : "s");
    report_say(p, "answer", "%s, %s an iteration and %.4g samples/s as %s by %s.%s%s %s %s %s.",
               first, report_quantity(p, UNIT_SECONDS, m->iteration_s), m->samples_per_s,
               engine_predicts(m->engine) ? "predicted" : "measured", m->engine, noise_text(p, c),
               per_gpu, errors_text(p, c, &m->expected),
               measurement_overfull(m) > 0
                   ? "It does not fit into memory, and what holds it back is"
                   : "What holds it back is",
               breakdown_bottleneck(m, why));
    return STATUS_OK;
}

/* ---- sections */

/* "from 278.6 ms to 620.8 ms", "" of one step. */
static const char *steps_text(struct report_page *p, const struct measurement *m)
{
    double least_s = INFINITY, most_s = 0;
    for (size_t i = 0; i < m->iterations; i++) {
        least_s = fmin(least_s, m->iterations_s[i]);
        most_s = fmax(most_s, m->iterations_s[i]);
    }
    return m->iterations < 2
               ? ""
               : report_text(p, "from %s to %s", report_quantity(p, UNIT_SECONDS, least_s),
                             report_quantity(p, UNIT_SECONDS, most_s));
}

/* MFU by a convention of FLOP, of models that are known by name; "": the file does not say. */
static const char *mfu_text(struct report_page *p, const struct measurement *m,
                            enum model_convention convention)
{
    struct model model = {0};
    if (!(m->mfu > 0) || !m->model || zoo_build(m->model, &model) != STATUS_OK)
        return "";
    double share = model_convention_flop(&model, convention) / model_sample_flop(&model);
    model_free(&model);
    return report_text(p, "%.1f %%", 100 * m->mfu * share);
}

/* Figures that decide come first, so that a narrow window shows them. DAYS and COST: only where
 * somebody asks. */
enum { DAYS = 5, COST, COLUMNS = 17 };

static void put_figures(struct report_page *p, const char *tag, const char *const cell[COLUMNS])
{
    const char *kept[COLUMNS];
    size_t n = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        if ((i != DAYS && i != COST) || (p->tokens > 0 && (i == DAYS || p->price > 0)))
            kept[n++] = cell[i];
    page_row(p->to, tag, kept, n);
}

static void put_measurement(struct report_page *p, const struct contents *c, size_t i)
{
    char each[TEXT_GROUPED] = "";
    const struct measurement *m = &c->m[i];
    if (m->tokens_per_s > 0)
        text_grouped(m->tokens_per_s / (double)m->ranks, each);
    put_figures(
        p, "td",
        (const char *const[COLUMNS]){
            c->name[i], report_text(p, "%zu", m->ranks),
            report_quantity(p, UNIT_SECONDS, m->iteration_s),
            report_text(p, "%.4g /s", m->samples_per_s), report_text(p, "%s", each),
            report_days(p, m->tokens_per_s), report_cost(p, m->tokens_per_s, (double)m->ranks),
            measurement_fullest(m) == m->ranks ? ""
            : measurement_overfull(m) > 0      ? "does not fit"
                                               : "fits",
            m->mfu > 0 ? report_text(p, "%.1f %%", 100 * m->mfu) : "", mfu_text(p, m, MODEL_CAUSAL),
            mfu_text(p, m, MODEL_SQUARE), report_text(p, "%.1f %%", 100 * m->bubble_fraction),
            m->engine, steps_text(p, m), m->plan, m->model, m->platform});
}

static enum status put_measurements(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    if (c->measurements == 0)
        return STATUS_OK;
    page_heading(p->to, "Setup and figures");
    page_table_open(p->to, "Measurements");
    put_figures(p, "th",
                (const char *const[COLUMNS]){"file", "GPUs", "iteration", "samples", "tokens/s/GPU",
                                             p->tokens > 0 ? report_tokens(p) : "", "cost",
                                             "memory", "MFU, as counted", "MFU, causal half",
                                             "MFU, full square", "bubble", "engine", "steps",
                                             "plan", "model", "platform"});
    for (size_t i = 0; i < c->measurements; i++)
        put_measurement(p, c, i);
    page_table_close(p->to);
    for (size_t k = 0; k < c->representatives && k < MAX_DETAILS; k++) {
        char text[BREAKDOWN_TEXT], hardware[MEASURED_HARDWARE];
        size_t i = c->order[k];
        report_say(p, "", "%s: %s", c->name[i], breakdown_bottleneck(&c->m[i], text));
        if (*measurement_hardware(&c->m[i], hardware))
            report_say(p, "", "%s: measured on %s.", c->name[i], hardware);
    }
    return STATUS_OK;
}

/* Pairs as `foreline compare` makes them; nothing when nothing pairs. */
static enum status report_directory_put_comparison(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    struct comparisons pairs = {0};
    if (compare_measurements(c->m, c->name, c->measurements, &pairs) != STATUS_OK)
        return STATUS_OK; /* nothing pairs */
    page_heading(p->to, "Predicted against measured");
    page_table_open(p->to, "Predicted against measured");
    REPORT_ROW(p, "th", "plan", "predicted by", "measured by", "predicted", "measured", "error");
    for (size_t i = 0; i < pairs.n; i++)
        for (size_t k = 0; k < pairs.item[i].plans; k++) {
            const struct compared_plan *plan = &pairs.item[i].plan[k];
            REPORT_ROW(p, "td", plan->plan, pairs.item[i].predicted_by, pairs.item[i].measured_by,
                       report_quantity(p, UNIT_SECONDS, plan->predicted_s),
                       report_quantity(p, UNIT_SECONDS, plan->measured_s),
                       report_text(p, "%+.2f %%", 100 * plan->error));
        }
    page_table_close(p->to);
    for (size_t i = 0; i < pairs.n; i++) {
        const struct comparison *pair = &pairs.item[i];
        char regrets[REGRET_TEXT];
        const char *ranks = "";
        if (pair->plans >= COMPARE_RANKED)
            ranks = report_text(p, "; Kendall tau %.3f, regret %s", pair->kendall_tau,
                                regret_print(pair->regret_least, pair->regret, regrets));
        report_say(p, "",
                   "%s against %s: %zu plan%s, absolute error mean %.2f %%, median %.2f %%, 95th "
                   "percentile %.2f %%%s.",
                   pair->predicted_by, pair->measured_by, pair->plans, pair->plans == 1 ? "" : "s",
                   100 * pair->mean_abs_error, 100 * pair->median_abs_error,
                   100 * pair->p95_abs_error, ranks);
    }
    comparisons_free(&pairs);
    return STATUS_OK;
}

static enum status put_picture(struct report_page *p, const char *name, const char *const *path,
                               size_t n, const char *caption)
{
    const struct plot_request request = {.path = path, .n = n};
    return report_plot(p, name, &request, caption);
}

static enum status put_pictures(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    if (c->measurements == 0)
        return STATUS_OK;
    page_heading(p->to, "Pictures");
    PASS(put_picture(p, "scatter", c->name, c->measurements, "Predicted against measured"));
    PASS(put_picture(p, "bars", c->name, c->measurements, "Iteration time by plan and engine"));
    PASS(put_picture(p, "breakdown", c->name, c->measurements < 40 ? c->measurements : 40,
                     "Where an iteration goes"));
    for (size_t k = 0; k < c->representatives && k < MAX_DETAILS; k++) {
        size_t i = c->order[k];
        PASS(put_picture(p, "memory", &c->name[i], 1, report_text(p, "Memory: %s", c->name[i])));
    }
    return STATUS_OK;
}

/* Traces of few enough ops for a browser, those of the first plans; else the reason. */
static enum status put_timelines(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    const char *path[MAX_DETAILS];
    size_t n = 0;
    for (; n < c->traces && n < MAX_DETAILS; n++)
        path[n] = c->file[c->trace[n]].path;
    if (n == 0)
        return STATUS_OK;
    page_heading(p->to, "Timelines");
    for (size_t k = 0; k < n; k++)
        report_say(p, "", "%c: %s", (int)('A' + k), path[k]);
    enum status st = page_timeline(p->to, path, n);
    if (st != STATUS_INVALID)
        return st;
    page_paragraph(p->to, "warning", error_message()); /* too many ops */
    return STATUS_OK;
}

/* A file of JSON as it is, where it is not too large to be in a page; else null. */
static enum status put_json(const char *path, FILE *to)
{
    enum { MOST_BYTES = 16 << 20 };
    char *text = NULL;
    size_t length = 0;
    if (path)
        PASS(file_read(path, &text, &length));
    bool plain = text && length <= MOST_BYTES && text[strspn(text, " \t\r\n")] == '{';
    fputs(plain ? text : "null", to);
    free(text);
    return STATUS_OK;
}

/* What the command of a measurement wrote besides. */
static const char *written_with(const struct contents *c, size_t i, enum what what)
{
    for (size_t k = 0; k < c->n; k++)
        if (c->file[k].what == what && c->file[k].command && c->command[i] &&
            !strcmp(c->file[k].command, c->command[i]))
            return c->file[k].path;
    return NULL;
}

static enum status put_simulation(struct report_page *p, const struct contents *c, size_t i)
{
    enum status st;
    struct file_text t;
    TRY(file_text_open(&t));
    struct json_writer w = {.stream = t.stream};
    fputs("{\"name\": ", t.stream);
    json_put_string(&w, NULL, c->name[i]);
    fputs(", \"m\": ", t.stream);
    st = put_json(c->name[i], t.stream);
    fputs(", \"timeline\": ", t.stream);
    if (st == STATUS_OK)
        st = put_json(written_with(c, i, TIMELINE), t.stream);
    putc('}', t.stream);
    TRY(file_text_close(&t, st));
    page_data(p->to, "simulation", t.text);
out:
    free(t.text);
    return st;
}

/* Links, ranks and collectives of the first plans; every op and memory over time of predictions
 * whose timeline is there. */
static enum status put_simulations(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    for (size_t k = 0; k < c->representatives && k < MAX_DETAILS; k++) {
        size_t i = c->order[k];
        if (k == 0)
            page_heading(p->to, "Links, ranks and memory");
        PASS(put_simulation(p, c, i));
        for (size_t j = 0; j < c->measurements && !written_with(c, i, TIMELINE); j++)
            if (written_with(c, j, TIMELINE) && measurement_same_plan(&c->m[i], &c->m[j])) {
                PASS(put_simulation(p, c, j));
                break;
            }
    }
    return STATUS_OK;
}

/* Is it a table of how fast something is? One of errors is not. */
static bool has_rates(const struct plot_table *t)
{
    for (size_t c = 0; c < t->columns; c++)
        if (!strcmp(t->name[c], "samples_per_s") || !strcmp(t->name[c], "tokens_per_s") ||
            !strcmp(t->name[c], "iteration_s"))
            return true;
    return false;
}

/* Each table with the pictures that can be drawn of it. What is no table (a log) is named and left
 * out. */
static enum status put_tables(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    for (size_t i = 0; i < c->n; i++) {
        struct plot_table t = {0};
        const char *path = c->file[i].path;
        if (c->file[i].what != TABLE)
            continue;
        page_heading(p->to, path);
        enum status st = table_read(path, &t);
        if (st == STATUS_PARSE) {
            page_paragraph(p->to, "warning", error_message());
            continue;
        }
        PASS(st);
        bool rates = has_rates(&t);
        st = page_points(p->to, &(struct page_points){.rows = &t});
        table_free(&t);
        PASS(st);
        if (rates) {
            PASS(put_picture(p, "throughput", &path, 1, "Throughput"));
            PASS(put_picture(p, "regret", &path, 1, "Behind the best"));
        }
    }
    return STATUS_OK;
}

static enum status report_directory_put_warnings(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    bool any = false;
    for (size_t i = 0; i < c->measurements; i++)
        for (size_t k = 0; k < c->m[i].warnings; k++) {
            if (!any)
                page_heading(p->to, "Warnings");
            any = true;
            report_say(p, "warning", "%s: %s", c->name[i], c->m[i].warning[k]);
        }
    return STATUS_OK;
}

/* Hashes of all files, so that a page can be checked against its folder. */
static enum status report_directory_put_provenance(struct report_page *p, const void *what)
{
    const struct contents *c = what;
    report_made_by(p);
    page_table_open(p->to, "Files");
    REPORT_ROW(p, "th", "file", "SHA-256");
    for (size_t i = 0; i < c->n; i++) {
        char hash[DIGEST_HEX];
        PASS(digest_file(c->file[i].path, hash));
        REPORT_ROW(p, "td", c->file[i].path, hash);
    }
    page_table_close(p->to);
    return STATUS_OK;
}

static const struct report_section sections[] = {
    {NULL, report_directory_put_answer},
    {NULL, put_measurements},
    {NULL, report_directory_put_comparison},
    {NULL, put_pictures},
    {NULL, put_timelines},
    {NULL, put_simulations},
    {NULL, put_tables},
    {NULL, report_directory_put_warnings},
    {"Where this comes from", report_directory_put_provenance},
};

enum status report_directory(struct report_page *p, const char *directory)
{
    enum status st;
    struct contents c = {0};
    TRY(contents_read(directory, &c));
    TRY(report_sections(p, directory, sections, sizeof sections / sizeof *sections, &c));
out:
    contents_free(&c);
    return st;
}
