/* The Gantt chart of a trace: two lanes a rank, compute above, communication and copies below. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plots/figure.h"
#include "plots/kind.h"
#include "plots/plot.h"
#include "plots/trace_events.h"

/* A rank's row is one unit high and centred on its index; downwards, as in the y axis. */
static const double compute_top = -0.42, compute_bottom = 0.18;
static const double wire_top = 0.22, wire_bottom = 0.42;

enum {
    ROW_HEIGHT = 34, /* pixels, while the picture is not too high */
    ROW_MINIMUM = 5,
    ROWS_HEIGHT = 1000,
    NUMBER_FONT = 10, /* microbatch numbers */
    NUMBER_CHARACTER = 6,
    NUMBER_ROW = 18, /* row height from which numbers fit */
    LABEL_ROOM = 40, /* characters of a rank's name */
    KEY_LEFT = 16,   /* the legend may stand above the names */
    MAX_ROWS = 2000
};

static const char *const category_names[TRACE_CATEGORIES] = {
    [TRACE_COPY] = "copies",       [TRACE_COMMUNICATION] = "communication",
    [TRACE_COMPUTE] = "compute",   [TRACE_FORWARD] = "forward",
    [TRACE_BACKWARD] = "backward", [TRACE_WEIGHT] = "weight gradient",
    [TRACE_UPDATE] = "update",
};

static const char *colour_of(int category)
{
    return category == TRACE_FORWARD    ? figure_forward
           : category == TRACE_COMPUTE  ? figure_compute
           : category == TRACE_BACKWARD ? figure_backward
           : category == TRACE_WEIGHT   ? figure_weight
           : category == TRACE_UPDATE   ? figure_update
           : category == TRACE_COPY     ? figure_copy
                                        : figure_communication;
}

static void rank_name(const struct trace_events *t, size_t row, char text[LABEL_ROOM])
{
    if (t->rank[row])
        snprintf(text, LABEL_ROOM, "%s", t->rank[row]);
    else
        snprintf(text, LABEL_ROOM, "rank %lld", (long long)t->pid[row]);
}

/* Microbatches that follow each other differ in shade; forward stays lighter than backward. */
enum { SHADES = 4 };
static const unsigned forward_shade[SHADES] = {0x9ED5F5, 0x6FC0EC, 0xB9E1F8, 0x56B4E9};
static const unsigned backward_shade[SHADES] = {0xD55E00, 0xA84800, 0xE07A2B, 0xBE5200};
static const unsigned weight_shade[SHADES] = {0xF0E442, 0xD9CB1F, 0xF5EE86, 0xE3D630};
static const unsigned compute_colour = 0x0072B2, update_colour = 0x000000, wire_colour = 0x009E73,
                      copy_colour = 0xCC79A7;

static unsigned shade_of(const struct trace_event *e)
{
    size_t k = e->microbatch < 0 ? 0 : (size_t)e->microbatch % SHADES;
    return e->category == TRACE_FORWARD    ? forward_shade[k]
           : e->category == TRACE_BACKWARD ? backward_shade[k]
           : e->category == TRACE_WEIGHT   ? weight_shade[k]
           : e->category == TRACE_UPDATE   ? update_colour
           : e->category == TRACE_COMPUTE  ? compute_colour
           : e->category == TRACE_COPY     ? copy_colour
                                           : wire_colour;
}

/* ---- table */

static void put_table(FILE *table, const struct trace_events *t)
{
    fprintf(table, "# rank\tname\top\tkind\tmicrobatch\tstart_s\tend_s\n");
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_event *e = &t->event[i];
        char name[LABEL_ROOM], microbatch[24] = "-";
        rank_name(t, e->row, name);
        if (e->microbatch >= 0)
            snprintf(microbatch, sizeof microbatch, "%lld", (long long)e->microbatch);
        fprintf(table, "%lld\t", (long long)t->pid[e->row]);
        figure_put_field(table, name);
        putc('\t', table);
        figure_put_field(table, e->name);
        fprintf(table, "\t%s\t%s\t%.9g\t%.9g\n", category_names[e->category], microbatch,
                e->start_s, e->end_s);
    }
}

/* ---- script */

