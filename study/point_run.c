/* Plan files: predicted with all warnings, or run in a process of their own by one of several
 * engines. */
#include "study/point.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/data/faults.h"
#include "exec/corpus.h"
#include "exec/device.h"
#include "exec/device/gpu.h"
#include "exec/executor.h"
#include "exec/launch/launch.h"
#include "sim/child.h"
#include "sim/engines.h"
#include "sim/smpi.h"
#include "study/emulate_network.h"
#include "study/evaluate.h"
#include "study/machine.h"
#include "study/warn.h"

static const double learning_rate = 1e-3;

/* ---- predictions */

enum status point_predict(const struct loaded_plan *p, const char *path,
                          const struct engine *engine, struct measurement *out)
{
    enum status st;
    struct program program = {0};
    struct measurement m = {0};
    const struct evaluation_context context = {
        .model = &p->model, .topology = &p->topology, .platform = p->platform, .detailed = true};
    TRY(evaluate_plan(&p->plan, &context, engine, &m, &program, NULL));
    if (!(m.iteration_s > 0))
        FAIL(STATUS_INFEASIBLE, "%s: predicted iteration time is 0 s", path);
    TRY(warn_simulation(&p->plan, &program, &context, &m));
    TRY(load_label(p, path, engine->name, &m));
    MOVE(out, m);
out:
    measurement_free(&m);
    program_free(&program);
    return st;
}

/* Words of strategies are a text's bytes, whatever `classes=` says of their table. */
static bool has_words(const struct operators *all, const char *op)
{
    for (size_t i = 0; i < all->nodes; i++) {
        const struct operators_node *n = &all->node[i];
        if (operator_find(n->kind) != OPERATOR_embedding || strcmp(n->name, op) != 0 ||
            n->reads < 2)
            continue;
        int64_t words = all->tensor[n->read[1]].size[0];
        enum status st = words >= CORPUS_VOCABULARY
                             ? STATUS_OK
                             : error_set(STATUS_UNSUPPORTED,
                                         "training texts need a vocabulary of %d (one token per "
                                         "byte value), but the model has classes=%lld",
                                         CORPUS_VOCABULARY, (long long)words);
        return st == STATUS_OK;
    }
    return true;
}

/* Real compute needs numerics for every op of the model, as the plan has it computed. */
const struct model_op *point_without_numerics(const struct model *m, const struct plan *p)
{
    const struct device *device = p->steps > 0 ? device_cpu.stepped : &device_cpu;
    for (uint32_t i = 0; i < m->n; i++)
        if (!device->computes(m, i) || !has_words(&p->operators, m->op[i].name))
            return &m->op[i];
    return NULL;
}

enum status point_runs(const char *device, const struct model *m, const struct plan *plan,
                       const struct program *p, char *refused)
{
    bool gpu = device && !strcmp(device, "cuda");
    enum status st = executor_supports(p);
    bool numbers = m->dtype == DATA_ANY || m->dtype == DATA_fp32 || m->dtype == DATA_bf16 ||
                   m->dtype == DATA_fp16;
    bool computes = numbers && plan->steps == 0 && !point_without_numerics(m, plan);
    for (uint32_t r = 0; r < p->ranks && computes && st == STATUS_OK; r++)
        st = gpu ? gpu_check(m, p, r) : device_cpu.check(m, p, r);
    if (st != STATUS_OK)
        snprintf(refused, EVALUATION_REFUSED, "%s", error_message());
    return st;
}

/* ---- runs */

/* One run, in a process of its own. */
struct point_job {
    const struct point_run *run;
    const char *path, *output;
    struct loaded_plan p;
};

/* What runs leave to be written: names, and then the file, which is complete when it appears. */
static enum status point_run_finish(const struct point_job *j, const char *engine,
                                    struct measurement *m)
{
    PASS(load_label(&j->p, j->path, engine, m));
    return measurement_write(m, j->output, j->run->by);
}

/* Workers of this machine over tcp, mpi, threads or nccl. With paced compute ops take their
 * predicted time while messages are real, so that the error is that of communication alone; the
 * engine is then called "tcp-paced". */
static enum status point_run_workers(const struct point_job *j)
{
    enum status st;
    const struct point_run *r = j->run;
    const struct model_op *op = point_without_numerics(&j->p.model, &j->p.plan);
    bool paced = r->compute ? !strcmp(r->compute, "paced") : op != NULL;
    struct measurement m = {0};
    char engine[16], refused[EVALUATION_REFUSED];
    struct launch_options o = r->launch;
    o.transport = r->engine;
    o.device = paced ? launch_paced(o.device) : o.device;
    o.learning_rate = learning_rate;
    if (!paced && op)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s' of kind '%s' cannot be computed on the CPU. Try --compute paced",
                         op->name, op->kind);
    if (!paced && !strcmp(r->launch.device, "cpu"))
        TRY(point_runs(r->launch.device, &j->p.model, &j->p.plan, &j->p.program, refused));
    TRY(launch_run(&j->p.program, &j->p.model, &o, &m, NULL));
    if (!paced && !strcmp(r->launch.device, "cpu"))
        machine_measure_cpu(&j->p.model, &j->p.program, &j->p.topology, false, &m);
    else
        machine_measure(&j->p.model, &j->p.program, &j->p.topology, &m);
    snprintf(engine, sizeof engine, "%s%s", r->engine, paced ? "-paced" : "");
    TRY(point_run_finish(j, engine, &m));
