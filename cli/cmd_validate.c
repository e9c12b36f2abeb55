/* validate - how good predictions are: a grid of plans, predicted, run and compared. */
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "core/perturb.h"
#include "study/validate.h"

static const char *model, *stages, *schedules, *microbatches, *microbatch_size, *replicas;
static const char *tensor_parallel, *chunks, *algorithm = "balanced", *optimizer = "adam";
static const char *engine = "tcp", *device = "cpu", *compute, *output, *fail_above;
static struct option_list platforms;
static bool measurements;
static size_t steps = 10, warmup = 2, repeats = 3, seed = 1;
static double timeout_s = 30;

static const struct option_spec options[] = {
    {OPTION_STRING, "model", &model, "M", "zoo name with overrides, or model file"},
    {OPTION_LIST, "platform", &platforms, "P",
     "shipped name, or SimGrid XML file of this machine; several times: all of them"},
    {OPTION_STRING, "stages", &stages, "N,N", "pipeline stages (default: all devices)"},
    {OPTION_STRING, "replicas", &replicas, "N,N", "data-parallel replicas (default: 1)"},
    {OPTION_STRING, "tensor-parallel", &tensor_parallel, "N,N",
     "devices that share each op (default: 1)"},
    {OPTION_STRING, "chunks", &chunks, "N,N", "stages on each device (default: 1)"},
    {OPTION_STRING, "schedules", &schedules, "NAME,NAME", "orders of microbatches (default: 1f1b)"},
    {OPTION_STRING, "microbatches", &microbatches, "N,N", "per iteration (default: 8)"},
    {OPTION_STRING, "microbatch-size", &microbatch_size, "N,N", "samples (default: 1)"},
    {OPTION_STRING, "algorithm", &algorithm, "A,A", "what cuts the model: foreline plan"},
    {OPTION_STRING, "optimizer", &optimizer, "adam|sgd", "state and time of the update"},
    {OPTION_FLAG, "measurements", &measurements, NULL,
     "operands are measurement files of runs; their plans are predicted now"},
    {OPTION_STRING, "engine", &engine, "tcp|mpi|local|netns|smpi",
     "what runs the plans: workers here, in network namespaces, or on SimGrid's MPI"},
    {OPTION_STRING, "device", &device, "cpu|cuda", "tcp and mpi: what computes"},
    {OPTION_STRING, "compute", &compute, "real|paced",
     "tcp and mpi: numerics, or ops that take their predicted time (default: real when the CPU can "
     "compute all ops)"},
    {OPTION_SIZE, "steps", &steps, "N", "training steps that are measured in each run"},
    {OPTION_SIZE, "warmup", &warmup, "N", "training steps before those"},
    {OPTION_SIZE, "repeats", &repeats, "N", "runs of each plan"},
    {OPTION_SIZE, "seed", &seed, "N", "of parameters and data, and of the order of runs"},
    {OPTION_SECONDS, "timeout", &timeout_s, "TIME", "longest silence of a worker"},
    {OPTION_STRING, "fail-above", &fail_above, "SHARE",
     "exit status 1 when SimGrid's worst error is above, such as 10%"},
    {OPTION_STRING, "output", &output, "DIR", "write everything there (also -o)"},
    {.type = OPTION_END},
};

static enum status make_grid(struct grid *g)
{
    enum status st = STATUS_OK;
    const struct {
        const char *key, *list;
    } axis[] = {{"stages", stages},
                {"replicas", replicas},
                {"tensor-parallel", tensor_parallel},
                {"chunks", chunks},
                {"algorithm", algorithm},
                {"schedule", schedules},
                {"microbatches", microbatches},
                {"microbatch-size", microbatch_size}};
    for (size_t i = 0; i < platforms.n; i++)
        TRY(grid_add(g, "platform", platforms.item[i]));
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++)
        if (axis[i].list)
            TRY(grid_add_list(g, axis[i].key, axis[i].list));
    struct plan_arguments any = plan_defaults;
    for (size_t a = 0; a < g->axes; a++)
        for (size_t i = 0; i < g->axis[a].n; i++)
            if (strcmp(g->axis[a].key, "platform") != 0)
                TRY(plan_set(&any, g->axis[a].key, g->axis[a].value[i]));
out:
    return st;
}

/* ---- what comes of it */

/* Is a prediction by SimGrid further off than allowed? */
static enum status judge(const struct validate_table *t, double limit)
{
    for (size_t i = 0; i < t->summaries; i++) {
        const struct validate_summary *s = &t->summary[i];
        if (!strcmp(s->predicted_by, engine_simgrid.name) && s->worst_error > limit)
            return error_set(STATUS_INFEASIBLE, "%s: simgrid is off by %.2f %%, allowed are %g %%",
                             t->row[s->worst].plan, 100 * s->worst_error, 100 * limit);
    }
    return STATUS_OK;
}

