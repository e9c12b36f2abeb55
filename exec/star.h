/* star.h - connections between ranks: how one rank calls another, and the sockets between rank 0
 * and every other rank, for what ranks must agree on: the moment when a step starts, identities.
 *
 * Whoever connects says with the run's token that it belongs here, and what the connection is for.
 * Strangers are dropped without a word. */
#ifndef EXEC_STAR_H
#define EXEC_STAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "exec/rendezvous.h"

enum { STAR_MAGIC = 0x464c5431, STAR_GONE = 0x464c5447, STAR_VERSION = 3 };

enum star_role { STAR_CHANNEL, STAR_GROUP, STAR_CENTRE };

/* First thing on a connection between ranks. */
struct star_hello {
    uint8_t token[TOKEN]; /* first (exec/door.h) */
    uint32_t magic, version;
    uint32_t role; /* enum star_role */
    uint32_t id;   /* of the channel or group */
    uint32_t from; /* rank */
};

/* Connect to a rank for such a purpose. STATUS_IO, STATUS_EXTERNAL after the deadline. */
enum status star_call(const struct rendezvous *r, uint32_t peer, enum star_role role, uint32_t id,
                      double deadline_s, int *fd) MUST_CHECK;
/* The door to which other ranks call, and the next of them. *fd is -1 when it was one of another
 * version. STATUS_NOMEM; STATUS_EXTERNAL after the deadline. */
struct door;
enum status star_door(const struct rendezvous *r, struct door *out) MUST_CHECK;
enum status star_answer(struct door *door, double deadline_s, struct star_hello *hello,
                        int *fd) MUST_CHECK;

struct star {
    size_t ranks;
    uint32_t rank;
    int *socket;    /* [ranks] on rank 0; others use [0]; -1: none */
    bool one_clock; /* all ranks run under one kernel: they read the same CLOCK_MONOTONIC */
};

/* Meet the others at rank 0's port of the rendezvous. STATUS_IO, STATUS_EXTERNAL after the
 * deadline, STATUS_NOMEM. */
enum status star_open(const struct rendezvous *r, double deadline_s, struct star *out) MUST_CHECK;
void star_close(struct star *s); /* accepts {0} */

/* The parts of star_open(), for a transport that takes its own connections at the same port: no
 * sockets yet; and where on rank 0 the connection of a hello belongs, NULL: nowhere. */
enum status star_init(const struct rendezvous *r, struct star *out) MUST_CHECK;
int *star_seat(const struct star *s, const struct star_hello *hello);

/* What ranks send each other at a barrier; only rank 0 fills in moment_s. With magic STAR_GONE rank
 * 0 says instead that rank `step` has ended. */
struct star_word {
    uint32_t magic, step;
    double moment_s;
};

/* Rank 0 hears of all that they have arrived at a step; then what it has goes to all. STATUS_IO: a
 * peer is gone or at another step. */
enum status star_gather(struct star *s, uint32_t step, double deadline_s) MUST_CHECK;
enum status star_spread(struct star *s, void *data, size_t bytes, double deadline_s) MUST_CHECK;
/* What goes to all at a barrier: star_barrier() without its first half. */
enum status star_release(struct star *s, uint32_t step, double ahead_s, double deadline_s,
                         double *start_s) MUST_CHECK;
/* Both: *start_s is the moment, ahead_s after the last arrival and a little more for every rank,
 * that rank 0 names; where clocks differ, every rank's own moment of hearing of it. */
enum status star_barrier(struct star *s, uint32_t step, double ahead_s, double deadline_s,
                         double *start_s) MUST_CHECK;

/* Another thread may ask, at any time and without waiting: has a rank ended? Rank 0 sees the ends
 * of connections; the others that of rank 0's, and what it has told them. */
bool star_lost(const struct star *s, uint32_t *rank);
/* Rank 0 tells the others that `rank` has ended; not during star_release(). */
void star_tell_lost(const struct star *s, uint32_t rank);

#endif
