/* style.h - how a picture is to look: what `foreline plot --title, --style, --label, ...` say. */
#ifndef PLOTS_STYLE_H
#define PLOTS_STYLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"
#include "core/base/text.h"

enum plot_legend { LEGEND_TOP, LEGEND_BOTTOM, LEGEND_RIGHT, LEGEND_NONE };
enum plot_errors { ERRORS_KIND, ERRORS_NONE, ERRORS_RANGE, ERRORS_IQR, ERRORS_P5_P95, ERRORS_CI };

/* A name to show instead of another one. */
struct plot_label {
    const char *old, *shown; /* old [length]; borrowed */
    size_t length;
    bool used;                   /* something was called so */
    char whole[64], another[64]; /* names that style_shown_either() found by `brief`; "": none */
};

/* The names that labels could have renamed, for a message. */
enum { STYLE_KNOWN = 400 };
struct plot_known {
    size_t n;
    char text[STYLE_KNOWN]; /* the first ones: "'stages 2', 'stages 4'" */
};

/* NULL or 0: as the kind does it by itself. */
struct plot_style {
    const char *title, *xlabel, *ylabel;
    const char *font;  /* family */
    int width, height; /* pixels of the layout, whose letters are FIGURE_FONT high */
    double scale;      /* so many times 1/96 inch is a pixel of the layout; 0: 1 */
    double density;    /* pixels of a PNG in 1/96 inch; 0: 2 */
    double stroke;     /* lines and points are so many times as wide; 0: 1 */
    bool log_x, log_y; /* also where values do not span orders */
    bool no_note;
    enum plot_legend legend;
    enum plot_errors errors;
    size_t labels;
    struct plot_label *label; /* [labels] */
    struct plot_known *known; /* out; NULL: not wanted */
};

/* What of a style a kind obeys; what has no bit all do. */
enum {
    STYLE_XLABEL = 1,
    STYLE_YLABEL = 2,
    STYLE_SIZE = 4,
    STYLE_LOG = 8,
    STYLE_LEGEND = 16,
    STYLE_ERRORS = 32,
    STYLE_FACET = 64,
    STYLE_ORDER = 128,
};

/* What is asked for, as given; NULL: not. */
struct plot_wishes {
    const char *title, *xlabel, *ylabel, *log; /* "x", "y" or "xy" */
    const char *size, *font, *style;           /* "640x480", "8.5x6cm"; "NAME:SIZE"; "paper" */
    const char *legend, *errors, *note, *facet, *order;
    struct text_list labels; /* "OLD=NEW" */
};

/* Read what a kind `name` with these bits of STYLE_ is asked for.
 *   obeys(i, bit)  name of the i-th kind if it has the bit, else ""; NULL behind the last one
 *   label          [TEXT_LIST_MOST] what *out points into, as into texts of `w`; NULL: no labels
 * STATUS_USAGE says what was expected, or which kinds do what this one does not. */
enum status style_read(const struct plot_wishes *w, const char *name, unsigned styles,
                       const char *(*obeys)(size_t i, unsigned style), struct plot_label *label,
                       struct plot_style *out) MUST_CHECK;

/* What is called `text`: the label for it, else `text`. */
const char *style_shown(const struct plot_style *style, const char *text);
/* The same of a name that has a short form: the "2" of "stages 2", the words of a column. A short
 * form of two names is ambiguous. */
const char *style_shown_either(const struct plot_style *style, const char *text, const char *brief);
/* The word of --error-bars. */
const char *style_errors(enum plot_errors errors);
/* STATUS_USAGE lists what can be renamed when a label is for what the picture does not have, or for
 * the short form of two names. */
enum status style_check_labels(const struct plot_style *style) MUST_CHECK;

/* Name of a plan: its path without folders and ".json", at most `room` - 1 bytes. */
void style_plan_name(const char *path, char *text, size_t room);
/* Names to show for n texts: labels where there are some; else of files without folders and
 * ".json", and without what all have in common between commas or colons if they differ then, too.
 *   raw     [n] what they are called, not ""
 *   shown   [n] out
 *   shared  out: what was left out, "" for nothing
 * STATUS_NOMEM. O(n^2). */
enum { STYLE_NAME = 160 };
enum status style_names(const struct plot_style *style, size_t n, const char *const *raw,
                        char (*shown)[STYLE_NAME], char shared[STYLE_NAME]) MUST_CHECK;

/* A column's name in words: "platform.nic.bandwidth" is "NIC bandwidth". */
void style_words(const char *column, char *words, size_t room);

#endif
