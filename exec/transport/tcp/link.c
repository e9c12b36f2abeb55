/* The threads of channels: one writes what is posted when it has credit, one reads into slots. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/condition.h"
#include "exec/spin.h"
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

/* What the rank owes is paid when it waits next, beside what the peer does meanwhile. It blocks
 * only on a peer that does not read: at most `window` words are under way. */
void tcp_pay_credits(struct tcp *t)
{
    for (size_t k = 0; k < t->links.n && t->owed > 0; k++) {
        struct tcp_link *l = &t->link[k];
        struct tcp_head credit = {.magic = TCP_MAGIC, .kind = TCP_CREDIT, .tag = l->owed};
        if (l->owed == 0)
            continue;
        t->owed -= l->owed;
        l->owed = 0;
        enum status st =
            socket_write(l->fd, &credit, sizeof credit, clock_now() + limit_wait(WAIT_SEND));
        if (st != STATUS_OK)
            tcp_fail(t, error_context(st, "the peer did not accept a flow-control credit"),
                     l->end->order->recv[0], l->end->peer);
    }
}

/* Move more of the message under way, in one system call; k: what that returned. STATUS_OK where
 * nothing could be moved without waiting. */
static enum status link_moved(struct tcp_link *l, ssize_t k)
{
    if (k > 0)
        l->moved += (size_t)k;
    else if (k == 0 || errno == EPIPE)
        return error_set(STATUS_IO, "connection closed");
    else if (errno != EAGAIN && errno != EINTR)
        return error_set(STATUS_IO, "%s", strerror(errno));
    return STATUS_OK;
}

/* What is left of it: of the head, and of `bytes` of payload at `data` (NULL: the head alone). */
static struct msghdr link_rest(struct tcp_link *l, struct tcp_head *h, char *data,
                               struct iovec part[2])
{
    const size_t head = sizeof *h, ahead = l->moved < head ? head - l->moved : 0;
    const size_t behind = ahead > 0 ? 0 : l->moved - head;
    part[0] = (struct iovec){(char *)h + head - ahead, ahead};
    part[1] = (struct iovec){data ? data + behind : NULL, (size_t)next_head(l).bytes - behind};
    return (struct msghdr){.msg_iov = ahead > 0 ? part : part + 1,
                           .msg_iovlen = ahead > 0 && data && part[1].iov_len > 0 ? 2 : 1};
}

static bool link_is_over(const struct tcp_link *l)
{
    return l->moved == sizeof l->head + (size_t)next_head(l).bytes;
}

/* ---- writer */

/* Wait for a message to send; false: stop. The mutex is held. */
static bool wait_posted(struct tcp_link *l)
{
    while ((!l->ready || l->lent) && !l->tcp->stopping && l->tcp->links.failure == STATUS_OK)
        pthread_cond_wait(&l->posted, &l->tcp->mutex);
    return !l->tcp->stopping && l->tcp->links.failure == STATUS_OK;
}

/* The receiver's slots are counted here, so that a message is never sent to where there is no room
 * for it and cannot block those behind it. Without waiting: only a credit that has begun to come is
 * waited for. */
static enum status take_credits(struct tcp_link *l, bool waits)
{
    struct tcp_head h, want = {.magic = TCP_MAGIC, .kind = TCP_CREDIT};
    if (l->credits > 0)
        return STATUS_OK;
    ssize_t k = recv(l->fd, &h, sizeof h, waits ? MSG_WAITALL : MSG_DONTWAIT);
    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return STATUS_OK;
    if (k <= 0)
        return error_set(STATUS_IO, "%s", k < 0 ? strerror(errno) : "connection closed");
    PASS(socket_read(l->fd, (char *)&h + k, sizeof h - (size_t)k,
                     clock_now() + limit_wait(WAIT_SEND)));
    want.tag = h.tag >= 1 && h.tag <= l->end->order->window ? h.tag : 1;
    PASS(tcp_expect(&h, &want));
    l->credits = h.tag;
    return STATUS_OK;
}

