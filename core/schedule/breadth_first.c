/* GPipe over virtual stages: all forwards chunk by chunk, then all backwards in reverse.
 * Source: Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023. */
#include "core/schedule/steps.h"

size_t schedule_order_breadth_first(const struct schedule_place *at, struct schedule_step *steps)
{
    const struct schedule_step *first = steps;
    for (uint32_t c = 0; c < at->chunks; c++)
        for (uint32_t m = 0; m < at->microbatches; m++)
            *steps++ = step(OP_FORWARD, c, m);
    for (uint32_t c = at->chunks; c-- > 0;)
        for (uint32_t m = 0; m < at->microbatches; m++)
            *steps++ = step(OP_BACKWARD, c, m);
    return (size_t)(steps - first);
}

const struct schedule schedule_breadth_first = {
    .name = "breadth-first",
    .summary = "gpipe with several stages (chunks) per device",
    .chunked = true,
    .order = schedule_order_breadth_first,
};
