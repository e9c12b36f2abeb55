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
#include "lab/scoreboard/published_fit.h"
#include "lab/scoreboard/published_layers.h"
#include "sim/engines.h"
#include "study/validate.h"

/* Is a prediction by the engine that judges further off than allowed? */
static enum status judge(const struct validate_table *t, double limit)
{
    for (size_t i = 0; i < t->summaries; i++) {
        const struct validate_summary *s = &t->summary[i];
        if (!strcmp(s->predicted_by, engine_judge()->name) && s->worst_error > limit)
            return error_set(STATUS_INFEASIBLE, "%s: %s is off by %.2f %%, allowed are %g %%",
                             t->row[s->worst].plan, s->predicted_by, 100 * s->worst_error,
                             100 * limit);
    }
    return STATUS_OK;
}

/* Table and report; job and setup are NULL for measurement files of others. */
static enum status conclude(const struct invocation *in, const struct validation *v,
                            const struct validate_job *job, const struct validate_setup *setup)
{
    enum status st;
    const char *output = in->a.output;
    double limit = arguments_given(&in->a, "fail-above") ? in->a.fail_above : INFINITY;
    struct validate_table t = {0};
    TRY(validate_tabulate(v, &t));
    validate_print(v, &t, stdout);
    if (output)
        TRY(validate_report(
            &(struct validate_outcome){v, &t, job, setup, output, stderr, &in->by}));
    if (t.rows == 0)
        st = error_set(STATUS_INFEASIBLE, "nothing to compare: no plan was both predicted and run");
    else
        st = judge(&t, limit);
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

/* The table of constants, fitted to all rows, beside the other tables. */
static enum status write_constants(const struct published_fits *fits, const char *folder)
{
    enum status st;
    char path[4096];
    struct file_out f = {0};
    if (snprintf(path, sizeof path, "%s/constants.def", folder) >= (int)sizeof path)
        return error_set(STATUS_INVALID, "%s: the path is too long", folder);
    TRY(file_create(path, &f));
    published_fit_write(fits, f.stream);
    TRY(file_commit(&f));
out:
    file_discard(&f);
    return st;
}

/* Scores, and where asked for those of constants that do not know the rows; their tables in a
 * folder. */
static enum status print_published(const struct arguments *a, const struct published *p,
                                   const struct published_prediction *prediction,
                                   const struct published_table *t, const struct provenance *by)
{
    enum status st = STATUS_OK;
    struct published_fits fits = {0};
    if (a->cross_validate)
        TRY(published_fit(p, true, &fits));
    if (a->cross_validate && a->output)
        TRY(write_constants(&fits, a->output));
    if (a->json) {
        TRY(published_print_json(p, prediction, t, a->cross_validate ? &fits : NULL, stdout));
    } else {
        published_print(p, prediction, t, stdout);
        if (a->cross_validate) {
            putchar('\n');
            TRY(published_fits_print(p, &fits, stdout));
        }
    }
    if (a->output)
        TRY(published_write(p, prediction, t, a->cross_validate ? &fits : NULL, a->output, by));
out:
    published_fits_free(&fits);
    return st;
}

static enum status score_published(const struct invocation *in, struct published *p)
{
    enum status st;
    struct published_prediction *prediction = NULL;
    struct published_table t = {0};
    if (in->a.output)
        TRY(validate_make_directory(in->a.output, ""));
    TRY(ARRAY_NEW(prediction, p->rows));
    TRY(published_predict(p, in->a.framework, prediction));
    if (in->a.layers > 0)
        TRY(published_fit_layers(p, in->a.layers, in->a.seed, prediction));
    TRY(published_tabulate(p, prediction, &t));
    TRY(print_published(&in->a, p, prediction, &t, &in->by));
    const struct published_score *all = t.kind[sizeof t.kind / sizeof *t.kind - 1].score;
    if (!all || all->used == 0)
        FAIL(STATUS_INFEASIBLE, "nothing to compare: no row was predicted");
    if (arguments_given(&in->a, "fail-above") && all->max > in->a.fail_above)
        FAIL(STATUS_INFEASIBLE, "the worst row is off by %.2f %%, allowed are %g %%",
             100 * all->max, 100 * in->a.fail_above);
out:
    free(prediction);
    published_table_free(&t);
    return st;
}

/* The table of constants, fitted to the rows. */
static enum status fit_published(const struct published *p)
{
    struct published_fits fits = {0};
    enum status st = published_fit(p, false, &fits);
    if (st == STATUS_OK)
        published_fit_write(&fits, stdout);
    published_fits_free(&fits);
    return st;
}

/* Runs that others published. */
static enum status validate_published(const struct invocation *in)
{
    enum status st;
    struct published p = {0};
    struct framework framework;
    if (in->a.framework && framework_parse(in->a.framework, &framework) != STATUS_OK)
        return error_context(STATUS_USAGE, "--framework");
    if (in->a.framework && (in->a.cross_validate || in->a.layers))
        return error_set(STATUS_USAGE, "--cross-validate and --layers take rows with their own "
                                       "frameworks, and no --framework");
    if (in->a.cross_validate && in->a.layers)
        return error_set(STATUS_USAGE, "--cross-validate fits constants to rows, --layers what "
                                       "layers take: one of them");
    for (int i = 0; i < in->operands; i++)
        TRY(published_read(in->operand[i], &p));
    TRY(in->a.fit_constants ? fit_published(&p) : score_published(in, &p));
out:
    published_free(&p);
    return st;
}

/* Everything before the first measurement, then measurements, then the report. */
static enum status work(const struct invocation *in, struct validate_job *job, bool *interrupted)
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
    const struct point_run run = {
        .engine = a->engine, .device = a->device, .compute = a->compute, .steps = a->steps};
    if (in->operands == 1 && validate_is_experiment(in->operand[0]))
        return experiment_read(in->operand[0], &check, out);
    enum status st = point_check_run(&run);
    return st == STATUS_OK
               ? validate_compose(a, (const char *const *)in->operand, (size_t)in->operands, out)
               : st;
}

