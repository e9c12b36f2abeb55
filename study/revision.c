/* git without the configuration of the repository. */
#include "study/revision.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "host/folder.h"
#include "host/tool.h"

enum { PATIENCE = 20 }; /* s: git */
enum { DIFF_BYTES = 16 << 20, PLACES_BYTES = 1 << 16, PLACES = 4, SHA1 = 40, PATH_TEXT = 4200 };

static enum status revision_put_file(const char *path, const char *text, size_t n)
{
    struct file_out f;
    PASS(file_create(path, &f));
    fwrite(text, 1, n, f.stream);
    return file_commit(&f);
}

/* Our folder that stands for .git. */
static enum status make_folder(const char *revision, const char *index,
                               char folder[FOLDER_TEMPORARY])
{
    enum status st;
    struct stat was;
    char *text = NULL, head[SHA1 + 2], path[FOLDER_FILE];
    size_t n;
    TRY(folder_temporary(folder));
    if (mkdir(folder_file(folder, "refs", path), 0700) != 0)
        FAIL(STATUS_IO, "%s: %s", path, strerror(errno));
    snprintf(head, sizeof head, "%s\n", revision);
    TRY(revision_put_file(folder_file(folder, "HEAD", path), head, strlen(head)));
    if (stat(index, &was) != 0)
        FAIL(STATUS_IO, "%s: %s", index, strerror(errno));
    TRY(file_read(index, &text, &n));
    TRY(revision_put_file(folder_file(folder, "index", path), text, n));
    const struct timespec times[2] = {was.st_mtim, was.st_mtim};
    (void)utimensat(AT_FDCWD, path, times, 0); /* git looks again at files that are as young */
out:
    free(text);
    return st;
}

static void put_diff(FILE *to, char *const place[PLACES], const char *own)
{
    static const char *const words[] = {"git",
                                        "--no-pager",
                                        "diff",
                                        "--no-ext-diff",
                                        "--no-textconv",
                                        "--no-color",
                                        "--ignore-submodules=all",
                                        "HEAD",
                                        NULL};
    char tree[PATH_TEXT], objects[PATH_TEXT], folder[PATH_TEXT];
    const char *const variables[] = {
        folder, tree, objects, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", NULL};
    char *text = NULL;
    size_t n = 0;
    bool cut = false;
    int code = 0;
    snprintf(folder, sizeof folder, "GIT_DIR=%s", own);
    snprintf(tree, sizeof tree, "GIT_WORK_TREE=%.4096s", place[1]);
    snprintf(objects, sizeof objects, "GIT_OBJECT_DIRECTORY=%.4096s", place[2]);
    const struct tool git = {words, variables, -1, -1, -1, limit_wait(PATIENCE)};
    if (tool_text(&git, DIFF_BYTES, &code, &text, &n, &cut) != STATUS_OK)
        fprintf(to, "(what differs is not known: %s)\n", error_message());
    else if (code != 0 && !cut)
        fprintf(to, "(what differs is not known: git ended with status %d)\n", code);
    else
        fwrite(text, 1, n, to);
    if (cut)
        fprintf(to, "\n(cut after %d bytes)\n", DIFF_BYTES);
    free(text);
}

/* Four lines: revision, working tree, objects, index. Only reads configuration, runs nothing. */
static size_t find_places(char **text, char *place[PLACES + 1])
{
    static const char *const words[] = {"git",     "rev-parse",       "--path-format=absolute",
                                        "HEAD",    "--show-toplevel", "--git-path",
                                        "objects", "--git-path",      "index",
                                        NULL};
    static const char *const variables[] = {"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
                                            NULL};
    const struct tool git = {words, variables, -1, -1, -1, limit_wait(PATIENCE)};
    int code;
    size_t n;
    bool cut;
    if (tool_text(&git, PLACES_BYTES, &code, text, &n, &cut) != STATUS_OK || code != 0 || cut)
        return 0;
    return text_split(*text, "\n", place, PLACES + 1);
}

void revision_put(FILE *to)
{
    char *text = NULL, *place[PLACES + 1];
    char folder[FOLDER_TEMPORARY] = "";
    size_t n = find_places(&text, place);
    if (n > 0)
        fprintf(to, "%s\n", place[0]);
    if (n == PLACES && strlen(place[0]) == SHA1) { /* else there are line ends in a path */
        if (make_folder(place[0], place[3], folder) == STATUS_OK)
            put_diff(to, place, folder);
        else
            fprintf(to, "(what differs is not known: %s)\n", error_message());
    }
    folder_remove(folder);
    free(text);
}
