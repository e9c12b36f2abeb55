/* transport.h - what carries messages between ranks. One folder per kind.
 *
 * A transport is opened for a program and a rank and then repeats the program's communication, step
 * after step. Receives are pre-posted; posting never blocks on the network; only wait() blocks, and
 * never longer than its deadline. Times are CLOCK_MONOTONIC seconds.
 *
 * Collectives run in rounds (exec/rounds.h) on every transport but NCCL's own: the same bits, and
 * the same chunk of the array owned by the same member. */
#ifndef EXEC_TRANSPORT_H
#define EXEC_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"
#include "exec/element.h"
#include "exec/ring.h"

struct rendezvous;

struct transport {
    const char *name; /* "tcp", "mpi", "nccl", "local" */
    /* Payloads and arrays are memory of the device, used in the order of its queue. */
    bool device_memory;

    /* Of a transport whose ranks are threads of one process, else NULL: what they share (goes into
     * rendezvous.shared), made before the first open() and freed after the last close(); and that a
     * rank has failed before its open(), so that nobody waits for it. */
    enum status (*share)(const struct program *p, void **shared);
    void (*unshare)(void *shared); /* accepts NULL */
    void (*leave)(void *shared, uint32_t rank);

    enum status (*open)(const struct program *p, uint32_t rank, const struct rendezvous *r,
                        void **self);
    void (*close)(void *self); /* accepts NULL; never blocks */

    /* Buffer to pack the payload of SEND op `op` into, and then send it; the transport owns it.
     * The SENDs to one peer are posted in list order. */
    enum status (*send_buffer)(void *self, uint32_t op, void **data);
    enum status (*send)(void *self, uint32_t op);
    /* Start a call of collective `op` on n numbers in place, as many on all members:
     *   ALLREDUCE      the sum over the members, bitwise the same on all;
     *   REDUCESCATTER  the same sum, but only in the part that the member owns (below); the rest of
     *                  the array is then of no use;
     *   ALLGATHER      every member's own part to all;
     *   BROADCAST      member 0's array to all;
     *   REDUCE         the sum on member 0; the other arrays are then of no use;
     *   GATHER         every member's own part to member 0;
     *   SCATTER        every member's own part of member 0's array to that member.
     * op.reduction says what is made in place of sums: averages (the sum, then divided by the
     * members), minima, maxima. REDUCESCATTER and then ALLGATHER give bit for bit what ALLREDUCE
     * gives, where sums are made in rounds. Sums of 16 bits are rounded to these with each
     * addition. op.bytes and op.count are the program's idea of a call and of how many there are in
     * a step; the device knows better, and an op may be called as often as all members do, each
     * time after waiting for the call before. Calls run one after the other; members of several
     * groups make them in an order that all share, as that of the list is. STATUS_INVALID: kind, or
     * a call too soon. */
    enum status (*collective)(void *self, uint32_t op, enum element e, void *data, size_t n);

    /* collective() and wait() in one, for sums in the middle of an op: nothing goes on beside them,
     * so that they need no other thread. NULL: those two. */
    enum status (*call)(void *self, uint32_t op, enum element e, void *data, size_t n,
                        double timeout_s);

    /* Of a transport with collectives of its own, in place of rounds unless an algorithm of rounds
     * is asked for: which part of n numbers member `me` of `members` owns. NULL: it has none, and
     * the part is ring_own() (exec/ring.h). */
    struct ring_part (*part)(size_t n, size_t members, size_t me);

    /* Device memory only, else NULL: work queued on the compute stream from now on waits for `op`
     * (RECV: *data is as of wait(), to be released when that work has been queued; collective: all
     * its calls so far, after which it may be called again). The host does not wait: wait() may
     * still be called later, at the end of the step, for deadlines and errors. */
    enum status (*follow)(void *self, uint32_t op, const void **data);

    /* Block until op is complete: RECV: *data is the payload, to be given back with release();
     * SEND: the buffer is free again; collective: the results of all calls so far are there (data
     * may be NULL for both), after which it may be called and waited for again.
     * STATUS_IO names rank, op and peer when a peer is gone or talks nonsense, STATUS_EXTERNAL when
     * timeout_s has passed, STATUS_INVALID for a collective that was not called. */
    enum status (*wait)(void *self, uint32_t op, double timeout_s, const void **data);
    void (*release)(void *self, uint32_t op);
    /* When op began and ended in this step; for RECV from the first to the last byte, for a
     * collective from the start of its first call to the end of its last. */
    void (*times)(void *self, uint32_t op, double *start_s, double *end_s);
    /* All ranks have reached this point and every op of the step is complete, collectives after one
     * call or more; next step (the first barrier, before any op, begins step 0). *start_s, the
     * same on all ranks and a moment in the future, is when they are to begin: what iteration times
     * are counted from. */
    enum status (*barrier)(void *self, double timeout_s, double *start_s);
};

extern const struct transport transport_tcp, transport_local;
extern const struct transport transport_nccl, transport_local_cuda; /* in exec_cuda only */
extern const struct transport transport_mpi; /* in exec_mpi only: the process owns MPI */

#endif
