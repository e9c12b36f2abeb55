/* Two processes for each flow: one takes whatever comes, one sends a message each period, late ones
 * as soon as it can. */
#include "study/emulate_traffic.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/transport/tcp/socket.h"

enum { PORT = 30000, MOST_FLOWS = 1024, MEET = 10, PIECE = 1 << 16 };

/* Until it is killed. */
static void traffic_receive(const char *host, uint16_t port)
{
    static char piece[PIECE];
    int listener = -1, fd = -1;
    double deadline_s = clock_now() + limit_wait(MEET);
    if (socket_listen_on(host, port, &listener) == STATUS_OK &&
        socket_poll(listener, POLLIN, deadline_s) == STATUS_OK &&
        socket_accept_now(listener, &fd) == STATUS_OK && fd >= 0)
        while (socket_read(fd, piece, sizeof piece, INFINITY) == STATUS_OK)
            continue;
}

static void traffic_send(const char *host, uint16_t port, double bytes, double period_s,
                         double begin_s)
{
    static char piece[PIECE];
    int fd = -1;
    if (socket_connect(host, port, clock_now() + limit_wait(MEET), &fd) != STATUS_OK)
        return;
    for (size_t k = 0;; k++) {
        clock_sleep_until(begin_s + (double)k * period_s);
        for (double left = bytes; left >= 1; left -= PIECE)
            if (socket_write(fd, piece, (size_t)fmin(left, PIECE), INFINITY) != STATUS_OK)
                return;
    }
}

/* In the process of one end of flow f. */
static void traffic_run(const struct emulated_traffic *t, size_t f, bool sends)
{
    const struct jobs_flow *flow = &t->js->flow[f];
    const struct netns_inside *inside = t->inside;
    char host[NETNS_HOST];
    uint16_t port = (uint16_t)(PORT + f);
    double period_s = t->js->joined.part[t->js->n].period_s;
    netns_address(inside, t->rank_of[flow->to], host);
    if (!inside->enter(inside->context, t->rank_of[sends ? flow->from : flow->to]))
        return;
    if (sends)
        traffic_send(host, port, flow->Bps * period_s, period_s * inside->dilation, t->begin_s);
    else
        traffic_receive(host, port);
}

enum status emulated_traffic_start(struct emulated_traffic *t)
{
    pid_t parent = getpid();
    if (t->js->flows > MOST_FLOWS)
        return error_set(STATUS_UNSUPPORTED,
                         "background traffic: got %zu flows, expected at most %d", t->js->flows,
                         MOST_FLOWS);
    PASS(ARRAY_NEW(t->pid, 2 * t->js->flows));
    for (size_t k = 0; k < 2 * t->js->flows; k++) {
        pid_t pid = fork();
        if (pid < 0)
            return error_set(STATUS_IO, "fork: %s", strerror(errno));
        if (pid > 0) {
            t->pid[t->n++] = pid;
            continue;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            traffic_run(t, k / 2, k % 2 == 1);
        _exit(EXIT_SUCCESS);
    }
    return STATUS_OK;
}

enum status emulated_traffic_end(struct emulated_traffic *t, enum status st)
{
    bool ended = false;
    for (size_t k = 0; k < t->n; k++)
        if (waitpid(t->pid[k], NULL, WNOHANG) != 0) {
            ended = true;
            t->pid[k] = 0;
        }
    for (size_t k = 0; k < t->n; k++)
        if (t->pid[k] > 0) {
            kill(t->pid[k], SIGKILL);
            waitpid(t->pid[k], NULL, 0);
        }
    free(t->pid);
    t->pid = NULL;
    t->n = 0;
    return ended && st == STATUS_OK
               ? error_set(STATUS_EXTERNAL,
                           "background traffic: the process of a flow ended before the jobs did")
               : st;
}
