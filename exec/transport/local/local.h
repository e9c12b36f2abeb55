/* local.h - the local transport inside: ranks are threads of one process, messages change hands,
 * and members of a group read each other's arrays.
 *
 * A hub is what the ranks share: a free list of buffers per channel, the messages on their way by
 * the op that sends them, and for every rank what it is at. One mutex guards all of it; nothing is
 * copied or added while it is held. Each rank has a condition, signalled when something
 * that it may wait for has happened.
 *
 * A message is packed into a buffer of the channel, and the buffer is what the receiver gets; with
 * release() it goes back. Collectives are the rounds of exec/rounds.h, done by a thread per rank
 * that takes its part straight from the giver's array: what is given in a round is not written
 * again before the taker has passed it on, so a count of finished rounds is all that members need
 * of each other. A call ends when everybody has taken what it is given.
 *
 * The same for the host and for GPUs: struct local_memory is what differs. There, "copied" means
 * queued, and a mark (an event) stands for what a thread has queued before it. Each rank has a GPU,
 * and reads those of the others; a rank's host waits for other hosts to have queued what it will
 * need, and for GPUs only at the end of a step.
 *
 *   local.c    the transport: open and close, messages, waiting, barriers
 *   hub.c      what the ranks share
 *   collect.c  the thread of collectives
 *   host.c, cuda.c  the memories */
#ifndef EXEC_TRANSPORT_LOCAL_LOCAL_H
#define EXEC_TRANSPORT_LOCAL_LOCAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
#include "core/data/program.h"
#include "exec/endpoints.h"
#include "exec/rendezvous.h"
#include "exec/transport.h"

/* Where messages and arrays are, and the order of what happens there. Each thread has a queue. */
struct local_memory {
    enum status (*where)(int *memory); /* of the calling thread's queue */
    enum status (*enter)(int memory);  /* another thread's queue is there too */
    enum status (*reach)(
        int memory);                 /* the thread may read it. NULL: all may. STATUS_UNSUPPORTED */
    void *(*allocate)(size_t bytes); /* NULL: there is none */
    void (*release)(void *data);
    enum status (*new_mark)(void **mark); /* to be recorded in the memory of the calling thread */
    void (*free_mark)(void *mark);        /* accepts NULL */
    enum status (*record)(void *mark);    /* stands for all that the thread has queued so far */
    enum status (*follow)(void *mark);    /* what the thread queues next comes after */
    enum status (*look)(void *mark, bool *happened);
    /* Where things are queued, else NULL: a queue beside the thread's; on that, `mark` right after
     * `after`; the step's clock (rendezvous.h) starts; when a mark happened by that clock. */
    enum status (*new_queue)(void **queue);
    void (*free_queue)(void *queue); /* accepts NULL */
    enum status (*record_after)(void *queue, void *after, void *mark);
    enum status (*start)(void *clock);
    double (*when)(const void *clock, void *mark);
    enum status (*copy)(void *to, const void *from, size_t bytes);
    /* element_reduce() and rounds_end(); STATUS_UNSUPPORTED: reductions that it cannot do. */
    enum status (*reduce)(enum element e, enum op_reduction how, void *y, const void *x, size_t n);
    enum status (*end)(const struct rounds_call *c, enum element e, void *data);
};

extern const struct local_memory local_host;

struct local_buffer {
    void *data;
    void *full, *empty; /* marks: the sender has packed it, the receiver has read it */
    bool was_used;
    struct local_buffer *next; /* of a list */
};

/* A message on its way. */
struct local_message {
    struct local_buffer *buffer; /* NULL: not sent, or taken */
    double sent_s;
};

/* The call of a collective that a rank's thread is at. */
struct local_call {
    bool active;
    uint32_t op;
    enum element element;
    const void *data;
    size_t n;
    double deadline_s;
    uint64_t number; /* of the rank's calls of this group, from 0 */
    size_t round;    /* the next; those before have happened */
};

