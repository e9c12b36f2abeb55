/* A rate over a varied parameter, itself, as speed-up, or as regret: lines over numbers, bars for
 * words, as nothing lies between these. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "plots/cells.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/line_columns.h"
#include "plots/stack.h"

enum {
    MAX_LINES = STACK_PARTS,
    NAME_ROOM = LINE_OTHERS,
    DATA_HEIGHT = 230,
    SMALLEST = 80, /* height of the data */
    MAX_BARS = 400,
    ORDERS = 100 /* rates that span more have a logarithmic axis */
};

enum what { VALUE, SPEEDUP, REGRET };

/* y of line l at x.value[i] is y[l * x.values + i]; NAN where the table has none. */
struct lines {
    struct axis x, y;
    size_t x_column, y_column, by_column; /* by_column SIZE_MAX: one line */
    struct axis by;
    size_t n;
    double *at;
    double (
        *spread)[2]; /* ends of error bars, NAN for none; NULL: values are not those of the table */
    bool log_y;
    char values[CELLS_NOTE], note[PLOT_NOTE], others[NAME_ROOM]; /* that could be x, too */
};

static void lines_free(struct lines *l)
{
    free(l->spread);
    free(l->at);
    axis_free(&l->by);
    axis_free(&l->y);
    axis_free(&l->x);
    *l = (struct lines){0};
}

/* ---- values */

static enum status read_axes(const struct plot_source *s, struct lines *l)
{
    enum status st;
    struct line_columns c;
    TRY(line_columns_choose(s, &c));
    l->x_column = c.x;
    l->y_column = c.y;
    l->by_column = c.by;
    snprintf(l->others, sizeof l->others, "%s", c.others);
    TRY(axis_read(s->table, l->x_column, &l->x));
    TRY(axis_read(s->table, l->y_column, &l->y));
    l->n = 1;
    if (l->by_column != SIZE_MAX) {
        TRY(axis_read(s->table, l->by_column, &l->by));
        l->n = l->by.values;
    }
    if (l->y.words)
        st = error_set(STATUS_INVALID, "%s: column '%.60s' has cells that are not numbers",
                       s->table->path, s->table->name[l->y_column]);
    else if (l->n > MAX_LINES)
        st = error_set(STATUS_INVALID,
                       "%s: got %zu lines, a plot shows at most %d; choose fewer with --where",
                       s->table->path, l->n, MAX_LINES);
out:
    return st;
}

static enum status lines_gather(const struct plot_table *t, struct lines *l, enum what what)
{
    size_t rows = l->x.n, cells = l->n * l->x.values;
    enum status st;
    size_t *cell = NULL;
    TRY(ARRAY_NEW(cell, rows));
    TRY(ARRAY_NEW(l->at, cells));
    if (what == VALUE)
        TRY(ARRAY_NEW(l->spread, cells));
    for (size_t i = 0; i < rows; i++) {
        size_t line = l->by_column == SIZE_MAX ? 0 : axis_index(&l->by, l->by.at[i]);
        cell[i] = line * l->x.values + axis_index(&l->x, l->x.at[i]);
    }
    const struct cells places = {t,    &l->y, {l->x_column, l->y_column, l->by_column},
                                 cell, cells, l->spread};
    TRY(cells_gather(&places, l->at, l->values));
out:
    free(cell);
    return st;
}

/* Better is above 1: of times the inverse ratio. */
static double ratio(const struct lines *l, double a, double b)
{
    return l->y.is_time ? b / a : a / b;
}

static void make_speedup(struct lines *l)
{
    for (size_t k = 0; k < l->n; k++) {
        double *y = &l->at[k * l->x.values], base = NAN;
        for (size_t i = 0; i < l->x.values; i++) {
            if (isnan(base))
                base = y[i];
            y[i] = ratio(l, y[i], base);
        }
    }
}

static void make_regret(struct lines *l)
{
    for (size_t i = 0; i < l->x.values; i++) {
        size_t best = SIZE_MAX;
        for (size_t k = 0; k < l->n; k++) {
            double y = l->at[k * l->x.values + i];
            if (!isnan(y) && (best == SIZE_MAX || ratio(l, y, l->at[best * l->x.values + i]) > 1))
                best = k;
        }
        double top = best == SIZE_MAX ? NAN : l->at[best * l->x.values + i];
        for (size_t k = 0; k < l->n; k++) {
            double *y = &l->at[k * l->x.values + i];
            *y = 100 * (ratio(l, top, *y) - 1);
        }
    }
}

