/* The event loop of a run: what workers report, which processes end, and ending them all. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/launch/run.h"
#include "exec/transport/tcp/socket.h"

/* Longest sleep of the loop. */
static const double tick_s = 0.5;
/* The same while a failure waits for its explanation. */
static const double short_tick_s = 0.05;

/* ---- workers that end */

static void reap_one(struct launch_state *run, struct launched_child *c)
{
    if (!c->alive || waitpid(c->pid, &c->exit, WNOHANG) != c->pid)
        return;
    c->alive = false;
    c->ended_s = clock_now();
    run->alive--;
}

/* Without waiting: SIGCHLD and ticks come again. */
static void watch_reap(struct launch_state *run)
{
    reap_one(run, &run->starter.child);
    for (uint32_t r = 0; r < run->program->ranks; r++)
        reap_one(run, &run->worker[r].child);
}

/* Its ranks have sessions of their own and die when it is asked to end. One that is stopped does
 * not, and is killed itself. */
static void kill_started(struct launch_state *run)
{
    struct launched_child *c = &run->starter.child;
    struct held_processes started = {0};
    double ends_s = limit_wait(1) * /* mpirun's, before it is killed */
                    (launch_is_far(run) ? 2.5 : 1);
    for (uint32_t r = 0; c->pid && r < run->program->ranks; r++)
        process_end(&run->worker[r].told);
    if (!c->alive)
        return;
    family_hold(&started, c->pid,
                STARTER_GENERATIONS); /* remote shells outlive a mpirun that ends well */
    kill(c->pid, SIGTERM);
    kill(c->pid, SIGCONT); /* one that is stopped can end them, too */
    for (double deadline_s = clock_now() + ends_s; c->alive && clock_now() < deadline_s;) {
        watch_reap(run);
        if (c->alive)
            clock_sleep_until(clock_now() + 1e-3);
    }
    if (c->alive) {
        kill(-c->pid, SIGKILL);
        family_kill(c->pid, STARTER_GENERATIONS); /* its remote shells have sessions of their own */
    }
    family_end(&started);
}

/* Nothing is left when this returns, unless the kernel itself hangs. */
void launch_kill(struct launch_state *run)
{
    kill_started(run);
    for (uint32_t r = 0; run->worker && r < run->program->ranks; r++) {
        const struct launched_child *c = &run->worker[r].child;
        if (!c->alive)
            continue;
        kill(-c->pid, SIGKILL); /* its session; fails when setsid() has not happened yet */
        kill(c->pid, SIGKILL);
    }
    for (double deadline_s = clock_now() + limit_wait(WAIT_KILL);
         run->alive > 0 && clock_now() < deadline_s;) {
        watch_reap(run);
        if (run->alive > 0)
            clock_sleep_until(clock_now() + 1e-3);
    }
}

/* ---- what workers report */

static void take_heartbeat(struct launch_state *run, uint32_t rank, const char *payload)
{
    struct launched *w = &run->worker[rank];
    struct frame_heartbeat h;
    memcpy(&h, payload, sizeof h);
    if (h.op < run->program->op_start[rank] || h.op >= run->program->op_start[rank + 1])
        h.op = w->at.op; /* a rank that has not begun, or has no ops, points at none of its own */
    if (h.step != w->at.step || h.op != w->at.op || h.state != w->at.state ||
        h.saved != w->at.saved)
        w->progress_s = clock_now();
    w->at = h;
}

/* How long a frame of this type may be from this rank; 0: not at all. */
static bool length_fits(const struct launch_state *run, uint32_t rank, const struct frame_head *h)
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
    case FRAME_ROUTED:
        return launch_routing_fits(run, h->bytes);
    case FRAME_DONE:
        return h->bytes == sizeof(struct frame_done) +
                               program_rank_ops(p, rank, NULL) * sizeof(struct frame_digest);
    default:
        return false;
    }
}

static enum status take_frame(struct launch_state *run, uint32_t rank)
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
        w->progress_s = clock_now();
        return launch_take_saved(run, rank, w->payload);
    case FRAME_ROUTED:
        return launch_take_routing(run, rank, w->payload, w->head.bytes);
    case FRAME_ERROR:
        launch_take_error(run, rank, w->payload, (size_t)w->head.bytes);
        return STATUS_OK;
    default:
        return launch_take_done(run, rank, w->payload);
    }
}

/* Lengths follow from the program, so that a frame can never ask for more memory than that. */
static enum status watch_check_head(struct launch_state *run, uint32_t rank)
{
    struct launched *w = &run->worker[rank];
    PASS(frame_check(&w->head));
    if (!length_fits(run, rank, &w->head))
        return error_set(STATUS_IO,
                         "the worker sent an invalid control frame (type %u, %llu bytes)",
                         w->head.type, (unsigned long long)w->head.bytes);
    return ARRAY_RESERVE(w->payload, (size_t)w->head.bytes, w->room);
}

/* Take in what has arrived, without waiting for the rest; *open is false at the end. */
static enum status watch_receive(struct launch_state *run, uint32_t rank, bool *open)
{
    struct launched *w = &run->worker[rank];
    enum { HEAD = sizeof w->head };
    while (!launch_is_ahead(run, rank)) {
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
        if (w->got == HEAD)
            PASS(watch_check_head(run, rank));
        if (w->got >= HEAD && w->got == HEAD + w->head.bytes) {
            PASS(take_frame(run, rank));
            w->got = 0;
        }
    }
    return STATUS_OK;
}

