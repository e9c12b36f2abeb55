/* nccl.h - the NCCL transport inside: one rank per GPU, messages from device memory to device
 * memory, collectives by NCCL itself.
 *
 * Every channel (directed pair of ranks) and every group has a communicator and a stream of its
 * own, of the highest priority: NCCL runs the calls of one communicator one after the other, and so
 * nothing waits for what it does not depend on. They are parts of one world communicator
 * (ncclCommSplit), and share no resources with it: communicators that share are one queue to NCCL.
 *
 * Nothing here waits on the host during a step but wait() and barrier(); events order streams. A
 * send follows what was computed before it. A receive that nobody serves yet is a kernel that spins
 * on the GPU: it is queued when the rank's list has come to it, and starts when the computation
 * before the last one is over. All lists run to their ends when messages are passed at once
 * (core/data/program_check.c), so a few send buffers and the window of receive buffers are enough.
 * Nothing is allocated during steps, and nothing synchronises the device.
 *
 * Communicators block: calls are made between nccl_begin() and nccl_end(), and a thread (watch.c)
 * looks after them: it aborts all communicators when a call takes too long, NCCL reports an error
 * or another rank has ended. Abort is the only end of a communicator: kernels that wait for others
 * end with it.
 *
 *   nccl.c     the transport: open and close, messages, waiting, barriers
 *   connect.c  communicators: made, connected, aborted
 *   collect.c  collectives: NCCL's own, or rounds of sends (exec/rounds.h) for equal bits
 *   watch.c    the thread that looks after calls and other ranks */
#ifndef EXEC_TRANSPORT_NCCL_NCCL_H
#define EXEC_TRANSPORT_NCCL_NCCL_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/data/program.h"
#include "exec/device/cuda/times.h"
#include "exec/endpoints.h"
#include "exec/rendezvous.h"
#include "exec/star.h"
#include "exec/transport.h"

enum {
    NCCL_SEND_SLOTS = 4,  /* a sender further ahead waits, on the GPU */
    NCCL_CHUNK = 4 << 20, /* bytes that a round of sends moves at once */
    NCCL_FIRST = 256,     /* bytes of a first sum */
};

/* Memory for one message. */
struct nccl_slot {
    char *data;       /* of the link's memory */
    cudaEvent_t free; /* outgoing: sent; incoming: the compute stream has read it */
    bool was_used;
};

/* One end of a channel. */
struct nccl_link {
    const struct link_end *end; /* in the communicator the sender is 0, the receiver 1 */
    ncclComm_t *comm;           /* of struct nccl */
    cudaStream_t stream;
    char *memory;           /* one piece for all slots */
    size_t slots, next;     /* outgoing: messages packed so far */
    struct nccl_slot *slot; /* [slots] */
    size_t free;
    struct nccl_slot **pool; /* [slots] incoming: pool[0 .. free) are not in use */
};

/* A seat in a group. */
struct nccl_group {
    ncclComm_t *comm; /* of struct nccl; NULL in it: the rank is alone */
    cudaStream_t stream;
    char *chunk; /* received part of a round: NCCL_CHUNK bytes, or for the first call only */
};

/* When a communication op began and ended, on the stream of its link or group. */
struct nccl_span {
    cudaEvent_t begin, end;
};

/* Where the compute stream was when the rank's list had so many computations behind it. */
struct nccl_mark {
    cudaEvent_t event;
    bool recorded; /* in this step */
    uint32_t computed;
};

struct nccl {
    struct endpoints links;   /* op's buffer: struct nccl_slot */
    struct cuda_clock *clock; /* the device's */
    struct nccl_span *span;   /* [links.ops] */
    struct star star;
    struct nccl_link *link;   /* [links.n] */
    struct nccl_group *group; /* [program->groups] streams only where the rank is a member */
    size_t comms;
    ncclComm_t *comm; /* [comms] the world, those of links, those of groups */
    bool *told;       /* [comms] to abort */
    cudaEvent_t ready;
    uint32_t reached, computed; /* the list up to here is queued; computations in it */
    struct nccl_mark mark[2];
    size_t newest; /* of mark[] */

    int gpu;
    pthread_mutex_t calls; /* held in calls of NCCL, and to reclaim what was aborted */
    bool aborted;
    pthread_mutex_t telling; /* of rank 0: who writes to the star's connections */
    pthread_mutex_t state;   /* guards links.failure and what follows */
    double deadline_s;       /* of the call under way; INFINITY: there is none */
    double patience_s;       /* how long one may take */
    double call_s;           /* the same while ranks start, when all have met */
    bool watching;
    _Atomic bool connected, stopping;
    pthread_t watch;
};

/* ---- connect.c */

/* Communicators of all channels and groups of the rank, connected. */
enum status nccl_connect(struct nccl *t) MUST_CHECK;
/* End all communicators and what they have queued; once. */
void nccl_abort(struct nccl *t);

/* ---- collect.c */

/* Queue a call on the group's stream. */
enum status nccl_collect(struct nccl *t, uint32_t op, enum element e, void *data,
                         size_t n) MUST_CHECK;
/* NCCL's collectives: member `me` owns chunk `me` of n / members numbers, the last one the rest as
 * well. */
struct ring_part nccl_part(size_t n, size_t members, size_t me);
static inline ncclDataType_t nccl_type(enum element e)
{
    return e == ELEMENT_BF16 ? ncclBfloat16 : e == ELEMENT_FP16 ? ncclHalf : ncclFloat;
}

/* ---- watch.c */

enum status nccl_watch(struct nccl *t) MUST_CHECK;
void nccl_unwatch(struct nccl *t); /* before the communicators end */
/* Around calls of NCCL. begin: STATUS_OK or the failure that there was. end: `e` is what the calls
 * on comm have said; STATUS_IO with NCCL's words, or who has ended. */
enum status nccl_begin(struct nccl *t) MUST_CHECK;
enum status nccl_end(struct nccl *t, ncclComm_t comm, ncclResult_t e) MUST_CHECK;
/* Of calls between the two: may the next be made? */
static inline bool nccl_fine(ncclResult_t e)
{
    return e == ncclSuccess || e == ncclInProgress;
}
/* Keep the first failure, with error_message(); and what it is. */
void nccl_fail(struct nccl *t, enum status st);
enum status nccl_failure(struct nccl *t) MUST_CHECK;
/* The same, of a failure that may follow from another rank's end, which is known a little later. */
enum status nccl_judge(struct nccl *t, enum status st) MUST_CHECK;
/* How long a call may take from now on. */
void nccl_set_patience(struct nccl *t, double patience_s);
/* May the thread use the star's connections? */
void nccl_set_telling(struct nccl *t, bool allowed);
/* Wait until all of a stream has happened, while connecting. */
enum status nccl_drain(struct nccl *t, cudaStream_t stream) MUST_CHECK;

#endif
