/* The Gantt chart of traces: two lanes a rank, compute above, communication and copies below. */
#include "plots/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "plots/kind.h"
#include "plots/plot.h"

enum {
    ROW_HEIGHT = 34, /* pixels, while the picture is not too high */
    ROW_MINIMUM = 5,
    ROWS_HEIGHT = 1000,
    NUMBER_FONT = 10, /* microbatch numbers */
    NUMBER_CHARACTER = 6,
    NUMBER_ROW = 18,   /* row height from which numbers fit */
    NAME_COLUMNS = 22, /* of a rank's name */
    APART_FROM = 4,    /* pixels from which neighbouring boxes have a gap between them */
    KEY_LEFT = 16,     /* the legend may stand above the names */
    MAX_ROWS = 2000
};

/* Microbatches that follow each other differ in shade; forward stays lighter than backward. */
enum { SHADES = 4 };
static const unsigned forward_shade[SHADES] = {0x9ED5F5, 0x6FC0EC, 0xB9E1F8, 0x56B4E9};
static const unsigned backward_shade[SHADES] = {0xD55E00, 0xA84800, 0xE07A2B, 0xBE5200};
static const unsigned weight_shade[SHADES] = {0xF0E442, 0xD9CB1F, 0xF5EE86, 0xE3D630};
static const unsigned compute_colour = 0x0072B2, update_colour = 0x000000, wire_colour = 0x009E73,
                      copy_colour = 0xCC79A7;

static unsigned shade_of(int category, int64_t microbatch)
{
    size_t k = microbatch < 0 ? 0 : (size_t)microbatch % SHADES;
    return category == TRACE_FORWARD    ? forward_shade[k]
           : category == TRACE_BACKWARD ? backward_shade[k]
           : category == TRACE_WEIGHT   ? weight_shade[k]
           : category == TRACE_UPDATE   ? update_colour
           : category == TRACE_COMPUTE  ? compute_colour
           : category == TRACE_COPY     ? copy_colour
                                        : wire_colour;
}

/* ---- table */

static bool in_sight(const struct timeline_view *v, const struct trace_event *e)
{
    return e->end_s > v->from_s && e->start_s < v->to_s;
}

/* The trace's name and the rank's, of several traces. */
static void timeline_put_name(FILE *table, const struct timeline_view *v, size_t row)
{
    char name[TIMELINE_NAME];
    size_t heading = row;
    while (heading > 0 && v->row[heading].ranks > 0)
        heading--;
    if (v->row[heading].ranks == 0) {
        figure_put_field(table, timeline_row_name(v, heading, name));
        fputs(": ", table);
    }
    figure_put_field(table, timeline_row_name(v, row, name));
}

static void timeline_put_table(FILE *table, const struct timeline_view *v)
{
    fprintf(table, "# rank\tname\top\tkind\tmicrobatch\tstart_s\tend_s\n");
    for (size_t i = 0; i < v->t->n; i++) {
        const struct trace_event *e = &v->t->event[i];
        char microbatch[24] = "-";
        if (!in_sight(v, e))
            continue;
        if (e->microbatch >= 0)
            snprintf(microbatch, sizeof microbatch, "%lld", (long long)e->microbatch);
        fprintf(table, "%lld\t", (long long)v->t->pid[e->row]);
        timeline_put_name(table, v, v->row_of[e->row]);
        putc('\t', table);
        figure_put_field(table, e->name);
        fprintf(table, "\t%s\t%s\t%.9g\t%.9g\n", timeline_category_names[e->category], microbatch,
                e->start_s, e->end_s);
    }
}

/* ---- script */

/* What a picture is made from. */
struct timeline_drawing {
    struct timeline_view v;
    struct timeline_shares shares;
    struct figure_geometry g;
    struct figure_unit unit;
    int row_height;
    double pixels_per_s;
    size_t keys;
    struct figure_key key[TRACE_CATEGORIES + 1];
    char note[256];
};

/* A box as a line of data: x y x_low x_high y_low y_high colour. */
static void put_box(FILE *script, const struct timeline_drawing *d, size_t row, int category,
                    double start_s, double end_s, unsigned shade)
{
    bool wire = timeline_is_wire(category);
    double top = wire ? timeline_wire_top : timeline_compute_top;
    double bottom = wire ? timeline_wire_bottom : timeline_compute_bottom;
    double from = fmax(start_s, d->v.from_s), to = fmin(end_s, d->v.to_s);
    double y = (double)d->v.row_of[row];
    if (!wire && (to - from) * d->pixels_per_s > APART_FROM)
        to -= 0.6 / d->pixels_per_s;
    fprintf(script, "%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%u\n", from * d->unit.per_s, y,
            from * d->unit.per_s, to * d->unit.per_s, y + top, y + bottom, shade);
}

