/* mesh.h - the ranks of a program over a transport, without launcher or device: all of them as
 * threads, or this process as one of them. */
#ifndef TESTS_MESH_H
#define TESTS_MESH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/data/program.h"
#include "exec/rendezvous.h"
#include "exec/transport.h"

enum { MESH_RANKS = 8 };
static const double patience_s = 60; /* longest wait in a test that succeeds */

struct actor;

/* A program and what its ranks need to find each other. */
struct mesh {
    struct program program;
    struct rendezvous r[MESH_RANKS];
    uint16_t port[MESH_RANKS];
    const struct transport *transport;        /* NULL: TCP */
    const struct rounds_algorithm *algorithm; /* of collectives; NULL: the ring */
    void *shared;                             /* transport->share()'s */
    enum status (*prepare)(struct actor *a);  /* before a rank opens the transport; NULL: nothing */
    bool alone;                               /* only rank `self` lives here, in the main thread */
    uint32_t self;
};

/* Listen on a port for every rank of m->program that lives here; stop, and free the program. */
void mesh_open(struct mesh *m);
void mesh_close(struct mesh *m);

/* What one rank does in its thread; cmocka may only be used by the main thread. */
struct actor {
    struct mesh *mesh;
    uint32_t rank;
    enum status (*act)(struct actor *a, void *transport);
    size_t steps;
    const size_t *order;         /* in which RECVs are waited for, NULL: list order */
    float *data;                 /* for all-reduce: the arrays one after the other */
    pthread_barrier_t *together; /* meets the other actors, where a test needs that */
    enum status st;
    char message[512];
    pthread_t thread;
};

/* Body of the thread: open, act, close; argument struct actor. */
void *actor_main(void *actor);
/* Let n actors, ranks 0 to n - 1, play, and wait for them; of a mesh that is alone, the one. */
void play(struct actor *a, size_t n);
/* Open the mesh and let all of its ranks do `act`; stops the test when one fails. */
void play_all(struct mesh *m, struct actor *a, enum status (*act)(struct actor *, void *),
              size_t steps);

/* An act: in every step post all SENDs of the rank, wait for the RECVs and check every byte of
 * them, wait for the SENDs. */
enum status exchange_messages(struct actor *a, void *transport);

#endif
