/* Forked children with three pipes: what the function writes, what the process prints, and how
 * the function ended. Whatever SimGrid does to the child, the parent reads all three and then
 * knows. */
#include "sim/child.h"

#include "core/base/array.h"
#include "core/base/limit.h"
#include "host/family.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The pipes, in the order of child.end: the bytes of fn, stdout and stderr together, and the
 * verdict. */
enum { RESULT, LOG, VERDICT, PIPES };
enum {
    LOG_KEPT = 16384,       /* bytes of the log; the reason stands at its beginning */
    RESULT_LIMIT = 1 << 30, /* bytes */
    BLOCK = 1 << 16,
    TICK_MS = 500,
    GENERATIONS = 3, /* of processes: smpirun is a shell */
};

/* What fn returned, sent as one write of less than PIPE_BUF bytes. */
struct child_verdict {
    enum status status;
    char message[1024];
};

/* A child as its parent sees it. Each array of two descriptors is read end, write end. */
struct child_process {
    pid_t pid;         /* 0: not started or waited for */
    int end[PIPES][2]; /* [read, write], -1: closed */
    int wait_status;
    unsigned char *data; /* [room] */
    size_t length, room;
    char log[LOG_KEPT + 1];
    size_t log_length;
    struct child_verdict verdict;
    bool returned; /* fn did, and the verdict is there */
};

