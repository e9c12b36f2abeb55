/* The collectives of exec/ring.h over two sockets. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "exec/ring.h"
#include "exec/transport/tcp/tcp.h"

/* One direction of a round: a head, then the bytes; `moved` counts both. */
struct flow {
    int fd;
    struct tcp_head head;
    char *data;
    size_t moved, bytes;
};

static bool is_done(const struct flow *f)
{
    return f->moved == sizeof f->head + f->bytes;
}

/* Where the next byte goes to or comes from, and how many belong together. */
static char *part(struct flow *f, size_t *n)
{
    if (f->moved < sizeof f->head) {
        *n = sizeof f->head - f->moved;
        return (char *)&f->head + f->moved;
    }
    *n = f->bytes - (f->moved - sizeof f->head);
    return f->data + (f->moved - sizeof f->head);
}

static enum status moved(struct flow *f, ssize_t k)
{
    if (k > 0)
        f->moved += (size_t)k;
    else if (k == 0 || errno == EPIPE)
        return error_set(STATUS_IO, "connection closed");
    else if (errno != EAGAIN && errno != EINTR)
        return error_set(STATUS_IO, "%s", strerror(errno));
    return STATUS_OK;
}

static enum status push(struct flow *f)
{
    size_t n;
    const char *p = part(f, &n);
    return moved(f, send(f->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT));
}

static enum status pull(struct flow *f, const struct tcp_head *want)
{
    size_t n, before = f->moved;
    char *p = part(f, &n);
    enum status st = moved(f, recv(f->fd, p, n, MSG_DONTWAIT));
    if (st == STATUS_OK && before < sizeof f->head && f->moved == sizeof f->head)
        st = tcp_expect(&f->head, want);
    return st;
}

/* Milliseconds for poll(): rounded up, -1 for ever. */
static int patience_of(double deadline_s)
{
    double rest_s = deadline_s - clock_now();
    return isinf(deadline_s) ? -1 : (int)fmin(fmax(0, ceil(rest_s * 1e3)), 1e9);
}

/* Send and receive at the same time: neighbours that all send first would block each other. */
static enum status exchange(struct flow *out, struct flow *in, const struct tcp_head *want,
                            double deadline_s, bool *from_previous)
{
    enum status st = STATUS_OK;
    while (st == STATUS_OK && (!is_done(out) || !is_done(in))) {
        struct pollfd p[2] = {{.fd = is_done(out) ? -1 : out->fd, .events = POLLOUT},
                              {.fd = is_done(in) ? -1 : in->fd, .events = POLLIN}};
        int n = poll(p, 2, patience_of(deadline_s));
        if (n == 0) {
            *from_previous = !is_done(in);
            st = error_set(STATUS_EXTERNAL, "nothing in time");
        }
        if (n < 0 && errno != EINTR)
            st = error_set(STATUS_IO, "%s", strerror(errno));
        if (n <= 0)
            continue;
        *from_previous = p[1].revents != 0;
        if (p[1].revents)
            st = pull(in, want);
        if (st == STATUS_OK && p[0].revents) {
            *from_previous = false;
            st = push(out);
        }
    }
    return st;
}

/* Op of the group's first member: what all members call this collective. */
static uint32_t name_of(const struct program *p, uint32_t op, size_t me, size_t ranks)
{
    for (size_t k = me; k < ranks && me > 0; k++)
        op = p->op[op].match;
    return op;
}

static enum status run_rounds(struct tcp *t, const struct tcp_request *r, double deadline_s,
                              bool *from_previous)
{
    const struct program_op *o = &t->links.program->op[r->op];
    const struct link_ring *g = &t->links.ring[o->peer];
    const struct tcp_ring *to = &t->neighbour[o->peer];
    size_t ranks = g->ranks;
    struct tcp_head head = {.magic = TCP_MAGIC,
                            .kind = TCP_PART,
                            .tag = name_of(t->links.program, r->op, g->me, ranks),
                            .step = t->links.step};
    enum status grown = ring_grow(&t->chunk, r->n, ranks);
    if (grown != STATUS_OK)
        return grown;
    for (size_t round = ring_begin(ranks, o); round < ring_end(ranks, o); round++) {
        bool adds = ring_adds(ranks, round);
        struct ring_part give = ring_gives(r->n, ranks, g->me, round);
        struct ring_part take = ring_takes(r->n, ranks, g->me, round);
        float *taken = r->data + take.first;
        struct tcp_head want = head;
        want.bytes = take.n * sizeof(float);
        head.bytes = give.n * sizeof(float);
        struct flow out = {to->next, head, (char *)(r->data + give.first), 0, (size_t)head.bytes};
        struct flow in = {
            to->previous, {0}, (char *)(adds ? t->chunk.data : taken), 0, (size_t)want.bytes};
        double begin_s = clock_now();
        enum status st = exchange(&out, &in, &want, deadline_s, from_previous);
        if (st != STATUS_OK)
            return st;
        clock_sleep_until(fmax(clock_now(), begin_s + (double)want.bytes * to->delay.pace) +
                          to->delay.latency_s);
        for (size_t i = 0; adds && i < take.n; i++)
            taken[i] += t->chunk.data[i];
    }
    return STATUS_OK;
}

static uint32_t neighbour(const struct tcp *t, uint32_t op, bool previous)
{
    const struct link_ring *g = &t->links.ring[t->links.program->op[op].peer];
    return previous ? g->previous : g->next;
}

enum status tcp_serve(struct tcp *t, const struct tcp_request *r, bool queued, double deadline_s)
{
    bool from_previous = false;
    double start_s = clock_now();
    enum status st = run_rounds(t, r, deadline_s, &from_previous);
    if (st != STATUS_OK) {
        tcp_fail(t, st, r->op, neighbour(t, r->op, from_previous));
        return st;
    }
    pthread_mutex_lock(&t->mutex);
    t->served += queued;
    pthread_mutex_unlock(&t->mutex);
    tcp_complete(t, r->op, start_s, clock_now());
    return STATUS_OK;
}

void *tcp_collector(void *tcp)
{
    struct tcp *t = tcp;
    pthread_mutex_lock(&t->mutex);
    for (;;) {
        while (t->served == t->requests && !t->stopping && t->failure == STATUS_OK)
            pthread_cond_wait(&t->asked, &t->mutex);
        if (t->stopping || t->failure != STATUS_OK)
            break;
        struct tcp_request r = t->request[t->served % t->links.collectives];
        pthread_mutex_unlock(&t->mutex);
        if (tcp_serve(t, &r, true, (double)INFINITY) != STATUS_OK)
            return NULL;
        pthread_mutex_lock(&t->mutex);
    }
    pthread_mutex_unlock(&t->mutex);
    return NULL;
}
