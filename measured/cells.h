/* cells.h - a line of a table cut into its cells: separated by commas, semicolons or tabs, quoted
 * or not. Private. */
#ifndef MEASURED_CELLS_H
#define MEASURED_CELLS_H

#include <stddef.h>

/* Cut `line` up in place; at most `most` cells, the rest is left out. A cell in double quotes may
 * have separators, and quotes that are doubled. Blanks around are taken off. How many cells there
 * are. */
size_t cells_split(char *line, char separator, char **cell, size_t most);
/* The separator of a header: a tab, a semicolon or a comma, the first of these that is there. */
char cells_separator(const char *header);
/* Seconds of a unit by its name: "ns", "us", "ms", "s", "sec", "seconds"; 0: it is none. */
double cells_unit(const char *name, size_t length);

#endif
