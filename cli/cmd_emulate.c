/* emulate - the worker itself on a network that is not there. */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/jobs.h"
#include "core/data/trace.h"
#include "exec/rounds.h"
#include "sim/smpi.h"
#include "study/emulate_network.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/summary.h"

struct labelled {
    struct invocation *in;
    const struct loaded_plan *p;
};

static enum status emulate_report(void *argument, struct measurement *m, const struct timeline *t)
{
    const struct labelled *l = argument;
    const struct arguments *a = &l->in->a;
    PASS(load_label(l->p, l->in->operand[0], a->sim.engine, m));
    const struct results r = {&l->p->program, t, m, &l->in->by};
    PASS(results_write(&r, a, stderr));
    const struct summary_rows rows = {SUMMARY_RANKS, SUMMARY_LINKS, .plan = &l->p->plan};
    PASS(results_print(&r, a, &rows, arguments_prose(a), stderr));
    return STATUS_OK;
}

/* In which of its ways the command is called. */
static taker_set way_of(const struct invocation *in)
{
    const struct arguments *a = &in->a;
    if (a->emulation.check)
        return TAKES(EMULATE_CHECK);
    if (a->platform)
        return a->emulation.shell ? TAKES(EMULATE_SHELL) : TAKES(EMULATE_COMMAND);
    if (a->emulation.shell && in->operands == 0)
        return TAKES(EMULATE_JOIN);
    return !strcmp(a->sim.engine, "netns") ? TAKES(EMULATE_NETNS) : TAKES(EMULATE_SMPI);
}

static enum status run_netns(struct labelled *l, struct loaded_plan *p)
{
    enum status st;
    const struct arguments *a = &l->in->a;
    struct perturbation slower = {0};
    struct faults faults = {0};
    struct emulate_options o = {.faults = &faults,
                                .log = stderr,
                                .steps = a->launch.steps,
                                .warmup = a->launch.warmup,
                                .real = !strcmp(a->run.compute, "real"),
                                .mpi = !strcmp(a->launch.transport, "mpi"),
                                .collective = a->launch.collective};
    TRY(emulate_parse_dilation(a->emulation.dilate, &o.dilation));
    TRY(load_faults(a->sim.slow, a->sim.fail, a->sim.kill, &slower, &faults));
    if (slower.n > 0 && o.real)
        FAIL(STATUS_USAGE, "--slow DEVICE has no effect with --compute real; use --compute paced");
    if (slower.n > 0)
        TRY(perturb_program(&slower, &p->program));
    if (faults.n > 0 && (a->launch.steps > 1 && arguments_given(a, "steps")))
        FAIL(STATUS_USAGE, "--slow LINK, --fail and --kill need --steps 1");
    if (faults.n > 0) {
        o.steps = 1;
        o.warmup = a->launch.warmup > 0 ? a->launch.warmup : 1;
    }
    st = emulate_plan(p, &o, emulate_report, l);
out:
    perturbation_free(&slower);
    faults_free(&faults);
    return st;
}

static enum status run_smpi(struct labelled *l)
{
    enum status st;
    const struct loaded_plan *p = l->p;
    struct timeline timeline = {0};
    struct measurement m = {0};
    const struct evaluation_context context = {.model = &p->model,
                                               .topology = &p->topology,
                                               .platform = p->platform,
                                               .options.collective.algorithm =
                                                   l->in->a.launch.collective};
    if (strcmp(l->in->a.run.compute, "paced") != 0 || strcmp(l->in->a.launch.transport, "tcp") != 0)
        return error_set(STATUS_USAGE,
                         "--compute real and --transport mpi both need --engine netns");
    TRY(evaluate_program(&p->program, &context, &engine_smpi, &m, &timeline));
    TRY(emulate_report(l, &m, &timeline));
out:
    measurement_free(&m);
    timeline_free(&timeline);
    return st;
}

static enum status emulate_run_plan(struct invocation *in, bool netns)
{
    enum status st;
    struct loaded_plan p = {0};
    struct labelled l = {in, &p};
    const struct rounds_algorithm *algorithm;
    PASS(command_expect(in, 1, "one plan file"));
    if (rounds_find(in->a.launch.collective, NULL, &algorithm) != STATUS_OK)
        return error_context(STATUS_USAGE, "--collective");
    TRY(load_plan(in->operand[0], &p));
    in->by.seed = p.plan.seed;
    TRY(arguments_try_files(&in->a));
    TRY(netns ? run_netns(&l, &p) : run_smpi(&l));
out:
    loaded_plan_free(&p);
    return st;
}

static enum status cmd_emulate(struct invocation *in)
{
    const struct arguments *a = &in->a;
    if (!a->platform && !a->emulation.shell && !a->emulation.check && cli_jobs_given(in))
        return cli_jobs_emulate(in);
    struct emulate_command c = {
        .ranks = a->run.ranks, .words = in->operand, .shell = a->emulation.shell};
    taker_set way = way_of(in);
    PASS(arguments_check(a, way));
    PASS(emulate_parse_dilation(a->emulation.dilate, &c.dilation));
    if (way == TAKES(EMULATE_CHECK)) {
        PASS(command_expect(in, 0, "no operands with --check"));
        if (!a->platform && arguments_given(a, "ranks"))
            return error_set(STATUS_USAGE, "--check --ranks needs --platform P");
        PASS(emulate_check());
        if (a->platform)
            PASS(emulate_check_platform(a->platform, a->run.ranks, c.dilation));
    } else if (a->platform) {
        if (in->operands > 0 && !access(in->operand[0], F_OK) && access(in->operand[0], X_OK))
            return error_set(STATUS_USAGE,
                             "%s is a plan, not a command: emulate it without --platform (the plan "
                             "names its platform)",
                             in->operand[0]);
        PASS(emulate_command(a->platform, &c));
    } else if (way == TAKES(EMULATE_JOIN)) {
        PASS(emulate_join(a->emulation.shell, a->emulation.pid));
    } else {
        PASS(emulate_run_plan(in, way == TAKES(EMULATE_NETNS)));
    }
    return STATUS_OK;
}

const struct command command_emulate = {
    .name = "emulate",
    .synopsis = "PLAN... | --platform P -- COMMAND... | [--platform P] --shell HOST",
    .summary = "run the real executor on a simulated network",
    .details =
        "Runs the executor and the MPI transport of `foreline run --transport mpi`, compiled for\n"
        "SimGrid's MPI, on the plan's platform. It checks `simulate` with the code that runs on\n"
        "clusters. Compute takes its predicted time, and SimGrid simulates the network.\n"
        "docs/reference/emulation.md says where the two agree.\n"
        "\n"
        "With --platform, runs a command once per rank. Each node is a network namespace, and "
        "links\n"
        "are shaped to the platform. --shell opens a shell in one node of such a network, or of a\n"
        "running one without --platform. --engine netns runs a plan's workers in namespaces: "
        "compute\n"
        "takes its predicted time, messages are real. --dilate auto stretches the emulated time "
        "until\n"
        "this machine keeps up with the platform. --slow, --fail and --kill mean the same as in\n"
        "`simulate`. No root is needed. docs/reference/emulation.md.\n"
        "\n"
        "Several plans with --engine netns are jobs: foreline runs each alone, then all at the "
        "same\n"
        "time, and prints the predictions beside them. docs/reference/jobs.md.",
    .examples = "foreline emulate tiny.json -o emulated.json\n",
    .often = "engine platform ranks steps dilate check output json",
    .run = cmd_emulate,
};
