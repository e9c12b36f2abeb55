/* trace.h - a timeline as Chrome Trace Event JSON, for ui.perfetto.dev.
 *
 * One process per rank; thread 0 computes, thread 1 sends, thread 2 receives, thread 3 does
 * collectives; op names as op_label(); times in microseconds; flow arrows from SEND to RECV. Of a real
 * run "otherData" says which step it is and when that began, "clock_monotonic_s" and "unix_s": so
 * that other tools' traces of the same run can be laid beside it. */
#ifndef CORE_TRACE_H
#define CORE_TRACE_H

#include "core/measurement.h"
#include "core/program.h"

enum status trace_write(const struct program *p, const struct timeline *t, const char *path,
                        const struct provenance *by) MUST_CHECK;

/* For other writers of such files: open the object and its "otherData", which the caller closes; the name of a
 * process ("process_name") or of a thread ("thread_name"). */
struct json_writer;
void trace_open(struct json_writer *w, const struct provenance *by);
void trace_put_name(struct json_writer *w, const char *what, uint32_t pid, int tid,
                    const char *name);

#endif
