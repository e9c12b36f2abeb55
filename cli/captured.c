/* Captured scripts on a platform: the program of a capture goes the way of a plan's. */
#include "cli/captured.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "study/captured.h"
#include "study/prediction.h"
#include "study/summary.h"
#include "topologies/catalogue.h"

/* Everything that one call holds. */
struct captured_call {
    const struct arguments *a;
    const char *folder;
    struct captured c;
    struct topology topology;
    char *platform;
    struct prediction predicted;
    struct provenance by;
};

bool cli_captured_given(const struct invocation *in)
{
    return in->operands == 1 && capture_is(in->operand[0]);
}

static enum status captured_begin(struct captured_call *s)
{
    struct prediction *p = &s->predicted;
    PASS(load_topology(s->a->platform, &s->topology, &s->platform));
    PASS(captured_load(s->folder, s->a, &s->topology, &s->c, &p->program));
    p->program.seed = s->a->seed;
    return p->perturbation.jitter > 0 || p->perturbation.n > 0
               ? perturb_program(&p->perturbation, &p->program)
               : STATUS_OK;
}

static bool captured_on_gpu(const struct captured_call *s)
{
    return gpu_of_type(topology_type(&s->topology, 0)->name);
}

/* How far off such predictions were: docs/results/2026-11-29-capture.md. */
static const char *captured_accuracy(const struct captured_call *s)
{
    return !strcmp(s->a->capture.operators, "dry") && !captured_on_gpu(s)
               ? "dry runs predicted the steps of 12 scripts on 2 quiet cores 7 % off in the "
                 "median, those of ZeRO-1 43 % (gloo); to measure yours: foreline validate "
                 "--ranks N -- python3 SCRIPT"
               : "not known: captures were not compared with real runs on such devices; to compare "
                 "on this machine's cores: foreline validate --ranks N -- python3 SCRIPT";
}

/* What the capture lacks on the devices that it is to run on. */
static enum status captured_warn_device(struct captured_call *s)
{
    const struct captured_tally *t = &s->c.tally;
    bool gpu = captured_on_gpu(s);
    if (gpu && !strcmp(s->c.capture.device, "cpu"))
        return measurement_warn(
            &s->predicted.m,
            "the script was captured with --device cpu, so GPU kernels that it or PyTorch would "
            "choose are missing. Try foreline capture --device cuda, which needs no GPU");
    if (!gpu && t->shaped + t->bytes > 0 && strcmp(s->a->capture.operators, "dry") != 0)
        return measurement_warn(
            &s->predicted.m,
            "compute times are estimated. To use times measured on this machine, capture the "
            "script again with --profile, then add --operators %s/operators.json to this command",
            s->folder);
    return STATUS_OK;
}

/* What one should know of it. */
static enum status captured_warn(struct captured_call *s)
{
    const struct captured_tally *t = &s->c.tally;
    char text[PERTURBATION_TEXT];
    if (!strcmp(s->a->capture.operators, "dry"))
        PASS(measurement_warn(&s->predicted.m, "compute times were measured on the machine of the "
                                               "capture, not on the platform's devices"));
    else
        PASS(measurement_warn(
            &s->predicted.m,
            "%zu operators: %zu have measured times, %zu have times estimated from the shapes of "
            "tensors, and %zu from the bytes that they read and write",
            t->measured + t->shaped + t->bytes, t->measured, t->shaped, t->bytes));
    PASS(captured_warn_device(s));
    if (*perturbation_print(&s->predicted.perturbation, text))
        PASS(measurement_warn(&s->predicted.m, "compute times are perturbed: %s", text));
    return STATUS_OK;
}

static enum status captured_label(struct captured_call *s)
{
    PASS(text_copy(s->predicted.engine->name, &s->predicted.m.engine));
    PASS(text_copy(s->folder, &s->predicted.m.plan));
    PASS(text_copy(s->c.capture.command, &s->predicted.m.model));
    return text_copy(s->a->platform, &s->predicted.m.platform);
}

static enum status captured_predict(struct captured_call *s)
{
    const struct arguments *a = s->a;
    struct prediction *p = &s->predicted;
    struct summary_rows rows = {.ranks = a->sim.rank_rows,
                                .links = a->sim.link_rows,
                                .script = &p->program,
                                .script_on = &p->context};
    const struct results r = {&p->program, &p->timeline, &p->m, &s->by};
    char text[REPORT_VERDICT];
    PASS(prediction_set(a, TAKES(SIMULATE_CAPTURE), p));
    if (!a->platform)
        return error_set(STATUS_USAGE, "simulating a capture needs --platform P");
    PASS(captured_begin(s));
    rows.accuracy = captured_accuracy(s);
    PASS(prediction_place(&s->c.model, &s->topology, s->platform, p));
    s->by.seed = a->seed;
    PASS(arguments_try_files(a));
    PASS(evaluate_program(&p->program, &p->context, p->engine, &p->m, &p->timeline));
    PASS(captured_sites(&s->c.capture, &s->topology, &p->program, &s->c.map, &p->timeline, &p->m));
    p->m.captured = true;
    PASS(captured_warn(s));
    PASS(captured_label(s));
    PASS(prediction_write(p, &s->by, stderr));
    PASS(results_print(&r, a, &rows, arguments_prose(a), stderr));
    if (a->sim.fail_on_oom && measurement_overfull(&p->m) > 0)
        return error_set(STATUS_INFEASIBLE, "out of memory: %s", report_lack(&p->m, text));
    return STATUS_OK;
}

enum status cli_captured_simulate(struct invocation *in)
{
    struct captured_call s = {.a = &in->a, .folder = in->operand[0], .by = in->by};
    enum status st = captured_predict(&s);
    prediction_free(&s.predicted);
    captured_free(&s.c);
    topology_free(&s.topology);
    free(s.platform);
    return st;
}
