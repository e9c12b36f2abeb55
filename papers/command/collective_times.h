/* collective_times.h - how long collectives take by themselves on a platform, as the analytic
 * engine has it: contention of their own flows included, which closed forms leave out. */
#ifndef PAPERS_COMMAND_COLLECTIVE_TIMES_H
#define PAPERS_COMMAND_COLLECTIVE_TIMES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/topology.h"

/* Over the first `devices` devices of t.
 *
 *   kind     [n] enum collective_kind
 *   bytes    [n] of the whole tensor, > 0
 *   seconds  [n] out
 *
 * One simulation of a program that has them one after the other. STATUS_INVALID, STATUS_NOMEM. */
enum status collective_times(const struct topology *t, size_t devices, size_t n,
                             const uint8_t *kind, const int64_t *bytes, double *seconds) MUST_CHECK;

#endif
