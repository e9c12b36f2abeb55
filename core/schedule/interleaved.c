/* 1F1B over virtual stages: warm-up, steady state and drain as in 1F1B, but groups of microbatches
 * pass through the chunks.
 * Source: Narayanan et al., SC 2021, section 2.2. */
#include "core/schedule/steps.h"

/* The k-th pass through the chunks in groups of `teams` microbatches: a group visits chunk 0, then
 * chunk 1, ...; the last group also has what is left over. */
static struct schedule_step interleaved_grouped_step(const struct schedule_place *at, uint32_t k,
                                                     bool backward)
{
    uint32_t full = at->teams * at->chunks, groups = at->microbatches / at->teams;
    uint32_t group = k / full + 1 < groups ? k / full : groups > 0 ? groups - 1 : 0;
    uint32_t first = group * at->teams, within = k - group * full;
    uint32_t size = group + 1 < groups ? at->teams : at->microbatches - first;
    uint32_t chunk = within / size;
    return step(backward ? OP_BACKWARD : OP_FORWARD, backward ? at->chunks - 1 - chunk : chunk,
                first + within % size);
}

static size_t interleaved(const struct schedule_place *at, struct schedule_step *steps)
{
    const struct schedule_step *first = steps;
    uint32_t total = at->chunks * at->microbatches, forward = 0, backward = 0;
    uint32_t ahead = at->teams - 1 - at->team;
    uint32_t left = at->microbatches % at->teams; /* the last group is so much larger */
    uint32_t warmup = at->chunks > 1 ? 2 * ahead + (at->chunks - 1) * (at->teams + left) : ahead;
    while (forward < total && forward < warmup)
        *steps++ = interleaved_grouped_step(at, forward++, false);
    while (backward < total) {
        if (forward < total)
            *steps++ = interleaved_grouped_step(at, forward++, false);
        *steps++ = interleaved_grouped_step(at, backward++, true);
    }
    return (size_t)(steps - first);
}

const struct schedule schedule_interleaved = {
    .name = "interleaved",
    .summary = "1f1b with several stages (chunks) per device: smaller bubble, more messages",
    .chunked = true,
    .searched = true,
    .usual = true,
    .order = interleaved,
};
