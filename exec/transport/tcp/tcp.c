#include "exec/transport/tcp/tcp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "exec/transport.h"
#include "exec/transport/tcp/socket.h"

/* ---- what threads tell each other */

/* Everyone looks again. The mutex is held. */
static void wake_all(struct tcp *t)
{
    pthread_cond_broadcast(&t->changed);
    pthread_cond_broadcast(&t->asked);
    for (size_t k = 0; k < t->links.n; k++)
        pthread_cond_broadcast(&t->link[k].posted);
}

void tcp_fail(struct tcp *t, enum status st, uint32_t op, uint32_t peer)
{
    char label[OP_LABEL];
    op_label(&t->links.program->op[op], label);
    pthread_mutex_lock(&t->mutex);
    if (t->failure == STATUS_OK && !t->stopping) {
        t->failure = st;
        snprintf(t->reason, sizeof t->reason, "rank %u: %s with rank %u: %s", t->links.rank, label,
                 peer, error_message());
        wake_all(t);
    }
    pthread_mutex_unlock(&t->mutex);
}

void tcp_complete(struct tcp *t, uint32_t op, double start_s, double end_s)
{
    pthread_mutex_lock(&t->mutex);
    endpoints_complete(&t->links, op, start_s, end_s);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

enum status tcp_expect(const struct tcp_head *h, const struct tcp_head *want)
{
    if (h->magic != want->magic)
        return error_set(STATUS_IO, "message with wrong magic 0x%08x", h->magic);
    if (h->kind != want->kind)
        return error_set(STATUS_IO, "message of kind %u, expected %u", h->kind, want->kind);
    if (h->tag != want->tag)
        return error_set(STATUS_IO, "message with tag %u, expected %u", h->tag, want->tag);
    if (h->step != want->step)
        return error_set(STATUS_IO, "message of step %u, expected %u", h->step, want->step);
    if (h->bytes != want->bytes)
        return error_set(STATUS_IO, "message of %llu bytes, expected %llu",
                         (unsigned long long)h->bytes, (unsigned long long)want->bytes);
    return STATUS_OK;
}

/* ---- open and close */

static enum status init_synchronisation(struct tcp *t)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return error_set(STATUS_NOMEM, "condition attributes");
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->changed, &attr);
    pthread_cond_init(&t->asked, NULL);
    for (size_t k = 0; k < t->links.n; k++)
        pthread_cond_init(&t->link[k].posted, NULL);
    pthread_condattr_destroy(&attr);
    t->synchronised = true;
    return STATUS_OK;
}

/* Slots of an incoming link with their memory; an outgoing one gets memory when it needs some. */
static enum status init_link(struct tcp *t, struct tcp_link *l, const struct link_end *end)
{
    *l = (struct tcp_link){.tcp = t, .fd = -1, .end = end, .credits = end->order->window};
    l->pool = calloc(end->room, sizeof *l->pool);
    if (!l->pool)
        return error_set(STATUS_NOMEM, "%zu buffers", end->room);
    for (; !end->outgoing && l->buffers < end->room; l->buffers++) {
        struct tcp_buffer *b = &l->pool[l->buffers];
        b->data = malloc(end->order->bytes + 1);
        if (!b->data)
            return error_set(STATUS_NOMEM, "%zu slots of %zu bytes", end->room, end->order->bytes);
        b->next = l->free;
        l->free = b;
    }
    return STATUS_OK;
}

static enum status init_links(struct tcp *t)
{
    enum status st = STATUS_OK;
    t->link = calloc(t->links.n + 1, sizeof *t->link);
    if (!t->link)
        return error_set(STATUS_NOMEM, "%zu links", t->links.n);
    for (size_t k = 0; k < t->links.n; k++)
        t->link[k].fd = -1;
    for (size_t k = 0; k < t->links.n; k++)
        TRY(init_link(t, &t->link[k], &t->links.end[k]));
out:
    return st;
}

static enum status init_rings(struct tcp *t)
{
    const struct endpoints *l = &t->links;
    t->neighbour = malloc((l->program->groups + 1) * sizeof *t->neighbour);
    t->stars = l->rank == 0 ? l->program->ranks : 1;
    t->star = malloc(t->stars * sizeof *t->star);
    if (!t->neighbour || !t->star)
        return error_set(STATUS_NOMEM, "%zu groups", l->program->groups);
    for (size_t k = 0; k < t->stars; k++)
        t->star[k] = -1;
    for (; t->neighbours < l->program->groups; t->neighbours++) {
        const struct link_ring *ring = &l->ring[t->neighbours];
        t->neighbour[t->neighbours] = (struct tcp_ring){-1, -1, {0, 0}};
        if (t->delay && ring->ranks > 1)
            t->neighbour[t->neighbours].delay = t->delay[ring->previous];
    }
    t->request = calloc(l->collectives + 1, sizeof *t->request);
    if (!t->request)
        return error_set(STATUS_NOMEM, "%zu collectives", l->collectives);
    return STATUS_OK;
}

