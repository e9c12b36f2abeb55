/* task.h - commands that the page has asked for, and what it is told of them.
 *
 * A task is a foreline command in a child process. It is read as lines of JSON: {"id": "17"};
 * {"progress": {"text": "plan: 290 plans scored", "done": 290, "all": 0}} at least every few
 * seconds; and at last {"status": 0, "json": ..., "text": "...", "error": "..."}, of which "json"
 * is what --json printed, on one line, and null otherwise, when "text" is what was printed. Each
 * task is read by one thread, which waits in task_read(). */
#ifndef EXPLORE_TASK_H
#define EXPLORE_TASK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/base/executable.h"
#include "explore/subprocess.h"

enum { TASKS_AT_ONCE = 4 }; /* children; a fifth task waits */

struct page_task;
struct page_tasks {
    struct subprocess_place at;
    char foreline[EXECUTABLE_FOLDER + 16];
    int slots;            /* eventfd: a semaphore of children that may be started */
    int ending;           /* eventfd: readable once tasks_end() was called */
    pthread_mutex_t lock; /* of what follows, and of the children of tasks */
    struct page_task *first;
    uint64_t begun;
};

/* Tasks that run in this folder, which is borrowed; *t is {0} before, and not moved while it is
 * open. */
enum status tasks_open(struct page_tasks *t, const char *folder) MUST_CHECK;
/* All tasks, now and from now on, end at once: task_read() returns -1. */
void tasks_end(struct page_tasks *t);
/* Once all are freed. */
void tasks_close(struct page_tasks *t);
/* SIGINT to the task of this id, as Ctrl-C would; false: there is none. */
bool tasks_stop(struct page_tasks *t, const char *id);

/* A task of these n words (explore/words.h), for who is connected to the socket `client`; it starts
 * when it is first read. STATUS_USAGE of words that may not be run. */
enum status task_new(struct page_tasks *all, const char *const *word, size_t n, int client,
                     struct page_task **out) MUST_CHECK;
/* At most `most` bytes of its lines; waits for them. 0: that was all; -1: the client is gone, or
 * tasks_end() was called. */
ssize_t task_read(struct page_task *t, char *to, size_t most);
/* What it has printed, NUL-terminated, once task_read() has returned 0; NULL: it has failed. */
const char *task_output(const struct page_task *t);
/* Kills its child if there is one; NULL is accepted. */
void task_free(struct page_task *t);

#endif
