/* tcp.h - the TCP transport inside: one socket and one thread per directed link, one mutex.
 *
 * Links of a rank: an outgoing one per channel it sends on (writer thread), an incoming one per
 * channel it receives on (reader thread), two per group of more than one rank (its ring neighbours;
 * one thread does all collectives), and one to rank 0 for barriers (no thread).
 *
 * On the wire every message is a `struct tcp_head` and `bytes` of payload. Peers are not trusted:
 * what a head must contain follows from the program, and anything else ends the run before a byte
 * of payload is read. What is allocated follows from the program too, never from a message.
 *
 * Threads stop at the first error, which is kept in `failure` and wakes all waiters. */
#ifndef EXEC_TRANSPORT_TCP_TCP_H
#define EXEC_TRANSPORT_TCP_TCP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/program.h"
#include "exec/endpoints.h"
#include "exec/rendezvous.h"
#include "exec/ring.h"

enum { TCP_MAGIC = 0x464c5431, TCP_VERSION = 1, TCP_REASON = 512 };

enum tcp_kind {
    TCP_DATA,    /* tag: op index of the SEND; bytes of payload follow */
    TCP_CREDIT,  /* receiver to sender: one slot is free again */
    TCP_PART,    /* tag: op index of the group's first member; a part of the array follows */
    TCP_BARRIER, /* to rank 0: arrived; from rank 0: a double, when to start, follows */
};

struct tcp_head {
    uint32_t magic, kind;
    uint32_t tag, step;
    uint64_t bytes;
};

/* First thing on a data connection. */
struct tcp_hello {
    uint32_t magic, version;
    uint8_t token[TOKEN];
    uint32_t role; /* enum tcp_role */
    uint32_t id;   /* channel or group */
    uint32_t from; /* rank */
};

enum tcp_role { TCP_CHANNEL, TCP_RING, TCP_STAR };

/* A payload buffer; a slot of an incoming link or a send buffer of an outgoing one. */
struct tcp_buffer {
    void *data;
    struct tcp_buffer *next; /* free list */
};

struct tcp;

/* One end of a channel. */
struct tcp_link {
    struct tcp *tcp;
    const struct link_end *end;
    int fd;
    bool running;
    pthread_t thread;
    pthread_cond_t posted;          /* outgoing: something to send, or stop */
    size_t next;                    /* position of the next message */
    size_t ready;                   /* outgoing: messages posted and not yet written */
    size_t posts;                   /* outgoing: position of the next post */
    uint32_t step;                  /* of the next message */
    size_t credits;                 /* outgoing: messages that the receiver has room for */
    double free_s;                  /* incoming: when the delay's pace lets the next begin */
    size_t buffers;                 /* of the pool that have memory */
    struct tcp_buffer *pool, *free; /* incoming: [window] slots; outgoing: [order->n] */
};

/* A collective waiting its turn, and connections with the neighbours in a group. */
struct tcp_request {
    uint32_t op;
    float *data;
    size_t n;
};

struct tcp_ring {
    int next, previous;
    struct delay delay; /* from the previous one */
};

struct tcp {
    struct endpoints links;     /* op's buffer: struct tcp_buffer */
    struct tcp_link *link;      /* [links.n] */
    const struct delay *delay;  /* [ranks] borrowed; NULL: none */
    struct tcp_ring *neighbour; /* [program->groups] */
    size_t neighbours;
    int *star; /* rank 0: [ranks] connections of the others; else [1] to rank 0 */
    size_t stars;
    bool clocks_differ; /* rendezvous.h: steps start when a rank hears of it */

    size_t requests, served;     /* calls of collectives of this step, in their order */
    struct tcp_request *request; /* [links.collectives] number k at k % links.collectives */
    struct ring_room chunk;      /* received part of a collective */
    bool collecting;
    pthread_t collector;
    pthread_cond_t asked; /* a collective is there, or stop */

    bool synchronised; /* mutex and conditions below and above exist */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an op is complete, or failure */
    bool stopping;
    enum status failure;
    char reason[TCP_REASON];
};

/* connect.c: fill links, rings and star with connected sockets. */
enum status tcp_connect(struct tcp *t, const struct rendezvous *r) MUST_CHECK;
/* Wake every thread that is blocked on a connection; then, when they have ended, close them. */
void tcp_hang_up(struct tcp *t);
void tcp_disconnect(struct tcp *t);

/* Is `h` what has to come next? STATUS_IO says what is wrong. */
enum status tcp_expect(const struct tcp_head *h, const struct tcp_head *want) MUST_CHECK;

/* link.c: bodies of the threads of a link; argument struct tcp_link. */
void *tcp_writer(void *link);
void *tcp_reader(void *link);
/* Take a buffer from the free list; NULL: it is empty. The mutex is held. */
struct tcp_buffer *tcp_take(struct tcp_link *l);
/* Give a slot back and tell the sender. */
enum status tcp_grant(struct tcp_link *l, struct tcp_buffer *b) MUST_CHECK;

/* ring.c: run a call of a collective, the next one of t->request if it is `queued`, in the calling
 * thread; failures are kept by tcp_fail(). */
enum status tcp_serve(struct tcp *t, const struct tcp_request *r, bool queued,
                      double deadline_s) MUST_CHECK;
/* Body of the thread that does all collectives; argument struct tcp. */
void *tcp_collector(void *tcp);

/* Note that `peer` failed at `op` for the reason in error_message() and wake everyone; the first
 * one counts. */
void tcp_fail(struct tcp *t, enum status st, uint32_t op, uint32_t peer);
/* Op `op` of this rank ran from start_s to end_s. */
void tcp_complete(struct tcp *t, uint32_t op, double start_s, double end_s);

#endif
