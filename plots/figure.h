/* figure.h - a picture in the making: gnuplot script, output file, table of the data. Private.
 *
 * Geometry is fixed in pixels of a layout whose letters are FIGURE_FONT high, so that callers can
 * tell what fits where; style.h says how large one is (PNG: twice as many, PDF: 96 per inch). */
#ifndef PLOTS_FIGURE_H
#define PLOTS_FIGURE_H

#include <stdbool.h>
#include <stdio.h>

#include "core/base/file.h"
#include "core/base/provenance.h"
#include "plots/plot.h"
#include "plots/style.h"

/* Sizes in pixels; a character of the font is about FIGURE_CHARACTER wide. A picture of
 * FIGURE_COLUMN, printed 8.5 cm wide (one column of a paper), has letters of 6.5 points. */
enum {
    FIGURE_WIDTH = 720,
    FIGURE_COLUMN = 480,
    FIGURE_DPI = 96, /* of a PDF */
    FIGURE_FONT = 13,
    FIGURE_SMALL = 11, /* font of secondary labels */
    FIGURE_CHARACTER = 7,
    FIGURE_LINE = 16
};

struct figure_geometry {
    int width, height;
    int left, right, top, bottom; /* margins around the axes */
    int key_left;                 /* where the legend begins; 0: at `left` */
    int key_room;                 /* set by figure_set_margins(): height or width of the legend */
    int key_down;                 /* least height with one beside the axes; 0: there is none */
    const char
        *note; /* what the picture leaves out or sums up, below the x axis' name; NULL, "": none */
    const struct plot_style *style; /* title and labels to use; NULL: none */
};

struct figure {
    FILE *script;            /* gnuplot commands; write here */
    FILE *table;             /* tab-separated data with a # header; write here */
    FILE *errors;            /* what gnuplot says */
    FILE *drawing;           /* what gnuplot draws */
    struct file_out picture; /* stream NULL: the table alone */
    struct file_out data;
    bool svg;
    int width, height;              /* of the layout */
    const struct plot_style *style; /* borrowed; NULL: none */
    const struct provenance *by;    /* borrowed */
};

/* Colours by meaning. */
extern const char figure_compute[], figure_forward[], figure_backward[], figure_weight[],
    figure_update[], figure_copy[], figure_communication[], figure_idle[], figure_measured[],
    figure_analytic[], figure_simgrid[], figure_other[];

/* Name of the table beside the picture `output`, malloc'd: itself if it ends in .tsv.
 * STATUS_USAGE: no picture's name. */
enum status figure_table(const char *output, char **table) MUST_CHECK;
/* Open everything and write the preamble: terminal, size, margins, styles. */
enum status figure_open(const char *output, const struct figure_geometry *g,
                        const struct provenance *by, struct figure *out) MUST_CHECK;
/* Run gnuplot on the script and put both files in place. Closes the figure in any case. */
enum status figure_finish(struct figure *f) MUST_CHECK;
void figure_discard(struct figure *f); /* accepts {0}; leaves {0} */

/* Write `text` as a quoted gnuplot string: letters as text_letter() shows them, apostrophes become
 * ’. */
void figure_put_string(FILE *script, const char *text);
/* Cut the next line of at most `columns` off a text: between words or, `at_commas`, behind a comma;
 * in a word that is longer. No name loses what tells it apart. Returns where the next line begins.
 */
enum { FIGURE_WRAP = 512 };
const char *figure_wrap(const char *text, size_t columns, bool at_commas, char line[FIGURE_WRAP]);
/* Write `text` as a name that the picture itself has chosen: with a capital. */
void figure_put_name(FILE *script, const char *text);
/* Write `text` centred under the x axis, where all terminals agree on the place, and the note. */
void figure_put_xlabel(FILE *script, const struct figure_geometry *g, const char *text);
/* One entry of a legend: a coloured box, or a point (gnuplot's number) and a line through it. */
struct figure_key {
    const char *name, *colour;
    int point; /* 0: a box */
    int dash;  /* gnuplot's number of the line; 0: a point alone */
};
/* Height of the title, 0 without one: what figure_set_margins() adds to the top margin. */
int figure_title_height(const struct figure_geometry *g);
/* Set the margins above and below: what the axis and its name take (`axis`), the title, the note
 * (at most four lines; more is cut), and a legend of n entries, whose rows break where they must.
 * One on the right widens that margin. Again after the note has changed. */
void figure_set_margins(struct figure_geometry *g, int axis, const struct figure_key *key,
                        size_t n);
/* Write the legend where the style wants it, outside the data. */
void figure_put_key(FILE *script, const struct figure_geometry *g, const struct figure_key *key,
                    size_t n);
/* The width that the style says, else FIGURE_COLUMN. */
int figure_width(const struct plot_style *style);

/* Colour, point and dash (gnuplot's numbers) of the i-th line of a picture. Colours repeat after
 * FIGURE_SERIES, with other points and dashes: FIGURE_SERIES^2 lines differ. */
enum { FIGURE_SERIES = 7 };
const char *figure_series_colour(size_t i);
int figure_series_point(size_t i);
int figure_series_dash(size_t i);
/* Text on a box of `colour` ("#RRGGBB"): black or white, whichever contrasts more. */
const char *figure_ink(const char *colour);

/* Write `text` as a field of a tab-separated line. */
void figure_put_field(FILE *stream, const char *text);
/* The same in a comment, where no spreadsheet looks for formulas. */
void figure_put_text(FILE *stream, const char *text);

/* Unit in which times up to `longest_s` read well: its name and how many make a second. */
struct figure_unit {
    const char *name;
    double per_s;
};
struct figure_unit figure_time_unit(double longest_s);

/* Colour of an engine's marks. */
const char *figure_engine_colour(const char *engine);

#endif
