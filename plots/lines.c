/* Lines over a varied parameter: a rate itself, as speed-up, or as regret. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "plots/cells.h"
#include "plots/figure.h"
#include "plots/kind.h"

enum { MAX_LINES = 2 * FIGURE_SERIES, NAME_ROOM = 58, DATA_HEIGHT = 230 };

enum what { VALUE, SPEEDUP, REGRET };

/* y of line l at x.value[i] is y[l * x.values + i]; NAN where the table has none. */
struct lines {
    struct axis x, y;
    size_t x_column, y_column, by_column; /* by_column SIZE_MAX: one line */
    struct axis by;
    size_t n;
    double *at;
    char note[CELLS_NOTE];
};

static void lines_free(struct lines *l)
{
    free(l->at);
    axis_free(&l->by);
    axis_free(&l->y);
    axis_free(&l->x);
    *l = (struct lines){0};
}

/* ---- columns */

static bool is_given(const struct table *t, size_t column, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(t->name[column], *names) == 0)
            return true;
    return false;
}

static enum status choose_columns(const struct plot_source *s, struct lines *l)
{
    static const char *const rates[] = {"samples_per_s", "tokens_per_s", "iteration_s",
                                        "measured_s",    "predicted_s",  NULL};
    const struct table *t = s->table;
    PASS(plot_column(t, s->y, rates, true, &l->y_column));
    PASS(plot_column(t, s->by, (const char *const[]){NULL}, false, &l->by_column));
    for (size_t k = 0; !s->by && plot_line_columns[k] && l->by_column == SIZE_MAX; k++) {
        const char *const one[] = {plot_line_columns[k], NULL};
        PASS(plot_column(t, NULL, one, false, &l->by_column));
        if (l->by_column != SIZE_MAX &&
            (!table_varies(t, l->by_column) || (s->x && strcmp(s->x, plot_line_columns[k]) == 0)))
            l->by_column = SIZE_MAX;
    }
    if (s->x) {
        PASS(table_column(t, s->x, &l->x_column));
        return STATUS_OK;
    }
    for (size_t c = 0; c < t->columns; c++) { /* the first that varies and is no result */
        if (c != l->y_column && c != l->by_column && !is_given(t, c, plot_line_columns) &&
            table_varies(t, c)) {
            l->x_column = c;
            return STATUS_OK;
        }
    }
    return error_set(STATUS_INVALID, "%s: no column varies that could be x", t->path);
}

/* ---- values */

static enum status read_axes(const struct plot_source *s, struct lines *l)
{
    enum status st;
    TRY(choose_columns(s, l));
    TRY(axis_read(s->table, l->x_column, &l->x));
    TRY(axis_read(s->table, l->y_column, &l->y));
    l->n = 1;
    if (l->by_column != SIZE_MAX) {
        TRY(axis_read(s->table, l->by_column, &l->by));
        l->n = l->by.values;
    }
    if (l->y.words)
        st = error_set(STATUS_INVALID, "%s: column '%.60s' is not all numbers", s->table->path,
                       s->table->name[l->y_column]);
    else if (l->n > MAX_LINES)
        st = error_set(STATUS_INVALID, "%s: %zu lines, one picture has room for %d", s->table->path,
                       l->n, MAX_LINES);
out:
    return st;
}

static enum status gather(const struct table *t, struct lines *l)
{
    size_t rows = l->x.n, cells = l->n * l->x.values;
    const size_t shown[CELLS_SHOWN] = {l->x_column, l->y_column, l->by_column};
    enum status st;
    size_t *cell = NULL;
    TRY(ARRAY_NEW(cell, rows));
    TRY(ARRAY_NEW(l->at, cells));
    for (size_t i = 0; i < rows; i++) {
        size_t line = l->by_column == SIZE_MAX ? 0 : axis_index(&l->by, l->by.at[i]);
        cell[i] = line * l->x.values + axis_index(&l->x, l->x.at[i]);
    }
    TRY(cells_gather(t, shown, &l->y, cell, cells, l->at, l->note));
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
        most = l->at[i] > most && isfinite(l->at[i]) ? l->at[i] : most;
    return most;
}

/* ---- output */

static const char *line_name(const struct table *t, const struct lines *l, size_t k)
{
    return l->by_column == SIZE_MAX ? "" : table_cell(t, l->by.row_of[k], l->by_column);
}

