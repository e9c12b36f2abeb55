/* Iteration time as bars, a group for each plan and a colour for each engine: predictions first,
 * each with its errors against the runs of the same plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/data/compare.h"
#include "plots/cells.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/plot.h"
#include "plots/stack.h"

enum { ERROR_ROOM = 24 };

/* One bar: a plan by an engine. */
struct bar {
    size_t plan;        /* file that is first about this plan */
    const char *engine; /* borrowed */
    size_t files;       /* how many */
    double seconds;     /* their median */
    double spread[2];   /* ends of an error bar in seconds; NAN: none */
    size_t run, runs;   /* of a prediction: the bars of the plan's runs */
};

static size_t first_of_plan(const struct measurement *m, size_t i)
{
    size_t k = 0;
    while (!measurement_same_plan(&m[k], &m[i]) && k < i)
        k++;
    return k;
}

static bool is_same_bar(const struct measurement *m, size_t a, size_t b)
{
    return strcmp(m[a].engine, m[b].engine) == 0 && first_of_plan(m, a) == first_of_plan(m, b);
}

/* The bar that file i is the first of; room [n]. */
static struct bar make_bar(const struct measurement *m, size_t n, size_t i, enum plot_errors errors,
                           double *room)
{
    struct bar b = {.plan = first_of_plan(m, i), .engine = m[i].engine, .spread = {NAN, NAN}};
    size_t k = 0;
    for (size_t j = i; j < n; j++)
        if (is_same_bar(m, i, j))
            room[k++] = m[j].iteration_s;
    b.files = k;
    b.seconds = median(room, k);
    if (errors == ERRORS_KIND || !errors_of(errors, room, k, b.spread))
        b.spread[0] = b.spread[1] = NAN;
    return b;
}

/* By plan, predictions before runs, then by engine. */
static int compare_bars(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;
    if (x->plan != y->plan)
        return x->plan < y->plan ? -1 : 1;
    bool px = engine_predicts(x->engine), py = engine_predicts(y->engine);
    return px != py ? py - px : strcmp(x->engine, y->engine);
}

static enum status make_bars(const struct measurement *m, const char *const *name, size_t n,
                             enum plot_errors errors, struct bar *bar, size_t *bars)
{
    enum status st = STATUS_OK;
    double *room;
    PASS(ARRAY_NEW(room, n + 1));
    *bars = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!m[i].engine || !(m[i].iteration_s > 0 && isfinite(m[i].iteration_s)))
            FAIL(STATUS_INVALID, "%s: measurement has no %s", name[i],
                 m[i].engine ? "iteration time" : "engine");
        while (k < i && !is_same_bar(m, k, i))
            k++;
        if (k == i)
            bar[(*bars)++] = make_bar(m, n, i, errors, room);
    }
    qsort(bar, *bars, sizeof *bar, compare_bars);
    for (size_t i = 0; i < *bars; i++) {
        for (size_t k = i; k < *bars && bar[k].plan == bar[i].plan; k++) {
            if (!engine_predicts(bar[i].engine) || engine_predicts(bar[k].engine))
                continue;
            bar[i].run = bar[i].runs++ > 0 ? bar[i].run : k;
        }
    }
out:
    free(room);
    return st;
}

/* A bar's plan, its file where it has no plan. */
static const char *bar_plan(const struct measurement *m, const char *const *name,
                            const struct bar *b)
{
    const char *plan = m[b->plan].plan;
    return plan && *plan ? plan : name[b->plan];
}

/* What is drawn. */
struct bar_drawing {
    const struct measurement *m;
    const char *const *name;
    struct bar *bar;
    size_t n, engines;
    bool several;                   /* kinds of runs of one plan */
    const struct plot_style *style; /* NULL: none */
    char shared[STYLE_NAME];        /* by all names */
    struct figure_key engine[STACK_PARTS];
};

