/* The NCCL transport: opening and closing, posting and waiting, and barriers over the star. */
#include "exec/transport/nccl/nccl.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/device/cuda/context.h"

/* How far ahead the common start lies: everyone must have heard of it, and may be asleep. */
static const double ahead_s = 1e-3;
enum { ALIGNMENT = 256 }; /* of slots, for the copy engines */

/* ---- close */

static void free_event(cudaEvent_t event)
{
    if (event)
        cudaEventDestroy(event);
}

static void free_stream(cudaStream_t stream, char *memory)
{
    if (stream)
        cudaStreamDestroy(stream);
    if (memory)
        cudaFree(memory);
}

static void close_link(struct nccl_link *l)
{
    for (size_t i = 0; l->slot && i < l->slots; i++)
        free_event(l->slot[i].free);
    free_stream(l->stream, l->memory);
    free(l->slot);
    free(l->pool);
}

/* All communicators end before any memory is given back: that waits for what runs on the GPU. */
static void close_nccl(void *self)
{
    struct nccl *t = self;
    if (!t)
        return;
    nccl_unwatch(t);
    nccl_abort(t);
    for (size_t k = 0; t->link && k < t->links.n; k++)
        close_link(&t->link[k]);
    for (size_t g = 0; t->group && g < t->links.program->groups; g++)
        free_stream(t->group[g].stream, t->group[g].chunk);
    for (size_t i = 0; t->span && i < t->links.ops; i++) {
        free_event(t->span[i].begin);
        free_event(t->span[i].end);
    }
    for (size_t i = 0; i < 2; i++)
        free_event(t->mark[i].event);
    free_event(t->ready);
    star_close(&t->star);
    pthread_mutex_destroy(&t->calls);
    pthread_mutex_destroy(&t->telling);
    pthread_mutex_destroy(&t->state);
    free(t->link);
    free(t->group);
    free(t->comm);
    free(t->told);
    free(t->span);
    endpoints_free(&t->links);
    free(t);
}

/* ---- open */

