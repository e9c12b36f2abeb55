/* When ops ran on a GPU: two events each and for each sum inside, read when the step is over. */
#include "exec/device/cuda/times.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"

/* ---- the clock */

enum status cuda_clock_open(struct cuda_clock *c)
{
    return CUDA_ERROR("event", cudaEventCreate(&c->base));
}

void cuda_clock_close(struct cuda_clock *c)
{
    if (c->base)
        cudaEventDestroy(c->base);
    *c = (struct cuda_clock){0};
}

/* The stream is idle, so the event happens at once; it is looked at without pause, since a wait
 * that sleeps ends some microseconds late. */
enum status cuda_clock_start(struct cuda_clock *c)
{
    cudaError_t e = cudaEventRecord(c->base, CUDA_STREAM);
    while (e == cudaSuccess && (e = cudaEventQuery(c->base)) == cudaErrorNotReady)
        e = cudaSuccess;
    c->base_s = clock_now();
    c->is_fresh = true;
    return CUDA_ERROR("clock", e);
}

double cuda_clock_read(const struct cuda_clock *c, cudaEvent_t event)
{
    float ms = 0;
    cudaError_t e = cudaEventElapsedTime(&ms, c->base, event);
    return e == cudaSuccess ? c->base_s + (double)ms * 1e-3 : NAN;
}

/* ---- ops */

/* Two more events. */
static enum status cuda_times_add_sum(struct cuda_times *t)
{
    cudaEvent_t *more = realloc(t->sum, 2 * (t->sums + 1) * sizeof(cudaEvent_t));
    if (!more)
        return error_set(STATUS_NOMEM, "out of memory: list of %zu CUDA events", 2 * t->sums);
    t->sum = more;
    int *how = realloc(t->how, (t->sums + 1) * sizeof *how);
    if (!how)
        return error_set(STATUS_NOMEM, "out of memory: list of the times of %zu reductions",
                         t->sums);
    t->how = how;
    PASS(CUDA_ERROR("event", cudaEventCreate(&t->sum[2 * t->sums])));
    cudaError_t e = cudaEventCreate(&t->sum[2 * t->sums + 1]);
    if (e != cudaSuccess)
        cudaEventDestroy(t->sum[2 * t->sums]);
    else
        t->sums++;
    return CUDA_ERROR("event", e);
}

/* Only compute ops get events, and as many sums as the program has. */
enum status cuda_times_open(const struct program *p, uint32_t rank, struct cuda_times *t)
{
    enum status st;
    *t = (struct cuda_times){.program = p,
                             .first = p->op_start[rank],
                             .ops = p->op_start[rank + 1] - p->op_start[rank],
                             .step = UINT32_MAX};
    TRY(ARRAY_NEW(t->span, t->ops));
    TRY(cuda_clock_open(&t->clock));
    for (size_t i = 0; i < t->ops; i++) {
        const struct program_op *o = &p->op[t->first + i];
        bool experts = o->purpose == FOR_EXPERTS; /* before whose rows their numbers may go */
        bool inside = op_is_collective(o) &&
                      (experts || o->purpose == FOR_TENSOR || o->purpose == FOR_CONTEXT);
        for (uint32_t k = 0; inside && k < (experts ? 2 : 1) * o->count; k++)
            TRY(cuda_times_add_sum(t));
        if (!op_computes(o))
            continue;
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->span[i].begin)));
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->span[i].end)));
    }
out:
    return st;
}

void cuda_times_close(struct cuda_times *t)
{
    for (size_t i = 0; t->span && i < t->ops; i++) {
        if (t->span[i].begin)
            cudaEventDestroy(t->span[i].begin);
        if (t->span[i].end)
            cudaEventDestroy(t->span[i].end);
    }
    for (size_t i = 0; i < 2 * t->sums; i++)
        cudaEventDestroy(t->sum[i]);
    cuda_clock_close(&t->clock);
    free(t->span);
    free(t->sum);
    free(t->how);
    *t = (struct cuda_times){0};
}

/* Without a transport that has one, the clock starts with the first op of a step. */
static enum status cuda_times_begin_step(struct cuda_times *t, struct cuda_context *c,
                                         uint32_t step)
{
    t->step = step;
    t->used = 0;
    if (!t->clock.is_fresh) {
        PASS(cuda_finish(c));
        PASS(cuda_clock_start(&t->clock));
    }
    t->clock.is_fresh = false;
    return STATUS_OK;
}

enum status cuda_times_begin(struct cuda_times *t, struct cuda_context *c, uint32_t step,
                             const struct program_op *op)
{
    enum status st = STATUS_OK;
    if (t->step != step)
        TRY(cuda_times_begin_step(t, c, step));
    t->now = &t->span[(size_t)(op - t->program->op) - t->first];
    t->now->first = t->used;
    t->now->sums = 0;
    CUDA_NOTE(c, "event", cudaEventRecord(t->now->begin, CUDA_STREAM));
out:
    return st;
}

void cuda_times_end(struct cuda_times *t, struct cuda_context *c)
{
    CUDA_NOTE(c, "event", cudaEventRecord(t->now->end, CUDA_STREAM));
}

void cuda_times_sum_begin(struct cuda_times *t, struct cuda_context *c, int how)
{
    if (t->used == t->sums && cuda_times_add_sum(t) != STATUS_OK) {
        CUDA_NOTE(c, "events of a sum", cudaErrorMemoryAllocation);
        return;
    }
    t->now->sums++;
    t->how[t->used] = how;
    CUDA_NOTE(c, "event", cudaEventRecord(t->sum[2 * t->used++], CUDA_STREAM));
}

void cuda_times_sum_end(struct cuda_times *t, struct cuda_context *c)
{
    if (t->used > 0)
        CUDA_NOTE(c, "event", cudaEventRecord(t->sum[2 * t->used - 1], CUDA_STREAM));
}

/* Of what an op moved so. */
static double cuda_times_seconds(const struct cuda_times *t, struct cuda_context *c,
                                 const struct cuda_span *s, int how)
{
    double seconds = 0;
    for (size_t k = s->first; k < s->first + s->sums; k++) {
        float ms = 0;
        if (t->how[k] != how)
            continue;
        CUDA_NOTE(c, "time of a sum", cudaEventElapsedTime(&ms, t->sum[2 * k], t->sum[2 * k + 1]));
        seconds += (double)ms * 1e-3;
    }
    return seconds;
}

static const struct cuda_span *cuda_times_span(const struct cuda_times *t,
                                               const struct program_op *op)
{
    return &t->span[(size_t)(op - t->program->op) - t->first];
}

void cuda_times_read(const struct cuda_times *t, struct cuda_context *c,
                     const struct program_op *op, double *start_s, double *end_s, double *sums_s)
{
    const struct cuda_span *s = cuda_times_span(t, op);
    *start_s = cuda_clock_read(&t->clock, s->begin);
    *end_s = cuda_clock_read(&t->clock, s->end);
    *sums_s = cuda_times_seconds(t, c, s, CUDA_SUM);
}

double cuda_times_moved(const struct cuda_times *t, struct cuda_context *c,
                        const struct program_op *op, int how)
{
    return cuda_times_seconds(t, c, cuda_times_span(t, op), how);
}
