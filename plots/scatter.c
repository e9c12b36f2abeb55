/* Predicted against measured iteration times with the line of equality and bands. Plans are named
 * at their points; many of them by letters, which a key below the axes explains. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/data/compare.h"
#include "plots/axis.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/labels.h"
#include "plots/plot.h"

enum {
    LEFT = 80,
    RIGHT = 52,
    TOP = 22,
    NAME_ROOM = 160,
    NAME_COLUMNS = 24,
    LABEL_FONT = 12,
    LABEL_CHARACTER = 7,
    LETTER_ROOM = 8,
    BY_NAME = 10, /* plans up to which names stand at points */
    KEY_MOST = 100,
    KEY_TOP = 72, /* from the axis to the key */
    LOG_FROM = 8,
    TITLE = 128
};

/* A plan at its first point: what stands there, and in the key. */
struct scatter_label {
    const struct compared_plan *plan;
    char name[NAME_ROOM], letter[LETTER_ROOM];
};

struct scatter_drawing {
    struct comparisons c;
    struct square {
        double low_s, high_s;
        double side; /* pixels */
        bool logarithmic;
        struct figure_unit unit;
    } axis;
    struct figure_geometry g;
    size_t plans;
    struct scatter_label *plan; /* [plans] */
    struct label *label;        /* [plans] where its name or letter stands */
    bool lettered;
    size_t keyed; /* plans in the key */
    struct figure_key
        *legend;          /* [c.n] the pairs of engines, above the axes when there are several */
    char (*title)[TITLE]; /* [c.n] their names */
    char note[256];
};

/* Both axes: from low_s to high_s, logarithmic when the times differ by more than LOG_FROM. */
static struct square scatter_choose_axis(const struct comparisons *c, int side)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->item[i].plans; k++) {
            const struct compared_plan *p = &c->item[i].plan[k];
            low = fmin(low, fmin(p->predicted_s, p->measured_s));
            high = fmax(high, fmax(p->predicted_s, p->measured_s));
        }
    }
    struct square a = {
        .side = side, .logarithmic = high / low > LOG_FROM, .unit = figure_time_unit(high)};
    if (a.logarithmic) {
        a.low_s = low / 1.4;
        a.high_s = high * 1.4;
    } else {
        double margin = fmax(0.12 * (high - low), 0.06 * high);
        a.low_s = fmax(low - margin, 0);
        a.high_s = high + margin;
    }
    return a;
}

/* Pixels from the lower left corner of the axes. */
static double pixels(const struct square *a, double seconds)
{
    double at = a->logarithmic ? log(seconds / a->low_s) / log(a->high_s / a->low_s)
                               : (seconds - a->low_s) / (a->high_s - a->low_s);
    return at * a->side;
}

/* ---- points */

static void scatter_put_table(FILE *table, const struct comparisons *c)
{
    fprintf(table, "# plan\tpredicted_by\tmeasured_by\tmeasured_s\tpredicted_s\terror\n");
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->item[i].plans; k++) {
            const struct compared_plan *p = &c->item[i].plan[k];
            figure_put_field(table, p->plan);
            putc('\t', table);
            figure_put_field(table, c->item[i].predicted_by);
            putc('\t', table);
            figure_put_field(table, c->item[i].measured_by);
            fprintf(table, "\t%.9g\t%.9g\t%.6g\n", p->measured_s, p->predicted_s, p->error);
        }
    }
}

static void put_points(FILE *script, const struct comparison *c, size_t i, double per_s)
{
    fprintf(script, "$points%zu << EOD\n", i);
    for (size_t k = 0; k < c->plans; k++)
        fprintf(script, "%.9g\t%.9g\n", c->plan[k].measured_s * per_s,
                c->plan[k].predicted_s * per_s);
    fprintf(script, "EOD\n");
}

/* ---- labels of points: every plan once, at its first point */

static bool labelled_before(const struct comparisons *c, size_t i, const char *plan)
{
    for (size_t b = 0; b < i; b++) {
        for (size_t k = 0; k < c->item[b].plans; k++)
            if (strcmp(c->item[b].plan[k].plan, plan) == 0)
                return true;
    }
    return false;
}

