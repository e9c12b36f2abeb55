/* steps.h - what the files of core/schedule/ share; private to them.
 *
 *   schedules.def     the list: one line per schedule
 *   sequential.c      one microbatch after the other
 *   gpipe.c           all forwards, then all backwards
 *   breadth_first.c   the same over virtual stages
 *   one_f_one_b.c     1F1B with a flush
 *   interleaved.c     1F1B over virtual stages
 *   zb_h1.c           1F1B with split backward (zero bubble)
 *   pipedream.c       1F1B without flush */
#ifndef CORE_SCHEDULE_STEPS_H
#define CORE_SCHEDULE_STEPS_H

#include "core/program.h"
#include "core/schedule.h"

static inline struct schedule_step step(enum op_kind kind, uint32_t chunk, uint32_t microbatch)
{
    return (struct schedule_step){(uint8_t)kind, chunk, microbatch};
}

/* Orders of more than one schedule. */
void schedule_order_breadth_first(const struct schedule_place *at, struct schedule_step *steps);
void schedule_order_1f1b(const struct schedule_place *at, struct schedule_step *steps);

#endif
