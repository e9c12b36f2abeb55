/* The program through smpirun: program and host list are written to a temporary folder, the
 * worker runs as a module on SimGrid's MPI, and the times that it writes come back as a
 * timeline. */
#include "sim/smpi.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/executable.h"
#include "core/base/file.h"
#include "core/base/provenance.h"
#include "host/folder.h"
#include "sim/child.h"

enum { PATH = 4096 };

/* One emulation: what is run, and the files of its temporary folder. */
struct emulation {
    const struct program *program;
    const char *platform;
    const char *collective;                         /* as its --collective; NULL: "auto" */
    char directory[FOLDER_TEMPORARY], worker[PATH]; /* directory "": none */
    char program_path[FOLDER_FILE], hosts_path[FOLDER_FILE], times_path[FOLDER_FILE];
};

/* The module beside our own executable, or where FORELINE_WORKER_SMPI says. */
static enum status smpi_find_worker(char path[PATH])
{
    const char *told = getenv("FORELINE_WORKER_SMPI");
    char self[EXECUTABLE_FOLDER];
    PASS(executable_folder(self));
    if (told)
        snprintf(path, PATH, "%s", told);
    else
        snprintf(path, PATH, "%s/foreline-worker-smpi.so", self);
    if (access(path, R_OK))
        return error_set(STATUS_IO,
                         "%s: %s; install libsimgrid-dev (smpicc) and build foreline again", path,
                         strerror(errno));
    return STATUS_OK;
}

/* The host list of smpirun: a line per rank, in rank order. */
static enum status write_hosts(const struct program *p, const char *path)
{
    struct file_out f = {0};
    PASS(file_create(path, &f));
    for (size_t r = 0; r < p->ranks; r++)
        fprintf(f.stream, "%s\n", p->rank[r].name);
    return file_commit(&f);
}

/* Make the temporary folder and write what smpirun reads. */
static enum status smpi_prepare(struct emulation *e)
{
    enum status st;
    const struct provenance by = {.version = foreline_version, .command = "foreline emulate"};
    TRY(smpi_find_worker(e->worker));
    TRY(folder_temporary(e->directory));
    folder_file(e->directory, "program.json", e->program_path);
    folder_file(e->directory, "hosts", e->hosts_path);
    folder_file(e->directory, "times", e->times_path);
    TRY(program_write(e->program, e->program_path, &by));
    TRY(write_hosts(e->program, e->hosts_path));
out:
    return st;
}

/* Become smpirun, with the network model of simgrid.c: nothing that is not in the platform takes
 * time. */
static void become_smpirun(const struct emulation *e)
{
    char ranks[32];
    snprintf(ranks, sizeof ranks, "%zu", e->program->ranks);
    const char *const word[] = {"smpirun",
                                "-np",
                                ranks,
                                "-platform",
                                e->platform,
                                "-hostfile",
                                e->hosts_path,
                                "--log=root.fmt:@@%m%n",
                                "--log=root.thres:error",
                                "--cfg=network/model:CM02",
                                "--cfg=network/crosstraffic:0",
                                "--cfg=network/TCP-gamma:0",
                                "--cfg=tracing:no",
                                "--cfg=smpi/simulate-computation:no",
                                "--cfg=smpi/wtime:0",
                                "--cfg=smpi/test:0",
                                e->worker,
                                e->program_path,
                                e->times_path,
                                e->collective ? e->collective : "auto",
                                NULL};
    char *argument[sizeof word / sizeof *word];
    for (size_t k = 0; k < sizeof word / sizeof *word; k++)
        argument[k] = (char *)(uintptr_t)word[k]; /* execvp() does not change them */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, (unsigned long)SIGTERM, 0UL, 0UL,
          0UL);                        /* it is a shell, which then ends its child */
    setenv("TMPDIR", e->directory, 1); /* what it leaves when it fails goes with our folder */
    execvp(argument[0], argument);
    fprintf(stderr, "@@smpirun: %s (simgrid)\n", strerror(errno));
    _exit(127);
}

/* The file of times, whole, up the pipe: start_s[ops], then end_s[ops]. */
static enum status send_times(const struct emulation *e, int fd)
{
    enum status st = STATUS_OK;
    size_t bytes = 2 * e->program->ops * sizeof(double);
    char *data = malloc(bytes + 1);
    FILE *f = fopen(e->times_path, "rb");
    if (!data || !f || fread(data, 1, bytes, f) != bytes)
        st = error_set(STATUS_IO, "%s: the simulated run did not write the times of all ranks",
                       e->times_path);
    else
        st = child_write(fd, data, bytes);
    if (f)
        fclose(f);
    free(data);
    return st;
}

/* In the child: what smpirun prints is captured, and is the reason when it fails. */
static enum status smpi_emulate(void *argument, int fd)
{
    const struct emulation *e = argument;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        become_smpirun(e);
    siginfo_t ended;
    if (pid < 0 || waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT) != 0)
        return error_set(STATUS_IO, "smpirun: %s", strerror(errno));
    kill(-pid,
         SIGKILL); /* what a shell that was killed has left; its number is ours until we wait */
    if (waitpid(pid, &status, 0) != pid)
        return error_set(STATUS_IO, "smpirun: %s", strerror(errno));
    if (status != 0)
        _exit(1);
    return send_times(e, fd);
}

/* Receives begin with their sends, collectives with their last member. */
static void adjust(const struct program *p, struct timeline *t)
{
    for (size_t i = 0; i < p->ops; i++) {
        const struct program_op *o = &p->op[i];
        if (o->kind == OP_RECV)
            t->start_s[i] = t->start_s[o->match];
        for (size_t j = o->match; op_is_collective(o) && j != i; j = p->op[j].match)
            t->start_s[i] = t->start_s[j] > t->start_s[i] ? t->start_s[j] : t->start_s[i];
    }
}

/* The whole emulation, with the temporary folder removed whatever happens. */
static enum status smpi_run_engine(const struct program *p, const struct topology *t,
                                   const char *platform, const struct simulation_options *options,
                                   struct simulation *out)
{
    (void)t;
    enum status st;
    struct simulation s = {0};
    struct emulation e = {.program = p,
                          .platform = platform,
                          .collective = options ? options->collective.algorithm : NULL};
    struct child_output output = {0};
    double begin_s = clock_now();
    TRY(smpi_prepare(&e));
    TRY(child_run(smpi_emulate, &e, &output));
    TRY(timeline_init(&s.timeline, p->ops));
    s.link = calloc(1, sizeof *s.link); /* none, but an array */
    if (!s.link)
        FAIL(STATUS_NOMEM, "out of memory");
    memcpy(s.timeline.start_s, output.data, p->ops * sizeof(double));
    memcpy(s.timeline.end_s, output.data + p->ops * sizeof(double), p->ops * sizeof(double));
    adjust(p, &s.timeline);
    for (size_t i = 0; i < p->ops; i++)
        s.messages += p->op[i].kind == OP_SEND;
    s.cpu_s = clock_now() - begin_s;
    MOVE(out, s);
out:
    simulation_free(&s);
    child_output_free(&output);
    folder_remove(e.directory);
    return st;
}

const struct engine engine_smpi = {
    .name = "smpi",
    .summary = "runs foreline's MPI worker on SimGrid's simulated MPI (SMPI)",
    .file = true,
    .run = smpi_run_engine,
};
