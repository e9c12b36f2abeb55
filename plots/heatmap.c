/* A value over two columns of a table, or a square matrix as `topology show --matrix` writes it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "plots/cells.h"
#include "plots/figure.h"
#include "plots/kind.h"

enum {
    SIDE = 300,
    MAX_SIDE = 512,
    BAR = 16,
    BAR_GAP = 14,
    BAR_STEPS = 64,
    COLOURS = 10,
    NUMBER = 24,
    LETTER = 15,     /* half pixels of a letter of a name */
    NAME_PITCH = 14, /* of names that are turned */
    MOST_NAMES = 128,
    SMALLEST = 80 /* of the cells together */
};

/* Lightness grows evenly and no hue matters: Nuñez, Anderton & Renslow, "Optimizing colormaps with
 * consideration for color vision deficiency", PLoS ONE 13 (2018) e0199239 (cividis). */
static const unsigned char cividis[COLOURS][3] = {
    {0, 32, 77},     {0, 51, 111},    {57, 71, 109},   {87, 92, 109},  {112, 113, 115},
    {138, 135, 121}, {166, 157, 117}, {196, 182, 106}, {228, 207, 91}, {255, 234, 70},
};

struct grid {
    struct plot_table copy; /* names of a matrix as a column: see below */
    struct axis x, y, v;
    size_t x_column, y_column;
    const struct plot_table *names;
    double *value; /* [y.values * x.values], NAN: none */
    double low, high;
    bool logarithmic;
    bool turned; /* names of columns are */
    char note[CELLS_NOTE], all[PLOT_NOTE];
};

static void grid_free(struct grid *g)
{
    free(g->value);
    axis_free(&g->v);
    axis_free(&g->y);
    axis_free(&g->x);
    table_free(&g->copy);
    *g = (struct grid){0};
}

/* ---- input */

static bool is_matrix(const struct plot_table *t)
{
    if (t->columns != t->rows + 1)
        return false;
    for (size_t i = 0; i < t->rows; i++)
        if (strcmp(table_cell(t, i, 0), t->name[i + 1]) != 0)
            return false;
    return true;
}

/* A matrix as the table "from, to, value", so that there is one way to go on. Cells point into the
 * matrix's text; the diagonal, which has no value, borrows its neighbour's for now. */
static enum status heatmap_unfold(const struct plot_table *t, struct plot_table *out)
{
    static char from[] = "from", to[] = "to";
    size_t n = t->rows;
    struct plot_table u = {.columns = 3};
    u.name = calloc(3, sizeof *u.name);
    u.cell = calloc(n * n * 3 + 1, sizeof *u.cell);
    if (!u.name || !u.cell) {
        table_free(&u);
        return error_set(STATUS_NOMEM, "%s: out of memory", t->path);
    }
    u.name[0] = from;
    u.name[1] = to;
    u.name[2] = t->name[0];
    u.style = t->style;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            char **cell = &u.cell[3 * u.rows];
            size_t from_cell = i == k ? (k + 1) % n : k;
            cell[0] = t->cell[i * t->columns];
            cell[1] = t->name[k + 1];
            cell[2] = t->cell[i * t->columns + from_cell + 1];
            u.rows++;
        }
    }
    *out = u;
    return STATUS_OK;
}

static enum status heatmap_choose_axes(const struct plot_source *s, struct grid *g, size_t *value)
{
    static const char *const none[] = {NULL};
    const struct plot_table *t = s->table;
    enum status st = STATUS_OK;
    if (t->rows > 1 && is_matrix(t) && !s->x && !s->y && !s->value) {
        TRY(heatmap_unfold(t, &g->copy));
        g->names = &g->copy;
        g->x_column = 1;
        g->y_column = 0;
        *value = 2;
        goto out;
    }
    g->names = t;
    if (!s->x || !s->y) {
        st = error_set(
            STATUS_INVALID,
            "%s: not a matrix; choose its columns with --x and --y (the first column is '%.60s')",
            t->path, t->name[0]);
        goto out;
    }
    TRY(plot_column(t, s->x, none, true, &g->x_column));
    TRY(plot_column(t, s->y, none, true, &g->y_column));
    TRY(plot_column(t, s->value, plot_rates, true, value));
out:
    return st;
}