static void scatter_put_label(FILE *script, const struct label *l, double side, const char *name)
{
    double far = hypot(l->x + l->width / 2 - l->point_x, l->y - l->point_y) - l->width / 2;
    if (far > 16) { /* away from its point: a line leads there */
        double to_x = l->point_x < l->x              ? l->x - 2
                      : l->point_x > l->x + l->width ? l->x + l->width + 2
                                                     : l->point_x;
        double to_y = to_x == l->point_x ? l->y + (l->point_y > l->y ? 7 : -7) : l->y;
        fprintf(script,
                "set arrow from graph %.5f,%.5f to graph %.5f,%.5f nohead front "
                "linecolor rgb '#808080' linewidth 0.5\n",
                l->point_x / side, l->point_y / side, to_x / side, to_y / side);
    }
    fprintf(script, "set label ");
    figure_put_string(script, name);
    fprintf(script, " at graph %.5f,%.5f left noenhanced front font ',%d'\n", l->x / side,
            l->y / side, LABEL_FONT);
}

/* "a" to "z", "aa" to "zz" and so on. */
static void letter_of(size_t i, char text[LETTER_ROOM])
{
    char back[LETTER_ROOM];
    size_t n = 0, k = 0;
    for (size_t at = i + 1; at > 0 && n + 1 < sizeof back; at = (at - 1) / 26)
        back[n++] = (char)('a' + (at - 1) % 26);
    while (n > 0)
        text[k++] = back[--n];
    text[k] = '\0';
}

/* Labels of all plans, by name or by letter, beside their points. Returns how many found room. */
static size_t scatter_place_labels(struct scatter_drawing *d, const double (*point)[2],
                                   size_t points)
{
    char text[NAME_ROOM];
    size_t placed = 0;
    for (size_t i = 0; i < d->plans; i++) {
        const struct compared_plan *p = d->plan[i].plan;
        size_t wide =
            d->lettered
                ? strlen(d->plan[i].letter)
                : text_columns(text_shorten(d->plan[i].name, NAME_COLUMNS, text, sizeof text));
        d->label[i] = (struct label){.point_x = pixels(&d->axis, p->measured_s),
                                     .point_y = pixels(&d->axis, p->predicted_s),
                                     .width = (double)wide * LABEL_CHARACTER + 4,
                                     .height = FIGURE_LINE,
                                     .left = p->predicted_s > p->measured_s};
    }
    labels_place(d->label, d->plans, point, points, d->axis.side, d->axis.side);
    for (size_t i = 0; i < d->plans; i++)
        placed += d->label[i].placed;
    return placed;
}

/* What points and errors are, and what there was no room for. */
static void write_note(struct scatter_drawing *d, size_t without)
{
    size_t runs = 0, n = 0, room = sizeof d->note;
    for (size_t i = 0; i < d->plans; i++)
        runs = d->plan[i].plan->runs > runs ? d->plan[i].plan->runs : runs;
    if (runs > 1)
        n += (size_t)snprintf(d->note, room, "measured: medians of up to %zu runs; ", runs);
    if (d->lettered)
        n += (size_t)snprintf(d->note + n, room - n, "errors are those of %.40s; ",
                              d->c.item[0].predicted_by);
    if (without > 0)
        n += (size_t)snprintf(d->note + n, room - n, "%zu points have no room for a letter; ",
                              without);
    if (d->lettered && d->keyed < d->plans)
        n += (size_t)snprintf(d->note + n, room - n, "%zu plans more are in the table; ",
                              d->plans - d->keyed);
    d->note[n > 2 ? n - 2 : 0] = '\0';
}

/* The plans, each once; their names at the points when there are few and all find room, else
 * letters. */
