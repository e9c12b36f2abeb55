/* simulate - predict what one iteration of a plan is like. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/captured.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/progress.h"
#include "core/base/array.h"
#include "sim/engines.h"
#include "sim/export/export.h"
#include "study/evaluate.h"
#include "study/expected.h"
#include "study/load.h"
#include "study/network_options.h"
#include "study/paths.h"
#include "study/summary.h"
#include "study/warn.h"
#include "topologies/msccl.h"

/* Everything that one call holds. */
struct simulate {
    const struct arguments *a;
    const struct engine *engine;
    const struct exporter *exporter;
    const char *exported;
    double unit_s;
    struct perturbation perturbation;
    struct faults faults;
    struct steps_algorithm steps; /* of --algorithm-file */
    struct loaded_plan p;
    struct evaluation_context context;
    struct provenance by;
    struct measurement m;
    struct program program; /* what was simulated */
    struct timeline timeline;
    bool interrupted;
};

static enum status parse_options(struct simulate *s)
{
    const struct arguments *a = s->a;
    const struct simulation_arguments *o = &a->sim;
    struct collective_options *c = &s->context.options.collective;
    PASS(arguments_check(a, a->json ? TAKES(SIMULATE_JSON) : TAKES(SIMULATE)));
    PASS(engine_find(o->engine, &s->engine));
    PASS(network_options_read(a, s->engine, &s->context.options));
    if (o->export && export_parse(o->export, &s->exporter, &s->exported, &s->unit_s) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    PASS(load_faults(o->slow, o->fail, o->kill, &s->perturbation, &s->faults));
    s->perturbation.jitter = o->jitter;
    s->perturbation.seed = a->seed;
    c->algorithm = strcmp(o->collective, "auto") != 0 ? o->collective : NULL;
    c->nccl_protocols = o->nccl_protocols;
    if (o->algorithm_file) {
        PASS(msccl_read(o->algorithm_file, &s->steps));
        c->steps = &s->steps;
    }
    return STATUS_OK;
}

/* Paths can be told only when the platform is known. */
static enum status simulate_set_paths(struct simulate *s)
{
    struct paths_options *o = &s->context.options.paths;
    PASS(paths_read(s->a, &s->p.topology, o));
    if (arguments_given(s->a, "seed") && !arguments_given(s->a, "jitter") &&
        !paths_are_random(&s->p.topology, o))
        return error_set(STATUS_USAGE, "--seed has no effect without --jitter or --paths ecmp");
    return STATUS_OK;
}

/* Times of several hashes; all else is of the one in the middle. */
static enum status evaluate_seeds(struct simulate *s, const struct engine *engine)
{
    enum status st;
    size_t seeds = s->a->sim.seeds;
    double *iteration_s = NULL;
    uint64_t *seed = &s->context.options.paths.seed, first = *seed;
    TRY(ARRAY_NEW(iteration_s, seeds));
    TRY(paths_sample(&s->p.plan, &s->context, engine, seeds, iteration_s, seed));
    TRY(evaluate_plan(&s->p.plan, &s->context, engine, &s->m, &s->program,
                      s->a->trace ? &s->timeline : NULL));
    struct program all = s->program; /* borrows */
    all.microbatches = s->p.plan.microbatches;
    TRY(measurement_set_iterations(&s->m, &all, iteration_s, seeds));
    TRY(measurement_warn(&s->m,
                         "paths are hashed at random: the iteration is the median of seeds %llu to "
                         "%llu, all else is of seed %llu",
                         (unsigned long long)first, (unsigned long long)first + seeds - 1,
                         (unsigned long long)*seed));
out:
    free(iteration_s);
    return st;
}

/* Simulate, in full when all ops have to be known. */
static enum status simulate_evaluate(struct simulate *s, const struct engine *engine)
{
    s->context.whole = s->a->sim.no_fold || s->exporter;
    if (s->a->sim.seeds > 1)
        return evaluate_seeds(s, engine);
    PASS(evaluate_plan(&s->p.plan, &s->context, engine, &s->m, &s->program,
                       s->a->trace ? &s->timeline : NULL));
    if (!paths_are_random(&s->p.topology, &s->context.options.paths))
        return STATUS_OK;
    return measurement_warn(&s->m,
                            "paths are hashed at random: another seed than %llu gives another "
                            "time; --seeds 32 says how they spread",
                            (unsigned long long)s->context.options.paths.seed);
}

/* Ctrl-C has stopped the engine: tell what is known. */
static enum status evaluate_instead(struct simulate *s, const struct progress *progress)
{
    s->interrupted = true;
    measurement_free(&s->m);
    program_free(&s->program);
    PASS(simulate_evaluate(s, engine_quick()));
    PASS(measurement_warn(&s->m,
                          "interrupted: %s had completed %.0f %% of %zu ops; this is what the "
                          "%s engine predicts",
                          s->engine->name,
                          100 * (double)progress->completed /
                              (double)(progress->ops + !progress->ops),
                          progress->ops, engine_quick()->name));
    s->engine = engine_quick();
    return STATUS_OK;
}

static enum status evaluate_watched(struct simulate *s)
{
    struct progress progress = {.what = s->engine->name, .interrupted = interrupt_catch()};
    const struct simulation_watch watch = progress_watch(&progress);
    s->context.options.watch = &watch;
    enum status st = simulate_evaluate(s, s->engine);
    s->context.options.watch = NULL;
    progress_end(&progress);
    interrupt_release();
    return st != STATUS_OK && *progress.interrupted ? evaluate_instead(s, &progress) : st;
}

static enum status simulate_write_files(const struct simulate *s)
{
    if (s->exporter) {
        PASS(export_check(&s->program));
        const struct export_options o = {&s->context.options.collective, s->unit_s};
        PASS(s->exporter->write(&s->program, &s->p.topology, &o, s->exported, &s->by));
    }
    const struct results r = {&s->program, &s->timeline, &s->m, &s->by};
    PASS(results_write(&r, s->a, stderr));
    return STATUS_OK;
}

/* A file of an algorithm that fits no collective of the plan changes nothing. */
static enum status warn_of_file(struct simulate *s)
{
    const struct steps_algorithm *steps = &s->steps;
    for (size_t k = 0; k < s->m.calls; k++)
        if (s->m.call[k].algorithm && strstr(s->m.call[k].algorithm, collective_file.name))
            return STATUS_OK;
    return steps->path
               ? measurement_warn(&s->m,
                                  "--algorithm-file %s has no effect: the plan has no %s "
                                  "of its sizes among %u devices",
                                  steps->path, collective_kind_name[steps->kind], steps->ranks)
               : STATUS_OK;
}

static enum status simulate_predict(struct simulate *s, const char *path)
{
    const struct arguments *a = s->a;
    const struct summary_rows rows = {a->sim.rank_rows, a->sim.link_rows, a->train_tokens};
    const struct results r = {&s->program, &s->timeline, &s->m, &s->by};
    char text[REPORT_VERDICT];
    PASS(parse_options(s));
    PASS(load_plan_only(path, &s->p));
    PASS(simulate_set_paths(s));
    if (a->framework && plan_set_framework(&s->p.plan, a->framework) != STATUS_OK)
        return error_context(STATUS_USAGE, "--framework");
    if (a->train_tokens > 0 && a->run.forward_only)
        return error_set(STATUS_USAGE, "--forward-only trains nothing: no --train-tokens");
    if (a->train_tokens > 0 && s->p.model.tokens_per_sample <= 0)
        return error_set(STATUS_USAGE, "--train-tokens: '%s' has no tokens", s->p.model.name);
    s->context.model = &s->p.model;
    s->context.topology = &s->p.topology;
    s->context.platform = s->p.platform;
    s->context.options.faults = s->faults.n > 0 ? &s->faults : NULL;
    s->context.perturbation = arguments_given(a, "jitter") || a->sim.slow ? &s->perturbation : NULL;
    s->context.detailed = true;
    s->context.forward_only = a->run.forward_only;
    s->by.seed =
        arguments_given(a, "jitter") || arguments_given(a, "seed") ? a->seed : s->p.plan.seed;
    PASS(arguments_try_files(a));
    PASS(evaluate_watched(s));
    PASS(warn_simulation(&s->p.plan, &s->program, &s->context, &s->m)); /* names algorithms */
    PASS(warn_of_file(s));
    PASS(load_label(&s->p, path, s->engine->name, &s->m));
    if (!s->interrupted)
        PASS(simulate_write_files(s));
    PASS(results_print(&r, a, &rows, arguments_prose(a), stderr));
    if (!a->json && !a->run.forward_only) /* what is expected is of trainings */
        PASS(expected_print(&s->p.plan, &s->context, arguments_prose(a)));
    if (a->sim.fail_on_oom && measurement_overfull(&s->m) > 0)
        return error_set(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&s->m, text));
    return STATUS_OK;
}

