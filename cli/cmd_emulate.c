/* emulate - the worker itself on a network that is not there. */
#include <stdbool.h>
#include <string.h>

#include "cli/command.h"
#include "cli/evaluate.h"
#include "cli/load.h"
#include "cli/report.h"
#include "core/trace.h"
#include "sim/smpi.h"

static const char *engine_name = "smpi", *output, *trace;
static bool json;

static const struct option_spec options[] = {
    {OPTION_STRING, "engine", &engine_name, "smpi", "smpi: the MPI worker on SimGrid's MPI"},
    {OPTION_STRING, "output", &output, "FILE", "write the measurement as JSON (also -o)"},
    {OPTION_STRING, "trace", &trace, "FILE", "write a timeline for ui.perfetto.dev"},
    {OPTION_FLAG, "json", &json, NULL, "print the measurement as JSON, SI units"},
    {.type = OPTION_END},
};

static enum status emulate(int argc, char **argv)
{
    enum status st;
    struct loaded_plan p = {0};
    struct timeline timeline = {0};
    struct measurement m = {0};

    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one plan file, got %d operands", argc);
    if (strcmp(engine_name, engine_smpi.name) != 0)
        return error_set(STATUS_USAGE, "--engine %s: expected smpi", engine_name);
    TRY(load_plan(argv[0], &p));
    const struct evaluation_context context = {
        .model = &p.model, .topology = &p.topology, .platform = p.platform};
    struct provenance by = command_provenance(p.plan.seed);
    TRY(evaluate_program(&p.program, &context, &engine_smpi, &m, &timeline));
    TRY(load_label(&p, argv[0], engine_name, &m));
    if (output)
        TRY(measurement_write(&m, output, &by));
    if (trace)
        TRY(trace_write(&p.program, &timeline, trace, &by));
    if (json)
        TRY(measurement_write(&m, "-", &by));
    else
        TRY(report_measurement(&m, &report_defaults, stdout));
out:
    measurement_free(&m);
    timeline_free(&timeline);
    loaded_plan_free(&p);
    return st;
}

const struct command command_emulate = {
    .name = "emulate",
    .synopsis = "PLAN",
    .summary = "run the real executor on a simulated network",
    .details =
        "Runs the executor and the MPI transport of `foreline run --transport mpi`, compiled\n"
        "for SimGrid's MPI, on the plan's platform: a second opinion on `simulate`, from the\n"
        "code that runs on clusters. Compute takes its predicted time, the network is\n"
        "SimGrid's. docs/emulate.md says where the two agree.",
    .options = options,
    .run = emulate,
};
