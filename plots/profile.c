/* A model's profile: the distribution of its layers' times, outputs and parameters, and bars of
 * each layer in the model's order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "plots/axis.h"
#include "plots/figure.h"
#include "plots/kind.h"

enum {
    LEFT = 52,
    APART = 56,
    RIGHT = 16,
    ROW = 150,
    ROWS_APART = 62,
    BOTTOM = 54,
    LEAST = 380,
    TIC_ROOM = 24
};
enum { FORWARD, BACKWARD, OUTPUT, PARAMETERS, COLUMNS, PANELS = 3 };

static const char *const names[COLUMNS] = {"forward_s", "backward_s", "activation_bytes",
                                           "parameter_bytes"};
static const struct figure_key keys[COLUMNS] = {{"forward", figure_forward, 0, 0},
                                                {"backward", figure_backward, 0, 0},
                                                {"activations", figure_communication, 0, 0},
                                                {"parameters", figure_copy, 0, 0}};

struct profile {
    const struct plot_table *t;
    size_t n;                    /* layers */
    struct axis column[COLUMNS]; /* at[n] in one unit for both times */
    double *sorted;              /* [n] */
};

static void profile_free(struct profile *p)
{
    for (size_t c = 0; c < COLUMNS; c++)
        axis_free(&p->column[c]);
    free(p->sorted);
}

static enum status read_columns(const struct plot_table *t, struct profile *p)
{
    *p = (struct profile){.t = t, .n = t->rows};
    PASS(ARRAY_NEW(p->sorted, p->n));
    for (size_t c = 0; c < COLUMNS; c++) {
        size_t column;
        PASS(table_column(t, names[c], &column));
        PASS(axis_read(t, column, &p->column[c]));
        if (p->column[c].words)
            return error_set(STATUS_INVALID, "%s: column '%s' has cells that are not numbers",
                             t->path, names[c]);
    }
    double factor = p->column[FORWARD].scale / p->column[BACKWARD].scale;
    for (size_t i = 0; i < p->n; i++)
        p->column[BACKWARD].at[i] *= factor;
    return STATUS_OK;
}

static void profile_plot_put_table(FILE *to, const struct plot_table *t)
{
    for (size_t c = 0; c < t->columns; c++)
        fprintf(to, "%s%s", c ? "\t" : "# ", t->name[c]);
    putc('\n', to);
    for (size_t i = 0; i < t->rows; i++)
        for (size_t c = 0; c < t->columns; c++) {
            figure_put_field(to, table_cell(t, i, c));
            putc(c + 1 < t->columns ? '\t' : '\n', to);
        }
}

/* Both data blocks of a column: the distribution of what is not 0 as steps, and the layers in
 * order. */
static void profile_plot_put_blocks(FILE *script, struct profile *p, size_t c)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->column[c].at[i] > 0)
            p->sorted[n++] = p->column[c].at[i];
    qsort(p->sorted, n, sizeof *p->sorted, by_value);
    fprintf(script, "$cdf%zu << EOD\n", c);
    for (size_t i = 0; i < n; i++)
        fprintf(script, "%.9g\t%.9g\n%.9g\t%.9g\n", p->sorted[i], 100 * (double)i / (double)n,
                p->sorted[i], 100 * (double)(i + 1) / (double)n);
    fprintf(script, "EOD\n$bar%zu << EOD\n", c);
    for (size_t i = 0; i < p->n; i++) /* the backward stands on the forward */
        fprintf(script, "%zu\t%.9g\n", i + 1,
                p->column[c].at[i] + (c == BACKWARD ? p->column[FORWARD].at[i] : 0));
    fputs("EOD\n", script);
}

static double panel_width(const struct figure_geometry *g)
{
    return (g->width - g->left - g->right - (PANELS - 1) * APART) / (double)PANELS;
}

/* Margins of panel `k` of a row; rows from above. */
static void put_margins(FILE *script, const struct figure_geometry *g, int row, int k)
{
    double width = panel_width(g);
    double height = (g->height - g->top - g->bottom - ROWS_APART) / 2.0;
    double left = LEFT + k * (width + APART), top = g->top + row * (height + ROWS_APART);
    fprintf(script,
            "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
            "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
            left / g->width, (left + width) / g->width, 1 - top / g->height,
            1 - (top + height) / g->height);
}

static double lowest_above_0(const struct axis *a)
{
    double least = INFINITY;
    for (size_t i = 0; i < a->n; i++)
        least = a->at[i] > 0 ? fmin(least, a->at[i]) : least;
    return least;
}