struct local_rank {
    pthread_cond_t changed;
    atomic_uint changes;    /* how often that was signalled: who waits awake looks at it */
    int memory;             /* of its queue; known when it is open */
    bool left;              /* closed, or will never be opened */
    struct local_call call; /* mark: of its rounds so far */
    void *mark;
    uint64_t *done; /* [program->groups] calls whose rounds have all happened */
    size_t readers; /* threads that read call.data now */
};

struct local_hub {
    const struct program *program;
    const struct local_memory *memory;
    pthread_mutex_t mutex;
    bool spins;                    /* who waits stays awake for a moment (exec/spin.h) */
    struct arena arrays;           /* memory of those of fixed length */
    struct local_rank *rank;       /* [program->ranks] */
    struct local_message *message; /* [program->ops] by SEND */
    struct local_buffer **free;    /* [program->channels] lists */
    size_t buffers;
    struct local_buffer **buffer; /* [buffers] all of them; grown by ARRAY_ROOM() */
    size_t arrived;               /* at the barrier */
    uint64_t barriers;            /* passed */
    double start_s;               /* of the last one */
};

struct local {
    struct endpoints links; /* op's buffer: struct local_buffer, of a RECV */
    struct local_hub *hub;
    void **mark;    /* [links.ops] when ops of communication end, by the device's order */
    void **begin;   /* [links.ops] when collectives begin */
    void *arrivals; /* queue in which messages are seen to arrive */
    void *clock;    /* NULL: times are the host's */
    double timeout_s;
    bool has_met;    /* all ranks are open, and can reach each other's memory */
    uint64_t *calls; /* [program->groups] begun */
    int memory;      /* of the rank's queue */
    bool collecting, stopping;
    pthread_t collector;
    pthread_cond_t asked; /* a collective is there, or stop */
};

/* collect.c: one call from beginning to end, in the calling thread, the oldest one if it is
 * `queued`. False: a failure, which is noted, or the rank stops. The mutex is held. */
bool local_serve(struct local *t, const struct link_call *r, bool queued, double deadline_s);
/* Body of the thread that does all collectives of a rank; argument struct local. */
void *local_collector(void *local);
/* The mutex, whose holders are quick: tried again and again before sleeping for it. */
void local_lock(struct local_hub *hub);
/* Until something of this rank has changed, or for no reason; false: the deadline has passed. The
 * mutex is held, but not while waiting. */
bool local_sleep(struct local_hub *hub, uint32_t rank, double deadline_s);
/* Who may wait for something of this rank looks again. The mutex is held. */
void local_wake(struct local_hub *hub, uint32_t rank);
/* The same of something that all ranks may wait for. */
void local_wake_all(struct local_hub *hub);
/* The first rank of a group that has left, or PROGRAM_NONE. The mutex is held. */
uint32_t local_leaver(const struct local_hub *hub, uint32_t group);

/* ---- the transport's functions, for other memories */

enum status local_share(const struct program *p, const struct local_memory *m,
                        void **shared) MUST_CHECK;
void local_unshare(void *shared);
void local_leave(void *shared, uint32_t rank);
enum status local_open(const struct program *p, uint32_t rank, const struct rendezvous *r,
                       void **self) MUST_CHECK;
void local_close(void *self);
enum status local_send_buffer(void *self, uint32_t op, void **data) MUST_CHECK;
enum status local_send(void *self, uint32_t op) MUST_CHECK;
enum status local_collective(void *self, uint32_t op, enum element e, void *data,
                             size_t n) MUST_CHECK;
enum status local_follow(void *self, uint32_t op, const void **data) MUST_CHECK;
enum status local_wait(void *self, uint32_t op, double timeout_s, const void **data) MUST_CHECK;
void local_times(void *self, uint32_t op, double *start_s, double *end_s);
void local_release(void *self, uint32_t op);
enum status local_barrier(void *self, double timeout_s, double *start_s) MUST_CHECK;

#endif
