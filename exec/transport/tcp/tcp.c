/* The TCP transport: opening and closing, posting and waiting, and barriers over the star. */
#include "exec/transport/tcp/tcp.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/condition.h"
#include "exec/spin.h"
#include "exec/transport.h"

/* How far ahead the common start of a step lies: everybody must have heard of it. */
static const double ahead_s = 3e-4;

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
    pthread_mutex_lock(&t->mutex);
    if (!t->stopping && endpoints_fail(&t->links, st, op, peer))
        wake_all(t);
    pthread_mutex_unlock(&t->mutex);
}

void tcp_complete(struct tcp *t, uint32_t op, double start_s, double end_s)
{
    pthread_mutex_lock(&t->mutex);
    endpoints_complete(&t->links, op, start_s, end_s);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->mutex);
}

/* In this order: a foreign sender first, then a peer that runs something else. */
enum status tcp_expect(const struct tcp_head *h, const struct tcp_head *want)
{
    if (h->magic != want->magic)
        return error_set(STATUS_IO, "got data that is not a foreline message (magic number 0x%08x)",
                         h->magic);
    if (h->kind != want->kind)
        return error_set(STATUS_IO, "got a message of kind %u, expected kind %u", h->kind,
                         want->kind);
    if (h->tag != want->tag)
        return error_set(STATUS_IO, "got a message with tag %u, expected tag %u", h->tag,
                         want->tag);
    if (h->step != want->step)
        return error_set(STATUS_IO, "got a message of step %u, expected step %u", h->step,
                         want->step);
    if (h->bytes != want->bytes)
        return error_set(STATUS_IO, "got a message of %llu bytes, expected %llu bytes",
                         (unsigned long long)h->bytes, (unsigned long long)want->bytes);
    return STATUS_OK;
}

/* ---- open and close */

static enum status init_synchronisation(struct tcp *t)
{
    PASS(condition_init(&t->changed));
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->asked, NULL);
    for (size_t k = 0; k < t->links.n; k++)
        PASS(condition_init(&t->link[k].posted));
    t->synchronised = true;
    return STATUS_OK;
}

static enum status tcp_init_links(struct tcp *t)
{
    PASS(ARRAY_NEW(t->link, t->links.n));
    for (size_t k = 0; k < t->links.n; k++)
        t->link[k] = (struct tcp_link){
            .tcp = t, .fd = -1, .end = &t->links.end[k], .credits = t->links.end[k].order->window};
    for (size_t k = 0; k < t->links.n; k++)
        PASS(link_pool_init(&t->links.end[k], &t->link[k].pool));
    return STATUS_OK;
}

static enum status init_partners(struct tcp *t)
{
    const struct program *p = t->links.program;
    t->partners = p->groups > 0 ? p->group_start[p->groups] : 0;
    PASS(ARRAY_NEW(t->partner, t->partners));
    for (size_t k = 0; k < t->partners; k++)
        t->partner[k] = (struct tcp_partner){-1, -1};
    return STATUS_OK;
}

static enum status start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    int error = pthread_create(thread, NULL, body, argument);
    return error ? error_set(STATUS_NOMEM, "thread: %s", strerror(error)) : STATUS_OK;
}

/* A thread for each end of a channel, and one for collectives where there are any. */
static enum status start_threads(struct tcp *t)
{
    for (size_t k = 0; k < t->links.n; k++) {
        struct tcp_link *l = &t->link[k];
        PASS(start_thread(&l->thread, l->end->outgoing ? tcp_writer : tcp_reader, l));
        l->running = true;
    }
    if (t->links.collectives > 0) {
        PASS(start_thread(&t->collector, tcp_collector, t));
        t->collecting = true;
    }
    return STATUS_OK;
}

/* Sleeping threads are woken by conditions, those in system calls by shutting sockets down. */
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
    for (size_t k = 0; t->link && k < t->links.n; k++)
        link_pool_free(&t->link[k].pool);
    free(t->link);
    free(t->partner);
    star_close(&t->star);
    free(t->chunk.data);
    endpoints_free(&t->links);
    free(t);
}

/* Threads start when all connections are there: none has to handle one that is missing. */
static enum status open_tcp(const struct program *p, uint32_t rank, const struct rendezvous *r,
                            void **self)
{
    enum status st;
    struct tcp *t;
    TRY(ARRAY_NEW(t, 1));
    t->delay = r->delay;
    t->spins = spin_allowed(p->ranks);
    TRY(endpoints_init(p, rank, r, &t->links));
    t->links.gathers = r->delay ? 0 : 32 << 10; /* predictions of delays are those of the ring */
    TRY(tcp_init_links(t));
    TRY(init_partners(t));
    TRY(star_init(r, &t->star));
    TRY(tcp_connect(t, r));
    TRY(init_synchronisation(t));
    TRY(start_threads(t));
    MOVE(self, t);
out:
    close_tcp(t);
    return st;
}

