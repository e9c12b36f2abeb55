/* trace.h - a timeline as Chrome Trace Event JSON, for ui.perfetto.dev.
 *
 * One process per rank; thread 0 computes, thread 1 sends, thread 2 receives, thread 3 does
 * collectives, and threads of more such where ops of a kind overlap; op names as op_label(); times
 * in microseconds; flow arrows from SEND to RECV. Of a real run "otherData" says which step it is
 * and when that began, "clock_monotonic_s" and "unix_s": so that other tools' traces of the same
 * run can be laid beside it. */
#ifndef CORE_DATA_TRACE_H
#define CORE_DATA_TRACE_H

#include <stdio.h>

#include "core/data/measurement.h"
#include "core/data/program.h"

enum status trace_put(const struct program *p, const struct timeline *t, FILE *to,
                      const struct provenance *by) MUST_CHECK;

/* For other writers of such files: open the object and its "otherData", which the caller closes;
 * the name of a process ("process_name") or of a thread ("thread_name"). */
/* Slices of a thread may not overlap, or viewers drop them: lane[i] of n slices is the first lane
 * of its thread[i] that is free from start[i] on, in the order of the starts; slices of TRACE_LANES
 * others at a time share the last. O(n log n + n lanes). STATUS_NOMEM. */
enum { TRACE_LANES = 256, TRACE_THREADS = 4 };
enum status trace_lanes(size_t n, const double *start, const double *end, const uint8_t *thread,
                        uint32_t *lane) MUST_CHECK;
/* The thread's number of a lane, and its name: "receive", "receive 2". */
static inline int trace_thread(uint8_t thread, uint32_t lane)
{
    return (int)(lane * TRACE_THREADS + thread);
}
struct json_writer;
void trace_put_threads(struct json_writer *w, uint32_t pid, const char *const name[TRACE_THREADS],
                       size_t n, const uint8_t *thread, const uint32_t *lane);
void trace_open(struct json_writer *w, const struct provenance *by);
void trace_put_name(struct json_writer *w, const char *what, uint32_t pid, int tid,
                    const char *name);

#endif
