/* One microbatch after the other: model parallelism without a pipeline. */
#include "core/schedule/steps.h"

static size_t sequential(const struct schedule_place *at, struct schedule_step *steps)
{
    const struct schedule_step *first = steps;
    for (uint32_t m = 0; m < at->microbatches; m++) {
        *steps++ = step(OP_FORWARD, 0, m);
        *steps++ = step(OP_BACKWARD, 0, m);
    }
    return (size_t)(steps - first);
}

const struct schedule schedule_sequential = {
    .name = "sequential",
    .summary = "one microbatch after the other: stages never overlap",
    .order = sequential,
};