enum status child_write(int fd, const void *data, size_t length)
{
    const unsigned char *next = data;
    while (length > 0) {
        ssize_t n = write(fd, next, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(STATUS_IO, "pipe: %s", strerror(errno));
        next += n;
        length -= (size_t)n;
    }
    return STATUS_OK;
}

void child_output_free(struct child_output *out)
{
    free(out->data);
    *out = (struct child_output){0};
}

/* Close a descriptor once; -1 marks a closed one. */
static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A pipe whose ends are none of the standard streams (these may be closed) and vanish on exec. */
static enum status open_pipe(int end[2])
{
    int raw[2];
    if (pipe(raw) != 0)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        end[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int cause = errno;
    close(raw[0]);
    close(raw[1]);
    if (end[0] < 0 || end[1] < 0)
        return error_set(STATUS_IO, "pipe: %s", strerror(cause));
    return STATUS_OK;
}

/* The child's whole life after fork(). */
_Noreturn static void live(struct child_process *c, enum status (*fn)(void *, int), void *argument,
                           pid_t parent)
{
    static const int defaults[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
                                   SIGABRT, SIGSEGV, SIGBUS, SIGFPE,  SIGILL};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* which lets it remove what it has made */
    if (getppid() != parent)          /* gone before the line above took effect */
        _exit(EXIT_FAILURE);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    dup2(c->end[LOG][1], STDOUT_FILENO);
    dup2(c->end[LOG][1], STDERR_FILENO);
    close_end(&c->end[LOG][1]);
    for (int i = 0; i < PIPES; i++)
        close_end(&c->end[i][0]);

    struct child_verdict v = {.status = fn(argument, c->end[RESULT][1])};
    if (v.status != STATUS_OK)
        snprintf(v.message, sizeof v.message, "%s", error_message());
    _exit(child_write(c->end[VERDICT][1], &v, sizeof v) == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Room for BLOCK more bytes of result. */
static enum status child_reserve(struct child_process *c)
{
    if (c->length > RESULT_LIMIT - BLOCK)
        return error_set(STATUS_IO, "the results of SimGrid's child process take more than 1 GiB");
    return ARRAY_RESERVE(c->data, c->length + BLOCK, c->room);
}

/* Read once from pipe i; closes it at its end. */
static enum status child_drain(struct child_process *c, int i)
{
    char overflow[4096];
    char *to = overflow;
    size_t room = sizeof overflow;
    if (i == RESULT) {
        PASS(child_reserve(c));
        to = (char *)c->data + c->length;
        room = BLOCK;
    } else if (c->log_length < LOG_KEPT) {
        to = c->log + c->log_length;
        room = LOG_KEPT - c->log_length;
    }
    ssize_t n = read(c->end[i][0], to, room);
    if (n < 0 && errno != EINTR)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    if (n == 0)
        close_end(&c->end[i][0]);
    if (n > 0 && i == RESULT)
        c->length += (size_t)n;
    else if (n > 0 && to != overflow)
        c->log_length += (size_t)n;
    return STATUS_OK;
}

/* Collect result and log until the child has closed both. */
static enum status child_collect(struct child_process *c, const struct child_watch *watch)
{
    struct family_watch seen = {0};
    while (c->end[RESULT][0] >= 0 || c->end[LOG][0] >= 0) {
        struct pollfd ready[] = {{.fd = c->end[RESULT][0], .events = POLLIN},
                                 {.fd = c->end[LOG][0], .events = POLLIN}};
        int n = poll(ready, 2, watch && watch->period_ms < TICK_MS ? watch->period_ms : TICK_MS);
        if (n < 0 && errno != EINTR)
            return error_set(STATUS_IO, "poll: %s", strerror(errno));
        if (watch && !watch->tick(watch->context))
            return error_set(STATUS_EXTERNAL, "stopped");
        if (family_stopped_long(&seen, c->pid, GENERATIONS))
            return error_set(STATUS_EXTERNAL,
                             "timeout: SimGrid's child process %ld has been stopped for %g s",
                             (long)family_stopped(c->pid, GENERATIONS), limit_wait(WAIT_STOPPED));
        if (n < 0)
            continue;
        for (int i = RESULT; i <= LOG; i++) {
            if (!ready[i].revents)
                continue;
            PASS(child_drain(c, i));
        }
    }
    size_t got = 0;
    for (ssize_t n = 1; got < sizeof c->verdict && (n > 0 || (n < 0 && errno == EINTR));) {
        n = read(c->end[VERDICT][0], (char *)&c->verdict + got, sizeof c->verdict - got);
        got += n > 0 ? (size_t)n : 0;
    }
    c->returned = got == sizeof c->verdict;
    return STATUS_OK;
}

/* Wait for the end of the child, which leaves no zombie. */
static void child_reap(struct child_process *c)
{
    while (waitpid(c->pid, &c->wait_status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
}

/* The first "@@" message in the log, which may span lines, else the first line; NULL if there is
 * nothing. Edits the log. */
static char *first_message(char *log)
{
    static const char *const ends[] = {"\n@@", "\nBacktrace"};
    char *text = strstr(log, "@@");
    if (text) {
        text += 2;
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            char *end = strstr(text, ends[i]);
            if (end)
                *end = '\0';
        }
    } else {
        text = log + strspn(log, " \n");
        text[strcspn(text, "\n")] = '\0';
    }
    size_t length = strlen(text);
    while (length > 0 && strchr(" \n", text[length - 1]))
        text[--length] = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return length > 0 ? text : NULL;
}

/* fn did not return: say why. */
static enum status explain_death(struct child_process *c)
{
    const char *reason = first_message(c->log);
    if (reason)
        return error_set(STATUS_EXTERNAL, "%s", reason);
    if (WIFSIGNALED(c->wait_status))
        return error_set(STATUS_EXTERNAL, "SimGrid's child process died: %s",
                         strsignal(WTERMSIG(c->wait_status)));
    return error_set(STATUS_EXTERNAL, "SimGrid's child process ended early with status %d",
                     WEXITSTATUS(c->wait_status));
}

/* Open the pipes and fork. The parent keeps the read ends only, so that it sees the end of file
 * when the child closes its own. */
static enum status child_start(struct child_process *c, enum status (*fn)(void *, int),
                               void *argument)
{
    for (int i = 0; i < PIPES; i++)
        PASS(open_pipe(c->end[i]));
    fflush(stdout); /* else an exit() in the child would print it a second time */
    fflush(stderr);
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0)
        live(c, fn, argument, parent);
    if (c->pid < 0) {
        c->pid = 0;
        return error_set(STATUS_IO, "fork: %s", strerror(errno));
    }
    for (int i = 0; i < PIPES; i++)
        close_end(&c->end[i][1]);
    return STATUS_OK;
}

enum status child_run(enum status (*fn)(void *argument, int write_fd), void *argument,
                      struct child_output *out)
{
    return child_run_watched(fn, argument, NULL, out);
}

enum status child_run_watched(enum status (*fn)(void *argument, int write_fd), void *argument,
                              const struct child_watch *watch, struct child_output *out)
{
    enum status st;
    struct child_process *c;
    PASS(ARRAY_NEW(c, 1));
    for (int i = 0; i < PIPES; i++)
        c->end[i][0] = c->end[i][1] = -1;

    TRY(child_start(c, fn, argument));
    TRY(child_collect(c, watch));
    child_reap(c);
    if (!c->returned) {
        st = explain_death(c);
        goto out;
    }
    if (c->verdict.status != STATUS_OK)
        FAIL(c->verdict.status, "%.*s", (int)sizeof c->verdict.message - 1, c->verdict.message);
    *out = (struct child_output){.data = c->data, .length = c->length};
    c->data = NULL;
out:
    if (c->pid > 0) {
        family_kill(c->pid, GENERATIONS);
        child_reap(c);
    }
    for (int i = 0; i < PIPES; i++)
        for (int k = 0; k < 2; k++)
            close_end(&c->end[i][k]);
    free(c->data);
    free(c);
    return st;
}
