/* A rate over a varied parameter, itself, as speed-up, or as regret: lines over numbers, bars for
 * words, as nothing lies between these. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "plots/cells.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/line_columns.h"
#include "plots/stack.h"

enum {
    MAX_LINES = STACK_PARTS,
    MAX_FACETS = 12,
    DATA_HEIGHT = 230,
    FACET_HEIGHT = 120,
    FACET_NAME = 4, /* height above each facet, besides its lines */
    FACET_APART = 20,
    SMALLEST = 80, /* height of the data */
    MAX_BARS = 400,
    ORDERS = 100, /* rates that span more have a logarithmic axis */
    LOOKS = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_LOG | STYLE_LEGEND | STYLE_FACET |
            STYLE_ORDER
};

static const double data_shape = 0.48; /* height over width, of wide figures */
static const double x_margin = 0.03;   /* beside the values, over what they span */

enum what { VALUE, SPEEDUP, REGRET };

/* y of line k of facet f at x.value[i] is at[(f * n + k) * x.values + i]; NAN where the table has
 * none. */
struct lines {
    struct axis x, y;
    size_t x_column, y_column, by_column, facet_column; /* of the last two SIZE_MAX: one */
    struct axis by, facet;
    size_t n, facets;
    double *at;
    double (
        *spread)[2]; /* ends of error bars, NAN for none; NULL: values are not those of the table */
    bool log_y;
    char values[CELLS_NOTE], note[PLOT_NOTE], others[LINE_OTHERS]; /* that could be x, too */
};

static void lines_free(struct lines *l)
{
    free(l->spread);
    free(l->at);
    axis_free(&l->facet);
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
    l->n = l->facets = 1;
    l->facet_column = SIZE_MAX;
    if (s->facet) {
        TRY(table_column(s->table, s->facet, &l->facet_column));
        TRY(axis_read(s->table, l->facet_column, &l->facet));
        l->facets = l->facet.values;
    }
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
    else if (l->facets > MAX_FACETS)
        st = error_set(STATUS_INVALID,
                       "%s: column '%.60s' has %zu values, --facet shows at most %d; choose fewer "
                       "with --where",
                       s->table->path, s->facet, l->facets, MAX_FACETS);
out:
    return st;
}

/* Values of all lines of all facets. */
static size_t lines_cells(const struct lines *l)
{
    return l->facets * l->n * l->x.values;
}

static enum status lines_gather(const struct plot_table *t, struct lines *l, enum what what,
                                enum plot_errors errors)
{
    size_t rows = l->x.n, cells = lines_cells(l);
    enum status st;
    size_t *cell = NULL;
    TRY(ARRAY_NEW(cell, rows));
    TRY(ARRAY_NEW(l->at, cells));
    if (what == VALUE)
        TRY(ARRAY_NEW(l->spread, cells));
    for (size_t i = 0; i < rows; i++) {
        size_t line = l->by_column == SIZE_MAX ? 0 : axis_index(&l->by, l->by.at[i]);
        line += l->facet_column == SIZE_MAX ? 0 : l->n * axis_index(&l->facet, l->facet.at[i]);
        cell[i] = line * l->x.values + axis_index(&l->x, l->x.at[i]);
    }
    const struct cells places = {
        t, &l->y, {l->x_column, l->y_column, l->by_column}, cell, cells, l->spread, errors};
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
    for (size_t k = 0; k < l->facets * l->n; k++) {
        double *y = &l->at[k * l->x.values], base = NAN;
        for (size_t i = 0; i < l->x.values; i++) {
            if (isnan(base))
                base = y[i];
            y[i] = ratio(l, y[i], base);
        }
    }
}

/* Against the best line of the same facet. */
static void make_regret(struct lines *l)
{
    for (size_t cell = 0; cell < l->facets * l->x.values; cell++) {
        double *y = &l->at[cell / l->x.values * l->n * l->x.values + cell % l->x.values], top = NAN;
        for (size_t k = 0; k < l->n; k++) {
            double at = y[k * l->x.values];
            top = isnan(top) || ratio(l, at, top) > 1 ? at : top;
        }
        for (size_t k = 0; k < l->n; k++)
            y[k * l->x.values] = 100 * (ratio(l, top, y[k * l->x.values]) - 1);
    }
}

