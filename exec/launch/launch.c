/* The order of things in a run: options, memory, signals, files, workers, results; and tearing
 * everything down, whatever had been begun. */
#include "exec/launch/launch.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "exec/executor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "exec/batch_tokens.h"
#include "exec/launch/run.h"
#include "exec/rounds.h"
#include "exec/transport/tcp/socket.h"

static const double max_steps = 1e7;

const char *launch_paced(const char *device)
{
    return !strcmp(device, "cuda") ? "paced-cuda" : "paced";
}

const char *launch_default_transport(const char *device)
{
    return strstr(device, "cuda") ? "nccl" : "tcp";
}

bool launch_is_paced(const char *device)
{
    return !strncmp(device, "paced", strlen("paced"));
}

enum status launch_check_options(const struct program *p, const struct model *m,
                                 const struct launch_options *o)
{
    const struct rounds_algorithm *algorithm;
    if (o->steps < 1 || (double)o->steps + (double)o->warmup > max_steps)
        return error_set(
            STATUS_INVALID,
            "got %zu steps after %zu warm-up steps, expected at least 1 and at most %g together",
            o->steps, o->warmup, max_steps);
    PASS(rounds_find(o->collective, o->transport, &algorithm));
    if (!(o->timeout_s > 0 && o->timeout_s <= 1e6))
        return error_set(STATUS_INVALID, "--timeout: got %g s, expected more than 0 s",
                         o->timeout_s);
    for (size_t k = 0; k < p->stage_start[p->stages]; k++)
        if (p->stage_op[k] >= m->n)
            return error_set(STATUS_INVALID,
                             "the program has op %u, but the model has only %zu ops",
                             p->stage_op[k], m->n);
    return STATUS_OK;
}

struct launch_state launch_new(const struct program *p, const struct model *m,
                               const struct launch_options *o)
{
    return (struct launch_state){.program = p,
                                 .model = m,
                                 .options = o,
                                 .steps = o->steps + o->warmup,
                                 .meeting.listener = -1,
                                 .keeping.lock = -1,
                                 .signals.fd = -1};
}

enum status launch_allocate(struct launch_state *run)
{
    size_t ranks = run->program->ranks;
    PASS(ARRAY_NEW(run->worker, ranks));
    for (size_t r = 0; r < ranks; r++)
        run->worker[r].fd = -1;
    PASS(launch_allocate_reports(run));
    for (size_t s = 0; s < run->program->stages; s++) {
        const struct program_stage *of = &run->program->stage[s];
        size_t parts = (size_t)of->tensor_parallel * of->expert_parallel;
        run->reports.shards = parts > run->reports.shards ? parts : run->reports.shards;
    }
    PASS(ARENA_NEW(&run->reports.memory, run->reports.digests,
                   run->model->n * run->reports.shards * DIGEST));
    return ARENA_NEW(&run->reports.memory, run->reports.digested,
                     run->model->n * run->reports.shards);
}

/* Blocked signals and a descriptor that tells of them: no handler interrupts a system call, and
 * none is lost between looking and sleeping. */
enum status launch_take_signals(struct launch_state *run)
{
    sigset_t mask;
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigaddset(&mask, SIGQUIT);
    sigaddset(&mask, SIGCHLD);
    sigaction(SIGCHLD, &standard,
              &run->signals.old_child); /* ignored children cannot be waited for */
    sigprocmask(SIG_BLOCK, &mask, &run->signals.old_mask);
    run->signals.masked = true;
    run->signals.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals.fd < 0 ? error_set(STATUS_IO, "signalfd: %s", strerror(errno)) : STATUS_OK;
}

enum status launch_interruption(struct launch_state *run)
{
    struct signalfd_siginfo s;
    while (read(run->signals.fd, &s, sizeof s) == (ssize_t)sizeof s)
        if (s.ssi_signo != SIGCHLD)
            run->cause.signal = (int)s.ssi_signo;
    return run->cause.signal ? error_interrupted(run->cause.signal) : STATUS_OK;
}

/* Processes first: files and connections are still theirs until they have ended. Files last: to
 * remove a folder takes descriptors, and a run that had too few of them has used them all. */
void launch_tear_down(struct launch_state *run)
{
    launch_kill(run);
    launch_close_checkpoints(run);
    for (size_t r = 0; run->worker && r < run->program->ranks; r++) {
        socket_close(&run->worker[r].fd);
        free(run->worker[r].payload);
    }
    door_close(&run->meeting.door);
    socket_close(&run->meeting.listener);
    socket_close(&run->signals.fd);
    launch_remove_files(run);
    if (run->starter.output)
        fclose(run->starter.output);
    if (run->signals.masked) {
        sigprocmask(SIG_SETMASK, &run->signals.old_mask, NULL);
        sigaction(SIGCHLD, &run->signals.old_child, NULL);
    }
    free(run->worker);
    hosts_free(&run->hosts);
    timeline_free(&run->reports.scratch);
    arena_free(&run->reports.memory);
}

/* Everything that can be refused is refused before the first process is started. */
enum status launch_run(const struct program *p, const struct model *m,
                       const struct launch_options *o, struct measurement *out,
                       struct timeline *timeline)
{
    enum status st;
    struct launch_state run = launch_new(p, m, o);
    double cpu_s = clock_children_cpu(), machine_s = clock_machine_cpu();

    TRY(executor_supports(p));
    TRY(launch_check_options(p, m, o));
    TRY(launch_allocate(&run));
    if (launch_by_environment(&run))
        TRY(launch_read_environment(&run));
    TRY(launch_open_checkpoints(&run));
    if (o->batch_tokens)
        TRY(batch_tokens_write(m, p, o->text, (uint32_t)run.keeping.first, run.steps,
                               o->batch_tokens));
    TRY(launch_take_signals(&run));
    TRY(launch_prepare(&run));
    run.started_s = clock_now();
    TRY(launch_spawn(&run));
    st = launch_watch(&run);
    if (st != STATUS_OK)
        launch_refuse(&run);
    if (st != STATUS_OK && (run.cause.signal == 0 || run.reports.complete <= o->warmup)) {
        char kept[KEPT_TEXT];
        if (run.cause.signal && *launch_kept(&run, kept))
            st = error_context(st, "%s", kept);
        goto out;
    }
    if (st != STATUS_OK)
        launch_kill(&run); /* nobody computes while this is summed up */
    cpu_s = clock_children_cpu() - cpu_s;
    run.reports.others_cpu_s = clock_machine_cpu() - machine_s - cpu_s;
    TRY(launch_result(&run, cpu_s, out, timeline));
    TRY(launch_interruption(&run));
out:
    launch_tear_down(&run);
    return st;
}
