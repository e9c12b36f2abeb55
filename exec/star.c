/* Connections between ranks, and the star around rank 0. */
#include "exec/star.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/door.h"
#include "exec/transport/tcp/socket.h"

/* How much later a step starts for every rank that has to hear of it. */
static const double ahead_per_rank_s = 3e-5;

enum status star_call(const struct rendezvous *r, uint32_t peer, enum star_role role, uint32_t id,
                      double deadline_s, int *fd)
{
    enum status st;
    char host[RENDEZVOUS_HOST];
    struct star_hello h = {{0}, STAR_MAGIC, STAR_VERSION, role, id, r->rank};
    memcpy(h.token, r->token, TOKEN);
    TRY(socket_connect(rendezvous_host(r, peer, host), r->port[peer], deadline_s, fd));
    TRY(socket_write(*fd, &h, sizeof h, deadline_s));
out:
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u: connecting to rank %u", r->rank, peer);
}

enum status star_door(const struct rendezvous *r, struct door *out)
{
    return door_open(r->listener, r->token, sizeof(struct star_hello), out);
}

enum status star_answer(struct door *door, double deadline_s, struct star_hello *hello, int *fd)
{
    PASS(door_answer(door, deadline_s, hello, fd));
    if (hello->magic != STAR_MAGIC || hello->version != STAR_VERSION)
        socket_close(fd);
    return STATUS_OK;
}

/* ---- the star */

enum status star_init(const struct rendezvous *r, struct star *out)
{
    struct star s = {.ranks = r->ranks, .rank = r->rank, .one_clock = !r->clocks_differ};
    PASS(ARRAY_NEW(s.socket, s.ranks));
    for (size_t i = 0; i < s.ranks; i++)
        s.socket[i] = -1;
    *out = s;
    return STATUS_OK;
}

int *star_seat(const struct star *s, const struct star_hello *h)
{
    bool comes = h->role == STAR_CENTRE && s->rank == 0 && h->from > 0 && h->from < s->ranks;
    return comes ? &s->socket[h->from] : NULL;
}

/* Rank 0: let everybody in; repeated ranks are dropped. */
static enum status star_accept(struct star *s, struct door *door, double deadline_s)
{
    for (size_t joined = 1; joined < s->ranks;) {
        struct star_hello hello;
        int fd = -1;
        PASS(star_answer(door, deadline_s, &hello, &fd));
        int *seat = fd >= 0 ? star_seat(s, &hello) : NULL;
        if (seat && *seat < 0) {
            *seat = fd;
            joined++;
        } else {
            socket_close(&fd);
        }
    }
    return STATUS_OK;
}

enum status star_open(const struct rendezvous *r, double deadline_s, struct star *out)
{
    enum status st;
    struct star s = {0};
    struct door door = {0};
    TRY(star_init(r, &s));
    if (s.rank == 0) {
        TRY(star_door(r, &door));
        TRY(star_accept(&s, &door, deadline_s));
    } else {
        TRY(star_call(r, 0, STAR_CENTRE, 0, deadline_s, &s.socket[0]));
    }
    MOVE(out, s);
out:
    door_close(&door);
    star_close(&s);
    return st == STATUS_OK ? st
                           : error_context(st, "rank %u: connecting to the other ranks", r->rank);
}

void star_close(struct star *s)
{
    for (size_t i = 0; s->socket && i < s->ranks; i++)
        socket_close(&s->socket[i]);
    free(s->socket);
    *s = (struct star){0};
}

/* Everybody is at the same step. */
static enum status star_check_word(const struct star_word *word, uint32_t step)
{
    if (word->magic == STAR_GONE)
        return error_set(STATUS_IO, "rank %u has exited", word->step);
    if (word->magic != STAR_MAGIC)
        return error_set(STATUS_IO, "got data that is not a foreline message (magic number 0x%08x)",
                         word->magic);
    if (word->step != step)
        return error_set(STATUS_IO, "got a message of step %u, expected step %u", word->step, step);
    return STATUS_OK;
}

