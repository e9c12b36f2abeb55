/* The threads of channels: one writes what is posted when it has credit, one reads into slots. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"

static struct tcp_head next_head(const struct tcp_link *l)
{
    uint32_t send = l->end->order->send[l->next];
    return (struct tcp_head){TCP_MAGIC, TCP_DATA, send, l->step,
                             (uint64_t)l->tcp->links.program->op[send].bytes};
}

static uint32_t own_op(const struct tcp_link *l)
{
    return l->end->outgoing ? l->end->order->send[l->next] : l->end->order->recv[l->next];
}

static void tcp_link_advance(struct tcp_link *l)
{
    if (++l->next == l->end->order->n) {
        l->next = 0;
        l->step++;
    }
}

/* It waits only for a peer that does not read: at most `window` words are under way. */
enum status tcp_grant(struct tcp_link *l, void *slot)
{
    struct tcp_head credit = {.magic = TCP_MAGIC, .kind = TCP_CREDIT};
    pthread_mutex_lock(&l->tcp->mutex);
    link_pool_give(&l->pool, slot);
    pthread_mutex_unlock(&l->tcp->mutex);
    enum status st =
        socket_write(l->fd, &credit, sizeof credit, clock_now() + limit_wait(WAIT_SEND));
    return st == STATUS_OK ? st : error_context(st, "credit not accepted");
}

/* ---- writer */

/* Wait for a message to send; false: stop. The mutex is held. */
static bool wait_posted(struct tcp_link *l)
{
    while (!l->ready && !l->tcp->stopping && l->tcp->links.failure == STATUS_OK)
        pthread_cond_wait(&l->posted, &l->tcp->mutex);
    return !l->tcp->stopping && l->tcp->links.failure == STATUS_OK;
}

/* The receiver's slots are counted here, so that a message is never sent to where there is no room
 * for it and cannot block those behind it. */
static enum status wait_credit(struct tcp_link *l)
{
    const struct tcp_head want = {.magic = TCP_MAGIC, .kind = TCP_CREDIT};
    struct tcp_head h;
    if (l->credits == 0) {
        PASS(socket_read(l->fd, &h, sizeof h, INFINITY));
        PASS(tcp_expect(&h, &want));
        l->credits++;
    }
    l->credits--;
    return STATUS_OK;
}

static enum status write_next(struct tcp_link *l, const void *data, double *start_s)
{
    struct tcp_head h = next_head(l);
    PASS(wait_credit(l));
    *start_s = clock_now();
    return socket_write_two(l->fd, &h, sizeof h, data, (size_t)h.bytes);
}

/* Messages leave in list order, each when it is posted and the receiver has room. */
void *tcp_writer(void *link)
{
    struct tcp_link *l = link;
    struct tcp *t = l->tcp;
    pthread_mutex_lock(&t->mutex);
    while (wait_posted(l)) {
        uint32_t op = own_op(l);
        void *data = endpoints_op(&t->links, op)->buffer;
        pthread_mutex_unlock(&t->mutex);
        double start_s;
        enum status st = write_next(l, data, &start_s);
        double end_s = clock_now();
        if (st != STATUS_OK) {
            tcp_fail(t, st, op, l->end->peer);
            return NULL;
        }
        pthread_mutex_lock(&t->mutex);
        l->ready--;
        link_pool_give(&l->pool, data);
        endpoints_op(&t->links, op)->buffer = NULL;
        tcp_link_advance(l);
        pthread_mutex_unlock(&t->mutex);
        tcp_complete(t, op, start_s, end_s);
        pthread_mutex_lock(&t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- reader */

/* A sender that keeps to its credits and to the barriers always finds a slot. */
static enum status take_slot(struct tcp_link *l, void **slot)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&l->tcp->mutex);
    if (l->step != l->tcp->links.step)
        st = error_set(STATUS_IO, "message of step %u before the barrier", l->step);
    else if (!(*slot = link_pool_take(&l->pool)))
        st = error_set(STATUS_IO, "more messages than the %zu granted", l->end->order->window);
    pthread_mutex_unlock(&l->tcp->mutex);
    return st;
}

/* The head is checked against the program before a slot is taken and before any payload is read. */
static enum status read_next(struct tcp_link *l, void **slot, double *start_s)
{
    struct tcp_head h, want = next_head(l);
    PASS(socket_read(l->fd, &h, sizeof h, INFINITY));
    *start_s = clock_now();
    PASS(tcp_expect(&h, &want));
    PASS(take_slot(l, slot));
    return socket_read(l->fd, *slot, (size_t)h.bytes, INFINITY);
}

/* When a message that came in from start_s to now counts as received. The reader goes on at once:
 * delayed messages follow each other as on a wire. */
static double arrival(struct tcp_link *l, double start_s, int64_t bytes)
{
    double end_s = clock_now();
    if (!l->tcp->delay)
        return end_s;
    const struct delay *d = &l->tcp->delay[l->end->peer];
    l->free_s = fmax(l->free_s, start_s) + (double)bytes * d->per_byte_s;
    return fmax(end_s, l->free_s) + d->latency_s;
}

/* Receives are posted from the start: a message is taken in as soon as it comes, and waits in its
 * slot until the rank asks for it. */
void *tcp_reader(void *link)
{
    struct tcp_link *l = link;
    struct tcp *t = l->tcp;
    for (;;) {
        uint32_t op = own_op(l);
        void *slot = NULL;
        double start_s;
        enum status st = read_next(l, &slot, &start_s);
        if (st != STATUS_OK) {
            tcp_fail(t, st, op, l->end->peer);
            return NULL;
        }
        double end_s = arrival(l, start_s, t->links.program->op[op].bytes);
        pthread_mutex_lock(&t->mutex);
        endpoints_op(&t->links, op)->buffer = slot;
        tcp_link_advance(l);
        pthread_mutex_unlock(&t->mutex);
        tcp_complete(t, op, start_s, end_s);
    }
}
