#include "exec/worker.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exec/checkpoint.h"
#include "exec/corpus.h"
#include "exec/executor.h"
#include "exec/rendezvous.h"
#include "exec/tcp/socket.h"

/* Ranks wait for each other longer than the launcher waits for a rank: it knows better who hangs.
 */
static const double wait_factor = 1.5, wait_more_s = 2;
/* The launcher may come later than its workers. */
static const double start_s = 20;
/* And when one may be busy with its checkpoint, as long as a slow disk takes. */
static const double slow_disk_Bps = 10e6;

struct worker {
    const char *program_path, *model_path, *text_path, *device_name, *transport_name, *launcher;
    const char *checkpoint_path, *resume_path;
    double learning_rate, timeout_s;
    uint32_t steps, checkpoint_every;
    uint32_t first; /* steps before this run */
    struct frame_hello hello;

    struct program program;
    struct model model;
    struct corpus corpus;
    struct rendezvous rendezvous;
    const struct device *device;
    const struct transport *transport;
    void *device_self, *transport_self;
    struct executor_progress progress;
    struct checkpoint_key key;
    _Atomic uint64_t saved; /* of checkpoints, written or read */

    pthread_mutex_t writing; /* one frame at a time on the control connection */
    pthread_t reporter;
    bool reporting;
    int stop[2]; /* pipe: closing [1] ends the reporter */
};

/* ---- arguments */

static enum status number(const char *name, const char *text, double low, double high, double *out)
{
    char *end;
    errno = 0;
    double value = text ? strtod(text, &end) : NAN;
    if (!text || errno || end == text || *end || !(value >= low && value <= high))
        return error_set(STATUS_USAGE, "%s: expected a number from %g to %g, not '%s'", name, low,
                         high, text ? text : "");
    *out = value;
    return STATUS_OK;
}

static enum status read_arguments(struct worker *w, int argc, char **argv)
{
    enum status st = STATUS_OK;
    double steps = 0, every = 0;
    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(name, "--program"))
            w->program_path = value;
        else if (!strcmp(name, "--model"))
            w->model_path = value;
        else if (!strcmp(name, "--text"))
            w->text_path = value;
        else if (!strcmp(name, "--device"))
            w->device_name = value;
        else if (!strcmp(name, "--transport"))
            w->transport_name = value;
        else if (!strcmp(name, "--learning-rate"))
            TRY(number(name, value, 0, 1e9, &w->learning_rate));
        else if (!strcmp(name, "--timeout"))
            TRY(number(name, value, 1e-3, 1e9, &w->timeout_s));
        else if (!strcmp(name, "--steps"))
            TRY(number(name, value, 1, UINT32_MAX - 1, &steps));
        else if (!strcmp(name, "--resume"))
            w->resume_path = value;
        else if (!strcmp(name, "--checkpoint"))
            w->checkpoint_path = value;
        else if (!strcmp(name, "--checkpoint-every"))
            TRY(number(name, value, 0, UINT32_MAX - 1, &every));
        else
            return error_set(STATUS_USAGE, "unknown option '%s'", name);
    }
    w->steps = (uint32_t)steps;
    w->checkpoint_every = (uint32_t)every;
    if (!w->program_path || !w->model_path || !w->device_name || !w->steps)
        return error_set(STATUS_USAGE, "--program, --model, --device and --steps are needed");
out:
    return st;
}

static enum status read_environment(struct worker *w)
{
    enum status st = STATUS_OK;
    const char *token = getenv("FORELINE_TOKEN");
    w->launcher = getenv("FORELINE_LAUNCHER");
    if (!w->launcher || !token)
        return error_set(STATUS_USAGE, "FORELINE_LAUNCHER and FORELINE_TOKEN are not set: workers "
                                       "are started by `foreline run`");
    TRY(hex_parse(token, w->hello.token, TOKEN));
    TRY(rendezvous_rank(&w->hello.rank, &w->hello.ranks));
out:
    return st;
}

static enum status find_parts(struct worker *w, const struct worker_parts *have)
{
    for (size_t k = 0; have->device[k]; k++)
        if (!strcmp(have->device[k]->name, w->device_name))
            w->device = have->device[k];
    for (size_t k = 0; have->transport[k]; k++)
        if (!w->transport_name || !strcmp(have->transport[k]->name, w->transport_name)) {
            w->transport = have->transport[k];
            break;
        }
    if (!w->device)
        return error_set(STATUS_UNSUPPORTED, "this worker has no device '%s'", w->device_name);
    if (!w->transport)
        return error_set(STATUS_UNSUPPORTED, "this worker has no transport '%s'",
                         w->transport_name);
    return STATUS_OK;
}

/* ---- reports */

