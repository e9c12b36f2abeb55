/* What goes wrong at the n-th call of a kind, in one process of a run: loaded before it
 * (LD_PRELOAD).
 *
 *   TORTURE_AT   WHO:CALL:N:ACTION:ARGUMENT
 *     WHO        command, worker, starter (mpirun, orted), child (of the command, before exec),
 *                rankR
 *     CALL       a row of names[]; any: all of them together
 *     N          the first call is 1; 0: every call
 *     ACTION     kill: signal ARGUMENT to the process; error: errno ARGUMENT, nothing is done;
 *                short: the call gets half of its buffer; hangup: both ways of the socket end
 *                before the call; sleep: ARGUMENT ms before the call; clock: the time of day is
 *                ARGUMENT s off from then on
 *   TORTURE_LOG  file that gets a line "MONOTONIC_S PID WHO RANK CALL" when it happens the first
 *                time
 *
 * Calls that libc makes inside itself (what stdio writes) are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum call {
    READ,
    WRITE,
    SEND,
    RECV,
    POLL,
    OPEN,
    CLOSE,
    SYNC,
    RENAME,
    CONNECT,
    ACCEPT,
    CLOCK,
    CALLS
};
static const char *const names[] = {"read",  "write", "send",   "recv",    "poll",   "open",
                                    "close", "sync",  "rename", "connect", "accept", "clock"};
enum action { NOTHING, KILL, ERROR, SHORT, HANGUP, SLEEP, OFFSET };
static const char *const actions[] = {"", "kill", "error", "short", "hangup", "sleep", "clock"};

static struct {
    enum action action;
    int call; /* CALLS: any */
    long nth, argument;
    char who[16];
    pid_t first; /* the process that was begun with this program */
    bool here;
    atomic_bool done;
} plan;
static atomic_long counts[CALLS + 1];

static const char *who(void)
{
    static const char *const starters[] = {"mpirun", "orterun", "orted", "prted"};
    const char *name = program_invocation_short_name;
    if (getpid() != plan.first)
        return "child";
    if (!strncmp(name, "foreline-worker", 15))
        return "worker";
    for (size_t k = 0; k < sizeof starters / sizeof *starters; k++)
        if (!strcmp(name, starters[k]))
            return "starter";
    return !strcmp(name, "foreline") ? "command" : "other";
}

static const char *rank(void)
{
    const char *r = getenv("RANK");
    r = r ? r : getenv("OMPI_COMM_WORLD_RANK");
    return r && !strcmp(who(), "worker") ? r : "-";
}

static bool is_meant(void)
{
    if (!strncmp(plan.who, "rank", 4))
        return !strcmp(plan.who + 4, rank());
    return !strcmp(plan.who, who());
}

__attribute__((constructor)) static void begin(void)
{
    char call[16], action[16];
    const char *text = getenv("TORTURE_AT");
    plan.first = getpid();
    if (!text || sscanf(text, "%15[^:]:%15[^:]:%ld:%15[^:]:%ld", plan.who, call, &plan.nth, action,
                        &plan.argument) != 5)
        return;
    for (plan.call = 0; plan.call < CALLS && strcmp(names[plan.call], call) != 0;)
        plan.call++;
    for (int a = KILL; a <= OFFSET; a++)
        if (!strcmp(actions[a], action))
            plan.action = a;
}

static void note(const char *call)
{
    char line[128];
    struct timespec t;
    const char *path = getenv("TORTURE_LOG");
    if (atomic_exchange(&plan.done, true) || !path)
        return;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    int n = snprintf(line, sizeof line, "%ld.%09ld %ld %s %s %s\n", (long)t.tv_sec, t.tv_nsec,
                     (long)getpid(), who(), rank(), call);
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    syscall(SYS_write, fd, line, n);
    syscall(SYS_close, fd);
}

