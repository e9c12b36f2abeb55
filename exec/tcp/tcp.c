#include "exec/tcp/tcp.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/tcp/socket.h"
#include "exec/transport.h"

/* ---- what threads tell each other */

/* Everyone looks again. The mutex is held. */
static void wake_all(struct tcp *t)
{
    pthread_cond_broadcast(&t->changed);
    pthread_cond_broadcast(&t->asked);
    for (size_t k = 0; k < t->links; k++)
        pthread_cond_broadcast(&t->link[k].posted);
}

void tcp_fail(struct tcp *t, enum status st, uint32_t op, uint32_t peer)
{
    char label[OP_LABEL];
    op_label(&t->program->op[op], label);
    pthread_mutex_lock(&t->mutex);
    if (t->failure == STATUS_OK && !t->stopping) {
        t->failure = st;
        snprintf(t->reason, sizeof t->reason, "rank %u: %s with rank %u: %s", t->rank, label, peer,
                 error_message());
        wake_all(t);
    }
    pthread_mutex_unlock(&t->mutex);
}

void tcp_complete(struct tcp *t, uint32_t op, double start_s, double end_s)
{
    struct tcp_op *o = &t->op[op - t->first];
    pthread_mutex_lock(&t->mutex);
    o->start_s = start_s;
    o->end_s = end_s;
    o->complete = true;
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
    for (size_t k = 0; k < t->links; k++)
        pthread_cond_init(&t->link[k].posted, NULL);
    pthread_condattr_destroy(&attr);
    t->synchronised = true;
    return STATUS_OK;
}

/* Slots of an incoming link with their memory; an outgoing one gets memory when it needs some. */
static enum status init_link(struct tcp *t, struct tcp_link *l, uint32_t channel)
{
    const struct program_channel *c = &t->program->channel[channel];
    const struct channel_order *order = &t->order[channel];
    *l = (struct tcp_link){.tcp = t, .fd = -1, .order = order};
    l->outgoing = c->from == t->rank;
    l->peer = l->outgoing ? c->to : c->from;
    l->credits = order->window;
    size_t room = l->outgoing ? order->n : order->window;
    l->pool = calloc(room, sizeof *l->pool);
    if (!l->pool)
        return error_set(STATUS_NOMEM, "%zu buffers", room);
    for (; !l->outgoing && l->buffers < room; l->buffers++) {
        struct tcp_buffer *b = &l->pool[l->buffers];
        b->data = malloc(order->bytes + 1);
        if (!b->data)
            return error_set(STATUS_NOMEM, "%zu slots of %zu bytes", room, order->bytes);
        b->next = l->free;
        l->free = b;
    }
    return STATUS_OK;
}

