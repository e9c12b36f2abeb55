#define _GNU_SOURCE /* getdents64 */
/* A list in static memory, because a signal handler may neither allocate nor wait. */
#include "host/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "host/folder.h"

enum { LISTED = 64, PATH_TEXT = 1024, FREE = 0, BUSY, SET };

static struct {
    _Atomic int state;
    int lock;
    char path[PATH_TEXT];
} list[LISTED];

static const int fatal[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

/* The files of a folder, and the folder; only what may be called in a signal handler. The marker
 * goes last, and stays where there are folders in it: so the next process of ours sees whose it
 * was. */
static void remove_folder(const char *path)
{
    char entries[4096];
    bool empty = true;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (ssize_t n; fd >= 0 && (n = getdents64(fd, entries, sizeof entries)) > 0;)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(entries + at);
            at += e->d_reclen;
            if (!strcmp(e->d_name, folder_marker) || !strcmp(e->d_name, ".") ||
                !strcmp(e->d_name, ".."))
                continue;
            empty = unlinkat(fd, e->d_name, 0) == 0 && empty;
        }
    if (fd >= 0 && empty)
        (void)unlinkat(fd, folder_marker, 0);
    if (fd >= 0)
        close(fd);
    (void)rmdir(path);
}

/* Threads between leftover_hold() and leftover_release(), and whether no more may begin. */
static _Atomic int making;
static atomic_bool ending;
static const struct timespec moment = {.tv_nsec = 1000000};

static void leftover_remove_all(int number)
{
    atomic_store(&ending, true);
    for (int waits = 0; atomic_load(&making) > 0 && waits < 1000; waits++)
        (void)nanosleep(&moment, NULL);
    for (size_t i = 0; i < LISTED; i++)
        if (atomic_load(&list[i].state) == SET && unlink(list[i].path) != 0)
            remove_folder(list[i].path);
    signal(number, SIG_DFL);
    raise(number); /* it ends us when this handler returns */
}

static atomic_bool caught;

/* What is listed is the parent's; a child may set its signals anew. */
static void leftover_forget(void)
{
    atomic_store(&caught, false);
    atomic_store(&making, 0);
    atomic_store(&ending, false);
    for (size_t i = 0; i < LISTED; i++)
        atomic_store(&list[i].state, FREE);
}

static void catch_signals(void)
{
    static atomic_bool asked;
    struct sigaction before, action;
    if (atomic_exchange(&caught, true))
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = leftover_remove_all;
    for (size_t k = 0; k < sizeof fatal / sizeof *fatal; k++)
        if (sigaction(fatal[k], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(fatal[k], &action, NULL);
    if (!atomic_exchange(&asked, true))
        pthread_atfork(NULL, NULL, leftover_forget);
}

void leftover_hold(sigset_t *before)
{
    sigset_t held;
    catch_signals();
    sigemptyset(&held);
    for (size_t k = 0; k < sizeof fatal / sizeof *fatal; k++)
        sigaddset(&held, fatal[k]);
    pthread_sigmask(SIG_BLOCK, &held, before);
    for (atomic_fetch_add(&making, 1); atomic_load(&ending); atomic_fetch_add(&making, 1)) {
        atomic_fetch_sub(&making, 1);
        (void)nanosleep(&moment, NULL); /* another thread ends the process */
    }
}

void leftover_release(const sigset_t *before)
{
    atomic_fetch_sub(&making, 1);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void leftover_add(const char *path, int lock)
{
    size_t n = strlen(path);
    for (size_t i = 0; n < PATH_TEXT && i < LISTED; i++) {
        int none = FREE;
        if (!atomic_compare_exchange_strong(&list[i].state, &none, BUSY))
            continue;
        memcpy(list[i].path, path, n + 1);
        list[i].lock = lock;
        atomic_store(&list[i].state, SET);
        return;
    }
    if (lock >= 0)
        close(lock);
}

void leftover_drop(const char *path)
{
    for (size_t i = 0; i < LISTED; i++)
        if (atomic_load(&list[i].state) == SET && !strcmp(list[i].path, path)) {
            int lock = list[i].lock;
            atomic_store(&list[i].state, FREE);
            if (lock >= 0)
                close(lock);
            return;
        }
}

static int make_file(char *template)
{
    sigset_t before;
    leftover_hold(&before);
    int fd = mkstemp(template), cause = errno;
    if (fd >= 0)
        leftover_add(template, -1);
    leftover_release(&before);
    errno = cause;
    return fd;
}

void leftover_watch_files(void)
{
    file_watch_temporaries(make_file, leftover_drop);
}
