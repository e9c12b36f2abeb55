/* Of the page about a sweep: all points as a table to choose from, each with the command that
 * repeats it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "plots/page.h"
#include "study/point.h"
#include "study/rank.h"
#include "study/report.h"

/* ---- commands */

/* Numbers that "fill" stood for, of a table's row; nothing is said where there was no plan. */
struct filled {
    const char *replicas, *engine;
};

static enum status point_plan_words(const struct point *p, const struct filled *by, FILE *to)
{
    static const taker_set planned = TAKES(PLAN_AUTO) | TAKES(PLAN_CUT);
    fputs("foreline plan", to);
    PASS(arguments_put(&p->a, planned, to));
    if (p->fill)
        fprintf(to, " --replicas=%s", by->replicas);
    if (p->fill_experts)
        fprintf(to, " --expert-parallel=%s", by->replicas);
    fputs(" -o plan.json\n", to);
    return STATUS_OK;
}

/* The lines of a shell that plan and predict, or run, a point; nothing for plans that are made in
 * noise, which no command makes. */
static enum status point_put_command(const struct point *p, const struct filled *by, FILE *to)
{
    const char *plan = p->a.plan_file ? p->a.plan_file : "plan.json";
    if (p->a.sim.noise > 0 || ((p->fill || p->fill_experts) && !*by->replicas))
        return STATUS_OK;
    if (!p->a.plan_file)
        PASS(point_plan_words(p, by, to));
    bool emulated = !strcmp(by->engine, "netns") || !strcmp(by->engine, "smpi");
    fprintf(to, "foreline %s %s --engine %s",
            p->engine  ? "simulate"
            : emulated ? "emulate"
                       : "run",
            plan, by->engine);
    return arguments_put(&p->a, p->engine ? TAKES(SIMULATE) : TAKES(RUN_REAL), to);
}

/* A row of words: without the folder in which the page is made, where its commands are to be run;
 * "&&" between its lines. */
static void put_words(char *text, FILE *to)
{
    char here[4096] = "";
    if (!getcwd(here, sizeof here - 1))
        *here = '\0';
    strcat(here, "/");
    size_t n = strlen(here);
    for (char *at = text; n > 1 && (at = strstr(at, here));)
        memmove(at, at + n, strlen(at + n) + 1);
    for (; *text; text++)
        if (*text == '\n')
            fputs("\t&&\t", to);
        else
            putc(*text == ' ' ? '\t' : (unsigned char)*text < ' ' ? ' ' : *text, to);
    putc('\n', to);
}

static enum status put_command_of(const struct experiment *e, size_t number,
                                  const struct filled *by, FILE *to)
{
    enum status st;
    const struct engine *engine = NULL;
    struct point p = {0};
    struct file_text t = {0};
    if (!point_engine_runs(by->engine))
        TRY(engine_find(by->engine, &engine));
    TRY(point_make(e, number, engine, &p));
    TRY(file_text_open(&t));
    TRY(file_text_close(&t, point_put_command(&p, by, t.stream)));
    put_words(t.text, to);
out:
    free(t.text);
    point_free(&p);
    return st;
}

static enum status put_commands(const struct experiment *e, const struct plot_table *t, FILE *to)
{
    size_t point, engine, replicas, status;
    PASS(table_column(t, "point", &point));
    PASS(table_column(t, "engine", &engine));
    PASS(table_column(t, "replicas", &replicas));
    PASS(table_column(t, "status", &status));
    for (size_t r = 0; r < t->rows; r++) {
        const struct filled by = {table_cell(t, r, replicas), table_cell(t, r, engine)};
        if (!strcmp(table_cell(t, r, status), point_status_names[POINT_IMPOSSIBLE]))
            putc('\n', to); /* what cannot be set has no command */
        else
            PASS(put_command_of(e, strtoull(table_cell(t, r, point), NULL, 10), &by, to));
    }
    return STATUS_OK;
}

/* Rows of words as a table: as many cells in each as the longest has. */
static enum status commands_table(const char *text, struct plot_table *out)
{
    enum status st;
    size_t most = 0, words = 1;
    struct file_text t;
    for (const char *c = text; *c; c++) {
        words = *c == '\n' ? 1 : words + (*c == '\t');
        most = words > most ? words : most;
    }
    TRY(file_text_open(&t));
    for (size_t i = 0; i < most; i++)
        fprintf(t.stream, "%sword%zu", i ? "\t" : "", i);
    putc('\n', t.stream);
    for (const char *c = text; *c; c++) {
        words = 1;
        for (; *c != '\n'; c++) {
            words += *c == '\t';
            putc(*c, t.stream);
        }
        for (; words < most; words++)
            putc('\t', t.stream);
        putc('\n', t.stream);
    }
    TRY(file_text_close(&t, STATUS_OK));
    TRY(most > 1 ? table_parse("commands", t.text, t.length, out) : STATUS_OK);
out:
    free(t.text);
    return st;
}

enum status report_points(struct report_page *p, const struct sweep *s, const struct plot_table *t)
{
    enum status st;
    struct file_text text;
    struct plot_table commands = {0};
    size_t status;
    TRY(table_column(t, "status", &status));
    TRY(file_text_open(&text));
    TRY(file_text_close(&text, put_commands(&s->e, t, text.stream)));
    TRY(commands_table(text.text, &commands));
    TRY(page_points(p->to, &(struct page_points){t, status, commands.rows > 0 ? &commands : NULL,
                                                 p->tokens, p->price}));
out:
    free(text.text);
    table_free(&commands);
    return st;
}
