/* simulate - predict what one iteration of a plan is like. */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "core/text.h"
#include "core/trace.h"
#include "sim/engine.h"
#include "sim/export/export.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/summary.h"
#include "study/warn.h"

static const char *engine_name = "simgrid", *collective = "auto";
static const char *output, *trace, *export, *jitter, *slow, *fail, *killed;
static bool json, nccl_protocols, no_fold, fail_on_oom;
static size_t seed;
static struct report_limits limits = {4, 5};

static const struct option_spec options[] = {
    {OPTION_STRING, "engine", &engine_name, "simgrid|analytic",
     "simgrid: flows share links; analytic: no contention, fast"},
    {OPTION_STRING, "collective", &collective, "NAME",
     "auto (the one that NCCL's cost table picks), ring, tree, hierarchical, switch or direct; "
     "for the collectives that it can do"},
    {OPTION_FLAG, "nccl-protocols", &nccl_protocols, NULL,
     "NCCL's latencies and efficiencies (LL, LL128, Simple) instead of the platform's"},
    {OPTION_STRING, "jitter", &jitter, "SHARE",
     "standard deviation of every compute time, such as 5% of it"},
    {OPTION_STRING, "slow", &slow, "NAME=X,...",
     "takes X times as long: compute of a device (r0n0g1), a rank (3) or a stage (stage:1), from "
     "time T on the messages of a link (link:NAME=X@T)"},
    {OPTION_STRING, "fail", &fail, "LINK@T,...", "from T on nothing passes a link of the platform"},
    {OPTION_STRING, "kill", &killed, "RANK@T,...", "a rank or device of the plan ends at T"},
    {OPTION_SIZE, "seed", &seed, "N", "of the jitter; same seed, same result"},
    {OPTION_FLAG, "fail-on-oom", &fail_on_oom, NULL,
     "exit status 1 when a rank needs more memory than its device has"},
    {OPTION_FLAG, "no-fold", &no_fold, NULL,
     "simulate all of a long run, also when its middle repeats"},
    {OPTION_STRING, "output", &output, "FILE", "write the measurement as JSON (also -o)"},
    {OPTION_STRING, "trace", &trace, "FILE",
     "write a timeline for ui.perfetto.dev; simulates in full"},
    {OPTION_STRING, "export", &export, "FORMAT=PATH",
     "write the program too: goal=FILE for LogGOPSim, atlahs=FILE, chakra=DIR (execution traces)"},
    {OPTION_SIZE, "ranks", &limits.ranks, "N", "rows of the tables of ranks; 0: no such tables"},
    {OPTION_SIZE, "links", &limits.links, "N", "rows of the table of links; 0: no such table"},
    {OPTION_FLAG, "json", &json, NULL, "print the measurement as JSON, SI units"},
    {.type = OPTION_END},
};

/* Everything that one call holds. */
struct simulate {
    const struct engine *engine;
    const struct exporter *exporter;
    const char *exported;
    struct perturbation perturbation;
    struct faults faults;
    struct loaded_plan p;
    struct evaluation_context context;
    struct provenance by;
    struct measurement m;
    struct program program; /* what was simulated */
    struct timeline timeline;
    bool interrupted;
};

static const char *algorithm_name(size_t i)
{
    return i == 0 ? "auto" : collective_algorithms[i - 1].name;
}

static enum status choose_collective(struct collective_options *out)
{
    size_t n = 1, i;
    while (algorithm_name(n))
        n++;
    if (text_find("collective algorithm", collective, algorithm_name, n, &i) != STATUS_OK)
        return error_context(STATUS_USAGE, "--collective");
    out->algorithm = i > 0 ? algorithm_name(i) : NULL;
    out->nccl_protocols = nccl_protocols;
    return STATUS_OK;
}

