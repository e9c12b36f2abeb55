/* Who says nothing: has not joined, is stopped, is stuck. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/launch/run.h"
#include "host/family.h"

enum { MOST_LINKS = 8 }; /* on a way, about */

static void check_start(struct launch_state *run, double now_s)
{
    char name[RANK_NAME], tokens[TOKENS_TEXT];
    double limit_s = limit(LIMIT_start) + run->options->timeout_s;
    if (run->joined == run->program->ranks || now_s - run->started_s - run->away_s < limit_s)
        return;
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].stage == WORKER_SPAWNED)
            launch_blame(
                run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                "%s: timeout: did not join within %g s (raise it with --limit start=60s)%s%s",
                launch_name(run, r, name), limit_s, *launch_other_tokens(run, tokens) ? "; " : "",
                tokens);
}

/* Does /proc show the rank's process, and that it is stopped? */
static bool silence_is_stopped(const struct launched *w)
{
    return process_look(&w->told) == PROCESS_LIVES && family_stopped((pid_t)w->told.pid, 0);
}

/* One that is stopped where that is known: before it has joined, and when it is done, too. */
static void check_stopped(struct launch_state *run, double now_s)
{
    char name[RANK_NAME], place[RANK_NAME];
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        struct launched *w = &run->worker[r];
        bool waits = w->stage == WORKER_JOINED && w->fd >= 0 &&
                     now_s - w->heard_s > limit_wait(WAIT_STOPPED) && silence_is_stopped(w);
        if (waits || (w->stage != WORKER_JOINED && w->child.alive &&
                      family_stopped_long(&w->watch, w->child.pid, 0)))
            launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                         "%s: timeout: no heartbeat for %.3g s%s", launch_name(run, r, name),
                         waits ? now_s - w->heard_s : limit_wait(WAIT_STOPPED),
                         launch_place(run, r, place));
    }
}

/* A rank that is stopped sends no heartbeats: the one that has been silent longest, since a busy
 * machine makes others late. Nobody sends any before all have joined. Who has hung up has something
 * else to be explained by. When all send heartbeats but none gets anywhere, the one that computes
 * is stuck, and the others wait for it. When one has just fallen silent, it is given the time to
 * prove that it is the culprit. */
static void check_silence(struct launch_state *run, double now_s)
{
    char name[RANK_NAME], place[RANK_NAME];
    uint32_t suspect = 0, silent = 0;
    bool starting = true;
    double limit_s = run->options->timeout_s, progress_s = 0, silence_s = 0;
    if (run->cause.rank >= CAUSE_GONE)
        return;
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        const struct launched *w = &run->worker[r];
        if (w->stage != WORKER_JOINED || w->fd < 0)
            continue;
        if (now_s - w->heard_s > silence_s) {
            silence_s = now_s - w->heard_s;
            silent = r;
        }
        progress_s = fmax(progress_s, w->progress_s);
        starting = starting && worker_is_starting(w->at.state);
        if (w->at.state == WORKER_COMPUTES || w->at.state == WORKER_SAVES)
            suspect = r;
    }
    if (run->joined < run->program->ranks)
        return;
    if (silence_s > limit_s)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s: timeout: no heartbeat for %.3g s%s",
                     launch_name(run, silent, name), silence_s, launch_place(run, silent, place));
    if (silence_s > 3 * heartbeat_s)
        limit_s *= 2;
    if (starting)
        limit_s += limit(LIMIT_start);
    if (run->done == 0 && run->cause.rank == CAUSE_NONE && now_s - progress_s > limit_s)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s: timeout: no progress for %.3g s%s%s",
                     launch_name(run, suspect, name), now_s - progress_s,
                     launch_place(run, suspect, place),
                     run->options->timeout_hint ? run->options->timeout_hint : "");
}

/* The rank whose process that is, as it has said itself, or as Open MPI's daemon has told it; the
 * number of ranks: it is none. */
static uint32_t silence_rank_of(const struct launch_state *run, pid_t pid)
{
    char text[16];
    uint32_t ranks = (uint32_t)run->program->ranks, r = 0;
    while (r < ranks && (run->worker[r].told.pid != (uint32_t)pid ||
                         process_look(&run->worker[r].told) != PROCESS_LIVES))
        r++;
    if (r == ranks && !getenv("OMPI_COMM_WORLD_RANK") &&
        family_variable(pid, "OMPI_COMM_WORLD_RANK", text, sizeof text))
        r = (uint32_t)strtoul(text, NULL, 10);
    return r < ranks ? r : ranks;
}

