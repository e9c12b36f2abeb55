/* One rank of a worker: meet the others, train, save, report. */
#include "exec/worker_rank.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/condition.h"
#include "exec/cores.h"
#include "exec/transport/tcp/socket.h"

/* ---- reports */

/* One frame: reporter and rank write to the same connection. */
static enum status worker_rank_report(struct worker_rank *w, enum frame_type type,
                                      const void *first, size_t n, const void *second, size_t m)
{
    pthread_mutex_lock(&w->writing);
    enum status st = frame_write(w->rendezvous.control, type, first, n, second, m,
                                 clock_now() + w->worker->timeout_s + limit_wait(WAIT_LAUNCHER));
    pthread_mutex_unlock(&w->writing);
    return st;
}

/* The launcher has only one thing to say; its end, and anything else, is false. */
static bool take_kept(struct worker_rank *w)
{
    struct frame_head head;
    struct frame_kept kept;
    double deadline_s = clock_now() + w->worker->timeout_s + limit_wait(WAIT_LAUNCHER);
    if (socket_read(w->rendezvous.control, &head, sizeof head, deadline_s) != STATUS_OK ||
        frame_check(&head) != STATUS_OK || head.type != FRAME_KEPT || head.bytes != sizeof kept ||
        socket_read(w->rendezvous.control, &kept, sizeof kept, deadline_s) != STATUS_OK)
        return false;
    pthread_mutex_lock(&w->keeping);
    w->kept++;
    pthread_cond_signal(&w->keeps);
    pthread_mutex_unlock(&w->keeping);
    return true;
}

/* Heartbeats until told to stop, however much the launcher says; one that hangs up ends the
 * process. */
static void *reporter_main(void *argument)
{
    struct worker_rank *w = argument;
    for (double beat_s = clock_now() + heartbeat_s;;) {
        struct pollfd p[2] = {{.fd = w->stop[0], .events = POLLIN},
                              {.fd = w->rendezvous.control, .events = POLLIN}};
        (void)poll(p, 2, (int)ceil(fmax(0, beat_s - clock_now()) * 1e3));
        if (p[0].revents)
            return NULL;
        if (p[1].revents && !take_kept(w))
            _exit(1); /* nobody is left to be told */
        if (clock_now() < beat_s)
            continue;
        beat_s = clock_now() + heartbeat_s;
        struct frame_heartbeat h = {.step = atomic_load(&w->progress.step),
                                    .state = atomic_load(&w->progress.state),
                                    .op = atomic_load(&w->progress.op),
                                    .saved = atomic_load(&w->saved)};
        if (worker_rank_report(w, FRAME_HEARTBEAT, &h, sizeof h, NULL, 0) != STATUS_OK)
            _exit(1);
    }
}

static enum status start_reporter(struct worker_rank *w)
{
    if (pipe(w->stop))
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    int error = pthread_create(&w->reporter, NULL, reporter_main, w);
    if (error)
        return error_set(STATUS_NOMEM, "thread: %s", strerror(error));
    w->reporting = true;
    return STATUS_OK;
}

static void stop_reporter(struct worker_rank *w)
{
    socket_close(&w->stop[1]);
    if (w->reporting)
        pthread_join(w->reporter, NULL);
    socket_close(&w->stop[0]);
    w->reporting = false;
}

static enum status report_step(struct worker_rank *w, uint32_t step, const struct executor_step *s)
{
    struct frame_step f = {.step = step,
                           .start_s = s->start_s,
                           .end_s = s->end_s,
                           .loss = s->loss,
                           .hits = {s->hits[0], s->hits[1]},
                           .peak_bytes = w->worker->device->peak_bytes(w->device_self)};
    /* op_end_s follows op_start_s in memory */
    return worker_rank_report(w, FRAME_STEP, &f, sizeof f, s->op_start_s,
                              2 * s->ops * sizeof *s->op_start_s);
}

/* Where tokens went in ops of experts. */
static enum status report_routing(struct worker_rank *w)
{
    const struct device *device = w->worker->device;
    for (uint32_t op = 0; op < w->worker->model.n && device->routing; op++) {
        size_t experts;
        const struct layer_routing *routing = device->routing(w->device_self, op, &experts);
        if (!routing)
            continue;
        struct frame_routed f = {.op = op, .experts = experts, .calls = routing->calls};
        memcpy(f.busiest, routing->busiest, sizeof f.busiest);
        PASS(worker_rank_report(w, FRAME_ROUTED, &f, sizeof f, routing->rows,
                                experts * sizeof *routing->rows));
    }
    return STATUS_OK;
}

static enum status report_done(struct worker_rank *w)
{
    enum status st = STATUS_OK;
    const struct program *p = &w->worker->program;
    size_t n = program_rank_ops(p, w->rank, NULL);
    uint32_t *own = NULL;
    struct frame_digest *digest = NULL;
    struct frame_done done = {.peak_bytes = w->worker->device->peak_bytes(w->device_self),
                              .digests = n};
    TRY(ARRAY_NEW(own, n));
    TRY(ARRAY_NEW(digest, n));
    program_rank_ops(p, w->rank, own);
    for (size_t k = 0; k < n; k++) {
        digest[k].op = own[k];
        TRY(w->worker->device->digest(w->device_self, (uint32_t)digest[k].op, digest[k].digest));
    }
    TRY(worker_rank_report(w, FRAME_DONE, &done, sizeof done, digest, n * sizeof *digest));
out:
    free(own);
    free(digest);
    return st;
}