static enum status read_grid(const struct plot_source *s, struct grid *g)
{
    enum status st;
    size_t value = 0, *cell = NULL;
    TRY(heatmap_choose_axes(s, g, &value));
    TRY(axis_read(g->names, g->x_column, &g->x));
    TRY(axis_read(g->names, g->y_column, &g->y));
    TRY(axis_read(g->names, value, &g->v));
    if (g->v.words || g->x.values > MAX_SIDE || g->y.values > MAX_SIDE) {
        if (g->v.words)
            st = error_set(STATUS_INVALID, "%s: column '%.60s' has cells that are not numbers",
                           s->path[0], g->names->name[value]);
        else
            st = error_set(STATUS_INVALID, "%s: got %zu x %zu cells, a plot shows at most %d x %d",
                           s->path[0], g->x.values, g->y.values, MAX_SIDE, MAX_SIDE);
        goto out;
    }
    size_t cells = g->x.values * g->y.values;
    TRY(ARRAY_NEW(g->value, cells));
    TRY(ARRAY_NEW(cell, g->v.n));
    for (size_t i = 0; i < g->v.n; i++)
        cell[i] = axis_index(&g->y, g->y.at[i]) * g->x.values + axis_index(&g->x, g->x.at[i]);
    const struct cells places = {
        g->names, &g->v, {g->x_column, value, g->y_column}, cell, cells, NULL, ERRORS_NONE};
    TRY(cells_gather(&places, g->value, g->note));
    for (size_t i = 0; i < g->copy.rows && i < g->x.values; i++)
        g->value[i * g->x.values + i] = NAN;
    g->low = INFINITY;
    g->high = -INFINITY;
    for (size_t i = 0; i < cells; i++) { /* of what is shown; NAN compares false */
        g->low = g->value[i] < g->low ? g->value[i] : g->low;
        g->high = g->value[i] > g->high ? g->value[i] : g->high;
    }
    if (g->low > g->high)
        g->low = g->high = 0;
    g->logarithmic = axis_spans_orders(g->low, g->high);
out:
    free(cell);
    return st;
}

/* ---- output */

static double shade(const struct grid *g, double v)
{
    if (!(g->high > g->low))
        return 0.5;
    return g->logarithmic ? log(v / g->low) / log(g->high / g->low)
                          : (v - g->low) / (g->high - g->low);
}

static void colour(double at, char text[8])
{
    at = fmin(fmax(at, 0), 1) * (COLOURS - 1);
    int k = at >= COLOURS - 1 ? COLOURS - 2 : (int)at;
    unsigned rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (unsigned)lround(cividis[k][c] + (at - k) * (cividis[k + 1][c] - cividis[k][c]));
    snprintf(text, 8, "#%02X%02X%02X", rgb[0] & 255u, rgb[1] & 255u, rgb[2] & 255u);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (!(a < b) && !(a > b) && !isnan(a) && !isnan(b));
}

/* Three digits, or all before the point: "1440" and not "1.44e+03". */
static const char *heatmap_print(double value, char text[NUMBER])
{
    bool whole = fabs(value) >= 1000 && fabs(value) < 1e6;
    snprintf(text, NUMBER, whole ? "%.0f" : "%.3g", value);
    return text;
}

