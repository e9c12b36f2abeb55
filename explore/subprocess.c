#define _GNU_SOURCE /* pipe2, posix_spawn_file_actions_addchdir_np */
/* Children by posix_spawn(), a process group each. */
#include "explore/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "host/process.h"

extern char **environ;

const struct subprocess subprocess_none = {0, -1, {-1, -1, -1}};

enum { PIPE_BYTES = 1 << 20 };

static const double nap_s = 0.005;

static void subprocess_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Signals are as a program expects them at its start, whatever we block; Ctrl-C is for us alone. */
static int subprocess_spawn(const char *const *words, const posix_spawn_file_actions_t *actions,
                            const char *const *variable, pid_t *pid)
{
    posix_spawnattr_t how;
    sigset_t none, all;
    int e = posix_spawnattr_init(&how);
    if (e)
        return e;
    sigemptyset(&none);
    sigfillset(&all);
    const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    if (!(e = posix_spawnattr_setsigmask(&how, &none)) &&
        !(e = posix_spawnattr_setsigdefault(&how, &all)) &&
        !(e = posix_spawnattr_setflags(&how, flags)))
        e = posix_spawnp(pid, words[0], actions, &how, (char *const *)(uintptr_t)words,
                         (char *const *)(uintptr_t)variable);
    posix_spawnattr_destroy(&how);
    return e;
}

/* Reading from them never waits, and neither does the child that says how far it is. */
static int subprocess_open_pipes(int from[SUBPROCESS_STREAMS], int to[SUBPROCESS_STREAMS])
{
    for (int k = 0; k < SUBPROCESS_STREAMS; k++) {
        int end[2];
        if (pipe2(end, O_CLOEXEC) != 0)
            return errno;
        from[k] = end[0];
        to[k] = end[1];
        if (fcntl(end[0], F_SETFL, O_NONBLOCK) != 0)
            return errno;
        (void)fcntl(end[0], F_SETPIPE_SZ,
                    PIPE_BYTES); /* else the child waits for us every 64 KiB */
    }
    return fcntl(to[SUBPROCESS_PROGRESS], F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

static int subprocess_spawn_in(const struct subprocess_place *at, const char *const *words,
                               const int to[SUBPROCESS_STREAMS], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e)
        return e;
    if (!(e = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)) &&
        !(e = posix_spawn_file_actions_adddup2(&actions, to[SUBPROCESS_OUTPUT], STDOUT_FILENO)) &&
        !(e = posix_spawn_file_actions_adddup2(&actions, to[SUBPROCESS_ERRORS], STDERR_FILENO)) &&
        !(e = posix_spawn_file_actions_adddup2(&actions, to[SUBPROCESS_PROGRESS],
                                               SUBPROCESS_PROGRESS_FD)) &&
        !(e = posix_spawn_file_actions_addchdir_np(&actions, at->folder)))
        e = subprocess_spawn(words, &actions, at->variable, pid);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

enum status subprocess_start(const struct subprocess_place *at, const char *const *words,
                             struct subprocess *c)
{
    struct subprocess new = subprocess_none;
    int to[SUBPROCESS_STREAMS] = {-1, -1, -1};
    int e = subprocess_open_pipes(new.stream, to);
    if (!e)
        e = subprocess_spawn_in(at, words, to, &new.pid);
    for (int k = 0; k < SUBPROCESS_STREAMS; k++) {
        subprocess_close(&to[k]);
        if (e)
            subprocess_close(&new.stream[k]);
    }
    if (e)
        return error_set(STATUS_EXTERNAL, "%s: %s", words[0], strerror(e));
    new.held = process_hold_own(new.pid);
    *c = new;
    return STATUS_OK;
}

enum status subprocess_detach(const char *const *words)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int e = posix_spawn_file_actions_init(&actions);
    if (e)
        return error_set(STATUS_NOMEM, "%s: %s", words[0], strerror(e));
    for (int fd = STDIN_FILENO; !e && fd <= STDERR_FILENO; fd++)
        e = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (!e)
        e = subprocess_spawn(words, &actions, (const char *const *)environ, &pid);
    posix_spawn_file_actions_destroy(&actions);
    return e ? error_set(STATUS_EXTERNAL, "%s: %s", words[0], strerror(e)) : STATUS_OK;
}

bool subprocess_has_ended(const struct subprocess *c)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == c->pid;
}

/* The number of the group is nobody else's before the child is waited for. */
int subprocess_end(struct subprocess *c)
{
    int how = 0;
    if (c->pid > 0 && !subprocess_has_ended(c)) {
        kill(-c->pid, SIGTERM);
        double deadline_s = clock_now() + limit_wait(WAIT_PROGRAMS);
        while (!subprocess_has_ended(c) && clock_now() < deadline_s)
            clock_sleep_until(clock_now() + nap_s);
    }
    if (c->pid > 0) {
        kill(-c->pid, SIGKILL);
        while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR)
            continue;
    }
    for (int k = 0; k < SUBPROCESS_STREAMS; k++)
        subprocess_close(&c->stream[k]);
    subprocess_close(&c->held);
    *c = subprocess_none;
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}
