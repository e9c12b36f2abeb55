/* trace_events.h - the ops in a Chrome trace (core/trace.h): what ran when on which rank. Private.
 */
#ifndef PLOTS_TRACE_EVENTS_H
#define PLOTS_TRACE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

/* The order in which they are drawn: later ones on top. */
enum trace_category {
    TRACE_COPY, /* by a device's copy engines */
    TRACE_COMMUNICATION,
    TRACE_COMPUTE, /* of runs that do not say what */
    TRACE_FORWARD,
    TRACE_BACKWARD, /* whole, or the half that the stage before waits for */
    TRACE_WEIGHT,   /* the other half */
    TRACE_UPDATE,
    TRACE_CATEGORIES
};

struct trace_event {
    double start_s, end_s;
    uint32_t row; /* index of the rank */
    uint8_t category;
    int64_t microbatch; /* -1: none */
    char *name;
};

struct trace_events {
    int64_t step; /* of a run, from 0 and with its warm-up; -1: a prediction, or several traces */
    size_t rows;
    int64_t *pid;  /* [rows] process ids, ascending within a trace */
    char **rank;   /* [rows] process names, NULL where the trace gives none */
    double *end_s; /* [rows] when the last op of the row's trace ends */
    size_t n;
    struct trace_event *event; /* [n] in file order */
};

/* Read the complete events ("ph": "X") of known categories; others are not ours and skipped.
 * STATUS_PARSE with path:line:column, also when no such event is there; STATUS_IO, STATUS_NOMEM. */
enum status trace_events_read(const char *path, struct trace_events *out) MUST_CHECK;
/* The traces of several files one below the other, on one time axis that begins with each: before the rows of
 * each stands one with process id -1 that is called after the file, without its folder and ending. Of
 * each trace only the `ranks` that are named by process id ("0,8-15"; NULL: all): STATUS_USAGE when that
 * is no such list, STATUS_INVALID when no trace has any of them. */
enum status trace_events_read_all(const char *const *path, size_t n, const char *ranks,
                                  struct trace_events *out) MUST_CHECK;
void trace_events_free(struct trace_events *t); /* accepts {0}; leaves {0} */

#endif