static enum status link_push(struct tcp_link *l, char *data, int flags)
{
    struct tcp_head h = next_head(l);
    struct iovec part[2];
    const struct msghdr m = link_rest(l, &h, data, part);
    return link_moved(l, sendmsg(l->fd, &m, MSG_NOSIGNAL | flags));
}

/* The message has left; the mutex is held. */
static void link_has_sent(struct tcp_link *l, uint32_t op, double start_s)
{
    struct endpoints *e = &l->tcp->links;
    struct link_op *o = endpoints_op(e, op);
    l->ready--;
    l->credits--;
    l->moved = 0;
    link_pool_give(&l->pool, o->buffer);
    o->buffer = NULL;
    tcp_link_advance(l);
    endpoints_complete(e, op, start_s, clock_now());
    pthread_cond_broadcast(&l->tcp->changed);
}

/* Large messages are the writer's: copying them into the socket would keep the rank from
 * computing. */
void tcp_write_here(struct tcp_link *l)
{
    enum { MOST = 256 << 10 };
    struct tcp *t = l->tcp;
    uint32_t op = own_op(l);
    char *data = endpoints_op(&t->links, op)->buffer;
    if (!t->spins || t->links.failure != STATUS_OK || t->links.program->op[op].bytes > MOST)
        return;
    l->lent = true;
    pthread_mutex_unlock(&t->mutex);
    enum status st = take_credits(l, false);
    l->start_s = clock_now();
    if (st == STATUS_OK && l->credits > 0)
        st = link_push(l, data, MSG_DONTWAIT);
    if (st != STATUS_OK)
        tcp_fail(t, st, op, l->end->peer);
    pthread_mutex_lock(&t->mutex);
    l->lent = false;
    if (st == STATUS_OK && link_is_over(l))
        link_has_sent(l, op, l->start_s);
}

static enum status write_next(struct tcp_link *l, char *data)
{
    enum status st = STATUS_OK;
    while (st == STATUS_OK && l->credits == 0)
        st = take_credits(l, true);
    if (l->moved == 0)
        l->start_s = clock_now();
    while (st == STATUS_OK && !link_is_over(l))
        st = link_push(l, data, 0);
    return st;
}

/* Messages leave in list order, each when it is posted and the receiver has room. */
void *tcp_writer(void *link)
{
    struct tcp_link *l = link;
    struct tcp *t = l->tcp;
    pthread_mutex_lock(&t->mutex);
    while (wait_posted(l)) {
        uint32_t op = own_op(l);
        char *data = endpoints_op(&t->links, op)->buffer;
        pthread_mutex_unlock(&t->mutex);
        enum status st = write_next(l, data);
        if (st != STATUS_OK) {
            tcp_fail(t, st, op, l->end->peer);
            return NULL;
        }
        pthread_mutex_lock(&t->mutex);
        link_has_sent(l, op, l->start_s);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}

/* ---- reader */

/* A sender that keeps to its credits and to the barriers always finds a slot. */
static enum status take_slot(struct tcp_link *l)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&l->tcp->mutex);
    if (l->step != l->tcp->links.step)
        st = error_set(STATUS_IO, "got a message of step %u before the barrier", l->step);
    else if (!(l->slot = link_pool_take(&l->pool)))
        st = error_set(STATUS_IO,
                       "the peer sent more messages than the %zu that flow control granted",
                       l->end->order->window);
    pthread_mutex_unlock(&l->tcp->mutex);
    return st;
}

/* Where there is a slot already the payload comes with its head; a head that is wrong ends the run.
 * Without one the head is checked first. */
