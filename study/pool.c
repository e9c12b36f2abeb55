/* A pool of forked workers, each at the end of a socket: a number of an item goes to it, an
 * answer of fixed size comes back. A worker that ends instead of answering is noticed as its
 * socket ends. */
#include "study/pool.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "host/family.h"

enum { TICK_MS = 200, MESSAGE = 512 };

/* Room for an answer, aligned for any type. */
union slot {
    char bytes[POOL_SLOT];
    max_align_t alignment;
};

/* A worker process and the parent's end of its socket. A worker that waits for work has no item;
 * one whose process is gone has no pid, and the next item makes a new one. */
struct pool_worker {
    pid_t pid; /* 0: none */
    int socket;
    size_t item; /* SIZE_MAX: idle */
    struct family_watch watch;
};

struct process_pool {
    const struct pool_job *job;
    const size_t *item;
    size_t n, next, workers;
    struct pool_worker *worker; /* [workers] */
    struct pollfd *wait;        /* [workers] */
};

/* ---- the worker's side: a number in, an answer out, until the socket ends */

/* The worker's whole life: receive a number, work, send the slot. SOCK_SEQPACKET keeps messages
 * apart, so that an answer arrives whole or not at all. The socket ends with the parent, and so
 * does the worker. */
static void pool_serve(const struct pool_job *job, int socket)
{
    union slot slot;
    size_t item;
    while (recv(socket, &item, sizeof item, 0) == (ssize_t)sizeof item) {
        memset(slot.bytes, 0, job->size);
        job->work(job->context, item, slot.bytes);
        if (send(socket, slot.bytes, job->size, MSG_NOSIGNAL) != (ssize_t)job->size)
            break;
    }
}

/* ---- the parent's side */

/* Fork a worker. It is a process group of its own, so that Ctrl-C on the terminal reaches only the
 * parent, and so that all its children can be killed with it. PR_SET_PDEATHSIG ends it with the
 * parent; the check of getppid() is for a parent that ended before that was set. What stdio holds
 * is flushed first, or both processes would write it. */
static enum status pool_start_worker(struct process_pool *p, struct pool_worker *w)
{
    int pair[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
        return error_set(STATUS_IO, "socketpair: %s", strerror(errno));
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    if (pid < 0) {
        int cause = errno;
        close(pair[0]);
        close(pair[1]);
        return error_set(STATUS_IO, "fork: %s", strerror(cause));
    }
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);       /* as pool_end_worker() */
        for (size_t i = 0; i < p->workers; i++) /* their other ends must close with the parent */
            if (p->worker[i].pid)
                close(p->worker[i].socket);
        close(pair[0]);
        if (getppid() == parent)
            pool_serve(p->job, pair[1]);
        _exit(EXIT_SUCCESS);
    }
    setpgid(pid, pid); /* whoever is first */
    close(pair[1]);
    *w = (struct pool_worker){.pid = pid, .socket = pair[0], .item = SIZE_MAX};
    return STATUS_OK;
}

/* Has it ended? Its number, and that of its group, stay ours until it is waited for. */
static bool has_ended(const struct pool_worker *w, int options)
{
    siginfo_t ended = {.si_pid = 0};
    while (waitid(P_PID, (id_t)w->pid, &ended, WEXITED | WNOWAIT | options) != 0)
        if (errno != EINTR)
            return true;
    return ended.si_pid == w->pid;
}

/* Kill what it has started, with it, and return how it ended. */
static int pool_reap(const struct pool_worker *w)
{
    int how = 0;
    kill(-w->pid, SIGKILL);
    while (waitpid(w->pid, &how, 0) < 0 && errno == EINTR)
        ;
    return how;
}

/* End a worker with all its children; it has a moment to remove what it has made. Returns how it
 * ended. */
