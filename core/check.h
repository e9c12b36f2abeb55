/* check.h - proves that a program can run: everything matches, nothing deadlocks, memory per rank.
 *
 * Replays the lists with zero-buffer semantics: SEND, RECV and collectives block their rank in list
 * order until the other side has arrived too. Stricter than any engine, so what passes here runs on
 * all of them. */
#ifndef CORE_CHECK_H
#define CORE_CHECK_H

#include "core/program.h"

/*   peak_bytes  [ranks] out: static bytes + largest sum of stashes in list order; may be NULL
 *
 * Also checks dependencies (earlier op of the same rank), that a BACKWARD follows its FORWARD, and
 * that matching payloads have equal size. On deadlock the message names the wait cycle:
 * "deadlock: rank 0 (gpu0) at 0SEND_F3 to rank 1 tag 7 <- rank 1 ...".
 * O(ops). Returns STATUS_INVALID, STATUS_NOMEM. */
enum status program_check(const struct program *p, int64_t *peak_bytes) MUST_CHECK;

#endif
