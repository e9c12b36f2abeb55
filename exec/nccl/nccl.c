#include "exec/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/cuda/context.h"
#include "exec/ring.h"
#include "exec/tcp/socket.h"

/* How far ahead the common start lies: everyone must have heard of it, and may be asleep. */
static const double ahead_s = 1e-3, ahead_per_rank_s = 3e-5;
/* Queueing takes microseconds; longer than this, NCCL hangs. */
static const double queue_s = 30;

/* ---- close */

static void close_link(struct nccl_link *l)
{
    if (l->comm)
        ncclCommAbort(l->comm); /* ends receives that nobody will serve */
    for (size_t i = 0; l->slot && i < l->slots; i++)
        if (l->slot[i].free)
            cudaEventDestroy(l->slot[i].free);
    if (l->stream)
        cudaStreamDestroy(l->stream);
    if (l->memory)
        cudaFree(l->memory);
    free(l->slot);
    free(l->pool);
}

static void close_nccl(void *self)
{
    struct nccl *t = self;
    if (!t)
        return;
    for (size_t g = 0; t->ring && g < t->program->groups; g++)
        if (t->ring[g].comm)
            ncclCommAbort(t->ring[g].comm);
    for (size_t k = 0; k < t->links; k++)
        close_link(&t->link[k]);
    for (size_t i = 0; t->op && i < t->ops; i++) {
        if (t->op[i].begin)
            cudaEventDestroy(t->op[i].begin);
        if (t->op[i].end)
            cudaEventDestroy(t->op[i].end);
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
    channel_orders_free(t->order, t->program->channels);
    free(t->link);
    free(t->link_of);
    free(t->ring);
    free(t->op);
    free(t);
}

/* ---- open */

static enum status init_link(struct nccl *t, struct nccl_link *l, uint32_t channel)
{
    enum status st;
    const struct program_channel *c = &t->program->channel[channel];
    const struct channel_order *order = &t->order[channel];
    size_t stride = (order->bytes + 255) / 256 * 256 + 256;
    *l = (struct nccl_link){.order = order, .outgoing = c->from == t->rank};
    l->peer = l->outgoing ? c->to : c->from;
    l->slots = l->outgoing ? order->n : order->window;
    l->slot = calloc(l->slots + 1, sizeof *l->slot);
    l->pool = calloc(l->slots + 1, sizeof *l->pool);
    if (!l->slot || !l->pool)
        return error_set(STATUS_NOMEM, "%zu slots", l->slots);
    TRY(CUDA_ERROR("stream", cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking)));
    TRY(CUDA_ERROR("slots", cudaMalloc((void **)&l->memory, (l->slots + 1) * stride)));
    for (size_t i = 0; i < l->slots; i++) {
        l->slot[i].data = l->memory + i * stride;
        l->pool[l->free++] = &l->slot[i];
        TRY(CUDA_ERROR("event",
                       cudaEventCreateWithFlags(&l->slot[i].free, cudaEventDisableTiming)));
    }
out:
    return st;
}

static enum status init_links(struct nccl *t)
{
    enum status st = STATUS_OK;
    const struct program *p = t->program;
    t->link_of = malloc((p->channels + 1) * sizeof *t->link_of);
    t->link = calloc(p->channels + 1, sizeof *t->link);
    if (!t->link_of || !t->link)
        return error_set(STATUS_NOMEM, "%zu channels", p->channels);
    for (uint32_t c = 0; c < p->channels; c++) {
        t->link_of[c] = PROGRAM_NONE;
        if (p->channel[c].from != t->rank && p->channel[c].to != t->rank)
            continue;
        t->link_of[c] = (uint32_t)t->links;
        TRY(init_link(t, &t->link[t->links++], c));
    }
out:
    return st;
}

