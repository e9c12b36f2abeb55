/* Captured scripts on a platform: the program of a capture goes the way of a plan's. */
#include "cli/captured.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/lower/captured.h"
#include "study/prediction.h"
#include "study/summary.h"

/* Everything that one call holds. */
struct captured {
    const struct arguments *a;
    const char *folder;
    struct capture capture;
    struct operator_times times;
    struct captured_tally tally;
    struct captured_map map;
    struct topology topology;
    char *platform;
    struct model model; /* of no ops: the type of the script's numbers */
    struct prediction predicted;
    struct provenance by;
};

bool cli_captured_given(const struct invocation *in)
{
    return in->operands == 1 && capture_is(in->operand[0]);
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
    struct prediction *p = &s->predicted;
    struct captured_options o = {
        .model = !strcmp(how, "model"), .dry = !strcmp(how, "dry"), .serial = s->a->capture.serial};
    PASS(capture_read(s->folder, &s->capture));
    PASS(load_topology(s->a->platform, &s->topology, &s->platform));
    if (!o.model && !o.dry && strcmp(how, "trace") != 0) {
        PASS(operator_times_read(how, &s->times));
        o.times = &s->times;
    }
    PASS(capture_lower(&s->capture, &s->topology, &o, &p->program, &s->tally, &s->map));
    s->model.dtype = captured_type(&s->capture);
    p->program.seed = s->a->seed;
    return p->perturbation.jitter > 0 || p->perturbation.n > 0
               ? perturb_program(&p->perturbation, &p->program)
               : STATUS_OK;
}

/* What one should know of it. */
static enum status captured_warn(struct captured *s)
{
    const struct captured_tally *t = &s->tally;
    char text[PERTURBATION_TEXT];
    if (!strcmp(s->a->capture.operators, "dry"))
        PASS(measurement_warn(
            &s->predicted.m,
            "compute times are those of the capture's machine, not of the platform's devices"));
    else
        PASS(measurement_warn(
            &s->predicted.m,
            "of the times of %zu operators, %zu are measured, %zu are estimated from the shapes of "
            "tensors, and %zu from the bytes that the operator reads and writes",
            t->measured + t->shaped + t->bytes, t->measured, t->shaped, t->bytes));
    if (*perturbation_print(&s->predicted.perturbation, text))
        PASS(measurement_warn(&s->predicted.m, "compute times are perturbed: %s", text));
    return STATUS_OK;
}

static enum status captured_label(struct captured *s)
{
    PASS(text_copy(s->predicted.engine->name, &s->predicted.m.engine));
    PASS(text_copy(s->folder, &s->predicted.m.plan));
    PASS(text_copy(s->capture.command, &s->predicted.m.model));
    return text_copy(s->a->platform, &s->predicted.m.platform);
}

static enum status captured_predict(struct captured *s)
{
    const struct arguments *a = s->a;
    struct prediction *p = &s->predicted;
    const struct summary_rows rows = {.ranks = a->sim.rank_rows,
                                      .links = a->sim.link_rows,
                                      .script = &p->program,
                                      .script_on = &p->context};
    const struct results r = {&p->program, &p->timeline, &p->m, &s->by};
    char text[REPORT_VERDICT];
    PASS(prediction_set(a, TAKES(SIMULATE_CAPTURE), p));
    if (!a->platform)
        return error_set(STATUS_USAGE, "simulating a capture needs --platform P");
    PASS(captured_load(s));
    PASS(prediction_place(&s->model, &s->topology, s->platform, p));
    s->by.seed = a->seed;
    PASS(arguments_try_files(a));
    PASS(evaluate_program(&p->program, &p->context, p->engine, &p->m, &p->timeline));
    PASS(captured_sites(&s->capture, &s->topology, &p->program, &s->map, &p->timeline, &p->m));
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
    struct captured s = {.a = &in->a, .folder = in->operand[0], .by = in->by};
    enum status st = captured_predict(&s);
    prediction_free(&s.predicted);
    operator_times_free(&s.times);
    captured_map_free(&s.map);
    capture_free(&s.capture);
    topology_free(&s.topology);
    free(s.platform);
    return st;
}
