/* The NCCL transport: opening and closing, posting and waiting, and barriers over the star. */
#include "exec/transport/nccl/nccl.h"

#include <stdlib.h>
#include <time.h>

#include "core/array.h"
#include "core/clock.h"
#include "exec/device/cuda/context.h"

/* How far ahead the common start lies: everyone must have heard of it, and may be asleep. */
static const double ahead_s = 1e-3;
/* Queueing takes microseconds; longer than this, NCCL hangs. */
static const double queue_s = 30;

/* ---- close */

static void close_link(struct nccl_link *l)
{
    if (l->comm)
        ncclCommAbort(l->comm); /* ends receives that nobody will serve */
    for (size_t i = 0; l->slot && i < l->end->room; i++)
        if (l->slot[i].free)
            cudaEventDestroy(l->slot[i].free);
    if (l->stream)
        cudaStreamDestroy(l->stream);
    if (l->memory)
        cudaFree(l->memory);
    free(l->slot);
    free(l->pool);
}

/* Communicators are aborted, not destroyed: that ends kernels which wait for peers that are
 * gone. */
static void close_nccl(void *self)
{
    struct nccl *t = self;
    if (!t)
        return;
    for (size_t g = 0; t->group && g < t->links.program->groups; g++)
        if (t->group[g])
            ncclCommAbort(t->group[g]);
    for (size_t k = 0; t->link && k < t->links.n; k++)
        close_link(&t->link[k]);
    for (size_t i = 0; t->span && i < t->links.ops; i++) {
        if (t->span[i].begin)
            cudaEventDestroy(t->span[i].begin);
        if (t->span[i].end)
            cudaEventDestroy(t->span[i].end);
    }
    if (t->ready)
        cudaEventDestroy(t->ready);
    if (t->base)
        cudaEventDestroy(t->base);
    if (t->sums)
        cudaStreamDestroy(t->sums);
    if (t->chunk)
        cudaFree(t->chunk);
    star_close(&t->star);
    free(t->link);
    free(t->group);
    free(t->span);
    endpoints_free(&t->links);
    free(t);
}

/* ---- open */

/* Slots lie in one piece of memory, aligned for the copy engines. */
static enum status init_link(struct nccl_link *l, const struct link_end *end)
{
    enum status st;
    size_t stride = (end->order->bytes + 255) / 256 * 256 + 256;
    l->end = end;
    TRY(ARRAY_NEW(l->slot, end->room));
    TRY(ARRAY_NEW(l->pool, end->room));
    TRY(CUDA_ERROR("stream", cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)));
    TRY(CUDA_ERROR("slots", cudaMalloc((void **)&l->memory, (end->room + 1) * stride)));
    for (size_t i = 0; i < end->room; i++) {
        l->slot[i].data = l->memory + i * stride;
        l->pool[l->free++] = &l->slot[i];
        TRY(CUDA_ERROR("event",
                       cudaEventCreateWithFlags(&l->slot[i].free, cudaEventDisableTiming)));
    }
out:
    return st;
}

/* Room for a received chunk of n numbers; cudaFree() waits until nothing uses the old one. */
static enum status grow_chunk(struct nccl *t, size_t n)
{
    if (n <= t->chunk_room)
        return STATUS_OK;
    if (t->chunk)
        cudaFree(t->chunk);
    t->chunk = NULL;
    t->chunk_room = n;
    return CUDA_ERROR("chunk of a collective",
                      cudaMalloc((void **)&t->chunk, n * sizeof *t->chunk));
}

static enum status init_links(struct nccl *t)
{
    enum status st;
    size_t groups = t->links.program->groups;
    TRY(ARRAY_NEW(t->link, t->links.n));
    TRY(ARRAY_NEW(t->group, groups));
    for (size_t k = 0; k < t->links.n; k++)
        t->link[k].end = &t->links.end[k];
    for (size_t k = 0; k < t->links.n; k++)
        TRY(init_link(&t->link[k], &t->links.end[k]));
    TRY(grow_chunk(t, 2)); /* for the first messages */
out:
    return st;
}

static enum status init_ops(struct nccl *t)
{
    enum status st;
    TRY(ARRAY_NEW(t->span, t->links.ops));
    for (size_t i = 0; i < t->links.ops; i++) {
        if (op_computes(&t->links.program->op[t->links.first + i]))
            continue;
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->span[i].begin)));
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->span[i].end)));
    }
    TRY(CUDA_ERROR("event", cudaEventCreate(&t->base)));
    TRY(CUDA_ERROR("event", cudaEventCreateWithFlags(&t->ready, cudaEventDisableTiming)));
    TRY(CUDA_ERROR("stream", cudaStreamCreateWithFlags(&t->sums, cudaStreamNonBlocking)));
out:
    return st;
}

