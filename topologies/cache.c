#define _GNU_SOURCE /* flock, futimens */
/* A private folder of generated platforms in the user's cache, or, where there is none, in a
 * temporary folder of this process.
 *
 * A file is named by a hash of its text, so that it is the same for all who generate it, and
 * whether a file there is ours can be proved. It is locked while a process may still open it by its
 * path; the ones that were used longest ago are removed when all together exceed LIMIT_cache. */
#include "topologies/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "host/folder.h"

/* NAME-HASH.xml: the beginning of a name, and the beginning of the text's SHA-256 in
 * hexadecimal. */
enum { PATH = 4096, NAME = 100, HASH = 16, FILE_NAME = NAME + HASH + 8 };
static const char suffix[] = ".xml";

/* ---- the folder */

/* Make the directory if need be; whether it is there, ours, and nobody else may write to it. */
static bool cache_is_own_folder(const char *directory)
{
    struct stat s;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(directory, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH)) && access(directory, W_OK | X_OK) == 0;
}

/* Each folder of base/next/..., made if need be. */
static bool has_folders(const char *base, const char *const *next, char directory[PATH])
{
    int n = snprintf(directory, PATH, "%s", base);
    for (; *next && n < PATH; next++) {
        n += snprintf(directory + n, (size_t)(PATH - n), "/%s", *next);
        if (n >= PATH || !cache_is_own_folder(directory))
            return false;
    }
    return n < PATH;
}

static bool find_directory(char directory[PATH])
{
    static const char *const below[] = {".cache", "foreline", "platforms", NULL};
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    return limit(LIMIT_cache) > 0 &&
           ((cache && *cache == '/' && has_folders(cache, below + 1, directory)) ||
            (home && *home == '/' && has_folders(home, below, directory)));
}

/* ---- files that are in use */

/* Held by their locks, so that no other process removes them: those that this process used last.
 * They are closed when others take their places, and at its end. */
enum { IN_USE = 8 };
static atomic_int in_use[IN_USE]; /* descriptors + 1; 0: none */
static atomic_uint turn;

static void hold(int fd)
{
    int before = atomic_exchange(&in_use[atomic_fetch_add(&turn, 1) % IN_USE], fd + 1);
    if (before > 0)
        close(before - 1);
}

enum found { FOUND_NONE, FOUND_SAME, FOUND_GOING };

/* Is it a regular file with just that text? */
static bool says(int fd, const char *path, const char *text, size_t length, enum status *st)
{
    struct stat s;
    char *found = NULL;
    size_t n = 0;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_nlink == 0 || (size_t)s.st_size != length)
        return false;
    *st = file_read(path, &found, &n);
    bool same = *st == STATUS_OK && n == length && !memcmp(found, text, n);
    free(found);
    return same;
}

/* Look for the file; when it says just that, it is held and marked as used. FOUND_GOING: another
 * process is removing what was there. */
static enum found cache_take_file(const char *path, const char *text, size_t length,
                                  enum status *st)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return FOUND_NONE;
    bool going = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (!going && says(fd, path, text, length, st)) {
        (void)futimens(fd, NULL);
        hold(fd);
        return FOUND_SAME;
    }
    close(fd);
    return going ? FOUND_GOING : FOUND_NONE;
}

/* ---- removing what was used longest ago */

struct entry {
    char name[FILE_NAME];
    struct timespec used;
    double bytes;
};

static bool cache_has_own_name(const char *name)
{
    size_t n = strlen(name), end = sizeof suffix - 1 + HASH;
    return n > end + 1 && n < FILE_NAME && !strcmp(name + n - (sizeof suffix - 1), suffix) &&
           name[n - end - 1] == '-' && strspn(name + n - end, "0123456789abcdef") == HASH;
}

static int order_by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Remove a file that is what its name says, and that nobody uses. */
static bool remove_ours(const char *directory, const char *name)
{
    char path[PATH + FILE_NAME], hex[DIGEST_HEX] = "";
    const char *hash = name + strlen(name) - (sizeof suffix - 1) - HASH;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool removed = fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
                   digest_file(path, hex) == STATUS_OK && !strncmp(hex, hash, HASH) &&
                   unlink(path) == 0;
    if (fd >= 0)
        close(fd);
    return removed;
}

