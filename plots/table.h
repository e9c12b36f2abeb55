/* table.h - tables separated by tabs, or by commas where the line of names has no tab, as sweeps,
 * `foreline compare` and the pictures' data have them.
 *
 * The first line with a tab names the columns, with or without "# " before it; other lines that
 * begin with # and empty lines are comments. Cells are text, quoted only between commas. */
#ifndef PLOTS_TABLE_H
#define PLOTS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/array.h"
#include "core/base/error.h"

enum { TABLE_MAX_COLUMNS = 4097, TABLE_MAX_CELLS = 32 << 20 };

struct plot_table {
    char *path; /* for messages; owned */
    char *text; /* what names and cells point into; owned */
    size_t columns, rows;
    char **name;                    /* [columns] not empty, all different */
    char **cell;                    /* [rows * columns] row by row */
    size_t *line;                   /* [rows] of the text that it is of */
    struct arena joined;            /* what table_join() has made */
    const struct plot_style *style; /* borrowed; names that pictures show; NULL: none */
};

/* STATUS_PARSE "path:line: ..." when a row has not as many cells as there are names, a name comes
 * twice, nothing is a table or there is no row; STATUS_IO, STATUS_NOMEM. O(length + columns^2). */
enum status table_read(const char *path, struct plot_table *out) MUST_CHECK;
/* The same from memory, which is copied. */
enum status table_parse(const char *path, const char *text, size_t length,
                        struct plot_table *out) MUST_CHECK;
void table_free(struct plot_table *t); /* accepts {0}; leaves {0} */

/* Index of a column. STATUS_INVALID lists the names there are. */
enum status table_column(const struct plot_table *t, const char *name, size_t *column) MUST_CHECK;
const char *table_cell(const struct plot_table *t, size_t row, size_t column);

/* Does a column group rows: are there two values in it, and one in two rows? O(n log n).
 * STATUS_NOMEM. */
enum status table_groups(const struct plot_table *t, size_t column, bool *groups) MUST_CHECK;
/* Are there two values in a column? */
bool table_varies(const struct plot_table *t, size_t column);

/* Keep only rows with these values: "column=value,column=value". A comma that no name of a column
 * and "=" follow belongs to the value, and so does one behind a backslash; names and values in
 * double quotes, with "" for a quote, end at the second quote. STATUS_INVALID when a column does
 * not exist, a quote does not end or no row is left. */
enum status table_filter(struct plot_table *t, const char *where) MUST_CHECK;

/* Append a column for "A,B": its name is that, its cells are those of A and of B, numbers with the
 * last word of their column, or with its label. Nothing where a column has this name.
 * STATUS_INVALID: no such A or B. O(cells). */
enum status table_join(struct plot_table *t, const char *columns) MUST_CHECK;

/* Rows in the order of increasing rank[rows], of equal ones as they were. STATUS_NOMEM. */
enum status table_sort(struct plot_table *t, const double *rank) MUST_CHECK;

/* Cut a list at its first comma outside double quotes, take the quotes off what is before it, and
 * return what is behind it, NULL for nothing. */
char *table_next_word(char *text);

#endif
