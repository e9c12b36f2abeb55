/* The event loop of a run: what workers report, who falls silent or ends, and which of several
 * failures is the cause of the others. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "exec/launch/run.h"
#include "exec/transport/tcp/socket.h"

/* How long workers may take to start besides the timeout, to die when killed, and to exit when
 * done; longest sleep of the loop. */
static const double start_s = 20, kill_s = 5, exit_s = 30, tick_s = 0.5;
/* A better explanation than "my peer is gone" may follow: for so long in any case, and for so long
 * at most where somebody is known to have one (is_settled()). */
static const double grace_s = 0.5, explain_s = 30;

void launch_blame(struct run *run, enum cause_rank rank, enum status st, const char *fmt, ...)
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

const char *launch_name(const struct run *run, uint32_t rank, char text[RANK_NAME])
{
    const char *machine = run->worker[rank].machine;
    snprintf(text, RANK_NAME, "rank %u (%.40s%s%s)", rank, run->program->rank[rank].name,
             *machine ? " on " : "", machine);
    return text;
}

const char *launch_place(const struct run *run, uint32_t rank, char text[RANK_NAME])
{
    const struct launched *w = &run->worker[rank];
    char label[OP_LABEL];
    if (w->stage == WORKER_SPAWNED)
        snprintf(text, RANK_NAME, " before it joined");
    else if (w->at.state == WORKER_STARTS)
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

/* ---- workers that end */

static void explain_exit(struct run *run, uint32_t rank)
{
    const struct launched *w = &run->worker[rank];
    char name[RANK_NAME], place[RANK_NAME];
    if (WIFSIGNALED(w->exit))
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s killed by signal %d (%s)%s",
                     launch_name(run, rank, name), WTERMSIG(w->exit), strsignal(WTERMSIG(w->exit)),
                     launch_place(run, rank, place));
    else if (WEXITSTATUS(w->exit) != 0 && !w->complained)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s exited with status %d%s",
                     launch_name(run, rank, name), WEXITSTATUS(w->exit),
                     launch_place(run, rank, place));
    else if (WEXITSTATUS(w->exit) == 0 && w->stage != WORKER_DONE)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s exited%s without having finished",
                     launch_name(run, rank, name), launch_place(run, rank, place));
}

/* The process of all ranks has ended; ranks that could still speak have. */
static void explain_process(struct run *run)
{
    int status = run->starter.exit;
    char name[RANK_NAME], place[RANK_NAME];
    bool killed = WIFSIGNALED(status), said = false;
    for (size_t r = 0; r < run->program->ranks; r++)
        said = said || run->worker[r].complained;
    if (killed || (!said && run->done < run->program->ranks))
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                     "the process of all %zu ranks %s %d, %s%s", run->program->ranks,
                     killed ? "killed by signal" : "exited with status",
                     killed ? WTERMSIG(status) : WEXITSTATUS(status), launch_name(run, 0, name),
                     launch_place(run, 0, place));
}

/* The starter of the workers has ended: with a reason, or too early. */
static void explain_starter(struct run *run)
{
    const struct starter *s = &run->starter;
    char name[RANK_NAME], place[RANK_NAME], reason[256];
    unsigned rank;
    int signal;
    if (launch_find_signal(s->output, &rank, &signal) && rank < run->program->ranks)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s killed by signal %d (%s)%s",
                     launch_name(run, rank, name), signal, strsignal(signal),
                     launch_place(run, rank, place));
    else if (run->cause.rank == CAUSE_NONE && run->done < run->program->ranks) {
        launch_find_reason(s->output, reason, sizeof reason);
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "the launcher ended with status %d: %s",
                     WIFEXITED(s->exit) ? WEXITSTATUS(s->exit) : 128 + WTERMSIG(s->exit), reason);
    }
}

static void reap(struct run *run)
{
    struct starter *s = &run->starter;
    if (s->alive && waitpid(s->pid, &s->exit, WNOHANG) == s->pid) {
        s->alive = false;
        run->alive--;
    }
    for (uint32_t r = 0; r < run->program->ranks; r++) {
        struct launched *w = &run->worker[r];
        if (!w->alive || waitpid(w->pid, &w->exit, WNOHANG) != w->pid)
            continue;
        w->alive = false;
        run->alive--;
    }
}

/* Its ranks have sessions of their own and die when it is asked to end; those that are stopped, or
 * here, by their number, as long as their connection shows that it is still theirs. */