/* Boxes of one category as a data block: x y x_low x_high y_low y_high colour. */
static size_t put_boxes(FILE *script, const struct trace_events *t, int category, double per_s)
{
    bool wire = category <= TRACE_COMMUNICATION;
    double top = wire ? wire_top : compute_top, bottom = wire ? wire_bottom : compute_bottom;
    size_t n = 0;
    fprintf(script, "$boxes%d << EOD\n", category);
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_event *e = &t->event[i];
        if (e->category != category || e->end_s <= e->start_s)
            continue;
        fprintf(script, "%.9g\t%u\t%.9g\t%.9g\t%.9g\t%.9g\t%u\n", e->start_s * per_s, e->row,
                e->start_s * per_s, e->end_s * per_s, e->row + top, e->row + bottom, shade_of(e));
        n++;
    }
    fprintf(script, "EOD\n");
    return n;
}

/* Microbatch numbers of the boxes that are wide enough: x y number. */
static size_t put_numbers(FILE *script, const struct trace_events *t, int category, double per_s,
                          double pixels_per_s)
{
    size_t n = 0;
    fprintf(script, "$numbers%d << EOD\n", category);
    for (size_t i = 0; i < t->n; i++) {
        const struct trace_event *e = &t->event[i];
        char text[24];
        if (e->category != category || e->microbatch < 0)
            continue;
        int length = snprintf(text, sizeof text, "%lld", (long long)e->microbatch);
        if ((e->end_s - e->start_s) * pixels_per_s < length * NUMBER_CHARACTER + 4)
            continue;
        fprintf(script, "%.9g\t%.9g\t%s\n", (e->start_s + e->end_s) / 2 * per_s,
                e->row + (compute_top + compute_bottom) / 2, text);
        n++;
    }
    fprintf(script, "EOD\n");
    return n;
}

/* Names of ranks, as many as fit. */
static void put_ranks(FILE *script, const struct trace_events *t, int row_height)
{
    size_t step = 1;
    while (step * (size_t)row_height < FIGURE_LINE)
        step *= 2;
    fprintf(script, "set ytics noenhanced scale 0 (");
    for (size_t i = 0; i < t->rows; i += step) {
        char name[LABEL_ROOM];
        rank_name(t, i, name);
        fprintf(script, "%s", i ? ", " : "");
        figure_put_string(script, name);
        fprintf(script, " %zu", i);
    }
    fprintf(script, ")\n");
}

/* Colours explained above the axes, in the order of a microbatch's life. Returns how many. */
static size_t collect_keys(const struct trace_events *t,
                           struct figure_key key[TRACE_CATEGORIES + 1])
{
    static const int order[] = {TRACE_COMPUTE, TRACE_FORWARD,       TRACE_BACKWARD, TRACE_WEIGHT,
                                TRACE_UPDATE,  TRACE_COMMUNICATION, TRACE_COPY};
    bool used[TRACE_CATEGORIES] = {false};
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        used[t->event[i].category] |= t->event[i].end_s > t->event[i].start_s;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (used[order[k]])
            key[n++] = (struct figure_key){category_names[order[k]], colour_of(order[k]), 0};
    key[n++] = (struct figure_key){"idle", figure_idle, 0};
    return n;
}

static void put_idle(FILE *script, const struct trace_events *t, double per_s)
{
    fprintf(script, "$idle << EOD\n");
    for (size_t row = 0; row < t->rows; row++)
        if (t->end_s[row] > 0)
            fprintf(script, "0\t%zu\t0\t%.9g\t%.9g\t%.9g\n", row, t->end_s[row] * per_s,
                    (double)row + compute_top, (double)row + compute_bottom);
    fprintf(script, "EOD\n");
}

/* White lines between compute ops, unless these are so narrow that little else would be seen. */
static const char *border_style(const struct trace_events *t, int category, double pixels_per_s)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->event[i].category > TRACE_COMMUNICATION) {
            sum += (t->event[i].end_s - t->event[i].start_s) * pixels_per_s;
            n++;
        }
    }
    bool wide = n > 0 && sum / (double)n >= 4;
    return wide && category > TRACE_COMMUNICATION ? "border rgb '#FFFFFF'" : "noborder";
}

