/* What a search has proposed: a point for each cut, a colour for each proposer; the front of cuts
 * that none is better than in both columns, and the best of them by name. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "plots/axis.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/labels.h"

enum {
    LEFT = 74,
    RIGHT = 18,
    DATA_HEIGHT = 260,
    SMALLEST = 120, /* height of the data */
    MOST_PROPOSERS = FIGURE_SERIES * FIGURE_SERIES,
    OBSTACLES = 2000 /* points that the label of the best avoids, at most */
};

struct candidates_point {
    double x, y, merit; /* merit: y, or what of it grows when the cut is better */
    size_t row, by;     /* of the table; index of the proposer in by.value[] */
    bool front;         /* nothing with as small an x is better */
};

struct candidates {
    const struct plot_table *t;
    struct axis x, y, by;
    size_t x_column, y_column, by_column;
    struct candidates_side {
        double low, high;
        bool logarithmic;
    } across, up;
    size_t n;
    struct candidates_point *point; /* [n] by x, of one x the best first */
    const struct candidates_point *best;
    size_t left_out;  /* rows whose plan does not fit into memory */
    size_t proposers; /* those that have a point */
    struct figure_key key[MOST_PROPOSERS];
    size_t key_of[MOST_PROPOSERS]; /* index in by.value[] */
    char name[MOST_PROPOSERS][STYLE_NAME];
};

static void candidates_free(struct candidates *c)
{
    free(c->point);
    axis_free(&c->by);
    axis_free(&c->y);
    axis_free(&c->x);
}

static enum status candidates_read(const struct plot_source *s, struct candidates *c)
{
    static const char *const sizes[] = {"cut_bytes", NULL}, *const who[] = {"proposer", NULL},
                             *const rates[] = {"samples_per_s", "iteration_s", NULL};
    c->t = s->table;
    PASS(plot_column(c->t, s->x, sizes, true, &c->x_column));
    PASS(plot_column(c->t, s->y, rates, true, &c->y_column));
    PASS(plot_column(c->t, s->by, who, true, &c->by_column));
    PASS(axis_read(c->t, c->x_column, &c->x));
    PASS(axis_read(c->t, c->y_column, &c->y));
    PASS(axis_read(c->t, c->by_column, &c->by));
    if (c->x.words || c->y.words)
        return error_set(STATUS_INVALID, "%s: column '%.60s' has cells that are not numbers",
                         c->t->path, c->t->name[c->x.words ? c->x_column : c->y_column]);
    if (c->by.values > MOST_PROPOSERS)
        return error_set(STATUS_INVALID, "%s: got %zu proposers, a plot shows at most %d",
                         c->t->path, c->by.values, MOST_PROPOSERS);
    return STATUS_OK;
}