/* ---- communication */

static struct tcp_link *tcp_link_of(struct tcp *t, uint32_t op)
{
    return &t->link[endpoints_end(&t->links, op)];
}

static enum status tcp_send_buffer(void *self, uint32_t op, void **data)
{
    enum status st;
    struct tcp *t = self;
    pthread_mutex_lock(&t->mutex);
    TRY(endpoints_may_pack(&t->links, op));
    TRY(link_pool_make(&tcp_link_of(t, op)->pool, data));
    endpoints_op(&t->links, op)->buffer = *data;
out:
    pthread_mutex_unlock(&t->mutex);
    return st;
}

static enum status tcp_post_send(void *self, uint32_t op)
{
    struct tcp *t = self;
    struct tcp_link *l = tcp_link_of(t, op);
    pthread_mutex_lock(&t->mutex);
    enum status st = endpoints_post(&t->links, op);
    if (st == STATUS_OK && l->ready++ == 0)
        tcp_write_here(l);
    if (l->ready > 0)
        pthread_cond_signal(&l->posted);
    pthread_mutex_unlock(&t->mutex);
    return st;
}

static enum status tcp_collective(void *self, uint32_t op, enum element e, void *data, size_t n)
{
    struct tcp *t = self;
    pthread_mutex_lock(&t->mutex);
    enum status st = endpoints_call(&t->links, op, e, data, n);
    pthread_cond_signal(&t->asked);
    pthread_mutex_unlock(&t->mutex);
    return st;
}

/* The network may have delivered a message before its emulated time: then that is waited for,
 * too. */
static enum status tcp_wait_op(void *self, uint32_t op, double timeout_s, const void **data)
{
    enum status st;
    struct tcp *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    double deadline_s = clock_now() + timeout_s, there_s = 0;
    bool in_time = true;
    tcp_pay_credits(t);
    pthread_mutex_lock(&t->mutex);
    TRY(endpoints_may_wait(&t->links, op));
    if (t->links.program->op[op].kind == OP_RECV && !o->complete)
        tcp_read_here(tcp_link_of(t, op), op);
    while (!o->complete && t->links.failure == STATUS_OK && in_time)
        in_time = condition_wait(&t->changed, &t->mutex, deadline_s);
    if (!o->complete) {
        TRY(endpoints_failure(&t->links));
        TRY(endpoints_timed_out(&t->links, op, timeout_s));
    }
    o->posted = false;
    there_s = o->end_s;
    if (data)
        *data = o->buffer;
out:
    pthread_mutex_unlock(&t->mutex);
    if (t->delay) /* here already, but not yet there */
        clock_sleep_until(there_s);
    return st;
}

/* In the calling thread, unless others are still under way. */
static enum status tcp_call_collective(void *self, uint32_t op, enum element e, void *data,
                                       size_t n, double timeout_s)
{
    struct tcp *t = self;
    const struct link_call c = {op, e, data, n};
    tcp_pay_credits(t);
    pthread_mutex_lock(&t->mutex);
    bool idle = !endpoints_next_call(&t->links) && t->links.failure == STATUS_OK;
    enum status st = idle ? endpoints_count_call(&t->links, op) : STATUS_OK;
    pthread_mutex_unlock(&t->mutex);
    PASS(st);
    if (!idle)
        PASS(tcp_collective(self, op, e, data, n));
    else if (tcp_serve(t, &c, false, clock_now() + timeout_s) != STATUS_OK)
        error_set(STATUS_EXTERNAL, "see wait()"); /* which has the reason that was first */
    return tcp_wait_op(self, op, timeout_s, NULL);
}

static void tcp_release(void *self, uint32_t op)
{
    struct tcp *t = self;
    struct link_op *o = endpoints_op(&t->links, op);
    struct tcp_link *l = tcp_link_of(t, op);
    pthread_mutex_lock(&t->mutex);
    link_pool_give(&l->pool, o->buffer);
    o->buffer = NULL;
    pthread_mutex_unlock(&t->mutex);
    l->owed++;
    t->owed++;
}

static enum status tcp_barrier(void *self, double timeout_s, double *start_s)
{
    struct tcp *t = self;
    double deadline_s = clock_now() + timeout_s;
    tcp_pay_credits(t);
    pthread_mutex_lock(&t->mutex);
    /* before the others hear of our arrival: from then on they may send */
    enum status st = endpoints_next_step(&t->links);
    pthread_mutex_unlock(&t->mutex);
    return st == STATUS_OK ? star_barrier(&t->star, t->links.step, ahead_s, deadline_s, start_s)
                           : st;
}

const struct transport transport_tcp = {
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .send_buffer = tcp_send_buffer,
    .send = tcp_post_send,
    .collective = tcp_collective,
    .call = tcp_call_collective,
    .wait = tcp_wait_op,
    .release = tcp_release,
    .times = endpoints_times,
    .barrier = tcp_barrier,
};
