/* pairs.h - the directed pairs of ranks that a program moves bytes between, and how many. */
#ifndef SIM_PAIRS_H
#define SIM_PAIRS_H

#include "core/program.h"

struct pair {
    uint32_t from, to; /* ranks */
    double bytes;      /* per iteration */
};

/* Every channel and every ring edge of a collective, each pair once, sorted by (from, to).
 * A ring all-reduce of S bytes over n ranks puts 2 (n - 1) / n S on each edge. *pair is malloc'd.
 */
enum status pairs_of(const struct program *p, struct pair **pair, size_t *n) MUST_CHECK;

/* Members of the group of collective op `o`; the ring runs in their order. */
static inline size_t group_size(const struct program *p, const struct program_op *o)
{
    return p->group_start[o->peer + 1] - p->group_start[o->peer];
}

#endif
