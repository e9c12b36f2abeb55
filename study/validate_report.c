/* The report of a validation in Markdown, with its table and pictures. */
#include "study/validate.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/units.h"
#include "core/data/compare.h"
#include "plots/plot.h"

/* Text of others: in a line or a cell of Markdown, or between back quotes. */
static void validate_report_put_text(FILE *out, const char *text)
{
    for (; text && *text; text++) {
        if (strchr("|\\`*_<>[]", *text))
            putc('\\', out);
        putc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static void put_code(FILE *out, const char *text)
{
    putc('`', out);
    for (; *text; text++)
        putc((unsigned char)*text < ' ' || *text == '`' ? ' ' : *text, out);
    putc('`', out);
}

/* A row of two cells; the second one as `put` writes it. */
static void put_pair(FILE *out, const char *key, void (*put)(FILE *out, const char *text),
                     const char *value)
{
    fprintf(out, "| %s | ", key);
    put(out, value);
    fputs(" |\n", out);
}

/* ---- what was done */

/* Axes that make plans; what else there is stands in the row about runs. */
static void put_grid(FILE *out, const struct experiment *e)
{
    static const char plan[] = "plan.";
    static const char *const apart[] = {"plan",    "engine", "seed",  "device",
                                        "compute", "steps",  "warmup"};
    for (size_t a = 0; a < e->axes; a++) {
        const struct experiment_axis *axis = &e->axis[a];
        bool left_out = false, code = !strcmp(axis->name, "model");
        for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
            left_out |= !strcmp(axis->name, apart[i]);
        if (left_out)
            continue;
        size_t skip = !strncmp(axis->name, plan, sizeof plan - 1) ? sizeof plan - 1 : 0;
        fprintf(out, "| %s | ", axis->name + skip);
        for (size_t i = 0; i < axis->n; i++) {
            fputs(i ? ", " : "", out);
            (code ? put_code : validate_report_put_text)(out, axis->choice[i].label);
        }
        fputs(" |\n", out);
    }
}

static void put_machine(FILE *out, const struct validate_setup *s)
{
    char memory[UNITS_TEXT];
    fputs("| machine | ", out);
    validate_report_put_text(out, s->host);
    fputs(": ", out);
    validate_report_put_text(out, s->cpu);
    fprintf(out, ", %lld cores, %s |\n", (long long)s->cores,
            units_print(UNIT_BYTES, (double)s->memory_bytes, memory));
    put_pair(out, "kernel", validate_report_put_text, s->kernel);
}

/* The order of things is what makes the comparison honest, so that it is told with its times. */
static void put_protocol(FILE *out, const struct validate_job *job, const struct validate_setup *s)
{
    fprintf(out,
            "\n## Order of things\n\n"
            "1. %s: plans and predictions begun.\n"
            "2. %s: all predictions complete, before the first measurement. `predictions.tsv` "
            "lists them with their SHA-256; its own is `%s`.\n",
            s->began, s->predicted, s->hash);
    if (!s->measured) {
        fputs("3. No run was made.\n", out);
        return;
    }
    fprintf(out,
            "3. %s: first run. %zu runs, logged in `runs.tsv`: each repeat runs every plan once, "
            "in an order shuffled by seed %llu.\n"
            "\nLoad average (1 minute) when a run began: least %.2f, median %.2f, greatest %.2f.\n",
            s->measured, s->runs, (unsigned long long)job->seed, s->load[0], s->load[1],
            s->load[2]);
}

/* What was asked for, on which machine, by which command. */
static void validate_report_put_setup(FILE *out, const struct validate_job *job,
                                      const struct validate_setup *s)
{
    const struct point_run *r = &job->run;
    fputs("\n## Setup\n\n| | |\n|---|---|\n", out);
    put_grid(out, &job->e);
    bool emulated = !strcmp(r->engine, "netns") || !strcmp(r->engine, "smpi");
    fprintf(out,
            "| runs | engine %s, device %s, compute %s; repeats %zu, of %zu steps after %zu |\n",
            r->engine, emulated ? "none" : r->launch.device,
            r->compute ? r->compute
            : emulated ? "paced"
                       : "real where the CPU can",
            job->repeats, r->launch.steps, r->launch.warmup);
    fprintf(out, "| seed | %llu |\n", (unsigned long long)job->seed);
    put_machine(out, s);
    put_pair(out, "version", validate_report_put_text, s->version);
    put_pair(out, "command", put_code, s->command);
    put_protocol(out, job, s);
}

/* Measurement files of others: predictions come after them, and the report says so. */
static void put_foreign_setup(FILE *out, const struct validation *v, const struct provenance *by)
{
    size_t runs = 0;
    for (size_t i = 0; i < v->files; i++)
        runs += !engine_predicts(v->m[i].engine);
    fputs("\n## Setup\n\n| | |\n|---|---|\n", out);
    fprintf(out, "| runs | %zu measurement files, made before |\n", runs);
    put_pair(out, "version", validate_report_put_text, by->version);
    put_pair(out, "command", put_code, by->command);
    fputs("\nThe predictions were made after the measurements, from the plan files that these name "
          "(SHA-256 compared).\n",
          out);
}

/* ---- what came out */

/* A row per plan and running engine, then the summaries in words. */
static void validate_report_put_table(FILE *out, const struct validate_table *t)
{
    char a[UNITS_TEXT], b[UNITS_TEXT], c[UNITS_TEXT];
    fputs("\n## Result\n\n| plan | run by | runs | samples | measured | quartiles |", out);
    for (size_t k = 0; k < VALIDATE_ENGINES; k++)
        fprintf(out, " %s | error |", validate_engine(k)->name);
    fputs("\n|---|---|--:|--:|--:|---|", out);
    for (size_t k = 0; k < VALIDATE_ENGINES; k++)
        fputs("--:|--:|", out);
    putc('\n', out);
    for (size_t i = 0; i < t->rows; i++) {
        const struct validate_row *r = &t->row[i];
        fputs("| ", out);
        validate_report_put_text(out, r->plan);
        fputs(" | ", out);
        validate_report_put_text(out, r->engine);
        fprintf(out, " | %zu | %.6g | %s | %s to %s |", r->runs, r->samples,
                units_print(UNIT_SECONDS, r->measured_s, a), units_print(UNIT_SECONDS, r->low_s, b),
                units_print(UNIT_SECONDS, r->high_s, c));
        for (size_t k = 0; k < VALIDATE_ENGINES; k++) {
            if (isnan(r->error[k]))
                fputs(" | |", out);
            else
                fprintf(out, " %s | %+.2f %% |", units_print(UNIT_SECONDS, r->predicted_s[k], a),
                        100 * r->error[k]);
        }
        putc('\n', out);
    }
    fputs("\nMeasured: iteration time, median of the runs' medians; quartiles of all iterations of "
          "all runs. Error: predicted / measured - 1.\n\n",
          out);
    char text[VALIDATE_TEXT];
    for (size_t i = 0; i <= t->summaries; i++) {
        const char *line =
            i < t->summaries ? validate_describe(t, &t->summary[i], text) : validate_noise(t, text);
        if (!line)
            continue;
        fputs("* ", out);
        validate_report_put_text(out, line);
        putc('\n', out);
    }
    fputs("\nTau and regret are about the time per sample. Regret: how much slower the plan is "
          "that is predicted to be fastest than the one that was; where the first are run, the "
          "fastest of them.\n",
          out);
}

/* Nothing is dropped: what has no row is named with its reason. */
static void put_failures(FILE *out, const struct validation *v)
{
    size_t failures = 0;
    for (size_t i = 0; i < v->points; i++) {
        if (!v->point[i].failure)
            continue;
        fputs(failures++ ? "* " : "\n## Failed\n\n* ", out);
        validate_report_put_text(out, v->point[i].name);
        fputs(": ", out);
        validate_report_put_text(out, v->point[i].failure);
        putc('\n', out);
    }
}

/* Equal but for their numbers? Warnings of many runs differ in figures alone. */
static bool alike(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isdigit((unsigned char)*a) || *a == '.')
            a++;
        while (isdigit((unsigned char)*b) || *b == '.')
            b++;
        if (*a != *b || !*a)
            return *a == *b;
    }
}

