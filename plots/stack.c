/* Horizontal bars of parts, or in groups, with values inside where they fit. */
#include "plots/stack.h"
#include "core/base/array.h"
#include "core/base/text.h"
#include "plots/axis.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BAR = 20,
    GAP = 8,
    MANY = 24, /* bars from which they are thinner */
    THIN = 12,
    THIN_GAP = 5,
    NAME_COLUMNS = 24,
    HEADING_COLUMNS = 48,
    LETTER = 15, /* half pixels of a letter of a name */
    TIC_ROOM = 48
};

enum status stack_init(struct stack *s, size_t bars, size_t parts)
{
    enum status st;
    *s = (struct stack){.bars = bars, .parts = parts};
    assert(parts <= STACK_PARTS);
    TRY(ARRAY_NEW(s->name, bars));
    TRY(ARRAY_NEW(s->heading, bars));
    TRY(ARRAY_NEW(s->joined, bars));
    TRY(ARRAY_NEW(s->value, bars));
    TRY(ARRAY_NEW(s->length, bars * parts));
    TRY(ARRAY_NEW(s->limit, bars));
    TRY(ARRAY_NEW(s->low, bars));
    TRY(ARRAY_NEW(s->high, bars));
    for (size_t i = 0; i < bars; i++)
        s->limit[i] = s->low[i] = s->high[i] = NAN;
out:
    if (st != STATUS_OK)
        stack_free(s);
    return st;
}

void stack_free(struct stack *s)
{
    free(s->high);
    free(s->low);
    free(s->limit);
    free(s->length);
    free(s->value);
    free(s->joined);
    free(s->heading);
    free(s->name);
    *s = (struct stack){0};
}

static double bar_length(const struct stack *s, size_t i)
{
    double sum = 0;
    for (size_t k = 0; k < s->parts; k++)
        sum += s->length[i * s->parts + k];
    return sum;
}

static double axis_end(const struct stack *s)
{
    double end = s->end;
    for (size_t i = 0; i < s->bars && s->end <= 0; i++)
        end = fmax(fmax(end, bar_length(s, i)), fmax(s->limit[i], s->high[i])); /* not NANs */
    return end > 0 ? end : 1;
}

static bool is_used(const struct stack *s, size_t part)
{
    for (size_t i = 0; i < s->bars; i++)
        if (s->length[i * s->parts + part] > 0)
            return true;
    return false;
}

static bool has_limits(const struct stack *s)
{
    for (size_t i = 0; i < s->bars; i++)
        if (!isnan(s->limit[i]))
            return true;
    return false;
}

/* Legend entries; none for a single kind of part. */
static size_t stack_collect_keys(const struct stack *s, struct figure_key key[STACK_PARTS + 1])
{
    size_t n = 0;
    for (size_t k = 0; k < s->parts && s->parts > 1; k++)
        if (s->every_part || is_used(s, k))
            key[n++] = s->part[k];
    if (has_limits(s))
        key[n++] = (struct figure_key){s->limit_name, "#000000", 0, 0};
    for (size_t k = 0; k < n; k++)
        key[k].name = style_shown(s->style, key[k].name);
    return n;
}

/* Where the value stands: behind the bar, or behind the mark when it would run into that. */
static double stack_value_at(const struct stack *s, size_t i, double pixels_per)
{
    double sum = bar_length(s, i), room = 6.5 * (double)text_columns(s->value[i]) + 16;
    return !isnan(s->limit[i]) && sum * pixels_per + room > s->limit[i] * pixels_per
               ? fmax(sum, s->limit[i])
               : fmax(sum, s->high[i]);
}

static int bar_of(const struct stack *s)
{
    return s->bars > MANY ? THIN : BAR;
}

/* Above bar i. */
static int gap_of(const struct stack *s, size_t i)
{
    int gap = i < s->bars && s->joined[i] ? 1 : s->bars > MANY ? THIN_GAP : GAP;
    return gap + (i < s->bars && *s->heading[i] ? FIGURE_LINE + (i > 0) * GAP : 0);
}

/* The name of a group, beside its middle. */
static void put_group(FILE *script, const struct stack *s, size_t i, double y)
{
    char name[STACK_NAME];
    size_t n = 1;
    while (i + n < s->bars && s->joined[i + n])
        n++;
    fprintf(script, "set label ");
    figure_put_string(script, text_shorten(s->name[i], NAME_COLUMNS, name, sizeof name));
    fprintf(script, " at first 0,%.9g right noenhanced offset character -0.8,0%s\n",
            y + ((double)n * (bar_of(s) + 1) - 1) / 2,
            s->bars > MANY && n == 1 ? " font ',11'" : "");
}

static void put_heading(FILE *script, const struct stack *s, size_t i, double y)
{
    char name[STACK_NAME];
    fputs("set label ", script);
    figure_put_string(script, text_shorten(s->heading[i], HEADING_COLUMNS, name, sizeof name));
    fprintf(script, " at first 0,%.9g left noenhanced\n", y - FIGURE_LINE / 2.0 - 1);
}