static enum status init_ops(struct nccl *t)
{
    enum status st;
    t->op = calloc(t->ops + 1, sizeof *t->op);
    if (!t->op)
        return error_set(STATUS_NOMEM, "%zu ops", t->ops);
    for (size_t i = 0; i < t->ops; i++) {
        if (op_computes(&t->program->op[t->first + i]))
            continue;
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->op[i].begin)));
        TRY(CUDA_ERROR("event", cudaEventCreate(&t->op[i].end)));
    }
    TRY(CUDA_ERROR("event", cudaEventCreate(&t->base)));
    TRY(CUDA_ERROR("event", cudaEventCreateWithFlags(&t->ready, cudaEventDisableTiming)));
    TRY(CUDA_ERROR("stream", cudaStreamCreateWithFlags(&t->sums, cudaStreamNonBlocking)));
out:
    return st;
}

static enum status init_rings(struct nccl *t)
{
    const struct program *p = t->program;
    size_t largest = 2;
    t->ring = calloc(p->groups + 1, sizeof *t->ring);
    if (!t->ring)
        return error_set(STATUS_NOMEM, "%zu groups", p->groups);
    for (size_t g = 0; g < p->groups; g++)
        for (size_t i = p->group_start[g]; i < p->group_start[g + 1]; i++)
            if (p->member[i] == t->rank)
                t->ring[g] = (struct nccl_ring){
                    .ranks = p->group_start[g + 1] - p->group_start[g],
                    .me = i - p->group_start[g],
                };
    for (size_t i = t->first; i < t->first + t->ops; i++) {
        if (!op_is_collective(&p->op[i]))
            continue;
        size_t ranks = t->ring[p->op[i].peer].ranks;
        if (ranks == 0)
            return error_set(STATUS_INVALID, "rank %u is no member of group %u", t->rank,
                             p->op[i].peer);
        size_t n = (size_t)p->op[i].bytes / sizeof(float) / ranks + 1;
        largest = n > largest ? n : largest;
    }
    return CUDA_ERROR("chunk of a collective",
                      cudaMalloc((void **)&t->chunk, largest * sizeof *t->chunk));
}

static enum status open_nccl(const struct program *p, uint32_t rank, const struct rendezvous *r,
                             void **self)
{
    enum status st;
    uint32_t gpu;
    int gpus = 0;
    double deadline_s = clock_now() + r->timeout_s;
    struct nccl *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "transport");
    t->program = p;
    t->rank = rank;
    t->first = p->op_start[rank];
    t->ops = p->op_start[rank + 1] - t->first;
    t->step = UINT32_MAX;
    TRY(cuda_gpu_of(rank, &gpu));
    TRY(CUDA_ERROR("count the GPUs", cudaGetDeviceCount(&gpus)));
    TRY(CUDA_ERROR("choose the GPU", cudaSetDevice((int)(gpu % (uint32_t)gpus))));
    TRY(channel_orders(p, &t->order));
    TRY(init_ops(t));
    TRY(init_links(t));
    TRY(init_rings(t));
    TRY(star_open(r, deadline_s, &t->star));
    TRY(nccl_connect(t, deadline_s));
    *self = t;
    t = NULL;
out:
    close_nccl(t);
    return st;
}

/* ---- communication */

static struct nccl_op *own(struct nccl *t, uint32_t op)
{
    return &t->op[op - t->first];
}

static struct nccl_link *link_of(struct nccl *t, uint32_t op)
{
    return &t->link[t->link_of[t->program->op[op].channel]];
}

static enum status misuse(const struct nccl *t, uint32_t op, const char *what)
{
    char label[OP_LABEL];
    return error_set(STATUS_INVALID, "rank %u: %s: %s", t->rank,
                     op_label(&t->program->op[op], label), what);
}

static enum status locate(const struct nccl *t, uint32_t op, enum status st)
{
    char label[OP_LABEL];
    const struct program_op *o = &t->program->op[op];
    return error_context(st, "rank %u: %s with %s %u", t->rank, op_label(o, label),
                         op_is_collective(o) ? "group" : "rank", o->peer);
}