static int by_x_and_merit(const void *a, const void *b)
{
    const struct candidates_point *x = a, *y = b;
    if (x->x < y->x || x->x > y->x)
        return x->x < y->x ? -1 : 1;
    if (x->merit < y->merit || x->merit > y->merit)
        return x->merit > y->merit ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* The points that are drawn, the front and the best. Rows that do not fit into memory are left out,
 * unless none does. */
static enum status candidates_choose(struct candidates *c)
{
    size_t fits = 0, some = 0;
    while (fits < c->t->columns && strcmp(c->t->name[fits], "fits") != 0)
        fits++;
    for (size_t i = 0; i < c->t->rows && fits < c->t->columns; i++)
        some += strcmp(table_cell(c->t, i, fits), "0") != 0;
    PASS(ARRAY_NEW(c->point, c->t->rows));
    for (size_t i = 0; i < c->t->rows; i++)
        if (some == 0 || strcmp(table_cell(c->t, i, fits), "0") != 0)
            c->point[c->n++] = (struct candidates_point){c->x.at[i],
                                                         c->y.at[i],
                                                         c->y.is_time ? -c->y.at[i] : c->y.at[i],
                                                         i,
                                                         axis_index(&c->by, c->by.at[i]),
                                                         false};
    c->left_out = c->t->rows - c->n;
    qsort(c->point, c->n, sizeof *c->point, by_x_and_merit);
    for (size_t i = 0; i < c->n; i++) {
        c->point[i].front = i == 0 || c->point[i].merit > c->best->merit;
        c->best = c->point[i].front ? &c->point[i] : c->best;
    }
    return STATUS_OK;
}

/* A key for each proposer that has a point, in the order of their names' appearance. */
static void candidates_name(struct candidates *c)
{
    for (size_t v = 0; v < c->by.values; v++) {
        bool some = false;
        for (size_t i = 0; i < c->n && !some; i++)
            some = c->point[i].by == v;
        if (!some)
            continue;
        size_t k = c->proposers++;
        axis_print_name(&c->by, v, c->name[k]);
        c->key_of[k] = v;
        c->key[k] =
            (struct figure_key){c->name[k], figure_series_colour(k), figure_series_point(k), 0};
    }
}

/* An axis from its least to its most, with some room, above for the name of the best. */
static struct candidates_side side_of(const struct candidates *c, bool up, bool asked, double room)
{
    struct candidates_side s = {INFINITY, -INFINITY, false};
    for (size_t i = 0; i < c->n; i++) {
        s.low = fmin(s.low, up ? c->point[i].y : c->point[i].x);
        s.high = fmax(s.high, up ? c->point[i].y : c->point[i].x);
    }
    s.logarithmic = s.low > 0 && (asked || axis_spans_orders(s.low, s.high));
    double margin = s.logarithmic ? pow(s.high / s.low, 0.04)
                                  : fmax(0.04 * (s.high - s.low), 0.02 * fabs(s.high) + 1e-12);
    if (s.logarithmic) {
        margin = fmax(margin, 1.05);
        s.low /= margin;
        s.high *= pow(margin, room);
    } else {
        s.low = s.low >= 0 ? fmax(s.low - margin, 0) : s.low - margin;
        s.high += margin * room;
    }
    return s;
}

/* Part of the side, from its low end, at which a value stands. */
static double part_of(const struct candidates_side *s, double value)
{
    return s->logarithmic ? log(value / s->low) / log(s->high / s->low)
                          : (value - s->low) / (s->high - s->low);
}

/* ---- output */

static void candidates_put_table(FILE *to, const struct candidates *c)
{
    const char *const label[] = {c->t->name[c->by_column], c->x.label, c->y.label};
    for (size_t i = 0; i < 3; i++) {
        fputs(i > 0 ? "\t" : "# ", to);
        figure_put_field(to, label[i]);
    }
    fputs("\tfront\n", to);
    for (size_t i = 0; i < c->n; i++) {
        figure_put_field(to, table_cell(c->t, c->point[i].row, c->by_column));
        fprintf(to, "\t%.9g\t%.9g\t%s\n", c->point[i].x, c->point[i].y,
                &c->point[i] == c->best ? "best"
                : c->point[i].front     ? "front"
                                        : "-");
    }
}

static void candidates_put_blocks(FILE *script, const struct candidates *c)
{
    for (size_t k = 0; k < c->proposers; k++) {
        fprintf(script, "$by%zu << EOD\n", k);
        for (size_t i = 0; i < c->n; i++)
            if (c->point[i].by == c->key_of[k])
                fprintf(script, "%.9g\t%.9g\n", c->point[i].x, c->point[i].y);
        fputs("EOD\n", script);
    }
    fputs("$front << EOD\n", script);
    for (size_t i = 0; i < c->n; i++)
        if (c->point[i].front)
            fprintf(script, "%.9g\t%.9g\n", c->point[i].x, c->point[i].y);
    fprintf(script, "%.9g\t%.9g\nEOD\n", c->across.high, c->best->y);
}

/* The name of the best's proposer beside its ring, where no point is hidden. */
static enum status candidates_put_best(FILE *script, const struct candidates *c,
                                       const struct figure_geometry *g)
{
    double width = g->width - g->left - g->right, height = g->height - g->top - g->bottom;
    double(*at)[2];
    size_t n = 0;
    char name[STYLE_NAME], text[64];
    PASS(ARRAY_NEW(at, c->n));
    for (size_t i = 0; i < c->n && n < OBSTACLES; i++, n++) {
        at[n][0] = width * part_of(&c->across, c->point[i].x);
        at[n][1] = height * (1 - part_of(&c->up, c->point[i].y));
    }
    axis_print_name(&c->by, c->best->by, name);
    snprintf(text, sizeof text, "%.40s: %.4g", name, c->best->y);
    struct label label = {.point_x = width * part_of(&c->across, c->best->x),
                          .point_y = height * (1 - part_of(&c->up, c->best->y)),
                          .width = (double)text_columns(text) * FIGURE_CHARACTER,
                          .height = FIGURE_LINE};
    label.left = label.point_x > width / 2;
    labels_place(&label, 1, (const double(*)[2])at, n, width, height);
    free(at);
    if (!label.placed)
        return STATUS_OK; /* the table has it */
    fputs("set label ", script);
    figure_put_string(script, text);
    fprintf(script, " at screen %.5f,%.5f left noenhanced front\n", (g->left + label.x) / g->width,
            1 - (g->top + label.y) / g->height);
    return STATUS_OK;
}

static void candidates_put_side(FILE *script, const char *which, const struct candidates_side *s)
{
    if (s->logarithmic)
        fprintf(script, "set logscale %s\nset format %s '%%.4g'\n", which, which);
    fprintf(script, "set %srange [%.9g:%.9g]\n", which, s->low, s->high);
}

static void candidates_put_plot(FILE *script, const struct candidates *c)
{
    fputs("set grid ytics linecolor rgb '#DDDDDD' linetype 1\n"
          "plot $front using 1:2 with steps linecolor rgb '#606060' linewidth 1.5 notitle",
          script);
    for (size_t k = 0; k < c->proposers; k++)
        fprintf(script,
                ", $by%zu using 1:2 with points pointtype %d pointsize 0.8 linecolor rgb "
                "'%s' notitle",
                k, c->key[k].point, c->key[k].colour);
    fprintf(script,
            ", '+' using (%.9g):(%.9g) every ::0::0 with points pointtype 6 pointsize 1.8 "
            "linewidth 2 linecolor rgb '#C00000' notitle\n",
            c->best->x, c->best->y);
}

static enum status candidates_draw(struct candidates *c, const struct plot_source *s,
                                   const char *note, const char *output,
                                   const struct provenance *by)
{
    enum status st;
    struct figure f = {0};
    struct figure_geometry g = {.width = figure_width(&s->style),
                                .left = LEFT,
                                .right = RIGHT,
                                .note = note,
                                .style = &s->style};
    figure_set_margins(&g, 58, c->key, c->proposers);
    g.height = s->style.height ? s->style.height : g.top + DATA_HEIGHT + g.bottom;
    if (g.height - g.top - g.bottom < SMALLEST)
        return error_set(STATUS_USAGE, "--size: this figure needs a height of at least %d pixels",
                         g.top + g.bottom + SMALLEST);
    TRY(figure_open(output, &g, by, &f));
    candidates_put_table(f.table, c);
    candidates_put_blocks(f.script, c);
    figure_put_key(f.script, &g, c->key, c->proposers);
    candidates_put_side(f.script, "x", &c->across);
    candidates_put_side(f.script, "y", &c->up);
    figure_put_xlabel(f.script, &g, c->x.title);
    axis_put_ylabel(f.script, &g, c->y.title);
    TRY(candidates_put_best(f.script, c, &g));
    candidates_put_plot(f.script, c);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    return st;
}

static enum status draw_candidates(const struct plot_source *s, const char *output,
                                   const struct provenance *by)
{
    enum status st;
    struct candidates c = {0};
    char values[200], note[PLOT_NOTE];
    TRY(candidates_read(s, &c));
    TRY(candidates_choose(&c));
    candidates_name(&c);
    c.across = side_of(&c, false, s->style.log_x, 1);
    c.up = side_of(&c, true, s->style.log_y, 4);
    if ((s->style.log_x && !c.across.logarithmic) || (s->style.log_y && !c.up.logarithmic))
        FAIL(STATUS_USAGE, "--log needs values above 0, but the lowest is %.4g",
             s->style.log_x && !c.across.logarithmic ? c.across.low : c.up.low);
    snprintf(values, sizeof values, "line: no cut is better in both; ring: the best");
    if (c.left_out > 0)
        snprintf(values + strlen(values), sizeof values - strlen(values),
                 "; %zu of %zu do not fit into memory and are left out", c.left_out, c.t->rows);
    st = candidates_draw(&c, s, plot_note(s, values, note), output, by);
out:
    candidates_free(&c);
    return st;
}

const struct plot_kind plot_candidates_kind = {
    .name = "candidates",
    .summary = "of plan --candidates: throughput over cut size by proposer",
    .input = PLOT_TABLE,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_SIZE | STYLE_LOG | STYLE_LEGEND | STYLE_ORDER,
    .draw = draw_candidates,
};
