#include "core/schedule.h"

#include "core/program.h"
#include "core/text.h"

static struct schedule_step step(enum op_kind kind, uint32_t chunk, uint32_t microbatch)
{
    return (struct schedule_step){(uint8_t)kind, chunk, microbatch};
}

/* One microbatch after the other: model parallelism without a pipeline. */
static void sequential(const struct schedule_place *at, struct schedule_step *steps)
{
    for (uint32_t m = 0; m < at->microbatches; m++) {
        *steps++ = step(OP_FORWARD, 0, m);
        *steps++ = step(OP_BACKWARD, 0, m);
    }
}

/* All forwards, then all backwards, chunk by chunk. Source: Huang et al., GPipe, NeurIPS 2019; with
 * chunks: Lamy-Poirier, Breadth-First Pipeline Parallelism, MLSys 2023. */
static void breadth_first(const struct schedule_place *at, struct schedule_step *steps)
{
    for (uint32_t c = 0; c < at->chunks; c++)
        for (uint32_t m = 0; m < at->microbatches; m++)
            *steps++ = step(OP_FORWARD, c, m);
    for (uint32_t c = at->chunks; c-- > 0;)
        for (uint32_t m = 0; m < at->microbatches; m++)
            *steps++ = step(OP_BACKWARD, c, m);
}

/* Warm up with one forward less than `depth`, then one forward, one backward, then drain.
 * Source: Narayanan et al., PipeDream, SOSP 2019; with flushes: Narayanan et al., SC 2021. */
static void one_f_one_b(const struct schedule_place *at, struct schedule_step *steps)
{
    uint32_t forward = 0, backward = 0;
    while (forward < at->microbatches && forward + 1 < at->depth)
        *steps++ = step(OP_FORWARD, 0, forward++);
    while (backward < at->microbatches) {
        if (forward < at->microbatches)
            *steps++ = step(OP_FORWARD, 0, forward++);
        *steps++ = step(OP_BACKWARD, 0, backward++);
    }
}

/* The k-th pass through the chunks in groups of `teams` microbatches: a group visits chunk 0, then
 * chunk 1, ...; the last group also has what is left over. */
static struct schedule_step grouped(const struct schedule_place *at, uint32_t k, bool backward)
{
    uint32_t full = at->teams * at->chunks, groups = at->microbatches / at->teams;
    uint32_t group = k / full + 1 < groups ? k / full : groups > 0 ? groups - 1 : 0;
    uint32_t first = group * at->teams, within = k - group * full;
    uint32_t size = group + 1 < groups ? at->teams : at->microbatches - first;
    uint32_t chunk = within / size;
    return step(backward ? OP_BACKWARD : OP_FORWARD, backward ? at->chunks - 1 - chunk : chunk,
                first + within % size);
}

/* 1F1B over virtual stages. Source: Narayanan et al., SC 2021, section 2.2. */
static void interleaved(const struct schedule_place *at, struct schedule_step *steps)
{
    uint32_t total = at->chunks * at->microbatches, forward = 0, backward = 0;
    uint32_t ahead = at->teams - 1 - at->team;
    uint32_t left = at->microbatches % at->teams; /* the last group is so much larger */
    uint32_t warmup = at->chunks > 1 ? 2 * ahead + (at->chunks - 1) * (at->teams + left) : ahead;
    while (forward < total && forward < warmup)
        *steps++ = grouped(at, forward++, false);
    while (backward < total) {
        if (forward < total)
            *steps++ = grouped(at, forward++, false);
        *steps++ = grouped(at, backward++, true);
    }
}

/* 1F1B whose weight gradients fill the bubble of the drain: team i stays i of them behind, so that
 * no team holds more activations than the first one does with 1F1B.
 * Source: Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024: ZB-H1. */
static void zero_bubble(const struct schedule_place *at, struct schedule_step *steps)
{
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
}

const struct schedule schedules[] = {
    {.name = "sequential",
     .summary = "one microbatch after the other: stages never overlap",
     .order = sequential},
    {.name = "gpipe",
     .summary = "all forwards, then all backwards",
     .searched = true,
     .order = breadth_first},
    {.name = "1f1b",
     .summary = "one forward, one backward after a warm-up; less activation memory",
     .searched = true,
     .order = one_f_one_b},
    {.name = "interleaved",
     .summary = "1f1b over several chunks of stages per device: smaller bubble, more messages",
     .chunked = true,
     .searched = true,
     .order = interleaved},
    {.name = "breadth-first",
     .summary = "gpipe over several chunks of stages per device",
     .chunked = true,
     .order = breadth_first},
    {.name = "zb-h1",
     .summary = "1f1b with split backward: weight gradients fill the bubble",
     .split = true,
     .searched = true,
     .order = zero_bubble},
    {.name = "pipedream",
     .summary = "asynchronous 1f1b: updates after every backward, stashed weights, no flush",
     .asynchronous = true,
     .order = one_f_one_b},
};
const size_t schedules_n = sizeof schedules / sizeof *schedules;

static const char *name_of(size_t i)
{
    return schedules[i].name;
}

enum status schedule_find(const char *name, const struct schedule **out)
{
    size_t i;
    enum status st = text_find("schedule", name, name_of, schedules_n, &i);
    if (st == STATUS_OK)
        *out = &schedules[i];
    return st;
}
