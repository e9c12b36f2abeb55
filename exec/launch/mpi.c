/* The command line of mpirun, and what its output says about ranks that ended badly. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "exec/launch/run.h"

/* A message up to this size travels without asking the receiver first, whose rank may be computing:
 * larger ones wait for its next MPI call. */
enum { EAGER_LEAST = 2 << 20, EAGER_MOST = 16 << 20, EAGER_HEAD = 256, LINE = 4096 };

/* ---- words */

bool launch_find_program(const char *name, char *path, size_t n)
{
    const char *dirs = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(path, n, "%s", name);
        return !access(path, X_OK);
    }
    while (dirs && *dirs) {
        size_t length = strcspn(dirs, ":");
        snprintf(path, n, "%.*s/%s", (int)length, dirs, name);
        if (!access(path, X_OK))
            return true;
        dirs += length + (dirs[length] == ':');
    }
    return false;
}

static int64_t eager_limit(const struct program *p)
{
    int64_t most = EAGER_LEAST;
    for (size_t i = 0; i < p->ops; i++)
        if (p->op[i].kind == OP_SEND && p->op[i].bytes + EAGER_HEAD > most)
            most = p->op[i].bytes + EAGER_HEAD;
    return most < EAGER_MOST ? most : EAGER_MOST;
}

/* Eager messages, large socket buffers, no spinning; on one machine nothing leaves the loopback
 * interface. Between machines the network is Open MPI's choice. It forwards no signals: one that is
 * stopped and continued before it has started anything would have nobody to forward SIGCONT to, and
 * end for it. */
static void mpirun_write_script(const struct launch_state *run, char line[LINE])
{
    int n = snprintf(line, LINE,
                     "mpirun %s-n %zu --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 "
                     "--mca ess_base_forward_signals none "
                     "--mca btl_tcp_eager_limit %lld --mca btl_tcp_max_send_size %lld "
                     "--mca btl_tcp_sndbuf 4194304 --mca btl_tcp_rcvbuf 4194304 "
                     "-x FORELINE_LAUNCHER -x FORELINE_TOKEN -x OPENBLAS_NUM_THREADS %s%s ",
                     geteuid() == 0 ? "--allow-run-as-root " : "", run->program->ranks,
                     (long long)eager_limit(run->program), (long long)eager_limit(run->program),
                     getenv(limits_variable) ? "-x " : "",
                     getenv(limits_variable) ? limits_variable : "");
    if (run->options->mpirun)
        snprintf(line + n, (size_t)(LINE - n), "%.1024s", run->options->mpirun);
    else if (run->options->hosts)
        snprintf(line + n, (size_t)(LINE - n), "%s %.1024s",
                 hosts_is_list(run->options->hosts) ? "--host" : "--hostfile", run->options->hosts);
    else
        snprintf(line + n, (size_t)(LINE - n),
                 "--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo "
                 "--mca oob_tcp_if_include lo");
}

/* Split at blanks; array and strings in one block. */
static char **mpirun_split_words(const char *line, const char *program)
{
    size_t words = 1, length = strlen(line), room;
    for (const char *c = line; *c; c++)
        words += *c == ' ';
    room = (words + 2) * sizeof(char *) + length + 1 + strlen(program) + 1;
    char **word = calloc(1, room), *text = (char *)(word + words + 2), *save = NULL;
    if (!word)
        return NULL;
    strcpy(text, line);
    size_t n = 0;
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
        word[n++] = w;
    word[0] = strcpy(text + length + 1, program);
    return word;
}

/* A user's line is taken as it is, but for its first word, which becomes a path: execve() does not
 * look in PATH. */
enum status launch_words(const struct launch_state *run, char ***words)
{
    char line[LINE], name[256] = "", path[LINE];
    const char *told = run->options->launcher;
    if (told && strlen(told) >= LINE)
        return error_set(STATUS_INVALID,
                         "--launcher: command has %zu characters, expected at most %d",
                         strlen(told), LINE - 1);
    if (told)
        snprintf(line, LINE, "%s", told);
    else
        mpirun_write_script(run, line);
    sscanf(line, "%255s", name);
    if (!name[0])
        return error_set(
            STATUS_INVALID,
            "--launcher: empty, expected env, none or a command such as 'srun --mpi=pmix'");
    if (!launch_find_program(name, path, sizeof path))
        return error_set(STATUS_IO, "%s not found, so workers cannot be started%s", name,
                         told
                             ? "; --launcher takes env, none or a command such as 'srun --mpi=pmix'"
                             : "; install openmpi-bin, or give another --launcher");
    *words = mpirun_split_words(line, path);
    return *words ? STATUS_OK : error_set(STATUS_NOMEM, "launcher");
}

enum status launch_check_hosts(struct launch_state *run)
{
    const struct launch_options *o = run->options;
    if (!o->hosts)
        return STATUS_OK;
    PASS(hosts_read(o->hosts, &run->hosts));
    for (size_t i = 0; i < run->hosts.n && !o->address; i++)
        if (!hosts_is_here(run->hosts.host[i].name))
            return error_set(STATUS_USAGE,
                             "%s: workers on '%.64s' cannot reach 127.0.0.1; give this machine's "
                             "address with --address",
                             o->hosts, run->hosts.host[i].name);
    size_t local, ranks = run->program->ranks;
    if (launch_by_ssh(run) && !hosts_of(&run->hosts, ranks - 1, &local))
        return error_set(STATUS_INVALID,
                         "%s: fewer slots than the plan's %zu ranks; add hosts or slots", o->hosts,
                         ranks);
    return STATUS_OK;
}

/* ---- what it prints */

/* Open MPI: "... process rank 1 with PID 0 on node host exited on signal 9 (Killed)." */
bool launch_find_signal(FILE *output, unsigned *rank, int *signal)
{
    char line[1024];
    rewind(output);
    while (fgets(line, sizeof line, output)) {
        const char *r = strstr(line, "process rank "), *s = strstr(line, "exited on signal ");
        if (r && s && sscanf(r, "process rank %u", rank) == 1 &&
            sscanf(s, "exited on signal %d", signal) == 1)
            return true;
    }
    return false;
}

/* mpirun draws lines of dashes around what it says. */
void launch_find_reason(FILE *output, char *text, size_t n)
{
    char line[1024];
    text[0] = '\0';
    rewind(output);
    while (fgets(line, sizeof line, output)) {
        size_t length = strcspn(line, "\n");
        line[length] = '\0';
        if (length > 0 && strspn(line, "-= ") < length) {
            snprintf(text, n, "%s", line);
            return;
        }
    }
}