static void put_data(FILE *to, const struct table *t, const struct lines *l, const char *label)
{
    if (*l->note) {
        fputs("# ", to);
        figure_put_field(to, l->note);
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

static void put_blocks(FILE *script, const struct lines *l)
{
    for (size_t k = 0; k < l->n; k++) {
        fprintf(script, "$line%zu << EOD\n", k);
        for (size_t i = 0; i < l->x.values; i++)
            if (isfinite(l->at[k * l->x.values + i]))
                fprintf(script, "%.9g\t%.9g\n", l->x.value[i], l->at[k * l->x.values + i]);
        fprintf(script, "EOD\n");
    }
}

static void put_ranges(FILE *script, const struct lines *l)
{
    double low = l->x.value[0], high = l->x.value[l->x.values - 1];
    if (axis_is_logarithmic(&l->x)) {
        double margin = pow(high / low, 0.03);
        fprintf(script, "set logscale x\nset xrange [%.9g:%.9g]\n", low / margin, high * margin);
    } else {
        double margin = l->x.words   ? 0.5 /* room for their names */
                        : high > low ? 0.03 * (high - low)
                                     : fmax(fabs(high), 1) * 0.5;
        fprintf(script, "set xrange [%.9g:%.9g]\n", low - margin, high + margin);
    }
    double most = highest(l);
    fprintf(script, "set yrange [0:%.9g]\nset grid ytics linecolor rgb '#DDDDDD' linetype 1\n",
            most > 0 ? most * 1.06 : 1);
}

/* Nothing lies between words: points without lines, above each other where they differ by line.
 * A line without a point has nothing between its neighbours: two of its points are joined. */
static void put_plot(FILE *script, const struct lines *l, enum what what)
{
    double low = l->x.value[0];
    fputs("plot ", script);
    if (what == SPEEDUP && !l->x.words && low > 0)
        fprintf(script, "x / %.9g with lines linecolor rgb '#808080' dashtype 2 notitle, ", low);
    for (size_t k = 0; k < l->n; k++)
        fprintf(script,
                "%s$line%zu using 1:2 with %s pointtype %d pointsize 0.9 linewidth 1.5 "
                "dashtype %d linecolor rgb '%s' notitle",
                k ? ", " : "", k, l->x.words ? "points" : "linespoints", figure_series_point(k),
                k < FIGURE_SERIES ? 1 : 2, figure_series_colour(k));
    putc('\n', script);
}

static void y_label(const struct lines *l, enum what what, char text[AXIS_LABEL])
{
    if (what == VALUE)
        snprintf(text, AXIS_LABEL, "%s", l->y.label);
    else if (what == SPEEDUP)
        snprintf(text, AXIS_LABEL, "speed-up (dashed: linear)");
    else
        snprintf(text, AXIS_LABEL, "behind the best (%%)");
}

static enum status draw(const struct plot_source *s, enum what what, const char *output,
                        const struct provenance *by)
{
    enum status st;
    struct lines l = {0};
    struct figure f = {0};
    struct figure_key key[MAX_LINES];
    char label[AXIS_LABEL], name[MAX_LINES][NAME_ROOM];

    TRY(read_axes(s, &l));
    TRY(gather(s->table, &l));
    if (what == SPEEDUP)
        make_speedup(&l);
    else if (what == REGRET)
        make_regret(&l);
    for (size_t k = 0; k < l.n; k++) {
        figure_plan_name(line_name(s->table, &l, k), name[k], NAME_ROOM);
        key[k] = (struct figure_key){name[k], figure_series_colour(k), figure_series_point(k)};
    }
    size_t keys = l.by_column == SIZE_MAX ? 0 : l.n;
    struct figure_geometry g = {
        .width = FIGURE_COLUMN, .left = 78, .right = 18, .top = 0, .bottom = 62};
    g.note = l.note;
    g.bottom += *l.note ? FIGURE_LINE : 0;
    g.top = figure_key_height(&g, key, keys);
    g.height = g.top + DATA_HEIGHT + g.bottom;
    y_label(&l, what, label);
    TRY(figure_open(output, &g, by, &f));
    put_data(f.table, s->table, &l, label);
    put_blocks(f.script, &l);
    figure_put_key(f.script, &g, key, keys);
    put_ranges(f.script, &l);
    axis_put_tics(f.script, "x", s->table, l.x_column, &l.x, false, g.width - g.left - g.right);
    figure_put_xlabel(f.script, &g, l.x.label);
    axis_put_ylabel(f.script, &g, label);
    put_plot(f.script, &l, what);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    lines_free(&l);
    return st;
}

static enum status draw_throughput(const struct plot_source *s, const char *output,
                                   const struct provenance *by)
{
    return draw(s, VALUE, output, by);
}

static enum status draw_speedup(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    return draw(s, SPEEDUP, output, by);
}

static enum status draw_regret(const struct plot_source *s, const char *output,
                               const struct provenance *by)
{
    return draw(s, REGRET, output, by);
}

const struct plot_kind plot_regret_kind = {
    .name = "regret",
    .summary = "how far each line is behind the best at every value of x",
    .input = PLOT_TABLE,
    .draw = draw_regret,
};

const struct plot_kind plot_speedup_kind = {
    .name = "speedup",
    .summary = "each line over its own value at the smallest x",
    .input = PLOT_TABLE,
    .draw = draw_speedup,
};

const struct plot_kind plot_throughput_kind = {
    .name = "throughput",
    .summary = "a rate over a varied parameter, a line per algorithm or schedule",
    .input = PLOT_TABLE,
    .draw = draw_throughput,
};
