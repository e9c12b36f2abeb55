#define _GNU_SOURCE /* flock */
/* Folders by readlink() and mkdtemp(). */
#include "core/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/leftover.h"

enum { DEPTH = 16, BASE = FOLDER_TEMPORARY - 32 }; /* BASE: longest folder for temporary ones */
static const char prefix[] = "foreline-";
static const double young_s = 60; /* a folder is made a moment before it is locked */

static char elsewhere[FOLDER_PROGRAM]; /* "": nobody has said */

void folder_set_program(const char *folder)
{
    snprintf(elsewhere, sizeof elsewhere, "%s", folder);
}

enum status folder_of_program(char folder[FOLDER_PROGRAM])
{
    if (elsewhere[0]) {
        memcpy(folder, elsewhere, sizeof elsewhere);
        return STATUS_OK;
    }
    ssize_t n = readlink("/proc/self/exe", folder, FOLDER_PROGRAM - 1);
    if (n < 0)
        return error_set(STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
    return STATUS_OK;
}

/* ---- removing */

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Files, and folders to that depth: mpirun's are five deep. */
static void clear(int fd, int depth)
{
    DIR *d = fdopendir(fd);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (is_dot(e->d_name) || unlinkat(fd, e->d_name, 0) == 0 || depth == 0)
            continue;
        int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            clear(below, depth - 1);
        (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    else
        close(fd);
}

static void remove_at(int base, const char *name)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        clear(fd, DEPTH);
    (void)unlinkat(base, name, AT_REMOVEDIR);
}

void folder_remove(char folder[FOLDER_TEMPORARY])
{
    if (!*folder)
        return;
    remove_at(AT_FDCWD, folder);
    leftover_drop(folder);
    *folder = '\0';
}

/* Whoever uses a folder holds a lock on it, and so do its children. */
static bool is_left(int base, const char *name)
{
    struct stat s;
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool left = fd >= 0 && fstat(fd, &s) == 0 && s.st_uid == geteuid() &&
                difftime(time(NULL), s.st_mtime) > young_s && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0)
        close(fd);
    return left;
}

static void remove_left(const char *base)
{
    DIR *d = opendir(base);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, prefix, sizeof prefix - 1) && is_left(dirfd(d), e->d_name))
            remove_at(dirfd(d), e->d_name);
    if (d)
        closedir(d);
}

/* ---- making */

static const char *choose_base(void)
{
    static const char *const names[] = {"TMPDIR", "XDG_RUNTIME_DIR"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char *base = getenv(names[k]);
        if (base && *base && (k == 0 || access(base, W_OK | X_OK) == 0))
            return base;
    }
    return "/tmp";
}

enum status folder_temporary(char folder[FOLDER_TEMPORARY])
{
    const char *base = choose_base();
    folder[0] = '\0';
    if (strlen(base) > BASE)
        return error_set(STATUS_IO, "%s: too long a name for temporary folders, at most %d bytes",
                         base, BASE);
    remove_left(base);
    snprintf(folder, FOLDER_TEMPORARY, "%s/%sXXXXXX", base, prefix);
    if (!mkdtemp(folder)) {
        enum status st = error_set(STATUS_IO, "%s: %s", folder, strerror(errno));
        folder[0] = '\0';
        return st;
    }
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        (void)flock(lock, LOCK_EX | LOCK_NB); /* some file systems have none: then it stays */
    leftover_add(folder, lock);
    return STATUS_OK;
}

const char *folder_file(const char folder[FOLDER_TEMPORARY], const char *name,
                        char path[FOLDER_FILE])
{
    snprintf(path, FOLDER_FILE, "%.*s/%.20s", FOLDER_TEMPORARY, folder, name);
    return path;
}
