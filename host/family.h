/* family.h - a child process and those that it has started: are they stopped, and ending them all.
 *
 * A wait for a child that may take any time, a simulation or a user's program, has no deadline that
 * would be right; but one that is stopped (SIGSTOP) while the one who waits runs on is not worth
 * waiting for. A Ctrl-Z stops both, and nobody counts. */
#ifndef HOST_FAMILY_H
#define HOST_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"

/* Which of them is stopped, as /proc says: the process, or what it has started, `below` generations
 * of it; 0: none, or none is known here. */
pid_t family_stopped(pid_t pid, int below);

/* Since when the same has been seen of them; {0} at first. */
struct family_watch {
    double since_s, asked_s;
    uint64_t seen;   /* 0: nothing worth waiting for */
    uint64_t sleeps; /* so often had its first thread gone to sleep */
};
/* Ask again and again, at least every second: has one been stopped for WAIT_STOPPED
 * (core/base/limit.h)? Looks into /proc at most four times a second. Time in which nobody asked
 * does not count. */
bool family_stopped_long(struct family_watch *w, pid_t pid, int below);
/* To be asked like that: have all that the process has started, whoever's children they are by now
 * if it is the first of its namespace, been asleep for so long, with no CPU time used and none
 * begun or ended? *n: how many there are. */
bool family_rests_long(struct family_watch *w, pid_t pid, int below, size_t *n);
/* To be asked like that: what has the first thread of the process done for so long, while its
 * parent, which is to answer it, was idle? FAMILY_WORKS also where the kernel does not say. */
enum family_wait {
    FAMILY_WORKS,  /* neither of these */
    FAMILY_SLEEPS, /* slept, */
    FAMILY_LOOKS,  /* or slept and looked again, many times a second */
    FAMILY_WAITS
};
enum family_wait family_waits_long(struct family_watch *w, pid_t pid);
/* And this: has the first thread of the process slept for so long, and no other one been seen awake
 * or used CPU time? */
bool family_idle_long(struct family_watch *w, pid_t pid);

/* A variable of the environment that it was started with, cut to value[n]; false: it has none, or
 * is somebody else's. */
bool family_variable(pid_t pid, const char *name, char *value, size_t n);

/* Is a child of ours, which nobody has waited for, at work? To be asked like that. STATUS_EXTERNAL
 * "`what`, process N, has ended", or "has been stopped for 3 s". pid 0: it is. */
enum status family_check(struct family_watch *w, pid_t pid, const char *what) MUST_CHECK;

/* What a process has started, `below` generations of it, held so that it can be ended when the
 * process itself is gone and nobody knows whose it was. At most so many, and none where the kernel
 * (before 5.3) cannot hold any or /proc shows another PID namespace. */
enum { FAMILY_HELD = 1024 };
struct held_processes {
    size_t n;
    int held[FAMILY_HELD]; /* host/process.h */
};
void family_hold(struct held_processes *f, pid_t pid, int below); /* adds to *f, {0} at first */
/* SIGKILL for those that are still there; *f is {0} again. */
void family_end(struct held_processes *f);
/* SIGKILL for a child of ours that nobody has waited for, and for what it has started; the child is
 * still the caller's to wait for. */
void family_kill(pid_t pid, int below);

#endif
