/* From a name to a platform file: a shipped one, a generated one, or a path. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "topologies/write.h"

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/executable.h"
#include "core/base/file.h"
#include "topologies/cache.h"
#include "topologies/generate.h"

static const char suffix[] = ".xml";

static enum status out_of_memory(void)
{
    return error_set(STATUS_NOMEM, "out of memory");
}

static bool topology_is_directory(const char *path)
{
    struct stat s;
    return path && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The directory of the shipped platforms, seen from our own executable, so that an installation can
 * be moved. False: there is none, and it is where they were looked for. */
static bool data_directory(char directory[PATH_MAX])
{
    const char *given = getenv("FORELINE_DATA");
    char self[EXECUTABLE_FOLDER] = ".", joined[EXECUTABLE_FOLDER + sizeof FORELINE_PLATFORMS + 1];
    if (topology_is_directory(given) && strlen(given) < PATH_MAX) {
        snprintf(directory, PATH_MAX, "%s", given);
        return true;
    }
    bool found = executable_folder(self) == STATUS_OK;
    snprintf(joined, sizeof joined, "%s/%s", self, FORELINE_PLATFORMS);
    snprintf(directory, PATH_MAX, "%s", joined);
    return found && realpath(joined, directory) && topology_is_directory(directory);
}

/* directory/name.xml, or a copy of `name` when directory is NULL. */
static char *topology_join_path(const char *directory, const char *name)
{
    size_t n = strlen(name) + (directory ? strlen(directory) + sizeof suffix : 0) + 1;
    char *path = malloc(n);
    if (path && directory)
        snprintf(path, n, "%s/%s%s", directory, name, suffix);
    else if (path)
        memcpy(path, name, n);
    return path;
}

static void names_free(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* Append the file name without its suffix, if that is .xml. */
static enum status topology_add_name(const char *file, char ***names, size_t *n)
{
    size_t length = strlen(file), tail = sizeof suffix - 1;
    if (length <= tail || file[0] == '.' || strcmp(file + length - tail, suffix) != 0)
        return STATUS_OK;
    PASS(ARRAY_ROOM(*names, *n));
    PASS(ARRAY_NEW((*names)[*n], length - tail + 1));
    memcpy((*names)[(*n)++], file, length - tail);
    return STATUS_OK;
}

enum status topology_list(char ***names, size_t *n)
{
    enum status st = STATUS_OK;
    char directory[PATH_MAX];
    DIR *dir = NULL;
    char **found = NULL;
    size_t count = 0;
    if (!data_directory(directory))
        return error_set(STATUS_IO,
                         "directory of platforms not found; set FORELINE_DATA (looked in %s)",
                         directory);
    dir = opendir(directory);
    if (!dir)
        return error_set(STATUS_IO, "%s: %s", directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        TRY(topology_add_name(entry->d_name, &found, &count));
    if (count > 0)
        qsort(found, count, sizeof *found, order_by_name);
    *names = found;
    *n = count;
    found = NULL;
    count = 0;
out:
    names_free(found, count);
    closedir(dir);
    return st;
}

/* Nothing of that name: say what there is. */
static enum status topology_unknown(const char *name)
{
    enum status st;
    char **names = NULL, known[512] = "", generated[256] = "", hint[TEXT_HINT];
    const char *nearest = NULL;
    size_t n = 0, length = 0, used = 0, best = text_reach(name);
    for (size_t i = 0; i < families_n && used < sizeof generated; i++)
        used += (size_t)snprintf(generated + used, sizeof generated - used, "%s%s:...",
                                 i ? ", " : "", families[i]->name);
    TRY(topology_list(&names, &n));
    for (size_t i = 0; i < n && length < sizeof known; i++)
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                   names[i]);
    for (size_t i = 0; i < n; i++)
        nearest = text_is_nearer(name, names[i], &best) ? names[i] : nearest;
    st = error_set(STATUS_INVALID,
                   "unknown platform '%.200s'%s no such file; shipped: %s; generated: %s", name,
                   *text_hint(nearest, hint) ? hint : ":", *known ? known : "none", generated);
out:
    names_free(names, n);
    return st;
}

/* The file of a generated platform, made if it is not there. */
static enum status topology_generate_named(const char *spec, char **path)
{
    enum status st;
    char *canonical = NULL, *text = NULL;
    size_t length = 0;
    FILE *stream = NULL;
    TRY(generate_canonical(spec, &canonical));
    stream = open_memstream(&text, &length);
    if (!stream) {
        st = out_of_memory();
        goto out;
    }
    TRY(generate_platform(spec, stream));
    bool failed = ferror(stream);
    int closed = fclose(stream);
    stream = NULL;
    if (failed || closed != 0) {
        st = out_of_memory();
        goto out;
    }
    TRY(cache_file(canonical, text, length, path));
out:
    if (stream)
        fclose(stream);
    free(text);
    free(canonical);
    return st;
}

enum status topology_resolve(const char *name, char **path)
{
    enum status st = STATUS_OK;
    struct stat s;
    char *shipped = NULL, directory[PATH_MAX];
    bool has_shipped = data_directory(directory);
    bool is_path = strchr(name, '/') || !strcmp(name, "-");
    if (!is_path && has_shipped && *name) {
        shipped = topology_join_path(directory, name);
        if (!shipped)
            return out_of_memory();
        if (stat(shipped, &s) == 0) {
            *path = shipped;
            return STATUS_OK;
        }
    }
    if (!is_path && generate_has(name)) {
        st = topology_generate_named(name, path);
        goto out;
    }
    if (!is_path && stat(name, &s) != 0) {
        st = topology_unknown(name);
        goto out;
    }
    char *copy = topology_join_path(NULL, name);
    if (!copy)
        st = out_of_memory();
    else
        *path = copy;
out:
    free(shipped);
    return st;
}

enum status topology_summary(const char *path, char **summary)
{
    enum status st;
    char *text = NULL, *line;
    size_t length;
    TRY(file_read(path, &text, &length));
    const char *begin = strstr(text, "<!--");
    begin = begin ? begin + strlen("<!--") : text + length;
    begin += strspn(begin, " \t\r\n");
    const char *end = strstr(begin, "-->");
    size_t n = strcspn(begin, "\r\n");
    if (end && (size_t)(end - begin) < n)
        n = (size_t)(end - begin);
    while (n > 0 && begin[n - 1] == ' ')
        n--;
    line = malloc(n + 1);
    if (!line) {
        st = out_of_memory();
        goto out;
    }
    memcpy(line, begin, n);
    line[n] = '\0';
    *summary = line;
out:
    free(text);
    return st;
}
