#define _GNU_SOURCE
#include "exec/netns/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 << 10 };
static const double lasting_s = 0.25;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A socket of namespace `space`; -1 with errno. */
static int socket_in(int space)
{
    return setns(space, CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
}

/* In a process of its own, until the receiver hangs up. */
static void send_all(int space, const struct sockaddr_in *to)
{
    static char piece[PIECE];
    int fd = socket_in(space);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof *to) == 0)
        while (send(fd, piece, sizeof piece, MSG_NOSIGNAL) > 0)
            ;
    _exit(0);
}

static enum status receive(int listener, double *Bps)
{
    static char piece[PIECE];
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    double begin = now_s(), end = begin, bytes = 0;
    while (fd >= 0 && end - begin < lasting_s) {
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0)
            break;
        bytes += (double)n;
        end = now_s();
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    if (end - begin < lasting_s)
        return error_set(STATUS_IO, "measuring what this machine carries: %s", strerror(reason));
    *Bps = bytes / (end - begin);
    return STATUS_OK;
}

static enum status measure(const struct built *b, double *Bps)
{
    enum status st;
    char text[INSIDE_ADDRESS];
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    const struct timeval patience = {.tv_sec = 10};
    pid_t sender = -1;
    int fd = socket_in(b->fd[0]);
    inet_pton(AF_INET, build_address(0, text), &at.sin_addr);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) != 0 || (sender = fork()) < 0) {
        st = error_set(STATUS_IO, "measuring what this machine carries: %s", strerror(errno));
        goto out;
    }
    if (sender == 0)
        send_all(b->fd[1], &at);
    st = receive(fd, Bps);
out:
    if (sender > 0) {
        kill(sender, SIGKILL);
        waitpid(sender, NULL, 0);
    }
    if (fd >= 0)
        close(fd);
    return st;
}

enum status carry_measure(double *Bps)
{
    enum status st;
    struct wiring pair = {0};
    struct built b = {0};
    const struct build_options options = {.dilation = 1};
    TRY(wiring_pair(&pair));
    TRY(build(&pair, &options, &b));
    TRY(measure(&b, Bps));
out:
    built_free(&b);
    wiring_free(&pair);
    return st;
}