/* Boxes of one category as a data block. */
static size_t put_boxes(FILE *script, const struct timeline_drawing *d, int category)
{
    const struct timeline_view *v = &d->v;
    size_t n = 0;
    fprintf(script, "$boxes%d << EOD\n", category);
    for (size_t i = 0; timeline_is_wire(category) && i < v->t->n; i++) {
        const struct trace_event *e = &v->t->event[i];
        if (e->category != category || e->end_s <= e->start_s || !in_sight(v, e))
            continue;
        put_box(script, d, e->row, category, e->start_s, e->end_s, shade_of(category, -1));
        n++;
    }
    for (size_t i = 0; !timeline_is_wire(category) && i < v->boxes; i++) {
        const struct timeline_box *b = &v->box[i];
        if (b->category != category)
            continue;
        put_box(script, d, b->row, category, b->start_s, b->end_s,
                shade_of(category, b->microbatch));
        n++;
    }
    fprintf(script, "EOD\n");
    return n;
}

/* Microbatch numbers of the boxes that are wide enough: x y number. */
static size_t put_numbers(FILE *script, const struct timeline_drawing *d, int category)
{
    const struct timeline_view *v = &d->v;
    size_t n = 0;
    fprintf(script, "$numbers%d << EOD\n", category);
    for (size_t i = 0; i < v->boxes; i++) {
        const struct timeline_box *b = &v->box[i];
        char text[24];
        if (b->category != category || b->microbatch < 0)
            continue;
        double from = fmax(b->start_s, v->from_s), to = fmin(b->end_s, v->to_s);
        int length = snprintf(text, sizeof text, "%lld", (long long)b->microbatch);
        if ((to - from) * d->pixels_per_s < length * NUMBER_CHARACTER + 4)
            continue;
        fprintf(script, "%.9g\t%.9g\t%s\n", (from + to) / 2 * d->unit.per_s,
                (double)v->row_of[b->row] + (timeline_compute_top + timeline_compute_bottom) / 2,
                text);
        n++;
    }
    fprintf(script, "EOD\n");
    return n;
}

static const char *short_name(const struct timeline_drawing *d, size_t row,
                              char text[TIMELINE_NAME])
{
    char name[TIMELINE_NAME];
    size_t wide = (size_t)d->g.width / FIGURE_CHARACTER - 4;
    return text_shorten(style_shown(d->g.style, timeline_row_name(&d->v, row, name)),
                        d->v.row[row].ranks > 0 ? NAME_COLUMNS : wide, text, TIMELINE_NAME);
}

/* Names of ranks, as many as fit, and headings of traces above their rows. */
static void timeline_put_ranks(FILE *script, const struct timeline_drawing *d)
{
    char name[TIMELINE_NAME];
    const char *before = "";
    size_t step = 1;
    while (step * (size_t)d->row_height < FIGURE_LINE - 2)
        step *= 2;
    for (size_t i = 0; i < d->v.rows; i++) {
        if (d->v.row[i].ranks > 0)
            continue;
        fprintf(script, "set label ");
        figure_put_string(script, short_name(d, i, name));
        fprintf(script, " at screen %.5f, first %zu left noenhanced\n",
                (double)KEY_LEFT / d->g.width, i);
    }
    fprintf(script, "set ytics noenhanced scale 0 (");
    for (size_t i = 0, n = 0; i < d->v.rows; i++) {
        if (d->v.row[i].ranks == 0) {
            n = 0;
            continue;
        }
        if (n++ % step)
            continue;
        fputs(before, script);
        before = ", ";
        figure_put_string(script, short_name(d, i, name));
        fprintf(script, " %zu", i);
    }
    fprintf(script, ")\n");
}

/* Colours explained above the axes, in the order of a microbatch's life. */
static void timeline_collect_keys(struct timeline_drawing *d)
{
    static const int order[] = {TRACE_COMPUTE, TRACE_FORWARD,       TRACE_BACKWARD, TRACE_WEIGHT,
                                TRACE_UPDATE,  TRACE_COMMUNICATION, TRACE_COPY};
    const struct trace_events *t = d->v.t;
    bool used[TRACE_CATEGORIES] = {false};
    for (size_t i = 0; i < t->n; i++)
        used[t->event[i].category] |=
            t->event[i].end_s > t->event[i].start_s && in_sight(&d->v, &t->event[i]);
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (used[order[k]])
            d->key[d->keys++] =
                (struct figure_key){style_shown(d->g.style, timeline_category_names[order[k]]),
                                    timeline_colour(order[k]), 0, 0};
    d->key[d->keys++] = (struct figure_key){style_shown(d->g.style, "idle"), figure_idle, 0, 0};
}

