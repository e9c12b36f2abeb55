/* result.h - what a point came to, and the columns that say so in databases and tables. */
#ifndef STUDY_RESULT_H
#define STUDY_RESULT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/breakdown.h"

enum sweep_status {
    SWEEP_OK,
    SWEEP_TOO_BIG,    /* predicted, but some device has not enough memory */
    SWEEP_IMPOSSIBLE, /* there is no such plan, platform or model */
    SWEEP_FAILED,     /* something went wrong: worth another try */
    SWEEP_STATUSES
};
extern const char *const sweep_status_names[SWEEP_STATUSES];

enum { SWEEP_NAME = 32, SWEEP_REASON = 256 };

/* No pointers: it goes through a pipe. */
struct sweep_result {
    enum sweep_status status;
    char reason[SWEEP_REASON]; /* of a status other than SWEEP_OK */
    char engine[SWEEP_NAME];
    /* The rest is 0 or "" unless there is a prediction. */
    double iteration_s, samples_per_s, tokens_per_s;
    struct breakdown time; /* of an iteration, mean rank */
    double mfu;
    /* Of the rank with the least headroom; negative: it lacks so much. */
    int64_t peak_bytes, headroom_bytes;
    int64_t weight_bytes, gradient_bytes, state_bytes, stash_bytes, scratch_bytes;
    int64_t stages, replicas, tensor_parallel, microbatches, microbatch_size; /* of the plan */
    char algorithm[SWEEP_NAME], schedule[SWEEP_NAME];
    char bottleneck[SWEEP_REASON]; /* where the time goes, in words */
    double cpu_s;                  /* that it took, planning included */
};

enum sweep_kind { SWEEP_TEXT, SWEEP_REAL, SWEEP_INTEGER };

/* One row per column: schema, statements and exports follow from it. */
struct sweep_column {
    const char *name;
    enum sweep_kind kind;
    size_t offset, size; /* in struct sweep_result; size of texts */
};
extern const struct sweep_column sweep_columns[];
extern const size_t sweep_columns_n; /* without status, reason and cpu_s */

/* A column's value as text, numbers in the shortest form that reads back equal. */
enum { SWEEP_VALUE = SWEEP_REASON };
const char *sweep_column_print(const struct sweep_column *c, const struct sweep_result *r,
                               char text[SWEEP_VALUE]);

#endif
