#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/provenance.h"
#include "exec/launch_run.h"
#include "exec/tcp/socket.h"

extern char **environ;

/* ---- what workers read */

static enum status make_directory(struct run *run)
{
    const char *base = getenv("TMPDIR");
    if (!base || !*base || strlen(base) > 40)
        base = "/tmp";
    snprintf(run->directory, sizeof run->directory, "%s/foreline-XXXXXX", base);
    if (!mkdtemp(run->directory)) {
        enum status st = error_set(STATUS_IO, "%s: %s", run->directory, strerror(errno));
        run->directory[0] = '\0';
        return st;
    }
    snprintf(run->program_path, sizeof run->program_path, "%s/program.json", run->directory);
    snprintf(run->model_path, sizeof run->model_path, "%s/model.json", run->directory);
    return STATUS_OK;
}

void launch_remove_files(struct run *run)
{
    if (!run->directory[0])
        return;
    unlink(run->program_path);
    unlink(run->model_path);
    rmdir(run->directory);
    run->directory[0] = '\0';
}

/* The worker: as told, else $FORELINE_WORKER, else beside this executable or in libexec/. */
static enum status find_worker(struct run *run)
{
    static const char *const places[] = {"foreline-worker", "../libexec/foreline-worker"};
    const char *told = run->options->worker ? run->options->worker : getenv("FORELINE_WORKER");
    char self[2048];
    if (told) {
        snprintf(run->worker_path, sizeof run->worker_path, "%s", told);
        return STATUS_OK;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return error_set(STATUS_IO, "/proc/self/exe: %s", strerror(errno));
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        snprintf(run->worker_path, sizeof run->worker_path, "%s/%s", self, places[k]);
        if (!access(run->worker_path, X_OK))
            return STATUS_OK;
    }
    return error_set(STATUS_IO, "no foreline-worker in %s", self);
}

enum status launch_prepare(struct run *run)
{
    enum status st;
    const struct provenance by = {.version = foreline_version, .command = "foreline run"};
    TRY(find_worker(run));
    TRY(make_directory(run));
    TRY(program_write(run->program, run->program_path, &by));
    TRY(model_write(run->model, run->model_path, &by));
    TRY(file_digest(run->program_path, run->digest));
    if (getrandom(run->token, TOKEN, 0) != TOKEN) {
        st = error_set(STATUS_IO, "no random numbers: %s", strerror(errno));
        goto out;
    }
    TRY(socket_listen(&run->listener, &run->port));
out:
    return st;
}

/* ---- arguments and environment, made before fork(): a child may not allocate */

enum { ARGUMENTS = 20, SETTINGS = 5, NUMBER = 32 };

struct call {
    char *argument[ARGUMENTS];
    char rate[NUMBER], steps[NUMBER], timeout[NUMBER];
    char launcher[64], token[32 + 2 * TOKEN], rank[NUMBER], ranks[NUMBER];
    char **environment; /* ours first, then what we inherited */
};

static enum status make_call(const struct run *run, struct call *c)
{
    size_t n = 0, inherited = 0;
    const struct launch_options *o = run->options;
    snprintf(c->rate, NUMBER, "%.17g", o->learning_rate);
    snprintf(c->steps, NUMBER, "%zu", run->steps);
    snprintf(c->timeout, NUMBER, "%.17g", o->timeout_s);
    const char *const argument[] = {
        run->worker_path, "--program", run->program_path, "--model", run->model_path,
        "--device",       o->device,   "--learning-rate", c->rate,   "--steps",
        c->steps,         "--timeout", c->timeout};
    for (; n < sizeof argument / sizeof *argument; n++)
        c->argument[n] = (char *)(uintptr_t)argument[n]; /* execve() does not change them */
    if (o->text) {
        c->argument[n++] = (char *)(uintptr_t) "--text";
        c->argument[n++] = (char *)(uintptr_t)o->text;
    }
    c->argument[n] = NULL;

    snprintf(c->launcher, sizeof c->launcher, "FORELINE_LAUNCHER=127.0.0.1:%u", run->port);
    int k = snprintf(c->token, sizeof c->token, "FORELINE_TOKEN=");
    hex_print(run->token, TOKEN, c->token + k);
    snprintf(c->ranks, NUMBER, "WORLD_SIZE=%zu", run->program->ranks);
    while (environ[inherited])
        inherited++;
    c->environment = calloc(inherited + SETTINGS + 1, sizeof *c->environment);
    if (!c->environment)
        return error_set(STATUS_NOMEM, "environment");
    char *const ours[SETTINGS] = {c->launcher, c->token, c->ranks, c->rank,
                                  (char *)(uintptr_t) "OPENBLAS_NUM_THREADS=1"};
    memcpy(c->environment, ours, sizeof ours);
    memcpy(c->environment + SETTINGS, environ, inherited * sizeof *environ);
    return STATUS_OK;
}

/* ---- fork and exec */

/* In the child: own session (one kill() for whatever it starts), dies with the launcher, prints to
 * stderr only. Does not return. */
static void become_worker(const struct run *run, const struct call *c, pid_t launcher, int told)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
    if (getppid() != launcher)
        _exit(1); /* it died before we could ask to die with it */
    sigaction(SIGCHLD, &run->old_child, NULL);
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
    }
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execve(run->worker_path, c->argument, c->environment);
    int error = errno;
    ssize_t ignored = write(told, &error, sizeof error);
    (void)ignored;
    _exit(127);
}

static enum status spawn_one(struct run *run, uint32_t rank, struct call *c)
{
    enum status st = STATUS_OK;
    struct launched *w = &run->worker[rank];
    int told[2], error = 0; /* pipe that closes on exec, or carries errno */
    pid_t launcher = getpid();
    snprintf(c->rank, NUMBER, "RANK=%u", rank);
    if (pipe(told))
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    fcntl(told[0], F_SETFD, FD_CLOEXEC);
    fcntl(told[1], F_SETFD, FD_CLOEXEC);
    w->pid = fork();
    if (w->pid == 0)
        become_worker(run, c, launcher, told[1]);
    error = w->pid < 0 ? errno : 0;
    close(told[1]);
    if (w->pid < 0) {
        w->pid = 0;
        st = error_set(STATUS_IO, "rank %u: fork: %s", rank, strerror(error));
    } else {
        w->alive = true;
        run->alive++;
        if (read(told[0], &error, sizeof error) == (ssize_t)sizeof error)
            st = error_set(STATUS_IO, "%s: %s", run->worker_path, strerror(error));
    }
    close(told[0]);
    return st;
}

enum status launch_spawn(struct run *run)
{
    struct call c = {0};
    enum status st = make_call(run, &c);
    for (uint32_t r = 0; st == STATUS_OK && r < run->program->ranks; r++)
        st = spawn_one(run, r, &c);
    free(c.environment);
    return st;
}