static enum status init_links(struct tcp *t)
{
    enum status st = STATUS_OK;
    const struct program *p = t->program;
    size_t n = 0;
    for (size_t c = 0; c < p->channels; c++)
        n += p->channel[c].from == t->rank || p->channel[c].to == t->rank;
    t->link_of = malloc((p->channels + 1) * sizeof *t->link_of);
    t->link = calloc(n + 1, sizeof *t->link);
    if (!t->link_of || !t->link)
        return error_set(STATUS_NOMEM, "%zu links", n);
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

static enum status init_rings(struct tcp *t)
{
    const struct program *p = t->program;
    size_t collectives = 0, largest = 0;
    t->ring = calloc(p->groups + 1, sizeof *t->ring);
    t->stars = t->rank == 0 ? p->ranks : 1;
    t->star = malloc(t->stars * sizeof *t->star);
    if (!t->ring || !t->star)
        return error_set(STATUS_NOMEM, "%zu groups", p->groups);
    for (size_t k = 0; k < t->stars; k++)
        t->star[k] = -1;
    for (size_t g = 0; g < p->groups; g++) {
        size_t n = p->group_start[g + 1] - p->group_start[g];
        t->ring[g].next = t->ring[g].previous = -1;
        for (size_t i = 0; i < n; i++)
            if (p->member[p->group_start[g] + i] == t->rank)
                t->ring[g] = (struct tcp_ring){n, i, -1, -1};
    }
    for (size_t i = t->first; i < t->first + t->ops; i++) {
        if (p->op[i].kind != OP_ALLREDUCE)
            continue;
        collectives++;
        size_t ranks = t->ring[p->op[i].peer].ranks;
        if (ranks == 0)
            return error_set(STATUS_INVALID, "rank %u is no member of group %u", t->rank,
                             p->op[i].peer);
        size_t n = (size_t)p->op[i].bytes / 4 / ranks + 1;
        largest = n > largest ? n : largest;
    }
    t->request = calloc(collectives + 1, sizeof *t->request);
    t->chunk = malloc((largest + 1) * sizeof *t->chunk);
    if (!t->request || !t->chunk)
        return error_set(STATUS_NOMEM, "%zu collectives", collectives);
    t->collecting = collectives > 0; /* until start_threads(): wanted */
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
    bool collects = t->collecting;
    t->collecting = false;
    for (size_t k = 0; k < t->links; k++) {
        struct tcp_link *l = &t->link[k];
        TRY(start_thread(&l->thread, l->outgoing ? tcp_writer : tcp_reader, l));
        l->running = true;
    }
    if (collects) {
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
    for (size_t k = 0; k < t->links; k++)
        if (t->link[k].running)
            pthread_join(t->link[k].thread, NULL);
    if (t->collecting)
        pthread_join(t->collector, NULL);
    for (size_t k = 0; k < t->links; k++)
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
    for (size_t k = 0; k < t->links; k++) {
        for (size_t i = 0; i < t->link[k].buffers; i++)
            free(t->link[k].pool[i].data);
        free(t->link[k].pool);
    }
    free(t->link);
    free(t->link_of);
    free(t->ring);
    free(t->star);
    free(t->request);
    free(t->chunk);
    free(t->op);
    channel_orders_free(t->order, t->program->channels);
    free(t);
}

static enum status open_tcp(const struct program *p, uint32_t rank, const struct rendezvous *r,
                            void **self)
{
    enum status st = STATUS_OK;
    struct tcp *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(STATUS_NOMEM, "transport");
    t->program = p;
    t->rank = rank;
    t->first = p->op_start[rank];
    t->ops = p->op_start[rank + 1] - t->first;
    t->step = UINT32_MAX;
    t->op = calloc(t->ops + 1, sizeof *t->op);
    if (!t->op) {
        st = error_set(STATUS_NOMEM, "%zu ops", t->ops);
        goto out;
    }
    TRY(channel_orders(p, &t->order));
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

static struct tcp_op *own(struct tcp *t, uint32_t op)
{
    return &t->op[op - t->first];
}

static struct tcp_link *link_of(struct tcp *t, uint32_t op)
{
    return &t->link[t->link_of[t->program->op[op].channel]];
}

static enum status misuse(const struct tcp *t, uint32_t op, const char *what)
{
    char label[OP_LABEL];
    return error_set(STATUS_INVALID, "rank %u: %s: %s", t->rank,
                     op_label(&t->program->op[op], label), what);
}

static enum status send_buffer(void *self, uint32_t op, void **data)
{
    struct tcp *t = self;
    struct tcp_link *l = link_of(t, op);
    struct tcp_op *o = own(t, op);
    if (o->posted || o->complete || o->buffer)
        return misuse(t, op, "sent twice in a step");
    pthread_mutex_lock(&t->mutex);
    struct tcp_buffer *b = tcp_take(l);
    pthread_mutex_unlock(&t->mutex);
    if (!b) { /* all memory is on its way; there are at most as many as messages in a step */
        b = &l->pool[l->buffers];
        b->data = malloc(l->order->bytes + 1);
        if (!b->data)
            return error_set(STATUS_NOMEM, "%zu bytes to send", l->order->bytes);
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
        return misuse(t, op, "sent without a buffer");
    if (l->order->send[l->posts] != op)
        return misuse(t, op, "sent out of order");
    l->posts = (l->posts + 1) % l->order->n;
    pthread_mutex_lock(&t->mutex);
    own(t, op)->posted = true;
    l->ready++;
    pthread_cond_signal(&l->posted);
    pthread_mutex_unlock(&t->mutex);
    return STATUS_OK;
}

static enum status allreduce(void *self, uint32_t op, float *data, size_t n)
{
    struct tcp *t = self;
    if (n != (size_t)t->program->op[op].bytes / 4)
        return misuse(t, op, "the device's gradients are not as many as the program says");
    if (own(t, op)->posted)
        return misuse(t, op, "reduced twice in a step");
    pthread_mutex_lock(&t->mutex);
    own(t, op)->posted = true;
    t->request[t->requests++] = (struct tcp_request){op, data, n};
    pthread_cond_signal(&t->asked);
    pthread_mutex_unlock(&t->mutex);
    return STATUS_OK;
}

static enum status timed_out(const struct tcp *t, uint32_t op, double timeout_s)
{
    char label[OP_LABEL];
    const struct program_op *o = &t->program->op[op];
    return error_set(STATUS_EXTERNAL, "rank %u: %s with %s %u: nothing for %g s", t->rank,
                     op_label(o, label), o->kind == OP_ALLREDUCE ? "group" : "rank", o->peer,
                     timeout_s);
}

static enum status wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum status st = STATUS_OK;
    struct tcp *t = self;
    struct tcp_op *o = own(t, op);
    double deadline_s = clock_now() + timeout_s;
    struct timespec limit = {.tv_sec = (time_t)floor(deadline_s)};
    limit.tv_nsec = (long)((deadline_s - floor(deadline_s)) * 1e9);

    pthread_mutex_lock(&t->mutex);
    int error = 0;
    while (!o->complete && t->failure == STATUS_OK && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&t->changed, &t->mutex, &limit);
    if (o->complete) {
        if (data)
            *data = o->buffer ? o->buffer->data : NULL;
    } else if (t->failure != STATUS_OK) {
        st = error_set(t->failure, "%s", t->reason);
    } else {
        st = timed_out(t, op, timeout_s);
    }
    pthread_mutex_unlock(&t->mutex);
    return st;
}

static void release(void *self, uint32_t op)
{
    struct tcp *t = self;
    struct tcp_op *o = own(t, op);
    struct tcp_link *l = link_of(t, op);
    struct tcp_buffer *b = o->buffer;
    o->buffer = NULL;
    enum status st = tcp_grant(l, b);
    if (st != STATUS_OK)
        tcp_fail(t, st, op, l->peer);
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
                           : error_context(st, "rank %u: barrier of step %u with rank %u", t->rank,
                                           t->step, peer);
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
    bool first = t->step == UINT32_MAX;
    for (size_t i = 0; i < t->ops; i++) {
        struct tcp_op *o = &t->op[i];
        if (!first && !op_computes(&t->program->op[t->first + i]) && (!o->complete || o->buffer)) {
            pthread_mutex_unlock(&t->mutex);
            return misuse(t, (uint32_t)(t->first + i), "not complete or not released at barrier");
        }
        *o = (struct tcp_op){0};
    }
    t->requests = t->served = 0;
    t->step++; /* before the others hear of our arrival: from then on they may send */
    pthread_mutex_unlock(&t->mutex);
    struct tcp_head head = {.magic = TCP_MAGIC, .kind = TCP_BARRIER, .step = t->step};
    return t->rank == 0 ? gather(t, &head, deadline_s, start_s)
                        : arrive(t, &head, deadline_s, start_s);
}

const struct transport transport_tcp = {
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .send_buffer = send_buffer,
    .send = post_send,
    .allreduce = allreduce,
    .wait = wait_op,
    .release = release,
    .times = times,
    .barrier = barrier,
};
