/* timeline_json.h - a timeline as JSON columns, for programs that draw it.
 *
 * Format "foreline-timeline" version 1, all times in ns from the start of the iteration:
 *   ranks   name, stage, first, static_bytes, scratch_bytes of each rank that was simulated: its ops
 *           are those from its `first` on; static_bytes are kept all the time, scratch_bytes are
 *           needed besides while ops compute
 *   of      [ranks of the plan] index in `ranks` of the one that stands for it
 *   kinds, purposes   the words of `kind` and `purpose`
 *   op      columns, all equally long: kind, purpose, stage, microbatch (-1: none), start, duration,
 *           bytes, peer (messages: index in `ranks`; else -1), match (op at the other end of a
 *           message, of the next member of a collective; else -1), held (bytes of activations behind
 *           the op) */
#ifndef CORE_DATA_TIMELINE_JSON_H
#define CORE_DATA_TIMELINE_JSON_H

#include <stdio.h>

#include "core/data/measurement.h"
#include "core/data/program.h"

/* O(ops). STATUS_NOMEM. */
enum status timeline_put(const struct program *p, const struct timeline *t, FILE *to,
                         const struct provenance *by) MUST_CHECK;

#endif
