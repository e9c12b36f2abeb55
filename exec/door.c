/* Callers that have not yet said who they are, all heard at the same time. */
#include "exec/door.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/transport/tcp/socket.h"

enum status door_open(int listener, const uint8_t token[TOKEN], size_t bytes, struct door *out)
{
    enum status st;
    struct door d = {.listener = listener, .bytes = bytes};
    memcpy(d.token, token, TOKEN);
    TRY(ARRAY_NEW(d.caller, (size_t)DOOR_CALLERS));
    TRY(ARRAY_NEW(d.said, DOOR_CALLERS * bytes));
    for (size_t k = 0; k < DOOR_CALLERS; k++)
        d.caller[k].fd = -1;
    MOVE(out, d);
out:
    free(d.caller);
    free(d.said);
    return st;
}

void door_close(struct door *d)
{
    for (size_t k = 0; d->caller && k < DOOR_CALLERS; k++)
        socket_close(&d->caller[k].fd);
    free(d->caller);
    free(d->said);
    *d = (struct door){0};
}

size_t door_poll(const struct door *d, struct pollfd *p)
{
    size_t n = 0;
    if (!d->caller)
        return 0;
    p[n++] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    for (size_t k = 0; k < DOOR_CALLERS; k++)
        if (d->caller[k].fd >= 0)
            p[n++] = (struct pollfd){.fd = d->caller[k].fd, .events = POLLIN};
    return n;
}

/* A free place, or that of the one that has been silent longest. */
static struct caller *door_find_place(struct door *d)
{
    struct caller *oldest = &d->caller[0];
    for (struct caller *c = d->caller; c < d->caller + DOOR_CALLERS; c++) {
        if (c->fd < 0)
            return c;
        oldest = c->since_s < oldest->since_s ? c : oldest;
    }
    socket_close(&oldest->fd);
    return oldest;
}

/* As many as have a place: the others wait in the kernel. */
static enum status door_accept(struct door *d)
{
    for (size_t n = 0; n < DOOR_CALLERS; n++) {
        int fd = -1;
        PASS(socket_accept_now(d->listener, &fd));
        if (fd < 0)
            break;
        struct caller *c = door_find_place(d);
        *c = (struct caller){.fd = fd, .since_s = clock_now()};
    }
    return STATUS_OK;
}

/* Every byte is looked at, so that the time says nothing of where the first difference is. */
static bool is_token(const struct door *d, const char *said)
{
    unsigned char differs = 0;
    for (size_t i = 0; i < TOKEN; i++)
        differs |= (unsigned char)(d->token[i] ^ (unsigned char)said[i]);
    return differs == 0;
}

/* Another token: is the caller to be heard out, because it may be one of ours that was given it? */
static bool door_is_own_caller(const struct door *d, const struct caller *c, const char *said)
{
    struct frame_head head;
    if (!d->refusal || c->got < TOKEN + sizeof head)
        return d->refusal;
    memcpy(&head, said + TOKEN, sizeof head);
    return frame_check(&head) == STATUS_OK;
}

static void door_refuse(struct door *d, struct caller *c)
{
    ssize_t told = send(c->fd, d->refusal, d->refusal_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    d->refused += told == (ssize_t)d->refusal_bytes;
    socket_close(&c->fd);
}

/* Hear more; *whole: all has been said. Who has nothing to say any more is dropped. */
static void door_receive(struct door *d, struct caller *c, bool *whole)
{
    char *said = d->said + (size_t)(c - d->caller) * d->bytes;
    ssize_t k = recv(c->fd, said + c->got, d->bytes - c->got, MSG_DONTWAIT);
    bool waits = k < 0 && (errno == EAGAIN || errno == EINTR);
    c->got += k > 0 ? (size_t)k : 0;
    bool wrong = c->got >= TOKEN && !is_token(d, said),
         ours = wrong && door_is_own_caller(d, c, said);
    *whole = c->got == d->bytes && !wrong;
    if (*whole)
        return;
    if (ours && c->got == d->bytes)
        door_refuse(d, c);
    else if ((k <= 0 && !waits) || (wrong && !ours) ||
             clock_now() - c->since_s > limit_wait(DOOR_PATIENCE))
        socket_close(&c->fd);
}

enum status door_step(struct door *d, void *hello, int *fd)
{
    *fd = -1;
    if (!d->caller)
        return STATUS_OK;
    PASS(door_accept(d));
    for (struct caller *c = d->caller; c < d->caller + DOOR_CALLERS; c++) {
        bool whole = false;
        if (c->fd >= 0)
            door_receive(d, c, &whole);
        if (!whole)
            continue;
        memcpy(hello, d->said + (size_t)(c - d->caller) * d->bytes, d->bytes);
        *fd = c->fd;
        c->fd = -1;
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* Wakes up for who has been silent too long as well. */
enum status door_answer(struct door *d, double deadline_s, void *hello, int *fd)
{
    for (;;) {
        struct pollfd p[DOOR_POLLS];
        PASS(door_step(d, hello, fd));
        if (*fd >= 0)
            return STATUS_OK;
        if (clock_now() >= deadline_s)
            return error_set(STATUS_EXTERNAL, "timeout: no answer");
        size_t n = door_poll(d, p);
        double until_s =
            n > 1 ? fmin(deadline_s, clock_now() + limit_wait(DOOR_PATIENCE)) : deadline_s;
        if (poll(p, n, socket_poll_ms(until_s)) < 0 && errno != EINTR)
            return error_set(STATUS_IO, "poll: %s", strerror(errno));
    }
}
