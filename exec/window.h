/* window.h - how many messages of a channel the receiver must be able to hold. */
#ifndef EXEC_WINDOW_H
#define EXEC_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "core/data/program.h"

/* Messages of one channel, in the sender's list order. */
struct channel_order {
    size_t n;
    uint32_t *send, *recv; /* [n] op indices */
    size_t window;         /* slots that the receiver grants */
    size_t bytes;          /* of the largest message */
};

/* A slot is taken from a message's arrival until the first op that depends on its RECV has used it
 * (the end of the step when none does). The window is the smallest that cannot block for ever,
 *   - whatever the receiver waits for next can arrive although earlier messages of the channel,
 *     needed later, still hold theirs, and
 *   - every RECV that the receiver's list has reached has a slot, as in core/data/program_check.h's
 *     replay,
 * plus two, so that the sender seldom waits; never more than the messages of a step. Sender and
 * receiver compute the same number from the program.
 *
 *   order  [channels] out; owned by the caller, channel_orders_free()
 *
 * The program must be matched. O(ops log ops + sum of n^2 in the worst case). STATUS_NOMEM. */
enum status channel_orders(const struct program *p, struct channel_order **order) MUST_CHECK;
void channel_orders_free(struct channel_order *order, size_t channels); /* accepts NULL */

#endif