static enum status cmd_simulate(struct invocation *in)
{
    if (cli_captured_given(in))
        return cli_captured_simulate(in);
    if (cli_jobs_given(in))
        return cli_jobs_simulate(in);
    PASS(command_expect(in, 1, "one plan file"));
    struct simulate s = {.a = &in->a, .by = in->by};
    enum status st = simulate_predict(&s, in->operand[0]);
    measurement_free(&s.m);
    timeline_free(&s.timeline);
    program_free(&s.program);
    loaded_plan_free(&s.p);
    perturbation_free(&s.perturbation);
    faults_free(&s.faults);
    steps_free(&s.steps);
    if (s.interrupted && st == STATUS_OK)
        interrupt_end(SIGINT);
    return st;
}

const struct command command_simulate = {
    .name = "simulate",
    .synopsis = "PLAN... | CAPTURE --platform P",
    .summary = "predict one training iteration of a plan or of a captured script, or the slowdown "
               "of jobs",
    .details =
        "Runs the plan's program on a simulated platform and prints iteration time, throughput,\n"
        "MFU, whether memory suffices, the bottleneck in a sentence, and tables: where the time\n"
        "went (mean of the ranks; the rows add up to the iteration), the busiest and the fullest\n"
        "ranks, messages and collectives with nccl-tests' algbw and busbw (1 GB = 1e9 bytes), and\n"
        "the busiest links. A rank waits for communication when it computes nothing while a\n"
        "message or collective that it needs next is in flight; the rest of its idle time is\n"
        "bubble. docs/read-simulation.md explains the output line by line.\n"
        "\n"
        "Of many microbatches fewer are simulated, when their events prove that the middle of the\n"
        "iteration repeats: the rest follows from it, exactly, and the output says so; when it\n"
        "does not repeat, all is simulated and the output says why. On more than 256 devices one\n"
        "replica and shard of every stage is simulated for all that are alike by proof. Ctrl-C\n"
        "during a simulation on SimGrid prints the analytic prediction\n"
        "and the share that was done, writes no files, and exits with 130.\n"
        "\n"
        "--export writes the same program for other simulators: docs/program.md.\n"
        "\n"
        "Several plans are jobs that run at the same time on one platform: how much slower each "
        "is\n"
        "than alone, and which links they share. docs/jobs.md.\n"
        "\n"
        "The folder of `foreline capture` instead of a plan is a step of that script on the ranks\n"
        "of --platform, whose device N has rank N. docs/capture.md.",
    .examples = "foreline simulate plan.json\n"
                "foreline simulate tiny.json -o predicted.json --trace timeline.json\n",
    .often = "engine framework jitter slow fail forward-only train-tokens output trace json",
    .run = cmd_simulate,
};
