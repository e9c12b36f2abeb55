/* The local transport: messages change hands in one process. */
#include "exec/transport/local/local.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/condition.h"

/* How far ahead the common start lies: everyone must have been woken. */
static const double ahead_s = 2e-4, ahead_per_rank_s = 2e-5;

/* ---- open and close */

/* The collector ends before the rank leaves: others may still read its array until then. */
void local_close(void *self)
{
    struct local *t = self;
    if (!t)
        return;
    struct local_hub *h = t->hub;
    uint32_t rank = t->links.rank;
    local_lock(h);
    t->stopping = true;
    local_wake(h, rank);
    pthread_cond_signal(&t->asked);
    pthread_mutex_unlock(&h->mutex);
    if (t->collecting)
        pthread_join(t->collector, NULL);
    local_leave(h, rank);
    for (size_t i = 0; t->mark && i < t->links.ops; i++)
        h->memory->free_mark(t->mark[i]);
    for (size_t i = 0; t->begin && i < t->links.ops; i++)
        h->memory->free_mark(t->begin[i]);
    if (h->memory->free_queue)
        h->memory->free_queue(t->arrivals);
    pthread_cond_destroy(&t->asked);
    endpoints_free(&t->links);
    free(t->mark);
    free(t->begin);
    free(t->calls);
    free(t);
}

static enum status init_marks(struct local *t)
{
    const struct program *p = t->hub->program;
    const struct local_memory *m = t->hub->memory;
    PASS(ARRAY_NEW(t->mark, t->links.ops));
    PASS(ARRAY_NEW(t->begin, t->links.ops));
    PASS(ARRAY_NEW(t->calls, p->groups));
    for (size_t i = 0; i < t->links.ops; i++) {
        const struct program_op *o = &p->op[t->links.first + i];
        if (!op_computes(o))
            PASS(m->new_mark(&t->mark[i]));
        if (op_is_collective(o))
            PASS(m->new_mark(&t->begin[i]));
    }
    return m->new_queue ? m->new_queue(&t->arrivals) : STATUS_OK;
}

static enum status start_collector(struct local *t)
{
    if (t->links.collectives == 0)
        return STATUS_OK;
    int error = pthread_create(&t->collector, NULL, local_collector, t);
    t->collecting = error == 0;
    return error ? error_set(STATUS_NOMEM, "thread: %s", strerror(error)) : STATUS_OK;
}

/* Another buffer of a channel; it belongs to the hub at once. */
static enum status new_buffer(struct local_hub *h, size_t bytes, struct local_buffer **out)
{
    enum status st;
    struct local_buffer *b;
    TRY(ARRAY_NEW(b, 1));
    if (!(b->data = h->memory->allocate(bytes)))
        FAIL(STATUS_NOMEM, "out of memory: buffer of %zu bytes to send", bytes);
    TRY(h->memory->new_mark(&b->full));
    local_lock(h);
    st = ARRAY_ROOM(h->buffer, h->buffers);
    if (st == STATUS_OK)
        h->buffer[h->buffers++] = *out = b;
    pthread_mutex_unlock(&h->mutex);
    b = st == STATUS_OK ? NULL : b;
out:
    if (b) {
        h->memory->release(b->data);
        h->memory->free_mark(b->full);
        h->memory->free_mark(b->empty);
    }
    free(b);
    return st;
}

/* Where things are queued nothing is allocated during steps: there is a buffer for every message of
 * a step, since a host may be that far ahead of others. */
static enum status make_buffers(struct local *t)
{
    enum status st = STATUS_OK;
    struct local_hub *h = t->hub;
    struct local_buffer *b;
    for (size_t k = 0; k < t->links.n && h->memory->new_queue; k++) {
        const struct link_end *end = &t->links.end[k];
        for (size_t i = 0; end->outgoing && i < end->order->n; i++) {
            TRY(new_buffer(h, end->order->bytes, &b));
            b->next = h->free[end->channel];
            h->free[end->channel] = b;
        }
    }
out:
    return st;
}

