/* emulate - the worker itself on a network that is not there. */
#include <stdbool.h>
#include <string.h>

#include "cli/command.h"
#include "core/trace.h"
#include "exec/rounds.h"
#include "sim/smpi.h"
#include "study/emulate_network.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/summary.h"

static const char *engine_name = "smpi", *output, *trace, *platform;
static bool json, check;
static size_t ranks, pid, steps = 5, warmup = 1;
static const char *dilate = "1", *compute = "paced", *transport = "tcp", *collective;
static const char *shell, *slow, *fail, *killed;

static const struct option_spec options[] = {
    {OPTION_STRING, "engine", &engine_name, "smpi|netns",
     "smpi: on SimGrid's MPI; netns: over TCP in namespaces"},
    {OPTION_STRING, "output", &output, "FILE", "write the measurement as JSON (also -o)"},
    {OPTION_STRING, "trace", &trace, "FILE", "write a timeline for ui.perfetto.dev"},
    {OPTION_FLAG, "json", &json, NULL, "print the measurement as JSON, SI units"},
    {OPTION_STRING, "platform", &platform, "P", "run a command instead: a shipped one, or XML"},
    {OPTION_STRING, "shell", &shell, "HOST",
     "a shell in the node of this device or rank: with --platform in a network of its own, else in "
     "one that runs"},
    {OPTION_SIZE, "pid", &pid, "N",
     "with --shell: which one, by its process; 0: there is just one"},
    {OPTION_SIZE, "ranks", &ranks, "N", "of the command; 0: one per device of the platform"},
    {OPTION_STRING, "dilate", &dilate, "F|auto",
     "netns: divide bandwidths, multiply latencies and a plan's compute times; its results are in "
     "the platform's seconds again; auto: what this machine carries well"},
    {OPTION_STRING, "compute", &compute, "paced|real",
     "of a plan on netns: its predicted time, or numerics on this CPU"},
    {OPTION_STRING, "transport", &transport, "tcp|mpi",
     "of a plan on netns: what carries messages"},
    {OPTION_STRING, "collective", &collective, "NAME",
     "algorithm of the collectives, as in run (default: the ring)"},
    {OPTION_STRING, "slow", &slow, "NAME=X,...", "of a plan on netns: as in simulate"},
    {OPTION_STRING, "fail", &fail, "LINK@T,...",
     "likewise; one iteration is measured, whose start "
     "is time 0"},
    {OPTION_STRING, "kill", &killed, "RANK@T,...", "likewise"},
    {OPTION_SIZE, "steps", &steps, "N", "measured iterations of netns"},
    {OPTION_SIZE, "warmup", &warmup, "N", "iterations of netns before these"},
    {OPTION_FLAG, "check", &check, NULL,
     "say what this machine can emulate; with --platform, how exactly each of its links' rates"},
    {.type = OPTION_END},
};

struct labelled {
    const struct loaded_plan *p;
    const char *path;
};

static enum status report(void *argument, struct measurement *m, const struct timeline *t)
{
    enum status st;
    const struct labelled *l = argument;
    struct provenance by = command_provenance(l->p->plan.seed);
    TRY(load_label(l->p, l->path, engine_name, m));
    if (output)
        TRY(measurement_write(m, output, &by));
    if (trace)
        TRY(trace_write(&l->p->program, t, trace, &by));
    if (json)
        TRY(measurement_write(m, "-", &by));
    else
        TRY(report_measurement(m, &report_defaults, stdout));
out:
    return st;
}

