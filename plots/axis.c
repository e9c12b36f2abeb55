/* Reads a column as numbers with a unit, or as words, and writes gnuplot's tics for it. */
#include "plots/axis.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "plots/figure.h"

enum { NAME_PITCH = 12, TIC_APART = 4, LOG_FROM = 16, TIC_ROOM = 4 * AXIS_TIC };

/* ---- cells */

static bool all_numbers(const struct plot_table *t, size_t column, double *at)
{
    for (size_t i = 0; i < t->rows; i++)
        if (!text_real(table_cell(t, i, column), &at[i]))
            return false;
    return true;
}

static bool all_quantities(const struct plot_table *t, size_t column, enum unit unit, double *at)
{
    for (size_t i = 0; i < t->rows; i++) {
        const char *cell = table_cell(t, i, column);
        if ((*cell < '0' || *cell > '9') || units_parse(unit, cell, &at[i]) != STATUS_OK)
            return false;
    }
    return true;
}

/* Words: numbered as they come. */
static enum status number_words(const struct plot_table *t, size_t column, double *at)
{
    size_t words = 0;
    size_t *first;
    PASS(ARRAY_NEW(first, t->rows));
    for (size_t i = 0; i < t->rows; i++) {
        size_t w = 0;
        while (w < words && strcmp(table_cell(t, first[w], column), table_cell(t, i, column)) != 0)
            w++;
        if (w == words)
            first[words++] = i;
        at[i] = (double)w;
    }
    free(first);
    return STATUS_OK;
}

/* ---- units */

static bool axis_ends_in(const char *name, const char *suffix, size_t *stem)
{
    size_t n = strlen(name), k = strlen(suffix);
    *stem = n > k ? n - k : 0;
    return n > k && strcmp(name + n - k, suffix) == 0;
}

static void axis_print_label(char text[AXIS_LABEL], const char *words, const char *unit)
{
    snprintf(text, AXIS_LABEL, *unit ? "%.60s (%s)" : "%.60s", words, unit);
}

/* "iteration_s" becomes "iteration (ms)"; values are multiplied to match. */
static void axis_set_label(struct axis *a, const char *name, size_t stem, const char *unit,
                           double factor)
{
    char words[64];
    snprintf(words, sizeof words, "%.*s", (int)(stem < 60 ? stem : 60), name);
    style_words(words, a->name, sizeof a->name);
    for (char *c = words; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    axis_print_label(a->label, words, unit);
    snprintf(a->unit, sizeof a->unit, "%s", unit);
    a->scale = factor;
    for (size_t i = 0; i < a->n; i++)
        a->at[i] *= factor;
}

static double axis_largest(const struct axis *a)
{
    double most = 0;
    for (size_t i = 0; i < a->n; i++)
        most = fmax(most, fabs(a->at[i]));
    return most;
}

static void axis_choose_unit(struct axis *a, const char *name, bool rate_in_bits, enum unit *given)
{
    size_t stem;
    double most = axis_largest(a);
    struct figure_unit time = figure_time_unit(most);
    bool per_s = axis_ends_in(name, "_per_s", &stem);
    if (per_s) {
        char text[64];
        snprintf(text, sizeof text, "%.*s_per_second", (int)(stem < 40 ? stem : 40), name);
        bool many = most >= 1e4;
        axis_set_label(a, text, strlen(text), many ? "thousands" : "", many ? 1e-3 : 1);
    } else if (given && *given == UNIT_RATE) {
        bool giga = most >= 1e9 / (rate_in_bits ? 8 : 1);
        axis_set_label(a, name, strlen(name),
                       rate_in_bits ? (giga ? "Gb/s" : "Mb/s") : (giga ? "GB/s" : "MB/s"),
                       (rate_in_bits ? 8 : 1) * (giga ? 1e-9 : 1e-6));
    } else if (given && *given == UNIT_FLOPS) {
        axis_set_label(a, name, strlen(name), "Tflop/s", 1e-12);
    } else if ((given && *given == UNIT_SECONDS) || axis_ends_in(name, "_s", &stem)) {
        a->is_time = true;
        axis_set_label(a, name, given ? strlen(name) : stem, time.name, time.per_s);
    } else if ((given && *given == UNIT_BYTES) || axis_ends_in(name, "_bytes", &stem)) {
        bool giga = most >= 1 << 30;
        bool mega = most >= 1 << 20;
        axis_set_label(a, name, given ? strlen(name) : stem,
                       giga   ? "GiB"
                       : mega ? "MiB"
                              : "KiB",
                       giga   ? 0x1p-30
                       : mega ? 0x1p-20
                              : 0x1p-10);
    } else if (axis_ends_in(name, "_Bps", &stem)) {
        axis_set_label(a, name, stem, "GB/s", 1e-9);
    } else if (axis_ends_in(name, "_fraction", &stem)) {
        axis_set_label(a, name, stem, "%", 100);
    } else {
        axis_set_label(a, name, strlen(name), "", 1);
    }
}

static enum status read_positions(const struct plot_table *t, size_t column, struct axis *a)
{
    static const enum unit units[] = {UNIT_RATE, UNIT_SECONDS, UNIT_BYTES, UNIT_FLOPS};
    const char *name = t->name[column], *first = table_cell(t, 0, column);
    if (all_numbers(t, column, a->at)) {
        axis_choose_unit(a, name, false, NULL);
        return STATUS_OK;
    }
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        enum unit unit = units[u];
        if (all_quantities(t, column, unit, a->at)) {
            axis_choose_unit(a, name, strstr(first, "bps") != NULL, &unit);
            return STATUS_OK;
        }
    }
    a->words = true;
    axis_set_label(a, name, strlen(name), "", 1);
    return number_words(t, column, a->at);
}