/* Queue receives while there are slots. */
static enum status post_receives(struct nccl *t, struct nccl_link *l)
{
    enum status st = STATUS_OK;
    uint32_t op = 0;
    while (l->next < l->order->n && l->free > 0) {
        op = l->order->recv[l->next];
        struct nccl_op *o = own(t, op);
        struct nccl_slot *slot = l->pool[--l->free];
        o->slot = slot;
        if (slot->was_used)
            TRY(CUDA_ERROR("queue a receive", cudaStreamWaitEvent(l->stream, slot->free, 0)));
        TRY(CUDA_ERROR("queue a receive", cudaEventRecord(o->begin, l->stream)));
        TRY(nccl_settle(
            l->comm,
            ncclRecv(slot->data, (size_t)t->program->op[op].bytes, ncclInt8, 0, l->comm, l->stream),
            clock_now() + queue_s));
        TRY(CUDA_ERROR("queue a receive", cudaEventRecord(o->end, l->stream)));
        o->posted = true;
        l->next++;
    }
out:
    return st == STATUS_OK ? st : locate(t, op, st);
}

static enum status send_buffer(void *self, uint32_t op, void **data)
{
    struct nccl *t = self;
    struct nccl_link *l = link_of(t, op);
    struct nccl_op *o = own(t, op);
    if (o->posted || o->slot)
        return misuse(t, op, "sent twice in a step");
    if (l->next >= l->order->n || l->order->send[l->next] != op)
        return misuse(t, op, "sent out of order");
    o->slot = &l->slot[l->next++]; /* as many as messages: never waited for */
    *data = o->slot->data;
    return STATUS_OK;
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

static enum status post_send(void *self, uint32_t op)
{
    enum status st;
    struct nccl *t = self;
    struct nccl_link *l = link_of(t, op);
    struct nccl_op *o = own(t, op);
    if (!o->slot || o->posted)
        return misuse(t, op, "sent without a buffer");
    TRY(follow(t, l->stream));
    TRY(CUDA_ERROR("queue a send", cudaEventRecord(o->begin, l->stream)));
    TRY(nccl_settle(
        l->comm,
        ncclSend(o->slot->data, (size_t)t->program->op[op].bytes, ncclInt8, 1, l->comm, l->stream),
        clock_now() + queue_s));
    TRY(CUDA_ERROR("queue a send", cudaEventRecord(o->end, l->stream)));
    o->posted = true;
out:
    return st == STATUS_OK ? st : locate(t, op, st);
}

/* All rounds of a call, queued at once. */
static enum status queue_rounds(struct nccl *t, const struct program_op *op, float *data, size_t n)
{
    enum status st = STATUS_OK;
    const struct nccl_ring *r = &t->ring[op->peer];
    for (size_t round = ring_begin(r->ranks, op); round < ring_end(r->ranks, op); round++) {
        struct ring_part give = ring_gives(n, r->ranks, r->me, round);
        struct ring_part take = ring_takes(n, r->ranks, r->me, round);
        float *taken = data + take.first;
        bool adds = ring_adds(r->ranks, round);
        TRY(nccl_exchange(t, op->peer, data + give.first, adds ? t->chunk : taken,
                          (const size_t[]){give.n, take.n}, clock_now() + queue_s));
        if (adds)
            TRY(CUDA_ERROR("queue a sum", kernel_add_on(t->sums, taken, t->chunk, take.n)));
    }
out:
    return st;
}

static enum status collective(void *self, uint32_t op, float *data, size_t n)
{
    enum status st;
    struct nccl *t = self;
    struct nccl_op *o = own(t, op);
    const struct program_op *p = &t->program->op[op];
    if (!ring_does(p) || n != (size_t)p->bytes / sizeof *data)
        return misuse(t, op, "not an array of as many bytes as the program says");
    if (o->calls == p->count || o->posted)
        return misuse(t, op, "called too often, or before the last call was waited for");
    TRY(follow(t, t->sums));
    if (o->calls == 0)
        TRY(CUDA_ERROR("queue a collective", cudaEventRecord(o->begin, t->sums)));
    TRY(queue_rounds(t, p, data, n));
    TRY(CUDA_ERROR("queue a collective", cudaEventRecord(o->end, t->sums)));
    o->posted = true;
    o->complete = false;
    o->calls++;
out:
    return st == STATUS_OK ? st : locate(t, op, st);
}

/* Has the op ended? Asks NCCL as well while it has not. */
static enum status poll(ncclComm_t comm, const struct nccl_op *o, bool *ended)
{
    enum status st = STATUS_OK;
    ncclResult_t state = ncclSuccess;
    cudaError_t e = cudaEventQuery(o->end);
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
    struct nccl_op *o = own(t, op);
    const struct program_op *p = &t->program->op[op];
    ncclComm_t comm = op_is_collective(p) ? t->ring[p->peer].comm : link_of(t, op)->comm;
    double deadline_s = clock_now() + timeout_s;
    if (t->failure != STATUS_OK)
        return error_set(t->failure, "%s", t->reason);
    if (!o->posted && !o->complete)
        return misuse(t, op, "waited for, but not posted");
    for (size_t looks = 0; !o->complete; looks++) {
        TRY(poll(comm, o, &o->complete));
        if (!o->complete && clock_now() >= deadline_s) {
            st = error_set(STATUS_EXTERNAL, "nothing for %g s", timeout_s);
            goto out;
        }
        if (!o->complete && looks > AT_ONCE)
            nanosleep(&nap, NULL);
    }
    if (op_is_collective(p))
        o->posted = false;
    if (data && o->slot)
        *data = o->slot->data;
out:
    return st == STATUS_OK ? st : locate(t, op, st);
}

static void release(void *self, uint32_t op)
{
    struct nccl *t = self;
    struct nccl_op *o = own(t, op);
    struct nccl_link *l = link_of(t, op);
    enum status st = CUDA_ERROR("release", cudaEventRecord(o->slot->free, CUDA_STREAM));
    o->slot->was_used = true;
    l->pool[l->free++] = o->slot;
    o->slot = NULL;
    if (st == STATUS_OK)
        st = post_receives(t, l);
    if (st == STATUS_OK || t->failure != STATUS_OK)
        return;
    t->failure = st;
    snprintf(t->reason, sizeof t->reason, "%s", error_message());
}

/* NCCL does not say when the first byte of a message arrives: a RECV is its last. */
static void times(void *self, uint32_t op, double *start_s, double *end_s)
{
    struct nccl *t = self;
    const struct nccl_op *o = own(t, op);
    float begin_ms = 0, end_ms = 0;
    cudaEventElapsedTime(&end_ms, t->base, o->end);
    if (t->program->op[op].kind == OP_RECV ||
        cudaEventElapsedTime(&begin_ms, t->base, o->begin) != cudaSuccess)
        begin_ms = end_ms;
    *start_s = t->base_s + (double)begin_ms * 1e-3;
    *end_s = t->base_s + (double)end_ms * 1e-3;
}

/* ---- barrier */

static enum status next_step(struct nccl *t)
{
    enum status st;
    for (size_t i = 0; i < t->ops; i++) {
        struct nccl_op *o = &t->op[i];
        const struct program_op *p = &t->program->op[t->first + i];
        bool open = !o->complete || (p->kind == OP_RECV && o->slot) ||
                    (op_is_collective(p) && o->calls < p->count);
        if (t->step != UINT32_MAX && !op_computes(p) && open)
            return misuse(t, (uint32_t)(t->first + i), "not complete or not released at barrier");
        o->posted = o->complete = false;
        o->calls = 0;
        o->slot = NULL;
    }
    t->step++;
    TRY(CUDA_ERROR("clock", cudaEventRecord(t->base, CUDA_STREAM)));
    TRY(CUDA_ERROR("clock", cudaStreamSynchronize(CUDA_STREAM)));
    t->base_s = clock_now();
    for (size_t k = 0; k < t->links; k++) {
        t->link[k].next = 0;
        if (!t->link[k].outgoing) /* before the others hear of our arrival */
            TRY(post_receives(t, &t->link[k]));
    }
out:
    return st;
}

static enum status barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct nccl *t = self;
    double deadline_s = clock_now() + timeout_s, moment_s = 0;
    TRY(next_step(t));
    TRY(star_gather(&t->star, deadline_s));
    if (t->rank == 0)
        moment_s = clock_now() + ahead_s + ahead_per_rank_s * (double)t->program->ranks;
    TRY(star_spread(&t->star, &moment_s, sizeof moment_s, deadline_s));
    *start_s = moment_s;
out:
    if (st == STATUS_INVALID)
        return st;
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u: barrier of step %u", t->rank, t->step);
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