/* Of a prediction against its plan's k-th run. */
static double bars_error(const struct bar_drawing *b, const struct bar *of, size_t k)
{
    return of->seconds / b->bar[of->run + k].seconds - 1;
}

static void bars_put_table(const void *context, FILE *table)
{
    const struct bar_drawing *b = context;
    bool errors = b->style && b->style->errors > ERRORS_NONE;
    fprintf(table, "# plan\tengine\titeration_s\terror\tfiles%s\n", errors ? "\tlow\thigh" : "");
    for (size_t i = 0; i < b->n; i++) {
        char text[STACK_NAME];
        style_plan_name(bar_plan(b->m, b->name, &b->bar[i]), text, STACK_NAME);
        figure_put_field(table, text);
        putc('\t', table);
        figure_put_field(table, b->bar[i].engine);
        fprintf(table, "\t%.9g\t", b->bar[i].seconds);
        for (size_t k = 0; k < b->bar[i].runs; k++)
            fprintf(table, "%s%.6g", k ? "," : "", bars_error(b, &b->bar[i], k));
        if (b->bar[i].runs == 0)
            putc('-', table);
        fprintf(table, "\t%zu", b->bar[i].files);
        if (errors && b->bar[i].spread[1] > b->bar[i].spread[0])
            fprintf(table, "\t%.9g\t%.9g", b->bar[i].spread[0], b->bar[i].spread[1]);
        else if (errors)
            fputs("\t-\t-", table);
        putc('\n', table);
    }
}

/* The engine's place among the colours, taken when it is new; STACK_PARTS: none is left. */
static size_t find_engine(struct bar_drawing *b, const char *engine)
{
    static const char *const other[] = {"#E69F00", "#D55E00", "#009E73", "#F0E442", "#999933"};
    size_t k = 0, runs = 0;
    for (; k < b->engines && strcmp(b->engine[k].name, engine) != 0; k++)
        runs += !engine_predicts(b->engine[k].name);
    if (k == b->engines && k < STACK_PARTS) {
        bool again = !engine_predicts(engine) && runs > 0; /* several engines that run plans */
        b->engine[b->engines++] =
            (struct figure_key){engine,
                                again ? other[(runs - 1) % (sizeof other / sizeof *other)]
                                      : figure_engine_colour(engine),
                                0, 0};
    }
    return k;
}

/* A bar's time in its own unit, and its errors: by run, where there are several. */
static void print_value(const struct bar_drawing *bars, const struct bar *b, char text[STACK_VALUE])
{
    struct figure_unit own = figure_time_unit(b->seconds);
    size_t n = (size_t)snprintf(text, STACK_VALUE, "%.4g %s", b->seconds * own.per_s, own.name);
    for (size_t k = 0; k < b->runs && n + ERROR_ROOM < STACK_VALUE; k++) {
        double error = bars_error(bars, b, k);
        n += (size_t)snprintf(text + n, STACK_VALUE - n, "%s%s%.1f %%", k ? ", " : " (",
                              error < 0 ? "−" : "+", 100 * fabs(error));
    }
    if (b->runs > 0 && n + 1 < STACK_VALUE)
        snprintf(text + n, STACK_VALUE - n, ")");
}

/* The legend's engines first, so that there is an array of its length per bar. */
static enum status bars_fill(struct bar_drawing *b, struct stack *k, struct figure_unit unit)
{
    enum status st;
    const char **plan = NULL;
    for (size_t i = 0; i < b->n; i++)
        if (find_engine(b, b->bar[i].engine) == STACK_PARTS)
            return error_set(STATUS_INVALID,
                             "%s: got more than %d engines, the most that a figure shows",
                             b->name[b->bar[i].plan], STACK_PARTS);
    PASS(ARRAY_NEW(plan, b->n));
    TRY(stack_init(k, b->n, b->engines));
    for (size_t i = 0; i < b->n; i++) {
        const struct bar *bar = &b->bar[i];
        k->length[i * b->engines + find_engine(b, bar->engine)] = bar->seconds * unit.per_s;
        k->joined[i] = i > 0 && bar->plan == bar[-1].plan;
        k->low[i] = bar->spread[0] * unit.per_s;
        k->high[i] = bar->spread[1] * unit.per_s;
        plan[i] = bar_plan(b->m, b->name, bar);
        print_value(b, bar, k->value[i]);
        b->several = b->several || bar->runs > 1;
    }
    k->part = b->engine;
    st = style_names(b->style, b->n, plan, k->name, b->shared);
out:
    free(plan);
    return st;
}

