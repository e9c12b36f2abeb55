/* Namespaces that end with the process that asked for them.
 *
 * Two processes: unshare() puts only children into a new pid namespace, so the first one leaves the
 * caller's namespaces and the second, the first process of the new ones, does the work. When that
 * ends, for whatever reason, the kernel ends everything in its pid namespace. Each asks to die with
 * its parent. The result comes back through a pipe. */
#define _GNU_SOURCE
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "exec/netns/inside.h"
#include "host/family.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 500 };
enum { PATIENCE = 60 }; /* s: ip and tc */

enum status sandbox_put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int reason = errno;
    if (fd >= 0)
        close(fd);
    return done ? STATUS_OK : error_set(STATUS_UNSUPPORTED, "%s: %s", path, strerror(reason));
}

int sandbox_wait(pid_t child)
{
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
}

/* ---- making the namespaces */

/* Root in the new user namespace only: setgroups must be denied before gids may be mapped. */
static enum status become_root(uid_t uid, gid_t gid)
{
    char map[64];
    PASS(sandbox_put("/proc/self/setgroups", "deny"));
    snprintf(map, sizeof map, "0 %u 1", (unsigned)uid);
    PASS(sandbox_put("/proc/self/uid_map", map));
    snprintf(map, sizeof map, "0 %u 1", (unsigned)gid);
    return sandbox_put("/proc/self/gid_map", map);
}

/* Real root needs no user namespace, and keeps its rights over the machine's modules. */
static enum status sandbox_unshare(void)
{
    const int kinds = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0 && unshare(kinds) == 0)
        return STATUS_OK;
    if (unshare(kinds | CLONE_NEWUSER) != 0)
        return error_set(STATUS_UNSUPPORTED,
                         "user namespaces are unavailable (%s). Run as root, or try sysctl "
                         "kernel.unprivileged_userns_clone=1 user.max_user_namespaces=1000 "
                         "kernel.apparmor_restrict_unprivileged_userns=0",
                         strerror(errno));
    return become_root(uid, gid);
}

static enum status own_mounts(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0)
        return error_set(STATUS_UNSUPPORTED, "cannot mount a private /dev/shm: %s",
                         strerror(errno));
    /* Containers may forbid this one; programs then see the processes outside. */
    (void)mount("none", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    return STATUS_OK;
}

static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
}

static void sandbox_report(int fd, enum status st, int code)
{
    struct sandbox_report r = {.status = (int)st, .code = code};
    if (st != STATUS_OK)
        snprintf(r.message, sizeof r.message, "%s", error_message());
    fflush(NULL); /* before it: who has read it waits for nobody here */
    ssize_t n = write(fd, &r, sizeof r);
    _exit(n == (ssize_t)sizeof r ? 0 : 1);
}

/* The first process of the pid namespace: its parent has number 0 there. */
static void be_first(enum status (*fn)(void *argument, int *code), void *argument, int fd)
{
    int code = 0;
    end_with_parent(0);
    prctl(PR_SET_NAME, sandbox_name);
    prctl(PR_SET_DUMPABLE, 1); /* lost with a user namespace; netns_join() looks into /proc */
    enum status st = own_mounts();
    if (st == STATUS_OK)
        st = fn(argument, &code);
    sandbox_report(fd, st, code);
}

/* unshare() puts only children into the pid namespace: hence a process between. */
static void be_between(enum status (*fn)(void *argument, int *code), void *argument, pid_t parent,
                       int fd)
{
    end_with_parent(parent);
    enum status st = sandbox_unshare();
    if (st != STATUS_OK)
        sandbox_report(fd, st, 0);
    end_with_parent(parent); /* forgotten when a process gains rights */
    pid_t first = fork();
    if (first == 0)
        be_first(fn, argument, fd);
    if (first < 0)
        sandbox_report(fd, error_set(STATUS_IO, "fork: %s", strerror(errno)), 0);
    close(fd);
    sandbox_wait(first);
    _exit(0);
}

