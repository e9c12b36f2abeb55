/* tcp.h - the TCP transport inside: one socket and one thread per directed link, one mutex.
 *
 * Links of a rank: an outgoing one per channel it sends on (writer thread), an incoming one per
 * channel it receives on (reader thread), those to and from the members of a group that it meets
 * in a collective's rounds (one thread does all collectives), and one to rank 0 for barriers (no
 * thread).
 *
 * On the wire every message is a `struct tcp_head` and `bytes` of payload. Peers are not trusted:
 * what a head must contain follows from the program, and anything else ends the run before a byte
 * of payload is read. What is allocated follows from the program too, never from a message.
 *
 * Threads stop at the first error, which is kept (endpoints_fail()) and wakes all waiters.
 *
 *   tcp.c      the transport: open and close, posting and waiting, barriers
 *   connect.c  who calls whom, and which connection is for what
 *   link.c     the threads of channels: messages, credits
 *   collect.c  the thread of collectives
 *   socket.c   sockets with deadlines; also for the launcher and the star */
#ifndef EXEC_TRANSPORT_TCP_TCP_H
#define EXEC_TRANSPORT_TCP_TCP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/program.h"
#include "exec/endpoints.h"
#include "exec/rendezvous.h"
#include "exec/star.h"

enum { TCP_MAGIC = STAR_MAGIC, TCP_LOOKS = 8 };

enum tcp_kind {
    TCP_DATA,   /* tag: op index of the SEND; bytes of payload follow */
    TCP_CREDIT, /* receiver to sender: so many slots (tag) are free again */
    TCP_PART,   /* tag: op index of the group's first member; a part of the array follows */
};

struct tcp_head {
    uint32_t magic, kind;
    uint32_t tag, step;
    uint64_t bytes;
};

struct tcp;

/* One end of a channel. */
struct tcp_link {
    struct tcp *tcp;
    const struct link_end *end;
    int fd;
    bool running;
    pthread_t thread;
    pthread_cond_t posted; /* outgoing: something to send, or stop */
    size_t next;           /* position of the next message */
    size_t ready;          /* outgoing: messages posted and not yet written */
    uint32_t step;         /* of the next message */
    size_t credits;        /* outgoing: messages that the receiver has room for */
    uint32_t owed;         /* incoming: slots given back that the sender does not know of */
    double free_s;         /* incoming: when the delay lets the next message begin */
    /* Of the message under way, whoever moves it: bytes, the head's included, that have left or
     * come. Incoming: its head, slot (NULL: none yet) and when it began. */
    size_t moved;
    struct tcp_head head;
    char *slot;
    double start_s;
    /* The rank's own thread has the socket: it writes, or reads what it waits for, and then may
     * come back until lent_s. Or the link's thread is in the middle of a message. */
    bool lent, busy;
    double lent_s;
    struct link_pool pool; /* incoming: slots; outgoing: send buffers */
};

/* Connections to and from a member of a group; -1: none, the rounds do not need it. */
struct tcp_partner {
    int to, from;
};

struct tcp {
    struct endpoints links;    /* op's buffer: of a pool */
    struct tcp_link *link;     /* [links.n] */
    const struct delay *delay; /* [ranks] borrowed; NULL: none */
    struct star star;
    size_t partners;
    struct tcp_partner *partner; /* [members of all groups] */
    struct rounds_room chunk;    /* received part of a collective */
    size_t owed;                 /* credits of all links; of the rank's own thread */
    bool spins;                  /* who waits stays awake for a moment (exec/spin.h) */
    bool collecting;
    pthread_t collector;
    pthread_cond_t asked; /* a collective is there, or stop */

    bool synchronised; /* mutex and conditions below and above exist */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an op is complete, or failure */
    bool stopping;
};

/* connect.c: fill links, partners and star with connected sockets. */
enum status tcp_connect(struct tcp *t, const struct rendezvous *r) MUST_CHECK;
/* Wake every thread that is blocked on a connection; then, when they have ended, close them. */
void tcp_hang_up(struct tcp *t);
void tcp_disconnect(struct tcp *t);

/* Is `h` what has to come next? STATUS_IO says what is wrong. */
enum status tcp_expect(const struct tcp_head *h, const struct tcp_head *want) MUST_CHECK;

/* link.c: bodies of the threads of a link; argument struct tcp_link. */
void *tcp_writer(void *link);
void *tcp_reader(void *link);
/* In the rank's own thread, without a hand-over to the link's: send the message that has just been
 * posted, as far as the socket takes it at once; read the message that is waited for while it comes
 * within SPIN_S. The mutex is held, but not while bytes move. */
void tcp_write_here(struct tcp_link *l);
void tcp_read_here(struct tcp_link *l, uint32_t op);
/* Tell senders of slots that have been given back since. In the rank's own thread; failures are
 * kept by tcp_fail(). */
void tcp_pay_credits(struct tcp *t);

/* collect.c: run a call of a collective, the oldest one if it is `queued`, in the calling thread;
 * failures are kept by tcp_fail(). */
enum status tcp_serve(struct tcp *t, const struct link_call *c, bool queued,
                      double deadline_s) MUST_CHECK;
/* Body of the thread that does all collectives; argument struct tcp. */
void *tcp_collector(void *tcp);

/* Note that `peer` failed at `op` for the reason in error_message() and wake everyone; the first
 * one counts. */
void tcp_fail(struct tcp *t, enum status st, uint32_t op, uint32_t peer);
/* Op `op` of this rank ran from start_s to end_s. */
void tcp_complete(struct tcp *t, uint32_t op, double start_s, double end_s);

#endif