/* STATUS_INVALID where error bars are asked for and no plan has enough files. */
static enum status write_bar_note(const struct bar_drawing *b, const char *file,
                                  char note[PLOT_NOTE])
{
    size_t most = 0;
    enum plot_errors errors = b->style ? b->style->errors : ERRORS_KIND;
    size_t least = errors == ERRORS_CI ? ERRORS_CI_LEAST : 2;
    for (size_t i = 0; i < b->n; i++)
        most = b->bar[i].files > most ? b->bar[i].files : most;
    if (errors > ERRORS_NONE && most < least)
        return error_set(STATUS_INVALID,
                         "%s: --error-bars %s needs at least %zu files of one plan and engine, but "
                         "there are at most %zu",
                         file, style_errors(errors), least, most);
    bool error_bars = errors > ERRORS_NONE;
    size_t n = (size_t)snprintf(
        note, PLOT_NOTE, "%s%s%s%s%s%s", most > 1 ? "; a bar is the median of its files" : "",
        error_bars ? "; error bars: " : "", error_bars ? errors_words(errors) : "",
        b->several ? "; errors: against each run below, in order" : "", *b->shared ? "; all: " : "",
        b->shared);
    memmove(note, note + (n > 0 ? 2 : 0), n > 0 ? n - 1 : 1);
    return STATUS_OK;
}

static enum status bars_draw_source(const struct measurement *m, const char *const *name, size_t n,
                                    const struct plot_style *style, const char *output,
                                    const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct bar_drawing b = {.m = m, .name = name, .style = style};
    struct stack k = {0};
    double longest_s = 0;
    char label[96], note[PLOT_NOTE];

    TRY(ARRAY_NEW(b.bar, n));
    TRY(make_bars(m, name, n, style ? style->errors : ERRORS_KIND, b.bar, &b.n));
    for (size_t i = 0; i < b.n; i++)
        longest_s = fmax(longest_s, b.bar[i].seconds);
    struct figure_unit unit = figure_time_unit(longest_s);
    TRY(bars_fill(&b, &k, unit));
    snprintf(label, sizeof label, "iteration%s%.40s (%s)", b.engines == 1 ? " by " : "",
             b.engines == 1 ? b.engine[0].name : "", unit.name);
    TRY(write_bar_note(&b, name[0], note));
    k.label = label;
    k.style = style;
    k.note = note;
    TRY(stack_draw(&k, output, by, bars_put_table, &b));
out:
    stack_free(&k);
    free(b.bar);
    return st;
}

enum status plot_bars(const struct measurement *m, const char *const *name, size_t n,
                      const char *output, const struct provenance *by)
{
    return bars_draw_source(m, name, n, NULL, output, by);
}

static enum status bars_draw(const struct plot_source *s, const char *output,
                             const struct provenance *by)
{
    return bars_draw_source(s->m, s->path, s->n, &s->style, output, by);
}

const struct plot_kind plot_bars_kind = {
    .name = "bars",
    .summary = "iteration time of every plan by every engine",
    .input = PLOT_MEASUREMENTS,
    .styles = STYLE_XLABEL | STYLE_SIZE | STYLE_LEGEND | STYLE_ERRORS | STYLE_ORDER,
    .draw = bars_draw,
};