/* Options that are for the other kind of emulation. */
static enum status check_options(bool netns)
{
    if (!netns && strcmp(engine_name, engine_smpi.name) != 0)
        return error_set(STATUS_USAGE, "--engine %s: expected smpi or netns", engine_name);
    if (ranks != 0 || shell || pid)
        return error_set(STATUS_USAGE, "--ranks, --shell and --pid are for --platform P");
    if (!netns && strcmp(dilate, "1") != 0)
        return error_set(STATUS_USAGE, "--dilate is for --engine netns");
    if (strcmp(compute, "paced") != 0 && (!netns || strcmp(compute, "real") != 0))
        return error_set(STATUS_USAGE, "--compute %s: expected paced, or real with --engine netns",
                         compute);
    if (!netns && (slow || fail || killed))
        return error_set(STATUS_USAGE, "--slow, --fail and --kill are for --engine netns");
    if (strcmp(transport, "tcp") != 0 && (!netns || strcmp(transport, "mpi") != 0))
        return error_set(STATUS_USAGE, "--transport %s: expected tcp, or mpi with --engine netns",
                         transport);
    const struct rounds_algorithm *algorithm;
    enum status st = rounds_find(collective, &algorithm);
    return st == STATUS_OK ? st : error_context(STATUS_USAGE, "--collective");
}

static enum status emulate(int argc, char **argv)
{
    enum status st;
    struct loaded_plan p = {0};
    struct timeline timeline = {0};
    struct measurement m = {0};
    struct perturbation slower = {0};
    struct faults faults = {0};
    struct emulate_options o = {.faults = &faults,
                                .steps = steps,
                                .warmup = warmup,
                                .real = !strcmp(compute, "real"),
                                .mpi = !strcmp(transport, "mpi"),
                                .collective = collective};
    bool netns = !strcmp(engine_name, "netns");

    TRY(emulate_parse_dilation(dilate, &o.dilation));
    if (check) {
        TRY(emulate_check());
        return platform ? emulate_check_platform(platform, ranks, o.dilation) : STATUS_OK;
    }
    if (platform) {
        if (slow || fail || killed)
            return error_set(STATUS_USAGE, "--slow, --fail and --kill are for plans");
        argv[argc] = NULL;
        return emulate_command(platform, &(struct emulate_command){ranks, o.dilation, argv, shell});
    }
    if (shell && argc == 0)
        return emulate_join(shell, pid);
    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one plan file, got %d operands", argc);
    TRY(check_options(netns));
    TRY(load_plan(argv[0], &p));
    TRY(load_faults(slow, fail, killed, &slower, &faults));
    if (slower.n > 0 && o.real) {
        st = error_set(STATUS_USAGE, "--slow: real compute takes the time that it takes");
        goto out;
    }
    if (slower.n > 0)
        TRY(perturb_program(&slower, &p.program));
    if (faults.n > 0) {
        o.steps = 1;
        o.warmup = warmup > 0 ? warmup : 1;
    }
    struct labelled labelled = {&p, argv[0]};
    if (netns) {
        st = emulate_plan(&p, &o, report, &labelled);
        goto out;
    }
    const struct evaluation_context context = {.model = &p.model,
                                               .topology = &p.topology,
                                               .platform = p.platform,
                                               .options.collective.algorithm = collective};
    TRY(evaluate_program(&p.program, &context, &engine_smpi, &m, &timeline));
    TRY(report(&labelled, &m, &timeline));
out:
    measurement_free(&m);
    timeline_free(&timeline);
    perturbation_free(&slower);
    faults_free(&faults);
    loaded_plan_free(&p);
    return st;
}

const struct command command_emulate = {
    .name = "emulate",
    .synopsis = "PLAN | --platform P -- COMMAND... | [--platform P] --shell HOST",
    .summary = "run the real executor on a simulated network",
    .details =
        "Runs the executor and the MPI transport of `foreline run --transport mpi`, compiled\n"
        "for SimGrid's MPI, on the plan's platform: a second opinion on `simulate`, from the\n"
        "code that runs on clusters. Compute takes its predicted time, the network is\n"
        "SimGrid's. docs/emulate.md says where the two agree.\n\n"
        "With --platform, runs a command once per rank, each node in a network namespace, over\n"
        "links shaped to the platform, or a shell in one node (without it, of a network that "
        "runs); --engine netns runs a plan's\n"
        "workers there: compute takes its predicted time, messages are real. --dilate auto slows\n"
        "both down until this machine carries the platform. --slow, --fail and --kill mean the\n"
        "same as in `simulate`. docs/emulation.md. No root is needed.",
    .options = options,
    .run = emulate,
};
