/* What this machine can carry, and how exactly: TCP streams and small messages over emulated links
 * that are built for the measurement and gone after it. */
#define _GNU_SOURCE
#include "exec/netns/inside.h"

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/statistics.h"
#include "host/family.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10, ECHO_PORT = 29500, ROUNDS = 21 };
static const double lasting_s = 0.25, shaped_lasting_s = 0.6, shortest_s = 50e-6;

/* A stream from node pairs + i to node i, between two processes of ours. */
struct carry_stream {
    int listener;
    struct sockaddr_in at;
    pid_t sender, receiver;
    double *Bps; /* shared with the receiver; 0: it has failed */
};

/* A socket of namespace `space`; -1 with errno. */
static int socket_in(int space, int type)
{
    return setns(space, CLONE_NEWNET) == 0 ? socket(AF_INET, type | SOCK_CLOEXEC, 0) : -1;
}

/* Measuring what this machine's networks carry is silent for 4 s at most. */
static bool be_patient(int fd)
{
    double s = limit_wait(4);
    const struct timeval most = {(time_t)s, (suseconds_t)(fmod(s, 1) * 1e6)};
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0;
}

/* Calls that a pause interrupts: of sockets with a timeout it does (signal(7)), without any
 * handler. */
static int carry_answer_pings(int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 && errno == EINTR)
        ;
    return fd;
}

static ssize_t carry_receive(int fd, void *to, size_t bytes)
{
    ssize_t n;
    while ((n = recv(fd, to, bytes, 0)) < 0 && errno == EINTR)
        ;
    return n;
}

