/* limit.h - what is waited for, and how much of a file is taken in, at most.
 *
 * limits.def is the table, and the only place of the values; `--limit NAME=VALUE` changes them for
 * a command, what it starts, and its ranks, who find them in FORELINE_LIMITS. A wait whose end the
 * user sets otherwise (--timeout, --time-limit) is not among them, nor are pauses of a moment:
 * tests/lint_waits.sh has their list. */
#ifndef CORE_BASE_LIMIT_H
#define CORE_BASE_LIMIT_H

#include <stddef.h>

#include "core/base/error.h"

enum limit {
#define LIMIT(name, unit, standard, meaning) LIMIT_##name,
#include "core/base/limits.def"
#undef LIMIT
    LIMITS
};
extern const char limits_variable[]; /* "FORELINE_LIMITS" */

/* Seconds, or a number. */
double limit(enum limit which);
/* Bytes, of a limit in MiB. */
size_t limit_bytes(enum limit which);

/* The end of a message of who has met a limit: "; FORELINE_LIMITS=json=128 allows more", of twice
 * what is allowed now. Every command, rank and libforeline heeds it; `text` is returned. */
enum { LIMIT_MORE = 80 };
const char *limit_more(enum limit which, char text[LIMIT_MORE]);

/* Change those that a text names, "start=1min,floyd=4096"; NULL: none. Seconds are more than 0 and
 * at most a million; numbers are whole, and at most 1,048,576. While a process has one thread. The
 * environment gets what differs from the table, for the processes that this one starts.
 * STATUS_USAGE, and all stay as they were. */
enum status limits_set(const char *text) MUST_CHECK;
/* What the environment says, when a process begins. */
enum status limits_inherit(void) MUST_CHECK;
/* All of them, [LIMITS]; and, in a module's copy of limit.c, to use those of the program. */
double *limits_values(void);
void limits_adopt(double *of_program);
/* May it be such a text? STATUS_USAGE. */
enum status limits_check(const char *text) MUST_CHECK;

/* The name of limit i, for lists; NULL behind the last one. */
const char *limit_name(size_t i);
/* "`name` | 3 s | meaning", as the documentation has it. */
enum { LIMIT_ROW = 256 };
const char *limit_row(size_t i, char text[LIMIT_ROW]);

#endif