static double highest(const struct lines *l)
{
    double most = 0;
    for (size_t i = 0; i < lines_cells(l); i++)
        if (isfinite(l->at[i]))
            most = fmax(most, l->spread ? fmax(l->at[i], l->spread[i][1]) : l->at[i]);
    return most;
}

/* ---- output */

static bool has_bars(const struct lines *l, size_t line)
{
    for (size_t i = line * l->x.values; l->spread && i < (line + 1) * l->x.values; i++)
        if (l->spread[i][1] > l->spread[i][0])
            return true;
    return false;
}

static bool has_errors(const struct lines *l)
{
    for (size_t k = 0; k < l->facets * l->n; k++)
        if (has_bars(l, k))
            return true;
    return false;
}

static void put_head(FILE *to, const struct plot_table *t, const struct lines *l, const char *label)
{
    if (*l->note) {
        fputs("# ", to);
        figure_put_text(to, l->note);
        putc('\n', to);
    }
    fputs("# ", to);
    if (l->facet_column != SIZE_MAX) {
        figure_put_field(to, t->name[l->facet_column]);
        putc('\t', to);
    }
    figure_put_field(to, l->by_column == SIZE_MAX ? "line" : t->name[l->by_column]);
    putc('\t', to);
    figure_put_field(to, l->x.label);
    putc('\t', to);
    figure_put_field(to, label);
    fputs(has_errors(l) ? "\tlow\thigh\n" : "\n", to);
}

static void lines_put_data(FILE *to, const struct plot_table *t, const struct lines *l,
                           const char *label)
{
    bool errors = has_errors(l);
    put_head(to, t, l, label);
    for (size_t i = 0; i < lines_cells(l); i++) {
        size_t line = i / l->x.values, x = i % l->x.values;
        const char *name =
            l->by_column == SIZE_MAX ? "" : table_cell(t, l->by.row_of[line % l->n], l->by_column);
        if (isnan(l->at[i]))
            continue;
        if (l->facet_column != SIZE_MAX) {
            figure_put_field(to, table_cell(t, l->facet.row_of[line / l->n], l->facet_column));
            putc('\t', to);
        }
        figure_put_field(to, *name ? name : "-");
        putc('\t', to);
        if (l->x.words)
            figure_put_field(to, table_cell(t, l->x.row_of[x], l->x_column));
        else
            fprintf(to, "%.9g", l->x.value[x]);
        fprintf(to, "\t%.9g", l->at[i]);
        if (errors && l->spread[i][1] > l->spread[i][0])
            fprintf(to, "\t%.9g\t%.9g", l->spread[i][0], l->spread[i][1]);
        else if (errors)
            fputs("\t-\t-", to);
        putc('\n', to);
    }
}

static void lines_put_blocks(FILE *script, const struct lines *l)
{
    for (size_t k = 0; k < l->facets * l->n; k++) {
        fprintf(script, "$line%zu << EOD\n", k);
        for (size_t i = 0; i < l->x.values; i++)
            if (isfinite(l->at[k * l->x.values + i]))
                fprintf(script, "%.9g\t%.9g\n", l->x.value[i], l->at[k * l->x.values + i]);
        fprintf(script, "EOD\n");
    }
    for (size_t k = 0; l->spread && k < l->facets * l->n; k++) {
        fprintf(script, "$errors%zu << EOD\n", k);
        for (size_t i = 0, at = k * l->x.values; i < l->x.values; i++, at++)
            if (l->spread[at][1] > l->spread[at][0]) /* on a logarithmic axis as far as that goes */
                fprintf(script, "%.9g\t%.9g\t%.9g\t%.9g\n", l->x.value[i], l->at[at],
                        l->log_y ? fmax(l->spread[at][0], 1e-300) : l->spread[at][0],
                        l->spread[at][1]);
        fputs("EOD\n", script);
    }
}

static double lowest(const struct lines *l)
{
    double least = INFINITY;
    for (size_t i = 0; i < lines_cells(l); i++)
        least = isfinite(l->at[i]) && l->at[i] < least ? l->at[i] : least;
    return least;
}