static enum status name_points(struct scatter_drawing *d)
{
    enum status st = STATUS_OK;
    const struct comparisons *c = &d->c;
    size_t points = 0, all = 0;
    char text[NAME_ROOM];
    double(*point)[2] = NULL;
    for (size_t i = 0; i < c->n; i++)
        all += c->item[i].plans;
    TRY(ARRAY_NEW(point, all));
    TRY(ARRAY_NEW(d->label, all));
    TRY(ARRAY_NEW(d->plan, all));
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < c->item[i].plans; k++) {
            const struct compared_plan *p = &c->item[i].plan[k];
            point[points][0] = pixels(&d->axis, p->measured_s);
            point[points++][1] = pixels(&d->axis, p->predicted_s);
            if (labelled_before(c, i, p->plan))
                continue;
            style_plan_name(p->plan, text, NAME_ROOM);
            text_shorten(style_shown(d->g.style, text), SIZE_MAX, d->plan[d->plans].name,
                         NAME_ROOM);
            letter_of(d->plans, d->plan[d->plans].letter);
            d->plan[d->plans++].plan = p;
        }
    d->lettered = d->plans > BY_NAME;
    size_t placed = scatter_place_labels(d, (const double(*)[2])point, points);
    if (placed < d->plans && !d->lettered) {
        d->lettered = true;
        placed = scatter_place_labels(d, (const double(*)[2])point, points);
    }
    d->keyed = !d->lettered ? 0 : d->plans < KEY_MOST ? d->plans : KEY_MOST;
    write_note(d, d->plans - placed);
out:
    free(point);
    return st;
}

static void put_labels(FILE *script, const struct scatter_drawing *d)
{
    char text[NAME_ROOM];
    for (size_t i = 0; i < d->plans; i++)
        if (d->label[i].placed)
            scatter_put_label(script, &d->label[i], d->axis.side,
                              d->lettered
                                  ? d->plan[i].letter
                                  : text_shorten(d->plan[i].name, NAME_COLUMNS, text, sizeof text));
}

/* Two columns below the axes: letter, name and error. */
static void scatter_put_key(FILE *script, const struct scatter_drawing *d)
{
    size_t rows = (d->keyed + 1) / 2;
    int column = d->g.width / 2 - 8, columns = (column - 20) / FIGURE_CHARACTER;
    for (size_t i = 0; i < d->keyed; i++) {
        char name[NAME_ROOM], error[24];
        double error_percent = 100 * d->plan[i].plan->error;
        double x = 10 + (double)(i / rows) * column;
        double y = d->g.height - d->g.bottom + KEY_TOP - 6 + (double)(i % rows) * FIGURE_LINE;
        int wide = snprintf(error, sizeof error, "%s%.1f %%", error_percent < 0 ? "−" : "+",
                            fabs(error_percent));
        const char *const part[] = {
            d->plan[i].letter,
            text_shorten(d->plan[i].name, (size_t)(columns - wide), name, sizeof name), error};
        const int at[] = {0, 20, column - 14};
        for (size_t k = 0; k < 3; k++) {
            fputs("set label ", script);
            figure_put_string(script, part[k]);
            fprintf(script, " at screen %.5f,%.5f %s noenhanced font ',%d'\n",
                    (x + at[k]) / d->g.width, 1 - y / d->g.height, k < 2 ? "left" : "right",
                    FIGURE_SMALL);
        }
    }
}

/* ---- bands and axes */

/* Name the lines predicted = factor * measured where they leave the square. */
static void put_band_labels(FILE *script, const struct square *a)
{
    static const struct {
        double factor;
        const char *name;
    } line[] = {{1.10, "+10 %"}, {0.90, "−10 %"}, {1.05, "+5 %"}, {0.95, "−5 %"}};
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        bool over = line[i].factor > 1;
        double at = over ? a->high_s / line[i].factor : a->high_s * line[i].factor;
        bool inner = fabs(line[i].factor - 1) < 0.07;
        double to_corner = a->side - pixels(a, at);
        double to_outer = pixels(a, at) - pixels(a, over ? a->high_s / 1.10 : a->high_s * 0.90);
        double room = over ? 40 : FIGURE_LINE;
        if (to_corner < room || (inner && to_outer < room))
            continue; /* would run into another label */
        fprintf(script,
                "set label '%s' at graph %.5f,%.5f %s offset character %s "
                "textcolor rgb '#606060' font ',11'\n",
                line[i].name, over ? pixels(a, at) / a->side : 1,
                over ? 1 : pixels(a, at) / a->side, over ? "center" : "left",
                over ? "0,0.7" : "0.5,0");
    }
    fprintf(script, "set label 'equal' at graph 1,1 left offset character 0.5,0.4 "
                    "textcolor rgb '#606060' font ',11'\n");
}

