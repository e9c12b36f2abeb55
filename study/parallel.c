#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "study/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE = 512, NOT_DONE = -1 };

/* How an item ended; in memory that the processes share. */
struct verdict {
    int status; /* enum status, or NOT_DONE */
    char message[MESSAGE];
};

static void run_share(size_t first, size_t step, size_t n, size_t size, char *slots,
                      struct verdict *verdict,
                      enum status (*work)(void *context, size_t i, void *slot), void *context)
{
    for (size_t i = first; i < n; i += step) {
        enum status st = work(context, i, slots + i * size);
        if (st != STATUS_OK)
            snprintf(verdict[i].message, MESSAGE, "%s", error_message());
        verdict[i].status = st;
    }
}

static enum status first_error(const struct verdict *verdict, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (verdict[i].status == NOT_DONE)
            return error_set(STATUS_EXTERNAL, "a process that worked on item %zu died", i);
        if (verdict[i].status != STATUS_OK)
            return error_set((enum status)verdict[i].status, "%s", verdict[i].message);
    }
    return STATUS_OK;
}

enum status parallel_for(size_t n, size_t size, void *slots,
                         enum status (*work)(void *context, size_t i, void *slot), void *context)
{
    enum status st = STATUS_OK;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t workers = cores > 1 ? (size_t)cores : 1, started = 0;
    size_t bytes = n * (size + sizeof(struct verdict)) + 1;
    workers = workers < n ? workers : n;
    if (workers < 2) {
        for (size_t i = 0; i < n && st == STATUS_OK; i++)
            st = work(context, i, (char *)slots + i * size);
        return st;
    }
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pid = calloc(workers, sizeof *pid);
    if (shared == MAP_FAILED || !pid) {
        st = error_set(STATUS_NOMEM, "%zu items of %zu bytes", n, size);
        goto out;
    }
    struct verdict *verdict = shared;
    char *results = (char *)(verdict + n);
    for (size_t i = 0; i < n; i++)
        verdict[i].status = NOT_DONE;
    fflush(stdout);
    fflush(stderr);
    for (; started < workers; started++) {
        pid[started] = fork();
        if (pid[started] < 0)
            break;
        if (pid[started] == 0) {
            run_share(started, workers, n, size, results, verdict, work, context);
            _exit(EXIT_SUCCESS);
        }
    }
    if (started < workers)
        st = error_set(STATUS_IO, "fork: %s", strerror(errno));
    for (size_t k = 0; k < started; k++)
        while (waitpid(pid[k], NULL, 0) < 0 && errno == EINTR)
            ;
    TRY(st);
    TRY(first_error(verdict, n));
    memcpy(slots, results, n * size);
out:
    free(pid);
    if (shared != MAP_FAILED)
        munmap(shared, bytes);
    return st;
}
