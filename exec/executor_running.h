/* executor_running.h - a step under way: what executor.c and executor_inside.c share. Private. */
#ifndef EXEC_EXECUTOR_RUNNING_H
#define EXEC_EXECUTOR_RUNNING_H

#include "exec/executor.h"

/* How far an op of communication has come in the step. */
enum {
    OP_IDLE,
    OP_POSTED,
    OP_INSIDE,   /* sums that a pass has made itself; these and the following may be depended on: */
    OP_FOLLOWED, /* the device's queue waits for it, the host has not */
    OP_COMPLETE
};

/* A step under way. */
struct running {
    const struct executor *e;
    uint32_t step;
    struct executor_step *out;
    size_t first, end; /* ops of the rank */
    /* Sums inside the op that computes: */
    uint32_t now, sum; /* that op; the program's op of its sums, PROGRAM_NONE: it has none */
    uint32_t exchange; /* likewise of exchanges of experts */
    enum status st;
    double late_s; /* paced: how much longer than predicted ops took so far */
};

static inline uint8_t *executor_state_of(const struct running *r, uint32_t op)
{
    return &r->out->state[op - r->first];
}

/* Where the rank is, for the heartbeats. */
void executor_report(const struct running *r, uint32_t op, enum worker_state state);
/* A reduction that the op at work cannot go on without: data [n] in place. */
enum status executor_call(const struct executor *e, uint32_t op, enum element of, void *data,
                          size_t n) MUST_CHECK;

/* ---- executor_inside.c: the functions of struct layer_reduction; self: the running step */
void executor_sum(void *self, enum element of, void *data, size_t n);
void executor_exchange(void *self, enum op_purpose purpose, enum op_kind kind, void *data,
                       size_t n);
void executor_move(void *self, enum layer_move how, enum element of, void *data, size_t n);
void executor_fail(void *self, enum status st);

#endif
