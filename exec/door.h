/* door.h - a listening port at which strangers may knock too.
 *
 * Who belongs to the run says its token first, and then the rest of a hello of fixed size, at once.
 * All who have connected are heard together, without waiting for any of them: a stranger that says
 * nothing costs a descriptor for LIMIT_stranger (core/base/limit.h), one that says anything else is
 * dropped at its first TOKEN bytes, which are compared in constant time. Where there is a refusal,
 * one that says a whole hello of our protocol with another token is told so before it is dropped.
 * At most DOOR_CALLERS are heard; who comes then takes the place of the one that has been silent
 * longest. */
#ifndef EXEC_DOOR_H
#define EXEC_DOOR_H

#include <poll.h>
#include <stddef.h>

#include "exec/rendezvous.h"

enum { DOOR_CALLERS = 128, DOOR_POLLS = DOOR_CALLERS + 1 };
enum { DOOR_PATIENCE = 3 }; /* s: who connects may say nothing */

struct caller {
    int fd; /* -1: a free place */
    size_t got;
    double since_s;
};

struct door {
    int listener; /* borrowed */
    uint8_t token[TOKEN];
    size_t bytes;          /* of a hello, which begins with the token */
    struct caller *caller; /* [DOOR_CALLERS]; NULL: not open */
    char *said;            /* [DOOR_CALLERS * bytes] */
    const void *refusal;   /* [refusal_bytes] said to those who have another token; borrowed; NULL:
                            * nothing. Then a hello has a struct frame_head behind its token. */
    size_t refusal_bytes;
    size_t refused; /* so many were told */
};

/* Begin to hear who comes to `listener`. STATUS_NOMEM. */
enum status door_open(int listener, const uint8_t token[TOKEN], size_t bytes,
                      struct door *out) MUST_CHECK;
void door_close(struct door *d); /* drops who is being heard; accepts {0} */

/* What to poll() for: at most DOOR_POLLS entries, and how many. {0}: none. */
size_t door_poll(const struct door *d, struct pollfd *p);
/* Without waiting: let in who knocks, hear what they say. *fd is the next connection whose hello
 * [bytes] is whole, and the caller's, else -1. Call again until it is. STATUS_IO. */
enum status door_step(struct door *d, void *hello, int *fd) MUST_CHECK;
/* The same with waiting. STATUS_EXTERNAL "timeout: no answer". */
enum status door_answer(struct door *d, double deadline_s, void *hello, int *fd) MUST_CHECK;

#endif