static enum status parse_options(struct simulate *s)
{
    if (engine_find(engine_name, &s->engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    if (export && export_parse(export, &s->exporter, &s->exported) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    if (jitter && perturbation_parse_jitter(jitter, &s->perturbation.jitter) != STATUS_OK)
        return error_context(STATUS_USAGE, "--jitter");
    enum status st = load_faults(slow, fail, killed, &s->perturbation, &s->faults);
    if (st != STATUS_OK)
        return st;
    s->perturbation.seed = seed;
    return choose_collective(&s->context.options.collective);
}

/* Simulate, in full when all ops have to be known. */
static enum status evaluate(struct simulate *s, const struct engine *engine)
{
    if (no_fold || trace || s->exporter || s->faults.n > 0)
        return evaluate_whole(&s->p.plan, &s->context, engine, &s->m, &s->program,
                              trace ? &s->timeline : NULL);
    return evaluate_plan(&s->p.plan, &s->context, engine, &s->m, &s->program);
}

/* Ctrl-C has stopped the engine: tell what is known. */
static enum status evaluate_instead(struct simulate *s, const struct progress *progress)
{
    enum status st;
    s->interrupted = true;
    measurement_free(&s->m);
    program_free(&s->program);
    TRY(evaluate(s, &engine_analytic));
    TRY(measurement_warn(&s->m,
                         "interrupted: %s had completed %.0f %% of %zu ops; this is what the "
                         "analytic engine predicts, without contention",
                         s->engine->name,
                         100 * (double)progress->completed /
                             (double)(progress->ops + !progress->ops),
                         progress->ops));
    s->engine = &engine_analytic;
out:
    return st;
}

static enum status evaluate_watched(struct simulate *s)
{
    struct progress progress = {.what = s->engine->name, .interrupted = interrupt_catch()};
    const struct simulation_watch watch = progress_watch(&progress);
    s->context.options.watch = &watch;
    enum status st = evaluate(s, s->engine);
    s->context.options.watch = NULL;
    progress_end(&progress);
    interrupt_release();
    return st != STATUS_OK && *progress.interrupted ? evaluate_instead(s, &progress) : st;
}

static enum status write_files(const struct simulate *s)
{
    enum status st = STATUS_OK;
    if (s->exporter)
        TRY(s->exporter->write(&s->program, &s->p.topology, &s->context.options.collective,
                               s->exported, &s->by));
    if (output)
        TRY(measurement_write(&s->m, output, &s->by));
    if (trace)
        TRY(trace_write(&s->program, &s->timeline, trace, &s->by));
out:
    return st;
}

static enum status predict(struct simulate *s, const char *path)
{
    enum status st;
    char text[REPORT_VERDICT];
    TRY(parse_options(s));
    TRY(load_plan_only(path, &s->p));
    s->context.model = &s->p.model;
    s->context.topology = &s->p.topology;
    s->context.platform = s->p.platform;
    s->context.options.faults = s->faults.n > 0 ? &s->faults : NULL;
    s->context.perturbation = jitter || slow ? &s->perturbation : NULL;
    s->context.detailed = true;
    s->by = command_provenance(jitter ? seed : s->p.plan.seed);
    TRY(evaluate_watched(s));
    TRY(warn_simulation(&s->p.plan, &s->program, &s->context, &s->m));
    TRY(load_label(&s->p, path, s->engine->name, &s->m));
    if (!s->interrupted)
        TRY(write_files(s));
    if (json)
        TRY(measurement_write(&s->m, "-", &s->by));
    else
        TRY(report_measurement(&s->m, &limits, stdout));
    if (fail_on_oom && measurement_overfull(&s->m) > 0)
        st = error_set(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&s->m, text));
out:
    return st;
}

static enum status simulate(int argc, char **argv)
{
    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one plan file, got %d operands", argc);
    struct simulate s = {0};
    enum status st = predict(&s, argv[0]);
    measurement_free(&s.m);
    timeline_free(&s.timeline);
    program_free(&s.program);
    loaded_plan_free(&s.p);
    perturbation_free(&s.perturbation);
    faults_free(&s.faults);
    if (s.interrupted && st == STATUS_OK) { /* status 130, and shells stop their loops */
        fflush(stdout);
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
    }
    return st;
}

const struct command command_simulate = {
    .name = "simulate",
    .synopsis = "PLAN",
    .summary = "predict one training iteration of a plan",
    .details =
        "Runs the plan's program on a simulated platform and prints iteration time, throughput,\n"
        "MFU, whether memory suffices, the bottleneck in a sentence, and tables: where the time\n"
        "went (mean of the ranks; the rows add up to the iteration), the busiest and the fullest\n"
        "ranks, messages and collectives with nccl-tests' algbw and busbw (1 GB = 1e9 bytes), and\n"
        "the busiest links. A rank waits for communication when it computes nothing while a\n"
        "message or collective that it needs next is in flight; the rest of its idle time is\n"
        "bubble. docs/reading.md explains the output line by line.\n"
        "\n"
        "From 1,000 microbatches on the periodic middle of the iteration is simulated once and\n"
        "the rest follows from it, exactly; when it does not repeat, all is simulated and the\n"
        "output says why. Ctrl-C during a simulation on SimGrid prints the analytic prediction\n"
        "and the share that was done, writes no files, and exits with 130.\n"
        "\n"
        "--export writes the same program for other simulators: docs/export.md.",
    .options = options,
    .run = simulate,
};
