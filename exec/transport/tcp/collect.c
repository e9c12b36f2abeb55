/* The thread of collectives: rounds of exec/rounds.h over two sockets each. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/clock.h"
#include "exec/spin.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"

/* One direction of a round: a head, then the bytes; `moved` counts both. */
struct tcp_flow {
    int fd;
    struct tcp_head head;
    char *data;
    size_t moved, bytes;
};

/* What is added of a flow that comes in, while it comes; data NULL: nothing. */
struct tcp_sum {
    enum element element;
    enum op_reduction how;
    char *data;
    size_t added;  /* bytes */
    bool is_given; /* what is added to is on its way out, and stays as it is until it has left */
};

static bool is_done(const struct tcp_flow *f)
{
    return f->fd < 0 || f->moved == sizeof f->head + f->bytes;
}

/* What is left of a flow: head, data or both, in one system call. */
static struct msghdr flow_rest(struct tcp_flow *f, struct iovec part[2])
{
    const size_t head = sizeof f->head, ahead = f->moved < head ? head - f->moved : 0;
    const size_t behind = ahead > 0 ? 0 : f->moved - head;
    part[0] = (struct iovec){(char *)&f->head + head - ahead, ahead};
    part[1] = (struct iovec){f->data + behind, f->bytes - behind};
    return (struct msghdr){.msg_iov = ahead > 0 ? part : part + 1,
                           .msg_iovlen = ahead > 0 && f->bytes > 0 ? 2 : 1};
}

static enum status flow_moved(struct tcp_flow *f, ssize_t k)
{
    if (k > 0)
        f->moved += (size_t)k;
    else if (k == 0 || errno == EPIPE)
        return error_set(STATUS_IO, "connection closed");
    else if (errno != EAGAIN && errno != EINTR)
        return error_set(STATUS_IO, "%s", strerror(errno));
    return STATUS_OK;
}

