/* trial.h - collectives tried out on this machine: what they make of small numbers, and how long
 * calls of several sizes take, each result compared with a plain loop. */
#ifndef EXEC_CALIBRATE_TRIAL_H
#define EXEC_CALIBRATE_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"

enum { TRIAL_RUNS = 5, TRIAL_RANKS = 16, TRIAL_VALUES = 11, TRIAL_KINDS = 8, TRIAL_SIZES = 4 };
enum { TRIAL_SHARDS = 4 }; /* the first kinds, which strategies of shards have */
enum { TRIAL_TIMES = TRIAL_KINDS * TRIAL_SIZES };

struct trial_options {
    size_t ranks;   /* 1 .. TRIAL_RANKS */
    size_t repeats; /* timed calls of a run, after one that warms up */
    size_t runs;    /* whose median counts; 0: one */
    /* [TRIAL_SIZES] bytes of the whole tensor, so that a member of an all-to-all has its part of
     * them, and only collectives of shards; NULL: trial_sizes, all collectives. At least 4 *
     * TRIAL_RANKS. */
    const size_t *whole;
    const char *transport; /* "tcp": processes forked here; "local": threads of this one */
};

/* Calls that make values: rank r begins with r, r + 1, ..., a number for each rank. */
struct trial_case {
    enum op_kind kind;
    enum op_reduction reduction;
};
extern const struct trial_case trial_values[TRIAL_VALUES];
extern const enum op_kind trial_kinds[TRIAL_KINDS]; /* of timed calls */
extern const size_t
    trial_sizes[TRIAL_SIZES]; /* bytes, as core/collective/collective.h counts them */

struct trial_result {
    size_t ranks;
    double *value; /* [TRIAL_VALUES][ranks][ranks]: number i of a rank afterwards; NAN where a call
                    * leaves what is of no use. Number i is what rank i owns. Owned */
    struct trial_time {
        double seconds;  /* median of the runs' means of the slowest rank; 0: not tried */
        size_t wrong;    /* numbers of all ranks' results that are not those of a plain loop */
    } time[TRIAL_TIMES]; /* [kind][size] */
    size_t wrong;        /* of the values */
};

/* What a plain loop over the members makes of number i with x(r, i) = r + i: of member `me`; NAN:
 * of no use. O(ranks). */
double trial_expected(const struct trial_case *c, size_t ranks, size_t me, size_t owner, size_t i);

/* STATUS_UNSUPPORTED: no such transport; STATUS_INVALID, STATUS_NOMEM, STATUS_IO,
 * STATUS_EXTERNAL. */
enum status trial_run(const struct trial_options *o, struct trial_result *out) MUST_CHECK;
void trial_free(struct trial_result *t); /* accepts {0}; leaves {0} */

#endif