static int pool_end_worker(struct pool_worker *w)
{
    kill(-w->pid, SIGTERM);
    close(w->socket);
    for (double until_s = clock_now() + limit_wait(WAIT_PROGRAMS);
         !has_ended(w, WNOHANG) && clock_now() < until_s;)
        clock_sleep_until(clock_now() + 1e-3);
    int how = pool_reap(w);
    w->pid = 0;
    w->item = SIZE_MAX;
    return how;
}

/* Give every idle worker its next item, making workers as they are needed: a pool of one item
 * makes one process. */
static enum status pool_dispatch(struct process_pool *p)
{
    for (size_t i = 0; i < p->workers && p->next < p->n; i++) {
        struct pool_worker *w = &p->worker[i];
        if (w->pid && w->item != SIZE_MAX)
            continue;
        if (!w->pid)
            PASS(pool_start_worker(p, w));
        w->item = p->item[p->next++];
        (void)send(w->socket, &w->item, sizeof w->item, MSG_NOSIGNAL); /* the answer will tell */
    }
    return STATUS_OK;
}

/* A worker has ended by itself. Its item is lost, which done() is told with a message that says
 * how; whatever it had started is killed, and the next item gets a new worker. */
static enum status bury(struct process_pool *p, struct pool_worker *w)
{
    size_t item = w->item;
    has_ended(w, 0); /* by itself: a SIGKILL before that would be taken for the cause */
    int how = pool_reap(w);
    close(w->socket);
    *w = (struct pool_worker){.item = SIZE_MAX};
    if (item == SIZE_MAX)
        return STATUS_OK;
    error_set(STATUS_EXTERNAL, "the process that computed this point died%s%s",
              WIFSIGNALED(how) ? ": " : "", WIFSIGNALED(how) ? strsignal(WTERMSIG(how)) : "");
    return p->job->done(p->job->context, item, NULL);
}

/* An answer is there, or the worker is dead: its socket then reads as ended. */
static enum status pool_receive(struct process_pool *p, struct pool_worker *w)
{
    union slot slot;
    ssize_t n = recv(w->socket, slot.bytes, p->job->size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return STATUS_OK;
    if (n != (ssize_t)p->job->size)
        return bury(p, w);
    size_t item = w->item;
    w->item = SIZE_MAX;
    return p->job->done(p->job->context, item, slot.bytes);
}

/* Wait for answers, at most TICK_MS. *busy: how many workers had an item, that is whether there
 * may be more. */
static enum status wait_for_some(struct process_pool *p, size_t *busy)
{
    *busy = 0;
    for (size_t i = 0; i < p->workers; i++) {
        bool waits = p->worker[i].pid && p->worker[i].item != SIZE_MAX;
        p->wait[i] = (struct pollfd){.fd = waits ? p->worker[i].socket : -1, .events = POLLIN};
        *busy += waits;
    }
    if (*busy == 0 || poll(p->wait, (nfds_t)p->workers, TICK_MS) < 0)
        return STATUS_OK;
    for (size_t i = 0; i < p->workers; i++) {
        struct pool_worker *w = &p->worker[i];
        if (p->wait[i].revents)
            PASS(pool_receive(p, w));
        else if (p->wait[i].fd >= 0 && family_stopped_long(&w->watch, w->pid, 0))
            kill(w->pid, SIGKILL); /* its socket ends, and it is buried */
    }
    return STATUS_OK;
}

/* As many as were asked for, else one for each core; never more than items. */
static size_t count_workers(size_t asked, size_t n)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t workers = asked ? asked : cores > 1 ? (size_t)cores : 1;
    return workers < n ? workers : n;
}

