/* tool.h - other programs: git, gnuplot. There is no shell between, so that blanks, dashes and line
 * ends of paths mean nothing, and the program gets an environment of a few variables only.
 *
 * Of ours it gets PATH, HOME, TMPDIR, LD_LIBRARY_PATH and what fonts are found by; the language is
 * LC_ALL=C.UTF-8. Variables that change what a program does (GIT_DIR, GIT_EXTERNAL_DIFF,
 * GNUPLOT_LIB and so on) are not among them. */
#ifndef HOST_TOOL_H
#define HOST_TOOL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

enum { TOOL_VARIABLES = 12 };

struct tool {
    const char *const *words; /* NULL-terminated; the first is looked up in PATH */
    /* More of its environment, "NAME=value", at most TOOL_VARIABLES, NULL-terminated; NULL: none */
    const char *const *variables;
    int input, output, errors; /* descriptors; -1: /dev/null */
    double within_s;           /* it may take; then it is killed */
};

/* Run it to its end. *code is its exit status; 128 and the number of the signal that ended it.
 * STATUS_UNSUPPORTED: there is no such program; STATUS_EXTERNAL: it cannot be started or took too
 * long; STATUS_NOMEM. */
enum status tool_run(const struct tool *t, int *code) MUST_CHECK;

/* The same, and what it prints: at most `most` bytes, malloc'd, NUL-terminated, *length without the
 * NUL; *cut says whether there was more (then the program is killed). t->output is not used. */
enum status tool_text(const struct tool *t, size_t most, int *code, char **text, size_t *length,
                      bool *cut) MUST_CHECK;

/* A descriptor from which a tool reads these bytes; the caller closes it. STATUS_IO. */
enum status tool_input(const void *data, size_t n, int *fd) MUST_CHECK;

#endif
