/* simulate - predict what one iteration of a plan is like. */
#include <signal.h>
#include <stdbool.h>

#include "cli/captured.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/jobs.h"
#include "cli/progress.h"
#include "sim/engines.h"
#include "sim/export/export.h"
#include "study/expected.h"
#include "study/prediction.h"
#include "study/summary.h"

/* Everything that one call holds. */
struct simulate {
    const struct arguments *a;
    struct loaded_plan p;
    struct prediction predicted;
    struct provenance by;
    bool interrupted;
};

/* Ctrl-C has stopped the engine: tell what is known. */
static enum status evaluate_instead(struct simulate *s, const struct progress *progress)
{
    const char *asked = s->predicted.engine->name;
    s->interrupted = true;
    PASS(prediction_evaluate(&s->predicted, engine_quick(), s->predicted.exporter));
    return measurement_warn(
        &s->predicted.m,
        "interrupted: %s had completed %.0f %% of %zu ops, so this is the prediction of the %s "
        "engine",
        asked, 100 * (double)progress->completed / (double)(progress->ops + !progress->ops),
        progress->ops, engine_quick()->name);
}

static enum status evaluate_watched(struct simulate *s)
{
    struct prediction *p = &s->predicted;
    struct progress progress = {.what = p->engine->name, .interrupted = interrupt_catch()};
    const struct simulation_watch watch = progress_watch(&progress);
    p->context.options.watch = &watch;
    enum status st = prediction_evaluate(p, p->engine, p->exporter);
    p->context.options.watch = NULL;
    progress_end(&progress);
    interrupt_release();
    return st != STATUS_OK && *progress.interrupted ? evaluate_instead(s, &progress) : st;
}

static enum status simulate_predict(struct simulate *s, const char *path)
{
    const struct arguments *a = s->a;
    struct summary_rows rows = {.ranks = a->sim.rank_rows,
                                .links = a->sim.link_rows,
                                .train_tokens = a->train_tokens,
                                .plan = &s->p.plan};
    struct prediction *p = &s->predicted;
    const struct results r = {&p->program, &p->timeline, &p->m, &s->by};
    char text[REPORT_VERDICT];
    const struct load_instead instead = {a->model, a->platform, a->batch};
    PASS(prediction_set(a, a->json ? TAKES(SIMULATE_JSON) : TAKES(SIMULATE), p));
    PASS(load_plan_instead(path, &instead, stderr, &s->p));
    PASS(prediction_begin(&s->p, p));
    s->by.seed = p->seed;
    PASS(arguments_try_files(a));
    PASS(evaluate_watched(s));
    PASS(prediction_finish(p, path));
    if (!s->interrupted)
        PASS(prediction_write(p, &s->by, stderr));
    if (!a->run.forward_only) /* what is expected is of trainings */
        rows.expected = &p->context;
    PASS(results_print(&r, a, &rows, arguments_prose(a), stderr));
    if (a->sim.fail_on_oom && measurement_overfull(&p->m) > 0)
        return error_set(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&p->m, text));
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
    prediction_free(&s.predicted);
    loaded_plan_free(&s.p);
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
        "Runs the plan's program on its platform, or its strategy on another one (--platform), of\n"
        "another model size (--model) or batch (--batch). Prints iteration time, throughput, MFU,\n"
        "whether memory suffices, the bottleneck in a sentence, and tables: where the time went "
        "(mean\n"
        "of the ranks; the rows add up to the iteration), the busiest ranks and those with the "
        "most\n"
        "memory in use, messages and collectives with nccl-tests' algbw and busbw (1 GB = 1e9 "
        "bytes),\n"
        "and the busiest links. A rank waits for communication when it computes nothing while a\n"
        "message or collective that it needs next is in flight; the rest of its idle time is\n"
        "bubble. docs/reference/simulate-output.md explains the output line by line.\n"
        "\n"
        "With many microbatches, only some are simulated if their events prove that the steady "
        "state\n"
        "repeats: the rest follows exactly, and the output says so. If it does not repeat, all\n"
        "microbatches are simulated and the output says why. On more than 256 devices, one "
        "replica\n"
        "and shard of every stage stands for all that provably behave alike. Ctrl-C during a\n"
        "simulation on SimGrid prints the analytic prediction and the completed share, writes no\n"
        "files, and exits with 130.\n"
        "\n"
        "--export writes the same program for other simulators: docs/reference/program.md.\n"
        "\n"
        "Several plans are jobs that run at the same time on one platform: prints how much slower "
        "each\n"
        "job is than alone, and which links they share. docs/reference/jobs.md.\n"
        "\n"
        "A folder of `foreline capture` instead of a plan is one step of the captured script on "
        "the\n"
        "ranks of --platform, whose device N runs rank N. docs/how-to/capture.md.",
    .examples = "foreline simulate plan.json\n"
                "foreline simulate tiny.json -o predicted.json --trace timeline.json\n",
    .often = "engine framework jitter slow fail forward-only train-tokens output trace json",
    .run = cmd_simulate,
};