static void put_ranges(FILE *script, const struct lines *l)
{
    double low = l->x.value[0], high = l->x.value[l->x.values - 1];
    double most = highest(l), least = lowest(l);
    for (size_t i = 0; l->spread && i < lines_cells(l); i++)
        if (l->spread[i][0] > 0)
            least = fmin(least, l->spread[i][0]);
    if (axis_is_logarithmic(&l->x)) {
        double margin = pow(high / low, x_margin);
        fprintf(script, "set logscale x\nset xrange [%.9g:%.9g]\n", low / margin, high * margin);
    } else {
        double margin = high > low ? x_margin * (high - low) : fmax(fabs(high), 1) * 0.5;
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

static bool has_points(const struct lines *l, size_t line)
{
    for (size_t i = 0; i < l->x.values; i++)
        if (isfinite(l->at[line * l->x.values + i]))
            return true;
    return false;
}

/* A line without a point has nothing between its neighbours: two of its points are joined. */
static void lines_put_plot(FILE *script, const struct lines *l, enum what what, size_t f)
{
    double low = l->x.value[0];
    fputs("plot ", script);
    if (what == SPEEDUP && low > 0)
        fprintf(script, "x / %.9g with lines linecolor rgb '#808080' dashtype 2 notitle, ", low);
    for (size_t k = 0; k < l->n; k++)
        if (has_bars(l, f * l->n + k))
            fprintf(script,
                    "$errors%zu using 1:2:3:4 with yerrorbars pointtype 0 linecolor rgb '%s' "
                    "notitle, ",
                    f * l->n + k, figure_series_colour(k));
    for (size_t k = 0; k < l->n; k++)
        if (has_points(l, f * l->n + k))
            fprintf(script,
                    "$line%zu using 1:2 with linespoints pointtype %d pointsize 0.9 linewidth 1.5 "
                    "dashtype %d linecolor rgb '%s' notitle, ",
                    f * l->n + k, figure_series_point(k), figure_series_dash(k),
                    figure_series_colour(k));
    fputs("NaN notitle\n", script);
}

static void name_y(const struct lines *l, enum what what, char text[AXIS_LABEL])
{
    if (what == VALUE)
        snprintf(text, AXIS_LABEL, "%s", l->y.title);
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
    char label[AXIS_LABEL], title[AXIS_LABEL]; /* of y: in the table, in the picture */
    size_t keys;
    struct figure_key key[MAX_LINES];
    char name[MAX_LINES][STYLE_NAME], facet[MAX_FACETS][STYLE_NAME]; /* as shown */
};

/* Value i of the column that lines or facets stand for: its label is for "stages 2" or, where
 * that is clear, for the cell "2". */
static void show_name(const struct plot_table *t, size_t column, const struct axis *a, size_t i,
                      char shown[STYLE_NAME])
{
    char name[STYLE_NAME];
    axis_print_name(a, i, name);
    const char *text =
        a->words ? name : style_shown_either(t->style, name, table_cell(t, a->row_of[i], column));
    text_shorten(text, SIZE_MAX, shown, STYLE_NAME);
}

static void lines_put_table(const void *context, FILE *to)
{
    const struct lines_drawing *d = context;
    lines_put_data(to, d->t, &d->l, d->label);
}

/* Facets side by side, those of a row and of a column on one axis. Names of several lines have
 * small letters. */
struct panels {
    size_t across, down;
    double width, height; /* of each, pixels */
    size_t columns;       /* of a line of a name */
    int font, name;       /* its letters, and the height of all lines */
};

static int name_lines(const struct lines_drawing *d, size_t columns)
{
    char line[FIGURE_WRAP];
    int most = 0;
    for (size_t f = 0; f < d->l.facets; f++) {
        int lines = 0;
        for (const char *at = d->facet[f]; *at; lines++)
            at = figure_wrap(at, columns, true, line);
        most = lines > most ? lines : most;
    }
    return most;
}

static struct panels arrange_panels(const struct lines_drawing *d, const struct figure_geometry *g)
{
    size_t n = d->l.facets, across = n <= 3 ? n : n == 4 ? 2 : 3;
    struct panels p = {.across = across, .down = (n + across - 1) / across};
    p.width = (g->width - g->left - g->right - (double)(across - 1) * FACET_APART) / (double)across;
    if (d->l.facet_column != SIZE_MAX) {
        double room = fmax(p.width + FACET_APART - 6, FIGURE_CHARACTER);
        p.columns = (size_t)(room / FIGURE_CHARACTER);
        p.font = FIGURE_SMALL + 1;
        if (name_lines(d, p.columns) > 1) {
            p.columns = (size_t)(room / (FIGURE_CHARACTER - 0.5));
            p.font = FIGURE_SMALL;
        }
        p.name = name_lines(d, p.columns) * FIGURE_LINE + FACET_NAME;
    }
    p.height = (double)(g->height - g->top - g->bottom) / (double)p.down - p.name;
    return p;
}

/* Margins, name and numbers of facet f; numbers only at the left and below. */
static void put_panel(FILE *script, const struct lines_drawing *d, const struct figure_geometry *g,
                      const struct panels *p, size_t f)
{
    char line[FIGURE_WRAP];
    double left = g->left + (double)(f % p->across) * (p->width + FACET_APART),
           y = g->top + (double)(f / p->across) * (p->height + p->name), top = y + p->name;
    fprintf(script,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
            left / g->width, (left + p->width) / g->width, 1 - top / g->height,
            1 - (top + p->height) / g->height);
    y += FIGURE_LINE / 2.0 + FACET_NAME;
    for (const char *at = d->facet[f]; *at; y += FIGURE_LINE) {
        at = figure_wrap(at, p->columns, true, line);
        fputs("set label ", script);
        figure_put_string(script, line);
        fprintf(script, " at screen %.5f,%.5f center noenhanced font ',%d'\n",
                (left + p->width / 2) / g->width, 1 - y / g->height, p->font);
    }
    fputs(f % p->across ? "set format y ''\n" : "set format y '%.4g'\n", script);
}

static void put_panels(FILE *script, const struct lines_drawing *d, const struct figure_geometry *g,
                       enum what what)
{
    const struct lines *l = &d->l;
    struct panels p = arrange_panels(d, g);
    int pixels = (int)(p.width / (1 + 2 * x_margin)); /* from the first value to the last */
    if (l->facet_column == SIZE_MAX) {
        axis_put_tics(script, "x", &l->x, false, pixels);
        lines_put_plot(script, l, what, 0);
        return;
    }
    if (!l->log_y)
        fprintf(script, "set ytics %.9g\n",
                axis_step((highest(l) - fmin(lowest(l), 0)) * 1.4 * FIGURE_LINE / p.height));
    fprintf(script, "set tics font ',%d'\nset multiplot\n", FIGURE_SMALL);
    for (size_t f = 0; f < l->facets; f++) {
        if (f + p.across < l->facets)
            fputs("unset xtics\n", script);
        else
            axis_put_panel_tics(script, &l->x, pixels, p.width + FACET_APART);
        put_panel(script, d, g, &p, f);
        lines_put_plot(script, l, what, f);
        fputs("unset label\nunset object\nunset arrow\n", script); /* once is enough */
    }
    fputs("unset multiplot\n", script);
}

static enum status draw_lines(struct lines_drawing *d, enum what what,
                              const struct plot_style *style, const char *output,
                              const struct provenance *by)
{
    enum status st;
    struct lines *l = &d->l;
    struct figure f = {0};
    struct figure_geometry g = {
        .width = figure_width(style), .left = 74, .right = 18, .note = l->note, .style = style};
    figure_set_margins(&g, 58, d->key, d->keys);
    struct panels p = arrange_panels(d, &g);
    int down = (int)p.down, least = down * (SMALLEST - (down > 1 ? SMALLEST / 2 : 0) + p.name);
    int data = l->facets == 1 ? p.name + (int)fmax(DATA_HEIGHT, data_shape * g.width)
                              : down * (p.name + FACET_HEIGHT);
    least = (int)fmax(g.top + least + g.bottom, g.key_down);
    g.height = style->height ? style->height : (int)fmax(g.top + data + g.bottom, g.key_down);
    if (g.height < least || p.width < SMALLEST / 2.0)
        FAIL(STATUS_USAGE, "--size: this figure needs a height of at least %d pixels", least);
    TRY(figure_open(output, &g, by, &f));
    lines_put_table(d, f.table);
    lines_put_blocks(f.script, l);
    figure_put_key(f.script, &g, d->key, d->keys);
    put_ranges(f.script, l);
    figure_put_xlabel(f.script, &g, l->x.title);
    axis_put_ylabel(f.script, &g, d->title);
    put_panels(f.script, d, &g, what);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    return st;
}

/* A group of bars for each word, a bar for each line that has a value there; facets below each
 * other. */
static enum status lines_draw_bars(struct lines_drawing *d, const struct plot_style *style,
                                   const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    const struct lines *l = &d->l;
    struct stack k = {0};
    size_t bars = 0, n = 0, before = SIZE_MAX;
    char label[2 * AXIS_LABEL + 16];
    for (size_t i = 0; i < lines_cells(l); i++)
        bars += isfinite(l->at[i]);
    if (bars == 0 || bars > MAX_BARS)
        return error_set(STATUS_INVALID,
                         "%s: got %zu bars, a plot shows 1 to %d; choose fewer with --where",
                         d->t->path, bars, MAX_BARS);
    TRY(stack_init(&k, bars, l->n));
    for (size_t i = 0; i < l->facets * l->x.values; i++) {
        size_t first = n, f = i / l->x.values, x = i % l->x.values;
        for (size_t line = 0; line < l->n; line++) {
            size_t at = (f * l->n + line) * l->x.values + x;
            double y = l->at[at];
            if (!isfinite(y))
                continue;
            if (l->facet_column != SIZE_MAX && f != before) {
                snprintf(k.heading[n], STACK_NAME, "%s", d->facet[f]);
                before = f;
            }
            k.joined[n] = n > first;
            snprintf(k.name[n], STACK_NAME, "%s", l->x.word[x]);
            snprintf(k.value[n], STACK_VALUE, "%.4g", y);
            if (l->spread) {
                k.low[n] = fmax(l->spread[at][0], 0);
                k.high[n] = l->spread[at][1];
            }
            k.length[n++ * l->n + line] = fmax(y, 0);
        }
    }
    snprintf(label, sizeof label, "%s of each %s", d->title, l->x.title);
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

static void add_note(struct lines *l, const char *text, const char *what)
{
    size_t n = strlen(l->note);
    if (*what)
        snprintf(l->note + n, PLOT_NOTE - n, "%s%s%s", n > 0 ? "; " : "", text, what);
}

static void write_note(const struct plot_source *s, struct lines *l)
{
    plot_note(s, l->values, l->note);
    if (*l->others)
        add_note(l, "--x could be ", l->others);
    if (*l->others)
        snprintf(l->note + strlen(l->note), PLOT_NOTE - strlen(l->note), ", too");
    add_note(l, "all: ", l->by.shared);
    add_note(l, "all: ", l->x.shared);
    add_note(l, "all: ", l->facet.shared);
    if (l->x.words && l->n > FIGURE_SERIES)
        add_note(l, "colours repeat: ", "bars are in the legend's order");
}

static enum status lines_draw_source(const struct plot_source *s, enum what what,
                                     const char *output, const struct provenance *by)
{
    enum status st;
    struct lines_drawing d = {.t = s->table};
    struct lines *l = &d.l;

    TRY(read_axes(s, l));
    TRY(lines_gather(s->table, l, what, s->style.errors));
    if (what == SPEEDUP)
        make_speedup(l);
    else if (what == REGRET)
        make_regret(l);
    write_note(s, l);
    TRY(choose_scales(s, l, what));
    name_y(l, what, d.title);
    snprintf(d.label, AXIS_LABEL, "%s", what == VALUE ? l->y.label : d.title);
    d.keys = l->by_column == SIZE_MAX ? 0 : l->n;
    for (size_t k = 0; k < l->n; k++) {
        if (d.keys > 0)
            show_name(s->table, l->by_column, &l->by, k, d.name[k]);
        d.key[k] = (struct figure_key){d.name[k], figure_series_colour(k),
                                       l->x.words ? 0 : figure_series_point(k),
                                       l->x.words ? 0 : figure_series_dash(k)};
    }
    for (size_t f = 0; f < l->facets && l->facet_column != SIZE_MAX; f++)
        show_name(s->table, l->facet_column, &l->facet, f, d.facet[f]);
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
    .styles = LOOKS,
    .draw = draw_regret,
};

const struct plot_kind plot_speedup_kind = {
    .name = "speedup",
    .summary = "each line over its own value at the smallest x",
    .input = PLOT_TABLE,
    .styles = LOOKS,
    .draw = draw_speedup,
};

const struct plot_kind plot_throughput_kind = {
    .name = "throughput",
    .summary = "a rate over a varied parameter, a line per algorithm or schedule; of words bars",
    .input = PLOT_TABLE,
    .styles = LOOKS | STYLE_ERRORS,
    .draw = draw_throughput,
};
