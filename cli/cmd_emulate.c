/* emulate - the worker itself on a network that is not there. */
#include <stdbool.h>
#include <string.h>

#include "cli/command.h"
#include "core/trace.h"
#include "sim/smpi.h"
#include "study/emulate_network.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/summary.h"

struct labelled {
    struct invocation *in;
    const struct loaded_plan *p;
};

static enum status report(void *argument, struct measurement *m, const struct timeline *t)
{
    enum status st;
    const struct labelled *l = argument;
    const struct arguments *a = &l->in->a;
    TRY(load_label(l->p, l->in->operand[0], a->engine, m));
    if (a->output)
        TRY(measurement_write(m, a->output, &l->in->by));
    if (a->trace)
        TRY(trace_write(&l->p->program, t, a->trace, &l->in->by));
    if (a->json)
        TRY(measurement_write(m, "-", &l->in->by));
    else
        TRY(summary_print(m, &summary_rows, stdout, stderr));
out:
    return st;
}

/* In which of its ways the command is called. */
static uint64_t way_of(const struct invocation *in)
{
    const struct arguments *a = &in->a;
    if (a->check)
        return TAKES(EMULATE_CHECK);
    if (a->platform)
        return a->shell ? TAKES(EMULATE_SHELL) : TAKES(EMULATE_COMMAND);
    if (a->shell && in->operands == 0)
        return TAKES(EMULATE_JOIN);
    return !strcmp(a->engine, "netns") ? TAKES(EMULATE_NETNS) : TAKES(EMULATE_SMPI);
}

static enum status emulate_netns(struct labelled *l, const struct emulate_options *base)
{
    enum status st;
    const struct arguments *a = &l->in->a;
    struct loaded_plan *p = (struct loaded_plan *)l->p;
    struct perturbation slower = {0};
    struct faults faults = {0};
    struct emulate_options o = *base;
    TRY(load_faults(a->slow, a->fail, a->kill, &slower, &faults));
    if (slower.n > 0 && o.real) {
        st = error_set(STATUS_USAGE, "--slow: real compute takes the time that it takes");
        goto out;
    }
    if (slower.n > 0)
        TRY(perturb_program(&slower, &p->program));
    o.faults = &faults;
    if (faults.n > 0) {
        o.steps = 1;
        o.warmup = a->warmup > 0 ? a->warmup : 1;
    }
    TRY(emulate_plan(p, &o, report, l));
out:
    perturbation_free(&slower);
    faults_free(&faults);
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