/* What is to be done at this call; signals are sent here. */
static enum action at(enum call call)
{
    if (plan.action == NOTHING || (plan.call != CALLS && plan.call != (int)call) || !is_meant())
        return NOTHING;
    long n = 1 + atomic_fetch_add(&counts[plan.call], 1);
    if (plan.action == OFFSET ? n < plan.nth : plan.nth && n != plan.nth)
        return NOTHING;
    int before = errno;
    note(names[call]);
    if (plan.action == KILL)
        kill(getpid(), (int)plan.argument);
    if (plan.action == SLEEP)
        nanosleep(&(struct timespec){plan.argument / 1000, plan.argument % 1000 * 1000000}, NULL);
    errno = before;
    return plan.action;
}

/* Only files and streams hand over less than they were asked for; what is written to a file of the
 * kernel (/proc/sys) is a value, which it takes as a whole or refuses. */
static bool may_be_short(int fd)
{
    struct stat s;
    struct statfs on;
    int type = 0;
    socklen_t n = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0)
        return type == SOCK_STREAM;
    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
           !(fstatfs(fd, &on) == 0 && on.f_type == PROC_SUPER_MAGIC);
}

static enum action at_data(enum call call, int fd)
{
    enum action a = at(call);
    if (a == HANGUP)
        shutdown(fd, SHUT_RDWR);
    return a == SHORT && !may_be_short(fd) ? NOTHING : a;
}

#define REAL(name)    ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAILS(action) ((action) == ERROR ? (errno = (int)plan.argument, true) : false)

ssize_t read(int fd, void *to, size_t n)
{
    enum action a = at_data(READ, fd);
    return FAILS(a) ? -1 : REAL(read)(fd, to, a == SHORT ? (n + 1) / 2 : n);
}

ssize_t write(int fd, const void *from, size_t n)
{
    enum action a = at_data(WRITE, fd);
    return FAILS(a) ? -1 : REAL(write)(fd, from, a == SHORT ? (n + 1) / 2 : n);
}

ssize_t send(int fd, const void *from, size_t n, int flags)
{
    enum action a = at_data(SEND, fd);
    return FAILS(a) ? -1 : REAL(send)(fd, from, a == SHORT ? (n + 1) / 2 : n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    return FAILS(at_data(SEND, fd)) ? -1 : REAL(sendmsg)(fd, m, flags);
}

ssize_t recv(int fd, void *to, size_t n, int flags)
{
    enum action a = at_data(RECV, fd);
    return FAILS(a) ? -1 : REAL(recv)(fd, to, a == SHORT ? (n + 1) / 2 : n, flags);
}

int poll(struct pollfd *p, nfds_t n, int ms)
{
    return FAILS(at(POLL)) ? -1 : REAL(poll)(p, n, ms);
}

int open(const char *path, int flags, ...)
{
    __builtin_va_list list;
    __builtin_va_start(list, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? (mode_t) __builtin_va_arg(list, int) : 0;
    __builtin_va_end(list);
    return FAILS(at(OPEN)) ? -1 : REAL(open)(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    return FAILS(at(OPEN)) ? NULL : REAL(fopen)(path, mode);
}

int close(int fd)
{
    (void)at(CLOSE);
    return REAL(close)(fd);
}

int fsync(int fd)
{
    return FAILS(at(SYNC)) ? -1 : REAL(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    return FAILS(at(RENAME)) ? -1 : REAL(rename)(from, to);
}

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
    return FAILS(at(CONNECT)) ? -1 : REAL(connect)(fd, to, n);
}

int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags)
{
    return FAILS(at(ACCEPT)) ? -1 : REAL(accept4)(fd, from, n, flags);
}

int accept(int fd, struct sockaddr *from, socklen_t *n)
{
    return FAILS(at(ACCEPT)) ? -1 : REAL(accept)(fd, from, n);
}

/* ---- the time of day */

static long offset(void)
{
    return plan.call == CLOCK && at(CLOCK) == OFFSET ? plan.argument : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, t);
    if (!failed && clock == CLOCK_REALTIME)
        t->tv_sec += offset();
    return failed;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}
