/* mpi.h - the MPI transport inside: no thread, one list of requests in flight, tested together.
 *
 * MPI is initialised and finalised by the process (worker_main_mpi.c), thread level FUNNELED: all
 * calls come from the thread that computes. So nothing moves while that thread computes, except
 * what MPI has handed to the kernel or the network card: messages should be eager
 * (exec/launch/mpi.c), and every call of the transport tests all requests. Waiting is testing and
 * sleeping, never spinning.
 *
 * Receives are pre-posted: as many per channel as exec/window.h says, and the next one with every
 * release(). Tags are the message's position in its channel, after one tag per group.
 *
 * With EXEC_SMPI (the same sources as a module for smpirun) waiting is MPI_Waitsome: simulated time
 * passes only there.
 *
 *   mpi.c        the transport: open and close, posting and waiting, barriers
 *   progress.c   the list of requests: testing, sleeping, completing
 *   collect.c    rounds of collectives, advanced whenever requests complete
 *   calibrate.c  one rank of `foreline calibrate --transport mpi`
 *   smpi_worker.c  the ranks of a program on SimGrid's MPI
 *   sanitize.c   settings of sanitizers for executables with MPI */
#ifndef EXEC_TRANSPORT_MPI_MPI_H
#define EXEC_TRANSPORT_MPI_MPI_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
#include "core/data/program.h"
#include "exec/endpoints.h"
#include "exec/transport.h"

enum { OWNER_ROUND = UINT32_MAX };

/* Memory of one end of a channel. */
struct mpi_link {
    const struct link_end *end;
    size_t next; /* incoming: position of the next receive to be posted */
    struct link_pool pool;
};

struct mpi {
    struct endpoints links; /* op's buffer: of a pool */
    struct mpi_link *link;  /* [links.n] */
    bool one_clock;         /* all ranks read the same CLOCK_MONOTONIC */

    struct arena memory;  /* of what follows */
    size_t active;        /* requests in flight */
    MPI_Request *request; /* [links.ops + 2] one per op, two of a round */
    uint32_t *owner;      /* [links.ops + 2] op, or OWNER_ROUND */
    int *done;            /* [links.ops + 2] scratch */
    MPI_Status *status;   /* [links.ops + 2] scratch */

    bool serving;             /* a call of a collective; then: */
    double begin_s;           /* when it began */
    size_t round, under_way;  /* its round, and requests of that */
    struct rounds_room chunk; /* received part */
};

/* progress.c */
/* Note a request that `owner` waits for. */
void mpi_track(struct mpi *t, MPI_Request request, uint32_t owner);
/* Complete what has completed; never blocks. STATUS_IO names rank, op and peer. */
enum status mpi_poll(struct mpi *t) MUST_CHECK;
/* Sleep for *nap_s, which grows, and poll; start with *nap_s = 0. */
enum status mpi_nap(struct mpi *t, double *nap_s) MUST_CHECK;
/* Wait for a request that is not tracked. STATUS_EXTERNAL after the deadline: the request is left
 * behind. */
enum status mpi_finish(struct mpi *t, MPI_Request *request, double deadline_s) MUST_CHECK;
/* MPI's own words on an error code into error_message(). */
enum status mpi_error(int code) MUST_CHECK;
/* Post receives of a link while there is memory for them. */
enum status mpi_post_receives(struct mpi *t, struct mpi_link *l) MUST_CHECK;
/* The first failure, for whoever calls next. Returns st. */
enum status mpi_fail(struct mpi *t, enum status st, uint32_t op, uint32_t peer);

/* collect.c */
/* Start the next call if none is under way. */
enum status mpi_collect_start(struct mpi *t) MUST_CHECK;
/* A request of the round has completed. */
enum status mpi_collect_advance(struct mpi *t) MUST_CHECK;
/* The op being called, and a rank that its round waits for. */
uint32_t mpi_collect_op(const struct mpi *t);
uint32_t mpi_collect_peer(const struct mpi *t);

#endif
