#include "study/result.h"

#include "core/base/error.h"

#include <math.h>
#include <stdlib.h>

const char *const point_status_names[POINT_STATUSES] = {"ok", "out of memory", "impossible",
                                                        "failed"};

#define NAMED(name, kind, field)                                                                   \
    {                                                                                              \
        name, kind, offsetof(struct point_result, field), sizeof((struct point_result *)0)->field  \
    }
#define COLUMN(kind, field) NAMED(#field, kind, field)

/* The order is that of databases and tables: a column is added at the end of its kind, and
 * DATABASE_VERSION counts up, as older files lack it. */
const struct result_column result_columns[] = {
    COLUMN(RESULT_TEXT, engine),
    COLUMN(RESULT_REAL, iteration_s),
    COLUMN(RESULT_REAL, samples_per_s),
    COLUMN(RESULT_REAL, tokens_per_s),
    NAMED("compute_s", RESULT_REAL, time.compute_s),
    NAMED("optimizer_s", RESULT_REAL, time.optimizer_s),
    NAMED("exposed_pipeline_s", RESULT_REAL, time.exposed_s[FOR_PIPELINE]),
    NAMED("exposed_data_s", RESULT_REAL, time.exposed_s[FOR_DATA]),
    NAMED("exposed_ties_s", RESULT_REAL, time.exposed_s[FOR_TIES]),
    NAMED("exposed_shards_s", RESULT_REAL, time.exposed_s[FOR_SHARDS]),
    NAMED("exposed_tensor_s", RESULT_REAL, time.exposed_s[FOR_TENSOR]),
    NAMED("exposed_experts_s", RESULT_REAL, time.exposed_s[FOR_EXPERTS]),
    NAMED("exposed_context_s", RESULT_REAL, time.exposed_s[FOR_CONTEXT]),
    NAMED("exposed_host_s", RESULT_REAL, time.exposed_s[FOR_HOST]),
    NAMED("exposed_norm_s", RESULT_REAL, time.exposed_s[FOR_NORM]),
    NAMED("bubble_s", RESULT_REAL, time.bubble_s),
    COLUMN(RESULT_REAL, mfu),
    COLUMN(RESULT_REAL, relative_time),
    COLUMN(RESULT_REAL, cost),
    COLUMN(RESULT_REAL, days),
    COLUMN(RESULT_REAL, effective),
    COLUMN(RESULT_REAL, mfu_causal),
    COLUMN(RESULT_REAL, mfu_square),
    COLUMN(RESULT_REAL, expected_error),
    COLUMN(RESULT_REAL, expected_nine_in_ten),
    COLUMN(RESULT_INTEGER, peak_bytes),
    COLUMN(RESULT_INTEGER, headroom_bytes),
    COLUMN(RESULT_INTEGER, weight_bytes),
    COLUMN(RESULT_INTEGER, gradient_bytes),
    COLUMN(RESULT_INTEGER, state_bytes),
    COLUMN(RESULT_INTEGER, stash_bytes),
    COLUMN(RESULT_INTEGER, scratch_bytes),
    COLUMN(RESULT_INTEGER, stages),
    COLUMN(RESULT_INTEGER, replicas),
    COLUMN(RESULT_INTEGER, tensor_parallel),
    COLUMN(RESULT_INTEGER, microbatches),
    COLUMN(RESULT_INTEGER, microbatch_size),
    COLUMN(RESULT_INTEGER, plan_devices),
    COLUMN(RESULT_TEXT, algorithm),
    COLUMN(RESULT_TEXT, schedule),
    COLUMN(RESULT_TEXT, bottleneck),
    COLUMN(RESULT_TEXT, framework),
};
const size_t result_columns_n = sizeof result_columns / sizeof *result_columns;

enum status result_check(const struct point_result *r)
{
    for (size_t i = 0; i < result_columns_n; i++) {
        const struct result_column *c = &result_columns[i];
        const void *at = (const char *)r + c->offset;
        if (c->kind == RESULT_REAL && !isfinite(*(const double *)at))
            return error_set(STATUS_INVALID,
                             "result %s is %g, expected a finite number: the predicted times of "
                             "this point overflow",
                             c->name, *(const double *)at);
    }
    return STATUS_OK;
}

const char *result_column_print(const struct result_column *c, const struct point_result *r,
                                char text[RESULT_VALUE])
{
    const void *at = (const char *)r + c->offset;
    switch (c->kind) {
    case RESULT_TEXT:
        snprintf(text, RESULT_VALUE, "%s", (const char *)at);
        break;
    case RESULT_INTEGER:
        snprintf(text, RESULT_VALUE, "%lld", (long long)*(const int64_t *)at);
        break;
    case RESULT_REAL:
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, RESULT_VALUE, "%.*g", digits, *(const double *)at);
            if (strtod(text, NULL) == *(const double *)at)
                break;
        }
        break;
    }
    return text;
}