static void report_error(struct worker_rank *w, enum status st)
{
    int32_t code = (int32_t)st;
    size_t length = strlen(error_message());
    length = length < ERROR_TEXT ? length : ERROR_TEXT;
    if (w->rendezvous.control < 0 || worker_rank_report(w, FRAME_ERROR, &code, sizeof code,
                                                        error_message(), length) != STATUS_OK)
        fprintf(stderr, "foreline-worker: %s\n", error_message());
}

/* ---- checkpoints */

/* Is there a checkpoint after so many steps of this run? */
static bool worker_rank_is_kept(const struct worker_rank *w, uint32_t steps)
{
    const struct worker_options *p = w->worker;
    return p->checkpoint_path &&
           (steps == p->steps ||
            (p->checkpoint_every > 0 && (w->first + steps) % p->checkpoint_every == 0));
}

/* How long to wait for others: 2 s besides, for the launcher knows better who hangs. */
static double patience(const struct worker_options *p, bool saving)
{
    int64_t most = 0;
    for (size_t r = 0; saving && r < p->program.ranks; r++) {
        int64_t bytes = program_static_bytes(&p->program.rank[r]);
        most = bytes > most ? bytes : most;
    }
    return wait_factor * p->timeout_s + limit_wait(2) + (double)most / slow_disk_Bps;
}

static struct checkpoint_part worker_rank_part(struct worker_rank *w, const char *directory,
                                               uint64_t step)
{
    atomic_store(&w->progress.step, (uint32_t)step);
    atomic_store(&w->progress.state, WORKER_SAVES);
    return (struct checkpoint_part){.step_directory = directory,
                                    .rank = w->rank,
                                    .step = step,
                                    .key = w->worker->key,
                                    .device = w->worker->device,
                                    .device_self = w->device_self,
                                    .bytes = &w->saved};
}

/* Until the launcher has said of all but `open` of this rank's checkpoints that they count. */
static enum status wait_for_kept(struct worker_rank *w, uint32_t open)
{
    double deadline_s = clock_now() + patience(w->worker, true) + limit_wait(WAIT_LAUNCHER);
    bool in_time = true;
    atomic_store(&w->progress.state, WORKER_WAITS);
    pthread_mutex_lock(&w->keeping);
    while (in_time && w->saves > w->kept + open)
        in_time = condition_wait(&w->keeps, &w->keeping, deadline_s);
    bool fine = w->saves <= w->kept + open;
    pthread_mutex_unlock(&w->keeping);
    return fine
               ? STATUS_OK
               : error_set(
                     STATUS_EXTERNAL,
                     "timeout: the launcher has not confirmed this rank's checkpoints (at step %u)",
                     atomic_load(&w->progress.step));
}

/* This rank's part of a checkpoint; the launcher commits it when all parts are there. One may be on
 * its way while the next is written. */
static enum status worker_rank_save(struct worker_rank *w, uint32_t step)
{
    char directory[CHECKPOINT_PATH];
    struct frame_saved saved = {.step = step};
    PASS(wait_for_kept(w, 1));
    PASS(checkpoint_directory(w->worker->checkpoint_path, step, directory));
    struct checkpoint_part part = worker_rank_part(w, directory, step);
    PASS(checkpoint_save(&part));
    memcpy(saved.digest, part.digest, DIGEST);
    w->saves++;
    return worker_rank_report(w, FRAME_SAVED, &saved, sizeof saved, NULL, 0);
}

/* Go on from a checkpoint: this rank's file must be the one that the manifest names. */
static enum status resume(struct worker_rank *w)
{
    enum status st;
    struct checkpoint c = {0};
    const char *path = w->worker->resume_path;
    TRY(checkpoint_read(path, &c));
    TRY(checkpoint_match(&c.key, &w->worker->key, path));
    struct checkpoint_part part = worker_rank_part(w, path, c.step);
    memcpy(part.digest, c.digest + (size_t)w->rank * DIGEST, DIGEST);
    TRY(checkpoint_load(&part));
    atomic_store(&w->progress.state, WORKER_STARTS);
    w->first = (uint32_t)c.step;
out:
    checkpoint_free(&c);
    return st;
}

/* ---- the run */

/* Jobs that run at the same time have begins of their own: "STEP:SECONDS" of CLOCK_MONOTONIC. */
static void wait_for_begin(uint32_t step)
{
    const char *text = getenv("FORELINE_BEGIN");
    unsigned at;
    double begin_s;
    if (text && sscanf(text, "%u:%lf", &at, &begin_s) == 2 && at == step)
        clock_sleep_until(begin_s);
}