static void put_idle(FILE *script, const struct timeline_drawing *d)
{
    const struct timeline_view *v = &d->v;
    fprintf(script, "$idle << EOD\n");
    for (size_t row = 0; row < v->rows; row++) {
        double end_s = fmin(v->t->end_s[v->row[row].first], v->to_s);
        if (v->row[row].ranks > 0 && end_s > v->from_s)
            fprintf(script, "%.9g\t%zu\t%.9g\t%.9g\t%.9g\t%.9g\n", v->from_s * d->unit.per_s, row,
                    v->from_s * d->unit.per_s, end_s * d->unit.per_s,
                    (double)row + timeline_compute_top, (double)row + timeline_compute_bottom);
    }
    fprintf(script, "EOD\n");
}

/* Data of the ops, which "plot" then draws. */
static void put_ops(FILE *script, const struct timeline_drawing *d)
{
    size_t boxes[TRACE_CATEGORIES], numbers[TRACE_CATEGORIES] = {0};
    static const char begin[] = "plot $idle using 1:2:3:4:5:6 with boxxyerror fillcolor rgb";
    if (d->shares.share) {
        timeline_put_areas(script, &d->v, &d->shares, d->unit.per_s);
        fprintf(script, "%s '%s' notitle", begin, figure_idle);
        timeline_plot_areas(script);
        return;
    }
    for (int c = 0; c < TRACE_CATEGORIES; c++) {
        boxes[c] = put_boxes(script, d, c);
        if (d->row_height >= NUMBER_ROW && c >= TRACE_FORWARD && c <= TRACE_WEIGHT)
            numbers[c] = put_numbers(script, d, c);
    }
    fprintf(script, "%s '%s' notitle", begin, figure_idle);
    for (int c = 0; c < TRACE_CATEGORIES; c++) {
        if (boxes[c] > 0)
            fprintf(script,
                    ", $boxes%d using 1:2:3:4:5:6:7 with boxxyerror fillcolor rgb variable "
                    "fillstyle solid 1.0 noborder notitle",
                    c);
        if (numbers[c] > 0)
            fprintf(script,
                    ", $numbers%d using 1:2:3 with labels noenhanced font ',%d' "
                    "textcolor rgb '%s' notitle",
                    c, NUMBER_FONT, figure_ink(timeline_colour(c)));
    }
}

static void put_script(FILE *script, const struct timeline_drawing *d)
{
    char label[32];
    put_idle(script, d);
    figure_put_key(script, &d->g, d->key, d->keys);
    timeline_put_ranks(script, d);
    snprintf(label, sizeof label, "time (%s)", d->unit.name);
    figure_put_xlabel(script, &d->g, label);
    fprintf(script, "set border 1\nset xrange [%.9g:%.9g]\nset yrange [%.9g:-0.5]\n",
            d->v.from_s * d->unit.per_s, d->v.to_s * d->unit.per_s, (double)d->v.rows - 0.5);
    put_ops(script, d);
    putc('\n', script);
}

/* ---- what there is room for */

/* What rows and columns sum up. */
static void name_detail(struct timeline_drawing *d, const struct timeline_window *w)
{
    size_t n = 0, room = sizeof d->note;
    if (w->ranks)
        n += (size_t)snprintf(d->note, room, "only rank%s %.60s; ",
                              strpbrk(w->ranks, ",-") ? "s" : "", w->ranks);
    if (d->v.t->step >= 0)
        n += (size_t)snprintf(d->note + n, room - n,
                              "step %lld of the run, counted from 0 and with its warm-up; ",
                              (long long)d->v.t->step);
    if (d->v.most > 1)
        n += (size_t)snprintf(d->note + n, room - n, "a row is the mean of up to %zu ranks; ",
                              d->v.most);
    if (d->v.step_s > 0)
        n += (size_t)snprintf(
            d->note + n, room - n, "heights are shares of the time in %s; ",
            units_of(UNIT_SECONDS, d->v.step_s * (double)(2 * d->v.beside + 1)).text);
    d->note[n > 2 ? n - 2 : 0] = '\0';
}

/* Rows decide how high the picture is, their names how wide its axes are, these how fine it can
 * be. */
