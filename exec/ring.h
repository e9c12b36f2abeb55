/* ring.h - which part of an array a member of a group owns, where collectives are rounds.
 *
 * An array of n elements is cut into as many chunks as the group has members. A reduce-scatter
 * leaves each member the sum of one chunk, an all-gather gives each member's one chunk to all: the
 * chunk that arrives last on a ring (exec/rounds.h). All transports that do rounds and all devices
 * share this choice, so that shards of ZeRO are the same ones everywhere. */
#ifndef EXEC_RING_H
#define EXEC_RING_H

#include <stddef.h>

struct ring_part {
    size_t first, n; /* elements */
};

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

/* That chunk. */
static inline struct ring_part ring_own(size_t n, size_t ranks, size_t me)
{
    return ring_part(n, ranks, ring_owned(ranks, me));
}

#endif