enum status local_open(const struct program *p, uint32_t rank, const struct rendezvous *r,
                       void **self)
{
    enum status st = STATUS_OK;
    struct local_hub *hub = r->shared;
    struct local *t = NULL;
    if (!hub || hub->program != p)
        return error_set(STATUS_INVALID,
                         "rank %u: --transport local needs all ranks in one process", rank);
    TRY(ARRAY_NEW(t, 1));
    pthread_cond_init(&t->asked, NULL);
    t->hub = hub;
    t->links.rank = rank;
    TRY(endpoints_init(p, rank, r, &t->links));
    t->clock = r->clock;
    t->timeout_s = r->timeout_s;
    TRY(init_marks(t));
    TRY(hub->memory->where(&t->memory));
    if (!hub->rank[rank].mark)
        TRY(hub->memory->new_mark(&hub->rank[rank].mark));
    TRY(make_buffers(t));
    TRY(start_collector(t));
    MOVE(self, t);
out:
    local_close(t);
    return st;
}

/* ---- messages */

/* A buffer that the receiver has given back is packed again only after it has been read, which on a
 * GPU may still lie ahead. */
enum status local_send_buffer(void *self, uint32_t op, void **data)
{
    struct local *t = self;
    struct local_hub *h = t->hub;
    struct link_op *o = endpoints_op(&t->links, op);
    uint32_t channel = h->program->op[op].channel;
    PASS(endpoints_may_pack(&t->links, op));
    local_lock(h);
    struct local_buffer *b = h->free[channel];
    if (b)
        h->free[channel] = b->next;
    pthread_mutex_unlock(&h->mutex);
    if (!b)
        PASS(new_buffer(h, t->links.order[channel].bytes, &b));
    o->buffer = b;
    if (b->was_used)
        PASS(h->memory->follow(b->empty));
    *data = b->data;
    return STATUS_OK;
}

/* The buffer changes hands: that is all there is to a message. */
enum status local_send(void *self, uint32_t op)
{
    struct local *t = self;
    struct local_hub *h = t->hub;
    struct link_op *o = endpoints_op(&t->links, op);
    struct local_buffer *b = o->buffer;
    double now_s = clock_now();
    PASS(endpoints_post(&t->links, op));
    PASS(h->memory->record(b->full));
    PASS(h->memory->record(t->mark[op - t->links.first]));
    o->buffer = NULL;
    endpoints_complete(&t->links, op, now_s, now_s);
    local_lock(h);
    h->message[op] = (struct local_message){b, now_s};
    local_wake(h, h->program->op[op].peer);
    pthread_mutex_unlock(&h->mutex);
    return STATUS_OK;
}

/* The mark comes first: whoever takes the buffer from the list must find it recorded. */
void local_release(void *self, uint32_t op)
{
    struct local *t = self;
    struct local_hub *h = t->hub;
    struct link_op *o = endpoints_op(&t->links, op);
    struct local_buffer *b = o->buffer;
    enum status st = h->memory->record(b->empty);
    b->was_used = true;
    o->buffer = NULL;
    local_lock(h);
    if (st != STATUS_OK)
        endpoints_fail(&t->links, st, op, h->program->op[op].peer);
    struct local_buffer **list = &h->free[h->program->op[op].channel];
    b->next = *list;
    *list = b;
    pthread_mutex_unlock(&h->mutex);
}

/* ---- collectives */

enum status local_collective(void *self, uint32_t op, enum element e, void *data, size_t n)
{
    enum status st;
    struct local *t = self;
    local_lock(t->hub);
    TRY(t->hub->memory->record(t->mark[op - t->links.first]));
    TRY(endpoints_call(&t->links, op, e, data, n));
    pthread_cond_signal(&t->asked);
out:
    pthread_mutex_unlock(&t->hub->mutex);
    return st;
}

/* In the calling thread, unless others are still under way; of the host's memory alone. */
static enum status local_call_here(void *self, uint32_t op, enum element e, void *data, size_t n,
                                   double timeout_s)
{
    struct local *t = self;
    const struct link_call c = {op, e, data, n};
    enum status st = STATUS_OK;
    local_lock(t->hub);
    bool idle = !endpoints_next_call(&t->links) && t->links.failure == STATUS_OK;
    bool over = idle && (st = endpoints_count_call(&t->links, op)) == STATUS_OK &&
                local_serve(t, &c, false, clock_now() + timeout_s);
    if (over)
        endpoints_op(&t->links, op)->posted = false;
    pthread_mutex_unlock(&t->hub->mutex);
    if (over || st != STATUS_OK)
        return st;
    if (!idle)
        PASS(local_collective(self, op, e, data, n));
    return local_wait(self, op, timeout_s, NULL);
}

