/* limit.h - what is waited for, and how much of a file is taken in, at most.
 *
 * A limit is a constant beside the code that has it, with its reason, times a factor that the user
 * may turn: limit_wait(), limit_size(), limit_platform(). limits.def has the factors, and the few
 * limits that somebody may want to turn alone. `--limit NAME=VALUE` changes them for a command,
 * what it starts, and its ranks, who find them in FORELINE_LIMITS. A wait whose end the user sets
 * otherwise (--timeout, --time-limit) is not among them, nor are pauses of a moment:
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
/* A wait of `s` seconds, as this machine needs it. */
double limit_wait(double s);
/* So many events, rows or MiB of a file; in bytes. */
double limit_size(double n);
size_t limit_bytes(double mib);
/* So many hosts, zones, links or routes of a platform. */
double limit_platform(double n);

/* Waits that several files know, in seconds. */
enum {
    WAIT_STOPPED = 3, /* for a process that is stopped, by one who runs on */
    WAIT_DIFFER = 2,  /* of a rank that was told otherwise than rank 0, so that all end together */
    WAIT_LAUNCHER = 60, /* for a launcher that is stopped, besides --timeout */
    WAIT_SEND = 1,      /* until a few bytes are sent: their receiver does not read */
    WAIT_KILL = 5,      /* until processes that were killed are gone */
    WAIT_PROGRAMS = 2,  /* until programs end that were asked to, before they are killed */
    WAIT_MEASURE = 60   /* for a message or a barrier of calibrate and bench */
};
/* Files that several read, in MiB; a trace of 2,097,152 events is a gigabyte, unpacked. */
enum { MOST_JSON = 48, MOST_ARGUMENTS = 16, MOST_MACHINE = 32, MOST_RECORDED = 1024 };
enum { MOST_EVENTS = 1 << 21 }; /* of a trace, rows of a database or a table, steps of a log */
/* Hosts, links, routes of a platform, each: SimGrid takes some seconds. */
enum { MOST_LINES = 1 << 19 };

/* The end of a message of who has met a limit: "; --limit size=2 (FORELINE_LIMITS) allows more", of
 * twice what is allowed now. Every command, rank and libforeline heeds it; `text` is returned. */
enum { LIMIT_MORE = 128 };
const char *limit_more(enum limit which, char text[LIMIT_MORE]);
/* The same with a value that is enough for what is needed, or that none is; `text` or a literal. */
const char *limit_enough(enum limit which, double needed, char text[LIMIT_MORE]);

/* Change those that a text names, "start=1min,size=2"; NULL: none. Seconds are more than 0 and at
 * most a million; numbers at most 1,048,576, and factors more than 0. While a process has one
 * thread. The environment gets what differs from the table, for the processes that this one starts.
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
