/* A worker process: arguments, environment, inputs; then its rank, or all ranks as threads. */
#include "exec/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "exec/rounds.h"
#include "exec/worker_rank.h"
#include "host/leftover.h"
#include "host/screen.h"

/* ---- arguments */

static enum status worker_read_number(const char *name, const char *text, double low, double high,
                                      double *out)
{
    char *end;
    errno = 0;
    double value = text ? strtod(text, &end) : NAN;
    if (!text || errno || end == text || *end || !(value >= low && value <= high))
        return error_set(STATUS_USAGE, "%s: got '%s', expected a number from %g to %g", name,
                         text ? text : "", low, high);
    *out = value;
    return STATUS_OK;
}

/* One option: a text, or a number from low to high. */
struct option {
    const char *name;
    const char **text; /* NULL: a number */
    double *number, low, high;
};

static enum status read_option(const struct option *option, size_t n, const char *name,
                               const char *value)
{
    for (const struct option *o = option; o < option + n; o++) {
        if (strcmp(o->name, name) != 0)
            continue;
        if (!o->text)
            return worker_read_number(name, value, o->low, o->high, o->number);
        *o->text = value;
        return STATUS_OK;
    }
    return error_set(STATUS_USAGE, "unknown option '%s'", name);
}

static enum status read_arguments(struct worker_options *w, int argc, char **argv)
{
    double steps = 0, warmup = 0, every = 0, paced = 0, graphs = 0, cudnn = 0, bind = 0, early = 0;
    const struct option option[] = {
        {.name = "--program", .text = &w->program_path},
        {.name = "--model", .text = &w->model_path},
        {.name = "--text", .text = &w->text_path},
        {.name = "--device", .text = &w->device_name},
        {.name = "--transport", .text = &w->transport_name},
        {.name = "--resume", .text = &w->resume_path},
        {.name = "--checkpoint", .text = &w->checkpoint_path},
        {.name = "--log", .text = &w->log_path},
        {.name = "--collective", .text = &w->collective},
        {.name = "--learning-rate-policy", .text = &w->policy_text},
        {"--learning-rate", NULL, &w->learning_rate, 0, 1e9},
        {"--timeout", NULL, &w->timeout_s, 1e-3, 1e9},
        {"--steps", NULL, &steps, 1, UINT32_MAX - 1},
        {"--warmup", NULL, &warmup, 0, UINT32_MAX - 1},
        {"--paced", NULL, &paced, 0, 1},
        {"--cuda-graphs", NULL, &graphs, 0, 1},
        {"--cudnn", NULL, &cudnn, 0, 1},
        {"--bind", NULL, &bind, 0, 1},
        {"--early", NULL, &early, 0, 1},
        {"--checkpoint-every", NULL, &every, 0, UINT32_MAX - 1},
    };
    for (int i = 1; i < argc; i += 2)
        PASS(read_option(option, sizeof option / sizeof *option, argv[i],
                         i + 1 < argc ? argv[i + 1] : NULL));
    if (w->policy_text)
        PASS(learning_rate_parse(w->policy_text, &w->policy));
    w->steps = (uint32_t)steps;
    w->warmup = (uint32_t)warmup;
    w->paced = paced > 0;
    w->graphs = graphs > 0;
    w->cudnn = cudnn > 0;
    w->bind = bind > 0;
    w->early = early > 0;
    w->checkpoint_every = (uint32_t)every;
    if (!w->program_path || !w->model_path || !w->device_name || !w->steps || w->timeout_s == 0)
        return error_set(
            STATUS_USAGE,
            "foreline-worker needs --program, --model, --device, --steps and --timeout");
    if (w->warmup >= w->steps)
        return error_set(STATUS_USAGE, "got --warmup %u, expected fewer than --steps %u", w->warmup,
                         w->steps);
    return STATUS_OK;
}

static bool is_all_ranks(const struct worker_options *w)
{
    return w->transport && w->transport->share;
}

