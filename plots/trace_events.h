/* trace_events.h - the ops in a Chrome trace (core/data/trace.h): what ran when on which rank.
 * Private.
 */
#ifndef PLOTS_TRACE_EVENTS_H
#define PLOTS_TRACE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

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
    int64_t *pid;   /* [rows] process ids, ascending within a trace */
    char **rank;    /* [rows] process names, NULL where the trace gives none */
    double *end_s;  /* [rows] when the last op of the row's trace ends */
    double until_s; /* when the last op of the ranks that are kept ends */
    size_t n;
    struct trace_event *event; /* [n] in file order */
};

/* What of a trace is kept. */
struct trace_range {
    int64_t first, last;
};
struct trace_ranks {
    size_t n; /* 0: all */
    struct trace_range *range;
};
/* "0,8-15"; range is malloc'd. STATUS_USAGE: it is no such list; STATUS_NOMEM. O(length). */
enum status trace_ranks_parse(const char *text, struct trace_ranks *out) MUST_CHECK;
struct trace_filter {
    struct trace_ranks ranks;
    double from_s, to_s; /* ops that overlap this time; to_s 0: to the end */
};

/* Read the complete events ("ph": "X") of known categories that `filter` keeps (NULL: all); others
 * are not ours and skipped. The file is read once, as a stream, plain or gzip: memory is that of
 * the ops and ranks that are kept, time O(bytes). STATUS_PARSE with path:line, also when no such
 * event is there; STATUS_INVALID: more than MOST_EVENTS are kept, or more than 64 GiB are in
 * the file; STATUS_IO, STATUS_NOMEM. */
enum status trace_events_read(const char *path, const struct trace_filter *filter,
                              struct trace_events *out) MUST_CHECK;
/* The traces of several files one below the other, on one time axis that begins with each: before
 * the rows of each stands one with process id -1 that is called after the file, without its folder
 * and ending. STATUS_INVALID when no trace has any of the ranks. */
enum status trace_events_read_all(const char *const *path, size_t n,
                                  const struct trace_filter *filter,
                                  struct trace_events *out) MUST_CHECK;
/* By its name in traces; false: there is none. */
bool trace_category_find(const char *name, uint8_t *out);
void trace_events_free(struct trace_events *t); /* accepts {0}; leaves {0} */

#endif