static enum status start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    int error = pthread_create(thread, NULL, body, argument);
    return error ? error_set(STATUS_NOMEM, "thread: %s", strerror(error)) : STATUS_OK;
}

static enum status start_threads(struct tcp *t)
{
    enum status st = STATUS_OK;
    for (size_t k = 0; k < t->links.n; k++) {
        struct tcp_link *l = &t->link[k];
        TRY(start_thread(&l->thread, l->end->outgoing ? tcp_writer : tcp_reader, l));
        l->running = true;
    }
    if (t->links.collectives > 0) {
        TRY(start_thread(&t->collector, tcp_collector, t));
        t->collecting = true;
    }
out:
    return st;
}

static void stop_threads(struct tcp *t)
{
    if (!t->synchronised)
        return;
    pthread_mutex_lock(&t->mutex);
    t->stopping = true;
    wake_all(t);
    pthread_mutex_unlock(&t->mutex);
    tcp_hang_up(t);
    for (size_t k = 0; k < t->links.n; k++)
        if (t->link[k].running)
            pthread_join(t->link[k].thread, NULL);
    if (t->collecting)
        pthread_join(t->collector, NULL);
    for (size_t k = 0; k < t->links.n; k++)
        pthread_cond_destroy(&t->link[k].posted);
    pthread_cond_destroy(&t->asked);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->mutex);
}

static void close_tcp(void *self)
{
    struct tcp *t = self;
    if (!t)
        return;
    stop_threads(t);
    tcp_disconnect(t);
    for (size_t k = 0; t->link && k < t->links.n; k++) {
        for (size_t i = 0; i < t->link[k].buffers; i++)
            free(t->link[k].pool[i].data);
        free(t->link[k].pool);
    }
    free(t->link);
    free(t->neighbour);
    free(t->star);
    free(t->request);
    free(t->chunk.data);
    endpoints_free(&t->links);
    free(t);
}

static enum status open_tcp(const struct program *p, uint32_t rank, const struct rendezvous *r,
                            void **self)
{
    enum status st = STATUS_OK;
    struct tcp *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "transport");
    t->delay = r->delay;
    TRY(endpoints_init(p, rank, &t->links));
    TRY(init_links(t));
    TRY(init_rings(t));
    TRY(tcp_connect(t, r));
    TRY(init_synchronisation(t));
    TRY(start_threads(t));
    *self = t;
    t = NULL;
out:
    close_tcp(t);
    return st;
}

/* ---- communication */

static struct link_op *own(struct tcp *t, uint32_t op)
{
    return endpoints_op(&t->links, op);
}

static struct tcp_link *link_of(struct tcp *t, uint32_t op)
{
    return &t->link[endpoints_end(&t->links, op)];
}

static enum status send_buffer(void *self, uint32_t op, void **data)
{
    struct tcp *t = self;
    struct tcp_link *l = link_of(t, op);
    struct link_op *o = own(t, op);
    if (o->posted || o->complete || o->buffer)
        return endpoints_misuse(&t->links, op, "sent twice in a step");
    pthread_mutex_lock(&t->mutex);
    struct tcp_buffer *b = tcp_take(l);
    pthread_mutex_unlock(&t->mutex);
    if (!b) { /* all memory is on its way; there are at most as many as messages in a step */
        b = &l->pool[l->buffers];
        b->data = malloc(l->end->order->bytes + 1);
        if (!b->data)
            return error_set(STATUS_NOMEM, "%zu bytes to send", l->end->order->bytes);
        l->buffers++;
    }
    o->buffer = b;
    *data = b->data;
    return STATUS_OK;
}

static enum status post_send(void *self, uint32_t op)
{
    struct tcp *t = self;
    struct tcp_link *l = link_of(t, op);
    if (!own(t, op)->buffer)
        return endpoints_misuse(&t->links, op, "sent without a buffer");
    if (l->end->order->send[l->posts] != op)
        return endpoints_misuse(&t->links, op, "sent out of order");
    l->posts = (l->posts + 1) % l->end->order->n;
    pthread_mutex_lock(&t->mutex);
    own(t, op)->posted = true;
    l->ready++;
    pthread_cond_signal(&l->posted);
    pthread_mutex_unlock(&t->mutex);
    return STATUS_OK;
}

static enum status collective(void *self, uint32_t op, float *data, size_t n)
{
    struct tcp *t = self;
    pthread_mutex_lock(&t->mutex);
    enum status st = endpoints_call(&t->links, op);
    if (st == STATUS_OK) {
        t->request[t->requests++ % t->links.collectives] = (struct tcp_request){op, data, n};
        pthread_cond_signal(&t->asked);
    }
    pthread_mutex_unlock(&t->mutex);
    return st;
}

static enum status wait_op(void *self, uint32_t op, double timeout_s, const void **data);