/* Neighbours of one value are one box. */
static void put_cells(FILE *script, const struct grid *g, double cell_width, double cell_height)
{
    for (size_t y = 0; y < g->y.values; y++) {
        const double *row = &g->value[y * g->x.values];
        for (size_t x = 0, end; x < g->x.values; x = end) {
            bool text = cell_width >= 34 && cell_height >= FIGURE_LINE;
            char fill[8] = "#FFFFFF", number[NUMBER];
            for (end = x + 1; !text && end < g->x.values && same(row[end], row[x]);)
                end++;
            if (isnan(row[x]))
                continue;
            colour(shade(g, row[x]), fill);
            fprintf(script,
                    "set object rectangle from first %g,%g to first %g,%g fillcolor rgb '%s' "
                    "fillstyle solid noborder\n",
                    (double)x - 0.5, (double)y - 0.5, (double)end - 0.5, (double)y + 0.5, fill);
            if (text)
                fprintf(script,
                        "set label '%s' at first %zu,%zu center front font ',%d' textcolor rgb "
                        "'%s'\n",
                        heatmap_print(row[x], number), x, y, FIGURE_SMALL, figure_ink(fill));
        }
    }
}

/* The lowest round value from v on: 1, 2 or 5 times a power of ten, or a multiple of one that
 * leaves numbers room. */
static double round_up(const struct grid *g, double v, double height)
{
    if (g->logarithmic)
        return axis_step(v * (1 - 1e-9));
    double step = axis_step((g->high - g->low) * 2 * FIGURE_LINE / height);
    return step * ceil(v / step - 1e-9);
}

static void put_scale(FILE *script, const struct figure_geometry *p, const struct grid *g,
                      double height)
{
    double left = p->width - p->right + BAR_GAP, w = p->width, h = p->height;
    for (int i = 0; i < BAR_STEPS; i++) {
        char fill[8];
        colour((i + 0.5) / BAR_STEPS, fill);
        fprintf(script,
                "set object rectangle from screen %.5f,%.5f to screen %.5f,%.5f fillcolor rgb "
                "'%s' fillstyle solid noborder\n",
                left / w, (p->bottom + height * i / BAR_STEPS) / h, (left + BAR) / w,
                (p->bottom + height) / h, fill); /* up to the top: no seams */
    }
    bool varies = g->high > g->low;
    for (double v = varies ? round_up(g, g->low, height) : g->low, end = -INFINITY; v <= g->high;
         v = varies ? round_up(g, g->logarithmic ? v * 1.01 : v + (g->high - g->low) / 1000, height)
                    : INFINITY) {
        double y = p->bottom + height * shade(g, v);
        char number[NUMBER];
        if (y < end)
            continue;
        fprintf(script, "set label '%s' at screen %.5f,%.5f left\n", heatmap_print(v, number),
                (left + BAR + 5) / w, y / h);
        end = y + FIGURE_LINE;
    }
    fputs("set label ", script);
    figure_put_name(script, g->v.title);
    fprintf(script, " at screen %.5f,%.5f right noenhanced\n", (w - 8) / w,
            1 - (14.0 + figure_title_height(p)) / h);
}

static void heatmap_put_data(FILE *to, const struct grid *g)
{
    if (*g->all) {
        fputs("# ", to);
        figure_put_text(to, g->all);
        putc('\n', to);
    }
    putc('#', to);
    putc(' ', to);
    figure_put_field(to, g->y.label);
    putc('\t', to);
    figure_put_field(to, g->x.label);
    putc('\t', to);
    figure_put_field(to, g->v.label);
    putc('\n', to);
    for (size_t y = 0; y < g->y.values; y++) {
        for (size_t x = 0; x < g->x.values; x++) {
            double v = g->value[y * g->x.values + x];
            if (isnan(v))
                continue;
            figure_put_field(to, table_cell(g->names, g->y.row_of[y], g->y_column));
            putc('\t', to);
            figure_put_field(to, table_cell(g->names, g->x.row_of[x], g->x_column));
            fprintf(to, "\t%.9g\n", v);
        }
    }
}

/* Where there are more names than a picture shows. */
static void name_omitted(struct grid *g, size_t x, size_t y)
{
    size_t n = strlen(g->note), most = x > y ? x : y;
    if (most > MOST_NAMES)
        snprintf(g->note + n, CELLS_NOTE - n, "%snot all of %zu names have room", n ? "; " : "",
                 most);
}