static enum status run_experiment(const struct invocation *in)
{
    enum status st;
    bool interrupted = false;
    struct provenance by = in->by;
    struct validate_job job = {.directory = in->a.output,
                               .timeout_s = in->a.timeout_s,
                               .progress = isatty(STDERR_FILENO) ? stderr : NULL,
                               .by = &by};
    by.seed = in->a.seed;
    TRY(read_experiment(in, &job.e));
    TRY(work(in, &job, &interrupted));
out:
    experiment_free(&job.e);
    if (interrupted && st == STATUS_OK) {
        fprintf(stderr, "interrupted: the same command goes on from here\n");
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
        if (!strcmp(a->engine, deaf[i][0]) && arguments_given(a, deaf[i][1]))
            return error_set(STATUS_USAGE, "--%s means nothing with --engine %s", deaf[i][1],
                             deaf[i][0]);
    return STATUS_OK;
}

static enum status validate(struct invocation *in)
{
    const struct arguments *a = &in->a;
    bool grid = a->model || a->platforms.n;
    if ((a->measurements || a->published) && (in->operands < 1 || grid))
        return error_set(STATUS_USAGE, "--%s takes files, and neither --model nor --platform",
                         a->published ? "published" : "measurements");
    if (a->published) {
        PASS(
            arguments_check(a, a->fit_constants ? TAKES(VALIDATE_FIT) : TAKES(VALIDATE_PUBLISHED)));
        return validate_published(in);
    }
    if (!a->measurements && !a->output)
        return error_set(STATUS_USAGE, "-o DIR is needed for what is predicted and measured");
    if (!a->measurements && (in->operands > 0 ? grid : !a->model || !a->platforms.n))
        return error_set(STATUS_USAGE, "expected --model and --platform, plan files, or "
                                       "--measurements and measurement files");
    PASS(arguments_check(a, a->measurements                          ? TAKES(VALIDATE_MEASUREMENTS)
                            : grid                                   ? TAKES(VALIDATE)
                            : validate_is_experiment(in->operand[0]) ? TAKES(VALIDATE_EXPERIMENT)
                                                                     : TAKES(VALIDATE_FILES)));
    if (a->measurements)
        return validate_files(in);
    if (!a->engine)
        in->a.engine = launch_default_transport(a->device);
    PASS(check_engine(a));
    return run_experiment(in);
}

const struct command command_validate = {
    .name = "validate",
    .synopsis = "--model M --platform P -o DIR | PLAN... -o DIR | --measurements FILE... | "
                "--published FILE|DIR...",
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
        "compared, or --fail-above says so.\n"
        "\n"
        "--published: runs that others measured and published, files of one schema or folders of\n"
        "them, are predicted from their configurations; errors by set, GPU, type of numbers and\n"
        "parallelism, with why rows are left out and the ten worst. --cross-validate: also errors\n"
        "by constants fitted to the rows of other sets, and of other generations of GPUs; --fit:\n"
        "only the constants, fitted to all rows, as core/strategy/constants.def has them; "
        "--layers: what "
        "the\n"
        "layers take is fitted to a few runs of each set. docs/believe.md",
    .examples = "foreline validate tiny.json --compute paced --steps 2 -o validation\n",
    .run = validate,
};
