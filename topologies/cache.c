/* A private folder of generated files in the user's cache: a file that says what it should already
 * is left as it is, any other is written anew and renamed into place. */
#include "topologies/cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

enum { PATH = 4096 };

/* Make the directory if need be; whether it is there, ours, and nobody else may write to it. */
static bool is_ours(const char *directory)
{
    struct stat s;
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(directory, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH)) && access(directory, W_OK | X_OK) == 0;
}

/* The first usable directory, out of the formats' "%s"; false if there is none. */
static bool find_directory(char directory[PATH])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *temporary = getenv("TMPDIR");
    if (cache && *cache == '/' && snprintf(directory, PATH, "%s/foreline", cache) < PATH &&
        is_ours(directory))
        return true;
    if (home && *home == '/' && snprintf(directory, PATH, "%s/.cache", home) < PATH &&
        is_ours(directory) && snprintf(directory, PATH, "%s/.cache/foreline", home) < PATH &&
        is_ours(directory))
        return true;
    int n = snprintf(directory, PATH, "%s/foreline-%lu",
                     temporary && *temporary == '/' ? temporary : "/tmp", (unsigned long)geteuid());
    return n < PATH && is_ours(directory);
}

/* Whether the file is there and says just that; what cannot be read does not. */
static bool has_text(const char *path, const char *text, size_t length, bool *no_memory)
{
    struct stat s;
    char *found = NULL;
    size_t n = 0;
    if (lstat(path, &s) != 0 || !S_ISREG(s.st_mode) || (size_t)s.st_size != length)
        return false;
    enum status st = file_read(path, &found, &n);
    *no_memory = st == STATUS_NOMEM;
    bool same = st == STATUS_OK && n == length && !memcmp(found, text, n);
    free(found);
    return same;
}

enum status cache_file(const char *name, const char *text, size_t length, char **path)
{
    enum status st = STATUS_OK;
    struct file_out file = {0};
    char directory[PATH];
    bool no_memory = false;
    if (!find_directory(directory))
        return error_set(STATUS_IO, "no directory for generated files, set XDG_CACHE_HOME");
    size_t n = strlen(directory) + strlen(name) + 2;
    char *full = malloc(n);
    if (!full)
        return error_set(STATUS_NOMEM, "out of memory");
    snprintf(full, n, "%s/%s", directory, name);
    if (!has_text(full, text, length, &no_memory)) {
        if (no_memory)
            FAIL(STATUS_NOMEM, "out of memory");
        TRY(file_create(full, &file));
        fwrite(text, 1, length, file.stream); /* file_commit() notices what failed */
        TRY(file_commit(&file));
    }
    MOVE(path, full);
out:
    file_discard(&file);
    free(full);
    return st;
}
