#include "exec/star.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "exec/transport/tcp/socket.h"

enum { BOOT_ID = 40 };

/* What a rank says when it connects to rank 0. */
struct hello {
    uint8_t token[TOKEN];
    char machine[BOOT_ID];
    uint32_t rank;
};

/* The kernel that runs here, "" when it does not say. */
static void name_machine(char machine[BOOT_ID])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    memset(machine, 0, BOOT_ID);
    if (!f)
        return;
    if (fread(machine, 1, BOOT_ID - 1, f) == 0)
        machine[0] = '\0';
    fclose(f);
}

/* Strangers and repeated ranks are dropped; a stranger that says nothing is not waited for long. */
static enum status accept_one(const struct rendezvous *r, struct star *s, int listener,
                              const char *machine, double deadline_s, size_t *joined)
{
    enum status st;
    const double hello_s = 3;
    struct hello hello;
    int fd = -1;
    TRY(socket_accept(listener, deadline_s, &fd));
    double soon_s = clock_now() + hello_s;
    if (socket_read(fd, &hello, sizeof hello, soon_s < deadline_s ? soon_s : deadline_s) !=
            STATUS_OK ||
        memcmp(hello.token, r->token, TOKEN) != 0 || hello.rank >= s->ranks || hello.rank == 0 ||
        s->socket[hello.rank] >= 0) {
        socket_close(&fd);
        goto out;
    }
    s->socket[hello.rank] = fd;
    s->one_clock = s->one_clock && machine[0] && !memcmp(hello.machine, machine, BOOT_ID);
    ++*joined;
out:
    return st;
}

/* Rank 0: let everybody in. */
static enum status gather_all(const struct rendezvous *r, struct star *s, int listener,
                              double deadline_s)
{
    enum status st = STATUS_OK;
    char machine[BOOT_ID];
    name_machine(machine);
    for (size_t joined = 1; joined < s->ranks;)
        TRY(accept_one(r, s, listener, machine, deadline_s, &joined));
out:
    return st;
}

static enum status call_rank_0(const struct rendezvous *r, struct star *s, const char *host,
                               uint16_t port, double deadline_s)
{
    enum status st;
    struct hello hello = {.rank = r->rank};
    memcpy(hello.token, r->token, TOKEN);
    name_machine(hello.machine);
    TRY(socket_connect(host, port, deadline_s, &s->socket[0]));
    TRY(socket_write(s->socket[0], &hello, sizeof hello, deadline_s));
out:
    return st;
}

static enum status listen_everywhere(uint16_t port, int *listener)
{
    enum status st = socket_listen_on("0.0.0.0", port, listener);
    return st == STATUS_OK ? st : error_context(st, "port %u", port);
}

enum status star_open(const struct rendezvous *r, double deadline_s, struct star *out)
{
    enum status st = STATUS_OK;
    struct star s = {.ranks = r->ranks, .rank = r->rank, .one_clock = true};
    char host[RENDEZVOUS_HOST];
    uint16_t port = r->port[0];
    int listener = -1;
    bool given = false;
    s.socket = malloc((s.ranks + 1) * sizeof *s.socket);
    if (!s.socket)
        return error_set(STATUS_NOMEM, "connections of %zu ranks", s.ranks);
    for (size_t i = 0; i < s.ranks; i++)
        s.socket[i] = -1;
    TRY(rendezvous_master(host, &port, &given));
    port = (uint16_t)(port + given); /* the launcher may listen on that one (--launcher env) */
    if (!given)
        rendezvous_host(r, 0, host);
    else if (s.rank == 0)
        TRY(listen_everywhere(port, &listener));
    TRY(s.rank == 0 ? gather_all(r, &s, given ? listener : r->listener, deadline_s)
                    : call_rank_0(r, &s, host, port, deadline_s));
    TRY(star_spread(&s, &s.one_clock, sizeof s.one_clock, deadline_s));
    *out = s;
    s = (struct star){0};
out:
    socket_close(&listener);
    star_close(&s);
    return st == STATUS_OK ? st : error_context(st, "rank %u meets the others", r->rank);
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
