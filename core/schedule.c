#include "core/schedule.h"

#include "core/program.h"
#include "core/text.h"

/* All forwards, then all backwards; both ascending, so that gradients add up in the same order as
 * with 1F1B. Source: Huang et al., GPipe, NeurIPS 2019. */
static void gpipe(size_t stages, size_t stage, size_t microbatches, struct schedule_step *steps)
{
    (void)stages;
    (void)stage;
    for (uint32_t m = 0; m < microbatches; m++) {
        steps[m] = (struct schedule_step){OP_FORWARD, m};
        steps[microbatches + m] = (struct schedule_step){OP_BACKWARD, m};
    }
}

/* Warm up with one forward per later stage, then one forward, one backward, then drain.
 * Source: Narayanan et al., PipeDream, SOSP 2019; with flushes: Narayanan et al., SC 2021. */
static void one_f_one_b(size_t stages, size_t stage, size_t microbatches,
                        struct schedule_step *steps)
{
    size_t ahead = stages - 1 - stage, warmup = ahead < microbatches ? ahead : microbatches;
    uint32_t forward = 0, backward = 0;
    size_t n = 0;
    while (forward < warmup)
        steps[n++] = (struct schedule_step){OP_FORWARD, forward++};
    while (forward < microbatches) {
        steps[n++] = (struct schedule_step){OP_FORWARD, forward++};
        steps[n++] = (struct schedule_step){OP_BACKWARD, backward++};
    }
    while (backward < microbatches)
        steps[n++] = (struct schedule_step){OP_BACKWARD, backward++};
}

const struct schedule schedules[] = {
    {"gpipe", "all forwards, then all backwards", gpipe},
    {"1f1b", "one forward, one backward after a warm-up; less activation memory", one_f_one_b},
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
