/* 1F1B, one forward, one backward. A list is (1) the warm-up, one forward less than `depth`; (2)
 * the steady state, one forward and one backward by turns; (3) the drain, the backwards that are
 * left.
 * Source: Narayanan et al., PipeDream, SOSP 2019; with flushes: Narayanan et al., SC 2021. */
#include "core/schedule/steps.h"

size_t schedule_order_1f1b(const struct schedule_place *at, struct schedule_step *steps)
{
    const struct schedule_step *first = steps;
    uint32_t forward = 0, backward = 0;
    while (forward < at->microbatches && forward + 1 < at->depth)
        *steps++ = step(OP_FORWARD, 0, forward++);
    while (backward < at->microbatches) {
        if (forward < at->microbatches)
            *steps++ = step(OP_FORWARD, 0, forward++);
        *steps++ = step(OP_BACKWARD, 0, backward++);
    }
    return (size_t)(steps - first);
}

const struct schedule schedule_one_f_one_b = {
    .name = "1f1b",
    .summary = "one forward, one backward after a warm-up; less activation memory",
    .searched = true,
    .usual = true,
    .order = schedule_order_1f1b,
};
