/* Relative names of files: the common folders are left out, one ".." for each folder to leave. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "core/base/path.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"

_Static_assert((int)PATH_HASH == (int)DIGEST_HEX, "a hash has the length of a digest");
enum { JOINED = 2 * PATH_MAX }; /* a path behind another one */

static bool is_file(const char *path)
{
    struct stat s;
    return strpbrk(path, "/.") && stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* Length of the path that a reference begins with; 0 when it is a name. */
static size_t path_part(const char *reference, const char *folder)
{
    char path[PATH_MAX];
    const char *at = strrchr(reference, '@'), *colon = strrchr(reference, ':');
    size_t whole = strlen(reference);
    const size_t length[] = {whole, at ? (size_t)(at - reference) : whole,
                             colon ? (size_t)(colon - reference) : whole};
    for (size_t i = 0; strpbrk(reference, "/.") && i < sizeof length / sizeof *length; i++) {
        int k = snprintf(path, sizeof path, "%s%s%.*s", folder, *folder ? "/" : "", (int)length[i],
                         reference);
        if (k > 0 && (size_t)k < sizeof path && is_file(path))
            return length[i];
    }
    return 0;
}

/* The folder that `file` is in, "" for the current directory. */
static size_t folder_length(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? (size_t)(slash - file) + (slash == file) : 0;
}

/* Absolute, with symbolic links of its folders followed; the last component stays as it is.
 * Folders that do not exist are taken as they are written. */
static void make_absolute(const char *path, char out[JOINED])
{
    char folder[PATH_MAX], real[PATH_MAX];
    size_t n = folder_length(path);
    snprintf(folder, sizeof folder, "%.*s", n ? (int)n : 1, n ? path : ".");
    const char *base = path + n + (n && path[n] == '/');
    const char *from = realpath(folder, real) ? real : folder;
    snprintf(out, JOINED, "%s%s%s", from, strcmp(from, "/") ? "/" : "", base);
}

/* `path` seen from the folder of `file`, both absolute; *shared says whether the two have a folder
 * in common besides the root. */
static void relate(const char *path, const char *file, bool *shared, char out[JOINED])
{
    size_t common = 0, n = 0;
    for (size_t i = 0; path[i] && path[i] == file[i]; i++)
        common = path[i] == '/' ? i + 1 : common;
    *shared = common > 1;
    out[0] = '\0';
    for (const char *c = file + common; *c && n < JOINED - PATH_MAX; c++)
        if (*c == '/')
            n += (size_t)snprintf(out + n, JOINED - n, "../");
    snprintf(out + n, JOINED - n, "%s", path + common);
}

enum status path_reference(const char *reference, const char *file, char **out)
{
    char path[JOINED], from[JOINED], name[JOINED + PATH_MAX];
    bool shared;
    size_t part = path_part(reference, ""), n = folder_length(file);
    if (part == 0 || part >= PATH_MAX || (*reference != '/' && n == 0))
        return text_copy(reference, out);
    snprintf(name, sizeof name, "%.*s", (int)part, reference);
    make_absolute(name, path);
    make_absolute(file, from);
    relate(path, from, &shared, name);
    if (!strpbrk(name, "/.")) { /* or it would be taken for a name */
        memmove(name + 2, name, strlen(name) + 1);
        memcpy(name, "./", 2);
    }
    size_t length = strlen(name);
    snprintf(name + length, sizeof name - length, "%s", reference + part);
    return text_copy(name, out);
}

enum status path_find(const char *reference, const char *file, char **out)
{
    char folder[PATH_MAX], name[JOINED];
    size_t n = folder_length(file);
    snprintf(folder, sizeof folder, "%.*s", (int)n, file);
    if (*reference == '/' || n == 0 || n >= sizeof folder || path_part(reference, folder) == 0)
        return text_copy(reference, out);
    snprintf(name, sizeof name, "%s%s%s", folder, folder[n - 1] == '/' ? "" : "/", reference);
    return text_copy(name, out);
}

enum status path_absolute(const char *reference, char **out)
{
    char path[JOINED], name[JOINED + PATH_MAX];
    size_t part = path_part(reference, "");
    if (part == 0 || part >= PATH_MAX)
        return text_copy(reference, out);
    snprintf(name, sizeof name, "%.*s", (int)part, reference);
    make_absolute(name, path);
    snprintf(name, sizeof name, "%s%s", path, reference + part);
    return text_copy(name, out);
}

bool path_file(const char *reference, char *out, size_t size)
{
    size_t part = path_part(reference, "");
    snprintf(out, size, "%.*s", (int)part, reference);
    return part > 0 && part < size;
}

void path_hash(const char *reference, char hex[PATH_HASH])
{
    char path[PATH_MAX], *text = NULL;
    size_t length = 0;
    *hex = '\0';
    if (path_file(reference, path, sizeof path) && file_read(path, &text, &length) == STATUS_OK)
        digest_hex(text, length, hex);
    free(text);
}

void path_label(const char *word, char *out, size_t size)
{
    char path[JOINED], here[PATH_MAX + 1], relative[JOINED];
    bool shared;
    const char *equals = strchr(word, '='), *from = *word == '/' || !equals ? word : equals + 1;
    size_t n = strlen(from);
    while (n > 1 && from[n - 1] == '/')
        n--;
    if (*from != '/' || n == 1 || n >= PATH_MAX || !realpath(".", here)) {
        snprintf(out, size, "%s", word);
        return;
    }
    /* With a '/' behind both, the current directory itself can be the common folder. */
    strcat(here, "/");
    snprintf(relative, sizeof relative, "%.*s", (int)n, from);
    make_absolute(relative, path);
    n = strlen(path);
    snprintf(path + n, sizeof path - n, "/");
    relate(path, here, &shared, relative);
    path[n] = '\0';
    n = strlen(relative);
    if (n > 0)
        relative[n - 1] = '\0';
    const char *name = !shared ? strrchr(path, '/') + 1 : n > 0 ? relative : ".";
    snprintf(out, size, "%.*s%s", (int)(from - word), word, name);
}

enum status path_seen(const char *reference, const char *file, char **out)
{
    enum status st;
    char path[JOINED], name[JOINED + PATH_MAX], *found = NULL;
    TRY(path_find(reference, file, &found));
    size_t part = path_part(found, "");
    if (part > 0 && part < PATH_MAX && (*found == '/' || strstr(found, "../"))) {
        snprintf(name, sizeof name, "%.*s", (int)part, found);
        make_absolute(name, path);
        path_label(path, name, JOINED);
        size_t length = strlen(name);
        snprintf(name + length, sizeof name - length, "%s", found + part);
        st = text_copy(name, out);
    } else {
        MOVE(out, found);
    }
out:
    free(found);
    return st;
}

bool path_is_name(const char *name)
{
    enum { LONGEST = 200 };
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return false;
    return n > 0 && n <= LONGEST && name[0] != '.';
}
