/* star.h - sockets between rank 0 and every other rank, for what a transport without small messages
 * of its own must agree on: identities, barriers.
 *
 * Where rank 0 is met: at its port of the rendezvous, for ranks on one machine; or, when
 * MASTER_ADDR is set, there (rendezvous_master()), for ranks on several. */
#ifndef EXEC_STAR_H
#define EXEC_STAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/error.h"
#include "exec/rendezvous.h"

struct star {
    size_t ranks;
    uint32_t rank;
    int *socket;    /* [ranks] on rank 0; others use [0]; -1: none */
    bool one_clock; /* all ranks run under one kernel: they read the same CLOCK_MONOTONIC */
};

/* Meet the others; strangers, who do not know the run's token, are dropped. STATUS_IO,
 * STATUS_EXTERNAL after the deadline, STATUS_USAGE for a MASTER_PORT that is none. With MASTER_ADDR
 * the port is the one after rendezvous_master()'s, where the launcher may be. */
enum status star_open(const struct rendezvous *r, double deadline_s, struct star *out) MUST_CHECK;
void star_close(struct star *s); /* accepts {0} */
/* Rank 0 hears of all that they have arrived; then what it has goes to all. */
enum status star_gather(struct star *s, double deadline_s) MUST_CHECK;
enum status star_spread(struct star *s, void *data, size_t bytes, double deadline_s) MUST_CHECK;

#endif
