/* Which of several failures is the cause of the others: by what is known, not by what was heard
 * first.
 *
 * 1. Primary causes count at once: a process killed by a signal or gone with a status, a rank's own
 *    error, a rank that has been silent or stuck for too long.
 * 2. A rank that hangs up without a word is the cause unless its exit, or mpirun, says more.
 * 3. What a rank says of its peers is a symptom: the cause only when all others have been heard of
 *    since.
 *
 * A busy machine makes any of these come late; so nothing is settled while somebody is known who
 * may still have a better explanation. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/launch/run.h"

/* A failure waits so long for a better explanation that nobody is known to have. */
static const double grace_s = 0.5;
/* And so long for one that somebody is known to have. */
enum { EXPLAINS = 30 };
/* Last words of a process that has ended may be under way. */
enum { WORDS = 5 };

/* The clock runs from the first cause, whatever better ones follow. */
void launch_blame(struct launch_state *run, enum cause_rank rank, enum status st, const char *fmt,
                  ...)
{
    struct cause *c = &run->cause;
    if (rank <= c->rank)
        return;
    if (c->rank == CAUSE_NONE)
        c->since_s = clock_now();
    c->rank = rank;
    c->st = st;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->text, sizeof c->text, fmt, ap);
    va_end(ap);
}

const char *launch_name(const struct launch_state *run, uint32_t rank, char text[RANK_NAME])
{
    const char *machine = run->worker[rank].machine;
    snprintf(text, RANK_NAME, "rank %u (%.40s%s%s)", rank, run->program->rank[rank].name,
             *machine ? " on " : "", machine);
    return text;
}

const char *launch_place(const struct launch_state *run, uint32_t rank, char text[RANK_NAME])
{
    const struct launched *w = &run->worker[rank];
    char label[OP_LABEL];
    if (w->stage == WORKER_SPAWNED)
        snprintf(text, RANK_NAME, " before it joined");
    else if (worker_is_starting(w->at.state))
        snprintf(text, RANK_NAME, " while starting");
    else if (w->at.state == WORKER_SAVES)
        snprintf(text, RANK_NAME, " at its checkpoint of step %u", w->at.step);
    else if (w->at.state == WORKER_FINISHES || w->stage == WORKER_DONE)
        snprintf(text, RANK_NAME, " after its last step");
    else
        snprintf(text, RANK_NAME, " at %s step %u", op_label(&run->program->op[w->at.op], label),
                 w->at.step);
    return text;
}

/* Does the text of a failure speak of a peer, "rank 0: 0RECV_F5 with rank 1: ..."? That of a rank's
 * own failure begins with another word, or with the op, "rank 0 (r0) at 0F1 step 2: ...". */
static bool names_a_peer(const char *text, size_t length)
{
    char whole[ERROR_TEXT + 1];
    unsigned rank;
    int n = 0;
    snprintf(whole, sizeof whole, "%.*s", (int)length, text);
    if (sscanf(whole, "rank %u%n", &rank, &n) != 1)
        return false;
    return strncmp(whole + n, " (", 2) != 0 || strstr(whole, " with rank ") ||
           strstr(whole, " with group ");
}

/* Ranks complain of their peers (STATUS_IO, STATUS_EXTERNAL) when one of those has failed. */
void launch_take_error(struct launch_state *run, uint32_t rank, const char *payload, size_t bytes)
{
    int32_t code;
    char name[RANK_NAME];
    memcpy(&code, payload, sizeof code);
    enum status st = code > STATUS_OK && code <= STATUS_USAGE ? (enum status)code : STATUS_EXTERNAL;
    const char *text = payload + sizeof code;
    int length = (int)(bytes - sizeof code);
    bool symptom = (st == STATUS_IO || st == STATUS_EXTERNAL) && names_a_peer(text, (size_t)length);
    enum cause_rank kind = symptom ? CAUSE_SYMPTOM : CAUSE_PRIMARY;
    run->worker[rank].complained = true;
    if (!strncmp(text, "rank ", length < 5 ? (size_t)length : 5))
        launch_blame(run, kind, st, "%.*s (on %s)", length, text, run->worker[rank].machine);
    else
        launch_blame(run, kind, st, "%s: %.*s", launch_name(run, rank, name), length, text);
}

/* ---- workers that end */

/* Has the process that rank r runs in ended? */
bool launch_has_ended(const struct launch_state *run, uint32_t r)
{
    const struct launched *w = &run->worker[r];
    return (w->child.pid && !w->child.alive) ||
           (run->starter.child.pid && !run->starter.child.alive);
}

/* Has everything been read that rank r managed to say? Its end may be known before its last words
 * have come over a slow network; they are not waited for where that has failed. */
static bool is_heard_out(const struct launch_state *run, uint32_t r, double now_s)
{
    const struct launched *w = &run->worker[r];
    double ended_s = w->child.pid ? w->child.ended_s : run->starter.child.ended_s;
    return w->fd < 0 || now_s - ended_s > limit_wait(WORDS);
}

/* The loader's status, when a library is not there or lacks a function; it has said which. */
static const char *cause_hint(const struct launch_state *run, int status)
{
    return status == 127 && strstr(run->options->device, "cuda")
               ? ": a library is missing or too old (see the line above); install libcublas and "
                 "libnccl.so.2 of the CUDA version that the worker was built with "
                 "(docs/reference/cuda.md)"
               : "";
}

