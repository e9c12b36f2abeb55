/* The first process of a sandbox has a name of its own; its /dev/shm says which rank is where. Only
 * processes of the same user are looked at: nobody is led into somebody else's namespaces. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "exec/netns/inside.h"
#include "exec/netns/netns.h"

enum { PATH = 128, LINE = 512, LISTED = 8 };
static const char ranks_file[] = "/dev/shm/foreline-ranks";

/* What is needed of a running emulation to get to one of its ranks. */
struct emulation_place {
    char name[WIRING_NAME]; /* host name */
    unsigned node;
    size_t ranks; /* of the emulation */
};

enum status join_publish(const struct built *b, const struct netns_options *o)
{
    const struct wiring *w = b->w;
    struct file_out f = {0};
    PASS(file_create(ranks_file, &f));
    for (uint32_t r = 0; r < w->ranks; r++)
        fprintf(f.stream, "%u %s %s\n", w->space_of[r], w->space[w->space_of[r]].name,
                o->topology->device[o->device ? o->device[r] : r]);
    return file_commit(&f);
}

/* ---- finding it */

/* The parent of a process; 0: gone. */
static pid_t emulation_parent(pid_t pid)
{
    char path[PATH], line[LINE];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    char *end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (f)
        fclose(f);
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Its number in its own namespace; 0: not known. */
static int innermost(pid_t pid)
{
    char path[PATH], line[LINE];
    int number = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "NSpid:", 6))
            number = (int)strtol(strrchr(line, '\t') ? strrchr(line, '\t') : "0", NULL, 10);
    if (f)
        fclose(f);
    return number;
}

/* The name of a process can be anybody's: it must also be ours, the first of its pid namespace, and
 * have the list of ranks. */
static bool emulation_is_first(pid_t pid)
{
    char path[PATH], name[32] = "";
    struct stat s;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    if (stat(path, &s) != 0 || s.st_uid != geteuid())
        return false;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(name, sizeof name, f);
    if (f)
        fclose(f);
    name[strcspn(name, "\n")] = '\0';
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, ranks_file);
    return read && !strcmp(name, sandbox_name) && access(path, R_OK) == 0 && innermost(pid) == 1;
}

/* The first process of the only emulation, or of that one which `wanted` belongs to. */
static enum status find_first(pid_t wanted, pid_t *out)
{
    char list[LISTED * 12] = "";
    size_t found = 0, n = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *e; all && (e = readdir(all));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (!isdigit((unsigned char)e->d_name[0]) || !emulation_is_first(pid))
            continue;
        pid_t between = emulation_parent(pid), command = emulation_parent(between);
        if (wanted && wanted != pid && wanted != between && wanted != command)
            continue;
        if (found++ < LISTED)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", n ? ", " : "", (int)command);
        *out = pid;
    }
    if (all)
        closedir(all);
    if (found == 1)
        return STATUS_OK;
    if (found > 1)
        return error_set(STATUS_USAGE, "%zu emulations are running; choose one with --pid: %s",
                         found, list);
    if (wanted)
        return error_set(STATUS_INVALID, "process %d is not one of your emulations", (int)wanted);
    return error_set(STATUS_INVALID,
                     "no emulation of yours is running; start one with --platform P");
}

/* Where the device, node or rank of that name is. */
static enum status emulation_find(pid_t first, const char *host, struct emulation_place *out)
{
    char path[PATH], line[LINE], device[LINE];
    uint64_t number;
    bool is_number = text_count(host, UINT64_MAX, &number), found = false;
    struct emulation_place p;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)first, ranks_file);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    for (p.ranks = 0; fgets(line, sizeof line, f); p.ranks++) {
        if (sscanf(line, "%u %63s %511[^\n]", &p.node, p.name, device) != 3)
            break;
        bool named = !strcmp(device, host) || !strcmp(p.name, host);
        if (!found && (named || (is_number && p.ranks == number))) {
            *out = p;
            found = true;
        }
    }
    fclose(f);
    out->ranks = p.ranks;
    return found ? STATUS_OK
                 : error_set(STATUS_INVALID,
                             "--shell: unknown host '%s', expected a host of the platform or a "
                             "rank below %zu",
                             host, p.ranks);
}

/* ---- going there */

static const char *const kinds[] = {"user", "mnt", "pid", "ipc", "uts"}; /* rights come first */
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool namespace_is_own(int fd, const char *kind)
{
    char path[PATH];
    struct stat a, b;
    snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino;
}

/* Into all namespaces of the sandbox, children into that of its processes too. */
static enum status emulation_enter(pid_t first, const struct emulation_place *p)
{
    enum status st = STATUS_OK;
    int fd[KINDS + 1];
    char path[PATH], *home = getcwd(NULL, 0);
    for (size_t i = 0; i <= KINDS; i++) { /* all before the first: /proc is another one then */
        if (i < KINDS)
            snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)first, kinds[i]);
        else
            snprintf(path, sizeof path, "/proc/%d/root/dev/shm/net-%u", (int)first, p->node);
        fd[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (fd[i] < 0 && st == STATUS_OK)
            st = error_set(STATUS_IO, "%s: %s", path, strerror(errno));
        else if (i < KINDS && fd[i] >= 0 && namespace_is_own(fd[i], kinds[i])) {
            close(fd[i]);
            fd[i] = -1;
        }
    }
    for (size_t i = 0; i <= KINDS; i++) {
        if (st == STATUS_OK && fd[i] >= 0 && setns(fd[i], 0) != 0)
            st = error_set(STATUS_IO, "cannot enter the emulation's namespaces: %s",
                           strerror(errno));
        if (fd[i] >= 0)
            close(fd[i]);
    }
    if (home && chdir(home) != 0)
        (void)chdir("/");
    free(home);
    return st;
}

/* In a process of its own, because of the namespace of processes. */
static void be_there(pid_t first, const struct emulation_place *p, uint16_t port)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enum status st = emulation_enter(first, p);
    pid_t shell = st == STATUS_OK ? fork() : -1;
    if (shell == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ranks_be_shell(p->name, p->ranks, port);
    }
    if (shell < 0) {
        dprintf(2, "foreline: %s\n", st == STATUS_OK ? strerror(errno) : error_message());
        _exit(1);
    }
    _exit(sandbox_wait(shell));
}

enum status netns_join(const char *host, uint32_t pid, uint16_t port, int *code)
{
    pid_t first = 0;
    struct emulation_place p = {0};
    PASS(find_first((pid_t)pid, &first));
    PASS(emulation_find(first, host, &p));
    void (*before)(int) = signal(SIGINT, SIG_IGN); /* is for what runs in the shell */
    pid_t child = fork();
    if (child == 0)
        be_there(first, &p, port);
    *code = child > 0 ? sandbox_wait(child) : 0;
    signal(SIGINT, before);
    if (child < 0)
        return error_set(STATUS_IO, "fork: %s", strerror(errno));
    return STATUS_OK;
}
