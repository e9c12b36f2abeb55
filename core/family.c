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
#include "core/limit.h"

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

/* Is what is seen the same, and not 0, for so long? */
static bool lasts(struct family_watch *w, double now_s, uint64_t seen)
{
    if (now_s - w->asked_s > away_s || w->seen != seen)
        w->since_s = now_s;
    w->asked_s = now_s;
    w->seen = seen;
    return seen > 0 && now_s - w->since_s > limit(LIMIT_stopped);
}

static bool is_due(const struct family_watch *w, double now_s)
{
    return now_s - w->asked_s >= glance_s;
}

bool family_stopped_long(struct family_watch *w, pid_t pid, int below)
{
    double now_s = clock_now();
    return is_due(w, now_s) && lasts(w, now_s, family_stopped(pid, below) > 0);
}

struct activity {
    size_t n;
    uint64_t ticks;
    bool awake;
};

/* State and CPU time of all threads are in one line, as numbers after the name. */
static void add_activity(pid_t pid, struct activity *a)
{
    char text[TEXT], state = 'R';
    unsigned long user = 0, kernel = 0;
    read_about(pid, "stat", text);
    const char *name_ends = strrchr(text, ')');
    if (!name_ends || sscanf(name_ends, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                             &state, &user, &kernel) != 3)
        return;
    a->n++;
    a->ticks += user + kernel;
    a->awake = a->awake || !strchr("SZ", state);
}

static void add_below(pid_t pid, int below, struct activity *a)
{
    char text[TEXT] = "", *at = text;
    if (below > 0)
        read_children(pid, text);
    for (pid_t child; (child = next_child(&at)) > 0;) {
        add_activity(child, a);
        add_below(child, below - 1, a);
    }
}

bool family_rests_long(struct family_watch *w, pid_t pid, int below, size_t *n)
{
    struct activity a = {0};
    double now_s = clock_now();
    if (!is_due(w, now_s))
        return false;
    add_below(pid, below, &a);
    *n = a.n;
    bool rests = a.n > 0 && !a.awake;
    return lasts(w, now_s, rests ? a.ticks * (FAMILY_HELD + 1) + a.n : 0);
}

/* The number of times that it has gone to sleep, where it sleeps in a futex; 0: it does not. */
static uint64_t asleep_in_futex(pid_t pid)
{
    static const char label[] = "\nvoluntary_ctxt_switches:";
    char text[TEXT], file[PATH];
    snprintf(file, sizeof file, "task/%ld/syscall", (long)pid);
    read_about(pid, file, text);
    char *end = text;
    if (strtol(text, &end, 10) != SYS_futex || end == text)
        return 0;
    snprintf(file, sizeof file, "task/%ld/status", (long)pid);
    read_about(pid, file, text);
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, 10) + 1 : 0;
}

static pid_t parent_of(pid_t pid)
{
    char text[TEXT];
    int parent = 0;
    read_about(pid, "stat", text);
    const char *name_ends = strrchr(text, ')');
    return name_ends && sscanf(name_ends, ") %*c %d", &parent) == 1 ? parent : 0;
}

bool family_stuck_long(struct family_watch *w, pid_t pid)
{
    struct activity parent = {0};
    double now_s = clock_now();
    if (!is_due(w, now_s))
        return false;
    uint64_t sleeps = asleep_in_futex(pid);
    add_activity(parent_of(pid), &parent);
    bool stuck = sleeps > 0 && parent.n > 0 && !parent.awake;
    return lasts(w, now_s, stuck ? sleeps << 32 | parent.ticks : 0);
}

bool family_variable(pid_t pid, const char *name, char *value, size_t n)
{
    char path[PATH], *text = NULL;
    size_t room = 0, length = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *f = fopen(path, "re");
    while (f && !found && getdelim(&text, &room, '\0', f) > 0)
        if ((found = !strncmp(text, name, length) && text[length] == '='))
            snprintf(value, n, "%s", text + length + 1);
    if (f)
        fclose(f);
    free(text);
    return found;
}

enum status family_check(struct family_watch *w, pid_t pid, const char *what)
{
    siginfo_t ended = {.si_pid = 0};
    if (pid > 0 && waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid)
        return error_set(STATUS_EXTERNAL, "%s, process %ld, has ended", what, (long)pid);
    if (pid > 0 && family_stopped_long(w, pid, 0))
        return error_set(STATUS_EXTERNAL, "%s, process %ld, has been stopped for %g s", what,
                         (long)pid, limit(LIMIT_stopped));
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
