#include "study/result.h"

#include <stdlib.h>

const char *const sweep_status_names[SWEEP_STATUSES] = {"ok", "out of memory", "impossible",
                                                        "failed"};

#define NAMED(name, kind, field)                                                                   \
    {                                                                                              \
        name, kind, offsetof(struct sweep_result, field), sizeof((struct sweep_result *)0)->field  \
    }
#define COLUMN(kind, field) NAMED(#field, kind, field)

const struct sweep_column sweep_columns[] = {
    COLUMN(SWEEP_TEXT, engine),
    COLUMN(SWEEP_REAL, iteration_s),
    COLUMN(SWEEP_REAL, samples_per_s),
    COLUMN(SWEEP_REAL, tokens_per_s),
    NAMED("compute_s", SWEEP_REAL, time.compute_s),
    NAMED("optimizer_s", SWEEP_REAL, time.optimizer_s),
    NAMED("exposed_pipeline_s", SWEEP_REAL, time.exposed_s[FOR_PIPELINE]),
    NAMED("exposed_data_s", SWEEP_REAL, time.exposed_s[FOR_DATA]),
    NAMED("exposed_ties_s", SWEEP_REAL, time.exposed_s[FOR_TIES]),
    NAMED("exposed_shards_s", SWEEP_REAL, time.exposed_s[FOR_SHARDS]),
    NAMED("exposed_tensor_s", SWEEP_REAL, time.exposed_s[FOR_TENSOR]),
    NAMED("exposed_experts_s", SWEEP_REAL, time.exposed_s[FOR_EXPERTS]),
    NAMED("bubble_s", SWEEP_REAL, time.bubble_s),
    COLUMN(SWEEP_REAL, mfu),
    COLUMN(SWEEP_INTEGER, peak_bytes),
    COLUMN(SWEEP_INTEGER, headroom_bytes),
    COLUMN(SWEEP_INTEGER, weight_bytes),
    COLUMN(SWEEP_INTEGER, gradient_bytes),
    COLUMN(SWEEP_INTEGER, state_bytes),
    COLUMN(SWEEP_INTEGER, stash_bytes),
    COLUMN(SWEEP_INTEGER, scratch_bytes),
    COLUMN(SWEEP_INTEGER, stages),
    COLUMN(SWEEP_INTEGER, replicas),
    COLUMN(SWEEP_INTEGER, tensor_parallel),
    COLUMN(SWEEP_INTEGER, microbatches),
    COLUMN(SWEEP_INTEGER, microbatch_size),
    COLUMN(SWEEP_TEXT, algorithm),
    COLUMN(SWEEP_TEXT, schedule),
    COLUMN(SWEEP_TEXT, bottleneck),
};
const size_t sweep_columns_n = sizeof sweep_columns / sizeof *sweep_columns;

const char *sweep_column_print(const struct sweep_column *c, const struct sweep_result *r,
                               char text[SWEEP_VALUE])
{
    const void *at = (const char *)r + c->offset;
    switch (c->kind) {
    case SWEEP_TEXT:
        snprintf(text, SWEEP_VALUE, "%s", (const char *)at);
        break;
    case SWEEP_INTEGER:
        snprintf(text, SWEEP_VALUE, "%lld", (long long)*(const int64_t *)at);
        break;
    case SWEEP_REAL:
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, SWEEP_VALUE, "%.*g", digits, *(const double *)at);
            if (strtod(text, NULL) == *(const double *)at)
                break;
        }
        break;
    }
    return text;
}
