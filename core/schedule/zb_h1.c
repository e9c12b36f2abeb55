/* 1F1B whose weight gradients fill the bubble of the drain: the i-th rank of a pipeline stays i of
 * them behind, so that none holds more activations than the first one does with 1F1B.
 * Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024: ZB-H1. */
#include "core/schedule/steps.h"

static size_t zero_bubble(const struct schedule_place *at, struct schedule_step *steps)
{
    const struct schedule_step *first = steps;
    uint32_t forward = 0, backward = 0, weight = 0;
    while (forward < at->microbatches && forward + 1 < at->depth)
        *steps++ = step(OP_FORWARD, 0, forward++);
    while (backward < at->microbatches) {
        if (forward < at->microbatches)
            *steps++ = step(OP_FORWARD, 0, forward++);
        *steps++ = step(OP_BACKWARD_INPUT, 0, backward++);
        if (backward - weight > at->team)
            *steps++ = step(OP_BACKWARD_WEIGHT, 0, weight++);
    }
    while (weight < at->microbatches)
        *steps++ = step(OP_BACKWARD_WEIGHT, 0, weight++);
    return (size_t)(steps - first);
}

const struct schedule schedule_zb_h1 = {
    .name = "zb-h1",
    .summary = "1f1b with split backward: weight gradients fill the bubble",
    .split = true,
    .searched = true,
    .order = zero_bubble,
};