/* What communicates goes before what computes: it is small, and others wait for it. */
static enum status new_stream(cudaStream_t *out)
{
    int least, greatest;
    PASS(CUDA_ERROR("priorities", cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    return CUDA_ERROR("stream", cudaStreamCreateWithPriority(out, cudaStreamNonBlocking, greatest));
}

static enum status new_order(cudaEvent_t *out)
{
    return CUDA_ERROR("event", cudaEventCreateWithFlags(out, cudaEventDisableTiming));
}

static enum status init_link(struct nccl_link *l, const struct link_end *end)
{
    enum status st;
    size_t stride = (end->order->bytes / ALIGNMENT + 1) * ALIGNMENT;
    l->slots = end->outgoing && end->room > NCCL_SEND_SLOTS ? NCCL_SEND_SLOTS : end->room;
    TRY(ARRAY_NEW(l->slot, l->slots));
    TRY(ARRAY_NEW(l->pool, l->slots));
    TRY(new_stream(&l->stream));
    TRY(CUDA_ERROR("slots", cudaMalloc((void **)&l->memory, l->slots * stride)));
    for (size_t i = 0; i < l->slots; i++) {
        l->slot[i].data = l->memory + i * stride;
        l->pool[l->free++] = &l->slot[i];
        TRY(new_order(&l->slot[i].free));
    }
out:
    return st;
}

static enum status nccl_init_links(struct nccl *t)
{
    size_t groups = t->links.program->groups;
    t->comms = 1 + t->links.n + groups;
    PASS(ARRAY_NEW(t->link, t->links.n));
    PASS(ARRAY_NEW(t->group, groups));
    PASS(ARRAY_NEW(t->comm, t->comms));
    PASS(ARRAY_NEW(t->told, t->comms));
    for (size_t k = 0; k < t->links.n; k++) {
        t->link[k].end = &t->links.end[k];
        t->link[k].comm = &t->comm[1 + k];
    }
    for (size_t k = 0; k < t->links.n; k++)
        PASS(init_link(&t->link[k], &t->links.end[k]));
    for (size_t g = 0; g < groups; g++) {
        struct nccl_group *own = &t->group[g];
        own->comm = &t->comm[1 + t->links.n + g];
        if (t->links.group[g].ranks == 0)
            continue;
        PASS(new_stream(&own->stream));
        PASS(CUDA_ERROR("chunk", cudaMalloc((void **)&own->chunk,
                                            t->links.algorithm ? NCCL_CHUNK : NCCL_FIRST)));
    }
    return STATUS_OK;
}

static enum status init_events(struct nccl *t)
{
    PASS(ARRAY_NEW(t->span, t->links.ops));
    for (size_t i = 0; i < t->links.ops; i++) {
        if (op_computes(&t->links.program->op[t->links.first + i]))
            continue;
        PASS(CUDA_ERROR("event", cudaEventCreate(&t->span[i].begin)));
        PASS(CUDA_ERROR("event", cudaEventCreate(&t->span[i].end)));
    }
    for (size_t i = 0; i < 2; i++)
        PASS(new_order(&t->mark[i].event));
    return new_order(&t->ready);
}

static enum status open_nccl(const struct program *p, uint32_t rank, const struct rendezvous *r,
                             void **self)
{
    enum status st;
    struct nccl *t;
    TRY(ARRAY_NEW(t, 1));
    pthread_mutex_init(&t->calls, NULL);
    pthread_mutex_init(&t->telling, NULL);
    pthread_mutex_init(&t->state, NULL);
    t->deadline_s = INFINITY;
    t->patience_s = r->timeout_s;
    t->call_s = r->call_s > 0 ? r->call_s : r->timeout_s;
    t->clock = r->clock;
    TRY(endpoints_init(p, rank, r, &t->links));
    if (!t->clock)
        FAIL(STATUS_INVALID,
             "rank %u: transport nccl needs a device that times its ops on the GPU (--device cuda)",
             rank);
    TRY(CUDA_ERROR("which GPU", cudaGetDevice(&t->gpu)));
    TRY(init_events(t));
    TRY(nccl_init_links(t));
    TRY(star_open(r, clock_now() + r->timeout_s, &t->star));
    TRY(nccl_watch(t));
    TRY(nccl_connect(t));
    MOVE(self, t);
out:
    close_nccl(t);
    return st;
}

/* ---- order */

static struct nccl_span *nccl_span_of(struct nccl *t, uint32_t op)
{
    return &t->span[op - t->links.first];
}

static struct nccl_link *nccl_link_of(struct nccl *t, uint32_t op)
{
    return &t->link[endpoints_end(&t->links, op)];
}

static cudaStream_t stream_of(struct nccl *t, uint32_t op)
{
    const struct program_op *o = &t->links.program->op[op];
    return op_is_collective(o) ? t->group[o->peer].stream : nccl_link_of(t, op)->stream;
}

/* `stream` goes on when the compute stream has come to where it is now. */
static enum status after_computation(struct nccl *t, cudaStream_t stream)
{
    PASS(CUDA_ERROR("order streams", cudaEventRecord(t->ready, CUDA_STREAM)));
    return CUDA_ERROR("order streams", cudaStreamWaitEvent(stream, t->ready, 0));
}

static enum status nccl_record(cudaEvent_t event, cudaStream_t stream)
{
    return CUDA_ERROR("time of an op", cudaEventRecord(event, stream));
}

static enum status nccl_message(struct nccl *t, uint32_t op, struct nccl_slot *slot)
{
    const struct nccl_link *l = nccl_link_of(t, op);
    size_t bytes = (size_t)t->links.program->op[op].bytes;
    PASS(nccl_record(nccl_span_of(t, op)->begin, l->stream));
    PASS(nccl_begin(t));
    ncclResult_t e = l->end->outgoing
                         ? ncclSend(slot->data, bytes, ncclInt8, 1, *l->comm, l->stream)
                         : ncclRecv(slot->data, bytes, ncclInt8, 0, *l->comm, l->stream);
    PASS(nccl_end(t, *l->comm, e));
    return nccl_record(nccl_span_of(t, op)->end, l->stream);
}

/* A receive into a free slot, not before the computation before the last one is over. */
static enum status post_receive(struct nccl *t, uint32_t op)
{
    struct nccl_link *l = nccl_link_of(t, op);
    struct link_op *o = endpoints_op(&t->links, op);
    const struct nccl_mark *before = &t->mark[t->newest ^ 1];
    struct nccl_slot *slot = l->pool[--l->free];
    o->buffer = slot;
    o->posted = true;
    if (slot->was_used)
        PASS(CUDA_ERROR("order streams", cudaStreamWaitEvent(l->stream, slot->free, 0)));
    if (before->recorded)
        PASS(CUDA_ERROR("order streams", cudaStreamWaitEvent(l->stream, before->event, 0)));
    return nccl_message(t, op, slot);
}

/* Whatever goes on here notes where the compute stream is, once per computation. */
static enum status set_mark(struct nccl *t, uint32_t computed)
{
    struct nccl_mark *m = &t->mark[t->newest];
    if (m->recorded && m->computed == computed)
        return STATUS_OK;
    t->newest ^= 1;
    m = &t->mark[t->newest];
    m->recorded = true;
    m->computed = computed;
    return CUDA_ERROR("order streams", cudaEventRecord(m->event, CUDA_STREAM));
}

/* The list has come to `op`: queue the receives up to there. Those for which there is no slot yet
 * are queued with a later op, in time for whoever needs them (exec/window.h). */
static enum status nccl_reach(struct nccl *t, uint32_t op)
{
    enum status st = STATUS_OK;
    const struct program *p = t->links.program;
    uint32_t computed = t->computed;
    for (uint32_t i = t->reached; i < op; i++)
        computed += op_computes(&p->op[i]);
    TRY(set_mark(t, computed));
    for (; t->reached <= op; t->reached++) {
        if (p->op[t->reached].kind == OP_RECV && nccl_link_of(t, t->reached)->free == 0)
            break;
        if (p->op[t->reached].kind == OP_RECV)
            TRY(post_receive(t, t->reached));
        t->computed += op_computes(&p->op[t->reached]);
    }
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, t->reached, st);
}

/* ---- communication */

/* A slot is packed again when it has been sent. */
static enum status nccl_send_buffer(void *self, uint32_t op, void **data)
{
    struct nccl *t = self;
    struct nccl_link *l = nccl_link_of(t, op);
    PASS(endpoints_may_pack(&t->links, op));
    PASS(nccl_reach(t, op));
    struct nccl_slot *slot = &l->slot[l->next++ % l->slots];
    endpoints_op(&t->links, op)->buffer = slot;
    if (slot->was_used)
        PASS(CUDA_ERROR("order streams", cudaStreamWaitEvent(CUDA_STREAM, slot->free, 0)));
    *data = slot->data;
    return STATUS_OK;
}

/* The send is queued behind what computes the message, and nothing waits for it here. */
static enum status nccl_post_send(void *self, uint32_t op)
{
    enum status st;
    struct nccl *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    struct nccl_slot *slot = o->buffer;
    PASS(endpoints_post(&t->links, op));
    TRY(after_computation(t, stream_of(t, op)));
    TRY(nccl_message(t, op, slot));
    TRY(CUDA_ERROR("order streams", cudaEventRecord(slot->free, stream_of(t, op))));
    slot->was_used = true;
    o->buffer = NULL;
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

static enum status nccl_collective(void *self, uint32_t op, enum element e, void *data, size_t n)
{
    enum status st;
    struct nccl *t = self;
    const struct nccl_span *span = nccl_span_of(t, op);
    cudaStream_t stream = stream_of(t, op);
    PASS(endpoints_count_call(&t->links, op));
    PASS(nccl_reach(t, op));
    TRY(after_computation(t, stream));
    if (endpoints_op(&t->links, op)->calls == 1)
        TRY(nccl_record(span->begin, stream));
    TRY(nccl_collect(t, op, e, data, n));
    TRY(nccl_record(span->end, stream));
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

/* What op has left for its user. */
static enum status arrived(struct nccl *t, uint32_t op, const void **data)
{
    struct link_op *o = endpoints_op(&t->links, op);
    const struct nccl_slot *slot = o->buffer;
    if (op_is_collective(&t->links.program->op[op]))
        o->posted = false;
    if (data)
        *data = slot ? slot->data : NULL;
    return STATUS_OK;
}

/* It is queued, or a receive that is queued now. */
static enum status may_wait(struct nccl *t, uint32_t op)
{
    const struct link_op *o = endpoints_op(&t->links, op);
    PASS(nccl_failure(t));
    PASS(endpoints_may_wait(&t->links, op));
    PASS(nccl_reach(t, op));
    return o->posted || o->complete || o->calls > 0
               ? STATUS_OK
               : endpoints_misuse(&t->links, op, "waited for, but not posted");
}

static enum status nccl_follow(void *self, uint32_t op, const void **data)
{
    struct nccl *t = self;
    PASS(may_wait(t, op));
    PASS(
        CUDA_ERROR("order streams", cudaStreamWaitEvent(CUDA_STREAM, nccl_span_of(t, op)->end, 0)));
    return arrived(t, op, data);
}

/* The first looks follow each other at once: most waits on a GPU are short. */
static enum status nccl_wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum { AT_ONCE = 200 };
    enum status st;
    struct nccl *t = self;
    double deadline_s = clock_now() + timeout_s;
    cudaError_t e;
    PASS(may_wait(t, op));
    for (size_t looks = 0; (e = cudaEventQuery(nccl_span_of(t, op)->end)) == cudaErrorNotReady;
         looks++) {
        PASS(nccl_failure(t));
        if (clock_now() >= deadline_s)
            return endpoints_timed_out(&t->links, op, timeout_s);
        if (looks > AT_ONCE)
            clock_sleep_until(clock_now() + 2e-5);
    }
    TRY(CUDA_ERROR("wait", e));
    PASS(nccl_failure(t)); /* what was aborted is over, too */
    endpoints_op(&t->links, op)->complete = true;
    st = arrived(t, op, data);
out:
    return st == STATUS_OK ? st : endpoints_locate(&t->links, op, st);
}

static void nccl_release(void *self, uint32_t op)
{
    struct nccl *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    struct nccl_link *l = nccl_link_of(t, op);
    struct nccl_slot *slot = o->buffer;
    enum status st = CUDA_ERROR("release", cudaEventRecord(slot->free, CUDA_STREAM));
    slot->was_used = true;
    l->pool[l->free++] = slot;
    o->buffer = NULL;
    if (st != STATUS_OK)
        nccl_fail(t, endpoints_locate(&t->links, op, st));
}

/* NCCL does not say when the first byte of a message arrives: a RECV is its last. */
static void nccl_times(void *self, uint32_t op, double *start_s, double *end_s)
{
    struct nccl *t = self;
    const struct nccl_span *span = nccl_span_of(t, op);
    *end_s = cuda_clock_read(t->clock, span->end);
    *start_s =
        t->links.program->op[op].kind == OP_RECV ? *end_s : cuda_clock_read(t->clock, span->begin);
}

/* ---- barrier */

/* Rank 0 may have to say who has ended, but not while it lets all go on. */
static enum status nccl_barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct nccl *t = self;
    double deadline_s = clock_now() + timeout_s;
    TRY(nccl_failure(t));
    TRY(endpoints_next_step(&t->links));
    t->reached = (uint32_t)t->links.first;
    t->computed = 0;
    t->mark[0].recorded = t->mark[1].recorded = false;
    nccl_set_patience(t, timeout_s);
    TRY(cuda_clock_start(t->clock));
    TRY(star_gather(&t->star, t->links.step, deadline_s));
    nccl_set_telling(t, false);
    st = star_release(&t->star, t->links.step, ahead_s, deadline_s, start_s);
    nccl_set_telling(t, true);
out:
    return st == STATUS_IO ? nccl_judge(t, st) : st;
}

const struct transport transport_nccl = {
    .name = "nccl",
    .device_memory = true,
    .open = open_nccl,
    .close = close_nccl,
    .part = nccl_part,
    .send_buffer = nccl_send_buffer,
    .send = nccl_post_send,
    .collective = nccl_collective,
    .follow = nccl_follow,
    .wait = nccl_wait_op,
    .release = nccl_release,
    .times = nccl_times,
    .barrier = nccl_barrier,
};