/* ---- waiting */

/* The message is the receiver's; when it arrives, the device will know. */
static enum status take_message(const struct local *t, uint32_t op, struct local_message *m)
{
    const struct local_memory *memory = t->hub->memory;
    struct link_op *o = endpoints_op(&t->links, op);
    o->buffer = m->buffer;
    m->buffer = NULL;
    endpoints_complete(&t->links, op, m->sent_s, fmax(m->sent_s, clock_now()));
    const struct local_buffer *b = o->buffer;
    return memory->record_after
               ? memory->record_after(t->arrivals, b->full, t->mark[op - t->links.first])
               : STATUS_OK;
}

/* Look at what the op needs: complete, not yet, or never. The mutex is held. */
static enum status local_check_op(struct local *t, uint32_t op)
{
    struct local_hub *h = t->hub;
    const struct program_op *p = &h->program->op[op];
    struct link_op *o = endpoints_op(&t->links, op);
    if (o->complete)
        return STATUS_OK;
    if (p->kind == OP_RECV && h->message[p->match].buffer)
        return take_message(t, op, &h->message[p->match]);
    enum status st = endpoints_failure(&t->links);
    if (st == STATUS_OK && !op_is_collective(p) && h->rank[p->peer].left)
        return endpoints_locate(&t->links, op, error_set(STATUS_IO, "rank %u has exited", p->peer));
    return st;
}

/* Until something changes or the deadline; false: that has passed. The mutex is held. */
static bool wait_for_change(struct local *t, double deadline_s)
{
    return local_sleep(t->hub, t->links.rank, deadline_s);
}

/* For the other hosts to have done, or queued, what the op needs. */
static enum status wait_for_hosts(struct local *t, uint32_t op, double deadline_s, double timeout_s)
{
    enum status st;
    const struct link_op *o = endpoints_op(&t->links, op);
    bool in_time = true;
    PASS(endpoints_may_wait(&t->links, op));
    local_lock(t->hub);
    while ((st = local_check_op(t, op)) == STATUS_OK && !o->complete && in_time)
        in_time = wait_for_change(t, deadline_s);
    if (st == STATUS_OK && !o->complete)
        st = endpoints_timed_out(&t->links, op, timeout_s);
    pthread_mutex_unlock(&t->hub->mutex);
    return st;
}

/* What has been queued has happened as well: on the host it has. */
static enum status local_wait_mark(struct local *t, uint32_t op, double deadline_s,
                                   double timeout_s)
{
    enum { AT_ONCE = 200 };
    void *mark = t->mark[op - t->links.first];
    bool happened = false;
    for (size_t looks = 0; mark && !happened; looks++) {
        PASS(t->hub->memory->look(mark, &happened));
        if (!happened && clock_now() >= deadline_s)
            return endpoints_timed_out(&t->links, op, timeout_s);
        if (!happened && looks > AT_ONCE)
            clock_sleep_until(clock_now() + 2e-5);
    }
    return STATUS_OK;
}

/* What the calling thread queues next comes after the op, which other hosts have queued. */
enum status local_follow(void *self, uint32_t op, const void **data)
{
    struct local *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    PASS(wait_for_hosts(t, op, clock_now() + t->timeout_s, t->timeout_s));
    o->posted = false;
    const struct local_buffer *b = o->buffer;
    if (data)
        *data = b ? b->data : NULL;
    return t->hub->memory->follow(b ? b->full : t->mark[op - t->links.first]);
}

/* First for the hosts, then for what was queued on the device. */
enum status local_wait(void *self, uint32_t op, double timeout_s, const void **data)
{
    struct local *t = self;
    double deadline_s = clock_now() + timeout_s;
    PASS(wait_for_hosts(t, op, deadline_s, timeout_s));
    PASS(local_wait_mark(t, op, deadline_s, timeout_s));
    return local_follow(self, op, data);
}

