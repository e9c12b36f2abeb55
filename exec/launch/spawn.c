/* Starting workers: the files that they read, their command line and environment, fork and exec.
 *
 * Everything that a child needs is made before fork(), because a child of a process that may have
 * threads must not allocate. A pipe that closes on exec tells whether that has succeeded. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/executable.h"
#include "core/base/limit.h"
#include "core/base/provenance.h"
#include "exec/corpus.h"
#include "exec/launch/run.h"
#include "exec/rendezvous.h"
#include "exec/transport/tcp/socket.h"
#include "host/folder.h"

extern char **environ;

/* ---- what workers read */

static enum status spawn_make_directory(struct launch_state *run)
{
    PASS(folder_temporary(run->files.directory));
    folder_file(run->files.directory, "program.json", run->files.program_path);
    folder_file(run->files.directory, "model.json", run->files.model_path);
    return STATUS_OK;
}

void launch_remove_files(struct launch_state *run)
{
    if (!run->starter.output || !run->starter.child.alive) /* what mpirun keeps lies there, too */
        folder_remove(run->files.directory);
}

const char *launch_transport(const struct launch_state *run)
{
    const struct launch_options *o = run->options;
    return o->transport ? o->transport : launch_default_transport(o->device);
}

bool launch_in_one_process(const struct launch_state *run)
{
    return !strcmp(launch_transport(run), "local");
}

bool launch_by_hand(const struct launch_state *run)
{
    return run->options->launcher && !strcmp(run->options->launcher, "none");
}

/* Installed executables lie in bin/ or libexec/, those of a build side by side. */
enum status launch_find_worker(const char *told, const char *name, char *path, size_t n,
                               const char *hint)
{
    static const char *const places[] = {"", "../libexec/"};
    char self[EXECUTABLE_FOLDER];
    if (told) {
        snprintf(path, n, "%s", told);
        return STATUS_OK;
    }
    PASS(executable_folder(self));
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        snprintf(path, n, "%s/%s%s", self, places[k], name);
        if (!access(path, X_OK))
            return STATUS_OK;
    }
    return error_set(STATUS_IO, "%s not found in %s%s", name, self, hint);
}

const char launch_no_mpi[] = "; install libopenmpi-dev and build foreline again";

/* The worker: as told, else $FORELINE_WORKER, else beside this executable or in libexec/. MPI has
 * one of its own. */
static enum status spawn_find_worker(struct launch_state *run)
{
    bool mpi = !strcmp(launch_transport(run), "mpi");
    bool cuda = strstr(run->options->device, "cuda") != NULL;
    const char *name = mpi    ? "foreline-worker-mpi"
                       : cuda ? "foreline-worker-cuda"
                              : "foreline-worker";
    const char *told = run->options->worker ? run->options->worker : getenv("FORELINE_WORKER");
    return launch_find_worker(told, name, run->files.worker_path, sizeof run->files.worker_path,
                              mpi    ? launch_no_mpi
                              : cuda ? "; build it with cmake --preset cuda"
                                     : "");
}

/* For who has another token. */
static void write_refusal(struct refusal *r)
{
    r->code = STATUS_INVALID;
    int n = snprintf(r->text, sizeof r->text,
                     "the rank's token differs from the token of rank 0; %s", launch_token_names);
    r->head = frame_head(FRAME_ERROR, sizeof r->code + (size_t)n);
}

/* Under torchrun and its kin address, port and token are what all processes were given; otherwise
 * the port is any, and the token a secret of this run. */
static enum status listen_for_workers(struct launch_state *run)
{
    struct run_meeting *m = &run->meeting;
    if (launch_by_environment(run)) {
        if (m->rank > 0)
            return STATUS_OK;
        enum status st = socket_listen_on(m->address, m->port, &m->listener);
        if (st != STATUS_OK)
            return error_context(st, "launcher at %s:%u", m->address, m->port);
    } else {
        if (getrandom(m->token, TOKEN, 0) != TOKEN)
            return error_set(STATUS_IO, "cannot read random numbers: %s", strerror(errno));
        const char *here = run->options->address ? run->options->address : "127.0.0.1";
        PASS(rendezvous_look_up("--address", here, m->address));
        enum status st = socket_listen_at(m->address, &m->listener, &m->port);
        if (st != STATUS_OK)
            return error_context(st, "listening on --address %s", here);
    }
    PASS(door_open(m->listener, m->token, sizeof(struct frame_hello), &m->door));
    write_refusal(&m->refusal);
    m->door.refusal = &m->refusal;
    m->door.refusal_bytes = sizeof m->refusal.head + (size_t)m->refusal.head.bytes;
    return STATUS_OK;
}

