/* Calibration by other processes: ranks that mpirun starts, and the worker that has a GPU.
 *
 * The process is started with its standard output in a pipe, from which all figures are read, and
 * its standard error in a temporary file, in which a complaint is looked for when it fails. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/calibrate/probe.h"
#include "exec/launch/run.h"
#include "exec/transport/tcp/socket.h"

extern char **environ;

/* What measures in other processes, mpirun or a worker for GPUs, and what comes out of it. */
struct mpirun {
    const char *name, *mark; /* of messages; what complaints begin with */
    char **words;            /* mpirun's command line, without the worker's; NULL: no mpirun */
    char **line;             /* with it */
    char path[4096], ranks[32], repeats[32], largest[32];
    pid_t pid;    /* 0: not running */
    int figures;  /* pipe: what rank 0 prints; -1: none */
    FILE *errors; /* what everybody else prints; owned */
    char *text;   /* [room + 1] */
    size_t length, room;
};

/* Longest number as text, and the line before them. */
enum { NUMBER_TEXT = 32, HEAD_TEXT = 64, ARGUMENTS = 5 };

/* launch_words() chooses mpirun's settings by the largest message of a program: here one that has
 * just that message. */
static enum status mpirun_make_line(const struct bench *b, const char *worker, struct mpirun *m)
{
    size_t n = 0;
    struct program_op largest = {.kind = OP_SEND, .bytes = b->task->size[b->task->sizes - 1]};
    const struct program p = {.ranks = b->ranks, .ops = 1, .op = &largest};
    const struct launch_options o = {.transport = "mpi"};
    const struct launch_state run = {.program = &p, .options = &o};
    PASS(launch_find_worker(worker, "foreline-worker-mpi", m->path, sizeof m->path, launch_no_mpi));
    PASS(launch_words(&run, &m->words));
    while (m->words[n])
        n++;
    PASS(ARRAY_NEW(m->line, n + ARGUMENTS));
    memcpy(m->line, m->words, n * sizeof *m->line);
    snprintf(m->repeats, sizeof m->repeats, "%zu", b->repeats);
    m->line[n++] = m->path;
    m->line[n++] = (char *)(uintptr_t)calibrate_flag;
    m->line[n++] = m->repeats;
    snprintf(m->largest, sizeof m->largest, "%lld", (long long)largest.bytes);
    m->line[n++] = m->largest;
    return STATUS_OK;
}

/* In the child; does not return. */
static void mpirun_exec(const struct mpirun *m, pid_t parent, int figures)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL, 0UL); /* it then ends the ranks */
    if (getppid() != parent)
        _exit(1);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    dup2(figures, STDOUT_FILENO);
    dup2(fileno(m->errors), STDERR_FILENO);
    execve(m->line[0], m->line, environ);
    dprintf(STDERR_FILENO, "%s: %s\n", m->line[0], strerror(errno));
    _exit(127);
}

