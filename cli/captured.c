/* Captured scripts on a platform: the program of a capture goes the way of a plan's. */
#include "cli/captured.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/lower/captured.h"
#include "sim/engines.h"
#include "sim/export/export.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "study/network_options.h"
#include "study/paths.h"
#include "study/summary.h"

/* Everything that one call holds. */
struct captured {
    const struct arguments *a;
    const char *folder;
    const struct engine *engine;
    const struct exporter *exporter;
    const char *exported;
    double unit_s;
    struct capture capture;
    struct operator_times times;
    struct captured_tally tally;
    struct topology topology;
    char *platform;
    struct model model; /* of no ops: the type of the script's numbers */
    struct perturbation perturbation;
    struct faults faults;
    struct evaluation_context context;
    struct program program;
    struct measurement m;
    struct timeline timeline;
    struct provenance by;
};

bool cli_captured_given(const struct invocation *in)
{
    return in->operands == 1 && capture_is(in->operand[0]);
}

static enum status captured_options(struct captured *s)
{
    const struct arguments *a = s->a;
    const struct simulation_arguments *o = &a->sim;
    struct collective_options *c = &s->context.options.collective;
    PASS(arguments_check(a, TAKES(SIMULATE_CAPTURE)));
    if (!a->platform)
        return error_set(STATUS_USAGE, "a capture is simulated on a --platform");
    PASS(engine_find(o->engine, &s->engine));
    PASS(network_options_read(a, s->engine, &s->context.options));
    if (o->export && export_parse(o->export, &s->exporter, &s->exported, &s->unit_s) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    PASS(load_faults(o->slow, o->fail, o->kill, &s->perturbation, &s->faults));
    s->perturbation.jitter = o->jitter;
    s->perturbation.seed = s->by.seed = a->seed;
    c->algorithm = strcmp(o->collective, "auto") != 0 ? o->collective : NULL;
    c->nccl_protocols = o->nccl_protocols;
    return STATUS_OK;
}

/* The type of most of its FLOP. */
static enum data_type captured_type(const struct capture *c)
{
    double flop[DATA_TYPES] = {0};
    size_t most = 0;
    for (size_t k = 0; k < c->classes; k++)
        for (size_t i = 0; i < c->class[k].operators; i++)
            flop[c->class[k].operation[i].type] += c->class[k].operation[i].flop;
    for (size_t k = 1; k < DATA_TYPES; k++)
        most = flop[k] > flop[most] ? k : most;
    return (enum data_type)most;
}

static enum status captured_load(struct captured *s)
{
    const char *how = s->a->capture.operators;
    struct captured_options o = {.dry = !strcmp(how, "dry"), .serial = s->a->capture.serial};
    PASS(capture_read(s->folder, &s->capture));
    PASS(load_topology(s->a->platform, &s->topology, &s->platform));
    if (!o.dry && strcmp(how, "model") != 0) {
        PASS(operator_times_read(how, &s->times));
        o.times = &s->times;
    }
    PASS(capture_lower(&s->capture, &s->topology, &o, &s->program, &s->tally));
    s->model.dtype = captured_type(&s->capture);
    s->program.seed = s->a->seed;
    return s->perturbation.jitter > 0 || s->perturbation.n > 0
               ? perturb_program(&s->perturbation, &s->program)
               : STATUS_OK;
}

/* What one should know of it. */
static enum status captured_warn(struct captured *s)
{
    const struct captured_tally *t = &s->tally;
    char text[PERTURBATION_TEXT];
    if (!strcmp(s->a->capture.operators, "dry"))
        PASS(measurement_warn(&s->m, "compute is what the dry run took on the machine of the "
                                     "capture, whatever the platform's devices are"));
    else
        PASS(measurement_warn(&s->m,
                              "of %zu operators %zu have measured times, %zu those of their shape, "
                              "%zu are taken to be one pass over their bytes",
                              t->measured + t->shaped + t->bytes, t->measured, t->shaped,
                              t->bytes));
    if (*perturbation_print(&s->perturbation, text))
        PASS(measurement_warn(&s->m, "compute times are perturbed: %s", text));
    return STATUS_OK;
}

static enum status captured_label(struct captured *s)
{
    PASS(text_copy(s->engine->name, &s->m.engine));
    PASS(text_copy(s->folder, &s->m.plan));
    PASS(text_copy(s->capture.command, &s->m.model));
    return text_copy(s->a->platform, &s->m.platform);
}

static enum status captured_predict(struct captured *s)
{
    const struct arguments *a = s->a;
    const struct summary_rows rows = {a->sim.rank_rows, a->sim.link_rows, 0};
    const struct results r = {&s->program, &s->timeline, &s->m, &s->by};
    char text[REPORT_VERDICT];
    PASS(captured_options(s));
    PASS(captured_load(s));
    PASS(paths_read(a, &s->topology, &s->context.options.paths));
    if (arguments_given(a, "seed") && !arguments_given(a, "jitter") &&
        !paths_are_random(&s->topology, &s->context.options.paths))
        return error_set(STATUS_USAGE, "--seed has no effect without --jitter or --paths ecmp");
    s->context.model = &s->model;
    s->context.topology = &s->topology;
    s->context.platform = s->platform;
    s->context.options.faults = s->faults.n > 0 ? &s->faults : NULL;
    s->context.detailed = true;
    PASS(arguments_try_files(a));
    PASS(evaluate_program(&s->program, &s->context, s->engine, &s->m, &s->timeline));
    s->m.captured = true;
    PASS(captured_warn(s));
    PASS(captured_label(s));
    if (s->exporter) {
        const struct export_options o = {&s->context.options.collective, s->unit_s};
        PASS(export_check(&s->program));
        PASS(s->exporter->write(&s->program, &s->topology, &o, s->exported, &s->by));
    }
    PASS(results_write(&r, a, stderr));
    PASS(results_print(&r, a, &rows, arguments_prose(a), stderr));
    if (a->sim.fail_on_oom && measurement_overfull(&s->m) > 0)
        return error_set(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&s->m, text));
    return STATUS_OK;
}

enum status cli_captured_simulate(struct invocation *in)
{
    struct captured s = {.a = &in->a, .folder = in->operand[0], .by = in->by};
    enum status st = captured_predict(&s);
    measurement_free(&s.m);
    timeline_free(&s.timeline);
    program_free(&s.program);
    operator_times_free(&s.times);
    capture_free(&s.capture);
    topology_free(&s.topology);
    free(s.platform);
    perturbation_free(&s.perturbation);
    faults_free(&s.faults);
    return st;
}