/* *peer is the rank with which it went wrong. */
static enum status star_gather_words(struct star *s, uint32_t step, double deadline_s,
                                     uint32_t *peer)
{
    struct star_word word = {.magic = STAR_MAGIC, .step = step};
    *peer = 0;
    if (s->rank > 0)
        PASS(socket_write(s->socket[0], &word, sizeof word, deadline_s));
    else
        for (*peer = 1; *peer < s->ranks; ++*peer) {
            PASS(socket_read(s->socket[*peer], &word, sizeof word, deadline_s));
            PASS(star_check_word(&word, step));
        }
    return STATUS_OK;
}

static enum status star_send_all(struct star *s, void *data, size_t bytes, double deadline_s,
                                 uint32_t *peer)
{
    *peer = 0;
    if (s->rank > 0)
        PASS(socket_read(s->socket[0], data, bytes, deadline_s));
    else
        for (*peer = 1; *peer < s->ranks; ++*peer)
            PASS(socket_write(s->socket[*peer], data, bytes, deadline_s));
    return STATUS_OK;
}

enum status star_gather(struct star *s, uint32_t step, double deadline_s)
{
    uint32_t peer;
    enum status st = star_gather_words(s, step, deadline_s, &peer);
    return st == STATUS_OK ? st : error_context(st, "rank %u with rank %u", s->rank, peer);
}

enum status star_spread(struct star *s, void *data, size_t bytes, double deadline_s)
{
    uint32_t peer;
    enum status st = star_send_all(s, data, bytes, deadline_s, &peer);
    return st == STATUS_OK ? st : error_context(st, "rank %u with rank %u", s->rank, peer);
}

static enum status at_barrier(const struct star *s, uint32_t step, uint32_t peer, enum status st)
{
    return error_context(st, "rank %u: barrier of step %u with rank %u", s->rank, step, peer);
}

enum status star_release(struct star *s, uint32_t step, double ahead_s, double deadline_s,
                         double *start_s)
{
    enum status st;
    struct star_word word = {.magic = STAR_MAGIC, .step = step};
    uint32_t peer;
    word.moment_s = clock_now() + ahead_s + ahead_per_rank_s * (double)s->ranks;
    TRY(star_send_all(s, &word, sizeof word, deadline_s, &peer));
    TRY(star_check_word(&word, step));
    *start_s = s->one_clock ? word.moment_s : clock_now();
out:
    return st == STATUS_OK ? st : at_barrier(s, step, peer, st);
}

/* Arrival and answer carry the step: a peer that is at another one is found out here and not by
 * wrong numbers. */
enum status star_barrier(struct star *s, uint32_t step, double ahead_s, double deadline_s,
                         double *start_s)
{
    uint32_t peer;
    enum status st = star_gather_words(s, step, deadline_s, &peer);
    return st == STATUS_OK ? star_release(s, step, ahead_s, deadline_s, start_s)
                           : at_barrier(s, step, peer, st);
}

/* ---- who has ended */

/* Looks at what comes next without taking it from whoever reads it. */
bool star_lost(const struct star *s, uint32_t *rank)
{
    size_t first = s->rank == 0, last = s->rank == 0 ? s->ranks : 1;
    for (size_t k = first; k < last; k++) {
        struct star_word word;
        ssize_t n = recv(s->socket[k], &word, sizeof word, MSG_PEEK | MSG_DONTWAIT);
        bool told = n == (ssize_t)sizeof word && word.magic == STAR_GONE;
        if (!told && (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))))
            continue;
        *rank = told ? word.step : (uint32_t)k;
        return true;
    }
    return false;
}

void star_tell_lost(const struct star *s, uint32_t rank)
{
    const struct star_word word = {.magic = STAR_GONE, .step = rank};
    for (uint32_t k = 1; s->rank == 0 && k < s->ranks; k++)
        if (k != rank && socket_write(s->socket[k], &word, sizeof word,
                                      clock_now() + limit_wait(WAIT_SEND)) != STATUS_OK)
            continue;
}