/* ---- distinct values */

struct axis_position {
    double at;
    size_t row;
};

static enum status find_values(struct axis *a)
{
    struct axis_position *p;
    PASS(ARRAY_NEW(a->value, a->n));
    PASS(ARRAY_NEW(a->row_of, a->n));
    PASS(ARRAY_NEW(p, a->n));
    for (size_t i = 0; i < a->n; i++)
        p[i] = (struct axis_position){a->at[i], i};
    qsort(p, a->n, sizeof *p, order_by_value);
    for (size_t i = 0; i < a->n; i++) {
        if (i > 0 && !(p[i].at > p[i - 1].at))
            continue;
        a->value[a->values] = p[i].at;
        a->row_of[a->values++] = p[i].row;
    }
    free(p);
    return STATUS_OK;
}

static enum status name_words(const struct plot_table *t, size_t column, struct axis *a)
{
    enum status st;
    const char **raw = NULL;
    if (!a->words)
        return STATUS_OK;
    TRY(ARRAY_NEW(raw, a->values));
    TRY(ARRAY_NEW(a->word, a->values));
    for (size_t i = 0; i < a->values; i++)
        raw[i] = table_cell(t, a->row_of[i], column);
    st = style_names(t->style, a->values, raw, a->word, a->shared);
out:
    free(raw);
    return st;
}

enum status axis_read(const struct plot_table *t, size_t column, struct axis *out)
{
    enum status st = STATUS_OK;
    struct axis a = {.n = t->rows};
    TRY(ARRAY_NEW(a.at, a.n));
    TRY(read_positions(t, column, &a));
    TRY(find_values(&a));
    TRY(name_words(t, column, &a));
    const char *name = style_shown_either(t->style, t->name[column], a.name);
    if (name != t->name[column])
        text_shorten(name, SIZE_MAX, a.name, sizeof a.name);
    axis_print_label(a.title, a.name, a.unit);
    MOVE(out, a);
out:
    axis_free(&a);
    return st;
}

void axis_free(struct axis *a)
{
    free(a->word);
    free(a->row_of);
    free(a->value);
    free(a->at);
    *a = (struct axis){0};
}

bool axis_prefers_less(const struct axis *a)
{
    return a->is_time || strstr(a->unit, "iB");
}