/* Ranks that are threads have places of their own on the machine, not the process's one. */
static void forget_place(void)
{
    static const char *const told[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"};
    for (size_t k = 0; k < sizeof told / sizeof *told; k++)
        unsetenv(told[k]);
}

/* Which rank this is, of how many: the environment's, or the first of all when all are here. */
/* (torchrun's names, and those of MPI launchers: rendezvous_rank().) */
static enum status read_environment(struct worker_options *w)
{
    const char *token = getenv("FORELINE_TOKEN");
    w->launcher = getenv("FORELINE_LAUNCHER");
    if (!w->launcher || !token)
        return error_set(STATUS_USAGE, "FORELINE_LAUNCHER and FORELINE_TOKEN are not set: workers "
                                       "are started by `foreline run`");
    PASS(hex_parse(token, w->hello.token, TOKEN));
    if (!is_all_ranks(w))
        return rendezvous_rank(&w->hello.rank, &w->hello.ranks);
    forget_place();
    return STATUS_OK;
}

/* Device and transport by name, among those this executable is made of. */
static enum status worker_find_parts(struct worker_options *w, const struct worker_parts *have)
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
    if (w->graphs && strcmp(w->device->name, "cuda") != 0)
        return error_set(STATUS_UNSUPPORTED, "device '%s' does not support --cuda-graphs",
                         w->device->name);
    if (w->cudnn && strcmp(w->device->name, "cuda") != 0)
        return error_set(STATUS_UNSUPPORTED, "device '%s' does not support --cudnn",
                         w->device->name);
    PASS(rounds_find(w->collective, w->transport->name, &w->algorithm));
    if (w->transport->device_memory && (w->device == &device_cpu || w->device == &device_paced))
        return error_set(
            STATUS_UNSUPPORTED,
            "transport '%s' of this worker needs GPU memory, so it does not support --device %s",
            w->transport->name, w->device->name);
    return STATUS_OK;
}

/* What does not fit is the launcher's to know, when it has been met. */
static void worker_check_parts(struct worker_options *w, const struct worker_parts *have)
{
    w->ranges = have->ranges;
    w->unfit = worker_find_parts(w, have);
    if (w->unfit == STATUS_OK && w->text_path)
        w->unfit = corpus_read(w->text_path, &w->corpus);
    if (w->unfit != STATUS_OK)
        snprintf(w->reason, sizeof w->reason, "%s", error_message());
}

/* ---- the run */

/* For the launcher to compare; a worker that cannot run has a better reason not to. */
static enum status worker_write_settings(struct worker_options *w)
{
    const struct agreement a = {.program = &w->program,
                                .model = &w->model,
                                .program_path = w->program_path,
                                .model_path = w->model_path,
                                .text = w->text_path ? &w->corpus : NULL,
                                .device = w->device_name,
                                .transport = w->transport ? w->transport->name : "",
                                .collective = w->collective,
                                .policy = w->policy_text,
                                .learning_rate = w->learning_rate,
                                .paced = w->paced,
                                .graphs = w->graphs,
                                .cudnn = w->cudnn,
                                .steps = w->steps - w->warmup,
                                .warmup = w->warmup,
                                .checkpoint = w->checkpoint_path,
                                .checkpoint_every = w->checkpoint_every,
                                .resume = w->resume_path};
    return w->unfit == STATUS_OK ? agreement_write(&a, w->hello.settings) : STATUS_OK;
}

/* What the launcher has written; it may delete the files once all ranks have said hello. */
static enum status read_inputs(struct worker_options *w)
{
    enum status st = program_read(w->program_path, &w->program);
    if (st == STATUS_IO) /* where the launcher is on another machine */
        return error_context(st, "the launcher's TMPDIR must be a folder that all machines share");
    PASS(st);
    PASS(executor_supports(&w->program));
    for (size_t s = 0; s < w->program.stages && w->device; s++)
        if (w->program.stage[s].stepped && w->device->stepped)
            w->device = w->device->stepped;
    PASS(model_read(w->model_path, &w->model));
    PASS(checkpoint_key(&w->program, &w->model, worker_part(w) != NULL, &w->key));
    PASS(worker_write_settings(w));
    if (is_all_ranks(w)) {
        w->hello.ranks = (uint32_t)w->program.ranks;
        PASS(w->transport->share(&w->program, &w->shared));
    } else if (w->program.ranks != w->hello.ranks) {
        if (!strcmp(w->transport->name, "mpi"))
            return error_set(STATUS_INVALID,
                             "MPI started %u process%s, but the plan has %zu ranks. Start all with "
                             "one mpirun -np %zu, or try --transport tcp",
                             w->hello.ranks, w->hello.ranks == 1 ? "" : "es", w->program.ranks,
                             w->program.ranks);
        return error_set(STATUS_INVALID, "%s: the plan has %zu ranks, but WORLD_SIZE is %u",
                         w->program_path, w->program.ranks, w->hello.ranks);
    }
    return STATUS_OK;
}