static ssize_t carry_send(int fd, const void *from, size_t bytes)
{
    ssize_t n;
    while ((n = send(fd, from, bytes, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return n;
}

/* In a process of its own, until the receiver hangs up. */
static void send_all(int space, const struct sockaddr_in *to)
{
    static char piece[PIECE];
    int fd = socket_in(space, SOCK_STREAM);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0)
        while (carry_send(fd, piece, sizeof piece) > 0)
            ;
    _exit(0);
}

/* In a process of its own: the rate of what comes after the first `skipped` bytes. */
static void carry_receive_stream(const struct carry_stream *s, double skipped, double seconds)
{
    static char piece[PIECE];
    int fd = carry_answer_pings(s->listener);
    double begin = 0, end = 0, bytes = 0;
    be_patient(fd);
    while (fd >= 0 && end - begin <= seconds) {
        ssize_t n = carry_receive(fd, piece, sizeof piece);
        if (n <= 0)
            _exit(1);
        bytes += (double)n;
        if (bytes < skipped)
            continue;
        end = clock_now();
        if (begin == 0) {
            begin = end;
            skipped = bytes;
        }
    }
    *s->Bps = fd < 0 ? 0 : (bytes - skipped) / (end - begin);
    _exit(0);
}

static bool listen_at(const struct built *b, uint32_t rank, struct carry_stream *s)
{
    char text[INSIDE_ADDRESS];
    socklen_t size = sizeof s->at;
    s->at = (struct sockaddr_in){.sin_family = AF_INET};
    inet_pton(AF_INET, build_address(rank, text), &s->at.sin_addr);
    s->listener = socket_in(b->fd[rank], SOCK_STREAM);
    return s->listener >= 0 && be_patient(s->listener) &&
           bind(s->listener, (struct sockaddr *)&s->at, sizeof s->at) == 0 &&
           listen(s->listener, 1) == 0 &&
           getsockname(s->listener, (struct sockaddr *)&s->at, &size) == 0;
}

static enum status carry_start_stream(const struct built *b, uint32_t rank, uint32_t partner,
                                      double skipped, double seconds, struct carry_stream *s)
{
    if (!listen_at(b, rank, s) || (s->receiver = fork()) < 0)
        goto failed;
    if (s->receiver == 0)
        carry_receive_stream(s, skipped, seconds);
    if ((s->sender = fork()) < 0)
        goto failed;
    if (s->sender == 0)
        send_all(b->fd[partner], &s->at);
    return STATUS_OK;
failed:
    return error_set(STATUS_IO, "cannot measure this machine's network throughput: %s",
                     strerror(errno));
}

static void carry_end_child(pid_t *pid, bool now)
{
    if (*pid <= 0)
        return;
    struct family_watch seen = {0};
    while (!now && waitpid(*pid, NULL, WNOHANG) == 0) {
        now = family_stopped_long(&seen, *pid, 0);
        clock_sleep_until(clock_now() + 1e-3);
    }
    if (now) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

/* All streams at once, each until the last is measured. */
static enum status carry_measure_streams(const struct wiring *w, enum latencies latencies,
                                         double skipped, double seconds, double *Bps)
{
    enum status st = STATUS_OK;
    struct built b = {0};
    const struct build_options options = {.dilation = 1, .latencies = latencies};
    struct carry_stream stream[CARRY_STREAMS] = {{.listener = -1}, {.listener = -1}};
    uint32_t n = (uint32_t)w->nodes / 2;
    double *shared = mmap(NULL, sizeof *shared * CARRY_STREAMS, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_NOMEM,
                         "out of memory: cannot allocate shared memory to measure throughput");
    TRY(build(w, &options, &b));
    for (uint32_t i = 0; i < n; i++) {
        stream[i].Bps = &shared[i];
        TRY(carry_start_stream(&b, i, n + i, skipped, seconds, &stream[i]));
    }
    for (uint32_t i = 0; i < n; i++) {
        carry_end_child(&stream[i].receiver, false);
        if (shared[i] <= 0)
            st = error_set(
                STATUS_IO,
                "cannot measure this machine's network throughput: a TCP stream was interrupted");
        Bps[i] = shared[i];
    }
out:
    for (uint32_t i = 0; i < n; i++) {
        carry_end_child(&stream[i].sender, true);
        carry_end_child(&stream[i].receiver, true);
        if (stream[i].listener >= 0)
            close(stream[i].listener);
    }
    built_free(&b);
    munmap(shared, sizeof *shared * CARRY_STREAMS);
    return st;
}

enum status carry_measure(enum latencies latencies, double *Bps)
{
    enum status st;
    struct wiring pair = {0};
    TRY(wiring_pair(&pair));
    pair.link[0].latency_s = latencies == LATENCY_LINE ? shortest_s : 0;
    TRY(carry_measure_streams(&pair, latencies, 0, lasting_s, Bps));
out:
    wiring_free(&pair);
    return st;
}

enum status carry_shaped(const struct carry_test *test, double *Bps)
{
    enum status st;
    struct wiring w = {0};
    TRY(wiring_dumbbell(test->streams, test->bandwidth_Bps, &w));
    w.link[w.links - 1].latency_s = test->latency_s; /* the one that all share */
    TRY(carry_measure_streams(&w, test->latencies, 1 << 20, shaped_lasting_s, Bps));
out:
    wiring_free(&w);
    return st;
}

/* ---- small messages there and back */

/* A UDP socket of a rank, connected to the same port of the other; -1 with errno. */
static int datagrams(const struct built *b, uint32_t rank)
{
    char text[INSIDE_ADDRESS];
    struct sockaddr_in at[2];
    int fd = socket_in(b->fd[rank], SOCK_DGRAM);
    for (uint32_t k = 0; k < 2; k++) {
        at[k] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(ECHO_PORT)};
        inet_pton(AF_INET, build_address(k, text), &at[k].sin_addr);
    }
    if (fd >= 0 && be_patient(fd) && bind(fd, (struct sockaddr *)&at[rank], sizeof at[0]) == 0 &&
        connect(fd, (struct sockaddr *)&at[1 - rank], sizeof at[0]) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Half of the median time of a byte there and back; 0: it did not come back. */
static double ping(int fd)
{
    double took_s[ROUNDS];
    char byte = 0;
    for (int i = 0; i < ROUNDS; i++) {
        double begin = clock_now();
        if (carry_send(fd, &byte, 1) != 1 || carry_receive(fd, &byte, 1) != 1)
            return 0;
        took_s[i] = clock_now() - begin;
    }
    qsort(took_s, ROUNDS, sizeof *took_s, by_value);
    return took_s[ROUNDS / 2] / 2;
}

/* A process at the other end sends every datagram back; the median of many leaves out those that
 * the machine delayed. */
enum status carry_latency(enum latencies latencies, double latency_s, double *took_s)
{
    enum status st;
    struct wiring pair = {0};
    struct built b = {0};
    const struct build_options options = {.dilation = 1, .latencies = latencies};
    int fd[2] = {-1, -1};
    char byte;
    pid_t echo = 0;
    TRY(wiring_pair(&pair));
    pair.link[0].latency_s = latency_s;
    pair.link[0].bandwidth_Bps = 125e6; /* netem is a shaper's */
    TRY(build(&pair, &options, &b));
    for (uint32_t k = 0; k < 2; k++)
        fd[k] = datagrams(&b, k);
    echo = fd[0] < 0 || fd[1] < 0 ? -1 : fork();
    if (echo == 0) {
        while (carry_receive(fd[1], &byte, 1) == 1 && carry_send(fd[1], &byte, 1) == 1)
            ;
        _exit(0);
    }
    *took_s = echo > 0 ? ping(fd[0]) : 0;
    if (*took_s <= 0)
        st = error_set(STATUS_IO, "cannot measure a latency: %s", strerror(errno));
out:
    carry_end_child(&echo, true);
    for (int k = 0; k < 2; k++)
        if (fd[k] >= 0)
            close(fd[k]);
    built_free(&b);
    wiring_free(&pair);
    return st;
}