static enum status report(struct worker *w, enum frame_type type, const void *first, size_t n,
                          const void *second, size_t m)
{
    pthread_mutex_lock(&w->writing);
    enum status st =
        frame_write(w->rendezvous.control, type, first, n, second, m, clock_now() + w->timeout_s);
    pthread_mutex_unlock(&w->writing);
    return st;
}

/* Heartbeats until told to stop; a launcher that hangs up ends the process. */
static void *reporter_main(void *argument)
{
    struct worker *w = argument;
    for (;;) {
        struct pollfd p[2] = {{.fd = w->stop[0], .events = POLLIN},
                              {.fd = w->rendezvous.control, .events = POLLIN}};
        int n = poll(p, 2, (int)(heartbeat_s * 1e3));
        if (p[0].revents)
            return NULL;
        struct frame_heartbeat h = {.step = atomic_load(&w->progress.step),
                                    .state = atomic_load(&w->progress.state),
                                    .op = atomic_load(&w->progress.op),
                                    .saved = atomic_load(&w->saved)};
        if (p[1].revents || (n == 0 && report(w, FRAME_HEARTBEAT, &h, sizeof h, NULL, 0)))
            _exit(1); /* nobody is left to be told */
    }
}

static enum status start_reporter(struct worker *w)
{
    if (pipe(w->stop))
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    int error = pthread_create(&w->reporter, NULL, reporter_main, w);
    if (error)
        return error_set(STATUS_NOMEM, "thread: %s", strerror(error));
    w->reporting = true;
    return STATUS_OK;
}

static void stop_reporter(struct worker *w)
{
    socket_close(&w->stop[1]);
    if (w->reporting)
        pthread_join(w->reporter, NULL);
    socket_close(&w->stop[0]);
    w->reporting = false;
}

static enum status report_step(struct worker *w, uint32_t step, const struct executor_step *s)
{
    struct frame_step f = {.step = step, .start_s = s->start_s, .end_s = s->end_s, .loss = s->loss};
    /* op_end_s follows op_start_s in memory */
    return report(w, FRAME_STEP, &f, sizeof f, s->op_start_s, 2 * s->ops * sizeof *s->op_start_s);
}

static enum status report_done(struct worker *w)
{
    enum status st = STATUS_OK;
    const struct program *p = &w->program;
    size_t n = program_rank_ops(p, w->hello.rank, NULL);
    uint32_t *own = calloc(n + 1, sizeof *own);
    struct frame_digest *digest = calloc(n + 1, sizeof *digest);
    struct frame_done done = {.peak_bytes = w->device->peak_bytes(w->device_self), .digests = n};
    if (!digest || !own) {
        st = error_set(STATUS_NOMEM, "digests of %zu ops", n);
        goto out;
    }
    program_rank_ops(p, w->hello.rank, own);
    for (size_t k = 0; k < n; k++) {
        digest[k].op = own[k];
        TRY(w->device->digest(w->device_self, (uint32_t)digest[k].op, digest[k].digest));
    }
    TRY(report(w, FRAME_DONE, &done, sizeof done, digest, n * sizeof *digest));
out:
    free(own);
    free(digest);
    return st;
}

static void report_error(struct worker *w, enum status st)
{
    int32_t code = (int32_t)st;
    size_t length = strlen(error_message());
    length = length < ERROR_TEXT ? length : ERROR_TEXT;
    if (w->rendezvous.control < 0 ||
        report(w, FRAME_ERROR, &code, sizeof code, error_message(), length) != STATUS_OK)
        fprintf(stderr, "foreline-worker: %s\n", error_message());
}

/* ---- the run */

/* What the launcher has written; it may delete the files once we have said hello. */
static enum status read_inputs(struct worker *w)
{
    enum status st;
    TRY(program_read(w->program_path, &w->program));
    TRY(executor_supports(&w->program));
    TRY(inputs_digest(w->program_path, w->model_path, w->hello.digest));
    TRY(model_read(w->model_path, &w->model));
    if (w->program.ranks != w->hello.ranks)
        st = error_set(STATUS_INVALID, "%s: %zu ranks, but WORLD_SIZE is %u", w->program_path,
                       w->program.ranks, w->hello.ranks);
out:
    return st;
}

/* ---- checkpoints */

/* Is there a checkpoint after so many steps of this run? */
static bool is_kept(const struct worker *w, uint32_t steps)
{
    return w->checkpoint_path &&
           (steps == w->steps ||
            (w->checkpoint_every > 0 && (w->first + steps) % w->checkpoint_every == 0));
}

/* How long to wait for others. */
static double patience(const struct worker *w, bool saving)
{
    int64_t most = 0;
    for (size_t r = 0; saving && r < w->program.ranks; r++) {
        int64_t bytes = program_static_bytes(&w->program.rank[r]);
        most = bytes > most ? bytes : most;
    }
    return wait_factor * w->timeout_s + wait_more_s + (double)most / slow_disk_Bps;
}

