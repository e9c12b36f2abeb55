/* Workers of several plans on one network of namespaces: a launcher for each job, in a process of
 * its own, whose measured steps begin at a moment that all know. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "study/emulate_jobs.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "exec/launch/launch.h"
#include "exec/netns/netns.h"
#include "sim/platform/network.h"
#include "study/emulate_network.h"
#include "study/emulate_traffic.h"

enum { MESSAGE = 512, SILENT = 60, HEAD_START = 4, BEGIN = 64 };

/* What the process of a job tells, in memory shared with it. */
struct told_job {
    int32_t status;
    double ready_s; /* clock, the warm-up was over */
    char message[MESSAGE];
    double iteration_s[]; /* [steps] in the platform's seconds */
};

/* What all processes know. */
struct jobs_crew {
    struct jobs *js;
    const struct emulate_jobs_options *o;
    const struct netns_inside *inside;
    uint32_t *rank_of; /* [devices] rank of the network that is on it */
    size_t ranks;      /* of the network: of the jobs, then other ends of the traffic */
    enum status (*done)(void *argument, const struct jobs *js);
    void *argument;
};

/* A job in its process: which ranks of the network it has. */
struct job_process {
    const struct jobs_crew *crew;
    const struct job *job;
    size_t first; /* of its ranks among all */
    size_t steps;
    double begin_s; /* clock, of the first measured step */
    struct told_job *told;
    pid_t pid;
};

static bool job_enter(const void *context, uint32_t rank)
{
    const struct job_process *p = context;
    return p->crew->inside->enter(p->crew->inside->context, (uint32_t)p->first + rank);
}

static void job_is_ready(void *context, const int *held, size_t ranks)
{
    (void)held;
    (void)ranks;
    ((struct job_process *)context)->told->ready_s = clock_now();
}

/* Addresses of the job's ranks out of those of all, commas between. */
static enum status job_addresses(const struct job_process *p, char **all)
{
    char host[NETNS_HOST];
    size_t n = 0, ranks = p->job->p.program.ranks;
    PASS(ARRAY_NEW(*all, ranks * NETNS_HOST));
    for (size_t k = 0; k < ranks; k++)
        n += (size_t)sprintf(*all + n, "%s%s", k > 0 ? "," : "",
                             netns_address(p->crew->inside, p->first + k, host));
    return STATUS_OK;
}

/* What the transport adds between the job's own ranks. */
static enum status job_delays(const struct job_process *p, struct delay **out)
{
    size_t n = p->job->p.program.ranks;
    PASS(ARRAY_NEW(*out, n * n));
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            (*out)[a * n + b] =
                p->crew->inside->delay[(p->first + a) * p->crew->ranks + p->first + b];
    return STATUS_OK;
}

/* In the job's process: its workers, as emulate_network.c runs those of one plan. */
static enum status job_launch(struct job_process *p)
{
    enum status st;
    const struct netns_inside *inside = p->crew->inside;
    struct measurement m = {0};
    struct program program;
    struct program_op *ops = NULL;
    struct delay *delay = NULL;
    char *addresses = NULL, address[NETNS_HOST], begin[BEGIN];
    double wait_s = p->begin_s - clock_now();
    TRY(job_addresses(p, &addresses));
    TRY(job_delays(p, &delay));
    TRY(emulate_dilate(&p->job->p.program, inside->dilation, &program, &ops));
    const struct launch_options o = {
        .transport = "tcp",
        .address = netns_address(inside, p->first, address),
        .device = "paced",
        .collective = p->crew->o->collective,
        .steps = p->steps,
        .warmup = 1,
        .learning_rate = 0.001,
        .timeout_s = fmin(limit_wait(SILENT) * inside->dilation + fmax(0, wait_s), 1e6),
        .measuring = job_is_ready,
        .measuring_context = p,
        .dilation = inside->dilation,
        .delay = delay,
        .latency_s = inside->latency_s,
        .enter = job_enter,
        .enter_context = p};
    snprintf(begin, sizeof begin, "%zu:%.9f", o.warmup, p->begin_s);
    setenv("FORELINE_BEGIN", begin, 1);
    setenv("FORELINE_PEERS", addresses, 1);
    setenv("TMPDIR", "/dev/shm", 1);
    if (!job_enter(p, 0))
        FAIL(STATUS_IO, "cannot enter the network namespace of rank 0 of job %s: %s", p->job->name,
             strerror(errno));
    TRY(launch_run(&program, &p->job->p.model, &o, &m, NULL));
    if (p->told->ready_s > p->begin_s)
        FAIL(STATUS_UNSUPPORTED,
             "timeout: the warm-up of a job ended %.2g s after its measured iterations were due. "
             "Try --limit wait=2",
             p->told->ready_s - p->begin_s);
    memcpy(p->told->iteration_s, m.iterations_s, p->steps * sizeof *m.iterations_s);
out:
    measurement_free(&m);
    free(addresses);
    free(delay);
    free(ops);
    return st;
}

