/* run - train a plan for real, one worker process per rank. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/data/trace.h"
#include "exec/launch/hosts.h"
#include "exec/launch/launch.h"
#include "exec/rounds.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/machine.h"
#include "study/point.h"
#include "study/run_config.h"
#include "study/run_failures.h"
#include "study/summary.h"

static const char *transport_of(const struct launch_options *o)
{
    return o->transport ? o->transport : launch_default_transport(o->device);
}

/* Options that contradict each other whatever the plan. */
static enum status check_options(const struct arguments *a)
{
    const struct launch_options *o = &a->launch;
    const struct rounds_algorithm *algorithm;
    const char *transport = transport_of(o);
    struct hosts hosts = {0};
    if (rounds_find(o->collective, transport, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--collective");
    bool cuda = !strcmp(o->device, "cuda"), mpi = !strcmp(transport, "mpi"),
         nccl = !strcmp(transport, "nccl"),
         is_paced = a->run.compute && !strcmp(a->run.compute, "paced");
    const struct {
        bool wrong;
        const char *message;
    } rules[] = {
        {nccl && !cuda, "--transport nccl needs --device cuda"},
        {o->cuda_graphs && !cuda, "--cuda-graphs needs --device cuda"},
        {o->cudnn && !cuda, "--cudnn needs --device cuda"},
        {o->unbound && (cuda || mpi || o->launcher || o->hosts || is_paced),
         "--unbound has no effect: only CPU ranks that are started on this machine are bound to "
         "cores"},
        {mpi && cuda, "--transport mpi needs --device cpu; GPUs use --transport nccl"},
        {o->log && !strcmp(transport, "local"),
         "--log has no effect with --transport local, which runs all ranks in one process"},
        {o->hosts && !strcmp(transport, "local"),
         "--hosts has no effect with --transport local, which runs all ranks in one process"},
        {o->address && !mpi && !nccl && !o->launcher && !o->hosts,
         "--address has no effect with --transport tcp without --launcher or --hosts: all workers "
         "are on this machine"},
        {o->address && !strcmp(transport, "local"),
         "--address has no effect with --transport local, which is one process"},
        {o->hosts && o->launcher,
         "--hosts and --launcher cannot be combined: the launcher chooses its hosts"},
        {o->local_ranks > 0 && (!o->launcher || strcmp(o->launcher, "env") != 0),
         "--local-ranks needs --launcher env"},
        {o->address && o->launcher && !strcmp(o->launcher, "env"),
         "--address has no effect with --launcher env; set MASTER_ADDR instead"},
        {o->checkpoint_every > 0 && !o->checkpoint, "--checkpoint-every needs --checkpoint"},
        {a->run.inject_failures && !(o->checkpoint && o->checkpoint_every > 0),
         "--inject-failures needs --checkpoint and --checkpoint-every"},
        {a->run.inject_failures && (o->warmup > 0 || o->launcher || o->hosts || mpi),
         "--inject-failures needs --warmup 0 and ranks that foreline starts itself, on this "
         "machine: no --launcher, --hosts or --transport mpi"},
        {a->run.forward_only && o->checkpoint,
         "--checkpoint has no effect with --forward-only, which does not train"},
        {a->run.forward_only && (arguments_given(a, "learning-rate") || o->learning_rate_policy),
         "--learning-rate and --learning-rate-policy have no effect with --forward-only, which "
         "does not train"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].wrong)
            return error_set(STATUS_USAGE, "%s", rules[i].message);
    if (o->hosts)
        PASS(hosts_read(o->hosts, &hosts));
    hosts_free(&hosts);
    return STATUS_OK;
}

/* Bytes of messages are the plan's, so the type is its model's. */
static enum status check_dtype(const struct arguments *a, const struct model *m)
{
    enum data_type known = m->element_bytes == 2 ? DATA_bf16 : DATA_fp32,
                   own = m->dtype != DATA_ANY ? m->dtype : known;
    const char *wanted = a->run.dtype ? a->run.dtype : data_type_names[own];
    if (own != DATA_fp32 && own != DATA_bf16 && own != DATA_fp16)
        return error_set(
            STATUS_UNSUPPORTED,
            "model '%s': device %s supports fp32, bf16 and fp16, not %s. Try --compute paced",
            m->name, a->launch.device, data_type_names[own]);
    if (strcmp(wanted, data_type_names[own]) != 0)
        return error_set(STATUS_USAGE,
                         "--dtype %s does not match the plan, which is for %s in %s; make a plan "
                         "of the model with dtype=%s",
                         wanted, m->name, data_type_names[own], wanted);
    return STATUS_OK;
}

static bool reads_words(const struct model *m)
{
    size_t i = 0;
    while (i < m->n && !model_op_is(&m->op[i], OPERATOR_WORDS))
        i++;
    return i < m->n;
}

/* What --compute means for this model. */
static enum status run_choose_pace(const struct arguments *a, const struct loaded_plan *p,
                                   bool *paced)
{
    const char *compute = a->run.compute;
    const struct model *m = &p->model;
    const struct model_op *op = point_without_numerics(m, &p->plan);
    char why[512] = "";
    if (op)
        snprintf(why, sizeof why, "%s", error_message());
    if (compute && !strcmp(compute, "real") && op)
        return error_set(
            STATUS_USAGE,
            "op '%s' of kind '%s' cannot be computed on the CPU. Try --compute paced (%s)",
            op->name, op->kind, why);
    *paced = compute ? !strcmp(compute, "paced") : op != NULL;
    if (!*paced)
        PASS(check_dtype(a, m));
    if (p->plan.steps > 0 && a->launch.text && !reads_words(m))
        return error_set(STATUS_USAGE, "--text has no effect: model '%s' does not read text",
                         m->name);
    if (p->plan.steps > 0 && a->launch.batch_tokens)
        return error_set(STATUS_UNSUPPORTED, "plans with \"steps\" do not support --batch-tokens");
    PASS(arguments_check(a, *paced ? TAKES(RUN_PACED) : TAKES(RUN_REAL)));
    if (!compute && op)
        fprintf(stderr,
                "op '%s' of kind '%s' cannot be computed here: using --compute paced (%s)\n",
                op->name, op->kind, why);
    return STATUS_OK;
}

/* The longest silence that is still normal: 20 predicted iterations. The least is what a busy
 * machine can do to a heartbeat, and ends a run within 10 s. */
static enum status choose_timeout(const struct loaded_plan *p, double *out)
{
    enum status st;
    static const double least_s = 8, iterations = 20;
    const struct evaluation_context context = {
        .model = &p->model, .topology = &p->topology, .platform = p->platform};
    struct measurement m = {0};
    TRY(evaluate_program(&p->program, &context, engine_quick(), &m, NULL));
    *out = fmax(least_s, iterations * m.iteration_s);
out:
    measurement_free(&m);
    return st;
}

static enum status run_write_results(struct invocation *in, const struct loaded_plan *p,
                                     const struct measurement *m, const struct timeline *t)
{
    enum status st = STATUS_OK;
    char host[256] = "";
    const struct results r = {&p->program, t, m, &in->by};
    in->by.seed = p->plan.seed;
    if (gethostname(host, sizeof host - 1) == 0)
        in->by.host = host;
    TRY(results_write(&r, &in->a, stderr));
    const struct summary_rows rows = {SUMMARY_RANKS, SUMMARY_LINKS, .plan = &p->plan};
    TRY(results_print(&r, &in->a, &rows, arguments_prose(&in->a), stderr));
out:
    in->by.host = NULL;
    return st;
}

static struct launch_options options_of(const struct arguments *a, bool paced)
{
    struct launch_options o = a->launch;
    o.device = paced ? launch_paced(o.device) : o.device;
    o.transport = transport_of(&a->launch);
    o.timeout_hint = "; if an op can take that long here, raise --timeout";
    o.notes = stderr;
    if (o.progress_every == 0)
        o.progress_every = !a->json && isatty(STDERR_FILENO);
    return o;
}

static enum status launch_or_inject(const struct arguments *a, const struct loaded_plan *p,
                                    const struct launch_options *o, struct measurement *m,
                                    struct timeline *t)
{
    struct run_failures f;
    struct run_failures_report report;
    if (!a->run.inject_failures)
        return launch_run(&p->program, &p->model, o, m, t);
    PASS(run_failures_read(a->run.inject_failures, &f));
    PASS(run_failures_run(&p->program, &p->model, o, &f, &report, m, t));
    run_failures_print(&f, &report, arguments_prose(a));
    return STATUS_OK;
}

static enum status run_plan_file(struct invocation *in, const char *path)
{
    enum status st;
    const struct arguments *a = &in->a;
    bool paced = false, member = false, begun = false;
    char engine[16], refused[EVALUATION_REFUSED];
    struct loaded_plan p = {0};
    struct measurement m = {0};
    struct timeline t = {0};

    TRY(load_plan(path, &p));
    TRY(run_choose_pace(a, &p, &paced));
    if (a->run.forward_only)
        TRY(program_keep_forwards(&p.program, &p.model));
    struct launch_options o = options_of(a, paced);
    if (o.timeout_s == 0)
        TRY(choose_timeout(&p, &o.timeout_s));
    TRY(launch_is_member(&o, &member));
    begun = true;
    if (!paced && !strcmp(a->launch.device, "cpu")) /* what a worker would refuse after its start */
        TRY(point_runs(a->launch.device, &p.model, &p.plan, &p.program, refused));
    if (member) {
        TRY(launch_member(&p.program, &p.model, &o));
        goto out;
    }
    TRY(arguments_try_files(a));
    st = launch_or_inject(a, &p, &o, &m, &t);
    const int signal = st == STATUS_OK ? 0 : error_signal();
    if (st != STATUS_OK && m.iterations == 0)
        goto out;
    snprintf(engine, sizeof engine, "%s%s", transport_of(&a->launch), paced ? "-paced" : "");
    if (!paced && !strcmp(a->launch.device, "cpu"))
        machine_measure_cpu(&p.model, &p.program, &p.topology, false, &m);
    else
        machine_measure(&p.model, &p.program, &p.topology, &m);
    TRY(load_label(&p, path, engine, &m));
    TRY(run_write_results(in, &p, &m, &t));
    st = signal ? error_interrupted(signal) : STATUS_OK;
out:
    if (st != STATUS_OK && !begun && a->launch.launcher && !strcmp(a->launch.launcher, "env"))
        st = launch_excuse(st);
    timeline_free(&t);
    measurement_free(&m);
    loaded_plan_free(&p);
    return st;
}

/* As a file says, into a folder of its own. */
static enum status run_file(struct invocation *in)
{
    enum status st;
    struct arguments *a = &in->a;
    struct run_config c = {0};
    char plan[RUN_PATH], log[RUN_PATH], measurement[RUN_PATH], timeline[RUN_PATH];
    TRY(run_config_read(a->run.config, a, &c));
    TRY(check_options(a));
    if (a->launch.launcher && !strcmp(a->launch.launcher, "env"))
        FAIL(STATUS_USAGE, "--config starts all ranks itself, so --launcher env does not apply");
    if (a->run.dry_run) {
        st = run_config_tell(&c, a, stdout);
        goto out;
    }
    TRY(run_config_begin(&c, a->launch.hosts, &in->by, stderr, plan));
    fprintf(stderr, "%s\n", c.directory);
    a->launch.log = a->launch.log ? a->launch.log : run_config_path(&c, "output.log", log);
    a->output = a->output ? a->output : run_config_path(&c, "measurement.json", measurement);
    a->trace = a->trace ? a->trace : run_config_path(&c, "trace.json", timeline);
    TRY(run_config_end(&c, run_plan_file(in, plan)));
out:
    run_config_free(&c);
    return st;
}

static enum status cmd_run(struct invocation *in)
{
    const struct arguments *a = &in->a;
    if (a->run.config && in->operands > 0)
        return error_set(STATUS_USAGE, "--config names the plan, so expected no operands (got %d)",
                         in->operands);
    if (a->run.dry_run && !a->run.config)
        return error_set(STATUS_USAGE, "--dry-run needs --config FILE");
    if (a->run.config)
        return run_file(in);
    PASS(command_expect(in, 1, "one plan file"));
    PASS(check_options(a));
    PASS(run_plan_file(in, in->operand[0]));
    return STATUS_OK;
}

const struct command command_run = {
    .name = "run",
    .synopsis = "PLAN | --config FILE [--dry-run]",
    .summary = "train a plan for real, one worker process per rank",
    .details =
        "Starts a foreline-worker for every rank of the plan on this machine. The workers train "
        "the\n"
        "model on text, one byte per token, and exchange activations and gradients over TCP.\n"
        "--transport mpi starts foreline-worker-mpi processes with mpirun, --transport local uses\n"
        "threads of one process, --transport nccl sends from GPU to GPU. With --hosts, ssh (or\n"
        "mpirun) starts workers on other machines, which must see the same files. Prints the\n"
        "median iteration time and its range, throughput, the loss of the first and last step, a\n"
        "hash of the final parameters (equal for every plan of the same model, data and "
        "microbatch\n"
        "size without replicas), and for each rank the busy, exposed communication and idle time "
        "of\n"
        "the median step. Prints each step on stderr if that is a terminal.\n"
        "\n"
        "If a worker dies, hangs or fails, or on Ctrl-C, foreline ends all workers within 5 s and "
        "names\n"
        "the rank, its machine and its last op. A worker that is silent for --timeout counts as "
        "hung.\n"
        "--checkpoint saves parameters and optimizer state, and --resume continues from them, bit "
        "for\n"
        "bit. More workers than cores run, but foreline warns that this distorts the timings.",
    .examples = "foreline run tiny.json --steps 3 -o measured.json\n",
    .often = "steps warmup compute device transport hosts learning-rate text checkpoint resume "
             "output trace json",
    .run = cmd_run,
};