/* The regular files with names like ours, oldest use first; *bytes of all. */
static enum status list_files(const char *directory, struct entry **list, size_t *n, double *bytes)
{
    enum status st = STATUS_OK;
    struct stat s;
    DIR *d = opendir(directory);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!cache_has_own_name(e->d_name) ||
            fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode))
            continue;
        TRY(ARRAY_ROOM(*list, *n));
        struct entry *added = &(*list)[(*n)++];
        *added = (struct entry){.used = s.st_mtim, .bytes = (double)s.st_size};
        memcpy(added->name, e->d_name, strlen(e->d_name) + 1);
        *bytes += added->bytes;
    }
    if (*n > 0)
        qsort(*list, *n, sizeof **list, order_by_use);
out:
    if (d)
        closedir(d);
    return st;
}

/* What cannot be listed or removed stays. */
static void cache_trim(const char *directory)
{
    struct entry *list = NULL;
    size_t n = 0;
    double bytes = 0, most = limit(LIMIT_cache) * 1048576;
    if (list_files(directory, &list, &n, &bytes) == STATUS_OK)
        for (size_t i = 0; i < n && bytes > most; i++)
            if (remove_ours(directory, list[i].name))
                bytes -= list[i].bytes;
    free(list);
}

/* ---- writing */

static enum status write_file(const char *path, const char *text, size_t length)
{
    enum status st;
    struct file_out file = {0};
    TRY(file_create(path, &file));
    fwrite(text, 1, length, file.stream); /* file_commit() notices what failed */
    TRY(file_commit(&file));
out:
    file_discard(&file);
    return st;
}

/* In the cache, and held there. False: there is none, or it takes no more; *st: out of memory. */
static bool cache_keep_file(const char *name, const char *text, size_t length,
                            char path[PATH + FILE_NAME], enum status *st)
{
    char directory[PATH];
    if (!find_directory(directory))
        return false;
    snprintf(path, PATH + FILE_NAME, "%s/%s", directory, name);
    enum found found = cache_take_file(path, text, length, st);
    if (found == FOUND_SAME)
        return true;
    if (found == FOUND_GOING || *st == STATUS_NOMEM ||
        (*st = write_file(path, text, length)) != STATUS_OK ||
        cache_take_file(path, text, length, st) != FOUND_SAME)
        return false;
    cache_trim(directory);
    return true;
}

/* The folder of this process for what is not kept, made when it is first needed. Children that it
 * forks use it too. */
static char own[FOLDER_TEMPORARY];
static pid_t owner;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static void remove_own(void)
{
    if (owner == getpid())
        folder_remove(own);
}

static enum status make_own(void)
{
    enum status st = STATUS_OK;
    pthread_mutex_lock(&making);
    if (!*own && (st = folder_temporary(own)) == STATUS_OK) {
        owner = getpid();
        (void)atexit(remove_own);
    }
    pthread_mutex_unlock(&making);
    return st;
}

static enum status put_aside(const char *name, const char *text, size_t length,
                             char path[PATH + FILE_NAME])
{
    PASS(make_own());
    snprintf(path, PATH + FILE_NAME, "%s/%s", own, name);
    return write_file(path, text, length);
}

enum status cache_file(const char *name, const char *text, size_t length, char **path)
{
    char file[FILE_NAME], full[PATH + FILE_NAME], hex[DIGEST_HEX];
    enum status st = STATUS_OK;
    digest_hex(text, length, hex);
    snprintf(file, sizeof file, "%.*s-%.*s%s", NAME, name, HASH, hex, suffix);
    if (!cache_keep_file(file, text, length, full, &st)) {
        if (st == STATUS_NOMEM)
            return st;
        PASS(put_aside(file, text, length, full));
    }
    return text_copy(full, path);
}
