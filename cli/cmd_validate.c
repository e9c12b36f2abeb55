/* validate - how good predictions are: an experiment of plans, predicted, run and compared. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "core/base/file.h"
#include "exec/launch/launch.h"
#include "sim/engines.h"
#include "study/script.h"
#include "study/validate.h"

/* Is a prediction by the engine that judges further off than allowed? */
static enum status validate_check_error(const struct validate_table *t, double limit)
{
    for (size_t i = 0; i < t->summaries; i++) {
        const struct validate_summary *s = &t->summary[i];
        if (!strcmp(s->predicted_by, engine_judge()->name) && s->worst_error > limit)
            return error_set(
                STATUS_INFEASIBLE, "%s: error of %s is %.2f %%, above --fail-above %g %%",
                t->row[s->worst].plan, s->predicted_by, 100 * s->worst_error, 100 * limit);
    }
    return STATUS_OK;
}

/* Predictions of a machine that nobody measured; the table says when it was too busy to tell. */
static void note_of_platform(const struct validate_table *t)
{
    static const double far = 0.15;
    char text[VALIDATE_TEXT];
    for (size_t i = 0; i < t->summaries && !validate_noise(t, text); i++)
        if (t->summary[i].median_error > far) {
            fprintf(
                stderr,
                "note: predictions are far off. Calibrate this machine while no other program "
                "runs: foreline calibrate -o here.xml; then validate with --platform here.xml\n");
            return;
        }
}

/* Table and report; job and setup are NULL for measurement files of others. */
static enum status conclude(const struct invocation *in, const struct validation *v,
                            const struct validate_job *job, const struct validate_setup *setup)
{
    enum status st;
    const char *output = in->a.output;
    double limit = arguments_given(&in->a, "fail-above") ? in->a.fits.fail_above : INFINITY;
    struct validate_table t = {0};
    TRY(validate_tabulate(v, &t));
    validate_print(v, &t, stdout);
    if (t.rows > 0)
        validate_print_warnings(v, stderr);
    if (job)
        note_of_platform(&t);
    if (output)
        TRY(validate_report(
            &(struct validate_outcome){v, &t, job, setup, output, stderr, &in->by}));
    if (t.rows == 0)
        st = error_set(STATUS_INFEASIBLE, "nothing to compare: no plan was both predicted and run");
    else
        st = validate_check_error(&t, limit);
out:
    validate_table_free(&t);
    return st;
}

static enum status validate_files(const struct invocation *in)
{
    enum status st;
    struct validation v = {0};
    TRY(validate_read_files(&v, (const char *const *)in->operand, (size_t)in->operands,
                            in->a.output, &in->by));
    TRY(conclude(in, &v, NULL, NULL));
out:
    validation_free(&v);
    return st;
}

/* Everything before the first measurement, then measurements, then the report. */
static enum status validate_run_job(const struct invocation *in, struct validate_job *job,
                                    bool *interrupted)
{
    enum status st;
    struct validation v = {0};
    struct validate_setup setup = {0};
    TRY(validate_make_points(job, &v));
    TRY(validate_open(job, &v, &setup));
    TRY(validate_predict(job, &v));
    job->interrupted = interrupt_catch();
    st = validate_measure(job, &v);
    *interrupted = *job->interrupted;
    interrupt_release();
    if (st != STATUS_OK || *interrupted)
        goto out;
    TRY(validate_read_times(job->directory, &setup));
    TRY(validate_collect(job, &v));
    TRY(conclude(in, &v, job, &setup));
out:
    validate_setup_free(&setup);
    validation_free(&v);
    return st;
}

/* The experiment as a file, or as options and plan files. */
static enum status read_experiment(const struct invocation *in, struct experiment *out)
{
    const struct experiment_check check = {point_check, NULL};
    const struct arguments *a = &in->a;
    const struct point_run run = {.engine = a->sim.engine,
                                  .launch.device = a->launch.device,
                                  .compute = a->run.compute,
                                  .launch.steps = a->launch.steps};
    if (in->operands == 1 && validate_is_experiment(in->operand[0]))
        return experiment_read(in->operand[0], &check, out);
    enum status st = point_check_run(&run);
    return st == STATUS_OK
               ? validate_compose(a, (const char *const *)in->operand, (size_t)in->operands, out)
               : st;
}

static enum status validate_run_file(const struct invocation *in)
{
    enum status st;
    bool interrupted = false;
    struct provenance by = in->by;
    struct validate_job job = {.directory = in->a.output,
                               .timeout_s = in->a.launch.timeout_s,
                               .progress = isatty(STDERR_FILENO) ? stderr : NULL,
                               .by = &by};
    by.seed = in->a.seed;
    TRY(read_experiment(in, &job.e));
    TRY(validate_run_job(in, &job, &interrupted));
out:
    experiment_free(&job.e);
    if (interrupted && st == STATUS_OK) {
        fprintf(stderr, "interrupted: run the same command again to continue\n");
        interrupt_end(SIGINT);
    }
    return st;
}