static void kill_started(struct run *run)
{
    struct starter *s = &run->starter;
    for (uint32_t r = 0; s->pid && !run->options->address && r < run->program->ranks; r++)
        if (run->worker[r].told > 0 && run->worker[r].fd >= 0)
            kill(run->worker[r].told, SIGKILL);
    if (!s->alive)
        return;
    kill(s->pid, SIGTERM);
    for (double deadline_s = clock_now() + kill_s / 2; s->alive && clock_now() < deadline_s;) {
        reap(run);
        if (s->alive)
            clock_sleep_until(clock_now() + 1e-3);
    }
    if (s->alive)
        kill(-s->pid, SIGKILL);
}

void launch_kill(struct run *run)
{
    kill_started(run);
    for (uint32_t r = 0; run->worker && r < run->program->ranks; r++) {
        struct launched *w = &run->worker[r];
        if (!w->alive)
            continue;
        kill(-w->pid, SIGKILL); /* its session; fails when setsid() has not happened yet */
        kill(w->pid, SIGKILL);
    }
    for (double deadline_s = clock_now() + kill_s; run->alive > 0 && clock_now() < deadline_s;) {
        reap(run);
        if (run->alive > 0)
            clock_sleep_until(clock_now() + 1e-3);
    }
}

/* ---- what workers report */

static void take_heartbeat(struct run *run, uint32_t rank, const char *payload)
{
    struct launched *w = &run->worker[rank];
    struct frame_heartbeat h;
    memcpy(&h, payload, sizeof h);
    if (h.op < run->program->op_start[rank] || h.op >= run->program->op_start[rank + 1])
        return; /* a rank without ops points behind its list */
    if (h.step != w->at.step || h.op != w->at.op || h.state != w->at.state ||
        h.saved != w->at.saved)
        w->progress_s = clock_now();
    w->at = h;
}

/* Ranks complain of their peers (STATUS_IO, STATUS_EXTERNAL) when one of those has failed. */
static void take_error(struct run *run, uint32_t rank, const char *payload, size_t bytes)
{
    int32_t code;
    char name[RANK_NAME];
    memcpy(&code, payload, sizeof code);
    enum status st = code > STATUS_OK && code <= STATUS_USAGE ? (enum status)code : STATUS_EXTERNAL;
    const char *text = payload + sizeof code;
    int length = (int)(bytes - sizeof code);
    bool starts = run->worker[rank].steps == 0 && run->worker[rank].at.state == WORKER_STARTS;
    bool symptom = st == STATUS_IO || st == STATUS_EXTERNAL;
    run->worker[rank].complained = true;
    if (!strncmp(text, "rank ", 5 < length ? 5 : (size_t)length))
        launch_blame(run, symptom ? CAUSE_SYMPTOM : CAUSE_PRIMARY, st, "%.*s (on %s)", length, text,
                     run->worker[rank].machine);
    else
        launch_blame(run, symptom && !starts ? CAUSE_SYMPTOM : CAUSE_PRIMARY, st, "%s: %.*s",
                     launch_name(run, rank, name), length, text);
}

/* How long a frame of this type may be from this rank; 0: not at all. */
static bool length_fits(const struct run *run, uint32_t rank, const struct frame_head *h)
{
    const struct program *p = run->program;
    size_t ops = p->op_start[rank + 1] - p->op_start[rank];
    switch (h->type) {
    case FRAME_HEARTBEAT:
        return h->bytes == sizeof(struct frame_heartbeat);
    case FRAME_STEP:
        return h->bytes == sizeof(struct frame_step) + 2 * ops * sizeof(double);
    case FRAME_SAVED:
        return h->bytes == sizeof(struct frame_saved);
    case FRAME_ERROR:
        return h->bytes >= sizeof(int32_t) && h->bytes <= sizeof(int32_t) + ERROR_TEXT;
    case FRAME_DONE:
        return h->bytes == sizeof(struct frame_done) +
                               program_rank_ops(p, rank, NULL) * sizeof(struct frame_digest);
    default:
        return false;
    }
}

static enum status take_frame(struct run *run, uint32_t rank)
{
    struct launched *w = &run->worker[rank];
    switch (w->head.type) {
    case FRAME_HEARTBEAT:
        take_heartbeat(run, rank, w->payload);
        return STATUS_OK;
    case FRAME_STEP:
        w->progress_s = clock_now();
        return launch_take_step(run, rank, w->payload);
    case FRAME_SAVED:
        return launch_take_saved(run, rank, w->payload);
    case FRAME_ERROR:
        take_error(run, rank, w->payload, (size_t)w->head.bytes);
        return STATUS_OK;
    default:
        return launch_take_done(run, rank, w->payload);
    }
}