static double highest(const struct lines *l)
{
    double most = 0;
    for (size_t i = 0; i < l->n * l->x.values; i++)
        if (isfinite(l->at[i]))
            most = fmax(most, l->spread ? fmax(l->at[i], l->spread[i][1]) : l->at[i]);
    return most;
}

/* ---- output */

static const char *line_name(const struct plot_table *t, const struct lines *l, size_t k)
{
    return l->by_column == SIZE_MAX ? "" : table_cell(t, l->by.row_of[k], l->by_column);
}

static void lines_put_data(FILE *to, const struct plot_table *t, const struct lines *l,
                           const char *label)
{
    if (*l->note) {
        fputs("# ", to);
        figure_put_text(to, l->note);
        putc('\n', to);
    }
    fprintf(to, "# ");
    figure_put_field(to, l->by_column == SIZE_MAX ? "line" : t->name[l->by_column]);
    putc('\t', to);
    figure_put_field(to, l->x.label);
    putc('\t', to);
    figure_put_field(to, label);
    putc('\n', to);
    for (size_t k = 0; k < l->n; k++) {
        for (size_t i = 0; i < l->x.values; i++) {
            if (isnan(l->at[k * l->x.values + i]))
                continue;
            const char *name = line_name(t, l, k);
            figure_put_field(to, *name ? name : "-");
            if (l->x.words) {
                putc('\t', to);
                figure_put_field(to, table_cell(t, l->x.row_of[i], l->x_column));
            } else {
                fprintf(to, "\t%.9g", l->x.value[i]);
            }
            fprintf(to, "\t%.9g\n", l->at[k * l->x.values + i]);
        }
    }
}

static void lines_put_blocks(FILE *script, const struct lines *l)
{
    for (size_t k = 0; k < l->n; k++) {
        fprintf(script, "$line%zu << EOD\n", k);
        for (size_t i = 0; i < l->x.values; i++)
            if (isfinite(l->at[k * l->x.values + i]))
                fprintf(script, "%.9g\t%.9g\n", l->x.value[i], l->at[k * l->x.values + i]);
        fprintf(script, "EOD\n");
    }
    fputs("$errors << EOD\n", script);
    for (size_t i = 0; l->spread && i < l->n * l->x.values; i++)
        if (l->spread[i][1] > l->spread[i][0]) /* on a logarithmic axis as far as that goes */
            fprintf(script, "%.9g\t%.9g\t%.9g\t%.9g\n", l->x.value[i % l->x.values], l->at[i],
                    l->log_y ? fmax(l->spread[i][0], 1e-300) : l->spread[i][0], l->spread[i][1]);
    fputs("EOD\n", script);
}

static bool has_errors(const struct lines *l)
{
    for (size_t i = 0; l->spread && i < l->n * l->x.values; i++)
        if (l->spread[i][1] > l->spread[i][0])
            return true;
    return false;
}

static double lowest(const struct lines *l)
{
    double least = INFINITY;
    for (size_t i = 0; i < l->n * l->x.values; i++)
        least = isfinite(l->at[i]) && l->at[i] < least ? l->at[i] : least;
    return least;
}

static void put_ranges(FILE *script, const struct lines *l)
{
    double low = l->x.value[0], high = l->x.value[l->x.values - 1];
    double most = highest(l), least = lowest(l);
    for (size_t i = 0; l->spread && i < l->n * l->x.values; i++)
        if (l->spread[i][0] > 0)
            least = fmin(least, l->spread[i][0]);
    if (axis_is_logarithmic(&l->x)) {
        double margin = pow(high / low, 0.03);
        fprintf(script, "set logscale x\nset xrange [%.9g:%.9g]\n", low / margin, high * margin);
    } else {
        double margin = high > low ? 0.03 * (high - low) : fmax(fabs(high), 1) * 0.5;
        fprintf(script, "set xrange [%.9g:%.9g]\n", low - margin, high + margin);
    }
    if (l->log_y) {
        double margin = pow(most / least, 0.06);
        fprintf(script, "set logscale y\nset format y '%%.4g'\nset yrange [%.9g:%.9g]\n",
                least / margin, most * margin);
    } else {
        fprintf(script, "set yrange [%.9g:%.9g]\n", fmin(least, 0),
                most > 0    ? most * 1.06
                : least < 0 ? 0
                            : 1);
    }
    fputs("set grid ytics linecolor rgb '#DDDDDD' linetype 1\n", script);
}

