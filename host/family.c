#define _GNU_SOURCE /* syscall */
/* States of processes and their children, from /proc. */
#include "host/family.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "host/process.h"

enum { PATH = 64, TEXT = 4096 };
static const double glance_s = 0.25, away_s = 1.5;
/* Who looks whether something has come sleeps at least so often between two glances, also where the
 * machine is busy; who works sleeps less often. */
static const uint64_t naps_least = 4;

/* The text of a file of a process, NUL-terminated and perhaps cut; "" when it is gone, or when
 * /proc shows another PID namespace, where the number is somebody else's. */
static void family_read_status(pid_t pid, const char *file, char text[TEXT])
{
    char path[PATH];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, file);
    FILE *f = process_sees_own() ? fopen(path, "re") : NULL;
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
    family_read_status(pid, file, text);
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
    family_read_status(pid, "stat", text);
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
    return seen > 0 && now_s - w->since_s > limit_wait(WAIT_STOPPED);
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
    uint64_t sleeps; /* of first threads: others may look at something every few seconds for ever */
    bool awake;
};

/* A thread that runs or waits to run is awake, and one that waits for a disk. */
static void add_thread(pid_t pid, long thread, struct activity *a)
{
    static const char label[] = "\nvoluntary_ctxt_switches:", state[] = "\nState:\t";
    char text[TEXT], file[PATH];
    snprintf(file, sizeof file, "task/%ld/status", thread);
    family_read_status(pid, file, text);
    const char *is = strstr(text, state), *at = strstr(text, label);
    a->awake = a->awake || (is && !strchr("SZ", is[strlen(state)]));
    a->sleeps += at && thread == pid ? strtoull(at + strlen(label), NULL, 10) : 0;
}

/* Its CPU time, that of all threads, stands in one line, as numbers after the name. */
static void add_activity(pid_t pid, struct activity *a)
{
    char text[TEXT], path[PATH];
    unsigned long user = 0, kernel = 0;
    family_read_status(pid, "stat", text);
    const char *name_ends = strrchr(text, ')');
    if (!name_ends || sscanf(name_ends, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                             &user, &kernel) != 2)
        return;
    a->n++;
    a->ticks += user + kernel;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *d = opendir(path);
    a->awake = a->awake || !d;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            add_thread(pid, strtol(e->d_name, NULL, 10), a);
    if (d)
        closedir(d);
}

static void family_add_children(pid_t pid, int below, struct activity *a)
{
    char text[TEXT] = "", *at = text;
    if (below > 0)
        read_children(pid, text);
    for (pid_t child; (child = next_child(&at)) > 0;) {
        add_activity(child, a);
        family_add_children(child, below - 1, a);
    }
}

bool family_rests_long(struct family_watch *w, pid_t pid, int below, size_t *n)
{
    struct activity a = {0};
    double now_s = clock_now();
    if (!is_due(w, now_s))
        return false;
    family_add_children(pid, below, &a);
    *n = a.n;
    bool rests = a.n > 0 && !a.awake;
    return lasts(w, now_s, rests ? a.ticks * (FAMILY_HELD + 1) + a.n : 0);
}

/* Is its first thread about to sleep for a given time, or on its way back? */
static bool naps(pid_t pid)
{
    char text[TEXT], file[PATH], *end = text;
    snprintf(file, sizeof file, "task/%ld/syscall", (long)pid);
    family_read_status(pid, file, text);
    long call = strtol(text, &end, 10);
    return !strncmp(text, "running", strlen("running")) ||
           (end != text && (call == SYS_nanosleep || call == SYS_clock_nanosleep));
}

static pid_t family_parent(pid_t pid)
{
    char text[TEXT];
    int parent = 0;
    family_read_status(pid, "stat", text);
    const char *name_ends = strrchr(text, ')');
    return name_ends && sscanf(name_ends, ") %*c %d", &parent) == 1 ? parent : 0;
}

enum family_wait family_waits_long(struct family_watch *w, pid_t pid)
{
    struct activity first = {0}, parent = {0};
    double now_s = clock_now();
    if (is_due(w, now_s)) {
        uint64_t does = FAMILY_WORKS;
        add_thread(pid, pid, &first);
        add_activity(family_parent(pid), &parent);
        if (first.sleeps > 0 && first.sleeps == w->sleeps && !first.awake)
            does = FAMILY_SLEEPS;
        else if (first.sleeps >= w->sleeps + naps_least && naps(pid))
            does = FAMILY_LOOKS;
        w->sleeps = first.sleeps;
        bool quiet = parent.n > 0 && !parent.awake;
        uint64_t done = parent.sleeps + parent.ticks;
        lasts(w, now_s, quiet && does ? does + FAMILY_WAITS * (1 + done) : 0);
    }
    bool is_long = w->seen > 0 && now_s - w->since_s > limit_wait(WAIT_STOPPED);
    return is_long ? (enum family_wait)(w->seen % FAMILY_WAITS) : FAMILY_WORKS;
}

bool family_idle_long(struct family_watch *w, pid_t pid)
{
    struct activity a = {0};
    double now_s = clock_now();
    if (is_due(w, now_s)) {
        add_activity(pid, &a);
        lasts(w, now_s, a.n > 0 && !a.awake ? 1 + a.sleeps + a.ticks : 0);
    }
    return w->seen > 0 && now_s - w->since_s > limit_wait(WAIT_STOPPED);
}

bool family_variable(pid_t pid, const char *name, char *value, size_t n)
{
    char path[PATH], *text = NULL;
    size_t room = 0, length = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *f = process_sees_own() ? fopen(path, "re") : NULL;
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
        return error_set(STATUS_EXTERNAL, "%s, process %ld, exited too early", what, (long)pid);
    if (pid > 0 && family_stopped_long(w, pid, 0))
        return error_set(STATUS_EXTERNAL, "timeout: %s, process %ld, has been stopped for %g s",
                         what, (long)pid, limit_wait(WAIT_STOPPED));
    return STATUS_OK;
}

void family_hold(struct held_processes *f, pid_t pid, int below)
{
    char text[TEXT] = "", *at = text;
    if (pid > 0 && below > 0)
        read_children(pid, text);
    for (pid_t child; (child = next_child(&at)) > 0;) {
        int held = f->n < FAMILY_HELD ? process_hold_child(pid, child) : -1;
        if (held < 0)
            continue;
        f->held[f->n++] = held;
        family_hold(f, child, below - 1);
    }
}

void family_end(struct held_processes *f)
{
    while (f->n > 0) {
        int held = f->held[--f->n];
        process_signal(held, SIGKILL);
        close(held);
    }
}

/* Its descendants are held before it is gone, with whom the list of them goes. */
void family_kill(pid_t pid, int below)
{
    struct held_processes f = {0};
    if (pid <= 0)
        return;
    family_hold(&f, pid, below);
    kill(pid, SIGKILL);
    family_end(&f);
}
