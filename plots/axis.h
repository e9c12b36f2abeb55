/* axis.h - a column of a table as positions on an axis: quantities in a unit that reads well, or
 * words in the order of their appearance. Private. */
#ifndef PLOTS_AXIS_H
#define PLOTS_AXIS_H

#include <stdbool.h>
#include <stdio.h>

#include "plots/style.h"
#include "plots/table.h"

enum { AXIS_LABEL = 96, AXIS_TIC = 24 }; /* columns of a word beside it */

struct axis {
    size_t n;   /* rows of the table */
    double *at; /* [n] in the unit of the label; of words: the index of the word */
    size_t values;
    double *value;            /* [values] distinct positions, increasing */
    size_t *row_of;           /* [values] a row that has it: its text */
    bool words;               /* not all cells are quantities */
    char (*word)[STYLE_NAME]; /* [values] of words: as pictures show them (style.h) */
    char shared[STYLE_NAME];  /* and what all have in common, which they do without */
    bool logarithmic;         /* asked for, whatever the values span */
    double scale;             /* at[] over the column's numbers */
    bool is_time;             /* seconds: less is better */
    char name[64], unit[16];  /* what title is made of */
    char label[AXIS_LABEL];   /* name of the column and unit, for tables */
    char title[AXIS_LABEL];   /* in words, or as --label has it, for pictures */
};

/* Cells are plain numbers, whose unit the column's name ends in ("_s", "_bytes", "_Bps"), or
 * quantities with units ("10Gbps"); any other cell makes all of them words. STATUS_NOMEM.
 * O(n log n); words O(n * values). */
enum status axis_read(const struct plot_table *t, size_t column, struct axis *out) MUST_CHECK;
void axis_free(struct axis *a); /* accepts {0}; leaves {0} */

/* Value i by itself: a word, or a number with the name of its column, "Devices 8". */
void axis_print_name(const struct axis *a, size_t i, char text[STYLE_NAME]);
/* Less is better of seconds and bytes. */
bool axis_prefers_less(const struct axis *a);

/* Index in value[] of a position that axis_read() gave. O(log values). */
size_t axis_index(const struct axis *a, double at);

/* Can the values spread over a logarithmic axis, and do they ask for one? */
bool axis_is_logarithmic(const struct axis *a);
/* The same of values from low to high. */
bool axis_spans_orders(double low, double high);
/* Distance of tics with round numbers: 1, 2 or 5 times a power of ten, at least `least` > 0. */
double axis_step(double least);
/* "set xtics" or "set ytics" at the values themselves, without text those for which `pixels` is
 * not enough; positions are value[i], or i when `by_index`. "turned x": names from below, one
 * beside the other. */
void axis_put_tics(FILE *script, const char *which, const struct axis *a, bool by_index,
                   int pixels);

/* "set xtics" of one of several panels that stand side by side, `period` pixels apart: in small
 * letters, which touch those of the next panel neither. */
void axis_put_panel_tics(FILE *script, const struct axis *a, int pixels, double period);

/* Are there words that have no room side by side on an x axis of so many pixels? */
bool axis_is_crowded(const struct axis *a, int pixels);

/* Write "set ylabel 'text'", turned, in the middle of the left margin's outer edge. */
struct figure_geometry;
void axis_put_ylabel(FILE *script, const struct figure_geometry *g, const char *text);

#endif
