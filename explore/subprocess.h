/* subprocess.h - a foreline command as a child process, in a group and a folder of its own. */
#ifndef EXPLORE_SUBPROCESS_H
#define EXPLORE_SUBPROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

enum subprocess_stream {
    SUBPROCESS_OUTPUT,
    SUBPROCESS_ERRORS,
    SUBPROCESS_PROGRESS,
    SUBPROCESS_STREAMS
};

struct subprocess {
    pid_t pid;                      /* and number of its group; 0: none */
    int held;                       /* readable once it has ended; -1: the kernel has none such */
    int stream[SUBPROCESS_STREAMS]; /* what it writes, to read; -1: at its end */
};
extern const struct subprocess subprocess_none;

/* Where children are started, and what their environment is. */
struct subprocess_place {
    const char *folder;          /* current one, and that of temporary files */
    const char *const *variable; /* of the environment, NULL at the end */
};

/* Start words[0], a path, NULL behind the last word: with nothing to read, and its progress on
 * descriptor SUBPROCESS_PROGRESS_FD (cli/progress.h). Signals are as a program expects them. *c is
 * subprocess_none on failure, else the caller's to subprocess_end(). STATUS_EXTERNAL. */
enum { SUBPROCESS_PROGRESS_FD = 3 };
enum status subprocess_start(const struct subprocess_place *at, const char *const *words,
                             struct subprocess *c) MUST_CHECK;
/* The same of a program that is looked up in PATH, has no streams, and whose end nobody waits
 * for. */
enum status subprocess_detach(const char *const *words) MUST_CHECK;
/* Has it ended? It is still the caller's to subprocess_end(). */
bool subprocess_has_ended(const struct subprocess *c);
/* End it and all of its group: SIGTERM, so that it removes its temporary files, then SIGKILL after
 * WAIT_PROGRAMS. Returns its exit status, 128 and more for a signal; subprocess_none is left. */
int subprocess_end(struct subprocess *c);

#endif