/* A line without a point has nothing between its neighbours: two of its points are joined. */
static void lines_put_plot(FILE *script, const struct lines *l, enum what what)
{
    double low = l->x.value[0];
    fputs("plot ", script);
    if (what == SPEEDUP && low > 0)
        fprintf(script, "x / %.9g with lines linecolor rgb '#808080' dashtype 2 notitle, ", low);
    if (has_errors(l))
        fputs("$errors using 1:2:3:4 with yerrorbars pointtype 0 linecolor rgb '#606060' notitle, ",
              script);
    for (size_t k = 0; k < l->n; k++)
        fprintf(script,
                "%s$line%zu using 1:2 with linespoints pointtype %d pointsize 0.9 linewidth 1.5 "
                "dashtype %d linecolor rgb '%s' notitle",
                k ? ", " : "", k, figure_series_point(k), figure_series_dash(k),
                figure_series_colour(k));
    putc('\n', script);
}

static void y_label(const struct lines *l, enum what what, char text[AXIS_LABEL])
{
    if (what == VALUE)
        snprintf(text, AXIS_LABEL, "%s", l->y.label);
    else if (what == REGRET)
        snprintf(text, AXIS_LABEL, "behind the best (%%)");
    else
        snprintf(text, AXIS_LABEL,
                 l->x.words ? "speed-up over the first" : "speed-up (dashed: linear)");
}

/* What is drawn. */
struct lines_drawing {
    const struct plot_table *t;
    struct lines l;
    char label[AXIS_LABEL];
    size_t keys;
    struct figure_key key[MAX_LINES];
    char name[MAX_LINES][NAME_ROOM];
};

static void lines_put_table(const void *context, FILE *to)
{
    const struct lines_drawing *d = context;
    lines_put_data(to, d->t, &d->l, d->label);
}

static enum status draw_lines(struct lines_drawing *d, enum what what,
                              const struct plot_style *style, const char *output,
                              const struct provenance *by)
{
    enum status st;
    struct lines *l = &d->l;
    struct figure f = {0};
    struct figure_geometry g = {.width = style->width ? style->width : FIGURE_COLUMN,
                                .left = 88,
                                .right = 18,
                                .note = l->note,
                                .style = style};
    g.bottom = 62 + figure_note_height(&g);
    g.top = figure_key_height(&g, d->key, d->keys);
    g.height = style->height ? style->height : g.top + DATA_HEIGHT + g.bottom;
    if (g.height - g.top - g.bottom < SMALLEST)
        FAIL(STATUS_USAGE, "--size: this figure needs a height of at least %d pixels",
             g.top + g.bottom + SMALLEST);
    TRY(figure_open(output, &g, by, &f));
    lines_put_table(d, f.table);
    lines_put_blocks(f.script, l);
    figure_put_key(f.script, &g, d->key, d->keys);
    put_ranges(f.script, l);
    axis_put_tics(f.script, "x", d->t, l->x_column, &l->x, false, g.width - g.left - g.right);
    figure_put_xlabel(f.script, &g, l->x.label);
    axis_put_ylabel(f.script, &g, d->label);
    lines_put_plot(f.script, l, what);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    return st;
}

/* A group of bars for each word, a bar for each line that has a value there. */
static enum status lines_draw_bars(struct lines_drawing *d, const struct plot_style *style,
                                   const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    const struct lines *l = &d->l;
    struct stack k = {0};
    size_t bars = 0, n = 0;
    char label[2 * AXIS_LABEL + 16];
    for (size_t i = 0; i < l->n * l->x.values; i++)
        bars += isfinite(l->at[i]);
    if (bars == 0 || bars > MAX_BARS)
        return error_set(STATUS_INVALID,
                         "%s: got %zu bars, a plot shows 1 to %d; choose fewer with --where",
                         d->t->path, bars, MAX_BARS);
    TRY(stack_init(&k, bars, l->n));
    for (size_t i = 0; i < l->x.values; i++) {
        size_t first = n;
        for (size_t line = 0; line < l->n; line++) {
            double y = l->at[line * l->x.values + i];
            if (!isfinite(y))
                continue;
            k.joined[n] = n > first;
            figure_plan_name(table_cell(d->t, l->x.row_of[i], l->x_column), k.name[n], STACK_NAME);
            snprintf(k.value[n], STACK_VALUE, "%.4g", y);
            if (l->spread) {
                k.low[n] = fmax(l->spread[line * l->x.values + i][0], 0);
                k.high[n] = l->spread[line * l->x.values + i][1];
            }
            k.length[n++ * l->n + line] = fmax(y, 0);
        }
    }
    snprintf(label, sizeof label, "%s of each %s", d->label, l->x.label);
    k.part = d->key;
    k.label = label;
    k.note = l->note;
    k.style = style;
    k.every_part = true; /* the best is 0 behind the best */
    TRY(stack_draw(&k, output, by, lines_put_table, d));
out:
    stack_free(&k);
    return st;
}

