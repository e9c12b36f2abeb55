/* main - foreline-explore, which `foreline explore` starts: files into a folder, the server, until
 * a signal ends it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/limit.h"
#include "core/base/path.h"
#include "explore/server.h"
#include "explore/subprocess.h"
#include "explore/words.h"
#include "host/folder.h"
#include "host/leftover.h"
#include "host/screen.h"
#include "study/settings.h"

enum { FILE_MIB = 384, WRITTEN_MIB = 1024 }; /* copied, and written by a command */

/* ---- files */

static enum status main_copy(const char *path, const char *folder, const char *name)
{
    enum status st;
    char to[FOLDER_TEMPORARY + 256], *text = NULL;
    size_t n = 0;
    struct file_out f = {0};
    snprintf(to, sizeof to, "%s/%s", folder, name);
    TRY(file_read_most(path, FILE_MIB, &text, &n));
    TRY(file_create(to, &f));
    if (fwrite(text, 1, n, f.stream) != n)
        FAIL(STATUS_IO, "%s: %s", to, strerror(errno));
    TRY(file_commit(&f));
out:
    file_discard(&f);
    free(text);
    return st;
}

/* Under their names without folders, in name[]. */
static enum status main_copy_files(char *const *path, size_t n, const char *folder,
                                   const char **name)
{
    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(path[i], '/');
        name[i] = slash ? slash + 1 : path[i];
        if (!path_is_name(name[i]) || words_check_one(name[i]) != STATUS_OK)
            return error_set(STATUS_USAGE,
                             "%s: unsupported file name: rename the file (no '..', and no '.', '~' "
                             "or '-' at the beginning)",
                             path[i]);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(name[k], name[i]))
                return error_set(STATUS_USAGE, "%s and %s have the same name: rename one of them",
                                 path[k], path[i]);
        PASS(main_copy(path[i], folder, name[i]));
    }
    return STATUS_OK;
}

/* ---- the browser */

static bool main_has(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value;
}

static void main_open_browser(const struct server *s)
{
    char url[SERVER_URL];
    const char *words[] = {main_has("BROWSER") ? getenv("BROWSER") : "xdg-open",
                           server_url(s, s->once, url), NULL};
    if ((main_has("DISPLAY") || main_has("WAYLAND_DISPLAY")) &&
        subprocess_detach(words) != STATUS_OK)
        fprintf(stderr, "note: no browser was opened: %s\n", error_message());
}

/* ---- */

/* They end us in main_serve(), whatever thread they come to; a client that is gone is no signal. */
static void main_hold_signals(sigset_t *ending)
{
    sigset_t held;
    sigemptyset(ending);
    sigaddset(ending, SIGINT);
    sigaddset(ending, SIGTERM);
    sigaddset(ending, SIGHUP);
    sigaddset(ending, SIGQUIT);
    held = *ending;
    sigaddset(&held, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
}

static enum status main_serve(const struct arguments *a, const char *folder,
                              const struct start_files *files, const sigset_t *ending)
{
    enum status st;
    int signal;
    char url[SERVER_URL];
    struct page_tasks tasks = {0};
    struct server server = {0};
    TRY(tasks_open(&tasks, folder));
    TRY(server_open(&server, (unsigned)a->explore.port, &tasks, files));
    puts(server_url(&server, server.key, url));
    if (file_flush(stdout) != 0)
        FAIL(STATUS_IO, "standard output: %s", strerror(errno));
    fputs("Open this address in a browser; Ctrl-C ends the page.\n", stderr);
    if (!a->explore.no_browser)
        main_open_browser(&server);
    while (sigwait(ending, &signal) != 0)
        continue;
    tasks_end(&tasks);
out:
    server_close(&server);
    tasks_close(&tasks);
    return st;
}

static enum status main_explore(int n, char **argv)
{
    enum status st;
    char folder[FOLDER_TEMPORARY] = "", *here = NULL;
    const char **name = NULL;
    sigset_t ending;
    struct rlimit most = {(rlim_t)WRITTEN_MIB << 20, (rlim_t)WRITTEN_MIB << 20};
    struct arguments a = arguments_defaults(TAKES(EXPLORE));
    PASS(limits_inherit());
    PASS(arguments_parse(&a, TAKES(EXPLORE), &n, argv));
    PASS(limits_set(a.limits));
    main_hold_signals(&ending);
    TRY(ARRAY_NEW(name, (size_t)n));
    TRY((here = getcwd(NULL, 0)) ? STATUS_OK : error_set(STATUS_IO, "getcwd: %s", strerror(errno)));
    TRY(folder_temporary(folder));
    TRY(main_copy_files(argv, (size_t)n, folder, name));
    (void)setrlimit(RLIMIT_FSIZE, &most);
    st = main_serve(&a, folder, &(struct start_files){here, name, (size_t)n}, &ending);
out:
    folder_remove(folder);
    free(here);
    free(name);
    return st;
}

int main(int argc, char **argv)
{
    screen_protect();
    leftover_watch_files();
    signal(SIGXFSZ, SIG_IGN);
    enum status st = main_explore(argc - 1, argv + 1);
    if (st != STATUS_OK)
        fprintf(stderr, "foreline explore: %s\n", error_message());
    return st == STATUS_OK ? 0 : st == STATUS_USAGE ? 2 : 1;
}
