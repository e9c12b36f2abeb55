/* child.h - run a function in a forked child, so that we outlive whatever it does to its process.
 *
 * SimGrid aborts on errors and has one engine per process: every use of it goes through here. What
 * the child prints on stdout or stderr is captured, never shown; how it ended becomes one status
 * and one message. Nothing of the child is left behind: no zombie, no descriptor, no core file. */
#ifndef SIM_CHILD_H
#define SIM_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/error.h"

struct child_output {
    unsigned char *data; /* [length] the bytes fn wrote; malloc'd, NULL when none */
    size_t length;
};

/* Asked about every period_ms while the child runs, and after every signal; false: end the child.
 */
struct child_watch {
    bool (*tick)(void *context);
    void *context;
    int period_ms;
};

/* Call fn(argument, write_fd) in a child and collect the bytes it writes to write_fd.
 *
 *   fn        runs on a copy of the caller's memory; reports as always, by error_set() and its
 *             status, which reach the caller. Must not keep children that outlive it.
 *   argument  passed on, may be NULL
 *   out       only set when fn returned STATUS_OK; release with child_output_free()
 *
 * If fn does not return (abort, exit, a signal), STATUS_EXTERNAL with the reason: SimGrid's first
 * log line, which must have been asked for as `--log=root.fmt:@@%m%n`, else the first line that was
 * printed, else the signal or exit status. STATUS_NOMEM, STATUS_IO (no process or pipe to be had,
 * more than 1 GiB of output). STATUS_EXTERNAL "stopped" when `watch` said so.
 *
 * Blocks until the child has ended; no deadline, but STATUS_EXTERNAL when it, or what it has
 * started, is stopped (host/family.h). In the child SIGINT, SIGTERM and the fatal signals have
 * their default actions, and it is killed when the calling thread ends. The caller must be
 * single-threaded at that moment, as SimGrid needs more than fork() promises to threads. */
enum status child_run(enum status (*fn)(void *argument, int write_fd), void *argument,
                      struct child_output *out) MUST_CHECK;
/* The same under a watch. */
enum status child_run_watched(enum status (*fn)(void *argument, int write_fd), void *argument,
                              const struct child_watch *watch, struct child_output *out) MUST_CHECK;
void child_output_free(struct child_output *out); /* accepts {0}; leaves {0} */

/* For fn: write all `length` bytes. STATUS_IO. */
enum status child_write(int fd, const void *data, size_t length) MUST_CHECK;

#endif