/* What means nothing to some of the engines that run plans. */
static enum status check_engine(const struct arguments *a)
{
    static const char *const deaf[][2] = {{"smpi", "device"},  {"smpi", "steps"},
                                          {"smpi", "warmup"},  {"smpi", "timeout"},
                                          {"netns", "device"}, {"netns", "timeout"}};
    for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
        if (!strcmp(a->sim.engine, deaf[i][0]) && arguments_given(a, deaf[i][1]))
            return error_set(STATUS_USAGE, "--%s has no effect with --engine %s", deaf[i][1],
                             deaf[i][0]);
    return STATUS_OK;
}

/* capture_validate.py captures the script, predicts it by this program, and runs it. */
static enum status validate_script(const struct invocation *in)
{
    const struct arguments *a = &in->a;
    struct script_call c = {0};
    char foreline[EXECUTABLE_FOLDER + 16];
    PASS(arguments_check(a, TAKES(VALIDATE_SCRIPT)));
    if (in->operands == 0)
        return error_set(STATUS_USAGE,
                         "no script given. Try -- python3 train.py ARGUMENTS at the end");
    PASS(script_begin("capture_validate.py", &c));
    snprintf(foreline, sizeof foreline, "%s/foreline", c.folder);
    script_put(&c, "--foreline", foreline);
    script_put(&c, "--output", a->output);
    script_put(&c, "--ranks", a->capture.ranks);
    script_put_number(&c, "--steps", (double)a->launch.steps);
    script_put_number(&c, "--warmup", (double)a->launch.warmup);
    script_put_number(&c, "--timeout", a->capture.patience_s);
    if (arguments_given(a, "fail-above"))
        script_put_number(&c, "--fail-above", a->fits.fail_above);
    if (a->capture.profile)
        script_put(&c, "--profile", NULL);
    if (a->json)
        script_put(&c, "--json", NULL);
    PASS(script_end(&c, in->operand, (size_t)in->operands));
    return script_become(&c);
}

static enum status validate(struct invocation *in)
{
    const struct arguments *a = &in->a;
    bool grid = a->model || a->platforms.n;
    if (a->fits.measurements && (in->operands < 1 || grid))
        return error_set(STATUS_USAGE,
                         "--measurements takes measurement files, not --model or --platform");
    if (!a->fits.measurements && !a->output)
        return error_set(STATUS_USAGE,
                         "-o DIR is missing (the folder of predictions and measurements)");
    if (a->capture.ranks)
        return validate_script(in);
    if (!a->fits.measurements && (in->operands > 0 ? grid : !a->model || !a->platforms.n))
        return error_set(
            STATUS_USAGE,
            "expected --model M and --platform P, plan files, --measurements FILE..., or "
            "--ranks N,N -- python3 train.py");
    PASS(arguments_check(a, a->fits.measurements                     ? TAKES(VALIDATE_MEASUREMENTS)
                            : grid                                   ? TAKES(VALIDATE)
                            : validate_is_experiment(in->operand[0]) ? TAKES(VALIDATE_EXPERIMENT)
                                                                     : TAKES(VALIDATE_FILES)));
    if (a->fits.measurements)
        return validate_files(in);
    if (!a->sim.engine)
        in->a.sim.engine = launch_default_transport(a->launch.device);
    PASS(check_engine(a));
    return validate_run_file(in);
}

const struct command command_validate = {
    .name = "validate",
    .synopsis = "--model M --platform P -o DIR | PLAN... -o DIR | --measurements FILE... |\n"
                "  --ranks N,N -o DIR -- python3 SCRIPT ARGUMENTS...",
    .summary = "predict plans, run them, and say how good the predictions were",
    .details =
        "Makes a plan for every combination of the lists, predicts all of them with both engines, "
        "and\n"
        "stores the predictions with their hashes and the time. Then runs the plans in a random "
        "order,\n"
        "each once before any is repeated, so that drift of the machine does not look like a\n"
        "difference between plans. Also accepts plan files, or measurement files of earlier runs.\n"
        "\n"
        "Prints a row per plan: samples per iteration, the median of the runs' medians, the\n"
        "quartiles of all iterations, and per engine the prediction and its error (predicted /\n"
        "measured - 1). Below: median and worst absolute error, Kendall's tau, and the regret of\n"
        "trusting the prediction (both on time per sample; at least 3 plans; a range where "
        "several\n"
        "predictions are equal). 'noise' says that runs differ by more than most errors.\n"
        "Times in seconds.\n"
        "Plans that cannot be made or run are listed with the reason.\n"
        "\n"
        "DIR gets report.md, results.tsv, scatter.svg and bars.svg with their tables, and all "
        "plans,\n"
        "predictions and measurements. The same command on the same DIR continues where it "
        "stopped;\n"
        "Ctrl-C stops it with status 130. Exits with status 1 if nothing could be compared, or if\n"
        "--fail-above is exceeded.\n"
        "\n"
        "With --ranks, captures a PyTorch script on so many ranks each, predicts it on this "
        "machine's\n"
        "cores, then runs it for real with gloo: docs/how-to/capture.md.\n"
        "\n"
        "To predict published runs, use 'foreline lab scoreboard' or --published.\n"
        "docs/explanation/accuracy.md",
    .examples = "foreline validate tiny.json --compute paced --steps 2 -o validation\n",
    .often = "model platform stages replicas schedules compute device steps repeats ranks output",
    .run = validate,
    .lab_option = "--published",
    .lab_command = "scoreboard",
};
