/* pairs.h - the directed pairs of devices that a program moves bytes between, and how many. */
#ifndef CORE_ENGINE_PAIRS_H
#define CORE_ENGINE_PAIRS_H

#include "core/engine/shapes.h"

struct pair_bytes {
    uint32_t from, to; /* devices */
    double bytes;      /* per iteration */
};

/* Every channel and every flow of a collective, each pair once, sorted by (from, to). *pair is
 * malloc'd. O((ops + flows) log). */
enum status pairs_of(const struct program *p, const struct shapes *s, struct pair_bytes **pair,
                     size_t *n) MUST_CHECK;
/* Index of a pair, which must be there; O(log n). */
size_t pairs_find(const struct pair_bytes *pair, size_t n, uint32_t from, uint32_t to);

#endif
