/* executor.h - one rank of a program, step after step, over any device and any transport.
 *
 *   init    executor_step_init(), one for all steps of the rank
 *   step    executor_run(): barrier, the list, completion of what is still under way
 *   end     executor_finish(): parameters whole everywhere, barrier
 *
 * Runs the rank's list in order: compute ops on the calling thread, communication posted when its
 * turn comes and left to the transport. Waits only for what an op depends on. */
#ifndef EXEC_EXECUTOR_H
#define EXEC_EXECUTOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/program.h"
#include "exec/device.h"
#include "exec/device/layer.h"
#include "exec/rendezvous.h"
#include "exec/transport.h"

struct ranges; /* exec/ranges.h */

/* Where the executor is; another thread may look. */
struct executor_progress {
    _Atomic uint32_t step;
    _Atomic uint32_t state; /* enum worker_state */
    _Atomic uint32_t op;    /* index in the program: being computed or waited for */
};

struct executor {
    const struct program *program;
    uint32_t rank;
    const struct device *device;
    void *device_self; /* open; owned by the caller */
    const struct transport *transport;
    void *transport_self; /* open; owned by the caller */
    double timeout_s;     /* longest wait for another rank */
    bool paced; /* a compute op that is done sooner lasts until its predicted time is over */
    struct executor_progress *progress; /* may be NULL */
    const struct ranges *ranges;        /* what a profiler is told; NULL: nothing */
};

/* What a step was like on this rank; times are CLOCK_MONOTONIC seconds. */
struct executor_step {
    double start_s, end_s; /* start_s: the same on all ranks */
    double loss;
    double hits[2]; /* struct device: take_hits() */
    size_t ops;
    double *op_start_s, *op_end_s; /* [ops] of the rank, in list order */
    double *sums_s, *exchanges_s;  /* [ops] for the executor's own use: of sums inside the op, of
                                    * exchanges of experts, */
    uint8_t *state;                /* [ops] and of communication how far it has come */
};

/* Wait for all ranks and the common start, then run step `step` to its end: all ops of this rank
 * are complete on return. *out must come from executor_step_init(). What devices and transports
 * return, with rank, op and step named; STATUS_UNSUPPORTED when paced ops, of another step than the
 * first, are late by more than 2 % of its time together. */
enum status executor_run(const struct executor *e, uint32_t step,
                         struct executor_step *out) MUST_CHECK;
/* Wait until all ranks have finished their last step; parameters are then complete everywhere. */
enum status executor_finish(const struct executor *e) MUST_CHECK;

enum status executor_step_init(struct executor_step *s, const struct program *p,
                               uint32_t rank) MUST_CHECK;
/* Can this executor run the program? STATUS_UNSUPPORTED names the op that it cannot. */
enum status executor_supports(const struct program *p) MUST_CHECK;
void executor_step_free(struct executor_step *s); /* accepts {0}; leaves {0} */

/* Does the stage come step by step, so that nothing is exchanged inside its passes? A program by
 * hand may have no stages. */
static inline bool executor_is_stepped(const struct program *p, uint32_t stage)
{
    return p->stages > 0 && p->stage[stage].stepped;
}

/* ---- sums of tensor parallelism and exchanges of experts (executor_sums.c) */

/* The program's op of the reductions inside compute op `op`: the next ALLREDUCE FOR_TENSOR of the
 * stage, before another pass begins. PROGRAM_NONE: there is none. */
uint32_t executor_sum_after(const struct program *p, uint32_t rank, uint32_t op);
/* Sequence parallelism: the program's op of what shards do inside pass `op`; PROGRAM_NONE: there is
 * none. */
uint32_t executor_move_of(const struct program *p, uint32_t rank, uint32_t op, enum layer_move how);
/* Where the stage has nothing that shards divide but parameters of which they have seen other rows:
 * an op of another stage of the rank, whose shards are the same. */
uint32_t executor_move_elsewhere(const struct program *p, uint32_t rank, enum layer_move how);
/* Likewise of its exchanges: the next ALLTOALL FOR_EXPERTS. */
uint32_t executor_exchange_after(const struct program *p, uint32_t rank, uint32_t op);
/* The program's op of the exchanges inside pass `op`: ALLGATHER, REDUCESCATTER or ALLTOALL
 * FOR_CONTEXT. PROGRAM_NONE: there is none. */
uint32_t executor_context_before(const struct program *p, uint32_t rank, uint32_t op,
                                 enum op_kind kind);
/* Seconds of exchanges inside passes (sums_s of the exchange) are taken off the passes' and
 * reported as the program has them, before the pass. */
void executor_book_context(const struct program *p, uint32_t rank, struct executor_step *s);
/* Seconds of sums inside passes (sums_s), and of exchanges, are taken off the passes' and reported
 * as the program has them, as one op after the pass. Of a pass in parts they add up to that one, so
 * that later parts seem to have begun earlier by the sums of those before. */
void executor_book_sums(const struct program *p, uint32_t rank, struct executor_step *s);

#endif