/* What all ranks must have been told. */
static enum status spawn_write_settings(struct launch_state *run)
{
    const struct launch_options *o = run->options;
    const struct run_keeping *k = &run->keeping;
    struct corpus corpus = {0};
    struct agreement a = {.program = run->program,
                          .model = run->model,
                          .program_path = run->files.program_path,
                          .model_path = run->files.model_path,
                          .text = o->text ? &corpus : NULL,
                          .device = o->device,
                          .transport = launch_transport(run),
                          .collective = o->collective,
                          .policy = o->learning_rate_policy,
                          .learning_rate = o->learning_rate,
                          .paced = o->paced,
                          .graphs = o->cuda_graphs,
                          .cudnn = o->cudnn,
                          .steps = o->steps,
                          .warmup = o->warmup,
                          .checkpoint = k->checkpoint[0] ? k->checkpoint : NULL,
                          .checkpoint_every = o->checkpoint_every,
                          .resume = k->resume[0] ? k->resume : NULL};
    if (o->text)
        PASS(corpus_read(o->text, &corpus));
    enum status st = agreement_write(&a, run->meeting.settings);
    corpus_free(&corpus);
    return st;
}

enum status launch_prepare(struct launch_state *run)
{
    const struct provenance by = {.version = foreline_version, .command = "foreline run"};
    PASS(spawn_find_worker(run));
    PASS(launch_check_hosts(run));
    PASS(spawn_make_directory(run));
    PASS(program_write(run->program, run->files.program_path, &by));
    PASS(model_write(run->model, run->files.model_path, &by));
    PASS(launch_check_capacity(run));
    PASS(spawn_write_settings(run));
    return listen_for_workers(run);
}

/* ---- arguments and environment, made before fork(): a child may not allocate */

enum { ARGUMENTS = 48, NUMBER = 32, GLANCE_MS = 250 };

struct worker_command {
    char *argument[ARGUMENTS]; /* of the worker */
    char rate[NUMBER], steps[NUMBER], warmup[NUMBER], timeout[NUMBER], every[NUMBER];
    uint32_t number; /* of the rank, without a launcher */
    char launcher[64], token[32 + 2 * TOKEN], rank[NUMBER], ranks[NUMBER];
    char local[NUMBER]; /* "": there is one rank here, or LOCAL_RANK is not for us to say */
    char *delays;       /* of the rank; NULL: none */
    size_t settings;
    char **environment; /* [settings] ours first, then what we inherited */
    char **words;       /* the launcher's, NULL: none */
    char **line;        /* words and arguments */
    char **executed;    /* the line, or the remote one */
    struct remote remote;
    char session[8 + FOLDER_TEMPORARY]; /* where our mpirun's files go, even if it is killed; "" */
};

static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)text; /* execve() does not change it */
}

/* Launchers and other machines have rules of their own, and a GPU's rank a place near it; ops that
 * are paced need no core. */
static bool binds(const struct launch_state *run)
{
    const struct launch_options *o = run->options;
    return !o->unbound && !o->launcher && !o->hosts && !o->paced && !strcmp(o->device, "cpu") &&
           strcmp(launch_transport(run), "mpi") != 0;
}