static struct checkpoint_part part_of(struct worker *w, const char *directory, uint64_t step)
{
    atomic_store(&w->progress.step, (uint32_t)step);
    atomic_store(&w->progress.state, WORKER_SAVES);
    return (struct checkpoint_part){.step_directory = directory,
                                    .rank = w->hello.rank,
                                    .step = step,
                                    .key = w->key,
                                    .device = w->device,
                                    .device_self = w->device_self,
                                    .bytes = &w->saved};
}

static enum status save(struct worker *w, uint32_t step)
{
    enum status st;
    char directory[CHECKPOINT_PATH];
    struct frame_saved saved = {.step = step};
    TRY(checkpoint_directory(w->checkpoint_path, step, directory));
    struct checkpoint_part part = part_of(w, directory, step);
    TRY(checkpoint_save(&part));
    memcpy(saved.digest, part.digest, DIGEST);
    TRY(report(w, FRAME_SAVED, &saved, sizeof saved, NULL, 0));
out:
    return st;
}

static enum status resume(struct worker *w)
{
    enum status st;
    struct checkpoint c = {0};
    TRY(checkpoint_read(w->resume_path, &c));
    TRY(checkpoint_match(&c.key, &w->key, w->resume_path));
    struct checkpoint_part part = part_of(w, w->resume_path, c.step);
    memcpy(part.digest, c.digest + (size_t)w->hello.rank * DIGEST, DIGEST);
    TRY(checkpoint_load(&part));
    atomic_store(&w->progress.state, WORKER_STARTS);
    w->first = (uint32_t)c.step;
out:
    checkpoint_free(&c);
    return st;
}

static enum status run_steps(struct worker *w)
{
    enum status st = STATUS_OK;
    struct executor_step step = {0};
    struct executor e = {.program = &w->program,
                         .rank = w->hello.rank,
                         .device = w->device,
                         .device_self = w->device_self,
                         .transport = w->transport,
                         .transport_self = w->transport_self,
                         .progress = &w->progress};
    TRY(executor_step_init(&step, &w->program, w->hello.rank));
    for (uint32_t k = 0; k < w->steps; k++) {
        e.timeout_s = patience(w, k > 0 ? is_kept(w, k) : w->resume_path != NULL);
        TRY(executor_run(&e, w->first + k, &step));
        TRY(report_step(w, k, &step));
        if (is_kept(w, k + 1))
            TRY(save(w, w->first + k + 1));
    }
    e.timeout_s = patience(w, w->checkpoint_path != NULL);
    TRY(executor_finish(&e));
    TRY(report_done(w));
out:
    executor_step_free(&step);
    return st;
}

static enum status run(struct worker *w, const struct worker_parts *have)
{
    enum status st = STATUS_OK;
    struct device_options options = {.corpus = w->text_path ? &w->corpus : NULL,
                                     .learning_rate = w->learning_rate};

    TRY(start_reporter(w));
    TRY(find_parts(w, have));
    options.direct = w->transport->device_memory;
    if (w->text_path)
        TRY(corpus_read(w->text_path, &w->corpus));
    TRY(w->device->open(&w->model, &w->program, w->hello.rank, &options, &w->device_self));
    TRY(checkpoint_key(&w->program, &w->model, &w->key));
    if (w->resume_path)
        TRY(resume(w));
    w->rendezvous.timeout_s = patience(w, w->resume_path != NULL);
    TRY(w->transport->open(&w->program, w->hello.rank, &w->rendezvous, &w->transport_self));
    TRY(run_steps(w));
out:
    if (st != STATUS_OK)
        report_error(w, st);
    return st;
}

static enum status prepare(struct worker *w, int argc, char **argv)
{
    enum status st;
    TRY(read_arguments(w, argc, argv));
    TRY(read_environment(w));
    TRY(read_inputs(w));
    TRY(rendezvous_join(w->launcher, &w->hello, start_s + patience(w, false), &w->rendezvous));
out:
    if (st != STATUS_OK)
        report_error(w, st);
    return st;
}

int worker_main(int argc, char **argv, const struct worker_parts *have)
{
    struct worker w = {.learning_rate = 1e-3,
                       .timeout_s = 30,
                       .rendezvous = RENDEZVOUS_NONE,
                       .writing = PTHREAD_MUTEX_INITIALIZER,
                       .stop = {-1, -1}};
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* wake up when asked, not 50 us later */

    enum status st = prepare(&w, argc, argv);
    if (st == STATUS_OK)
        st = run(&w, have);
    stop_reporter(&w);
    if (w.transport)
        w.transport->close(w.transport_self);
    if (w.device)
        w.device->close(w.device_self);
    rendezvous_free(&w.rendezvous);
    corpus_free(&w.corpus);
    model_free(&w.model);
    program_free(&w.program);
    return st == STATUS_OK ? 0 : 1;
}