/* Room for the names of rows, or of columns that are turned. */
static int names_width(const struct axis *a)
{
    size_t most = 4;
    for (size_t i = 0; a->words && i < a->values; i++) {
        size_t n = text_columns(a->word[i]);
        most = n > most ? n : most;
    }
    return (int)(most > AXIS_TIC ? AXIS_TIC : most) * LETTER / 2;
}

/* How wide and high the cells are, so that each name has room, up to MOST_NAMES of them; names of
 * columns are turned where they have no room beside each other. */
static enum status heatmap_arrange(const struct plot_source *s, struct grid *g,
                                   struct figure_geometry *p, int *width, int *height)
{
    size_t x = g->x.words ? g->x.values : 0, y = g->y.words ? g->y.values : 0;
    const struct plot_style *style = &s->style;
    *width = figure_width(style) - p->left - p->right;
    if (!style->width && *width < NAME_PITCH * (int)x)
        *width = NAME_PITCH * (int)(x < MOST_NAMES ? x : MOST_NAMES);
    g->turned = axis_is_crowded(&g->x, *width);
    p->bottom += g->turned ? names_width(&g->x) * 6 / 7 - FIGURE_LINE : 0;
    double square = (double)*width / (double)g->x.values * (double)g->y.values;
    *height = g->copy.rows > 0 || square < SIDE ? (int)fmax(square, FIGURE_LINE * 5) : SIDE;
    if (*height < FIGURE_LINE * (int)y)
        *height = FIGURE_LINE * (int)(y < MOST_NAMES ? y : MOST_NAMES);
    name_omitted(g, x, y);
    p->width = *width + p->left + p->right;
    p->note = plot_note(s, g->note, g->all);
    figure_set_margins(p, p->bottom, NULL, 0);
    p->top += 30; /* the name of the scale */
    if (style->height)
        *height = style->height - p->top - p->bottom;
    p->height = p->top + *height + p->bottom;
    if (*width < SMALLEST || *height < SMALLEST)
        return error_set(STATUS_USAGE, "--size: this figure needs at least %dx%d pixels",
                         p->left + p->right + SMALLEST, p->top + p->bottom + SMALLEST);
    return STATUS_OK;
}

static enum status draw_heatmap(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    enum status st;
    struct grid g = {0};
    struct figure f = {0};
    TRY(read_grid(s, &g));
    struct figure_geometry p = {.style = &s->style,
                                .left = 42 + names_width(&g.y),
                                .right = BAR_GAP + BAR + 58,
                                .bottom = 58};
    int width, height;
    TRY(heatmap_arrange(s, &g, &p, &width, &height));
    TRY(figure_open(output, &p, by, &f));
    heatmap_put_data(f.table, &g);
    put_cells(f.script, &g, width / (double)g.x.values, height / (double)g.y.values);
    put_scale(f.script, &p, &g, height);
    axis_put_tics(f.script, g.turned ? "turned x" : "x", &g.x, true, width);
    axis_put_tics(f.script, "y", &g.y, true, height);
    figure_put_xlabel(f.script, &p, g.x.title);
    axis_put_ylabel(f.script, &p, g.y.title);
    fprintf(f.script,
            "set border 0\nset tics scale 0\nunset key\nset xrange [-0.5:%g]\nset yrange "
            "%s%g%s\nplot NaN\n",
            (double)g.x.values - 0.5, g.copy.rows > 0 ? "[" : "[-0.5:", (double)g.y.values - 0.5,
            g.copy.rows > 0 ? ":-0.5]" : "]"); /* a matrix is read from the top */
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    grid_free(&g);
    return st;
}

const struct plot_kind plot_heatmap_kind = {
    .name = "heatmap",
    .summary =
        "a value over two columns, or a matrix of bandwidths as 'topology show --matrix' writes it",
    .input = PLOT_TABLE,
    .has_value = true,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_ORDER,
    .draw = draw_heatmap,
};