enum status pool_run(const struct pool_job *job, const size_t *item, size_t n)
{
    enum status st;
    size_t busy = 0;
    struct process_pool p = {
        .job = job, .item = item, .n = n, .workers = count_workers(job->workers, n)};
    if (job->size > POOL_SLOT)
        return error_set(STATUS_NOMEM, "process pool: a result has %zu bytes, expected at most %d",
                         job->size, POOL_SLOT);
    TRY(ARRAY_NEW(p.worker, p.workers));
    TRY(ARRAY_NEW(p.wait, p.workers));
    do {
        if (job->stop && *job->stop)
            break;
        TRY(pool_dispatch(&p));
        TRY(wait_for_some(&p, &busy));
        if (job->tick)
            job->tick(job->context);
    } while (busy > 0 || p.next < n);
out:
    for (size_t i = 0; p.worker && i < p.workers; i++)
        if (p.worker[i].pid)
            (void)pool_end_worker(&p.worker[i]);
    free(p.worker);
    free(p.wait);
    return st;
}

/* ---- the same work for many items */

struct pool_verdict { /* an answer begins with it; the slot follows, aligned for any type */
    _Alignas(max_align_t) enum status status;
    char message[MESSAGE];
};

struct pool_share {
    const struct pool_items *items;
    size_t failed;             /* lowest index with an error, SIZE_MAX: none */
    struct pool_verdict first; /* that error */
    double until_s;            /* when what is not done is given up; 0: not asked to */
    int stopped;
};

/* In a worker: the status and the message of an item travel in front of its slot. */
static void work_on(void *context, size_t i, void *answer)
{
    const struct pool_share *s = context;
    struct pool_verdict *v = answer;
    v->status = s->items->work(s->items->context, i, v + 1);
    if (v->status != STATUS_OK)
        snprintf(v->message, MESSAGE, "%s", error_message());
}

/* In the parent: copy the slot, or remember the error of the lowest index, so that what is
 * returned does not depend on which worker was faster. */
static enum status pool_keep_answer(void *context, size_t i, const void *answer)
{
    struct pool_share *s = context;
    struct pool_verdict lost = {.status = STATUS_EXTERNAL};
    const struct pool_verdict *v = answer ? answer : &lost;
    if (!answer)
        snprintf(lost.message, MESSAGE, "item %zu: %s", i, error_message());
    if (v->status == STATUS_OK) {
        memcpy((char *)s->items->slots + i * s->items->size, v + 1, s->items->size);
    } else if (i < s->failed) {
        s->failed = i;
        s->first = *v;
    }
    return STATUS_OK;
}

static void pool_watch(void *context)
{
    struct pool_share *s = context;
    const struct pool_items *items = s->items;
    if (items->tick)
        items->tick(items->context);
    if (!items->stop || !*items->stop)
        return;
    s->until_s = s->until_s > 0 ? s->until_s : clock_now() + POOL_PATIENCE_S;
    s->stopped = clock_now() > s->until_s;
}

enum status pool_for_watched(const struct pool_items *items)
{
    enum status st;
    struct pool_share s = {.items = items, .failed = SIZE_MAX};
    const struct pool_job job = {.workers = items->workers,
                                 .size = sizeof(struct pool_verdict) + items->size,
                                 .work = work_on,
                                 .done = pool_keep_answer,
                                 .tick = pool_watch,
                                 .stop = &s.stopped,
                                 .context = &s};
    size_t *item = NULL;
    TRY(ARRAY_NEW(item, items->n));
    for (size_t i = 0; i < items->n; i++)
        item[i] = i;
    TRY(pool_run(&job, item, items->n));
    if (s.failed != SIZE_MAX)
        st = error_set(s.first.status, "%s", s.first.message);
out:
    free(item);
    return st;
}

enum status pool_for(size_t workers, size_t n, size_t size, void *slots,
                     enum status (*work)(void *context, size_t i, void *slot), void *context)
{
    enum status st = STATUS_OK;
    if (count_workers(workers, n) > 1)
        return pool_for_watched(&(struct pool_items){.workers = workers,
                                                     .n = n,
                                                     .size = size,
                                                     .slots = slots,
                                                     .work = work,
                                                     .context = context});
    for (size_t i = 0; i < n && st == STATUS_OK; i++)
        st = work(context, i, (char *)slots + i * size);
    return st;
}
