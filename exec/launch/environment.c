/* Every rank, or every few of them, is a process that runs the same command, started by torchrun,
 * srun, mpirun or by hand. That of rank 0 is the launcher, and all start their own workers. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/digest.h"
#include "exec/executor.h"
#include "exec/launch/run.h"

bool launch_by_environment(const struct launch_state *run)
{
    return run->options->launcher && !strcmp(run->options->launcher, "env");
}

static const char *variable(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

const char launch_token_names[] =
    "set FORELINE_TOKEN, TORCHELASTIC_RUN_ID and SLURM_JOB_ID to the same values on all ranks";

/* A secret that all were given, or at least what tells this run from others on the machine. */
static enum status read_token(uint8_t token[TOKEN])
{
    char text[512];
    uint8_t digest[DIGEST];
    const char *told = getenv("FORELINE_TOKEN");
    if (told)
        return hex_parse(told, token, TOKEN);
    snprintf(text, sizeof text, "foreline %.200s %.200s", variable("TORCHELASTIC_RUN_ID", ""),
             variable("SLURM_JOB_ID", ""));
    digest_bytes(text, strlen(text), digest);
    memcpy(token, digest, TOKEN);
    return STATUS_OK;
}

/* torchrun, srun and mpirun say rank and number of ranks in different variables; MASTER_ADDR and
 * MASTER_PORT are the same for all. */
enum status launch_read_environment(struct launch_state *run)
{
    uint32_t ranks;
    bool given;
    if (launch_in_one_process(run))
        return error_set(
            STATUS_USAGE,
            "--launcher env does not support --transport local, which is a single process");
    PASS(rendezvous_rank(&run->meeting.rank, &ranks));
    if (ranks != run->program->ranks)
        return error_set(STATUS_INVALID, "WORLD_SIZE is %u, but the plan has %zu ranks", ranks,
                         run->program->ranks);
    run->meeting.ranks = run->options->local_ranks > 0 ? (uint32_t)run->options->local_ranks : 1;
    if (run->options->local_ranks > ranks - run->meeting.rank)
        return error_set(STATUS_USAGE,
                         "--local-ranks %zu starting at rank %u exceeds the plan's %u ranks",
                         run->options->local_ranks, run->meeting.rank, ranks);
    PASS(rendezvous_master(run->meeting.address, &run->meeting.port, &given));
    const char *nodes = variable("SLURM_STEP_NUM_NODES", variable("SLURM_NNODES", "1"));
    if (!given && strcmp(nodes, "1") != 0)
        return error_set(
            STATUS_USAGE,
            "MASTER_ADDR is not set, but the Slurm job has %s machines. Try export "
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)",
            nodes);
    return read_token(run->meeting.token);
}

enum status launch_is_member(const struct launch_options *o, bool *member)
{
    uint32_t rank = 0, ranks;
    if (o->launcher && !strcmp(o->launcher, "env"))
        PASS(rendezvous_rank(&rank, &ranks));
    *member = rank > 0;
    return STATUS_OK;
}

/* Since when a worker is stopped; 0: it is not. */
static void look_after(struct launch_state *run, struct launched *w, double *stopped_s)
{
    int status;
    if (!w->child.alive || waitpid(w->child.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) <= 0)
        return;
    *stopped_s = WIFSTOPPED(status) ? clock_now() : 0;
    w->child.alive = WIFSTOPPED(status) || WIFCONTINUED(status);
    w->child.exit = status;
    run->alive -= !w->child.alive;
}

static enum status check_end(const struct launch_state *run, uint32_t rank)
{
    char name[RANK_NAME];
    int status = run->worker[rank].child.exit;
    if (WIFSIGNALED(status))
        return error_set(STATUS_EXTERNAL, "%s killed by signal %d (%s)",
                         launch_name(run, rank, name), WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        return error_set(
            STATUS_EXTERNAL,
            "%s exited with status %d; see its output or that of rank 0 for the reason",
            launch_name(run, rank, name), WEXITSTATUS(status));
    return STATUS_OK;
}

/* Until the workers end. One that stays stopped cannot notice that the run is over. */
static enum status launch_watch_workers(struct launch_state *run)
{
    enum status st = STATUS_OK;
    const uint32_t first = run->meeting.rank, n = run->meeting.ranks;
    char name[RANK_NAME];
    double *stopped_s = NULL;
    TRY(ARRAY_NEW(stopped_s, n));
    while (run->alive > 0) {
        struct pollfd p = {.fd = run->signals.fd, .events = POLLIN};
        struct signalfd_siginfo s;
        if (poll(&p, 1, 500) < 0 && errno != EINTR)
            FAIL(STATUS_IO, "poll: %s", strerror(errno));
        while (read(run->signals.fd, &s, sizeof s) == (ssize_t)sizeof s)
            if (s.ssi_signo != SIGCHLD)
                TRY(error_interrupted((int)s.ssi_signo));
        for (uint32_t k = 0; k < n; k++) {
            look_after(run, &run->worker[first + k], &stopped_s[k]);
            if (stopped_s[k] > 0 && clock_now() - stopped_s[k] > run->options->timeout_s)
                FAIL(STATUS_EXTERNAL, "%s: timeout: the process has been stopped for %g s",
                     launch_name(run, first + k, name), run->options->timeout_s);
        }
    }
    for (uint32_t k = 0; k < n; k++)
        TRY(check_end(run, first + k));
out:
    free(stopped_s);
    return st;
}

/* `settings`: "" where they are not known. */
static enum status excuse(enum status st, const char *settings)
{
    struct frame_hello hello = {0};
    char launcher[RENDEZVOUS_HOST + 16] = "", message[1024];
    uint16_t port = 0;
    bool given;
    if (error_signal())
        return st;
    snprintf(message, sizeof message, "%s", error_message());
    if (rendezvous_rank(&hello.rank, &hello.ranks) == STATUS_OK && hello.rank > 0 &&
        read_token(hello.token) == STATUS_OK &&
        rendezvous_master(launcher, &port, &given) == STATUS_OK) {
        snprintf(launcher + strlen(launcher), 16, ":%u", port);
        snprintf(hello.settings, AGREEMENT, "%s", settings);
        agreement_add_failure(message, hello.settings);
        (void)rendezvous_excuse(launcher, &hello, true);
    }
    return error_set(st, "%s", message);
}

enum status launch_excuse(enum status st)
{
    return excuse(st, "");
}

/* As launch_run() up to the worker: files and checkpoints are read by each process for itself, and
 * rank 0's launcher compares their digests. */
enum status launch_member(const struct program *p, const struct model *m,
                          const struct launch_options *o)
{
    enum status st;
    struct launch_state run = launch_new(p, m, o);
    TRY(executor_supports(p));
    TRY(launch_check_options(p, m, o));
    TRY(launch_allocate(&run));
    TRY(launch_read_environment(&run));
    TRY(launch_open_checkpoints(&run));
    TRY(launch_take_signals(&run));
    TRY(launch_prepare(&run));
    TRY(launch_spawn(&run));
    TRY(launch_watch_workers(&run));
out:
    if (st != STATUS_OK)
        st = excuse(st, run.meeting.settings);
    launch_tear_down(&run);
    return st;
}
