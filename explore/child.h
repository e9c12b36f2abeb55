/* child.h - a foreline command as a child process, in a process group and a folder of its own. */
#ifndef EXPLORE_CHILD_H
#define EXPLORE_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/error.h"

enum child_stream { CHILD_OUTPUT, CHILD_ERRORS, CHILD_PROGRESS, CHILD_STREAMS };

struct child {
    pid_t pid;                 /* and number of its group; 0: none */
    int held;                  /* readable once it has ended; -1: the kernel has none such */
    int stream[CHILD_STREAMS]; /* what it writes, to read; -1: at its end */
};
extern const struct child child_none;

/* Where children are started, and what their environment is. */
struct child_place {
    const char *folder;          /* current one, and that of temporary files */
    const char *const *variable; /* of the environment, NULL at the end */
};

/* Start words[0], a path, NULL behind the last word: with nothing to read, and its progress on
 * descriptor CHILD_PROGRESS_FD (cli/progress.h). Signals are as a program expects them. *c is
 * child_none on failure, else the caller's to child_end(). STATUS_EXTERNAL. */
enum { CHILD_PROGRESS_FD = 3 };
enum status child_start(const struct child_place *at, const char *const *words,
                        struct child *c) MUST_CHECK;
/* The same of a program that is looked up in PATH, has no streams, and whose end nobody waits
 * for. */
enum status child_detach(const char *const *words) MUST_CHECK;
/* Has it ended? It is still the caller's to child_end(). */
bool child_has_ended(const struct child *c);
/* End it and all of its group: SIGTERM, so that it removes its temporary files, then SIGKILL after
 * WAIT_PROGRAMS. Returns its exit status, 128 and more for a signal; child_none is left. */
int child_end(struct child *c);

#endif