size_t axis_index(const struct axis *a, double at)
{
    size_t low = 0, high = a->values - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->value[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool axis_is_logarithmic(const struct axis *a)
{
    return !a->words && a->value[0] > 0 &&
           (a->logarithmic || axis_spans_orders(a->value[0], a->value[a->values - 1]));
}

bool axis_spans_orders(double low, double high)
{
    return low > 0 && high >= LOG_FROM * low;
}

/* ---- script */

double axis_step(double least)
{
    double power = pow(10, floor(log10(least)));
    return least <= power       ? power
           : least <= 2 * power ? 2 * power
           : least <= 5 * power ? 5 * power
                                : 10 * power;
}

/* Where value i stands on an axis of `pixels`. */
static double axis_position_of(const struct axis *a, size_t i, bool by_index, int pixels)
{
    double low = a->value[0], high = a->value[a->values - 1];
    if (by_index || a->words)
        return ((double)i + 0.5) / (double)a->values * pixels;
    if (!(high > low))
        return pixels / 2.0;
    return axis_is_logarithmic(a) ? log(a->value[i] / low) / log(high / low) * pixels
                                  : (a->value[i] - low) / (high - low) * pixels;
}

/* Such are numbers of things, which have no powers of ten. */
static bool axis_is_whole(double value)
{
    return fabs(value) < 1e7 && fabs(value - round(value)) < 1e-9;
}

static void tic_text(const struct axis *a, size_t i, char text[TIC_ROOM])
{
    if (a->words)
        text_shorten(a->word[i], AXIS_TIC, text, TIC_ROOM);
    else
        snprintf(text, TIC_ROOM, axis_is_whole(a->value[i]) ? "%.0f" : "%.4g", a->value[i]);
}

void axis_print_name(const struct axis *a, size_t i, char text[STYLE_NAME])
{
    char number[TIC_ROOM];
    tic_text(a, i, number);
    if (a->words)
        snprintf(text, STYLE_NAME, "%s", a->word[i]);
    else
        snprintf(text, STYLE_NAME, "%.40s %s%s%s", a->name, number, *a->unit ? " " : "", a->unit);
}

/* Room for tics, and that of their texts. */
struct tic_room {
    bool by_index;
    int pixels;
    int character; /* width of letters; 0: one name below another */
    int apart;     /* between texts */
    double period; /* another axis like this one begins so many pixels further on */
};

/* The values that have room, with their texts, and tics alone of other numbers; returns how many
 * have no room. `script` NULL: they are only counted. */
static size_t put_values(FILE *script, const struct axis *a, const struct tic_room *r)
{
    double end = -INFINITY, tic = -INFINITY, most = INFINITY;
    const char *before = "";
    size_t without = 0;
    for (size_t i = 0; i < a->values; i++) {
        char text[TIC_ROOM];
        tic_text(a, i, text);
        double room = r->character ? (double)text_columns(text) * r->character : NAME_PITCH;
        double at = axis_position_of(a, i, r->by_index, r->pixels);
        if (i == 0 && r->period > 0)
            most = r->period + at - room / 2 - 2 * r->apart;
        bool has_room = at - room / 2 >= end + r->apart && at + room / 2 <= most;
        without += !has_room;
        end = has_room ? at + room / 2 : end;
        if (!script || (!has_room && (a->words || r->by_index || at - tic < TIC_APART)))
            continue;
        tic = at;
        fputs(before, script);
        figure_put_string(script, has_room ? text : "");
        fprintf(script, " %.9g", r->by_index ? (double)i : a->value[i]);
        before = ", ";
    }
    return without;
}

bool axis_is_crowded(const struct axis *a, int pixels)
{
    const struct tic_room small = {true, pixels, FIGURE_CHARACTER - 1, FIGURE_CHARACTER - 2, 0};
    return a->words && put_values(NULL, a, &small) > 0;
}

void axis_put_tics(FILE *script, const char *which, const struct axis *a, bool by_index, int pixels)
{
    bool turned = *which == 't';
    int character = *which == 'x' ? FIGURE_CHARACTER : 0;
    const struct tic_room room = {by_index, pixels, character, character ? character - 1 : 0, 0},
                          less = {by_index, pixels, character - 1, character - 2, 0};
    fprintf(script, "set %stics nomirror noenhanced%s (", turned ? "x" : which,
            turned ? " rotate by 90 right" : "");
    bool small =
        room.character && put_values(NULL, a, &room) > 0 && put_values(NULL, a, &less) == 0;
    put_values(script, a, small ? &less : &room);
    fputs(")", script);
    small = small || turned;
    if (small) /* all of them have room so */
        fprintf(script, " font ',%d'", FIGURE_SMALL);
    putc('\n', script);
}

void axis_put_panel_tics(FILE *script, const struct axis *a, int pixels, double period)
{
    const struct tic_room small = {false, pixels, FIGURE_CHARACTER, 3, period};
    fputs("set xtics nomirror noenhanced (", script);
    put_values(script, a, &small);
    fprintf(script, ") font ',%d'\n", FIGURE_SMALL);
}

void axis_put_ylabel(FILE *script, const struct figure_geometry *g, const char *text)
{
    double middle = (g->bottom + g->height - g->top) / 2.0;
    fputs("set label ", script);
    if (g->style && g->style->ylabel)
        figure_put_string(script, g->style->ylabel);
    else
        figure_put_name(script, text);
    fprintf(script, " at screen %.5f,%.5f center rotate by 90 noenhanced\n", 12.0 / g->width,
            middle / g->height);
}
