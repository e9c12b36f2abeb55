/* Processes that measure together: forked, watched until all have ended or one has failed. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "exec/team.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/cores.h"
#include "exec/transport/tcp/socket.h"

enum { REASON = 1024 };

static const double glance_s = 0.02;

/* How a member failed. */
struct failure {
    enum status st;
    char message[REASON];
};

/* In memory that all share; the numbers follow. */
struct shared {
    pthread_barrier_t together;
    struct failure failure[TEAM_MOST]; /* st == STATUS_OK: none */
};

struct team_state {
    size_t ranks, bytes;
    struct shared *shared; /* [bytes] */
    double *number;        /* in there */
    int listener[TEAM_MOST];
    uint16_t port[TEAM_MOST];
    pid_t pid[TEAM_MOST];  /* 0: not running */
    struct failure *cause; /* the best explanation so far; NULL: all is well */
};

/* Memory that parent and children see: barrier, failures, then the numbers. */
static enum status team_share_memory(struct team_state *t, size_t numbers)
{
    t->bytes = sizeof *t->shared + numbers * sizeof(double);
    void *p = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return error_set(STATUS_NOMEM, "shared memory: %s", strerror(errno));
    t->shared = p;
    t->number = (double *)(t->shared + 1);
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&t->shared->together, &attr, (unsigned)t->ranks);
    pthread_barrierattr_destroy(&attr);
    return STATUS_OK;
}

/* In the child; does not return. A member dies with its parent: one that has just lost it ends at
 * once. */
static void team_run_member(struct team_state *t, uint32_t rank, pid_t parent,
                            enum status (*body)(struct team_member *, void *), void *context)
{
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    if (getppid() != parent)
        _exit(1);
    cores_bind(rank, t->ranks);
    struct team_member me = {.rank = rank,
                             .ranks = t->ranks,
                             .number = t->number,
                             .together = &t->shared->together,
                             .listener = t->listener[rank],
                             .port = t->port};
    struct failure *f = &t->shared->failure[rank];
    enum status st = body(&me, context);
    if (st != STATUS_OK) {
        snprintf(f->message, sizeof f->message, "rank %u: %s", rank, error_message());
        f->st = st;
    }
    _exit(st == STATUS_OK ? 0 : 1);
}

/* All ports are open before the first member runs: nobody connects too early. */
static enum status team_start_members(struct team_state *t,
                                      enum status (*body)(struct team_member *, void *),
                                      void *context)
{
    pid_t self = getpid();
    for (size_t r = 0; r < t->ranks; r++)
        PASS(socket_listen(&t->listener[r], &t->port[r]));
    for (uint32_t r = 0; r < t->ranks; r++) {
        t->pid[r] = fork();
        if (t->pid[r] == 0)
            team_run_member(t, r, self, body, context);
        if (t->pid[r] < 0) {
            t->pid[r] = 0;
            return error_set(STATUS_IO, "fork: %s", strerror(errno));
        }
    }
    return STATUS_OK;
}

/* Of another rank's end, that is: its connection broke, it fell silent. */
static bool is_symptom(const struct failure *f)
{
    return f->st == STATUS_IO || f->st == STATUS_EXTERNAL;
}

/* Member r has ended; *certain: no better explanation can come. */
static void team_note_end(struct team_state *t, size_t r, int status, bool *certain)
{
    struct failure *f = &t->shared->failure[r];
    if (WIFSIGNALED(status)) {
        f->st = STATUS_EXTERNAL;
        snprintf(f->message, sizeof f->message, "rank %zu killed by signal %d", r,
                 WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0 && f->st == STATUS_OK) {
        f->st = STATUS_EXTERNAL;
        snprintf(f->message, sizeof f->message, "rank %zu exited with status %d", r,
                 WEXITSTATUS(status));
    }
    if (f->st == STATUS_OK)
        return;
    *certain = WIFSIGNALED(status) || !is_symptom(f);
    if (!t->cause || *certain)
        t->cause = f;
}

/* Until all have ended, or it is clear why one failed: between a symptom and the news of its cause
 * the member that failed has only to exit. */
static enum status team_watch_members(struct team_state *t, double limit_s)
{
    bool certain = false;
    const double explains_s = 0.5; /* a failure waits so long for a better explanation */
    double patience_s = limit_wait(explains_s), end_s = clock_now() + limit_s;
    for (size_t left = t->ranks; left > 0 && !certain && patience_s > 0;) {
        clock_sleep_until(clock_now() + glance_s);
        if (t->cause)
            patience_s -= glance_s;
        if (clock_now() > end_s)
            return error_set(STATUS_EXTERNAL, "timeout: %zu ranks are still running after %g s",
                             left, limit_s);
        for (size_t r = 0; r < t->ranks && !certain; r++) {
            int status;
            if (!t->pid[r] || waitpid(t->pid[r], &status, WNOHANG) != t->pid[r])
                continue;
            t->pid[r] = 0;
            left--;
            team_note_end(t, r, status, &certain);
        }
    }
    return t->cause ? error_set(t->cause->st, "%s", t->cause->message) : STATUS_OK;
}

/* Nobody outlives the call. */
static void dismiss(struct team_state *t)
{
    for (size_t r = 0; r < TEAM_MOST; r++) {
        if (t->pid[r]) {
            kill(t->pid[r], SIGKILL);
            waitpid(t->pid[r], NULL, 0);
        }
        socket_close(&t->listener[r]);
    }
    if (t->shared)
        munmap(t->shared, t->bytes);
}

struct rendezvous team_meeting(const struct team_member *me)
{
    return (struct rendezvous){.rank = me->rank,
                               .ranks = (uint32_t)me->ranks,
                               .host = "127.0.0.1",
                               .port = me->port,
                               .listener = me->listener,
                               .control = -1,
                               .timeout_s = limit_wait(WAIT_MEASURE)};
}

/* Ports, members, their ends; whatever happens nobody is left behind. */
enum status team_run(size_t ranks, size_t numbers, double limit_s,
                     enum status (*body)(struct team_member *me, void *context), void *context,
                     double *number)
{
    enum status st;
    struct team_state t = {.ranks = ranks};
    if (ranks < 1 || ranks > TEAM_MOST)
        return error_set(STATUS_INVALID, "got %zu ranks, expected 1 to %d", ranks, TEAM_MOST);
    for (size_t r = 0; r < TEAM_MOST; r++)
        t.listener[r] = -1;
    TRY(team_share_memory(&t, numbers));
    TRY(team_start_members(&t, body, context));
    TRY(team_watch_members(&t, limit_s));
    memcpy(number, t.number, numbers * sizeof *number);
out:
    dismiss(&t);
    return st;
}