static enum status timeline_arrange_rows(struct timeline_drawing *d,
                                         const struct timeline_window *w)
{
    size_t longest = 0;
    for (size_t i = 0; i < d->v.t->rows; i++) { /* rows of several ranks have shorter names */
        size_t n = d->v.t->pid[i] < 0 ? 0 : d->v.t->rank[i] ? text_columns(d->v.t->rank[i]) : 9;
        longest = n > longest ? n : longest;
    }
    longest = longest > NAME_COLUMNS ? NAME_COLUMNS : longest < 12 ? 12 : longest;
    struct figure_geometry *g = &d->g;
    *g = (struct figure_geometry){
        .width = figure_width(w->style), .right = 18, .key_left = KEY_LEFT, .style = w->style};
    g->left = 16 + (int)longest * FIGURE_CHARACTER;
    timeline_collect_keys(d);
    figure_set_margins(g, 58, d->key, d->keys);
    PASS(timeline_arrange(&d->v, g->width - g->left - g->right));
    d->row_height = ROWS_HEIGHT / (int)d->v.rows;
    d->row_height = d->row_height > ROW_HEIGHT    ? ROW_HEIGHT
                    : d->row_height < ROW_MINIMUM ? ROW_MINIMUM
                                                  : d->row_height;
    name_detail(d, w);
    g->note = d->note;
    figure_set_margins(g, 58, d->key, d->keys);
    g->top += 4;
    g->height = g->top + g->bottom + d->row_height * (int)d->v.rows;
    d->pixels_per_s = (g->width - g->left - g->right) / (d->v.to_s - d->v.from_s);
    return STATUS_OK;
}

/* From 0 to the end of all, unless the window says else. */
static enum status choose_times(struct timeline_drawing *d, const char *path,
                                const struct timeline_window *w)
{
    double end_s = d->v.t->until_s;
    if (end_s <= 0)
        return error_set(STATUS_INVALID, "%s: no event has a duration", path);
    d->v.from_s = w->from_s;
    d->v.to_s = w->to_s > 0 ? w->to_s : end_s;
    if (d->v.from_s >= end_s)
        return error_set(STATUS_INVALID, "%s: --from %s is after the end of the timeline at %s",
                         path, units_of(UNIT_SECONDS, w->from_s).text,
                         units_of(UNIT_SECONDS, end_s).text);
    d->unit = figure_time_unit(d->v.to_s);
    return STATUS_OK;
}

static enum status make_filter(const struct timeline_window *w, struct trace_filter *out)
{
    if (w->to_s > 0 && w->from_s >= w->to_s)
        return error_set(STATUS_USAGE, "--from %s is not before --to %s",
                         units_of(UNIT_SECONDS, w->from_s).text,
                         units_of(UNIT_SECONDS, w->to_s).text);
    out->from_s = w->from_s;
    out->to_s = w->to_s;
    return w->ranks ? trace_ranks_parse(w->ranks, &out->ranks) : STATUS_OK;
}

enum status plot_timeline(const char *const *trace, size_t n, const struct timeline_window *window,
                          const char *output, const struct provenance *by)
{
    enum status st;
    struct trace_filter filter = {0};
    struct trace_events t = {0};
    struct figure f = {0};
    struct timeline_drawing d = {.v.t = &t};

    TRY(make_filter(window, &filter));
    TRY(trace_events_read_all(trace, n, &filter, &t));
    TRY(choose_times(&d, trace[0], window));
    TRY(timeline_arrange_rows(&d, window));
    if (d.v.rows > MAX_ROWS)
        FAIL(STATUS_INVALID, "%s: got %zu rows, a plot shows at most %d; choose fewer with --ranks",
             trace[0], d.v.rows, MAX_ROWS);
    TRY(figure_open(output, &d.g, by, &f));
    if (d.v.step_s > 0 && f.picture.stream) { /* alone, a table has every op */
        TRY(timeline_gather(&d.v, &d.shares));
        timeline_put_shares(f.table, &d.v, &d.shares);
    } else {
        timeline_put_table(f.table, &d.v);
    }
    put_script(f.script, &d);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    free(filter.ranks.range);
    free(d.shares.share);
    timeline_view_free(&d.v);
    trace_events_free(&t);
    return st;
}

static enum status draw_timeline(const struct plot_source *s, const char *output,
                                 const struct provenance *by)
{
    struct timeline_window window = s->window;
    window.style = &s->style;
    return plot_timeline(s->path, s->n, &window, output, by);
}

const struct plot_kind plot_timeline_kind = {
    .name = "timeline",
    .summary = "ops of each rank over time, of one trace or several: compute above communication, "
               "grey where a rank is idle; --from, --to, --ranks choose a part",
    .input = PLOT_TRACES,
    .styles = STYLE_XLABEL | STYLE_LEGEND,
    .draw = draw_timeline,
};