/* Logarithmic axes are those asked for, and where values span orders. */
static enum status choose_scales(const struct plot_source *s, struct lines *l, enum what what)
{
    double least = lowest(l);
    l->x.logarithmic = s->style.log_x;
    l->log_y = what != REGRET && least > 0 && (s->style.log_y || highest(l) > ORDERS * least);
    if (l->x.words && (s->style.log_x || s->style.log_y || s->style.ylabel))
        return error_set(
            STATUS_USAGE,
            "--%s has no effect: column '%.60s' has words, which are drawn as bars from 0",
            s->style.ylabel ? "ylabel" : "log", s->table->name[l->x_column]);
    if (s->style.log_x && !(l->x.value[0] > 0))
        return error_set(STATUS_USAGE, "--log needs x above 0, but the lowest is %.4g",
                         l->x.value[0]);
    if (s->style.log_y && !l->log_y)
        return error_set(STATUS_USAGE, "--log needs y above 0, but the lowest is %.4g", least);
    return STATUS_OK;
}

static enum status lines_draw_source(const struct plot_source *s, enum what what,
                                     const char *output, const struct provenance *by)
{
    enum status st;
    struct lines_drawing d = {.t = s->table};
    struct lines *l = &d.l;

    TRY(read_axes(s, l));
    TRY(lines_gather(s->table, l, what));
    if (what == SPEEDUP)
        make_speedup(l);
    else if (what == REGRET)
        make_regret(l);
    plot_note(s, l->values, l->note);
    if (*l->others)
        snprintf(l->note + strlen(l->note), PLOT_NOTE - strlen(l->note), "%s--x could be %s, too",
                 *l->note ? "; " : "", l->others);
    if (l->x.words && l->n > FIGURE_SERIES)
        snprintf(l->note + strlen(l->note), PLOT_NOTE - strlen(l->note),
                 "%scolours repeat after %d: bars are in the legend's order", *l->note ? "; " : "",
                 FIGURE_SERIES);
    TRY(choose_scales(s, l, what));
    y_label(l, what, d.label);
    for (size_t k = 0; k < l->n; k++) {
        if (l->by_column != SIZE_MAX && !l->by.words) /* a number alone says nothing */
            snprintf(d.name[k], NAME_ROOM, "%.60s %.60s", s->table->name[l->by_column],
                     line_name(s->table, l, k));
        else
            figure_plan_name(line_name(s->table, l, k), d.name[k], NAME_ROOM);
        d.key[k] = (struct figure_key){d.name[k], figure_series_colour(k),
                                       l->x.words ? 0 : figure_series_point(k),
                                       l->x.words ? 0 : figure_series_dash(k)};
    }
    d.keys = l->by_column == SIZE_MAX ? 0 : l->n;
    st = l->x.words ? lines_draw_bars(&d, &s->style, output, by)
                    : draw_lines(&d, what, &s->style, output, by);
out:
    lines_free(l);
    return st;
}

static enum status draw_throughput(const struct plot_source *s, const char *output,
                                   const struct provenance *by)
{
    return lines_draw_source(s, VALUE, output, by);
}

static enum status draw_speedup(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    return lines_draw_source(s, SPEEDUP, output, by);
}

static enum status draw_regret(const struct plot_source *s, const char *output,
                               const struct provenance *by)
{
    return lines_draw_source(s, REGRET, output, by);
}

const struct plot_kind plot_regret_kind = {
    .name = "regret",
    .summary = "how far each line is behind the best at every value of x",
    .input = PLOT_TABLE,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_LOG,
    .draw = draw_regret,
};

const struct plot_kind plot_speedup_kind = {
    .name = "speedup",
    .summary = "each line over its own value at the smallest x",
    .input = PLOT_TABLE,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_LOG,
    .draw = draw_speedup,
};

const struct plot_kind plot_throughput_kind = {
    .name = "throughput",
    .summary = "a rate over a varied parameter, a line per algorithm or schedule; of words bars",
    .input = PLOT_TABLE,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_LOG,
    .draw = draw_throughput,
};
