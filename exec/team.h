/* team.h - processes that measure together: forked, with memory and a barrier between them, each on
 * cores of its own (exec/cores.h). */
#ifndef EXEC_TEAM_H
#define EXEC_TEAM_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "exec/rendezvous.h"

enum { TEAM_MOST = 64 };

/* What a member finds. */
struct team_member {
    uint32_t rank;
    size_t ranks;
    double *number;              /* [numbers] zeros at first, shared by all */
    pthread_barrier_t *together; /* of all members */
    int listener;                /* own data port, listening on the loopback interface */
    uint16_t *port;              /* [ranks] everybody's */
};

/* How a member reaches the others, within limit_wait(WAIT_MEASURE); borrows what *me has. */
struct rendezvous team_meeting(const struct team_member *me);

/* Fork `ranks` members, who do `body` at the same time, and wait for them.
 *   number  [numbers] out: what the members have left there
 * When one fails, the others are killed and its status and message, "rank R: ...", are ours; what
 * members say of each other's silence (STATUS_IO, STATUS_EXTERNAL) gives way to a cause that turns
 * up within a moment. STATUS_INVALID unless 1 <= ranks <= TEAM_MOST; STATUS_EXTERNAL: a member was
 * killed by a signal, which is named, or they were not done after limit_s; STATUS_NOMEM, STATUS_IO.
 */
enum status team_run(size_t ranks, size_t numbers, double limit_s,
                     enum status (*body)(struct team_member *me, void *context), void *context,
                     double *number) MUST_CHECK;

#endif
