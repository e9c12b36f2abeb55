/* timeline_json.h - a timeline as JSON columns, for programs that draw it.
 *
 * Format "foreline-timeline" version 1, all times in ns from the start of the iteration:
 *   ranks   of each that was simulated name, stage, first (its ops are those from here on),
 *           static_bytes (kept all the time), scratch_bytes (besides while ops compute)
 *   of      [ranks of the plan] index in `ranks` of the one that stands for it
 *   kinds, purposes   the words of `kind` and `purpose`
 *   op      columns, all equally long: kind, purpose, stage, microbatch, start, duration, bytes,
 *           peer (of messages, index in `ranks`), match (op at the other end of a message, of the
 *           next member of a collective), held (bytes of activations behind the op); -1: none */
#ifndef CORE_DATA_TIMELINE_JSON_H
#define CORE_DATA_TIMELINE_JSON_H

#include <stdio.h>

#include "core/data/measurement.h"
#include "core/data/program.h"

/* O(ops). STATUS_NOMEM. */
enum status timeline_put(const struct program *p, const struct timeline *t, FILE *to,
                         const struct provenance *by) MUST_CHECK;

#endif