static enum status conclude(const struct validation *v, const struct validate_job *job,
                            const struct validate_setup *setup, const struct provenance *by)
{
    enum status st = STATUS_OK;
    double limit = INFINITY;
    struct validate_table t = {0};
    if (fail_above && perturbation_parse_jitter(fail_above, &limit) != STATUS_OK)
        return error_context(STATUS_USAGE, "--fail-above");
    TRY(validate_tabulate(v, &t));
    validate_print(v, &t, stdout);
    if (output)
        TRY(validate_report(&(struct validate_outcome){v, &t, job, setup, output, by}));
    if (t.rows == 0)
        st = error_set(STATUS_INFEASIBLE, "nothing to compare: no plan was both predicted and run");
    else
        st = judge(&t, limit);
out:
    validate_table_free(&t);
    return st;
}

static enum status validate_files(int argc, char **argv)
{
    enum status st;
    struct validation v = {0};
    const struct provenance by = command_provenance(0);
    TRY(validate_read_files(&v, (const char *const *)argv, (size_t)argc, output, &by));
    TRY(conclude(&v, NULL, NULL, &by));
out:
    validation_free(&v);
    return st;
}

static enum status make_directories(void)
{
    static const char *const folder[] = {"", "plans", "predicted", "measured"};
    enum status st = STATUS_OK;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        TRY(validate_make_directory(output, folder[i]));
out:
    return st;
}

/* Everything before the first measurement, then measurements, then the report. */
static enum status work(struct validate_job *job, struct validation *v, bool *interrupted)
{
    enum status st;
    struct validate_setup setup = {0};
    TRY(validate_make_points(job, v));
    TRY(make_directories());
    TRY(validate_open(job, v, &setup));
    TRY(validate_predict(job, v));
    job->run.interrupted = interrupt_catch();
    st = validate_measure(job, v);
    *interrupted = *job->run.interrupted;
    interrupt_release();
    if (st != STATUS_OK || *interrupted)
        goto out;
    TRY(validate_read_times(output, &setup));
    TRY(validate_collect(job, v));
    TRY(conclude(v, job, &setup, job->by));
out:
    validate_setup_free(&setup);
    return st;
}

static enum status run_grid(int argc, char **argv)
{
    enum status st;
    bool interrupted = false;
    struct grid g = {0};
    struct validation v = {0};
    const struct provenance by = command_provenance(seed);
    struct validate_job job = {
        .directory = output,
        .grid = argc > 0 ? NULL : &g,
        .operand = (const char *const *)argv,
        .operands = (size_t)argc,
        .plan = plan_defaults,
        .run = {engine, device, compute, steps, warmup, timeout_s, NULL, &by},
        .repeats = repeats,
        .seed = seed,
        .by = &by};
    job.plan.model = model;
    job.plan.optimizer = optimizer;
    job.plan.seed = seed;
    TRY(make_grid(&g));
    TRY(point_check_run(&job.run));
    TRY(work(&job, &v, &interrupted));
out:
    validation_free(&v);
    grid_free(&g);
    if (interrupted && st == STATUS_OK) {
        fprintf(stderr, "interrupted: the same command goes on from here\n");
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    return st;
}

static enum status validate(int argc, char **argv)
{
    if (measurements && (argc < 1 || model || platforms.n))
        return error_set(STATUS_USAGE, "--measurements takes measurement files, and neither "
                                       "--model nor --platform");
    if (measurements)
        return validate_files(argc, argv);
    if (!output)
        return error_set(STATUS_USAGE, "-o DIR is needed for what is predicted and measured");
    if (argc > 0 ? model || platforms.n : !model || !platforms.n)
        return error_set(STATUS_USAGE, "expected --model and --platform, plan files, or "
                                       "--measurements and measurement files");
    if (repeats < 1)
        return error_set(STATUS_USAGE, "--repeats 0: expected at least 1");
    return run_grid(argc, argv);
}

const struct command command_validate = {
    .name = "validate",
    .synopsis = "--model M --platform P -o DIR | PLAN... -o DIR | --measurements FILE...",
    .summary = "predict plans, run them, and say how good the predictions were",
    .details =
        "Makes a plan for every combination of the lists, predicts all of them with both engines\n"
        "and writes the predictions down, with their hashes and the time; then runs the plans, in\n"
        "an order shuffled by the seed, all plans once before any is repeated, so that a drift of\n"
        "the machine does not look like a difference between plans. Or takes plan files, or the\n"
        "measurement files of runs that were made before.\n"
        "\n"
        "Prints a row per plan: samples per iteration, the median of the runs' medians, the\n"
        "quartiles of all iterations, and per engine the prediction and its error (predicted /\n"
        "measured - 1); then median and worst absolute error, Kendall's tau and the regret of\n"
        "trusting the prediction (both on time per sample; at least 3 plans). Times in seconds.\n"
        "Plans that cannot be made or run are listed with the reason.\n"
        "\n"
        "DIR gets report.md, results.tsv, scatter.svg and bars.svg with their tables, and all\n"
        "plans, predictions and measurements. The same command on the same DIR goes on where it\n"
        "was stopped; Ctrl-C stops it with status 130. Exit status 1 when nothing could be\n"
        "compared, or --fail-above says so. docs/validate.md",
    .options = options,
    .run = validate,
};
