/* partition_random.h - placement on problems that are not published, beside an exact solver. */
#ifndef PAPERS_BENCH_PARTITION_RANDOM_H
#define PAPERS_BENCH_PARTITION_RANDOM_H

#include "core/base/error.h"

struct random_options {
    size_t first, last; /* problems by number */
    const char *work;   /* folder for problems and for what the exact solver has found */
    double limit_s;     /* of our algorithm, 0: its default */
    double exact_s;     /* of the exact solver, 0: do not run it */
};

/* Prints a row per problem and the worst ratio.
 *   folder  of the published graphs; NULL: random graphs of that shape */
enum status random_compare(const char *folder, const struct random_options *o) MUST_CHECK;

#endif