/* How many of the warnings from (i, k) on are like it; 0 when an earlier one is. */
static size_t count_alike(const struct validation *v, size_t i, size_t k)
{
    size_t n = 0;
    for (size_t j = 0; j < v->files; j++)
        for (size_t l = 0; l < v->m[j].warnings; l++) {
            if (!alike(v->m[j].warning[l], v->m[i].warning[k]))
                continue;
            if (j < i || (j == i && l < k))
                return 0;
            n++;
        }
    return n;
}

void validate_print_warnings(const struct validation *v, FILE *out)
{
    for (size_t i = 0; i < v->files; i++)
        for (size_t k = 0; k < v->m[i].warnings; k++) {
            size_t n = count_alike(v, i, k);
            if (n > 0)
                fprintf(out, "warning: %s (in %zu of %zu predictions and runs)\n",
                        v->m[i].warning[k], n, v->files);
        }
}

/* Each kind of warning once, with the file that first has it and how many more there are. */
static void validate_report_put_warnings(FILE *out, const struct validation *v)
{
    bool any = false;
    for (size_t i = 0; i < v->files; i++)
        for (size_t k = 0; k < v->m[i].warnings; k++) {
            size_t n = count_alike(v, i, k);
            if (n == 0)
                continue;
            fputs(any ? "* " : "\n## Warnings\n\n* ", out);
            any = true;
            validate_report_put_text(out, v->m[i].warning[k]);
            fputs(" (", out);
            validate_report_put_text(out, v->file[i]);
            if (n > 1)
                fprintf(out, "; %zu more like this", n - 1);
            fputs(")\n", out);
        }
}