/* The distributions of columns from `first` to `last` in one panel. */
static void put_distribution(FILE *script, const struct profile *p, size_t first, size_t last)
{
    const struct axis *a = &p->column[first], *b = &p->column[last];
    double least = fmin(lowest_above_0(a), lowest_above_0(b)), most = 0;
    char label[AXIS_LABEL + 8];
    for (size_t i = 0; i < p->n; i++)
        most = fmax(most, fmax(a->at[i], b->at[i]));
    bool logarithmic = axis_spans_orders(least, most);
    snprintf(label, sizeof label, "%s%s", first < last ? "time " : "",
             first < last ? strchr(a->label, '(') : a->title);
    fputs("set xlabel noenhanced ", script);
    figure_put_name(script, label);
    fprintf(script,
            "\nset yrange [0:102]\nset ytics 25\nunset logscale x\nset xtics autofreq\nset "
            "autoscale x\n"
            "set xrange [%s]\n",
            logarithmic ? "*:*" : "0:*");
    if (logarithmic) /* up to four numbers */
        fprintf(script, "set logscale x\nset format x '%%.4g'\nset xtics %g\n",
                pow(10, ceil(log10(most / least) / 3)));
    fputs("plot ", script);
    for (size_t c = first; c <= last; c++)
        fprintf(script, "%s$cdf%zu using 1:2 with lines linewidth 2 linecolor rgb '%s' notitle",
                c > first ? ", " : "", c, keys[c].colour);
    fputs(most > 0 ? "\n" : ", NaN notitle\n", script);
}

static void put_layers(FILE *script, const struct profile *p, size_t first, size_t last,
                       double width)
{
    char label[AXIS_LABEL + 16];
    snprintf(label, sizeof label, "layer %s", strchr(p->column[first].label, '('));
    fputs("unset logscale x\nset xlabel noenhanced ", script);
    figure_put_name(script, label);
    fprintf(script,
            "\nset xtics %.9g\nset autoscale y\nset ytics autofreq\nset yrange [0:*]\n"
            "set xrange [0.5:%zu.5]\nset boxwidth %g\nplot ",
            axis_step(fmax((double)p->n * TIC_ROOM / width, 1)), p->n, p->n > 60 ? 1.0 : 0.8);
    for (size_t c = last + 1; c-- > first;)
        fprintf(script, "$bar%zu using 1:2 with boxes linecolor rgb '%s' notitle%s", c,
                keys[c].colour, c > first ? ", " : "\n");
}

static void put_panels(FILE *script, struct profile *p, const struct figure_geometry *g)
{
    static const struct {
        size_t first, last;
    } panel[PANELS] = {{FORWARD, BACKWARD}, {OUTPUT, OUTPUT}, {PARAMETERS, PARAMETERS}};
    for (size_t c = 0; c < COLUMNS; c++)
        profile_plot_put_blocks(script, p, c);
    fprintf(script, "set tics font ',%d'\nset xlabel font ',%d'\nset format y '%%.4g'\n",
            FIGURE_SMALL, FIGURE_SMALL);
    fputs("set xlabel offset 0,0.3\nset xtics offset 0,0.2\nset multiplot\n", script);
    for (int row = 0; row < 2; row++)
        for (int k = 0; k < PANELS; k++) {
            put_margins(script, g, row, k);
            if (row == 0)
                put_distribution(script, p, panel[k].first, panel[k].last);
            else
                put_layers(script, p, panel[k].first, panel[k].last, panel_width(g));
            fputs("unset label\nunset object\n", script); /* once is enough */
        }
    fputs("unset multiplot\n", script);
}

/* What is drawn, and how many layers have what not all have. */
static void write_profile_note(const struct profile *p, char note[PLOT_NOTE])
{
    size_t n = (size_t)snprintf(note, PLOT_NOTE,
                                "above: share of the layers (%%) that have at most so much; below: "
                                "each layer, in order");
    for (size_t c = OUTPUT; c < COLUMNS; c++) {
        size_t some = 0;
        for (size_t i = 0; i < p->n; i++)
            some += p->column[c].at[i] > 0;
        if (some < p->n)
            n += (size_t)snprintf(note + n, PLOT_NOTE - n, "; %zu of %zu layers have %s", some,
                                  p->n, keys[c].name);
    }
}

static enum status draw_profile(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    enum status st;
    struct profile p = {0};
    struct figure_key key[COLUMNS];
    char note[PLOT_NOTE];
    struct figure f = {0};
    struct figure_geometry g = {.width = s->style.width ? s->style.width : FIGURE_WIDTH,
                                .left = LEFT,
                                .right = RIGHT,
                                .style = &s->style,
                                .note = note};
    TRY(read_columns(s->table, &p));
    write_profile_note(&p, note);
    for (size_t c = 0; c < COLUMNS; c++) {
        key[c] = keys[c];
        key[c].name = style_shown(&s->style, key[c].name);
    }
    figure_set_margins(&g, BOTTOM, key, COLUMNS);
    g.height = s->style.height ? s->style.height : g.top + 2 * ROW + ROWS_APART + g.bottom;
    if (g.height - g.top - g.bottom < ROW || g.width < LEAST)
        FAIL(STATUS_USAGE, "--size: this figure needs at least %dx%d pixels", LEAST,
             g.top + g.bottom + ROW);
    TRY(figure_open(output, &g, by, &f));
    profile_plot_put_table(f.table, s->table);
    figure_put_key(f.script, &g, key, COLUMNS);
    figure_put_xlabel(f.script, &g, "");
    put_panels(f.script, &p, &g);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    profile_free(&p);
    return st;
}

const struct plot_kind plot_profile_kind = {
    .name = "profile",
    .summary = "times, activations and parameters of a profiled model's layers",
    .input = PLOT_MODEL,
    .styles = STYLE_SIZE | STYLE_LEGEND,
    .draw = draw_profile,
};
