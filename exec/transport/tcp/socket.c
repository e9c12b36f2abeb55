/* TCP sockets with deadlines: connections are blocking, and every call that may wait either polls
 * until its deadline or, without one, sleeps in the kernel until the socket is shut down. */
#include "exec/transport/tcp/socket.h"

#include "core/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static enum status socket_failed(void)
{
    return error_set(STATUS_IO, "%s", strerror(errno));
}

int socket_poll_ms(double deadline_s)
{
    if (isinf(deadline_s))
        return -1;
    double ms = ceil((deadline_s - clock_now()) * 1e3);
    return ms <= 0 ? 0 : ms < 1e9 ? (int)ms : (int)1e9;
}

enum status socket_poll(int fd, short events, double deadline_s)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int wait = socket_poll_ms(deadline_s), n = poll(&p, 1, wait);
        if (n > 0)
            return STATUS_OK;
        if (n < 0 && errno != EINTR)
            return socket_failed();
        if (n == 0 && wait == 0)
            return error_set(STATUS_EXTERNAL, "timeout: no answer");
    }
}

static enum status listen_on(const char *host, uint16_t in, int *fd, uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(in)};
    socklen_t length = sizeof a;
    int one = 1;
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        return error_set(STATUS_INVALID,
                         "address: got '%s', expected four numbers with dots such as 10.0.0.1",
                         host);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return socket_failed();
    if ((in != 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) ||
        bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, SOMAXCONN) ||
        getsockname(s, (struct sockaddr *)&a, &length)) {
        enum status st = socket_failed();
        close(s);
        return st;
    }
    *fd = s;
    *port = ntohs(a.sin_port);
    return STATUS_OK;
}

enum status socket_listen_at(const char *host, int *fd, uint16_t *port)
{
    return listen_on(host, 0, fd, port);
}

enum status socket_listen_on(const char *host, uint16_t port, int *fd)
{
    return listen_on(host, port, fd, &port);
}

static enum status socket_print_host(int failure, const struct sockaddr_in *a,
                                     char host[SOCKET_HOST])
{
    if (failure)
        return socket_failed();
    if (a->sin_family != AF_INET || !inet_ntop(AF_INET, &a->sin_addr, host, SOCKET_HOST))
        return error_set(STATUS_IO, "the connection is not an IPv4 connection");
    return STATUS_OK;
}

enum status socket_own(int fd, char host[SOCKET_HOST])
{
    struct sockaddr_in a = {0};
    socklen_t length = sizeof a;
    return socket_print_host(getsockname(fd, (struct sockaddr *)&a, &length), &a, host);
}

enum status socket_peer(int fd, char host[SOCKET_HOST])
{
    struct sockaddr_in a = {0};
    socklen_t length = sizeof a;
    return socket_print_host(getpeername(fd, (struct sockaddr *)&a, &length), &a, host);
}

enum status socket_listen(int *fd, uint16_t *port)
{
    return socket_listen_at("127.0.0.1", fd, port);
}

/* Blocking, without delayed small packets. */
static enum status socket_prepare(int fd)
{
    int one = 1, flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        return socket_failed();
    return STATUS_OK;
}

/* One attempt; *refused when it may be worth another. */
static enum status try_connect(const struct sockaddr_in *a, double deadline_s, bool *refused,
                               int *fd)
{
    enum status st = STATUS_OK;
    int error = 0, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length = sizeof error;
    *refused = false;
    if (s < 0)
        return socket_failed();
    if (connect(s, (const struct sockaddr *)a, sizeof *a)) {
        error = errno;
        if (error == EINPROGRESS) {
            TRY(socket_poll(s, POLLOUT, deadline_s));
            if (getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length))
                error = errno;
        }
    }
    if (error) {
        *refused = error == ECONNREFUSED || error == ECONNRESET || error == EAGAIN;
        st = error_set(STATUS_IO, "%s", strerror(error));
        goto out;
    }
    TRY(socket_prepare(s));
    *fd = s;
    s = -1;
out:
    socket_close(&s);
    return st;
}

/* A refused connection is no failure before the moment `again_s`. */
static enum status connect_to(const char *host, uint16_t port, double again_s, double deadline_s,
                              int *fd)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
        return error_set(STATUS_INVALID, "'%s' is not a dotted IPv4 address", host);
    for (;;) {
        bool refused;
        enum status st = try_connect(&a, deadline_s, &refused, fd);
        if (!refused || clock_now() + 0.02 > again_s)
            return st;
        clock_sleep_until(clock_now() + 0.02);
    }
}

enum status socket_connect(const char *host, uint16_t port, double deadline_s, int *fd)
{
    return connect_to(host, port, deadline_s, deadline_s, fd);
}

enum status socket_connect_once(const char *host, uint16_t port, double deadline_s, int *fd)
{
    return connect_to(host, port, 0, deadline_s, fd);
}

/* Callers may have gone, and descriptors may be used up: both pass. */
enum status socket_accept_now(int listener, int *fd)
{
    int s = accept(listener, NULL, NULL);
    *fd = -1;
    if (s < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || errno == EMFILE ||
                       errno == ENFILE || errno == ENOBUFS
                   ? STATUS_OK
                   : socket_failed();
    enum status st = socket_prepare(s);
    if (st != STATUS_OK)
        close(s);
    else
        *fd = s;
    return st;
}

/* After a transfer that moved `moved` bytes: go on, wait, or give up? */
static enum status socket_after_transfer(int fd, ssize_t moved, short events, double deadline_s)
{
    if (moved > 0)
        return STATUS_OK;
    if (moved == 0)
        return error_set(STATUS_IO, "connection closed");
    if (errno == EINTR)
        return STATUS_OK;
    if (errno == EAGAIN)
        return socket_poll(fd, events, deadline_s);
    if (errno == EPIPE)
        return error_set(STATUS_IO, "connection closed");
    return socket_failed();
}

enum status socket_write(int fd, const void *data, size_t n, double deadline_s)
{
    int flags = MSG_NOSIGNAL | (isinf(deadline_s) ? 0 : MSG_DONTWAIT);
    for (const char *p = data; n > 0;) {
        ssize_t k = send(fd, p, n, flags);
        PASS(socket_after_transfer(fd, k, POLLOUT, deadline_s));
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return STATUS_OK;
}

enum status socket_read(int fd, void *data, size_t n, double deadline_s)
{
    /* MSG_WAITALL sleeps once for a whole message instead of once per segment */
    int flags = isinf(deadline_s) ? MSG_WAITALL : MSG_DONTWAIT;
    for (char *p = data; n > 0;) {
        ssize_t k = recv(fd, p, n, flags);
        PASS(socket_after_transfer(fd, k, POLLIN, deadline_s));
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return STATUS_OK;
}

enum status socket_give_up(int fd, double after_s)
{
    unsigned ms = after_s < 1e6 ? (unsigned)(after_s * 1e3) : 1000000000;
    return setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms) ? socket_failed()
                                                                         : STATUS_OK;
}

void socket_shutdown(int fd)
{
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
}

void socket_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
