/* Predicted against measured iteration times on logarithmic axes, with the line of equality,
 * bands, and names where there is room. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/compare.h"
#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/labels.h"
#include "plots/plot.h"

enum { SIDE = 470, NAME_ROOM = 32, LABEL_FONT = 12, LOG_FROM = 20, BELOW = 62 };

static const struct figure_geometry geometry = {.width = 80 + SIDE + 66,
                                                .height = 30 + SIDE + BELOW,
                                                .left = 80,
                                                .right = 66,
                                                .top = 30,
                                                .bottom = BELOW};

/* Both axes: from low_s to high_s, logarithmic when the times differ by more than LOG_FROM. */
struct axis {
    double low_s, high_s;
    bool logarithmic;
    struct figure_unit unit;
};

static struct axis choose_axis(const struct comparisons *c)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->item[i].plans; k++) {
            const struct compared_plan *p = &c->item[i].plan[k];
            low = fmin(low, fmin(p->predicted_s, p->measured_s));
            high = fmax(high, fmax(p->predicted_s, p->measured_s));
        }
    }
    struct axis a = {.logarithmic = high / low > LOG_FROM, .unit = figure_time_unit(high)};
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
static double pixels(const struct axis *a, double seconds)
{
    double at = a->logarithmic ? log(seconds / a->low_s) / log(a->high_s / a->low_s)
                               : (seconds - a->low_s) / (a->high_s - a->low_s);
    return at * SIDE;
}

/* ---- points */

static void put_table(FILE *table, const struct comparisons *c)
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

static void put_label(FILE *script, const struct label *l, const char *name)
{
    double far = hypot(l->x + l->width / 2 - l->point_x, l->y - l->point_y) - l->width / 2;
    if (far > 16) { /* away from its point: a line leads there */
        double to_x = l->point_x < l->x              ? l->x - 2
                      : l->point_x > l->x + l->width ? l->x + l->width + 2
                                                     : l->point_x;
        double to_y = to_x == l->point_x ? l->y + (l->point_y > l->y ? 7 : -7) : l->y;
        fprintf(script,
                "set arrow from graph %.5f,%.5f to graph %.5f,%.5f nohead "
                "linecolor rgb '#808080' linewidth 0.5\n",
                l->point_x / SIDE, l->point_y / SIDE, to_x / SIDE, to_y / SIDE);
    }
    fprintf(script, "set label ");
    figure_put_string(script, name);
    fprintf(script, " at graph %.5f,%.5f left noenhanced front font ',%d'\n", l->x / SIDE,
            l->y / SIDE, LABEL_FONT);
}

/* "simgrid against tcp", a line of the legend. */
enum { TITLE = 128 };
static const char *title_of(const struct comparison *c, char text[TITLE])
{
    snprintf(text, TITLE, "%.50s against %.50s", c->predicted_by, c->measured_by);
    return text;
}

/* Obstacles where the legend is, in the lower right corner; returns how many. at NULL: count. */
static size_t cover_legend(const struct comparisons *c, double (*at)[2])
{
    enum { APART = 12, MARK_WIDTH = 45, LINE = 20 };
    char text[TITLE];
    size_t n = 0, longest = 0;
    for (size_t i = 0; i < c->n; i++) {
        size_t length = strlen(title_of(&c->item[i], text));
        longest = length > longest ? length : longest;
    }
    double left = SIDE - MARK_WIDTH - (double)longest * FIGURE_CHARACTER;
    for (double y = 0; c->n > 1 && y < (double)c->n * LINE + APART; y += APART) {
        for (double x = SIDE; x > left; x -= APART, n++) {
            if (at) {
                at[n][0] = x;
                at[n][1] = y;
            }
        }
    }
    return n;
}

static enum status put_labels(FILE *script, const struct comparisons *c, const struct axis *a)
{
    enum status st = STATUS_OK;
    size_t points = 0, n = 0;
    for (size_t i = 0; i < c->n; i++)
        points += c->item[i].plans;
    double(*point)[2] = NULL;
    struct label *label = NULL;
    char(*name)[NAME_ROOM] = NULL;
    TRY(ARRAY_NEW(point, points + cover_legend(c, NULL)));
    TRY(ARRAY_NEW(label, points));
    TRY(ARRAY_NEW(name, points));
    points = 0;
    for (size_t i = 0; i < c->n; i++) {
        for (size_t k = 0; k < c->item[i].plans; k++) {
            const struct compared_plan *p = &c->item[i].plan[k];
            point[points][0] = pixels(a, p->measured_s);
            point[points][1] = pixels(a, p->predicted_s);
            if (!labelled_before(c, i, p->plan)) {
                figure_plan_name(p->plan, name[n], NAME_ROOM);
                label[n] = (struct label){
                    .point_x = point[points][0],
                    .point_y = point[points][1],
                    .width = (double)strlen(name[n]) * FIGURE_CHARACTER + 4,
                    .height = FIGURE_LINE,
                    .left = p->predicted_s > p->measured_s, /* away from the line */
                };
                n++;
            }
            points++;
        }
    }
    points += cover_legend(c, point + points);
    labels_place(label, n, (const double(*)[2])point, points, SIDE, SIDE);
    for (size_t k = 0; k < n; k++)
        if (label[k].placed)
            put_label(script, &label[k], name[k]);
out:
    free(name);
    free(label);
    free(point);
    return st;
}