/* In the calling thread, unless others are still under way. */
static enum status call(void *self, uint32_t op, float *data, size_t n, double timeout_s)
{
    enum status st;
    struct tcp *t = self;
    const struct tcp_request r = {op, data, n};
    pthread_mutex_lock(&t->mutex);
    bool idle = t->served == t->requests && t->failure == STATUS_OK;
    st = idle ? endpoints_call(&t->links, op) : STATUS_OK;
    pthread_mutex_unlock(&t->mutex);
    TRY(st);
    if (!idle)
        TRY(collective(self, op, data, n));
    else if (tcp_serve(t, &r, false, clock_now() + timeout_s) != STATUS_OK)
        error_set(STATUS_EXTERNAL, "see wait()"); /* which has the reason that was first */
    TRY(wait_op(self, op, timeout_s, NULL));
out:
    return st;
}

static enum status wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum status st;
    struct tcp *t = self;
    struct link_op *o = own(t, op);
    const struct tcp_buffer *b;
    double deadline_s = clock_now() + timeout_s;
    struct timespec limit = {.tv_sec = (time_t)floor(deadline_s)};
    limit.tv_nsec = (long)((deadline_s - floor(deadline_s)) * 1e9);

    double there_s = 0;
    pthread_mutex_lock(&t->mutex);
    int error = 0;
    TRY(endpoints_may_wait(&t->links, op));
    while (!o->complete && t->failure == STATUS_OK && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&t->changed, &t->mutex, &limit);
    if (o->complete) {
        o->posted = false;
        b = o->buffer;
        there_s = o->end_s;
        if (data)
            *data = b ? b->data : NULL;
    } else if (t->failure != STATUS_OK) {
        st = error_set(t->failure, "%s", t->reason);
    } else {
        st = endpoints_timed_out(&t->links, op, timeout_s);
    }
out:
    pthread_mutex_unlock(&t->mutex);
    if (t->delay) /* here already, but not yet there */
        clock_sleep_until(there_s);
    return st;
}

static void release(void *self, uint32_t op)
{
    struct tcp *t = self;
    struct link_op *o = own(t, op);
    struct tcp_link *l = link_of(t, op);
    struct tcp_buffer *b = o->buffer;
    o->buffer = NULL;
    enum status st = tcp_grant(l, b);
    if (st != STATUS_OK)
        tcp_fail(t, st, op, l->end->peer);
}

static void times(void *self, uint32_t op, double *start_s, double *end_s)
{
    *start_s = own(self, op)->start_s;
    *end_s = own(self, op)->end_s;
}

/* ---- barrier: everyone tells rank 0, which answers with the moment to start */

struct start {
    struct tcp_head head;
    double moment_s;
};

static enum status check_star(struct tcp *t, uint32_t peer, enum status st)
{
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u: barrier of step %u with rank %u",
                                           t->links.rank, t->links.step, peer);
}

static enum status gather(struct tcp *t, const struct tcp_head *want, double deadline_s,
                          double *start_s)
{
    enum status st = STATUS_OK;
    uint32_t peer = 1;
    struct start answer = {*want, 0};
    for (; peer < t->stars; peer++) {
        struct tcp_head h;
        TRY(socket_read(t->star[peer], &h, sizeof h, deadline_s));
        TRY(tcp_expect(&h, want));
    }
    /* far enough ahead for everyone to hear of it */
    answer.moment_s = clock_now() + 3e-4 + 3e-5 * (double)t->stars;
    for (peer = 1; peer < t->stars; peer++)
        TRY(socket_write(t->star[peer], &answer, sizeof answer, deadline_s));
    *start_s = answer.moment_s;
out:
    return check_star(t, peer, st);
}

static enum status arrive(struct tcp *t, const struct tcp_head *head, double deadline_s,
                          double *start_s)
{
    enum status st = STATUS_OK;
    struct start answer;
    TRY(socket_write(t->star[0], head, sizeof *head, deadline_s));
    TRY(socket_read(t->star[0], &answer, sizeof answer, deadline_s));
    TRY(tcp_expect(&answer.head, head));
    *start_s = t->clocks_differ ? clock_now() : answer.moment_s;
out:
    return check_star(t, 0, st);
}

static enum status barrier(void *self, double timeout_s, double *start_s)
{
    struct tcp *t = self;
    double deadline_s = clock_now() + timeout_s;
    pthread_mutex_lock(&t->mutex);
    /* before the others hear of our arrival: from then on they may send */
    enum status st = endpoints_next_step(&t->links);
    t->requests = t->served = 0;
    pthread_mutex_unlock(&t->mutex);
    if (st != STATUS_OK)
        return st;
    struct tcp_head head = {.magic = TCP_MAGIC, .kind = TCP_BARRIER, .step = t->links.step};
    return t->links.rank == 0 ? gather(t, &head, deadline_s, start_s)
                              : arrive(t, &head, deadline_s, start_s);
}

const struct transport transport_tcp = {
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .send_buffer = send_buffer,
    .send = post_send,
    .collective = collective,
    .call = call,
    .wait = wait_op,
    .release = release,
    .times = times,
    .barrier = barrier,
};
