/* steps.h - what the files of core/schedule/ share; private to them.
 *
 *   schedules.def     the list: one line per schedule
 *   sequential.c      one microbatch after the other
 *   gpipe.c           all forwards, then all backwards
 *   breadth_first.c   the same over virtual stages
 *   one_f_one_b.c     1F1B with a flush
 *   interleaved.c     1F1B over virtual stages
 *   zb_h1.c           1F1B with split backward (zero bubble)
 *   zb_v.c            the same over two chunks in a V
 *   dualpipe_v.c      pairs of a forward and a backward over two chunks in a V
 *   dualpipe.c        the same both ways through pairs of replicas
 *   pipedream.c       1F1B without flush */
#ifndef CORE_SCHEDULE_STEPS_H
#define CORE_SCHEDULE_STEPS_H

#include "core/schedule/op_kind.h"
#include "core/schedule/schedule.h"

static inline struct schedule_step step(enum op_kind kind, uint32_t chunk, uint32_t microbatch)
{
    return (struct schedule_step){(uint8_t)kind, chunk, microbatch, false};
}

/* A list over two chunks while it is written: what comes next of each. A list of more microbatches
 * than there are is written without those that there are not, which leaves an order that was
 * possible possible. */
struct step_writer {
    struct schedule_step *step; /* [n] */
    size_t n;
    uint32_t microbatches;
    uint32_t forward[2], input[2], weight[2]; /* [chunk] microbatches that have had them */
};

/* The next microbatch of a chunk. A whole backward is both of its halves. */
static inline bool step_next(struct step_writer *w, enum op_kind kind, uint32_t chunk)
{
    uint32_t m = kind == OP_FORWARD           ? w->forward[chunk]++
                 : kind == OP_BACKWARD_WEIGHT ? w->weight[chunk]++
                                              : w->input[chunk]++;
    w->weight[chunk] += kind == OP_BACKWARD;
    if (m < w->microbatches)
        w->step[w->n++] = step(kind, chunk, m);
    return m < w->microbatches;
}

/* A forward of a chunk and a whole backward of the other one, side by side or one after the
 * other. */
static inline void step_pair(struct step_writer *w, uint32_t chunk, bool paired)
{
    bool forward = step_next(w, OP_FORWARD, chunk), backward = step_next(w, OP_BACKWARD, 1 - chunk);
    if (forward && backward)
        w->step[w->n - 2].paired = paired;
}

/* Orders of more than one schedule. */
size_t schedule_order_dualpipe_v(const struct schedule_place *at, struct schedule_step *steps);
size_t schedule_order_breadth_first(const struct schedule_place *at, struct schedule_step *steps);
size_t schedule_order_1f1b(const struct schedule_place *at, struct schedule_step *steps);

#endif