/* ---- bands and axes */

/* Name the lines predicted = factor * measured where they leave the square. */
static void put_band_labels(FILE *script, const struct axis *a)
{
    static const struct {
        double factor;
        const char *name;
    } line[] = {{1.10, "+10 %"}, {0.90, "−10 %"}, {1.05, "+5 %"}, {0.95, "−5 %"}};
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        bool over = line[i].factor > 1;
        double at = over ? a->high_s / line[i].factor : a->high_s * line[i].factor;
        bool inner = fabs(line[i].factor - 1) < 0.07;
        double to_corner = SIDE - pixels(a, at);
        double to_outer = pixels(a, at) - pixels(a, over ? a->high_s / 1.10 : a->high_s * 0.90);
        double room = over ? 40 : FIGURE_LINE;
        if (to_corner < room || (inner && to_outer < room))
            continue; /* would run into another label */
        fprintf(script,
                "set label '%s' at graph %.5f,%.5f %s offset character %s "
                "textcolor rgb '#606060' font ',11'\n",
                line[i].name, over ? pixels(a, at) / SIDE : 1, over ? 1 : pixels(a, at) / SIDE,
                over ? "center" : "left", over ? "0,0.7" : "0.5,0");
    }
    fprintf(script, "set label 'equal' at graph 1,1 left offset character 0.5,0.4 "
                    "textcolor rgb '#606060' font ',11'\n");
}

enum { AXIS_TEXT = 128 };

/* "iteration, measured by tcp (ms)"; engine NULL: several. */
static const char *axis_label(const char *done, const char *engine, const struct axis *a,
                              char text[AXIS_TEXT])
{
    snprintf(text, AXIS_TEXT, "iteration, %s%s%.50s (%s)", done, engine ? " by " : "",
             engine ? engine : "", a->unit.name);
    return text;
}

static void put_axes(FILE *script, const struct comparisons *c, const struct axis *a)
{
    double low = a->low_s * a->unit.per_s, high = a->high_s * a->unit.per_s;
    fprintf(script, "set xrange [%.9g:%.9g]\nset yrange [%.9g:%.9g]\n", low, high, low, high);
    if (a->logarithmic)
        fprintf(script, "set logscale xy\n");
    char text[AXIS_TEXT];
    const char *measured_by = c->n == 1 ? c->item[0].measured_by : NULL;
    const char *predicted_by = c->n == 1 ? c->item[0].predicted_by : NULL;
    figure_put_xlabel(script, &geometry, axis_label("measured", measured_by, a, text));
    fprintf(script, "set ylabel ");
    figure_put_string(script, axis_label("predicted", predicted_by, a, text));
    fprintf(script, " noenhanced\n");
    fprintf(script, "$bands << EOD\n");
    enum { STEPS = 200 }; /* a fine grid, so that clipping at the frame leaves no notch */
    for (int i = 0; i <= STEPS; i++)
        fprintf(script, "%.9g\n",
                a->logarithmic ? low * pow(high / low, (double)i / STEPS)
                               : low + (high - low) * i / STEPS);
    fprintf(script, "EOD\nset key bottom right Left reverse noenhanced samplen 1\n");
}

static void put_plot(FILE *script, const struct comparisons *c, const struct axis *a)
{
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
    for (size_t i = 0; i < c->n; i++) {
        static const int shape[] = {7, 9, 5, 13, 11};
        char title[TITLE];
        fprintf(script,
                ", $points%zu using 1:2 with points pointtype %d pointsize 1 linecolor rgb "
                "'%s' ",
                i, shape[i % (sizeof shape / sizeof *shape)],
                c->n == 1 ? figure_simgrid : figure_engine_colour(c->item[i].predicted_by));
        if (c->n == 1) {
            fprintf(script, "notitle");
        } else {
            fprintf(script, "title ");
            figure_put_string(script, title_of(&c->item[i], title));
        }
    }
    putc('\n', script);
}

enum status plot_scatter(const struct measurement *m, const char *const *name, size_t n,
                         const char *output, const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct comparisons c = {0};
    struct figure f = {0};

    TRY(compare_measurements(m, name, n, &c));
    struct axis a = choose_axis(&c);
    TRY(figure_open(output, &geometry, by, &f));
    put_table(f.table, &c);
    for (size_t i = 0; i < c.n; i++)
        put_points(f.script, &c.item[i], i, a.unit.per_s);
    put_axes(f.script, &c, &a);
    put_band_labels(f.script, &a);
    TRY(put_labels(f.script, &c, &a));
    put_plot(f.script, &c, &a);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    comparisons_free(&c);
    return st;
}

static enum status draw_scatter(const struct plot_source *s, const char *output,
                                const struct provenance *by)
{
    return plot_scatter(s->m, s->path, s->n, output, by);
}

const struct plot_kind plot_scatter_kind = {
    .name = "scatter",
    .summary = "predicted against measured iteration times, bands of 5 and 10 %",
    .input = PLOT_MEASUREMENTS,
    .draw = draw_scatter,
};