static enum status mpirun_start(struct mpirun *m)
{
    int ends[2];
    m->errors = tmpfile();
    if (!m->errors)
        return error_set(STATUS_IO, "temporary file: %s", strerror(errno));
    if (pipe(ends))
        return error_set(STATUS_IO, "pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(fileno(m->errors), F_SETFD, FD_CLOEXEC);
    m->figures = ends[0];
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        mpirun_exec(m, parent, ends[1]);
    close(ends[1]);
    if (child < 0)
        return error_set(STATUS_IO, "fork: %s", strerror(errno));
    m->pid = child;
    return STATUS_OK;
}

/* All that rank 0 prints, at most as much as there can be. */
static enum status mpirun_read_output(struct mpirun *m, double deadline_s)
{
    while (m->length < m->room) {
        PASS(socket_poll(m->figures, POLLIN, deadline_s));
        ssize_t n = read(m->figures, m->text + m->length, m->room - m->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(STATUS_IO, "cannot read the calibration results of rank 0: %s",
                             strerror(errno));
        if (n == 0)
            break;
        m->length += (size_t)n;
    }
    m->text[m->length] = '\0';
    return STATUS_OK;
}

/* What a rank says is wrong; false: none says anything. */
static bool find_complaint(const struct mpirun *m, char *text, size_t n)
{
    char line[1024];
    rewind(m->errors);
    while (fgets(line, sizeof line, m->errors)) {
        char *mark = strstr(line, m->mark);
        line[strcspn(line, "\n")] = '\0';
        if (!mark)
            continue;
        snprintf(text, n, "%s", mark + strlen(m->mark));
        return true;
    }
    return false;
}

/* The figures have come, so that the process is about to end; which rank ended badly is in what it
 * prints. */
static enum status mpirun_finish(struct mpirun *m, double deadline_s)
{
    int status = 0, signal;
    unsigned rank;
    char reason[1024];
    while (waitpid(m->pid, &status, WNOHANG) == 0) {
        if (clock_now() > deadline_s)
            return error_set(STATUS_EXTERNAL,
                             "timeout: %s is still running after its last measurement", m->name);
        clock_sleep_until(clock_now() + 0.02);
    }
    m->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return STATUS_OK;
    if (launch_find_signal(m->errors, &rank, &signal))
        return error_set(STATUS_EXTERNAL, "rank %u killed by signal %d", rank, signal);
    if (find_complaint(m, reason, sizeof reason))
        return error_set(STATUS_EXTERNAL, "%s", reason);
    launch_find_reason(m->errors, reason, sizeof reason);
    return error_set(STATUS_EXTERNAL, "%s exited with status %d: %s", m->name,
                     WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), reason);
}

/* Ask it to end, mpirun its ranks as well. */
static void mpirun_stop(struct mpirun *m)
{
    double deadline_s = clock_now() + limit_wait(WAIT_PROGRAMS);
    if (!m->pid)
        return;
    kill(m->pid, SIGTERM);
    while (waitpid(m->pid, NULL, WNOHANG) == 0) {
        if (clock_now() > deadline_s)
            kill(m->pid, SIGKILL);
        clock_sleep_until(clock_now() + 0.02);
    }
    m->pid = 0;
}

/* A worker of another version could print other figures: how many there are must be as expected. */
enum status calibrate_parse(const char *text, size_t n, double *number)
{
    char *end;
    size_t told = 0;
    int used = 0;
    if (sscanf(text, CALIBRATE_HEAD "%n", &told, &used) != 1 || used == 0 || told != n)
        return error_set(STATUS_EXTERNAL,
                         "rank 0 of the calibration printed '%.40s', expected %zu numbers", text,
                         n);
    text += used;
    for (size_t k = 0; k < n; k++, text = end) {
        number[k] = strtod(text, &end);
        if (end == text || !isfinite(number[k]) || number[k] < 0)
            return error_set(
                STATUS_EXTERNAL,
                "calibration result %zu of %zu: got '%.40s', expected a number of at least 0", k, n,
                text);
    }
    return STATUS_OK;
}

/* The line is made. */
static enum status mpirun_run(struct mpirun *m, size_t n, double deadline_s, double *number)
{
    m->room = n * NUMBER_TEXT + HEAD_TEXT;
    PASS(ARRAY_NEW(m->text, m->room + 1));
    PASS(mpirun_start(m));
    PASS(mpirun_read_output(m, deadline_s));
    PASS(mpirun_finish(m, deadline_s));
    return calibrate_parse(m->text, n, number);
}

static void close_run(struct mpirun *m)
{
    mpirun_stop(m);
    if (m->figures >= 0)
        close(m->figures);
    if (m->errors)
        fclose(m->errors);
    free(m->line);
    free(m->words);
    free(m->text);
}

enum status calibrate_mpirun(struct bench *b, const struct calibrate_options *o)
{
    enum status st;
    double deadline_s = clock_now() + calibrate_limit(b);
    struct mpirun m = {.name = "mpirun", .mark = calibrate_mark, .figures = -1};
    TRY(mpirun_make_line(b, o->worker, &m));
    if (b->notes)
        fprintf(b->notes, "\rcalibrate: %zu ranks of mpirun", b->ranks);
    TRY(mpirun_run(&m, bench_numbers(b), deadline_s, b->number));
out:
    close_run(&m);
    return st;
}

/* ---- foreline-worker-cuda */

/* The same process handling with a worker in the place of mpirun: it prints the same lines. */
enum status calibrate_gpu_worker(const char *worker, const char *const *arguments, size_t n,
                                 double limit_s, double *number)
{
    enum status st;
    size_t words = 0;
    const char *told = worker ? worker : getenv("FORELINE_WORKER");
    struct mpirun m = {.name = "foreline-worker-cuda", .mark = calibrate_gpu_mark, .figures = -1};
    TRY(launch_find_worker(told, m.name, m.path, sizeof m.path,
                           "; build it with cmake --preset cuda"));
    while (arguments[words])
        words++;
    TRY(ARRAY_NEW(m.line, words + 2));
    m.line[0] = m.path;
    for (size_t k = 0; k < words; k++)
        m.line[k + 1] = (char *)(uintptr_t)arguments[k];
    TRY(mpirun_run(&m, n, clock_now() + limit_s, number));
out:
    close_run(&m);
    return st;
}

void calibrate_print(const double *number, size_t n)
{
    printf(CALIBRATE_HEAD, n);
    for (size_t k = 0; k < n; k++)
        printf("%.17g\n", number[k]);
    fflush(stdout);
}

const char calibrate_flag[] = "--calibrate", calibrate_mark[] = "foreline-worker-mpi: ";
const char calibrate_gpu_mark[] = "foreline-worker-cuda: ";
