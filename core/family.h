/* family.h - a child process and those that it has started: are they stopped, and ending them all.
 *
 * A wait for a child that may take any time, a simulation or a user's program, has no deadline that
 * would be right; but one that is stopped (SIGSTOP) while the one who waits runs on is not worth
 * waiting for. A Ctrl-Z stops both, and nobody counts. */
#ifndef CORE_FAMILY_H
#define CORE_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "core/error.h"

/* So long may a process be stopped. */
static const double family_stopped_s = 4;

/* Which of them is stopped, as /proc says: the process, or what it has started, `below` generations
 * of it; 0: none, or none is known here. */
pid_t family_stopped(pid_t pid, int below);

/* Since when one has been seen stopped; {0} at first. */
struct family_watch {
    double since_s, asked_s;
};
/* Ask again and again, at least every second: has one been stopped for family_stopped_s? Looks into
 * /proc at most four times a second. Time in which nobody asked does not count. */
bool family_stopped_long(struct family_watch *w, pid_t pid, int below);

/* Is a child of ours, which nobody has waited for, at work? To be asked like that. STATUS_EXTERNAL
 * "`what`, process N, has ended", or "has been stopped for 4 s". pid 0: it is. */
enum status family_check(struct family_watch *w, pid_t pid, const char *what) MUST_CHECK;

/* SIGKILL for all of them; the process is the caller's to wait for. */
void family_kill(pid_t pid, int below);

/* What a process has started, `below` generations of it, held so that it can be ended when the process
 * itself is gone and nobody knows whose it was. At most so many, and none where the kernel (before 5.3)
 * cannot hold any. */
enum { FAMILY_HELD = 256 };
struct family {
    size_t n;
    int fd[FAMILY_HELD];
};
void family_hold(struct family *f, pid_t pid, int below); /* adds to *f, {0} at first */
/* SIGKILL for those that are still there; *f is {0} again. */
void family_end(struct family *f);

#endif
