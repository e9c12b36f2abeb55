/* schedule.h - pipeline schedules: the order of compute ops on one rank. One row, one function. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "core/error.h"

struct schedule_step {
    uint8_t kind;        /* OP_FORWARD or OP_BACKWARD */
    uint32_t microbatch; /* position among the microbatches of this replica */
};

struct schedule {
    const char *name, *summary;
    /* Fill steps[2 * microbatches] for stage `stage` of `stages`; every microbatch once forward and
     * once backward, each direction ascending. */
    void (*steps)(size_t stages, size_t stage, size_t microbatches, struct schedule_step *steps);
};

extern const struct schedule schedules[];
extern const size_t schedules_n;

/* STATUS_INVALID lists the known names. */
enum status schedule_find(const char *name, const struct schedule **out) MUST_CHECK;

#endif