/* The end of a connection before the worker is done is a cause of its own, if a weak one. */
static void watch_read_worker(struct launch_state *run, uint32_t rank)
{
    struct launched *w = &run->worker[rank];
    char name[RANK_NAME], place[RANK_NAME];
    bool open = true;
    enum status st = watch_receive(run, rank, &open);
    if (st != STATUS_OK)
        launch_blame(run, CAUSE_PRIMARY, st, "%s: %s", launch_name(run, rank, name),
                     error_message());
    if (open)
        return;
    socket_close(&w->fd);
    if (w->stage != WORKER_DONE && !run->meeting.why[0])
        launch_blame(run, w->complained ? CAUSE_SYMPTOM : CAUSE_GONE, STATUS_IO,
                     "%s closed its connection%s", launch_name(run, rank, name),
                     launch_place(run, rank, place));
}

/* ---- the loop */

static void watch_take_signal(struct launch_state *run)
{
    struct signalfd_siginfo s;
    while (read(run->signals.fd, &s, sizeof s) == (ssize_t)sizeof s)
        if (s.ssi_signo != SIGCHLD && run->cause.rank < CAUSE_PRIMARY) {
            run->cause.signal = (int)s.ssi_signo;
            launch_blame(run, CAUSE_PRIMARY, error_interrupted((int)s.ssi_signo), "%s",
                         error_message());
        }
}

static enum status wait_for_news(struct launch_state *run, struct pollfd *p)
{
    size_t ranks = run->program->ranks;
    p[0] = (struct pollfd){.fd = run->signals.fd, .events = POLLIN};
    for (size_t r = 0; r < ranks; r++)
        p[1 + r] = (struct pollfd){.fd = run->worker[r].fd, .events = POLLIN};
    size_t n = 1 + ranks + door_poll(&run->meeting.door, p + 1 + ranks);
    double wait_s = run->cause.rank == CAUSE_NONE ? tick_s : short_tick_s;
    if (poll(p, n, (int)(wait_s * 1e3)) < 0 && errno != EINTR)
        return error_set(STATUS_IO, "poll: %s", strerror(errno));
    return STATUS_OK;
}

static void take_news(struct launch_state *run, const struct pollfd *p)
{
    if (p[0].revents)
        watch_take_signal(run);
    launch_answer(run);
    watch_reap(run);
    for (uint32_t r = 0; r < run->program->ranks; r++)
        if (run->worker[r].fd >= 0 && (p[1 + r].revents || launch_has_ended(run, r)))
            watch_read_worker(run, r);
    launch_explain_ends(run);
}

/* Children, or else connections: who is hung up on before it has ended takes that for a failure. */
static size_t still_here(const struct launch_state *run)
{
    size_t n = run->alive;
    bool elsewhere = launch_by_hand(run) || launch_by_environment(run);
    for (size_t r = 0; elsewhere && r < run->program->ranks; r++)
        n += run->worker[r].fd >= 0;
    return n;
}

/* Time in which this process itself was stopped, or had its hands full, is nobody's silence: what
 * the ranks said meanwhile has only now been read. */
static void forgive(struct launch_state *run, double away_s, double now_s)
{
    run->away_s += away_s;
    run->cause.since_s = fmin(run->cause.since_s + away_s, now_s);
    for (size_t r = 0; r < run->program->ranks; r++) {
        struct launched *w = &run->worker[r];
        w->heard_s = fmin(w->heard_s + away_s, now_s);
        w->progress_s = fmin(w->progress_s + away_s, now_s);
        w->child.ended_s = fmin(w->child.ended_s + away_s, now_s);
    }
}

/* Until all ranks are done and gone, or a cause is settled. */
enum status launch_watch(struct launch_state *run)
{
    enum status st = STATUS_OK;
    size_t ranks = run->program->ranks;
    double done_s = INFINITY, last_s = clock_now();
    struct pollfd *p = NULL;
    TRY(ARRAY_NEW(p, 1 + ranks + DOOR_POLLS));
    while (run->done < ranks || still_here(run) > 0 || run->cause.rank != CAUSE_NONE) {
        TRY(wait_for_news(run, p));
        take_news(run, p);
        double now_s = clock_now();
        if (now_s - last_s > 2 * tick_s)
            forgive(run, now_s - last_s - tick_s, now_s);
        last_s = now_s;
        launch_check_settings(run, now_s);
        launch_check_silence(run, now_s);
        if (run->done == ranks && isinf(done_s))
            done_s = now_s;
        if (now_s - done_s > limit(LIMIT_exit))
            launch_blame(run, CAUSE_PRIMARY, STATUS_EXTERNAL,
                         "timeout: %zu workers do not exit although they are done",
                         still_here(run));
        if (!launch_is_settled(run, now_s))
            continue;
        TRY(run->cause.signal ? error_interrupted(run->cause.signal)
                              : error_set(run->cause.st, "%s", run->cause.text));
    }
out:
    free(p);
    return st;
}
