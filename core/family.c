#define _GNU_SOURCE /* syscall */
/* States of processes and their children, from /proc. */
#include "core/family.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"

enum { PATH = 64, TEXT = 4096 };
static const double glance_s = 0.25, away_s = 1.5;

/* The text of a file of a process, NUL-terminated and perhaps cut; "" when it is gone. */
static void read_about(pid_t pid, const char *file, char text[TEXT])
{
    char path[PATH];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, file);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, TEXT - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
}

/* Numbers of its children with blanks between. */
static void read_children(pid_t pid, char text[TEXT])
{
    char file[PATH];
    snprintf(file, sizeof file, "task/%ld/children", (long)pid);
    read_about(pid, file, text);
}

/* The next of them; 0: that was the last one. */
static pid_t next_child(char **at)
{
    return (pid_t)strtol(*at, at, 10);
}

pid_t family_stopped(pid_t pid, int below)
{
    char text[TEXT], *at = text;
    if (pid <= 0)
        return 0;
    read_about(pid, "stat", text);
    const char *name_ends = strrchr(text, ')'); /* names may have anything in them */
    if (name_ends && !strncmp(name_ends, ") T", 3))
        return pid;
    if (below <= 0)
        return 0;
    read_children(pid, text);
    for (pid_t child, found; (child = next_child(&at)) > 0;)
        if ((found = family_stopped(child, below - 1)) > 0)
            return found;
    return 0;
}

bool family_stopped_long(struct family_watch *w, pid_t pid, int below)
{
    double now_s = clock_now();
    if (now_s - w->asked_s < glance_s)
        return false;
    if (now_s - w->asked_s > away_s)
        w->since_s = 0;
    w->asked_s = now_s;
    if (!family_stopped(pid, below))
        w->since_s = 0;
    else if (w->since_s <= 0)
        w->since_s = now_s;
    return w->since_s > 0 && now_s - w->since_s > family_stopped_s;
}

enum status family_check(struct family_watch *w, pid_t pid, const char *what)
{
    siginfo_t ended = {.si_pid = 0};
    if (pid > 0 && waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid)
        return error_set(STATUS_EXTERNAL, "%s, process %ld, has ended", what, (long)pid);
    if (pid > 0 && family_stopped_long(w, pid, 0))
        return error_set(STATUS_EXTERNAL, "%s, process %ld, has been stopped for %g s", what,
                         (long)pid, family_stopped_s);
    return STATUS_OK;
}

/* Children are asked for before their parent is gone, with whom the list goes. */
void family_kill(pid_t pid, int below)
{
    char text[TEXT] = "", *at = text;
    if (pid <= 0)
        return;
    if (below > 0)
        read_children(pid, text);
    kill(pid, SIGKILL);
    for (pid_t child; (child = next_child(&at)) > 0;)
        family_kill(child, below - 1);
}

void family_hold(struct family *f, pid_t pid, int below)
{
    char text[TEXT] = "", *at = text;
    if (pid > 0 && below > 0)
        read_children(pid, text);
    for (pid_t child; (child = next_child(&at)) > 0;) {
        int fd = f->n < FAMILY_HELD ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
        if (fd >= 0)
            f->fd[f->n++] = fd;
        family_hold(f, child, below - 1);
    }
}

void family_end(struct family *f)
{
    while (f->n > 0) {
        int fd = f->fd[--f->n];
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        close(fd);
    }
}
