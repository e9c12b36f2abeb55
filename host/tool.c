#define _GNU_SOURCE /* pipe2, memfd_create */
/* Other programs by posix_spawn(), each with a deadline. */
#include "host/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/file.h"

extern char **environ;

/* ---- environment */

static const char *const kept[] = {
    "PATH",           "HOME", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "FONTCONFIG_FILE",
    "FONTCONFIG_PATH"};
enum { KEPT = sizeof kept / sizeof *kept };

static bool tool_keeps_variable(const char *variable)
{
    for (size_t k = 0; k < KEPT; k++) {
        size_t n = strlen(kept[k]);
        if (!strncmp(variable, kept[k], n) && variable[n] == '=')
            return true;
    }
    return false;
}

static void choose_environment(const struct tool *t, char *out[KEPT + TOOL_VARIABLES + 2])
{
    size_t n = 0;
    for (size_t i = 0; environ[i] && n < KEPT; i++)
        if (tool_keeps_variable(environ[i]))
            out[n++] = environ[i];
    out[n++] = (char *)(uintptr_t) "LC_ALL=C.UTF-8";
    for (size_t i = 0; t->variables && t->variables[i] && i < TOOL_VARIABLES; i++)
        out[n++] = (char *)(uintptr_t)t->variables[i]; /* posix_spawn() does not change them */
    out[n] = NULL;
}

/* ---- start and end */

static int connect_one(posix_spawn_file_actions_t *actions, int from, int to)
{
    return from >= 0 ? posix_spawn_file_actions_adddup2(actions, from, to)
                     : posix_spawn_file_actions_addopen(actions, to, "/dev/null", O_RDWR, 0);
}

/* Signals are as a program expects them at its start, whatever we block or ignore. */
static int tool_spawn(const struct tool *t, const posix_spawn_file_actions_t *actions, pid_t *pid)
{
    posix_spawnattr_t how;
    sigset_t none, all;
    char *environment[KEPT + TOOL_VARIABLES + 2];
    int e = posix_spawnattr_init(&how);
    if (e)
        return e;
    sigemptyset(&none);
    sigfillset(&all);
    choose_environment(t, environment);
    if (!(e = posix_spawnattr_setsigmask(&how, &none)) &&
        !(e = posix_spawnattr_setsigdefault(&how, &all)) &&
        !(e = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)))
        e = posix_spawnp(pid, t->words[0], actions, &how, (char *const *)(uintptr_t)t->words,
                         environment);
    posix_spawnattr_destroy(&how);
    return e;
}

static enum status tool_start(const struct tool *t, int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int e = posix_spawn_file_actions_init(&actions);
    if (e)
        return error_set(STATUS_NOMEM, "%s: %s", t->words[0], strerror(e));
    if (!(e = connect_one(&actions, t->input, STDIN_FILENO)) &&
        !(e = connect_one(&actions, output, STDOUT_FILENO)) &&
        !(e = connect_one(&actions, t->errors, STDERR_FILENO)))
        e = tool_spawn(t, &actions, pid);
    posix_spawn_file_actions_destroy(&actions);
    if (e == ENOENT)
        return error_set(STATUS_UNSUPPORTED, "%s is not installed", t->words[0]);
    return e ? error_set(STATUS_EXTERNAL, "%s: %s", t->words[0], strerror(e)) : STATUS_OK;
}

static enum status too_long(const struct tool *t)
{
    return error_set(STATUS_EXTERNAL, "timeout: %s took longer than %g s", t->words[0],
                     t->within_s);
}

/* Sleeps grow from a fiftieth of a millisecond to ten: short programs are not made longer. */
static enum status tool_finish(const struct tool *t, pid_t pid, double deadline_s, int *code)
{
    int how = 0;
    bool late = false;
    double nap_s = 2e-5;
    for (pid_t ended; (ended = waitpid(pid, &how, late ? 0 : WNOHANG)) != pid;) {
        if (ended < 0 && errno != EINTR)
            return error_set(STATUS_EXTERNAL, "%s: %s", t->words[0], strerror(errno));
        if (clock_now() > deadline_s) {
            kill(pid, SIGKILL);
            late = true;
            continue;
        }
        clock_sleep_until(clock_now() + nap_s);
        nap_s = nap_s < 5e-3 ? 2 * nap_s : 1e-2;
    }
    if (late)
        return too_long(t);
    *code = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    return STATUS_OK;
}

enum status tool_run(const struct tool *t, int *code)
{
    pid_t pid;
    double deadline_s = clock_now() + t->within_s;
    PASS(tool_start(t, t->output, &pid));
    return tool_finish(t, pid, deadline_s, code);
}

/* ---- what it prints */

struct printed {
    char *text;
    size_t n, room;
};

/* Until the end, `most` bytes or the deadline. */
static enum status tool_read_output(const struct tool *t, int from, size_t most, double deadline_s,
                                    struct printed *p)
{
    for (;;) {
        double left_s = deadline_s - clock_now();
        struct pollfd wait = {.fd = from, .events = POLLIN};
        if (left_s <= 0)
            return too_long(t);
        if (poll(&wait, 1, left_s < 1e6 ? (int)(left_s * 1e3) + 1 : -1) <= 0)
            continue;
        PASS(ARRAY_RESERVE(p->text, p->n + BUFSIZ, p->room));
        ssize_t k = read(from, p->text + p->n, p->room - p->n - 1);
        if (k < 0 && errno != EINTR)
            return error_set(STATUS_EXTERNAL, "%s: %s", t->words[0], strerror(errno));
        if (k == 0 || (k > 0 && (p->n += (size_t)k) > most)) {
            p->text[p->n] = '\0';
            return STATUS_OK;
        }
    }
}

enum status tool_text(const struct tool *t, size_t most, int *code, char **text, size_t *length,
                      bool *cut)
{
    enum status st;
    int end[2];
    pid_t pid = 0;
    struct printed p = {0};
    double deadline_s = clock_now() + t->within_s;
    if (pipe2(end, O_CLOEXEC) != 0)
        return error_set(STATUS_EXTERNAL, "%s: %s", t->words[0], strerror(errno));
    st = tool_start(t, end[1], &pid);
    close(end[1]);
    if (st == STATUS_OK)
        st = tool_read_output(t, end[0], most, deadline_s, &p);
    close(end[0]);
    bool more = p.n > most;
    if (pid > 0) {
        if (st != STATUS_OK || more)
            kill(pid, SIGKILL);
        enum status ended = tool_finish(t, pid, deadline_s, code);
        st = st == STATUS_OK ? ended : st;
    }
    if (st == STATUS_OK) {
        *cut = more;
        *length = more ? most : p.n;
        p.text[*length] = '\0';
        *text = p.text;
        p.text = NULL;
    }
    free(p.text);
    return st;
}

enum status tool_input(const void *data, size_t n, int *fd)
{
    int to = memfd_create("input", MFD_CLOEXEC);
    if (to < 0 || !file_write_all(to, data, n) || lseek(to, 0, SEEK_SET) < 0) {
        enum status st = error_set(
            STATUS_IO, "writing the standard input of an external program: %s", strerror(errno));
        if (to >= 0)
            close(to);
        return st;
    }
    *fd = to;
    return STATUS_OK;
}