/* A message is there when all of it is; who sends it is done as soon as it is packed. */
void local_times(void *self, uint32_t op, double *start_s, double *end_s)
{
    struct local *t = self;
    const struct local_memory *m = t->hub->memory;
    size_t k = op - t->links.first;
    endpoints_times(&t->links, op, start_s, end_s);
    if (!m->when || !t->clock)
        return;
    *end_s = m->when(t->clock, t->mark[k]);
    *start_s = t->begin[k] ? m->when(t->clock, t->begin[k]) : *end_s;
}

/* ---- barrier: the last one to arrive names the moment to start */

/* The first rank that has left, PROGRAM_NONE: none. */
static uint32_t any_leaver(const struct local_hub *h)
{
    for (uint32_t r = 0; r < h->program->ranks; r++)
        if (h->rank[r].left)
            return r;
    return PROGRAM_NONE;
}

static void open_barrier(struct local_hub *h)
{
    h->arrived = 0;
    h->barriers++;
    h->start_s = clock_now() + ahead_s + ahead_per_rank_s * (double)h->program->ranks;
    local_wake_all(h);
}

/* A rank that has left would be waited for in vain: it is looked for before every sleep. */
static enum status local_meet_all(struct local *t, double timeout_s, double *start_s)
{
    enum status st = STATUS_OK;
    struct local_hub *h = t->hub;
    double deadline_s = clock_now() + timeout_s;
    bool in_time = true;
    local_lock(h);
    uint64_t now = h->barriers;
    if (++h->arrived == h->program->ranks)
        open_barrier(h);
    while (h->barriers == now) {
        uint32_t gone = any_leaver(h);
        if (gone != PROGRAM_NONE)
            st = error_set(STATUS_IO,
                           "rank %u: barrier of step %u with rank %u: the peer has exited",
                           t->links.rank, t->links.step, gone);
        else if (!in_time)
            st = error_set(STATUS_EXTERNAL,
                           "rank %u: barrier of step %u: timeout: no message for %g s",
                           t->links.rank, t->links.step, timeout_s);
        if (st != STATUS_OK)
            goto out;
        in_time = wait_for_change(t, deadline_s);
    }
    *start_s = h->start_s;
out:
    pthread_mutex_unlock(&h->mutex);
    return st;
}

/* All ranks are open: what they have made for each other gets what only the other can give it. The
 * lists of free buffers are complete, and those of a channel its receiver's alone for now. */
static enum status meet_others(struct local *t)
{
    const struct local_hub *h = t->hub;
    for (size_t r = 0; r < h->program->ranks && h->memory->reach; r++) {
        int other = h->rank[r].memory;
        enum status st = other != t->memory ? h->memory->reach(other) : STATUS_OK;
        if (st != STATUS_OK)
            return error_context(st, "rank %u", t->links.rank);
    }
    for (size_t k = 0; k < t->links.n; k++)
        for (struct local_buffer *b = h->free[t->links.end[k].channel];
             b && !t->links.end[k].outgoing; b = b->next)
            PASS(h->memory->new_mark(&b->empty));
    return STATUS_OK;
}

enum status local_barrier(void *self, double timeout_s, double *start_s)
{
    enum status st;
    struct local *t = self;
    struct local_hub *h = t->hub;
    local_lock(h);
    h->rank[t->links.rank].memory = t->memory;
    st = endpoints_next_step(&t->links);
    pthread_mutex_unlock(&h->mutex);
    PASS(st);
    if (!t->has_met) {
        PASS(local_meet_all(t, timeout_s, start_s));
        PASS(meet_others(t));
        t->has_met = true;
    }
    if (h->memory->start && t->clock)
        PASS(h->memory->start(t->clock));
    return local_meet_all(t, timeout_s, start_s);
}

/* ---- the transport */

static enum status local_host_share(const struct program *p, void **shared)
{
    return local_share(p, &local_host, shared);
}

const struct transport transport_local = {
    .name = "local",
    .share = local_host_share,
    .unshare = local_unshare,
    .leave = local_leave,
    .open = local_open,
    .close = local_close,
    .send_buffer = local_send_buffer,
    .send = local_send,
    .collective = local_collective,
    .call = local_call_here,
    .wait = local_wait,
    .release = local_release,
    .times = local_times,
    .barrier = local_barrier,
};
