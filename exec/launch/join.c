/* Rendezvous, the launcher's side: workers that connect say who they are; strangers are dropped.
 * When the last one is there, all are told where everybody is, and the port is closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/launch/run.h"
#include "exec/transport/tcp/socket.h"

/* Who knows the token. */
static enum status check_hello(const struct launch_state *run, const struct frame_hello *h)
{
    PASS(frame_check(&h->head));
    if (h->head.type != FRAME_HELLO || h->machine[MACHINE - 1] ||
        !launch_hardware_ends(&h->hardware))
        return error_set(STATUS_IO, "unexpected connection: it is not from a worker of foreline");
    if (h->ranks != run->program->ranks || h->rank >= h->ranks ||
        run->worker[h->rank].stage != WORKER_SPAWNED)
        return error_set(STATUS_IO,
                         "unexpected connection: rank %u of %u does not belong to this run or has "
                         "joined already",
                         h->rank, h->ranks);
    return STATUS_OK;
}

/* Of all ranks that were told otherwise, or have failed, the lowest is named, whoever comes first,
 * and it is said how many others have said the same. */
static void compare_settings(struct launch_state *run, const struct frame_hello *h)
{
    char name[RANK_NAME];
    struct run_meeting *m = &run->meeting;
    launch_name(run, h->rank, name);
    if (!h->settings[0] ||
        agreement_check(name, h->settings, launch_by_environment(run) ? "rank 0" : "the launcher",
                        m->settings) == STATUS_OK)
        return;
    const char *body = error_message() + strlen(name);
    run->worker[h->rank].complained = true;
    if (!m->why[0])
        m->differs_s = clock_now();
    m->others += m->why[0] && !strcmp(body, m->body);
    if (m->why[0] && h->rank > m->differs)
        return;
    m->others = m->why[0] && !strcmp(body, m->body) ? m->others : 0;
    m->differs = h->rank;
    snprintf(m->body, sizeof m->body, "%s", body);
    snprintf(m->why, sizeof m->why, "%s%s", name, body);
}

/* Once all have joined, or were waited for, so that all end together. */
void launch_check_settings(struct launch_state *run, double now_s)
{
    const struct run_meeting *m = &run->meeting;
    char others[64] = "";
    if (m->others > 0)
        snprintf(others, sizeof others, " (and %zu other rank%s)", m->others,
                 m->others > 1 ? "s" : "");
    if (m->why[0] &&
        (run->joined == run->program->ranks || now_s - m->differs_s > limit_wait(WAIT_DIFFER)))
        launch_blame(run, CAUSE_PRIMARY, STATUS_INVALID, "%s%s", m->why, others);
}

/* When the last one is there, tell everybody where everybody is. */
static void welcome(struct launch_state *run)
{
    size_t n = run->program->ranks;
    struct frame_peer *peer = NULL;
    enum status st = launch_check_hardware(run);
    if (st != STATUS_OK) {
        launch_blame(run, CAUSE_PRIMARY, st, "%s", error_message());
        return;
    }
    if (run->options->notes)
        launch_tell_hardware(run, run->options->notes);
    st = ARRAY_NEW(peer, n);
    for (size_t r = 0; peer && r < n; r++)
        peer[r] = run->worker[r].peer;
    double deadline_s = clock_now() + limit_wait(WAIT_SEND);
    for (size_t r = 0; st == STATUS_OK && r < n; r++)
        st = frame_write(run->worker[r].fd, FRAME_WELCOME, peer, n * sizeof *peer, NULL, 0,
                         deadline_s);
    if (st != STATUS_OK)
        launch_blame(run, st == STATUS_NOMEM ? CAUSE_PRIMARY : CAUSE_SYMPTOM, st, "%s",
                     error_message());
    for (size_t r = 0; r < n; r++) /* nobody had anything to say before */
        run->worker[r].heard_s = run->worker[r].progress_s = clock_now();
    free(peer);
    door_close(&run->meeting.door);
    socket_close(&run->meeting.listener);
    launch_remove_files(run);
}

static enum status take_worker(struct launch_state *run, const struct frame_hello *h, int *fd)
{
    PASS(check_hello(run, h));
    struct launched *w = &run->worker[h->rank];
    PASS(socket_peer(*fd, w->peer.host));
    w->peer.port = h->port;
    w->peer.clock = h->process.boot;
    w->fd = *fd;
    *fd = -1;
    w->told = h->process;
    memcpy(w->machine, h->machine, MACHINE);
    w->hardware = h->hardware;
    w->stage = WORKER_JOINED;
    w->at.op = run->program->op_start[h->rank];
    w->heard_s = w->progress_s = clock_now();
    compare_settings(run, h);
    if (++run->joined == run->program->ranks && !run->meeting.why[0])
        welcome(run);
    return STATUS_OK;
}

void launch_refuse(const struct launch_state *run)
{
    int32_t code = STATUS_INVALID;
    int signal = error_signal();
    char why[ERROR_TEXT]; /* each call below may replace the message */
    snprintf(why, sizeof why, "%s", error_message());
    bool elsewhere = launch_by_hand(run) || launch_by_environment(run), gone = false;
    double deadline_s = clock_now() + limit_wait(WAIT_SEND);
    for (size_t r = 0; elsewhere && run->meeting.door.caller && r < run->program->ranks; r++) {
        const struct launched *w = &run->worker[r];
        if (w->fd >= 0 && !w->child.pid)
            gone |= frame_write(w->fd, FRAME_ERROR, &code, sizeof code, why, strlen(why),
                                deadline_s) != STATUS_OK;
    }
    if (gone && signal == 0) /* who has hung up needs no reason; the run's own stays what it was */
        error_set(STATUS_INVALID, "%s", why);
    else if (gone && error_interrupted(signal) != STATUS_OK)
        return;
}

const char *launch_other_tokens(const struct launch_state *run, char text[TOKENS_TEXT])
{
    size_t n = run->meeting.door.refused;
    text[0] = '\0';
    if (n > 0)
        snprintf(text, TOKENS_TEXT, "%zu process%s with another token %s rejected: %s", n,
                 n > 1 ? "es" : "", n > 1 ? "were" : "was", launch_token_names);
    return text;
}

/* At once, and once: the rank itself is told, and this process waits for the right ones. */
static void tell_tokens(struct launch_state *run)
{
    char text[TOKENS_TEXT];
    if (run->meeting.refused == 0 && *launch_other_tokens(run, text) && run->options->notes)
        fprintf(run->options->notes, "%s\n", text);
    run->meeting.refused = run->meeting.door.refused;
}

/* Until nobody has anything more to say, or all are there. */
void launch_answer(struct launch_state *run)
{
    struct frame_hello h;
    int fd = -1;
    while (run->meeting.door.caller && door_step(&run->meeting.door, &h, &fd) == STATUS_OK &&
           fd >= 0) {
        if (take_worker(run, &h, &fd) != STATUS_OK)
            socket_close(&fd);
    }
    tell_tokens(run);
}
