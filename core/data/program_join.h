/* program_join.h - several programs at once, each iteration after iteration, as one program on all
 * their devices: for engines, which only replay it.
 *
 * Every iteration of a part begins with an op UPDATE of its first rank, which waits: before the
 * first one for the part's start, before others until all ops of the iteration before have ended on
 * all ranks, as real runs do with a barrier. That takes no time and no bytes, but crosses ranks: a
 * joined program has dependencies on ops of other ranks, cannot be written, and no worker runs it.
 * Iterations of a part with a period do not wait for each other. */
#ifndef CORE_DATA_PROGRAM_JOIN_H
#define CORE_DATA_PROGRAM_JOIN_H

#include "core/data/program.h"

struct program_part {
    const struct program *program; /* matched, not folded */
    size_t iterations;             /* >= 1 */
    double start_s;                /* when the first one begins */
    double period_s;               /* between the begins of two, whatever has ended; 0: none */
};

struct program_joined {
    struct program program; /* stages, buckets and memory are not those of the parts: none */
    size_t parts;
    struct program_part *part; /* [parts] borrows their programs */
    size_t *first_rank;        /* [parts + 1] of the program */
};

/* Devices may be in several parts. STATUS_UNSUPPORTED: parts differ in what collectives attain;
 * STATUS_INVALID: too many ops; STATUS_NOMEM. O(ops of the result). */
enum status program_join(const struct program_part *part, size_t n,
                         struct program_joined *out) MUST_CHECK;
void program_joined_free(struct program_joined *j); /* accepts {0}; leaves {0} */

/* Index of op i of a part's program in its k-th iteration; and of the op that begins that. */
size_t program_joined_op(const struct program_joined *j, size_t part, size_t k, size_t i);
size_t program_joined_begin(const struct program_joined *j, size_t part, size_t k);

#endif