static enum status job_start(struct job_process *p)
{
    size_t bytes = sizeof *p->told + p->steps * sizeof(double);
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return error_set(STATUS_NOMEM, "cannot allocate shared memory for a job");
    p->told = shared;
    p->told->status = STATUS_EXTERNAL;
    snprintf(p->told->message, MESSAGE, "the launcher of job %s was killed", p->job->name);
    fflush(NULL);
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid < 0)
        return error_set(STATUS_IO, "fork: %s", strerror(errno));
    if (p->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent)
            p->told->status = (int32_t)job_launch(p);
        snprintf(p->told->message, MESSAGE, "%s: %s", p->job->name, error_message());
        _exit(EXIT_SUCCESS);
    }
    return STATUS_OK;
}

/* Launchers end by themselves: they have deadlines for all that they wait for. */
static enum status job_end(struct job_process *p, enum status before)
{
    if (p->pid > 0 && before != STATUS_OK)
        kill(p->pid, SIGTERM);
    while (p->pid > 0 && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (before == STATUS_OK && p->told && p->told->status != STATUS_OK)
        return error_set((enum status)p->told->status, "%s", p->told->message);
    return before;
}

/* The mean of a job's iterations between `from` and `to`, platform's seconds from the begin of all;
 * *end_s: when the last one ended. Barriers between iterations are not known, and are left out. */
static double job_mean(const struct job_process *p, double from, double to, double *end_s)
{
    double *begin = NULL, *end = NULL, *kept = NULL, mean = NAN;
    size_t counted;
    *end_s = p->job->start_s;
    if (ARRAY_NEW(begin, p->steps) == STATUS_OK && ARRAY_NEW(end, p->steps) == STATUS_OK &&
        ARRAY_NEW(kept, p->steps) == STATUS_OK) {
        for (size_t k = 0; k < p->steps; k++) {
            begin[k] = *end_s;
            end[k] = *end_s += p->told->iteration_s[k];
        }
        mean = jobs_count(begin, end, p->steps, from, to, kept, &counted);
    }
    free(begin);
    free(end);
    free(kept);
    return mean;
}

/* Means of n jobs that run at the same time, while all do; `together`: all, and the traffic. */
static enum status jobs_measure_run(const struct jobs_crew *c, struct job_process *p, size_t n,
                                    bool together, double *mean_s)
{
    enum status st = STATUS_OK;
    double begin_s = clock_now() + limit_wait(HEAD_START), from = 0, to = INFINITY, end_s;
    for (size_t k = 0; k < n; k++) /* of the warm-up */
        begin_s += 2 * p[k].job->alone_s * c->inside->dilation;
    struct emulated_traffic traffic = {c->js, c->inside, c->rank_of, .begin_s = begin_s};
    if (together && c->js->flows > 0)
        st = emulated_traffic_start(&traffic);
    for (size_t k = 0; k < n && st == STATUS_OK; k++) {
        p[k].begin_s = begin_s + (together ? p[k].job->start_s : 0) * c->inside->dilation;
        st = job_start(&p[k]);
    }
    for (size_t k = 0; k < n; k++)
        st = job_end(&p[k], st);
    st = emulated_traffic_end(&traffic, st);
    for (size_t k = 0; k < n && st == STATUS_OK; k++) {
        from = fmax(from, p[k].job->start_s);
        (void)job_mean(&p[k], 0, INFINITY, &end_s);
        to = fmin(to, end_s);
    }
    for (size_t k = 0; k < n && st == STATUS_OK; k++) {
        mean_s[k] = job_mean(&p[k], from, to, &end_s);
        if (!isfinite(mean_s[k]))
            st = error_set(STATUS_UNSUPPORTED,
                           "no iteration of job %s ends while all jobs run. Try more --iterations",
                           p[k].job->name);
    }
    for (size_t k = 0; k < n; k++) {
        if (p[k].told)
            munmap(p[k].told, sizeof *p[k].told + p[k].steps * sizeof(double));
        p[k].told = NULL;
        p[k].pid = 0;
    }
    return st;
}

/* Repetition r: each job alone, then all. */
static enum status jobs_repeat(const struct jobs_crew *c, size_t r)
{
    enum status st;
    struct jobs *js = c->js;
    struct job_process *p = NULL;
    double *mean_s = NULL;
    TRY(ARRAY_NEW(p, js->n));
    TRY(ARRAY_NEW(mean_s, js->n));
    for (size_t k = 0, first = 0; k < js->n; first += js->job[k++].p.program.ranks) {
        p[k] = (struct job_process){
            .crew = c, .job = &js->job[k], .first = first, .steps = js->iterations};
        TRY(jobs_measure_run(c, &p[k], 1, false, &js->job[k].emulated_alone_s[r]));
        p[k].steps = js->job[k].iterations;
    }
    TRY(jobs_measure_run(c, p, js->n, true, mean_s));
    for (size_t k = 0; k < js->n; k++)
        js->job[k].emulated_together_s[r] = mean_s[k];
out:
    free(p);
    free(mean_s);
    return st;
}

static enum status emulate_jobs_inside(void *argument, const struct netns_inside *inside)
{
    struct jobs_crew *c = argument;
    c->inside = inside;
    for (size_t r = 0; r < c->o->repeats; r++)
        PASS(jobs_repeat(c, r));
    PASS(c->done(c->argument, c->js));
    return fflush(stdout) == 0 ? STATUS_OK : error_set(STATUS_IO, "standard output");
}

/* The devices of the network's ranks: of the jobs, and of the traffic what is not theirs. */
static enum status jobs_crew_ranks(struct jobs_crew *c, uint32_t *device)
{
    const struct jobs *js = c->js;
    PASS(ARRAY_NEW(c->rank_of, js->topology->n));
    for (size_t d = 0; d < js->topology->n; d++)
        c->rank_of[d] = PROGRAM_NONE;
    for (size_t k = 0; k < js->n; k++)
        for (size_t r = 0; r < js->job[k].p.program.ranks; r++) {
            device[c->ranks] = js->job[k].p.program.rank[r].device;
            c->rank_of[device[c->ranks]] = (uint32_t)c->ranks;
            c->ranks++;
        }
    for (size_t f = 0; f < 2 * js->flows; f++) {
        uint32_t d = f % 2 ? js->flow[f / 2].to : js->flow[f / 2].from;
        if (c->rank_of[d] != PROGRAM_NONE)
            continue;
        c->rank_of[d] = (uint32_t)c->ranks;
        device[c->ranks++] = d;
    }
    return STATUS_OK;
}

enum status emulate_jobs(struct jobs *js, const struct emulate_jobs_options *o,
                         enum status (*done)(void *argument, const struct jobs *js), void *argument)
{
    enum status st;
    struct network net = {0};
    struct jobs_crew crew = {.js = js, .o = o, .done = done, .argument = argument};
    uint32_t *device = NULL;
    double traffic_Bps = 0;
    TRY(ARRAY_NEW(device, js->topology->n));
    TRY(jobs_crew_ranks(&crew, device));
    js->repeats = o->repeats;
    for (size_t k = 0; k < js->n; k++) {
        traffic_Bps += emulate_mean_traffic(&js->job[k].p.program, js->topology);
        TRY(ARRAY_NEW(js->job[k].emulated_alone_s, o->repeats));
        TRY(ARRAY_NEW(js->job[k].emulated_together_s, o->repeats));
    }
    for (size_t f = 0; f < js->flows; f++)
        traffic_Bps += js->flow[f].Bps;
    TRY(platform_network(js->platform, js->topology, &net));
    emulate_warn_of_bundles(js->topology);
    const struct netns_options options = {.topology = js->topology,
                                          .network = &net,
                                          .ranks = crew.ranks,
                                          .device = device,
                                          .notes = stderr,
                                          .delays = true,
                                          .traffic_Bps = traffic_Bps,
                                          .dilation = o->dilation};
    TRY(netns_call(&options, emulate_jobs_inside, &crew));
out:
    network_free(&net);
    free(crew.rank_of);
    free(device);
    return st;
}
