/* ring.h - who sends what in a collective on a ring. A reduce-scatter takes ranks - 1 rounds of
 * 1/ranks of the array each, an all-gather as many; an all-reduce is one after the other, and the
 * rounds of the two have its numbers: 0 .. ranks - 2, ranks - 1 .. 2 ranks - 3. Chunks travel along
 * the ring: what a member takes in one round it gives in the next, so every element is summed on
 * one member, in the order of the ring from the member after that one, and copied to the others.
 * All transports share this order: they give the same bits. Source: Patarasuk & Yuan, "Bandwidth
 * optimal all-reduce algorithms for clusters of workstations", J. Parallel and Distributed
 * Computing 69 (2009). */
#ifndef EXEC_RING_H
#define EXEC_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/program.h"

struct ring_part {
    size_t first, n; /* elements */
};

/* Where a part that has come is kept until it is added. */
struct ring_room {
    float *data; /* [n] owned */
    size_t n;
};
/* Room for the largest chunk of n elements; what was there is lost. */
static inline enum status ring_grow(struct ring_room *room, size_t n, size_t ranks)
{
    size_t need = n / ranks + 1;
    if (need <= room->n)
        return STATUS_OK;
    free(room->data);
    room->data = malloc(need * sizeof *room->data);
    room->n = room->data ? need : 0;
    return room->data ? STATUS_OK : error_set(STATUS_NOMEM, "part of %zu numbers", need);
}

/* Chunk `chunk` of n elements; the first n % ranks chunks are one longer. */
static inline struct ring_part ring_part(size_t n, size_t ranks, size_t chunk)
{
    size_t q = n / ranks, rest = n % ranks;
    return (struct ring_part){chunk * q + (chunk < rest ? chunk : rest), q + (chunk < rest)};
}

/* Chunk whose sum member `me` has after a reduce-scatter, and which it gives in an all-gather. */
static inline size_t ring_owned(size_t ranks, size_t me)
{
    return (me + 1) % ranks;
}

/* Is this kind of op one that a ring does? */
static inline bool ring_does(const struct program_op *o)
{
    return o->kind == OP_ALLREDUCE || o->kind == OP_REDUCESCATTER || o->kind == OP_ALLGATHER;
}

/* The op's rounds are ring_begin() .. ring_end() - 1. */
static inline size_t ring_begin(size_t ranks, const struct program_op *o)
{
    return o->kind == OP_ALLGATHER ? ranks - 1 : 0;
}

static inline size_t ring_end(size_t ranks, const struct program_op *o)
{
    return o->kind == OP_REDUCESCATTER ? ranks - 1 : 2 * (ranks - 1);
}

/* Is what arrives in this round to be added (else it replaces)? */
static inline bool ring_adds(size_t ranks, size_t round)
{
    return round + 1 < ranks;
}

/* What member `me` gives to the next one and takes from the previous one. */
static inline struct ring_part ring_gives(size_t n, size_t ranks, size_t me, size_t round)
{
    return ring_part(n, ranks, (me + 2 * ranks - round) % ranks);
}

static inline struct ring_part ring_takes(size_t n, size_t ranks, size_t me, size_t round)
{
    return ring_part(n, ranks, (me + 2 * ranks - round - 1) % ranks);
}

#endif