static void put_script(FILE *script, const struct trace_events *t, const struct figure_geometry *g,
                       int row_height, double end_s)
{
    static const int drawn[] = {TRACE_COPY,     TRACE_COMMUNICATION, TRACE_COMPUTE, TRACE_FORWARD,
                                TRACE_BACKWARD, TRACE_WEIGHT,        TRACE_UPDATE};
    struct figure_unit unit = figure_time_unit(end_s);
    double pixels_per_s = (g->width - g->left - g->right) / end_s;
    size_t boxes[TRACE_CATEGORIES], numbers[TRACE_CATEGORIES];
    struct figure_key key[TRACE_CATEGORIES + 1];
    char label[32];
    for (int c = 0; c < TRACE_CATEGORIES; c++) {
        boxes[c] = put_boxes(script, t, c, unit.per_s);
        numbers[c] = 0;
        if (row_height >= NUMBER_ROW && c >= TRACE_FORWARD && c <= TRACE_WEIGHT)
            numbers[c] = put_numbers(script, t, c, unit.per_s, pixels_per_s);
    }
    put_idle(script, t, unit.per_s);
    struct figure_geometry wide = *g;
    wide.left = KEY_LEFT;
    figure_put_key(script, &wide, key, collect_keys(t, key));
    put_ranks(script, t, row_height);
    snprintf(label, sizeof label, "time (%s)", unit.name);
    figure_put_xlabel(script, g, label);
    fprintf(script,
            "set border 1\nset xrange [0:%.9g]\nset yrange [%.9g:-0.5]\n"
            "plot $idle using 1:2:3:4:5:6 with boxxyerror fillcolor rgb '%s' notitle",
            end_s * unit.per_s, (double)t->rows - 0.5, figure_idle);
    for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++) {
        int c = drawn[k];
        if (boxes[c] > 0)
            fprintf(script,
                    ", $boxes%d using 1:2:3:4:5:6:7 with boxxyerror linewidth 0.5 fillcolor "
                    "rgb variable fillstyle solid 1.0 %s notitle",
                    c, border_style(t, c, pixels_per_s));
        if (numbers[c] > 0)
            fprintf(script,
                    ", $numbers%d using 1:2:3 with labels noenhanced font ',%d' "
                    "textcolor rgb '%s' notitle",
                    c, NUMBER_FONT, c == TRACE_FORWARD ? "#000000" : "#FFFFFF");
    }
    putc('\n', script);
}

static struct figure_geometry geometry(const struct trace_events *t, int *row_height)
{
    int longest = 0;
    for (size_t row = 0; row < t->rows; row++) {
        char name[LABEL_ROOM];
        rank_name(t, row, name);
        longest = (int)strlen(name) > longest ? (int)strlen(name) : longest;
    }
    *row_height = ROWS_HEIGHT / (int)t->rows;
    *row_height = *row_height > ROW_HEIGHT ? ROW_HEIGHT : *row_height;
    *row_height = *row_height < ROW_MINIMUM ? ROW_MINIMUM : *row_height;
    struct figure_geometry g = {
        .width = FIGURE_COLUMN, .left = KEY_LEFT, .right = 18, .bottom = 62};
    struct figure_key key[TRACE_CATEGORIES + 1];
    g.top = 4 + figure_key_height(&g, key, collect_keys(t, key));
    g.left = 16 + longest * FIGURE_CHARACTER;
    g.height = g.top + g.bottom + *row_height * (int)t->rows;
    return g;
}

enum status plot_timeline(const char *const *trace, size_t n, const char *output,
                          const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct trace_events t = {0};
    struct figure f = {0};
    double end_s = 0;
    int row_height;

    TRY(trace_events_read_all(trace, n, &t));
    for (size_t i = 0; i < t.n; i++)
        end_s = fmax(end_s, t.event[i].end_s);
    if (end_s <= 0 || t.rows > MAX_ROWS) {
        if (end_s <= 0)
            st = error_set(STATUS_INVALID, "%s: nothing takes any time", trace[0]);
        else
            st = error_set(STATUS_INVALID, "%s: %zu ranks, a picture has room for %d", trace[0],
                           t.rows, MAX_ROWS);
        goto out;
    }
    struct figure_geometry g = geometry(&t, &row_height);
    TRY(figure_open(output, &g, by, &f));
    put_table(f.table, &t);
    put_script(f.script, &t, &g, row_height, end_s);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    trace_events_free(&t);
    return st;
}

static enum status draw_timeline(const struct plot_source *s, const char *output,
                                 const struct provenance *by)
{
    return plot_timeline(s->path, s->n, output, by);
}

const struct plot_kind plot_timeline_kind = {
    .name = "timeline",
    .summary = "Gantt chart of traces (simulate --trace, run --trace, measurement import --trace), "
               "several on one time axis: a row per rank, compute above communication, grey where "
               "a rank is idle",
    .input = PLOT_TRACES,
    .draw = draw_timeline,
};