/* A rank in a thread of its own. */
struct seat {
    struct worker_options *worker;
    uint32_t rank;
    enum status st;
    pthread_t thread;
};

static void *seat_main(void *argument)
{
    struct seat *s = argument;
    s->st = worker_rank_run(s->worker, s->rank);
    return NULL;
}

/* All ranks; one whose thread cannot be started leaves the others waiting for nothing. */
static enum status worker_run_threads(struct worker_options *w)
{
    enum status st = STATUS_OK;
    uint32_t started = 0, ranks = w->hello.ranks;
    struct seat *seat;
    TRY(ARRAY_NEW(seat, ranks));
    for (; st == STATUS_OK && started < ranks; started++) {
        seat[started] = (struct seat){.worker = w, .rank = started};
        int error = pthread_create(&seat[started].thread, NULL, seat_main, &seat[started]);
        if (error)
            st = error_set(STATUS_NOMEM, "cannot start the thread of rank %u: %s", started,
                           strerror(error));
    }
    if (st != STATUS_OK) { /* they would wait for the launcher's welcome: it must see us go */
        fprintf(stderr, "foreline-worker: %s\n", error_message());
        _exit(1);
    }
    for (uint32_t r = 0; r < started; r++) {
        pthread_join(seat[r].thread, NULL);
        st = st == STATUS_OK ? seat[r].st : st;
    }
    free(seat);
out:
    return st;
}

/* From here on stdout and stderr are the rank's own file. */
static enum status open_log(const struct worker_options *w)
{
    char path[4096], host[256] = "";
    int n = is_all_ranks(w) ? snprintf(path, sizeof path, "%s", w->log_path)
                            : snprintf(path, sizeof path, "%s.%u", w->log_path, w->hello.rank);
    if (n < 0 || (size_t)n >= sizeof path)
        return error_set(STATUS_USAGE, "--log: path has %d bytes, expected at most %zu", n,
                         sizeof path - 1);
    fflush(stdout);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0)
        return error_set(STATUS_IO, "%s: %s", path, strerror(errno));
    close(fd);
    (void)gethostname(host, sizeof host - 1);
    if (is_all_ranks(w))
        fprintf(stderr, "all ranks");
    else
        fprintf(stderr, "rank %u of %u", w->hello.rank, w->hello.ranks);
    fprintf(stderr, " on %s, process %ld: %s, device %s, transport %s, %u steps\n", host,
            (long)getpid(), foreline_version, w->device_name,
            w->transport_name ? w->transport_name : "of this worker", w->steps);
    return STATUS_OK;
}

/* The launcher says once what many ranks have met; false: it cannot be told. */
static bool tell_launcher(struct worker_options *w)
{
    if (!w->launcher || w->hello.ranks == 0 || /* or it would be taken for a stranger */
        (w->program.ranks > 0 && w->program.ranks != w->hello.ranks))
        return false;
    agreement_add_failure(error_message(), w->hello.settings);
    return rendezvous_excuse(w->launcher, &w->hello, w->early);
}

/* Everything that can go wrong before the launcher is met: it is told, or else stderr. */
static enum status worker_prepare(struct worker_options *w, int argc, char **argv,
                                  const struct worker_parts *have)
{
    enum status st;
    TRY(read_arguments(w, argc, argv));
    worker_check_parts(w, have);
    TRY(read_environment(w));
    if (w->log_path)
        TRY(open_log(w));
    TRY(read_inputs(w));
out:
    if (st != STATUS_OK && !tell_launcher(w))
        fprintf(stderr, "foreline-worker: %s\n", error_message());
    return st;
}

int worker_main(int argc, char **argv, const struct worker_parts *have)
{
    struct worker_options w = {.learning_rate = 1e-3};
    screen_protect();
    leftover_watch_files();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* wake up when asked, not 50 us later */

    enum status st = limits_inherit();
    if (st == STATUS_OK)
        st = worker_prepare(&w, argc, argv, have);
    else
        fprintf(stderr, "foreline-worker: %s\n", error_message());
    if (st == STATUS_OK)
        st = w.shared ? worker_run_threads(&w) : worker_rank_run(&w, w.hello.rank);
    if (w.log_path)
        fprintf(stderr, "%s%s\n",
                st == STATUS_OK ? "done" : "failed: ", st == STATUS_OK ? "" : error_message());
    if (w.shared)
        w.transport->unshare(w.shared);
    corpus_free(&w.corpus);
    model_free(&w.model);
    program_free(&w.program);
    return st == STATUS_OK ? 0 : 1;
}