/* Wait for the report, which may take any time, but not for processes that are stopped. */
static enum status await_report(pid_t child, int from, struct sandbox_report *r)
{
    struct family_watch seen = {0};
    struct pollfd p = {.fd = from, .events = POLLIN};
    while (poll(&p, 1, TICK_MS) <= 0)
        if (family_stopped_long(&seen, child, 1))
            return error_set(
                STATUS_EXTERNAL,
                "timeout: process %ld of the emulated network has been stopped for %g s",
                (long)family_stopped(child, 1), limit_wait(WAIT_STOPPED));
    ssize_t got;
    while ((got = read(from, r, sizeof *r)) < 0 && errno == EINTR)
        ;
    return got == (ssize_t)sizeof *r
               ? STATUS_OK
               : error_set(STATUS_IO, "a process of the emulated network was killed");
}

/* A pipe that closes without a report means that the sandbox was killed. */
enum status sandbox_run(enum status (*fn)(void *argument, int *code), void *argument, int *code)
{
    struct sandbox_report r;
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) != 0)
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        close(pipes[0]);
        be_between(fn, argument, parent, pipes[1]);
    }
    close(pipes[1]);
    enum status st = child < 0 ? error_set(STATUS_IO, "fork: %s", strerror(errno))
                               : await_report(child, pipes[0], &r);
    close(pipes[0]);
    if (child > 0) {
        kill(child, SIGKILL); /* and all that is in there ends with it */
        sandbox_wait(child);
    }
    if (st != STATUS_OK)
        return st;
    if (r.status != STATUS_OK)
        return error_set((enum status)r.status, "%s", r.message);
    *code = r.code;
    return STATUS_OK;
}

/* ---- ip and tc */

static void exec_tool(int space, const char *const *words, int in, int err)
{
    static const char *const places[] = {"/usr/sbin", "/sbin", "/usr/bin", "/bin"};
    char path[64];
    if ((space >= 0 && setns(space, CLONE_NEWNET) != 0) || dup2(in, 0) < 0 || dup2(err, 1) < 0 ||
        dup2(err, 2) < 0)
        _exit(126);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], words[0]);
        execv(path, (char *const *)(uintptr_t)words);
    }
    _exit(127);
}

/* Its exit status; -1: it took too long. */
static int wait_for_tool(pid_t child)
{
    int ended;
    struct family_watch seen = {0};
    for (double end_s = clock_now() + limit_wait(PATIENCE);
         clock_now() < end_s && !family_stopped_long(&seen, child, 0);) {
        if (waitpid(child, &ended, WNOHANG) == child)
            return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
        clock_sleep_until(clock_now() + 1e-3);
    }
    kill(child, SIGKILL);
    sandbox_wait(child);
    return -1;
}

/* The script and the complaints are files in memory: neither can block the tool. */
enum status sandbox_tool(int space, const char *const *words, const char *script)
{
    enum status st = STATUS_OK;
    char said[256] = "";
    int in = memfd_create("script", 0), err = memfd_create("complaints", 0);
    if (in < 0 || err < 0 || !file_write_all(in, script, strlen(script)) ||
        lseek(in, 0, SEEK_SET) != 0)
        FAIL(STATUS_IO, "%s: %s", words[0], strerror(errno));
    pid_t child = fork();
    if (child == 0)
        exec_tool(space, words, in, err);
    int code = child > 0 ? wait_for_tool(child) : 0;
    if (child < 0)
        st = error_set(STATUS_IO, "fork: %s", strerror(errno));
    else if (code < 0)
        st = error_set(STATUS_EXTERNAL, "timeout: %s was stopped or took longer than %g s",
                       words[0], limit_wait(PATIENCE));
    else if (code == 127)
        st = error_set(STATUS_UNSUPPORTED, "%s not found; install iproute2", words[0]);
    else if (code != 0) {
        ssize_t got = pread(err, said, sizeof said - 1, 0);
        said[got > 0 ? got : 0] = '\0';
        said[strcspn(said, "\n")] = '\0';
        st = error_set(STATUS_IO, "%s: %s", words[0], said);
    }
out:
    if (in >= 0)
        close(in);
    if (err >= 0)
        close(err);
    return st;
}
