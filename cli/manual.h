/* manual.h - help texts and man pages, from the same tables that parse the command line. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include <stdio.h>

#include "cli/program.h"

/* Of --help: the first screen; of the word "all" everything but topics; of a topic's word that. */
void manual_help(const struct command_table *p, const struct command *c, const char *word,
                 FILE *out);

/* Man page of the program's command `name`, or with NULL the overview page, in troff. Exit status:
 * 0, or 2 when there is no such command. */
int manual_page(const struct command_table *p, const char *name, FILE *out);

/* What the tables have that no option lists, for docs/site/reference.py: "# TITLE", then a line of
 * name, tab and meaning for each entry, or, of keys of files, options as --help prints them. */
void manual_tables(FILE *out);

#endif
