/* run - train a plan for real, one worker process per rank. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/file.h"
#include "core/trace.h"
#include "exec/launch/launch.h"
#include "exec/rounds.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/point.h"
#include "study/run_config.h"
#include "study/summary.h"

static const char *compute, *device = "cpu", *transport = "tcp", *text, *output, *trace,
                            *batch_tokens, *dtype, *collective;
static const char *launcher, *hosts, *address, *checkpoint, *resume, *config, *log_prefix;
static size_t steps = 10, warmup = 2, checkpoint_every, loss_every;
static double learning_rate = 1e-3, timeout_s = 0;
static bool json, dry_run;

static const struct option_spec options[] = {
    {OPTION_STRING, "config", &config, "FILE",
     "the run as a YAML file, instead of a plan: results, logs and what they come from go to a "
     "folder (docs/running.md)"},
    {OPTION_FLAG, "dry-run", &dry_run, NULL, "with --config: say what would be done"},
    {OPTION_STRING, "log", &log_prefix, "PREFIX",
     "what worker R prints goes to PREFIX.R (default: to stderr)"},
    {OPTION_STRING, "compute", &compute, "real|paced",
     "real: numerics; paced: ops take their predicted time, messages are real; with --device "
     "cuda a GPU's (default: real when "
     "the device can compute all ops)"},
    {OPTION_STRING, "device", &device, "cpu|cuda",
     "what computes; cuda needs foreline-worker-cuda (docs/cuda.md)"},
    {OPTION_STRING, "transport", &transport, "tcp|mpi|local|nccl",
     "what carries messages; local: ranks are threads of one process; nccl: GPU to GPU, needs "
     "--device cuda"},
    {OPTION_STRING, "collective", &collective, "NAME",
     "algorithm of the collectives that it serves, one that real runs can do; the others go around "
     "the ring, as all do with auto (default: auto)"},
    {OPTION_STRING, "hosts", &hosts, "FILE", "mpi: mpirun's hostfile (default: this machine)"},
    {OPTION_STRING, "launcher", &launcher, "WORDS",
     "what starts the workers instead, \"srun -n 4\"; env: this is one of several processes that "
     "torchrun, srun, mpirun or you start alike, and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT "
     "say which; none: you start them, as a line on stderr says"},
    {OPTION_STRING, "address", &address, "A.B.C.D",
     "where workers on other machines reach this one (default: they are all here)"},
    {OPTION_SIZE, "steps", &steps, "N", "training steps that are measured"},
    {OPTION_SIZE, "warmup", &warmup, "N", "training steps before those"},
    {OPTION_REAL, "learning-rate", &learning_rate, "X", "of the plan's optimizer"},
    {OPTION_STRING, "dtype", &dtype, "fp32|bf16",
     "of activations and messages: what the plan's model says (bits=16: bf16, not for the CPU)"},
    {OPTION_SIZE, "loss-every", &loss_every, "N",
     "time and loss of every N-th step on stderr (default: of every step, on a terminal)"},
    {OPTION_STRING, "batch-tokens", &batch_tokens, "FILE",
     "write tokens and targets of all steps, for other programs (docs/running.md)"},
    {OPTION_STRING, "text", &text, "FILE", "training text (default: the one shipped)"},
    {OPTION_SECONDS, "timeout", &timeout_s, "TIME",
     "longest silence of a worker (default: 8 s or 20 predicted iterations, whichever is longer)"},
    {OPTION_STRING, "checkpoint", &checkpoint, "DIRECTORY",
     "keep the state of all ranks there, after the last step"},
    {OPTION_SIZE, "checkpoint-every", &checkpoint_every, "N",
     "and after every N steps of the training (0: not)"},
    {OPTION_STRING, "resume", &resume, "DIRECTORY", "go on from the newest checkpoint there"},
    {OPTION_STRING, "output", &output, "FILE", "write the measurement as JSON (also -o)"},
    {OPTION_STRING, "trace", &trace, "FILE",
     "write a timeline of the median step for "
     "ui.perfetto.dev"},
    {OPTION_FLAG, "json", &json, NULL, "print the measurement as JSON, SI units"},
    {.type = OPTION_END},
};

/* Options that contradict each other whatever the plan. */
static enum status check_options(void)
{
    static const char *const known[] = {"tcp", "mpi", "local", "nccl"};
    const struct rounds_algorithm *algorithm;
    size_t k = 0;
    if (strcmp(device, "cpu") != 0 && strcmp(device, "cuda") != 0)
        return error_set(STATUS_USAGE, "--device %s: expected cpu or cuda", device);
    while (k < sizeof known / sizeof *known && strcmp(transport, known[k]) != 0)
        k++;
    if (k == sizeof known / sizeof *known)
        return error_set(STATUS_USAGE, "--transport %s: expected tcp, mpi, local or nccl",
                         transport);
    if (rounds_find(collective, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--collective");
    if (!strcmp(transport, "nccl") && strcmp(device, "cuda") != 0)
        return error_set(STATUS_USAGE,
                         "--transport nccl carries a GPU's memory: with --device cuda");
    if (!strcmp(transport, "mpi") && !strcmp(device, "cuda"))
        return error_set(STATUS_USAGE, "--transport mpi is for --device cpu; GPUs talk over nccl");
    if (hosts && strcmp(transport, "mpi") != 0)
        return error_set(STATUS_USAGE, "--hosts is for --transport mpi");
    if (address && strcmp(transport, "mpi") != 0 && strcmp(transport, "nccl") != 0)
        return error_set(STATUS_USAGE, "--address is for --transport mpi and nccl");
    if (hosts && launcher)
        return error_set(STATUS_USAGE, "--hosts and --launcher: the launcher knows its hosts");
    if (address && launcher && !strcmp(launcher, "env"))
        return error_set(STATUS_USAGE, "--address: MASTER_ADDR says it with --launcher env");
    if (timeout_s < 0)
        return error_set(STATUS_USAGE, "--timeout: expected more than 0 s");
    if (compute && strcmp(compute, "real") != 0 && strcmp(compute, "paced") != 0)
        return error_set(STATUS_USAGE, "--compute %s: expected real or paced", compute);
    if (dtype && strcmp(dtype, "fp32") != 0 && strcmp(dtype, "bf16") != 0)
        return error_set(STATUS_USAGE, "--dtype %s: expected fp32 or bf16", dtype);
    if (checkpoint_every > 0 && !checkpoint)
        return error_set(STATUS_USAGE, "--checkpoint-every needs --checkpoint");
    return STATUS_OK;
}

/* Bytes of messages are the plan's, so the type is its model's. */
static enum status check_dtype(const struct model *m)
{
    bool half = m->element_bytes == 2, wants_half = dtype ? !strcmp(dtype, "bf16") : half;
    if ((half || wants_half) && !strcmp(device, "cpu"))
        return error_set(STATUS_UNSUPPORTED,
                         "%s: device cpu computes in fp32 only: --device cuda, or --compute paced",
                         half ? m->name : "--dtype bf16");
    if (wants_half != half)
        return error_set(STATUS_UNSUPPORTED,
                         "--dtype %s: the plan is for %s in %s; plan a model with bits=%d", dtype,
                         m->name, half ? "bf16" : "fp32", half ? 32 : 16);
    return STATUS_OK;
}

/* What --compute means for this model. */
static enum status choose(const struct model *m, bool *paced)
{
    enum status st = STATUS_OK;
    const struct model_op *op = point_without_numerics(m);
    if (compute && !strcmp(compute, "real") && op)
        return error_set(STATUS_UNSUPPORTED,
                         "op '%s' of kind '%s' has no numerics on the CPU: use --compute paced",
                         op->name, op->kind);
    *paced = compute ? !strcmp(compute, "paced") : op != NULL;
    if (!*paced)
        TRY(check_dtype(m));
    if (batch_tokens && *paced)
        return error_set(STATUS_USAGE, "--batch-tokens: paced ops read no data");
    if (!compute && op)
        fprintf(stderr, "op '%s' of kind '%s' has no numerics: compute is paced\n", op->name,
                op->kind);
out:
    return st;
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
    TRY(evaluate_program(&p->program, &context, &engine_analytic, &m, NULL));
    *out = fmax(least_s, iterations * m.iteration_s);
out:
    measurement_free(&m);
    return st;
}

/* Can the results be written where they are wanted? Better known before the training. */
static enum status try_outputs(void)
{
    enum status st = STATUS_OK;
    const char *const path[] = {output, trace, batch_tokens};
    for (size_t k = 0; k < sizeof path / sizeof *path; k++) {
        struct file_out f = {0};
        if (path[k])
            TRY(file_create(path[k], &f));
        file_discard(&f);
    }
out:
    return st;
}

static enum status write_results(const struct loaded_plan *p, const struct measurement *m,
                                 const struct timeline *t)
{
    enum status st = STATUS_OK;
    char host[256] = "";
    struct provenance by = command_provenance(p->plan.seed);
    if (gethostname(host, sizeof host - 1) == 0)
        by.host = host;
    if (output)
        TRY(measurement_write(m, output, &by));
    if (trace)
        TRY(trace_write(&p->program, t, trace, &by));
    if (json)
        TRY(measurement_write(m, "-", &by));
    else
        TRY(report_measurement(m, &report_defaults, stdout));
out:
    return st;
}

static enum status run_plan(const char *path)
{
    enum status st;
    bool paced = false, member = false;
    char engine[16];
    struct loaded_plan p = {0};
    struct measurement m = {0};
    struct timeline t = {0};

    TRY(load_plan(path, &p));
    TRY(choose(&p.model, &paced));
    if (timeout_s == 0)
        TRY(choose_timeout(&p, &timeout_s));
    const struct launch_options o = {
        .device = paced ? launch_paced(device) : device,
        .transport = transport,
        .collective = collective,
        .launcher = launcher,
        .hosts = hosts,
        .address = address,
        .text = text,
        .checkpoint = checkpoint,
        .checkpoint_every = checkpoint_every,
        .resume = resume,
        .log = log_prefix,
        .steps = steps,
        .warmup = warmup,
        .learning_rate = learning_rate,
        .timeout_s = timeout_s,
        .batch_tokens = batch_tokens,
        .notes = stderr,
        .progress_every = loss_every > 0 ? loss_every : !json && isatty(STDERR_FILENO)};
    TRY(launch_is_member(&o, &member));
    if (member) {
        TRY(launch_member(&p.program, &p.model, &o));
        goto out;
    }
    TRY(try_outputs());
    TRY(launch_run(&p.program, &p.model, &o, &m, &t));
    snprintf(engine, sizeof engine, "%s%s", transport, paced ? "-paced" : "");
    evaluate_machine(&p.program, &p.topology, &m);
    TRY(load_label(&p, path, engine, &m));
    TRY(write_results(&p, &m, &t));
out:
    timeline_free(&t);
    measurement_free(&m);
    loaded_plan_free(&p);
    return st;
}

/* As a file says, into a folder of its own. */
static enum status run_file(void)
{
    enum status st;
    struct run_config c = {0};
    char plan[RUN_PATH], log[RUN_PATH], measurement[RUN_PATH], timeline[RUN_PATH];
    TRY(run_config_read(config, options, &c));
    TRY(check_options());
    if (launcher && !strcmp(launcher, "env")) {
        st = error_set(STATUS_USAGE, "--config: one process starts all, not --launcher env");
        goto out;
    }
    if (dry_run) {
        run_config_tell(&c, options);
        goto out;
    }
    TRY(run_config_begin(&c, hosts, plan));
    fprintf(stderr, "%s\n", c.directory);
    log_prefix = log_prefix ? log_prefix : run_config_path(&c, "output.log", log);
    output = output ? output : run_config_path(&c, "measurement.json", measurement);
    trace = trace ? trace : run_config_path(&c, "trace.json", timeline);
    TRY(run_config_end(&c, run_plan(plan)));
out:
    run_config_free(&c);
    return st;
}

static enum status run(int argc, char **argv)
{
    enum status st;
    if (config && argc > 0)
        return error_set(STATUS_USAGE, "--config says the plan: expected no operands, got %d",
                         argc);
    if (dry_run && !config)
        return error_set(STATUS_USAGE, "--dry-run is for --config");
    if (config)
        return run_file();
    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one plan file, got %d operands", argc);
    TRY(check_options());
    TRY(run_plan(argv[0]));
out:
    return st;
}

const struct command command_run = {
    .name = "run",
    .synopsis = "PLAN | --config FILE [--dry-run]",
    .summary = "train a plan for real, one worker process per rank",
    .details =
        "Starts a foreline-worker for every rank of the plan on this machine; they train the\n"
        "model on text, one byte a token, and exchange activations and gradients over TCP, or "
        "with\n"
        "--transport mpi as foreline-worker-mpi processes that mpirun starts over MPI, with\n"
        "--transport local as threads of one process, with --transport nccl from GPU to GPU. "
        "Prints\n"
        "the median iteration time and its range, throughput, the loss of the first and last\n"
        "step, a hash of the final parameters (equal for every plan of the same model, data and\n"
        "microbatch size without replicas), and per rank busy, exposed communication and idle\n"
        "time of the median step. Per-step lines on stderr when that is a terminal.\n"
        "\n"
        "When a worker dies, hangs or fails, or on Ctrl-C, all workers are ended within 5 s and "
        "the\n"
        "message names the rank, its machine and the op it was last seen at; a worker that says\n"
        "nothing for --timeout counts as hung. --checkpoint keeps parameters and optimizer state,\n"
        "and --resume goes on from there, bit for bit. More workers than cores run, but their "
        "times mean little:\n"
        "a warning says so.",
    .options = options,
    .run = run,
};