enum { AXIS_TEXT = 128 };

/* "iteration, measured by tcp (ms)"; engine NULL: several. */
static const char *axis_label(const char *done, const char *engine, const struct square *a,
                              char text[AXIS_TEXT])
{
    snprintf(text, AXIS_TEXT, "iteration, %s%s%.50s (%s)", done, engine ? " by " : "",
             engine ? engine : "", a->unit.name);
    return text;
}

/* 1, 2 and 5 times powers of ten; of many orders only the powers, as far as there is room. */
static void put_tics(FILE *script, double low, double high)
{
    static const double factor[] = {1, 2, 5};
    double orders = log10(high / low);
    int few = orders > 2 ? 1 : 3, every = (int)(orders / 8) + 1;
    fprintf(script, "set logscale xy\n");
    for (int axis = 0; axis < 2; axis++) {
        const char *before = "";
        fprintf(script, "set %ctics (", "xy"[axis]);
        for (int power = (int)floor(log10(low)); pow(10, power) <= high; power++)
            for (int k = 0; k < few; k++) {
                double at = factor[k] * pow(10, power);
                if (at < low || at > high || power % every)
                    continue;
                fprintf(script, "%s'%.4g' %.9g", before, at, at);
                before = ", ";
            }
        fputs(")\n", script);
    }
}

/* Below the axis, above the key; notes stand below that. */
static void put_time(FILE *script, const struct scatter_drawing *d, const char *text)
{
    struct figure_geometry above = d->g;
    if (d->keyed == 0) {
        figure_put_xlabel(script, &d->g, text);
        return;
    }
    above.left = above.right = 8;
    figure_put_xlabel(script, &above, "");
    fputs("set label ", script);
    if (d->g.style && d->g.style->xlabel)
        figure_put_string(script, d->g.style->xlabel);
    else
        figure_put_name(script, text);
    fprintf(script, " at screen %.5f,%.5f center noenhanced\n",
            (d->g.left + d->axis.side / 2) / d->g.width, (d->g.bottom - 46.0) / d->g.height);
}

static void scatter_put_axes(FILE *script, const struct scatter_drawing *d)
{
    const struct comparisons *c = &d->c;
    const struct square *a = &d->axis;
    double low = a->low_s * a->unit.per_s, high = a->high_s * a->unit.per_s;
    fprintf(script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", low, high, low, high);
    if (a->logarithmic)
        put_tics(script, low, high);
    char text[AXIS_TEXT];
    const char *measured_by = c->n == 1 ? c->item[0].measured_by : NULL;
    const char *predicted_by = c->n == 1 ? c->item[0].predicted_by : NULL;
    put_time(script, d, axis_label("measured", measured_by, a, text));
    axis_put_ylabel(script, &d->g, axis_label("predicted", predicted_by, a, text));
    fprintf(script, "$bands << EOD\n");
    enum { STEPS = 200 }; /* a fine grid, so that clipping at the frame leaves no notch */
    for (int i = 0; i <= STEPS; i++)
        fprintf(script, "%.9g\n",
                a->logarithmic ? low * pow(high / low, (double)i / STEPS)
                               : low + (high - low) * i / STEPS);
    fprintf(script, "EOD\n");
}

/* How many kinds of runs come before this one by name: the same in any order of files. */
static size_t run_index(const struct comparisons *c, const char *measured_by)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        size_t first = 0;
        while (strcmp(c->item[first].measured_by, c->item[i].measured_by) != 0)
            first++;
        n += first == i && strcmp(c->item[i].measured_by, measured_by) < 0;
    }
    return n;
}

/* The analytic engine's marks are rings, so that those of an engine that agrees show inside. */
static bool scatter_is_ring(const char *predicted_by)
{
    return strcmp(predicted_by, "analytic") == 0;
}