static void make_arguments(const struct launch_state *run, struct worker_command *c)
{
    size_t n = 0;
    const struct launch_options *o = run->options;
    const struct run_files *f = &run->files;
    const struct run_keeping *k = &run->keeping;
    const char *checkpoint = k->checkpoint[0] ? k->checkpoint : NULL;
    snprintf(c->rate, NUMBER, "%.17g", o->learning_rate);
    snprintf(c->steps, NUMBER, "%zu", run->steps);
    snprintf(c->warmup, NUMBER, "%zu", o->warmup);
    snprintf(c->timeout, NUMBER, "%.17g", o->timeout_s);
    snprintf(c->every, NUMBER, "%zu", o->checkpoint_every);
    const char *const option[][2] = {
        {"--program", f->program_path},
        {"--model", f->model_path},
        {"--device", o->device},
        {"--transport", launch_transport(run)},
        {"--learning-rate", c->rate},
        {"--learning-rate-policy", o->learning_rate_policy},
        {"--steps", c->steps},
        {"--warmup", c->warmup},
        {"--timeout", c->timeout},
        {"--collective", o->collective},
        {"--paced", o->paced ? "1" : NULL},
        {"--cuda-graphs", o->cuda_graphs ? "1" : NULL},
        {"--cudnn", o->cudnn ? "1" : NULL},
        {"--bind", binds(run) ? "1" : NULL},
        {"--early", launch_by_environment(run) ? "1" : NULL},
        {"--text", o->text},
        {"--resume", k->resume[0] ? k->resume : NULL},
        {"--checkpoint", checkpoint},
        {"--checkpoint-every", checkpoint ? c->every : NULL},
        {"--log", o->log},
    };
    c->argument[n++] = borrowed(f->worker_path);
    for (size_t i = 0; i < sizeof option / sizeof *option; i++)
        for (size_t word = 0; word < 2 && option[i][1]; word++) /* those with a value */
            c->argument[n++] = borrowed(option[i][word]);
    c->argument[n] = NULL;
}

/* Is this one of the variables that say which rank a process is, or, when all ranks are started
 * here, where they meet? */
