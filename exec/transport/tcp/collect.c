/* The thread of collectives: rounds of exec/rounds.h over two sockets each. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"

/* One direction of a round: a head, then the bytes; `moved` counts both. */
struct tcp_flow {
    int fd;
    struct tcp_head head;
    char *data;
    size_t moved, bytes;
};

static bool is_done(const struct tcp_flow *f)
{
    return f->fd < 0 || f->moved == sizeof f->head + f->bytes;
}

/* Where the next byte goes to or comes from, and how many belong together. */
static char *flow_next_bytes(struct tcp_flow *f, size_t *n)
{
    if (f->moved < sizeof f->head) {
        *n = sizeof f->head - f->moved;
        return (char *)&f->head + f->moved;
    }
    *n = f->bytes - (f->moved - sizeof f->head);
    return f->data + (f->moved - sizeof f->head);
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
    size_t n;
    const char *p = flow_next_bytes(f, &n);
    return flow_moved(f, send(f->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT));
}

static enum status pull(struct tcp_flow *f, const struct tcp_head *want)
{
    size_t n, before = f->moved;
    char *p = flow_next_bytes(f, &n);
    enum status st = flow_moved(f, recv(f->fd, p, n, MSG_DONTWAIT));
    if (st == STATUS_OK && before < sizeof f->head && f->moved == sizeof f->head)
        st = tcp_expect(&f->head, want);
    return st;
}

/* Send and receive at the same time: partners that all send first would block each other. A flow
 * without a socket is done. */
static enum status flow_exchange(struct tcp_flow *out, struct tcp_flow *in,
                                 const struct tcp_head *want, double deadline_s, bool *from_source)
{
    enum status st = STATUS_OK;
    while (st == STATUS_OK && (!is_done(out) || !is_done(in))) {
        struct pollfd p[2] = {{.fd = is_done(out) ? -1 : out->fd, .events = POLLOUT},
                              {.fd = is_done(in) ? -1 : in->fd, .events = POLLIN}};
        int n = poll(p, 2, socket_poll_ms(deadline_s));
        if (n == 0) {
            *from_source = !is_done(in);
            st = error_set(STATUS_EXTERNAL, "timeout: nothing arrived");
        }
        if (n < 0 && errno != EINTR)
            st = error_set(STATUS_IO, "%s", strerror(errno));
        if (n <= 0)
            continue;
        *from_source = p[1].revents != 0;
        if (p[1].revents)
            st = pull(in, want);
        if (st == STATUS_OK && p[0].revents) {
            *from_source = false;
            st = flow_push(out);
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
    enum status st = flow_exchange(&out, &in, &want, deadline_s, &from_source);
    if (gives || takes)
        *peer = g->member[from_source ? r->from : r->to];
    if (st != STATUS_OK || !takes)
        return st;
    if (t->delay) {
        const struct delay *d = &t->delay[g->member[r->from]];
        clock_sleep_until(fmax(clock_now(), begin_s + (double)want.bytes * d->per_byte_s) +
                          d->latency_s);
    }
    if (r->adds)
        element_reduce(c->element, t->links.program->op[c->op].reduction, taken, t->chunk.data,
                       r->take.n);
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
    for (size_t k = 0; k < rounds_count(&rounds); k++) {
        struct round r = rounds_at(&rounds, k);
        TRY(run_round(t, c, &r, head, deadline_s, &peer));
    }
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