static enum status open_nccl(const struct program *p, uint32_t rank, const struct rendezvous *r,
                             void **self)
{
    enum status st;
    uint32_t gpu;
    int gpus = 0;
    double deadline_s = clock_now() + r->timeout_s;
    struct nccl *t;
    TRY(ARRAY_NEW(t, 1));
    TRY(endpoints_init(p, rank, r, &t->links));
    TRY(cuda_gpu_of(rank, &gpu));
    TRY(CUDA_ERROR("count the GPUs", cudaGetDeviceCount(&gpus)));
    TRY(CUDA_ERROR("choose the GPU", cudaSetDevice((int)(gpu % (uint32_t)gpus))));
    TRY(init_ops(t));
    TRY(init_links(t));
    TRY(star_open(r, deadline_s, &t->star));
    TRY(nccl_connect(t, deadline_s));
    MOVE(self, t);
out:
    close_nccl(t);
    return st;
}

/* ---- communication */

static struct nccl_span *span_of(struct nccl *t, uint32_t op)
{
    return &t->span[op - t->links.first];
}

static struct nccl_link *link_of(struct nccl *t, uint32_t op)
{
    return &t->link[endpoints_end(&t->links, op)];
}

/* Queue receives while there are slots. */
static enum status post_receives(struct nccl *t, struct nccl_link *l)
{
    enum status st = STATUS_OK;
    uint32_t op = 0;
    while (l->next < l->end->order->n && l->free > 0) {
        op = l->end->order->recv[l->next];
        struct link_op *o = endpoints_op(&t->links, op);
        struct nccl_slot *slot = l->pool[--l->free];
        o->buffer = slot;
        if (slot->was_used)
            TRY(CUDA_ERROR("queue a receive", cudaStreamWaitEvent(l->stream, slot->free, 0)));
        TRY(CUDA_ERROR("queue a receive", cudaEventRecord(span_of(t, op)->begin, l->stream)));
        TRY(nccl_settle(l->comm,
                        ncclRecv(slot->data, (size_t)t->links.program->op[op].bytes, ncclInt8, 0,
                                 l->comm, l->stream),
                        clock_now() + queue_s));
        TRY(CUDA_ERROR("queue a receive", cudaEventRecord(span_of(t, op)->end, l->stream)));
        o->posted = true;
        l->next++;
    }
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

static enum status send_buffer(void *self, uint32_t op, void **data)
{
    enum status st;
    struct nccl *t = self;
    struct nccl_link *l = link_of(t, op);
    TRY(endpoints_may_pack(&t->links, op));
    struct nccl_slot *slot = &l->slot[l->next++]; /* as many as messages: never waited for */
    endpoints_op(&t->links, op)->buffer = slot;
    *data = slot->data;
out:
    return st;
}

/* What the compute stream has been given so far comes before what `stream` is given next. */
static enum status follow(struct nccl *t, cudaStream_t stream)
{
    enum status st;
    TRY(CUDA_ERROR("order streams", cudaEventRecord(t->ready, CUDA_STREAM)));
    TRY(CUDA_ERROR("order streams", cudaStreamWaitEvent(stream, t->ready, 0)));
out:
    return st;
}

/* The send is queued behind what computes the message, and nothing waits for it here. */
static enum status post_send(void *self, uint32_t op)
{
    enum status st;
    struct nccl *t = self;
    struct nccl_link *l = link_of(t, op);
    struct link_op *o = endpoints_op(&t->links, op);
    const struct nccl_slot *slot = o->buffer;
    TRY(endpoints_post(&t->links, op));
    TRY(follow(t, l->stream));
    TRY(CUDA_ERROR("queue a send", cudaEventRecord(span_of(t, op)->begin, l->stream)));
    TRY(nccl_settle(l->comm,
                    ncclSend(slot->data, (size_t)t->links.program->op[op].bytes, ncclInt8, 1,
                             l->comm, l->stream),
                    clock_now() + queue_s));
    TRY(CUDA_ERROR("queue a send", cudaEventRecord(span_of(t, op)->end, l->stream)));
    o->buffer = NULL;
out:
    return st == STATUS_OK || st == STATUS_INVALID ? st : endpoints_locate(&t->links, op, st);
}

/* All rounds of a call, queued at once. */
static enum status queue_rounds(struct nccl *t, uint32_t op, float *data, size_t n)
{
    enum status st = STATUS_OK;
    const struct rounds_call c = endpoints_rounds(&t->links, op, n);
    TRY(grow_chunk(t, rounds_largest(&c)));
    for (size_t k = 0; k < rounds_count(&c); k++) {
        struct round r = rounds_at(&c, k);
        float *taken = data + r.take.first;
        if (r.to == ROUND_NOBODY && r.from == ROUND_NOBODY)
            continue;
        TRY(nccl_exchange(t, t->links.program->op[op].peer, &r, data, r.adds ? t->chunk : taken,
                          clock_now() + queue_s));
        if (r.adds && r.take.n > 0)
            TRY(CUDA_ERROR("queue a sum", kernel_add_on(t->sums, taken, t->chunk, r.take.n)));
    }
out:
    return st;
}

static enum status collective(void *self, uint32_t op, enum element e, void *data, size_t n)
{
    enum status st;
    struct nccl *t = self;
    const struct nccl_span *span = span_of(t, op);
    if (e != ELEMENT_FP32)
        return endpoints_misuse(&t->links, op, "fp32 only");
    st = endpoints_count_call(&t->links, op);
    if (st != STATUS_OK)
        return st;
    TRY(follow(t, t->sums));
    if (endpoints_op(&t->links, op)->calls == 1)
        TRY(CUDA_ERROR("queue a collective", cudaEventRecord(span->begin, t->sums)));
    TRY(queue_rounds(t, op, data, n));
    TRY(CUDA_ERROR("queue a collective", cudaEventRecord(span->end, t->sums)));
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

/* Has the op ended? Asks NCCL as well while it has not. */
static enum status poll(ncclComm_t comm, cudaEvent_t end, bool *ended)
{
    enum status st = STATUS_OK;
    ncclResult_t state = ncclSuccess;
    cudaError_t e = cudaEventQuery(end);
    *ended = e == cudaSuccess;
    if (e != cudaSuccess && e != cudaErrorNotReady)
        TRY(CUDA_ERROR("wait", e));
    ncclResult_t asked = *ended || !comm ? ncclSuccess : ncclCommGetAsyncError(comm, &state);
    state = asked != ncclSuccess ? asked : state;
    if (state != ncclSuccess && state != ncclInProgress)
        st =
            error_set(STATUS_IO, "NCCL: %s: %s", ncclGetErrorString(state), ncclGetLastError(comm));
out:
    return st;
}

/* The first looks follow each other at once: most waits on a GPU are short. */
static enum status wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum { AT_ONCE = 200 };
    const struct timespec nap = {.tv_nsec = 20000};
    enum status st = STATUS_OK;
    struct nccl *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    const struct program_op *p = &t->links.program->op[op];
    ncclComm_t comm = op_is_collective(p) ? t->group[p->peer] : link_of(t, op)->comm;
    const struct nccl_slot *slot = o->buffer;
    double deadline_s = clock_now() + timeout_s;
    if (t->links.failure != STATUS_OK)
        return endpoints_failure(&t->links);
    if (!o->posted && !o->complete)
        return endpoints_misuse(&t->links, op, "waited for, but not posted");
    for (size_t looks = 0; !o->complete; looks++) {
        TRY(poll(comm, span_of(t, op)->end, &o->complete));
        if (!o->complete && clock_now() >= deadline_s) {
            st = error_set(STATUS_EXTERNAL, "nothing for %g s", timeout_s);
            goto out;
        }
        if (!o->complete && looks > AT_ONCE)
            nanosleep(&nap, NULL);
    }
    if (op_is_collective(p))
        o->posted = false;
    if (data && slot)
        *data = slot->data;
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

static void release(void *self, uint32_t op)
{
    struct nccl *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    struct nccl_link *l = link_of(t, op);
    struct nccl_slot *slot = o->buffer;
    enum status st = CUDA_ERROR("release", cudaEventRecord(slot->free, CUDA_STREAM));
    slot->was_used = true;
    l->pool[l->free++] = slot;
    o->buffer = NULL;
    if (st == STATUS_OK)
        st = post_receives(t, l);
    if (st != STATUS_OK)
        endpoints_fail(&t->links, st, op, l->end->peer);
}

/* NCCL does not say when the first byte of a message arrives: a RECV is its last. */
static void times(void *self, uint32_t op, double *start_s, double *end_s)
{
    struct nccl *t = self;
    const struct nccl_span *span = span_of(t, op);
    float begin_ms = 0, end_ms = 0;
    cudaEventElapsedTime(&end_ms, t->base, span->end);
    if (t->links.program->op[op].kind == OP_RECV ||
        cudaEventElapsedTime(&begin_ms, t->base, span->begin) != cudaSuccess)
        begin_ms = end_ms;
    *start_s = t->base_s + (double)begin_ms * 1e-3;
    *end_s = t->base_s + (double)end_ms * 1e-3;
}

/* ---- barrier */

/* Event times are relative to one event of the step, whose time on the clock is taken here. */
static enum status next_step(struct nccl *t)
{
    enum status st;
    TRY(endpoints_next_step(&t->links));
    TRY(CUDA_ERROR("clock", cudaEventRecord(t->base, CUDA_STREAM)));
    TRY(CUDA_ERROR("clock", cudaStreamSynchronize(CUDA_STREAM)));
    t->base_s = clock_now();
    for (size_t k = 0; k < t->links.n; k++) {
        t->link[k].next = 0;
        if (!t->links.end[k].outgoing) /* before the others hear of our arrival */
            TRY(post_receives(t, &t->link[k]));
    }
out:
    return st;
}

static enum status barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct nccl *t = self;
    double deadline_s = clock_now() + timeout_s;
    TRY(next_step(t));
    TRY(star_barrier(&t->star, t->links.step, ahead_s, deadline_s, start_s));
out:
    return st;
}

const struct transport transport_nccl = {
    .name = "nccl",
    .device_memory = true,
    .open = open_nccl,
    .close = close_nccl,
    .send_buffer = send_buffer,
    .send = post_send,
    .collective = collective,
    .wait = wait_op,
    .release = release,
    .times = times,
    .barrier = barrier,
};
