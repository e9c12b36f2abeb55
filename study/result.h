/* result.h - what a point came to, and the columns that say so in databases and tables. */
#ifndef STUDY_RESULT_H
#define STUDY_RESULT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/data/breakdown.h"

enum point_status {
    POINT_OK,
    POINT_TOO_BIG,    /* predicted, but some device has not enough memory */
    POINT_IMPOSSIBLE, /* there is no such plan, platform or model */
    POINT_FAILED,     /* something went wrong: worth another try */
    POINT_STATUSES
};
extern const char *const point_status_names[POINT_STATUSES];

enum { RESULT_NAME = 32, RESULT_REASON = 256 };

/* No pointers: it goes through a pipe. */
struct point_result {
    enum point_status status;
    char reason[RESULT_REASON]; /* of a status other than POINT_OK */
    char engine[RESULT_NAME];
    /* The rest is 0 or "" unless there is a prediction. */
    double iteration_s, samples_per_s, tokens_per_s;
    struct breakdown time;         /* of an iteration, mean rank */
    double mfu;                    /* of the FLOP that the model counts; and without, with what */
    double mfu_causal, mfu_square; /* a causal mask hides, enum model_convention */
    /* Half of published runs like this one are within the first, nine in ten within the second. */
    double expected_error, expected_nine_in_ten; /* 0: nobody knows */
    double relative_time;   /* where noise is studied: over the best plan known without; else 0 */
    double cost;            /* of the platform, where there are prices; else 0 */
    double days, effective; /* of a training with failures: median, and share that counts; else 0 */
    /* Of the rank with the least headroom; negative: it lacks so much. */
    int64_t peak_bytes, headroom_bytes;
    int64_t weight_bytes, gradient_bytes, state_bytes, stash_bytes, scratch_bytes;
    int64_t plan_devices; /* that the plan uses */
    int64_t stages, replicas, tensor_parallel, microbatches, microbatch_size; /* of the plan */
    char algorithm[RESULT_NAME], schedule[RESULT_NAME], framework[RESULT_NAME];
    char bottleneck[RESULT_REASON]; /* where the time goes, in words */
    double cpu_s;                   /* that it took, planning included */
};

enum result_kind { RESULT_TEXT, RESULT_REAL, RESULT_INTEGER };

/* One row per column: schema, statements and exports follow from it. */
struct result_column {
    const char *name;
    enum result_kind kind;
    size_t offset, size; /* in struct point_result; size of texts */
};
extern const struct result_column result_columns[];
extern const size_t result_columns_n; /* without status, reason and cpu_s */

/* STATUS_INVALID, with the column: a number is infinite or none, which no database has. */
enum status result_check(const struct point_result *r) MUST_CHECK;

/* A column's value as text, numbers in the shortest form that reads back equal. */
enum { RESULT_VALUE = RESULT_REASON };
const char *result_column_print(const struct result_column *c, const struct point_result *r,
                                char text[RESULT_VALUE]);

#endif
