/* program_posted.h - does a captured program come to its end? Private to program_check.c. */
#ifndef CORE_DATA_PROGRAM_POSTED_H
#define CORE_DATA_PROGRAM_POSTED_H

#include "core/data/program.h"

/* Replay the lists as scripts run: communication is posted and goes on beside its rank, which waits
 * where a compute op depends on it. Messages are complete when both ends are posted, collectives
 * when all members are. STATUS_INVALID names a rank that waits for ever, and for what.
 * O(ops + deps). */
enum status program_replay_posted(const struct program *p) MUST_CHECK;

#endif
