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

#endif
