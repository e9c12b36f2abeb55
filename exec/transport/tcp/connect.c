/* Which connections there are, and what each is for: a rank calls those that it sends to. */
#include <stdlib.h>

#include "core/base/clock.h"
#include "exec/door.h"
#include "exec/transport/tcp/socket.h"
#include "exec/transport/tcp/tcp.h"

/* Connect to everyone that I send to; count what has to come in. */
static enum status tcp_call_peers(struct tcp *t, const struct rendezvous *r, double deadline_s,
                                  size_t *incoming)
{
    const struct program *p = t->links.program;
    for (size_t k = 0; k < t->links.n; k++) {
        struct tcp_link *l = &t->link[k];
        if (l->end->outgoing)
            PASS(star_call(r, l->end->peer, STAR_CHANNEL, l->end->channel, deadline_s, &l->fd));
        else
            ++*incoming;
    }
    for (uint32_t g = 0; g < p->groups; g++) {
        const struct link_group *group = &t->links.group[g];
        for (size_t k = group->first; k < group->first + group->ranks; k++) {
            if (t->links.gives[k])
                PASS(star_call(r, p->member[k], STAR_GROUP, g, deadline_s, &t->partner[k].to));
            *incoming += t->links.takes[k];
        }
    }
    if (t->links.rank != 0)
        PASS(star_call(r, 0, STAR_CENTRE, 0, deadline_s, &t->star.socket[0]));
    else
        *incoming += p->ranks - 1;
    return STATUS_OK;
}

/* Where the connection announced by a hello belongs; NULL: nowhere. */
static int *seat_of(struct tcp *t, const struct star_hello *h)
{
    const struct program *p = t->links.program;
    if (h->role == STAR_CHANNEL && h->id < p->channels && t->links.of[h->id] != PROGRAM_NONE) {
        struct tcp_link *l = &t->link[t->links.of[h->id]];
        return !l->end->outgoing && h->from == l->end->peer ? &l->fd : NULL;
    }
    const struct link_group *group =
        h->role == STAR_GROUP && h->id < p->groups ? &t->links.group[h->id] : NULL;
    for (size_t k = 0; group && k < group->ranks; k++)
        if (group->member[k] == h->from && t->links.takes[group->first + k])
            return &t->partner[group->first + k].from;
    return star_seat(&t->star, h);
}

/* Calls never block on the other side's answers, because listening sockets queue them: all ranks
 * can first call and then answer. */
enum status tcp_connect(struct tcp *t, const struct rendezvous *r)
{
    enum status st = STATUS_OK;
    size_t incoming = 0;
    double deadline_s = clock_now() + r->timeout_s;
    struct door door = {0};
    TRY(star_door(r, &door));
    TRY(tcp_call_peers(t, r, deadline_s, &incoming));
    while (incoming > 0) {
        struct star_hello hello;
        int fd = -1;
        st = star_answer(&door, deadline_s, &hello, &fd);
        if (st != STATUS_OK) {
            error_context(st, "rank %u: waiting for %zu connections of its peers", t->links.rank,
                          incoming);
            goto out;
        }
        int *seat = fd >= 0 ? seat_of(t, &hello) : NULL;
        if (seat && *seat < 0) {
            *seat = fd;
            incoming--;
        } else {
            socket_close(&fd);
        }
    }
out:
    door_close(&door);
    return st;
}

/* Apply `act` to every connection. */
static void each(struct tcp *t, void (*act)(int *fd))
{
    for (size_t k = 0; t->link && k < t->links.n; k++)
        act(&t->link[k].fd);
    for (size_t k = 0; t->partner && k < t->partners; k++) {
        act(&t->partner[k].to);
        act(&t->partner[k].from);
    }
    for (size_t k = 0; t->star.socket && k < t->star.ranks; k++)
        act(&t->star.socket[k]);
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