out:
    measurement_free(&m);
    return st;
}

/* Called inside the emulation's own process. */
static enum status emulated(void *argument, struct measurement *m, const struct timeline *t)
{
    (void)t;
    return point_run_finish(argument, "netns", m);
}

/* Workers in network namespaces, links shaped to the platform. */
static enum status run_emulated(const struct point_job *j)
{
    struct point_job copy = *j;
    const struct faults none = {0};
    const struct emulate_options o = {
        .steps = j->run->launch.steps,
        .warmup = j->run->launch.warmup,
        .faults = &none,
        .real = j->run->compute && !strcmp(j->run->compute, "real"),
    };
    return emulate_plan(&copy.p, &o, emulated, &copy);
}

/* The executor's own code on SimGrid's MPI: a second opinion on the simulators, no measurement. */
static enum status run_simulated(const struct point_job *j)
{
    enum status st;
    struct measurement m = {0};
    const struct evaluation_context context = {
        .model = &j->p.model, .topology = &j->p.topology, .platform = j->p.platform};
    TRY(evaluate_program(&j->p.program, &context, &engine_smpi, &m, NULL));
    TRY(point_run_finish(j, engine_smpi.name, &m));
out:
    measurement_free(&m);
    return st;
}

#define ENGINE(name, run)                                                                          \
    &(const struct point_engine)                                                                   \
    {                                                                                              \
        name, run                                                                                  \
    }
const struct point_engine *const point_engines[] = {
    ENGINE("tcp", point_run_workers),   ENGINE("mpi", point_run_workers),
    ENGINE("local", point_run_workers), ENGINE("nccl", point_run_workers),
    ENGINE("netns", run_emulated),      ENGINE("smpi", run_simulated)};
const size_t point_engines_n = sizeof point_engines / sizeof *point_engines;

enum status point_check_run(const struct point_run *r)
{
    const struct point_engine *engine;
    if (text_find("engine", r->engine, point_engines, point_engines_n, &engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    if (strcmp(r->launch.device, "cpu") != 0 && strcmp(r->launch.device, "cuda") != 0)
        return error_set(STATUS_USAGE, "--device: got %s, expected cpu or cuda", r->launch.device);
    bool cuda = !strcmp(r->launch.device, "cuda");
    if (!strcmp(r->engine, "nccl") && !cuda)
        return error_set(STATUS_USAGE, "--engine nccl needs --device cuda");
    if (!strcmp(r->engine, "mpi") && cuda)
        return error_set(STATUS_USAGE, "--engine mpi needs --device cpu; GPUs use --engine nccl");
    if (r->compute && strcmp(r->compute, "real") != 0 && strcmp(r->compute, "paced") != 0)
        return error_set(STATUS_USAGE, "--compute: got %s, expected real or paced", r->compute);
    if (r->compute && !strcmp(r->compute, "real") && engine->run == run_simulated)
        return error_set(STATUS_USAGE, "--engine %s supports --compute paced only", r->engine);
    if (r->launch.steps < 1)
        return error_set(STATUS_USAGE, "--steps: got 0, expected at least 1");
    return STATUS_OK;
}

/* In the child: load, run, write. SimGrid and MPI may abort it, which is then an error of the run
 * alone. */
static enum status point_run_job(void *argument, int write_fd)
{
    enum status st;
    const struct point_engine *engine;
    struct point_job *j = argument;
    (void)write_fd;
    TRY(text_find("engine", j->run->engine, point_engines, point_engines_n, &engine));
    TRY(load_plan(j->path, &j->p));
    TRY(engine->run(j));
out:
    loaded_plan_free(&j->p);
    return st;
}

/* Ctrl-C reaches the run itself, which then ends in order; this is for when it does not. */
struct patience {
    const volatile int *interrupted;
    double since_s; /* 0: not interrupted */
};

static bool still_patient(void *context)
{
    struct patience *p = context;
    if (!p->interrupted || !*p->interrupted)
        return true;
    if (p->since_s == 0)
        p->since_s = clock_now();
    return clock_now() - p->since_s < limit_wait(WAIT_KILL) + 1; /* its launcher ends its workers */
}

enum status point_measure(const char *path, const struct point_run *r, const char *output)
{
    struct point_job j = {.run = r, .path = path, .output = output};
    struct patience patience = {.interrupted = r->interrupted};
    const struct child_watch watch = {still_patient, &patience, 100};
    struct child_output nothing = {0};
    enum status st = child_run_watched(point_run_job, &j, &watch, &nothing);
    child_output_free(&nothing);
    return st;
}
