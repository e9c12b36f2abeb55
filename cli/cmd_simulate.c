/* simulate - predict what one iteration of a plan is like. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/evaluate.h"
#include "cli/load.h"
#include "cli/report.h"
#include "core/trace.h"
#include "sim/engine.h"
#include "sim/export.h"

static const char *engine_name = "simgrid";
static const char *output, *trace, *export;
static bool json;

static const struct option_spec options[] = {
    {OPTION_STRING, "engine", &engine_name, "simgrid|analytic",
     "simgrid: flows share links; analytic: no contention, fast"},
    {OPTION_STRING, "output", &output, "FILE", "write the measurement as JSON (also -o)"},
    {OPTION_STRING, "trace", &trace, "FILE", "write a timeline for ui.perfetto.dev"},
    {OPTION_STRING, "export", &export, "FORMAT=PATH",
     "write the program too: goal=FILE for LogGOPSim, atlahs=FILE, chakra=DIR (execution traces)"},
    {OPTION_FLAG, "json", &json, NULL, "print the measurement as JSON, SI units"},
    {.type = OPTION_END},
};

static enum status simulate(int argc, char **argv)
{
    enum status st;
    const struct engine *engine;
    const struct exporter *exporter = NULL;
    const char *exported = NULL;
    struct loaded_plan p = {0};
    struct timeline timeline = {0};
    struct measurement m = {0};

    if (argc != 1)
        return error_set(STATUS_USAGE, "expected one plan file, got %d operands", argc);
    if (engine_find(engine_name, &engine) != STATUS_OK)
        return error_context(STATUS_USAGE, "--engine");
    if (export && export_parse(export, &exporter, &exported) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    TRY(load_plan(argv[0], &p));
    const struct evaluation_context context = {
        .model = &p.model, .topology = &p.topology, .platform = p.platform};
    struct provenance by = command_provenance(p.plan.seed);
    if (exporter)
        TRY(exporter->write(&p.program, &p.topology, &context.options.collective, exported, &by));
    TRY(evaluate_program(&p.program, &context, engine, &m, &timeline));
    TRY(load_label(&p, argv[0], engine_name, &m));
    if (output)
        TRY(measurement_write(&m, output, &by));
    if (trace)
        TRY(trace_write(&p.program, &timeline, trace, &by));
    if (json)
        TRY(measurement_write(&m, "-", &by));
    else
        report_measurement(&m, stdout);
out:
    measurement_free(&m);
    timeline_free(&timeline);
    loaded_plan_free(&p);
    return st;
}

const struct command command_simulate = {
    .name = "simulate",
    .synopsis = "PLAN",
    .summary = "predict one training iteration of a plan",
    .details = "Runs the plan's program on a simulated platform and prints iteration time,\n"
               "throughput, the share of time that ranks are idle (bubble), per rank busy time,\n"
               "exposed communication, idle time and peak memory, and the busiest links.\n"
               "Exposed communication is time in which a rank computes nothing while a message\n"
               "or collective that it waits for is in flight.\n"
               "\n"
               "--export writes the same program for other simulators: docs/export.md.",
    .options = options,
    .run = simulate,
};
