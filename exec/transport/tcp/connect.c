#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"

/* A stranger that connects and says nothing must not use up everybody's time. */
static const double hello_s = 3;

static enum status call(struct tcp *t, const struct rendezvous *r, uint32_t peer,
                        enum tcp_role role, uint32_t id, double deadline_s, int *fd)
{
    enum status st = STATUS_OK;
    char host[RENDEZVOUS_HOST];
    struct tcp_hello h = {TCP_MAGIC, TCP_VERSION, {0}, role, id, t->links.rank};
    memcpy(h.token, r->token, TOKEN);
    TRY(socket_connect(rendezvous_host(r, peer, host), r->port[peer], deadline_s, fd));
    TRY(socket_write(*fd, &h, sizeof h, deadline_s));
out:
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u connects to rank %u", t->links.rank, peer);
}

/* Connect to everyone that I send to; count what has to come in. */
static enum status call_all(struct tcp *t, const struct rendezvous *r, double deadline_s,
                            size_t *incoming)
{
    enum status st = STATUS_OK;
    const struct program *p = t->links.program;
    for (size_t k = 0; k < t->links.n; k++) {
        struct tcp_link *l = &t->link[k];
        if (l->end->outgoing)
            TRY(call(t, r, l->end->peer, TCP_CHANNEL, l->end->channel, deadline_s, &l->fd));
        else
            ++*incoming;
    }
    for (uint32_t g = 0; g < p->groups; g++) {
        const struct link_ring *ring = &t->links.ring[g];
        if (ring->ranks < 2)
            continue;
        TRY(call(t, r, ring->next, TCP_RING, g, deadline_s, &t->neighbour[g].next));
        ++*incoming;
    }
    if (t->links.rank != 0)
        TRY(call(t, r, 0, TCP_STAR, 0, deadline_s, &t->star[0]));
    else
        *incoming += p->ranks - 1;
out:
    return st;
}

/* Where the connection announced by a hello belongs; NULL: nowhere. */
static int *place(struct tcp *t, const struct tcp_hello *h)
{
    const struct program *p = t->links.program;
    if (h->role == TCP_CHANNEL && h->id < p->channels && t->links.of[h->id] != PROGRAM_NONE) {
        struct tcp_link *l = &t->link[t->links.of[h->id]];
        return !l->end->outgoing && h->from == l->end->peer ? &l->fd : NULL;
    }
    if (h->role == TCP_RING && h->id < p->groups && t->links.ring[h->id].ranks > 1) {
        return h->from == t->links.ring[h->id].previous ? &t->neighbour[h->id].previous : NULL;
    }
    if (h->role == TCP_STAR && t->links.rank == 0 && h->from > 0 && h->from < p->ranks)
        return &t->star[h->from];
    return NULL;
}

/* One connection; *known is false when it was a stranger's, which is dropped without a word. */
static enum status answer(struct tcp *t, const struct rendezvous *r, double deadline_s, bool *known)
{
    struct tcp_hello h;
    int fd = -1, *at = NULL;
    enum status st = socket_accept(r->listener, deadline_s, &fd);
    *known = false;
    if (st != STATUS_OK)
        return st;
    if (socket_read(fd, &h, sizeof h, fmin(deadline_s, clock_now() + hello_s)) == STATUS_OK &&
        h.magic == TCP_MAGIC && h.version == TCP_VERSION && !memcmp(h.token, r->token, TOKEN))
        at = place(t, &h);
    if (!at || *at >= 0) {
        socket_close(&fd);
    } else {
        *at = fd;
        *known = true;
    }
    return STATUS_OK;
}

enum status tcp_connect(struct tcp *t, const struct rendezvous *r)
{
    enum status st = STATUS_OK;
    size_t incoming = 0;
    double deadline_s = clock_now() + r->timeout_s;
    t->clocks_differ = r->clocks_differ;
    TRY(call_all(t, r, deadline_s, &incoming));
    while (incoming > 0) {
        bool known;
        st = answer(t, r, deadline_s, &known);
        if (st != STATUS_OK) {
            error_context(st, "rank %u waits for %zu connections of its peers", t->links.rank,
                          incoming);
            goto out;
        }
        incoming -= known;
    }
out:
    return st;
}

/* Apply `act` to every connection. */
static void each(struct tcp *t, void (*act)(int *fd))
{
    for (size_t k = 0; t->link && k < t->links.n; k++)
        act(&t->link[k].fd);
    for (size_t g = 0; g < t->neighbours; g++) {
        act(&t->neighbour[g].next);
        act(&t->neighbour[g].previous);
    }
    for (size_t k = 0; t->star && k < t->stars; k++)
        act(&t->star[k]);
}

static void hang_up(int *fd)
{
    socket_shutdown(*fd);
}

void tcp_hang_up(struct tcp *t)
{
    each(t, hang_up);
}

void tcp_disconnect(struct tcp *t)
{
    each(t, socket_close);
}