static enum status check_head(struct run *run, uint32_t rank)
{
    enum status st;
    struct launched *w = &run->worker[rank];
    TRY(frame_check(&w->head));
    if (!length_fits(run, rank, &w->head))
        return error_set(STATUS_IO, "control frame of type %u with %llu bytes", w->head.type,
                         (unsigned long long)w->head.bytes);
    if (w->head.bytes > w->room) {
        char *larger = realloc(w->payload, (size_t)w->head.bytes);
        if (!larger)
            return error_set(STATUS_NOMEM, "%llu bytes", (unsigned long long)w->head.bytes);
        w->payload = larger;
        w->room = (size_t)w->head.bytes;
    }
out:
    return st;
}

static bool is_whole(const struct launched *w)
{
    return w->got >= sizeof w->head && w->got == sizeof w->head + w->head.bytes;
}

/* A frame that must wait for those of other ranks: ranks are at most one checkpoint apart, but a
 * launcher that looks late finds several of one rank before it has looked at the next one. */
static bool is_early(const struct run *run, const struct launched *w)
{
    return is_whole(w) && w->head.type == FRAME_SAVED && w->saved > run->checkpoints + 1;
}

/* Take in what has arrived, without waiting for the rest; *open is false at the end. */
static enum status receive(struct run *run, uint32_t rank, bool *open)
{
    struct launched *w = &run->worker[rank];
    enum { HEAD = sizeof w->head };
    for (;;) {
        if (is_early(run, w))
            return STATUS_OK;
        if (is_whole(w)) {
            w->got = 0;
            enum status st = take_frame(run, rank);
            if (st != STATUS_OK)
                return st;
        }
        char *to = w->got < HEAD ? (char *)&w->head + w->got : w->payload + (w->got - HEAD);
        size_t want = w->got < HEAD ? HEAD - w->got : HEAD + (size_t)w->head.bytes - w->got;
        ssize_t k = recv(w->fd, to, want, MSG_DONTWAIT);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            return STATUS_OK;
        if (k <= 0) {
            *open = false;
            return STATUS_OK;
        }
        w->heard_s = clock_now();
        w->got += (size_t)k;
        if (w->got == HEAD) {
            enum status st = check_head(run, rank);
            if (st != STATUS_OK) {
                w->got = 0;
                return st;
            }
        }
    }
}

static void listen_to(struct run *run, uint32_t rank)
{
    struct launched *w = &run->worker[rank];
    char name[RANK_NAME], place[RANK_NAME];
    bool open = true;
    enum status st = receive(run, rank, &open);
    if (st != STATUS_OK)
        launch_blame(run, CAUSE_PRIMARY, st, "%s: %s", launch_name(run, rank, name),
                     error_message());
    if (open)
        return;
    socket_close(&w->fd);
    if (w->stage != WORKER_DONE)
        launch_blame(run, w->complained ? CAUSE_SYMPTOM : CAUSE_GONE, STATUS_IO, "%s hung up%s",
                     launch_name(run, rank, name), launch_place(run, rank, place));
}

/* ---- workers that say nothing */

static void check_start(struct run *run, double now_s)
{
    char name[RANK_NAME];
    double limit_s = start_s + run->options->timeout_s;
    if (run->joined == run->program->ranks || now_s - run->started_s < limit_s)
        return;
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].stage == WORKER_SPAWNED)
            launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s did not join within %g s",
                         launch_name(run, r, name), limit_s);
}

/* A rank that is stopped sends no heartbeats: the one that has been silent longest, since a busy
 * machine makes others late. Who has hung up has something else to be explained by. When all send
 * heartbeats but none gets anywhere, the one that computes is stuck, and the others wait for it.
 * When one has just fallen silent, it is given the time to prove that it is the culprit. */
static void check_silence(struct run *run, double now_s)
{
    char name[RANK_NAME], place[RANK_NAME];
    uint32_t suspect = 0, silent = 0;
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
        if (w->at.state == WORKER_COMPUTES || w->at.state == WORKER_SAVES)
            suspect = r;
    }
    if (silence_s > limit_s)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s not heard of for %.3g s%s",
                     launch_name(run, silent, name), silence_s, launch_place(run, silent, place));
    if (silence_s > 3 * heartbeat_s)
        limit_s *= 2;
    if (run->done == 0 && run->joined == run->program->ranks && run->cause.rank == CAUSE_NONE &&
        now_s - progress_s > limit_s)
        launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%s makes no progress for %.3g s%s",
                     launch_name(run, suspect, name), now_s - progress_s,
                     launch_place(run, suspect, place));
}

/* ---- the loop */

static void take_signal(struct run *run)
{
    struct signalfd_siginfo s;
    while (read(run->signals, &s, sizeof s) == (ssize_t)sizeof s)
        if (s.ssi_signo != SIGCHLD)
            launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "interrupted by signal %u (%s)",
                         s.ssi_signo, strsignal((int)s.ssi_signo));
}