static bool names_a_rank(const char *variable, bool all_here)
{
    static const char *const own[] = {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_ADDR="};
    size_t n = sizeof own / sizeof *own - !all_here;
    for (size_t k = 0; k < n; k++)
        if (!strncmp(variable, own[k], strlen(own[k])))
            return true;
    return false;
}

static const char temporary[] = "TMPDIR=";
static const char delays_name[] = "FORELINE_DELAYS=";
enum { DELAY_TEXT = 64 };

/* What one rank has to know of the network (rendezvous_delays()). */
static void write_delays(const struct launch_state *run, uint32_t to, char *text)
{
    size_t ranks = run->program->ranks;
    int n = sprintf(text, "%s", delays_name);
    for (size_t from = 0; from < ranks; from++) {
        const struct delay *d = &run->options->delay[from * ranks + to];
        n += sprintf(text + n, "%s%.9g:%.9g", from ? "," : "", d->latency_s, d->per_byte_s);
    }
}

/* With a launcher, it says who is which rank; else we do. All ranks of a process use one GPU. */
static enum status make_environment(const struct launch_state *run, struct worker_command *c)
{
    size_t inherited = 0, n = 0;
    snprintf(c->launcher, sizeof c->launcher, "FORELINE_LAUNCHER=%s:%u", run->meeting.address,
             run->meeting.port);
    int k = snprintf(c->token, sizeof c->token, "FORELINE_TOKEN=");
    hex_print(run->meeting.token, TOKEN, c->token + k);
    snprintf(c->ranks, NUMBER, "WORLD_SIZE=%zu", run->program->ranks);
    if (c->words && !run->options->launcher)
        snprintf(c->session, sizeof c->session, "%s%s", temporary, run->files.directory);
    while (environ[inherited])
        inherited++;
    bool one = launch_in_one_process(run);
    if (launch_by_ssh(run) || (launch_by_environment(run) && run->meeting.ranks > 1))
        snprintf(c->local, NUMBER, "LOCAL_RANK=0");
    if (run->options->delay)
        PASS(ARRAY_NEW(c->delays, sizeof delays_name + DELAY_TEXT * run->program->ranks));
    char *const ours[] = {c->launcher,
                          c->token,
                          borrowed("OPENBLAS_NUM_THREADS=1"),
                          c->words ? c->session
                          : one    ? borrowed("LOCAL_RANK=0")
                                   : c->ranks,
                          c->rank,
                          c->delays ? c->delays : c->local};
    c->settings = c->words ? 3 + (*c->session != '\0') : one ? 4 : c->delays || c->local[0] ? 6 : 5;
    PASS(ARRAY_NEW(c->environment, inherited + c->settings + 1));
    for (size_t i = 0; i < c->settings; i++)
        c->environment[n++] = ours[i];
    for (size_t i = 0; i < inherited; i++)
        if (!names_a_rank(environ[i], !c->words) &&
            !(*c->session && !strncmp(environ[i], temporary, sizeof temporary - 1)) &&
            !(launch_by_environment(run) && !strncmp(environ[i], "LOCAL_", 6)))
            c->environment[n++] = environ[i];
    return STATUS_OK;
}

/* The words that start workers come before the worker's own line, which is the same for all. */
static enum status spawn_make_line(struct worker_command *c)
{
    size_t words = 0, arguments = 0, n = 0;
    while (c->words && c->words[words])
        words++;
    while (c->argument[arguments])
        arguments++;
    PASS(ARRAY_NEW(c->line, words + arguments + 1));
    for (size_t i = 0; i < words; i++)
        c->line[n++] = c->words[i];
    for (size_t i = 0; i < arguments; i++)
        c->line[n++] = c->argument[i];
    c->executed = c->line;
    return STATUS_OK;
}

/* ---- fork and exec */

/* In the child: own session (one kill() for whatever it starts), dies with the launcher, prints to
 * `output` only. Does not return. */
static void spawn_exec_worker(const struct launch_state *run, const struct worker_command *c,
                              pid_t launcher, int output, int told)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != launcher)
        _exit(1); /* it died before we could ask to die with it */
    sigaction(SIGCHLD, &run->signals.old_child, NULL);
    sigprocmask(SIG_SETMASK, &run->signals.old_mask, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    dup2(output, STDERR_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    const struct launch_options *o = run->options;
    if (!o->enter || o->enter(o->enter_context, c->number))
        execve(c->executed[0], c->executed, c->environment);
    int error = errno;
    ssize_t ignored = write(told, &error, sizeof error);
    (void)ignored;
    _exit(127);
}

/* Until a child has become what it is to be, or said why not; one that is stopped before does
 * neither. */
static enum status await_exec(pid_t pid, int told)
{
    struct family_watch seen = {0};
    struct pollfd p = {.fd = told, .events = POLLIN};
    while (poll(&p, 1, GLANCE_MS) <= 0)
        if (family_stopped_long(&seen, pid, 0))
            return error_set(STATUS_EXTERNAL,
                             "timeout: process %ld has been stopped for %g s during start-up",
                             (long)pid, limit_wait(WAIT_STOPPED));
    return STATUS_OK;
}

/* Run the command line; *child stays as it is when there is none. */
static enum status spawn_rank(struct launch_state *run, const struct worker_command *c, int output,
                              struct launched_child *child)
{
    enum status st = STATUS_OK;
    int told[2], error = 0; /* pipe that closes on exec, or carries errno */
    pid_t launcher = getpid();
    if (pipe(told))
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    fcntl(told[0], F_SETFD, FD_CLOEXEC);
    fcntl(told[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0)
        spawn_exec_worker(run, c, launcher, output, told[1]);
    error = pid < 0 ? errno : 0;
    close(told[1]);
    if (pid < 0) {
        st = error_set(STATUS_IO, "fork: %s", strerror(error));
    } else {
        child->pid = pid;
        child->alive = true;
        run->alive++;
        st = await_exec(pid, told[0]);
        if (st == STATUS_OK && read(told[0], &error, sizeof error) == (ssize_t)sizeof error)
            st = error_set(STATUS_IO, "%s: %s", c->executed[0], strerror(error));
    }
    close(told[0]);
    return st;
}

/* On which machine the rank is, and how it is started there. */
static enum status spawn_place_rank(const struct launch_state *run, struct worker_command *c,
                                    uint32_t rank, char *machine)
{
    size_t local = 0;
    const char *host = hosts_of(&run->hosts, rank, &local);
    snprintf(c->local, NUMBER, "LOCAL_RANK=%zu", local);
    c->executed = c->line;
    if (hosts_is_here(host))
        return STATUS_OK;
    snprintf(machine, MACHINE, "%s", host);
    PASS(launch_make_remote(run, rank, c->environment, c->settings, c->argument, &c->remote));
    c->executed = c->remote.line;
    return STATUS_OK;
}

/* One process for each rank; under a launcher that starts all processes alike, just our own
 * ones. */
static enum status spawn_ranks(struct launch_state *run, struct worker_command *c)
{
    enum status st = STATUS_OK;
    bool one = launch_by_environment(run);
    uint32_t first = one ? run->meeting.rank : 0,
             end = one ? first + run->meeting.ranks : (uint32_t)run->program->ranks;
    for (uint32_t r = first; r < end && st == STATUS_OK; r++) {
        struct launched *w = &run->worker[r];
        c->number = r;
        snprintf(c->rank, NUMBER, "RANK=%u", r);
        if (c->local[0])
            snprintf(c->local, NUMBER, "LOCAL_RANK=%u", r - first);
        if (c->delays)
            write_delays(run, r, c->delays);
        machine_name(w->machine);
        if (launch_by_ssh(run))
            st = spawn_place_rank(run, c, r, w->machine);
        if (st == STATUS_OK)
            st = spawn_rank(run, c, STDERR_FILENO, &w->child);
        if (st == STATUS_OK)
            st = launch_interruption(run);
    }
    return st;
}

/* What mpirun prints is looked at when something is wrong; a worker's own words go to the user. */
static enum status spawn_starter(struct launch_state *run, const struct worker_command *c)
{
    struct starter *s = &run->starter;
    int output = STDERR_FILENO;
    for (size_t r = 0; !run->options->hosts && !run->options->launcher && r < run->program->ranks;
         r++)
        machine_name(run->worker[r].machine);
    if (c->words) {
        s->output = tmpfile();
        if (!s->output)
            return error_set(STATUS_IO, "temporary file: %s", strerror(errno));
        output = fileno(s->output);
        fcntl(output, F_SETFD, FD_CLOEXEC);
    }
    return spawn_rank(run, c, output, &s->child);
}

static void tell_how(const struct launch_state *run, const struct worker_command *c, FILE *notes)
{
    if (launch_in_one_process(run))
        fprintf(notes, "waiting for the worker; start all %zu ranks with\n ", run->program->ranks);
    else
        fprintf(notes, "waiting for %zu workers; start each rank with\n ", run->program->ranks);
    const char *limits = getenv(limits_variable);
    fprintf(notes, " %s %s OPENBLAS_NUM_THREADS=1", c->launcher, c->token);
    if (limits)
        fprintf(notes, " %s=%s", limits_variable, limits);
    for (size_t i = 0; c->argument[i]; i++)
        fprintf(notes, " %s", c->argument[i]);
    fprintf(notes, "\n");
}

/* Three ways: somebody else starts the workers by hand; one process starts or is all of them
 * (mpirun, a user's launcher, the local transport); or each rank is a child of ours. */
enum status launch_spawn(struct launch_state *run)
{
    enum status st = STATUS_OK;
    struct worker_command c = {0};
    bool alike = launch_by_environment(run), mpi = !strcmp(launch_transport(run), "mpi") && !alike;
    bool words = (run->options->launcher && !alike) || mpi;
    bool starter = words || launch_in_one_process(run);
    make_arguments(run, &c);
    if (words && !launch_by_hand(run))
        TRY(launch_words(run, &c.words));
    TRY(make_environment(run, &c));
    TRY(spawn_make_line(&c));
    if (launch_by_hand(run) && run->options->notes)
        tell_how(run, &c, run->options->notes);
    if (!launch_by_hand(run))
        TRY(starter ? spawn_starter(run, &c) : spawn_ranks(run, &c));
out:
    free(c.environment);
    free(c.delays);
    free(c.line);
    free(c.words);
    return st;
}