/* "simgrid against tcp", with the colour of what predicts and a mark by the kind of runs. */
static enum status make_legend(struct scatter_drawing *d)
{
    static const int shape[] = {7, 9, 5, 13, 11}; /* filled; gnuplot's rings are one less */
    const struct comparisons *c = &d->c;
    PASS(ARRAY_NEW(d->legend, c->n));
    PASS(ARRAY_NEW(d->title, c->n));
    for (size_t i = 0; i < c->n; i++) {
        const char *by = c->item[i].predicted_by;
        size_t run = run_index(c, c->item[i].measured_by);
        snprintf(d->title[i], TITLE, "%.50s against %.50s", by, c->item[i].measured_by);
        d->legend[i] = (struct figure_key){
            style_shown(d->g.style, d->title[i]), figure_engine_colour(by),
            shape[run % (sizeof shape / sizeof *shape)] - scatter_is_ring(by), 0};
    }
    return STATUS_OK;
}

static void scatter_put_plot(FILE *script, const struct scatter_drawing *d)
{
    const struct square *a = &d->axis;
    double high = a->high_s * a->unit.per_s, low = a->low_s * a->unit.per_s;
    static const double width[] = {0.10, 0.05};
    static const char *const shade[] = {"#EFEFEF", "#DCDCDC"};
    fprintf(script, "clip(y) = y < %.9g ? %.9g : y > %.9g ? %.9g : y\nplot ", low, low, high, high);
    for (size_t b = 0; b < 2; b++)
        fprintf(script,
                "$bands using 1:(clip($1 * %g)):(clip($1 * %g)) with filledcurves "
                "fillcolor rgb '%s' notitle, ",
                1 - width[b], 1 + width[b], shade[b]);
    fprintf(script, "$bands using 1:1 with lines linecolor rgb '#808080' notitle");
    for (size_t i = 0; i < d->c.n; i++)
        fprintf(script,
                ", $points%zu using 1:2 with points pointtype %d pointsize %g linewidth 1.5 "
                "linecolor rgb '%s' notitle",
                i, d->legend[i].point, scatter_is_ring(d->c.item[i].predicted_by) ? 1.2 : 0.7,
                d->legend[i].colour);
    putc('\n', script);
}

static enum status scatter_draw_source(const struct measurement *m, const char *const *name,
                                       size_t n, const struct plot_style *style, const char *output,
                                       const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct scatter_drawing d = {
        .g = {.width = figure_width(style), .left = LEFT, .right = RIGHT, .style = style}};
    struct figure f = {0};

    TRY(compare_measurements(m, name, n, &d.c));
    TRY(make_legend(&d));
    size_t keys = d.c.n > 1 ? d.c.n : 0;
    figure_set_margins(&d.g, 58, d.legend, keys);
    d.axis = scatter_choose_axis(&d.c, d.g.width - d.g.left - d.g.right);
    TRY(name_points(&d));
    d.g.note = d.note;
    figure_set_margins(&d.g, d.keyed > 0 ? KEY_TOP + (int)((d.keyed + 1) / 2) * FIGURE_LINE : 58,
                       d.legend, keys);
    d.g.top += TOP;
    d.g.height = d.g.top + (int)d.axis.side + d.g.bottom;
    TRY(figure_open(output, &d.g, by, &f));
    scatter_put_table(f.table, &d.c);
    for (size_t i = 0; i < d.c.n; i++)
        put_points(f.script, &d.c.item[i], i, d.axis.unit.per_s);
    scatter_put_axes(f.script, &d);
    put_band_labels(f.script, &d.axis);
    put_labels(f.script, &d);
    scatter_put_key(f.script, &d);
    figure_put_key(f.script, &d.g, d.legend, keys);
    scatter_put_plot(f.script, &d);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    free(d.title);
    free(d.legend);
    free(d.plan);
    free(d.label);
    comparisons_free(&d.c);
    return st;
}

enum status plot_scatter(const struct measurement *m, const char *const *name, size_t n,
                         const char *output, const struct provenance *by)
{
    return scatter_draw_source(m, name, n, NULL, output, by);
}

static enum status draw_scatter(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    return scatter_draw_source(s->m, s->path, s->n, &s->style, output, by);
}

const struct plot_kind plot_scatter_kind = {
    .name = "scatter",
    .summary = "predicted against measured iteration times, bands of 5 and 10 %",
    .input = PLOT_MEASUREMENTS,
    .styles = STYLE_XLABEL | STYLE_YLABEL | STYLE_LEGEND,
    .draw = draw_scatter,
};
