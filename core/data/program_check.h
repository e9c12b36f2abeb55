/* program_check.h - proves that a program can run: everything matches, nothing deadlocks, memory
 * per rank.
 *
 * Replays the lists with zero-buffer semantics: SEND, RECV and collectives block their rank in list
 * order until the other side has arrived too. Stricter than any engine, so what passes here runs on
 * all of them. */
#ifndef CORE_DATA_PROGRAM_CHECK_H
#define CORE_DATA_PROGRAM_CHECK_H

#include "core/data/program.h"

/* Also checks dependencies (earlier op of the same rank), that a BACKWARD follows its FORWARD (and
 * a BACKWARD_WEIGHT its BACKWARD_INPUT), that every stash taken is given back, and that the sides
 * of a message and the members of a collective agree. On deadlock the message names the wait cycle:
 * "deadlock: rank 0 (gpu0) at 0SEND_F3 to rank 1 tag 7 <- rank 1 ...".
 * O(ops). Returns STATUS_INVALID, STATUS_NOMEM. */
enum status program_check(const struct program *p) MUST_CHECK;

/* Most memory that a rank of a checked program holds at once: static bytes, the most stashes of
 * each of its stages in list order, and scratch during compute ops. *op (may be NULL): the first op
 * at which it does, PROGRAM_NONE when the rank has none. O(ops of the rank x its stages). */
int64_t program_peak(const struct program *p, uint32_t rank, uint32_t *op);
/* held[i]: bytes of stashes that the rank holds behind the i-th op of its list. O(ops of the
 * rank). */
void program_held(const struct program *p, uint32_t rank, int64_t *held);

#endif
