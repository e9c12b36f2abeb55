/* nccl.h - the NCCL transport inside: one rank per GPU, messages from device memory to device
 * memory.
 *
 * Every channel (directed pair of ranks) has a communicator of two and a stream of its own, so that
 * messages of different channels never wait for each other; within one, NCCL has no tags and the
 * order is that of the list, as channels promise. Groups have a communicator each, and share one
 * stream: collectives run one after the other. They are rounds of exec/rounds.h made of ncclSend,
 * ncclRecv and a kernel that adds, not ncclAllReduce and its kin: so chunks and bits are those of
 * the other transports, at the price of NCCL's trees and in-network sums.
 *
 * Receives are queued on the channel's stream as soon as there is a slot: a receive that nobody
 * serves yet is a kernel that waits on the GPU, on a few of its multiprocessors; those queued
 * behind it cost nothing. It must not be waited for by accident: nothing is allocated during steps,
 * and nothing synchronises the device. Events order this with the compute stream
 * (exec/device/cuda/kernels.h): a send waits for what was computed before it, a slot is received
 * into when it has been read.
 *
 * Communicators are non-blocking: every call is followed by nccl_settle(), which has a deadline.
 * A first message on every communicator at open() makes the connections: later calls do not wait
 * for the other rank to make its own. */
#ifndef EXEC_TRANSPORT_NCCL_NCCL_H
#define EXEC_TRANSPORT_NCCL_NCCL_H

#include <nccl.h>

#include "core/program.h"
#include "exec/device/cuda/kernels.h"
#include "exec/endpoints.h"
#include "exec/rendezvous.h"
#include "exec/star.h"
#include "exec/transport.h"

/* Memory for one message. */
struct nccl_slot {
    char *data;       /* of the link's memory */
    cudaEvent_t free; /* incoming: when the compute stream has read it */
    bool was_used;
};

/* One end of a channel. */
struct nccl_link {
    const struct link_end *end; /* in the communicator the sender is 0, the receiver 1 */
    ncclComm_t comm;
    cudaStream_t stream;
    size_t next;  /* outgoing: slot of the next SEND; incoming: position of the next receive */
    char *memory; /* one piece for all slots */
    size_t free;
    struct nccl_slot *slot;  /* [end->room] outgoing: by position; incoming: the window */
    struct nccl_slot **pool; /* [end->room] incoming: pool[0 .. free) are not in use */
};

/* When a communication op began and ended, on the stream of its link or of the collectives. */
struct nccl_span {
    cudaEvent_t begin, end;
};

struct nccl {
    struct endpoints links; /* op's buffer: struct nccl_slot, of a RECV */
    struct nccl_span *span; /* [links.ops] */
    struct star star;
    struct nccl_link *link; /* [links.n] */
    ncclComm_t *group;      /* [program->groups] NULL: not a member, or alone in it */
    cudaStream_t sums;
    float *chunk; /* [chunk_room] received part of a collective, at least 2 */
    size_t chunk_room;
    cudaEvent_t ready, base; /* compute stream: before a send; clock of the step */
    double base_s;           /* CLOCK_MONOTONIC of `base` */
};

/* ---- connect.c */

/* Communicators of all channels and groups of the rank, connected. */
enum status nccl_connect(struct nccl *t, double deadline_s) MUST_CHECK;
/* One round of a group's collective, on its stream: what *r gives of `data` goes out, and what it
 * takes comes into `take`. */
enum status nccl_exchange(struct nccl *t, size_t group, const struct round *r, const float *data,
                          float *take, double deadline_s) MUST_CHECK;
/* Wait until the last call on the communicator is done; `first` is what it returned. STATUS_IO with
 * NCCL's words, STATUS_EXTERNAL after the deadline. */
enum status nccl_settle(ncclComm_t comm, ncclResult_t first, double deadline_s) MUST_CHECK;

#endif