static void put_bar(FILE *script, const struct stack *s, size_t i, double y, double pixels_per)
{
    int bar = bar_of(s);
    double at = 0, sum = bar_length(s, i);
    for (size_t k = 0; k < s->parts; k++) {
        double length = s->length[i * s->parts + k];
        if (length <= 0)
            continue;
        fprintf(script,
                "set object rectangle from first %.9g,%.9g to first %.9g,%.9g fillcolor rgb '%s' "
                "fillstyle solid border rgb '#FFFFFF' linewidth 0.5\n",
                at, y, at + length, y + bar, s->part[k].colour);
        char share[16];
        snprintf(share, sizeof share, "%.0f %%", 100 * length / sum);
        if (s->shares && length * pixels_per > 6.5 * (double)strlen(share) + 4)
            fprintf(script,
                    "set label '%s' at first %.9g,%.9g center front font ',%d' textcolor rgb "
                    "'%s'\n",
                    share, at + length / 2, y + bar / 2.0, FIGURE_SMALL,
                    figure_ink(s->part[k].colour));
        at += length;
    }
    if (!isnan(s->limit[i])) {
        fprintf(script,
                "set arrow from first %.9g,%.9g to first %.9g,%.9g nohead front linewidth 2.5 "
                "linecolor rgb '#000000'\n",
                s->limit[i], y - 3, s->limit[i], y + bar + 3);
    }
    if (s->high[i] > s->low[i])
        fprintf(
            script,
            "set arrow from first %.9g,%.9g to first %.9g,%.9g heads size screen 0.006,90 front "
            "linewidth 1.2 linecolor rgb '#000000'\n",
            s->low[i], y + bar / 2.0, s->high[i], y + bar / 2.0);
    if (!s->joined[i])
        put_group(script, s, i, y);
    if (*s->heading[i])
        put_heading(script, s, i, y);
    fputs("set label ", script);
    figure_put_string(script, s->value[i]);
    fprintf(script, " at first %.9g,%.9g left noenhanced offset character 0.7,0 font ',%d'\n",
            stack_value_at(s, i, pixels_per), y + bar / 2.0, FIGURE_SMALL);
}

static size_t stack_longest(size_t n, const char *text, size_t stride)
{
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t length = text_columns(text + i * stride);
        most = length > most ? length : most;
    }
    return most;
}

enum status stack_draw(const struct stack *s, const char *output, const struct provenance *by,
                       void (*table)(const void *context, FILE *to), const void *context)
{
    enum status st = STATUS_OK;
    struct figure f = {0};
    struct figure_key key[STACK_PARTS + 1];
    size_t keys = stack_collect_keys(s, key);
    size_t most = stack_longest(s->bars, s->name[0], STACK_NAME);
    int names = (int)(most > NAME_COLUMNS ? NAME_COLUMNS : most) * LETTER / 2;
    int values = (int)stack_longest(s->bars, s->value[0], STACK_VALUE) * 6 + 12;
    double end = axis_end(s);
    struct figure_geometry g = {.width = figure_width(s->style),
                                .left = 22 + names,
                                .right = 14 + values,
                                .note = s->note,
                                .style = s->style};
    g.key_left = g.left > g.width / 4 ? 18 : g.left; /* the legend may begin above the names */
    figure_set_margins(&g, 58, key, keys);
    int axis = gap_of(s, s->bars);
    for (size_t i = 0; i < s->bars; i++)
        axis += gap_of(s, i) + bar_of(s);
    g.height = (int)fmax(g.top + axis + g.bottom, g.key_down);
    if (s->style && s->style->height) { /* bars become thicker, not thinner than names */
        if (s->style->height < g.height || g.left + g.right + TIC_ROOM > g.width)
            FAIL(STATUS_USAGE, "--size: %zu bars need at least %dx%d pixels", s->bars,
                 g.left + g.right + TIC_ROOM, g.height);
        g.height = s->style->height;
    }

    TRY(figure_open(output, &g, by, &f));
    table(context, f.table);
    figure_put_key(f.script, &g, key, keys);
    for (size_t i = 0, y = 0; i < s->bars; i++) {
        y += (size_t)gap_of(s, i);
        put_bar(f.script, s, i, (double)y, (g.width - g.left - g.right) / end);
        y += (size_t)bar_of(s);
    }
    figure_put_xlabel(f.script, &g, s->label);
    fprintf(f.script,
            "set border 1\nunset ytics\nunset key\nset xtics %.9g\nset xrange [0:%.9g]\n"
            "set yrange [%d:0]\nplot NaN\n",
            axis_step(end * TIC_ROOM / fmax(g.width - g.left - g.right, TIC_ROOM)), end, axis);
    TRY(figure_finish(&f));
out:
    figure_discard(&f);
    return st;
}