static enum status flow_push(struct tcp_flow *f)
{
    struct iovec part[2];
    const struct msghdr m = flow_rest(f, part);
    return flow_moved(f, sendmsg(f->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* A wrong head ends the run; what came with it lies in room for a right one. */
static enum status pull(struct tcp_flow *f, const struct tcp_head *want)
{
    struct iovec part[2];
    struct msghdr m = flow_rest(f, part);
    size_t before = f->moved;
    enum status st = flow_moved(f, recvmsg(f->fd, &m, MSG_DONTWAIT));
    if (st == STATUS_OK && before < sizeof f->head && f->moved >= sizeof f->head)
        st = tcp_expect(&f->head, want);
    return st;
}

/* Sleep until one of both can go on. */
static enum status flow_sleep(const struct tcp_flow *out, const struct tcp_flow *in,
                              double deadline_s)
{
    struct pollfd p[2] = {{.fd = is_done(out) ? -1 : out->fd, .events = POLLOUT},
                          {.fd = is_done(in) ? -1 : in->fd, .events = POLLIN}};
    int n = poll(p, 2, socket_poll_ms(deadline_s));
    if (n == 0)
        return error_set(
            STATUS_EXTERNAL,
            "timeout: no data from the peer within the time limit; raise it with --timeout");
    return n < 0 && errno != EINTR ? error_set(STATUS_IO, "%s", strerror(errno)) : STATUS_OK;
}

/* In steps that stay in the processor's cache. */
static void flow_add(const struct tcp_flow *in, struct tcp_sum *sum)
{
    enum { STEP = 64 << 10 };
    size_t there = in->moved > sizeof in->head ? in->moved - sizeof in->head : 0;
    if (!sum->data || (there < in->bytes && there - sum->added < STEP))
        return;
    size_t one = element_bytes(sum->element), n = (there - sum->added) / one;
    element_reduce(sum->element, sum->how, sum->data + sum->added, in->data + sum->added, n);
    sum->added += n * one;
}

/* Send and receive at the same time: partners that all send first would block each other. A flow
 * without a socket is done. */
static enum status flow_exchange(const struct tcp *t, struct tcp_flow *out, struct tcp_flow *in,
                                 const struct tcp_head *want, struct tcp_sum *sum,
                                 double deadline_s, bool *from_source)
{
    enum status st = STATUS_OK;
    struct spin spin = spin_begin(t->spins, TCP_LOOKS);
    while (st == STATUS_OK && (!is_done(out) || !is_done(in))) {
        size_t before = out->moved + in->moved;
        *from_source = !is_done(in);
        if (!is_done(in))
            st = pull(in, want);
        if (st == STATUS_OK && !is_done(out)) {
            st = flow_push(out);
            *from_source = st == STATUS_OK && !is_done(in);
        }
        if (st == STATUS_OK && out->moved + in->moved > before) {
            if (!sum->is_given || is_done(out))
                flow_add(in, sum);
            spin = spin_begin(t->spins, TCP_LOOKS);
        } else if (st == STATUS_OK && !spin_again(&spin)) {
            st = flow_sleep(out, in, deadline_s);
        }
    }
    return st;
}

/* Op of the group's first member: what all members call this collective. */
static uint32_t flow_name(const struct program *p, uint32_t op, size_t me, size_t ranks)
{
    for (size_t k = me; k < ranks && me > 0; k++)
        op = p->op[op].match;
    return op;
}

/* One round of a call; *peer is the rank that is to blame when it fails. */
static enum status run_round(struct tcp *t, const struct link_call *c, const struct round *r,
                             struct tcp_head head, double deadline_s, uint32_t *peer)
{
    const struct link_group *g = &t->links.group[t->links.program->op[c->op].peer];
    bool gives = r->to != ROUND_NOBODY, takes = r->from != ROUND_NOBODY, from_source = takes;
    struct tcp_head want = head;
    void *taken = element_at(c->element, c->data, r->take.first);
    double begin_s = clock_now();
    want.bytes = r->take.n * element_bytes(c->element);
    head.bytes = r->give.n * element_bytes(c->element);
    struct tcp_flow out = {gives ? t->partner[g->first + r->to].to : -1, head,
                           element_at(c->element, c->data, r->give.first), 0, (size_t)head.bytes};
    struct tcp_flow in = {takes ? t->partner[g->first + r->from].from : -1,
                          {0},
                          r->adds ? t->chunk.data : taken,
                          0,
                          (size_t)want.bytes};
    struct tcp_sum sum = {
        c->element, t->links.program->op[c->op].reduction, r->adds && takes ? taken : NULL, 0,
        r->give.first < r->take.first + r->take.n && r->take.first < r->give.first + r->give.n};
    enum status st = flow_exchange(t, &out, &in, &want, &sum, deadline_s, &from_source);
    if (gives || takes)
        *peer = g->member[from_source ? r->from : r->to];
    if (st != STATUS_OK || !takes)
        return st;
    if (t->delay) {
        const struct delay *d = &t->delay[g->member[r->from]];
        clock_sleep_until(fmax(clock_now(), begin_s + (double)want.bytes * d->per_byte_s) +
                          d->latency_s);
    }
    return STATUS_OK;
}

/* A failure inside a round names the member that the round was with. */
enum status tcp_serve(struct tcp *t, const struct link_call *c, bool queued, double deadline_s)
{
    enum status st;
    const struct rounds_call rounds = endpoints_rounds(&t->links, c->op, c->n);
    const struct tcp_head head = {.magic = TCP_MAGIC,
                                  .kind = TCP_PART,
                                  .tag =
                                      flow_name(t->links.program, c->op, rounds.me, rounds.ranks),
                                  .step = t->links.step};
    uint32_t peer = t->links.rank;
    double start_s = clock_now();
    TRY(rounds_grow(&rounds, c->element, &t->chunk));
    struct link_call on = *c;
    on.data = rounds_array(&rounds, c->element, c->data, &t->chunk);
    for (size_t k = 0; k < rounds_count(&rounds); k++) {
        struct round r = rounds_at(&rounds, k);
        TRY(run_round(t, &on, &r, head, deadline_s, &peer));
    }
    rounds_add_gathered(&rounds, c->element, on.data, c->data);
    rounds_end(&rounds, c->element, c->data);
    pthread_mutex_lock(&t->mutex);
    t->links.served += queued;
    pthread_mutex_unlock(&t->mutex);
    tcp_complete(t, c->op, start_s, clock_now());
out:
    if (st != STATUS_OK)
        tcp_fail(t, st, c->op, peer);
    return st;
}

/* One thread for the collectives of all groups: they run in the order of the list, which all
 * members share, so that no two groups wait for each other in a circle. */
void *tcp_collector(void *tcp)
{
    struct tcp *t = tcp;
    pthread_mutex_lock(&t->mutex);
    while (!t->stopping && t->links.failure == STATUS_OK) {
        const struct link_call *next = endpoints_next_call(&t->links);
        if (!next) {
            pthread_cond_wait(&t->asked, &t->mutex);
            continue;
        }
        struct link_call c = *next;
        pthread_mutex_unlock(&t->mutex);
        if (tcp_serve(t, &c, true, (double)INFINITY) != STATUS_OK)
            return NULL;
        pthread_mutex_lock(&t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}