/* What the figures do not say, by what ran. */
static void put_limits(FILE *out, const struct validate_table *t)
{
    bool paced = false, simulated = false, emulated = false;
    for (size_t i = 0; i < t->rows; i++) {
        const char *engine = t->row[i].engine;
        simulated |= !strcmp(engine, "smpi");
        emulated |= !strcmp(engine, "netns");
        paced |= strstr(engine, "-paced") || simulated || emulated;
    }
    fputs("\n## Limits\n\n", out);
    if (paced)
        fputs(
            "* Compute was paced: ops took their predicted time, so errors are those of messages, "
            "schedules and overheads only.\n",
            out);
    if (simulated)
        fputs("* smpi is a second simulator, not a measurement.\n", out);
    if (emulated)
        fputs("* netns: the network was emulated on one machine.\n", out);
    fputs("* One machine, these plans: what holds here says nothing about other models or "
          "networks.\n"
          "* Plans of different batches are compared by time per sample, not by how well they "
          "train.\n",
          out);
}

static enum status write_report(const struct validate_outcome *o, bool drawn)
{
    size_t n = o->validation->points;
    struct file_out f;
    PASS(validate_create(o->directory, "report.md", &f));
    fprintf(f.stream,
            "# Predicted against measured\n\nHow far are the predictions from the iteration times "
            "of %zu plan%s, and do they choose the right one?\n",
            n, n == 1 ? "" : "s");
    if (o->job)
        validate_report_put_setup(f.stream, o->job, o->setup);
    else
        put_foreign_setup(f.stream, o->validation, o->by);
    validate_report_put_table(f.stream, o->table);
    if (drawn)
        fputs("\n![predicted against measured](scatter.svg)\n\n![iteration times](bars.svg)\n",
              f.stream);
    put_failures(f.stream, o->validation);
    validate_report_put_warnings(f.stream, o->validation);
    put_limits(f.stream, o->table);
    return file_commit(&f);
}

static enum status validate_report_write_results(const struct validation *v,
                                                 const struct validate_table *t,
                                                 const char *directory)
{
    struct file_out f;
    PASS(validate_create(directory, "results.tsv", &f));
    validate_print(v, t, f.stream);
    return file_commit(&f);
}

static enum status validate_report_draw(const struct validation *v, const char *directory,
                                        const struct provenance *by)
{
    char path[VALIDATE_PATH];
    const char *const *name = (const char *const *)v->file;
    PASS(validate_path(directory, "", "scatter", ".svg", path));
    PASS(plot_scatter(v->m, name, v->files, path, by));
    PASS(validate_path(directory, "", "bars", ".svg", path));
    return plot_bars(v->m, name, v->files, path, by);
}

/* The table first: it is there even when pictures fail. Without gnuplot there are no pictures, and
 * the report does not name any. */
enum status validate_report(const struct validate_outcome *o)
{
    bool drawn = o->table->rows > 0;
    PASS(validate_report_write_results(o->validation, o->table, o->directory));
    if (drawn) {
        enum status st = validate_report_draw(o->validation, o->directory, o->by);
        drawn = st == STATUS_OK;
        if (st == STATUS_EXTERNAL) /* no gnuplot: the numbers are there all the same */
            fprintf(o->notes, "no pictures: %s\n", error_message());
        else
            PASS(st);
    }
    return write_report(o, drawn);
}
