/* When ops ran on a GPU: two events each, read when the step is over. */
#include "exec/device/cuda/times.h"

#include <stdlib.h>

#include "core/array.h"
#include "core/clock.h"

/* Only compute ops get events; the others' are 0 and never read. */
enum status cuda_times_open(const struct program *p, uint32_t rank, struct cuda_times *t)
{
    enum status st;
    *t = (struct cuda_times){.program = p,
                             .first = p->op_start[rank],
                             .ops = p->op_start[rank + 1] - p->op_start[rank],
                             .step = UINT32_MAX};
    TRY(ARRAY_NEW(t->event, 2 * t->ops));
    TRY(CUDA_ERROR("event", cudaEventCreate(&t->base)));
    for (size_t i = 0; i < 2 * t->ops; i++)
        if (op_computes(&p->op[t->first + i / 2]))
            TRY(CUDA_ERROR("event", cudaEventCreate(&t->event[i])));
out:
    return st;
}

void cuda_times_close(struct cuda_times *t)
{
    for (size_t i = 0; t->event && i < 2 * t->ops; i++)
        if (t->event[i])
            cudaEventDestroy(t->event[i]);
    if (t->base)
        cudaEventDestroy(t->base);
    free(t->event);
    *t = (struct cuda_times){0};
}

/* Begin and end of an op of this rank. */
static cudaEvent_t *events_of(const struct cuda_times *t, const struct program_op *op)
{
    return &t->event[2 * (size_t)(op - t->program->op - (ptrdiff_t)t->first)];
}

/* GPU clocks count from an event: here, while nothing runs. */
static enum status begin_step(struct cuda_times *t, struct cuda_context *c, uint32_t step)
{
    enum status st;
    CUDA_NOTE(c, "event", cudaEventRecord(t->base, CUDA_STREAM));
    TRY(cuda_finish(c));
    t->base_s = clock_now();
    t->step = step;
out:
    return st;
}

enum status cuda_times_begin(struct cuda_times *t, struct cuda_context *c, uint32_t step,
                             const struct program_op *op)
{
    enum status st = STATUS_OK;
    if (t->step != step)
        TRY(begin_step(t, c, step));
    CUDA_NOTE(c, "event", cudaEventRecord(events_of(t, op)[0], CUDA_STREAM));
out:
    return st;
}

void cuda_times_end(struct cuda_times *t, struct cuda_context *c, const struct program_op *op)
{
    CUDA_NOTE(c, "event", cudaEventRecord(events_of(t, op)[1], CUDA_STREAM));
}

void cuda_times_read(const struct cuda_times *t, struct cuda_context *c,
                     const struct program_op *op, double *start_s, double *end_s)
{
    const cudaEvent_t *event = events_of(t, op);
    float begin_ms = 0, end_ms = 0;
    CUDA_NOTE(c, "time of an op", cudaEventElapsedTime(&begin_ms, t->base, event[0]));
    CUDA_NOTE(c, "time of an op", cudaEventElapsedTime(&end_ms, t->base, event[1]));
    *start_s = t->base_s + (double)begin_ms * 1e-3;
    *end_s = t->base_s + (double)end_ms * 1e-3;
}
