#define _GNU_SOURCE /* flock */
/* Temporary folders by mkdtemp(), with a marker and a lock. */
#include "host/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "host/leftover.h"
#include "host/process.h"

enum { DEPTH = 16 };
const char folder_marker[] = ".foreline-owner";

/* ---- whose a folder is
 *
 * A folder of ours has our prefix and six random characters as its name, and in it, before anything
 * else, a file that says who made it. The maker holds a lock on the folder as long as it lives. */

static const char prefix[] = "foreline-tmp-";
enum { RANDOM = 6, BASE = FOLDER_TEMPORARY - 32 }; /* BASE: longest folder for temporary ones */

static bool folder_has_own_name(const char *name)
{
    size_t n = sizeof prefix - 1;
    return !strncmp(name, prefix, n) && strlen(name) == n + RANDOM &&
           strspn(name + n, "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == RANDOM;
}

/* What a marker says; MARK_TEXT is longer than any. */
struct folder_mark {
    struct process_id owner;
    uint64_t inode; /* of the folder: a copy of it is not ours */
    unsigned long uid;
    int locked; /* the file system has locks, and the owner holds one */
};
enum { MARK_TEXT = 256 };
#define MARK_FORMAT                                                                                \
    "foreline temporary folder 1\ninode %" PRIu64 "\nuid %lu\nboot %" PRIx64 "\nspace %" PRIu64    \
    "\npid %" PRIu32 "\nstart %" PRIu64 "\nlocked %d\n"
#define MARK_SCAN                                                                                  \
    "foreline temporary folder 1\ninode %" SCNu64 "\nuid %lu\nboot %" SCNx64 "\nspace %" SCNu64    \
    "\npid %" SCNu32 "\nstart %" SCNu64 "\nlocked %d\n%n"

static void print_mark(const struct folder_mark *m, char text[MARK_TEXT])
{
    snprintf(text, MARK_TEXT, MARK_FORMAT, m->inode, m->uid, m->owner.boot, m->owner.space,
             m->owner.pid, m->owner.start, m->locked);
}

static bool write_mark(int folder, bool locked)
{
    char text[MARK_TEXT];
    struct stat s;
    if (fstat(folder, &s) != 0)
        return false;
    const struct folder_mark m = {process_self(), (uint64_t)s.st_ino, (unsigned long)geteuid(),
                                  locked};
    print_mark(&m, text);
    int fd =
        openat(folder, folder_marker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && file_write_all(fd, text, strlen(text));
    int cause = errno;
    if (fd >= 0 && close(fd) != 0)
        written = false;
    errno = cause;
    return written;
}

/* A regular file of ours that says just what print_mark() would. */
static bool read_mark(int folder, struct folder_mark *m)
{
    struct stat s;
    char text[MARK_TEXT] = "", again[MARK_TEXT];
    int end = 0;
    int fd = openat(folder, folder_marker, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ours = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
                s.st_nlink == 1 && read(fd, text, sizeof text - 1) > 0;
    if (fd >= 0)
        close(fd);
    *m = (struct folder_mark){0};
    if (!ours || sscanf(text, MARK_SCAN, &m->inode, &m->uid, &m->owner.boot, &m->owner.space,
                        &m->owner.pid, &m->owner.start, &m->locked, &end) != 7)
        return false;
    print_mark(m, again);
    return end > 0 && !strcmp(text, again) && m->uid == (unsigned long)geteuid();
}

/* Made under this boot of this kernel by a process that is gone: it does not hold its lock any
 * more, and where there are no locks, /proc says that it has ended. Folders of other machines on a
 * shared file system, of an earlier boot, and what nobody can judge from here stay. Leaves the lock
 * with whoever opened `fd`. */
static bool is_left(int fd)
{
    struct stat s;
    struct folder_mark m;
    if (fstat(fd, &s) != 0 || s.st_uid != geteuid() || (s.st_mode & 0777) != 0700 ||
        !read_mark(fd, &m) || m.inode != (uint64_t)s.st_ino || m.owner.boot != process_boot())
        return false;
    enum process_fate fate = process_look(&m.owner);
    if (fate == PROCESS_LIVES || (!m.locked && fate != PROCESS_GONE))
        return false;
    return !m.locked || flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* ---- removing */

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Files, and folders to that depth: mpirun's are five deep. `kept`: a name that stays, or NULL. */
static void clear(int fd, int depth, const char *kept)
{
    DIR *d = fdopendir(fd);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (is_dot(e->d_name) || (kept && !strcmp(e->d_name, kept)) ||
            unlinkat(fd, e->d_name, 0) == 0 || depth == 0)
            continue;
        int below = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            clear(below, depth - 1, NULL);
        (void)unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    if (d)
        closedir(d);
    else
        close(fd);
}

/* The marker goes last: what is interrupted here can still be told to be ours. */
static void remove_at(int base, const char *name)
{
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int again = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd >= 0)
        clear(fd, DEPTH, folder_marker);
    if (again >= 0) {
        (void)unlinkat(again, folder_marker, 0);
        close(again);
    }
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

static void remove_left(const char *base)
{
    DIR *d = opendir(base);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!folder_has_own_name(e->d_name))
            continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && is_left(fd))
            remove_at(dirfd(d), e->d_name);
        if (fd >= 0)
            close(fd);
    }
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

/* The lock comes before the marker, so that nobody takes a folder whose maker lives for left. */
static enum status own(const char *folder, int *lock)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd < 0 || !write_mark(fd, locked)) {
        enum status st = error_set(STATUS_IO, "%s: %s", folder, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    *lock = fd;
    return STATUS_OK;
}

/* Made, marked and listed while no signal ends us. */
static enum status folder_make(char folder[FOLDER_TEMPORARY])
{
    int lock = -1;
    sigset_t before;
    leftover_hold(&before);
    bool made = mkdtemp(folder) != NULL;
    enum status st =
        made ? own(folder, &lock) : error_set(STATUS_IO, "%s: %s", folder, strerror(errno));
    if (st == STATUS_OK)
        leftover_add(folder, lock);
    else if (made)
        remove_at(AT_FDCWD, folder);
    leftover_release(&before);
    return st;
}

enum status folder_temporary(char folder[FOLDER_TEMPORARY])
{
    const char *base = choose_base();
    folder[0] = '\0';
    if (strlen(base) > BASE)
        return error_set(
            STATUS_IO,
            "%s: path of temporary folders is too long, expected at most %d bytes; set TMPDIR",
            base, BASE);
    remove_left(base);
    snprintf(folder, FOLDER_TEMPORARY, "%s/%sXXXXXX", base, prefix);
    enum status st = folder_make(folder);
    if (st != STATUS_OK)
        folder[0] = '\0';
    return st;
}

const char *folder_file(const char folder[FOLDER_TEMPORARY], const char *name,
                        char path[FOLDER_FILE])
{
    snprintf(path, FOLDER_FILE, "%.*s/%.20s", FOLDER_TEMPORARY, folder, name);
    return path;
}
