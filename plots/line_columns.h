/* line_columns.h - which columns of a table are x, y and the lines of a picture. Private. */
#ifndef PLOTS_LINE_COLUMNS_H
#define PLOTS_LINE_COLUMNS_H

#include "plots/kind.h"

enum { LINE_OTHERS = 160 };
struct line_columns {
    size_t x, y, by;          /* by SIZE_MAX: one line */
    char others[LINE_OTHERS]; /* names of settings that could be x, too */
};

/* As the source says, else the first rate, the first of plot_line_columns that groups rows, and the
 * first other setting that varies; of a table in which only plans vary, these. STATUS_INVALID when
 * a column is missing or nothing varies. O(columns rows). */
enum status line_columns_choose(const struct plot_source *s, struct line_columns *out) MUST_CHECK;

#endif