/* A worker that has complained exits with a status, too, which is then no news. */
static void explain_exit(struct launch_state *run, uint32_t rank)
{
    const struct launched *w = &run->worker[rank];
    char name[RANK_NAME], place[RANK_NAME];
    if (WIFSIGNALED(w->child.exit))
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s killed by signal %d (%s)%s",
                     launch_name(run, rank, name), WTERMSIG(w->child.exit),
                     strsignal(WTERMSIG(w->child.exit)), launch_place(run, rank, place));
    else if (WEXITSTATUS(w->child.exit) != 0 && !w->complained)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s exited with status %d%s%s",
                     launch_name(run, rank, name), WEXITSTATUS(w->child.exit),
                     launch_place(run, rank, place), cause_hint(run, WEXITSTATUS(w->child.exit)));
    else if (WEXITSTATUS(w->child.exit) == 0 && w->stage != WORKER_DONE)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s exited%s before it had finished",
                     launch_name(run, rank, name), launch_place(run, rank, place));
}

/* The process of all ranks has ended; ranks that could still speak have. */
static void explain_process(struct launch_state *run)
{
    int status = run->starter.child.exit;
    char name[RANK_NAME], place[RANK_NAME];
    bool killed = WIFSIGNALED(status), said = false;
    for (size_t r = 0; r < run->program->ranks; r++)
        said = said || run->worker[r].complained;
    if (killed || (!said && run->done < run->program->ranks))
        launch_blame(
            run, CAUSE_PRIMARY, STATUS_EXTERNAL, "the process of all %zu ranks %s %d, %s%s%s",
            run->program->ranks, killed ? "killed by signal" : "exited with status",
            killed ? WTERMSIG(status) : WEXITSTATUS(status), launch_name(run, 0, name),
            launch_place(run, 0, place), killed ? "" : cause_hint(run, WEXITSTATUS(status)));
}

uint32_t launch_absent(const struct launch_state *run)
{
    uint32_t r = 0;
    while (r < run->program->ranks && run->worker[r].stage != WORKER_SPAWNED)
        r++;
    return r;
}

/* The starter of the workers has ended: with a reason, or too early. Of a rank that dies before it
 * has met mpirun that does not always say how; those that have joined hang up because it ends
 * them. */
static void explain_starter(struct launch_state *run)
{
    const struct starter *s = &run->starter;
    char name[RANK_NAME], place[RANK_NAME], reason[256];
    unsigned rank;
    uint32_t absent = launch_absent(run);
    int signal;
    if (launch_find_signal(s->output, &rank, &signal) && rank < run->program->ranks)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s killed by signal %d (%s)%s",
                     launch_name(run, rank, name), signal, strsignal(signal),
                     launch_place(run, rank, place));
    else if (run->cause.rank == CAUSE_GONE && absent < run->program->ranks)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s ended%s",
                     launch_name(run, absent, name), launch_place(run, absent, place));
    else if (run->cause.rank == CAUSE_NONE && run->done < run->program->ranks) {
        launch_find_reason(s->output, reason, sizeof reason);
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "the launcher exited with status %d: %s",
                     WIFEXITED(s->child.exit) ? WEXITSTATUS(s->child.exit)
                                              : 128 + WTERMSIG(s->child.exit),
                     reason);
    }
}

void launch_explain_ends(struct launch_state *run)
{
    if (run->meeting.why[0])
        return; /* a rank has said why nothing begins */
    bool all = true;
    double now_s = clock_now();
    for (uint32_t r = 0; r < run->program->ranks; r++)
        all = all && is_heard_out(run, r, now_s);
    if (run->starter.child.pid && !run->starter.child.alive && all)
        (run->starter.output ? explain_starter : explain_process)(run);
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].child.pid && !run->worker[r].child.alive && is_heard_out(run, r, now_s))
            explain_exit(run, r);
}

/* ---- what counts */

/* May a better explanation than the cause so far still turn up from rank r? A process that has hung
 * up without a word is about to say by its exit how it ended. And as long as a rank has not been
 * heard of since others began to complain, it may be the one that they complain of: it hangs up, is
 * heard of, or has been silent for too long. */
static bool may_explain(const struct launch_state *run, uint32_t r)
{
    const struct launched *w = &run->worker[r];
    const struct cause *c = &run->cause;
    if (w->stage != WORKER_JOINED || w->complained)
        return false;
    if (w->fd < 0)
        return w->child.alive;
    return launch_has_ended(run, r) ||
           (c->rank == CAUSE_SYMPTOM && w->heard_s < c->since_s + limit_wait(grace_s));
}

/* Is the cause so far the cause? Time decides only where nobody is known to have a better one than
 * "my peer is gone". mpirun ends and says why, within about a second; when a rank has left it in
 * the middle of its start it never does. */
bool launch_is_settled(const struct launch_state *run, double now_s)
{
    const struct cause *c = &run->cause;
    double waited_s = now_s - c->since_s;
    if (c->rank == CAUSE_NONE || c->rank == CAUSE_PRIMARY)
        return c->rank == CAUSE_PRIMARY;
    bool open = run->starter.child.alive && run->starter.output &&
                waited_s < limit_wait(launch_is_far(run) ? 10 : 3.5);
    for (uint32_t r = 0; r < run->program->ranks && !open; r++)
        open = may_explain(run, r);
    return waited_s > limit_wait(open ? EXPLAINS : grace_s);
}