/* Train, step after step; times and losses go to the launcher after each. */
static enum status run_steps(struct worker_rank *w)
{
    enum status st = STATUS_OK;
    struct executor_step step = {0};
    struct executor e = {.program = &w->worker->program,
                         .rank = w->rank,
                         .device = w->worker->device,
                         .device_self = w->device_self,
                         .transport = w->worker->transport,
                         .transport_self = w->transport_self,
                         .paced = w->worker->paced,
                         .ranges = w->worker->ranges,
                         .progress = &w->progress};
    TRY(executor_step_init(&step, &w->worker->program, w->rank));
    for (uint32_t k = 0; k < w->worker->steps; k++) {
        e.timeout_s =
            limit_wait(WAIT_LAUNCHER) +
            patience(w->worker, k > 0 ? worker_rank_is_kept(w, k) : w->worker->resume_path != NULL);
        wait_for_begin(k);
        TRY(executor_run(&e, w->first + k, &step));
        TRY(report_step(w, k, &step));
        if (worker_rank_is_kept(w, k + 1))
            TRY(worker_rank_save(w, w->first + k + 1));
    }
    e.timeout_s =
        limit_wait(WAIT_LAUNCHER) + patience(w->worker, w->worker->checkpoint_path != NULL);
    TRY(executor_finish(&e));
    TRY(wait_for_kept(w, 0));
    TRY(report_routing(w));
    TRY(report_done(w));
out:
    executor_step_free(&step);
    return st;
}

static enum status worker_rank_train(struct worker_rank *w)
{
    struct worker_options *p = w->worker;
    struct device_options options = {.corpus = p->text_path ? &p->corpus : NULL,
                                     .learning_rate = p->learning_rate,
                                     .policy = &p->policy,
                                     .graphs = p->graphs,
                                     .cudnn = p->cudnn,
                                     .direct = p->transport->device_memory,
                                     .part = worker_part(p)};
    if (p->paced)
        prctl(PR_SET_TIMERSLACK, 1000UL); /* as exec/device/paced.c */
    PASS(start_reporter(w));
    PASS(p->device->open(&p->model, &p->program, w->rank, &options, &w->device_self));
    const char *remark = p->device->remark ? p->device->remark(w->device_self) : "";
    if (*remark)
        fprintf(stderr, "foreline-worker: rank %u: %s\n", w->rank, remark);
    if (p->resume_path)
        PASS(resume(w));
    w->rendezvous.timeout_s = patience(p, p->resume_path != NULL);
    w->rendezvous.call_s = p->timeout_s + limit(LIMIT_nccl);
    w->rendezvous.algorithm = p->algorithm;
    w->rendezvous.clock = p->device->clock ? p->device->clock(w->device_self) : NULL;
    atomic_store(&w->progress.state, WORKER_CONNECTS);
    PASS(p->transport->open(&p->program, w->rank, &w->rendezvous, &w->transport_self));
    return run_steps(w);
}

/* What does not fit, of the process or of this rank's hardware, is told when the launcher has been
 * met. */
struct unfit {
    enum status st;
    char reason[sizeof((struct worker_options *)0)->reason];
};

static struct unfit worker_rank_describe(const struct worker_options *p, uint32_t rank,
                                         struct hardware *out)
{
    struct unfit u = {.st = p->unfit};
    if (u.st == STATUS_OK && p->device->describe)
        u.st = p->device->describe(rank, out);
    snprintf(u.reason, sizeof u.reason, "%s",
             u.st == STATUS_OK ? ""
             : p->unfit        ? p->reason
                               : error_message());
    return u;
}

enum status worker_rank_run(struct worker_options *p, uint32_t rank)
{
    enum status st;
    struct worker_rank w = {.worker = p,
                            .rank = rank,
                            .rendezvous = RENDEZVOUS_NONE,
                            .keeping = PTHREAD_MUTEX_INITIALIZER,
                            .writing = PTHREAD_MUTEX_INITIALIZER,
                            .stop = {-1, -1}};
    if (p->bind)
        cores_bind(rank, p->hello.ranks);
    PASS(condition_init(&w.keeps));
    struct frame_hello hello = p->hello;
    hello.rank = rank;
    const struct unfit unfit = worker_rank_describe(p, rank, &hello.hardware);
    TRY(rendezvous_join(p->launcher, &hello, p->early, limit(LIMIT_start) + patience(p, false),
                        &w.rendezvous));
    w.rendezvous.shared = p->shared;
    TRY(socket_give_up(w.rendezvous.control,
                       p->timeout_s + limit_wait(WAIT_LAUNCHER))); /* its machine may vanish */
    if (unfit.st != STATUS_OK)
        st = error_set(unfit.st, "%s", unfit.reason);
    else
        st = worker_rank_train(&w);
out:
    if (st != STATUS_OK)
        report_error(&w, st);
    if (w.rendezvous.control < 0 && p->shared)
        _exit(1); /* the other threads would wait for a rank that never comes */
    stop_reporter(&w);
    if (!w.transport_self && p->shared)
        p->transport->leave(p->shared, rank);
    if (w.transport_self)
        p->transport->close(w.transport_self);
    if (w.device_self)
        p->device->close(w.device_self);
    rendezvous_free(&w.rendezvous);
    pthread_cond_destroy(&w.keeps);
    return st;
}