/* Frames that had to wait and need not any more. */
static void hear_late(struct run *run)
{
    for (uint32_t r = 0; r < run->program->ranks;) {
        const struct launched *w = &run->worker[r];
        if (w->fd < 0 || !is_whole(w) || is_early(run, w)) {
            r++;
        } else {
            listen_to(run, r);
            r = 0; /* it may have been the one that others wait for */
        }
    }
}

static enum status wait_for_news(struct run *run, struct pollfd *p)
{
    size_t ranks = run->program->ranks;
    p[0] = (struct pollfd){.fd = run->signals, .events = POLLIN};
    p[1] = (struct pollfd){.fd = run->listener, .events = POLLIN};
    for (size_t r = 0; r < ranks; r++)
        p[2 + r] = (struct pollfd){.fd = run->worker[r].fd, .events = POLLIN};
    double wait_s = run->cause.rank == CAUSE_NONE ? tick_s : grace_s / 10;
    if (poll(p, ranks + 2, (int)(wait_s * 1e3)) < 0 && errno != EINTR)
        return error_set(STATUS_IO, "poll: %s", strerror(errno));
    return STATUS_OK;
}

/* Has the process that rank r runs in ended? */
static bool has_ended(const struct run *run, uint32_t r)
{
    const struct launched *w = &run->worker[r];
    return (w->pid && !w->alive) || (run->starter.pid && !run->starter.alive);
}

static void take_news(struct run *run, const struct pollfd *p)
{
    if (p[0].revents)
        take_signal(run);
    if (p[1].revents)
        launch_answer(run);
    reap(run);
    /* what a worker managed to say comes before how it ended, and all of it is there by then */
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].fd >= 0 && (p[2 + r].revents || has_ended(run, r)))
            listen_to(run, r);
    hear_late(run);
    if (run->starter.pid && !run->starter.alive)
        (run->starter.output ? explain_starter : explain_process)(run);
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].pid && !run->worker[r].alive)
            explain_exit(run, r);
}

/* May a better explanation than the cause so far still turn up from rank r? A process that has hung
 * up without a word is about to say by its exit how it ended. And as long as a rank has not been
 * heard of since others began to complain, it may be the one that they complain of: it hangs up, is
 * heard of, or has been silent for too long. */
static bool may_explain(const struct run *run, uint32_t r)
{
    const struct launched *w = &run->worker[r];
    const struct cause *c = &run->cause;
    if (w->stage != WORKER_JOINED || w->complained)
        return false;
    return w->fd < 0 ? w->alive : c->rank == CAUSE_SYMPTOM && w->heard_s < c->since_s + grace_s;
}

/* Is the cause so far the cause? Time decides only where nobody is known to have a better one. */
static bool is_settled(const struct run *run, double now_s)
{
    const struct cause *c = &run->cause;
    double waited_s = now_s - c->since_s;
    if (c->rank == CAUSE_NONE || c->rank == CAUSE_PRIMARY)
        return c->rank == CAUSE_PRIMARY;
    bool open = run->starter.alive && run->starter.output; /* mpirun ends and says why */
    for (uint32_t r = 0; r < run->program->ranks && !open; r++)
        open = may_explain(run, r);
    return waited_s > (open ? explain_s : grace_s);
}

/* Children, or else connections: who is hung up on before it has ended takes that for a failure. */
static size_t still_here(const struct run *run)
{
    size_t n = run->alive;
    bool elsewhere = launch_by_hand(run) || launch_by_environment(run);
    for (size_t r = 0; elsewhere && r < run->program->ranks; r++)
        n += run->worker[r].fd >= 0;
    return n;
}

enum status launch_watch(struct run *run)
{
    enum status st = STATUS_OK;
    size_t ranks = run->program->ranks;
    double done_s = INFINITY;
    struct pollfd *p = calloc(ranks + 2, sizeof *p);
    if (!p)
        return error_set(STATUS_NOMEM, "%zu ranks", ranks);
    while (run->done < ranks || still_here(run) > 0 || run->cause.rank != CAUSE_NONE) {
        TRY(wait_for_news(run, p));
        take_news(run, p);
        double now_s = clock_now();
        check_start(run, now_s);
        check_silence(run, now_s);
        if (run->done == ranks && isinf(done_s))
            done_s = now_s;
        if (now_s - done_s > exit_s)
            launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL, "%zu workers do not exit when done",
                         still_here(run));
        if (is_settled(run, now_s)) {
            st = error_set(run->cause.st, "%s", run->cause.text);
            goto out;
        }
    }
out:
    free(p);
    return st;
}
