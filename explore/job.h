/* job.h - commands that the page has asked for, and what it is told of them.
 *
 * A job is a foreline command in a child process. It is read as lines of JSON: {"id": "17"};
 * {"progress": {"text": "plan: 290 plans scored", "done": 290, "all": 0}} at least every few
 * seconds; and at last {"status": 0, "json": ..., "text": "...", "error": "..."}, of which "json"
 * is what --json printed, on one line, and null otherwise, when "text" is what was printed. Each
 * job is read by one thread, which waits in job_read(). */
#ifndef EXPLORE_JOB_H
#define EXPLORE_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/error.h"
#include "core/base/executable.h"
#include "explore/child.h"

enum { JOBS_AT_ONCE = 4 }; /* children; a fifth job waits */

struct job;
struct jobs {
    struct child_place at;
    char foreline[EXECUTABLE_FOLDER + 16];
    int slots,
        ending; /* eventfd: a semaphore of free children; readable once jobs_end() was called */
    pthread_mutex_t lock; /* of what follows, and of the children of jobs */
    struct job *first;
    uint64_t begun;
};

/* Jobs that run in this folder, which is borrowed; *j is {0} before. Not moved while it is open. */
enum status jobs_open(struct jobs *j, const char *folder) MUST_CHECK;
/* All jobs, now and from now on, end at once: job_read() returns -1. */
void jobs_end(struct jobs *j);
/* Once all are freed. */
void jobs_close(struct jobs *j);
/* SIGINT to the job of this id, as Ctrl-C would; false: there is none. */
bool jobs_stop(struct jobs *j, const char *id);

/* A job of these n words (explore/words.h), for who is connected to the socket `client`; it starts
 * when it is first read. STATUS_USAGE of words that may not be run. */
enum status job_new(struct jobs *all, const char *const *word, size_t n, int client,
                    struct job **out) MUST_CHECK;
/* At most `most` bytes of its lines; waits for them. 0: that was all; -1: the client is gone, or
 * jobs_end() was called. */
ssize_t job_read(struct job *j, char *to, size_t most);
/* What it has printed, NUL-terminated, once job_read() has returned 0; NULL: it has failed. */
const char *job_output(const struct job *j);
/* Kills its child if there is one; NULL is accepted. */
void job_free(struct job *j);

#endif
