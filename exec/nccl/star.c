#include <stdlib.h>
#include <string.h>

#include "exec/nccl/nccl.h"
#include "exec/tcp/socket.h"

/* What a rank says when it connects to rank 0. */
struct hello {
    uint8_t token[TOKEN];
    uint32_t rank;
};

/* Strangers and repeated ranks are dropped. */
static enum status accept_one(const struct rendezvous *r, struct star *s, double deadline_s,
                              size_t *joined)
{
    enum status st;
    struct hello hello;
    int fd = -1;
    TRY(socket_accept(r->listener, deadline_s, &fd));
    if (socket_read(fd, &hello, sizeof hello, deadline_s) != STATUS_OK ||
        memcmp(hello.token, r->token, TOKEN) != 0 || hello.rank >= s->ranks || hello.rank == 0 ||
        s->socket[hello.rank] >= 0) {
        socket_close(&fd);
        goto out;
    }
    s->socket[hello.rank] = fd;
    ++*joined;
out:
    return st;
}

enum status star_open(const struct rendezvous *r, double deadline_s, struct star *out)
{
    enum status st = STATUS_OK;
    struct star s = {.ranks = r->ranks, .rank = r->rank};
    struct hello hello = {.rank = r->rank};
    char host[RENDEZVOUS_HOST];
    memcpy(hello.token, r->token, TOKEN);
    s.socket = malloc((s.ranks + 1) * sizeof *s.socket);
    if (!s.socket)
        return error_set(STATUS_NOMEM, "connections of %zu ranks", s.ranks);
    for (size_t i = 0; i < s.ranks; i++)
        s.socket[i] = -1;
    if (s.rank == 0) {
        for (size_t joined = 1; joined < s.ranks;)
            TRY(accept_one(r, &s, deadline_s, &joined));
    } else {
        TRY(socket_connect(rendezvous_host(r, 0, host), r->port[0], deadline_s, &s.socket[0]));
        TRY(socket_write(s.socket[0], &hello, sizeof hello, deadline_s));
    }
    *out = s;
    s = (struct star){0};
out:
    star_close(&s);
    return st;
}

void star_close(struct star *s)
{
    for (size_t i = 0; s->socket && i < s->ranks; i++)
        socket_close(&s->socket[i]);
    free(s->socket);
    *s = (struct star){0};
}

enum status star_gather(struct star *s, double deadline_s)
{
    enum status st = STATUS_OK;
    uint8_t arrived = 1;
    uint32_t peer = 0;
    if (s->rank > 0)
        TRY(socket_write(s->socket[0], &arrived, sizeof arrived, deadline_s));
    else
        for (peer = 1; peer < s->ranks; peer++)
            TRY(socket_read(s->socket[peer], &arrived, sizeof arrived, deadline_s));
out:
    return st == STATUS_OK ? st : error_context(st, "rank %u meets rank %u", s->rank, peer);
}

enum status star_spread(struct star *s, void *data, size_t bytes, double deadline_s)
{
    enum status st = STATUS_OK;
    uint32_t peer = 0;
    if (s->rank > 0)
        TRY(socket_read(s->socket[0], data, bytes, deadline_s));
    else
        for (peer = 1; peer < s->ranks; peer++)
            TRY(socket_write(s->socket[peer], data, bytes, deadline_s));
out:
    return st == STATUS_OK ? st : error_context(st, "rank %u and rank %u", s->rank, peer);
}