/* One of the processes between this one and the ranks, or a rank that is not heard of any other
 * way. */
static void blame_stopped(struct launch_state *run, pid_t pid)
{
    char name[RANK_NAME], place[RANK_NAME];
    uint32_t r = silence_rank_of(run, pid);
    if (run->starter.output && r < run->program->ranks) {
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s: timeout: no heartbeat for %g s%s",
                     launch_name(run, r, name), limit_wait(WAIT_STOPPED),
                     launch_place(run, r, place));
    } else {
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                     "timeout: the %s, process %ld, has been stopped for %g s",
                     run->starter.output ? "launcher of the ranks" : "process of all ranks",
                     (long)pid, limit_wait(WAIT_STOPPED));
    }
}

static bool is_starting(const struct launch_state *run)
{
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (worker_is_starting(run->worker[r].at.state))
            return true;
    return false;
}

/* Ranks go on without mpirun, but it does not end; without their network they do not go on. Those
 * that are at work are heard of; until then they need all that mpirun has started, of which what
 * has lost its parent is ours where we are the first of a namespace. */
static void check_others(struct launch_state *run)
{
    const struct launched_child *c = &run->starter.child;
    bool all_work = run->joined == run->program->ranks && run->done == 0 && !is_starting(run);
    int below = all_work ? 0 : STARTER_GENERATIONS;
    pid_t root = all_work ? c->pid : getpid();
    if (family_check(&run->network, run->options->network, "message delay helper") != STATUS_OK)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s", error_message());
    else if (c->alive && family_stopped_long(&run->starter.watch, root, below))
        blame_stopped(run, family_stopped(root, below));
}

/* Do all ranks that connect wait for an answer of mpirun, which does nothing? One that sleeps where
 * others look whether something has come is the one that gets none. */
static void check_answers(struct launch_state *run)
{
    struct starter *s = &run->starter;
    char name[RANK_NAME];
    uint32_t ranks = (uint32_t)run->program->ranks, sleeps = ranks;
    bool wait = family_idle_long(&s->idle, s->child.pid);
    for (uint32_t r = 0; r < ranks; r++) {
        struct launched *w = &run->worker[r];
        bool connects = w->stage == WORKER_JOINED && w->at.state == WORKER_CONNECTS;
        enum family_wait does = FAMILY_WORKS;
        if (connects && process_look(&w->told) == PROCESS_LIVES)
            does = family_waits_long(&w->start, (pid_t)w->told.pid);
        wait = wait && does != FAMILY_WORKS;
        sleeps = sleeps == ranks && does == FAMILY_SLEEPS ? r : sleeps;
    }
    if (wait && sleeps < ranks)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                     "%s: timeout: no answer from mpirun for %g s while starting",
                     launch_name(run, sleeps, name), limit_wait(WAIT_STOPPED));
    else if (wait)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                     "timeout: all %u ranks waited for mpirun, which was idle for %g s while "
                     "starting: it lost a connection",
                     ranks, limit_wait(WAIT_STOPPED));
}

/* Open MPI does not notice that a process is gone which it has forked and not yet begun to watch,
 * nor that its connection to a rank is: it waits for ever, and so do ranks. All of it that is on
 * this machine can be seen to do nothing; where a part is elsewhere, or a message far from its end,
 * that may be what it waits for; and before it has started anything, it may look for names of
 * machines. */
static void check_starter(struct launch_state *run)
{
    struct starter *s = &run->starter;
    const struct launch_options *o = run->options;
    char name[RANK_NAME];
    size_t n = 0;
    if (!s->child.alive || !s->output || o->launcher || (o->address && !o->mpirun) ||
        o->latency_s > limit_wait(WAIT_STOPPED) / MOST_LINKS)
        return;
    if (run->joined == run->program->ranks) {
        check_answers(run);
        return;
    }
    bool rests = family_rests_long(&s->rest, getpid(), STARTER_GENERATIONS, &n);
    s->most = n > s->most ? n : s->most;
    if (rests && s->most > 1)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                     "%s: timeout: did not join, and mpirun was idle for %g s: it lost a process",
                     launch_name(run, launch_absent(run), name), limit_wait(WAIT_STOPPED));
}

void launch_check_silence(struct launch_state *run, double now_s)
{
    check_start(run, now_s);
    check_stopped(run, now_s);
    check_silence(run, now_s);
    check_others(run);
    check_starter(run);
}