static enum status link_pull(struct tcp_link *l, int flags)
{
    const struct tcp_head want = next_head(l);
    size_t before = l->moved;
    struct iovec part[2];
    struct msghdr m = link_rest(l, &l->head, l->slot, part);
    PASS(link_moved(l, recvmsg(l->fd, &m, flags)));
    if (before < sizeof l->head && l->moved >= sizeof l->head) {
        l->start_s = clock_now();
        PASS(tcp_expect(&l->head, &want));
        if (!l->slot)
            PASS(take_slot(l));
    }
    return STATUS_OK;
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

/* The mutex is held. */
static void link_has_received(struct tcp_link *l, uint32_t op)
{
    struct endpoints *e = &l->tcp->links;
    double end_s = arrival(l, l->start_s, e->program->op[op].bytes);
    endpoints_op(e, op)->buffer = l->slot;
    l->slot = NULL;
    l->moved = 0;
    tcp_link_advance(l);
    endpoints_complete(e, op, l->start_s, end_s);
    pthread_cond_broadcast(&l->tcp->changed);
}

/* How long the reader leaves the socket to a rank that has read from it: that probably waits for
 * the next message soon, and what comes meanwhile is in the socket's buffer. */
static const double lent_s = 5e-4;

void tcp_read_here(struct tcp_link *l, uint32_t op)
{
    struct tcp *t = l->tcp;
    enum status st = STATUS_OK;
    if (!t->spins || t->delay || t->links.failure != STATUS_OK || l->busy || own_op(l) != op)
        return;
    if (!l->slot && l->step == t->links.step)
        l->slot = link_pool_take(&l->pool);
    l->lent = true;
    pthread_mutex_unlock(&t->mutex);
    struct spin spin = spin_begin(true, TCP_LOOKS);
    while (st == STATUS_OK && !link_is_over(l)) {
        size_t before = l->moved;
        st = link_pull(l, MSG_DONTWAIT);
        if (l->moved > before)
            spin = spin_begin(true, TCP_LOOKS);
        else if (st == STATUS_OK && !spin_again(&spin))
            break;
    }
    if (st != STATUS_OK)
        tcp_fail(t, st, op, l->end->peer);
    pthread_mutex_lock(&t->mutex);
    l->lent = false;
    if (st == STATUS_OK && link_is_over(l)) {
        l->lent_s = clock_now() + lent_s;
        link_has_received(l, op);
    }
}

/* Wait until the socket is the reader's, and something is there to be read. */
static enum status wait_incoming(struct tcp_link *l)
{
    struct tcp *t = l->tcp;
    enum status st = STATUS_OK;
    pthread_mutex_lock(&t->mutex);
    while (!l->busy && st == STATUS_OK && !t->stopping) {
        double now_s = clock_now();
        if (l->lent || now_s < l->lent_s) {
            condition_wait(&l->posted, &t->mutex, fmax(l->lent_s, now_s + lent_s / 2));
            continue;
        }
        pthread_mutex_unlock(&t->mutex);
        st = socket_poll(l->fd, POLLIN, INFINITY);
        pthread_mutex_lock(&t->mutex);
        l->busy = !l->lent && clock_now() >= l->lent_s;
    }
    pthread_mutex_unlock(&t->mutex);
    return st;
}

/* Receives are posted from the start: a message is taken in as soon as it comes, and waits in its
 * slot until the rank asks for it. */
void *tcp_reader(void *link)
{
    struct tcp_link *l = link;
    struct tcp *t = l->tcp;
    for (;;) {
        enum status st = wait_incoming(l);
        uint32_t op = own_op(l);
        while (st == STATUS_OK && l->busy && !link_is_over(l))
            st = link_pull(l, l->moved < sizeof l->head ? 0 : MSG_WAITALL);
        if (st != STATUS_OK || !l->busy) {
            tcp_fail(t, st, op, l->end->peer);
            return NULL;
        }
        pthread_mutex_lock(&t->mutex);
        link_has_received(l, op);
        l->busy = false;
        pthread_mutex_unlock(&t->mutex);
    }
}
