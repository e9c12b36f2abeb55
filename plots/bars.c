/* Iteration time as bars, a group for each plan: predictions first, each with its error against
 * the run of the same plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/compare.h"
#include "core/statistics.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/plot.h"

enum {
    BAR_HEIGHT = 20,
    GAP = 14, /* pixels between plans */
    NAME_ROOM = 32,
    VALUE_ROOM = 200 /* pixels right of the longest bar, for what is written there */
};

/* One bar: a plan by an engine. */
struct bar {
    size_t plan;        /* file that is first about this plan */
    const char *engine; /* borrowed */
    double seconds;     /* median */
    double error;       /* against the plan's first run; NAN without one, and for runs */
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
static struct bar make_bar(const struct measurement *m, size_t n, size_t i, double *room)
{
    struct bar b = {.plan = first_of_plan(m, i), .engine = m[i].engine, .error = NAN};
    size_t k = 0;
    for (size_t j = i; j < n; j++)
        if (is_same_bar(m, i, j))
            room[k++] = m[j].iteration_s;
    b.seconds = median(room, k);
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
                             struct bar *bar, size_t *bars)
{
    enum status st = STATUS_OK;
    double *room;
    PASS(ARRAY_NEW(room, n + 1));
    *bars = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        if (!m[i].engine || !(m[i].iteration_s > 0 && isfinite(m[i].iteration_s)))
            FAIL(STATUS_INVALID, "%s: no engine or no iteration time", name[i]);
        while (k < i && !is_same_bar(m, k, i))
            k++;
        if (k == i)
            bar[(*bars)++] = make_bar(m, n, i, room);
    }
    qsort(bar, *bars, sizeof *bar, compare_bars);
    for (size_t i = 0; i < *bars; i++) {
        for (size_t k = i; k < *bars && bar[k].plan == bar[i].plan; k++) {
            if (engine_predicts(bar[i].engine) && !engine_predicts(bar[k].engine)) {
                bar[i].error = bar[i].seconds / bar[k].seconds - 1;
                break;
            }
        }
    }
out:
    free(room);
    return st;
}

/* Name of a bar's plan, of its file where it has no plan. */
static void bar_name(const struct measurement *m, const char *const *name, const struct bar *b,
                     char text[NAME_ROOM])
{
    const char *plan = m[b->plan].plan;
    figure_plan_name(plan && *plan ? plan : name[b->plan], text, NAME_ROOM);
}

static void put_table(FILE *table, const struct measurement *m, const char *const *name,
                      const struct bar *bar, size_t bars)
{
    fprintf(table, "# plan\tengine\titeration_s\terror\n");
    for (size_t i = 0; i < bars; i++) {
        char text[NAME_ROOM];
        bar_name(m, name, &bar[i], text);
        figure_put_field(table, text);
        putc('\t', table);
        figure_put_field(table, bar[i].engine);
        fprintf(table, "\t%.9g\t", bar[i].seconds);
        if (isnan(bar[i].error))
            fprintf(table, "-\n");
        else
            fprintf(table, "%.6g\n", bar[i].error);
    }
}

/* Bars from top to bottom, each with what it is and its value behind it; y in pixels. */
static void put_bars(FILE *script, const struct measurement *m, const char *const *name,
                     const struct bar *bar, size_t bars, struct figure_unit unit)
{
    double y = GAP;
    for (size_t i = 0; i < bars; i++) {
        double end = bar[i].seconds * unit.per_s;
        if (i == 0 || bar[i].plan != bar[i - 1].plan) {
            char text[NAME_ROOM];
            size_t last = i;
            while (last + 1 < bars && bar[last + 1].plan == bar[i].plan)
                last++;
            y += i == 0 ? 0 : GAP;
            bar_name(m, name, &bar[i], text);
            fprintf(script, "set label ");
            figure_put_string(script, text);
            fprintf(script, " at first 0,%.9g right noenhanced offset character -1,0\n",
                    y + (double)(last - i + 1) * BAR_HEIGHT / 2);
        }
        fprintf(script,
                "set object rectangle from first 0,%.9g to first %.9g,%.9g "
                "fillcolor rgb '%s' fillstyle solid noborder\n",
                y + 1, end, y + BAR_HEIGHT - 1, figure_engine_colour(bar[i].engine));
        struct figure_unit own = figure_time_unit(bar[i].seconds);
        char error[32] = "", text[128];
        if (!isnan(bar[i].error))
            snprintf(error, sizeof error, "  (%s%.1f %%)", bar[i].error < 0 ? "−" : "+",
                     100 * fabs(bar[i].error));
        snprintf(text, sizeof text, "%.40s  %.4g %s%s", bar[i].engine, bar[i].seconds * own.per_s,
                 own.name, error);
        fprintf(script, "set label ");
        figure_put_string(script, text);
        fprintf(script, " at first %.9g,%.9g left noenhanced offset character 0.7,0\n", end,
                y + BAR_HEIGHT / 2.0);
        y += BAR_HEIGHT;
    }
}

static struct figure_geometry geometry(const struct measurement *m, const char *const *name,
                                       const struct bar *bar, size_t bars, int *axis_height)
{
    int longest = 0, plans = 0;
    for (size_t i = 0; i < bars; i++) {
        char text[NAME_ROOM];
        bar_name(m, name, &bar[i], text);
        longest = (int)strlen(text) > longest ? (int)strlen(text) : longest;
        plans += i == 0 || bar[i].plan != bar[i - 1].plan;
    }
    struct figure_geometry g = {.width = FIGURE_WIDTH,
                                .left = 24 + longest * FIGURE_CHARACTER,
                                .right = 16,
                                .top = 8,
                                .bottom = 62};
    *axis_height = (int)bars * BAR_HEIGHT + (plans + 1) * GAP;
    g.height = g.top + g.bottom + *axis_height;
    return g;
}

enum status plot_bars(const struct measurement *m, const char *const *name, size_t n,
                      const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct figure f = {0};
    size_t bars = 0;
    double longest_s = 0;
    int axis_height;
    char label[32];
    struct bar *bar = NULL;

    TRY(ARRAY_NEW(bar, n));
    TRY(make_bars(m, name, n, bar, &bars));
    for (size_t i = 0; i < bars; i++)
        longest_s = fmax(longest_s, bar[i].seconds);
    struct figure_unit unit = figure_time_unit(longest_s);
    struct figure_geometry g = geometry(m, name, bar, bars, &axis_height);
    double width = g.width - g.left - g.right;
    TRY(figure_open(output, &g, by, &f));
    put_table(f.table, m, name, bar, bars);
    put_bars(f.script, m, name, bar, bars, unit);
    snprintf(label, sizeof label, "iteration (%s)", unit.name);
    figure_put_xlabel(f.script, &g, label);
    fprintf(f.script,
            "set border 1\nunset ytics\nunset key\nset xrange [0:%.9g]\nset yrange [%d:0]\n"
            "plot NaN\n",
            longest_s * unit.per_s * width / (width - VALUE_ROOM), axis_height);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    free(bar);
    return st;
}

static enum status draw_bars(const struct plot_source *s, const char *output,
                             const struct provenance *by)
{
    return plot_bars(s->m, s->path, s->n, output, by);
}

const struct plot_kind plot_bars_kind = {
    .name = "bars",
    .summary = "iteration time of every plan by every engine, side by side",
    .input = PLOT_MEASUREMENTS,
    .draw = draw_bars,
};
