/* One plan, simulated as options say: `foreline simulate` and foreline_simulate(). */
#include "study/prediction.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "study/expected.h"
#include "study/memory_answer.h"
#include "study/network_options.h"
#include "study/paths.h"
#include "study/summary.h"
#include "study/warn.h"

enum status prediction_set(const struct arguments *a, taker_set as, struct prediction *out)
{
    const struct simulation_arguments *o = &a->sim;
    struct collective_options *c = &out->context.options.collective;
    out->a = a;
    PASS(arguments_check(a, as));
    PASS(engine_find(o->engine, &out->engine));
    PASS(network_options_read(a, out->engine, &out->context.options));
    if (o->export &&
        export_parse(o->export, &out->exporter, &out->exported, &out->unit_s) != STATUS_OK)
        return error_context(STATUS_USAGE, "--export");
    PASS(load_faults(o->slow, o->fail, o->kill, &out->perturbation, &out->faults));
    out->perturbation.jitter = o->jitter;
    out->perturbation.seed = a->seed;
    c->algorithm = strcmp(o->collective, "auto") != 0 ? o->collective : NULL;
    c->nccl_protocols = o->nccl_protocols;
    if (o->algorithm_file) {
        PASS(msccl_read(o->algorithm_file, &out->steps));
        c->steps = &out->steps;
    }
    return STATUS_OK;
}

enum status prediction_place(const struct model *m, const struct topology *t, const char *platform,
                             struct prediction *out)
{
    struct evaluation_context *c = &out->context;
    PASS(paths_read(out->a, t, &c->options.paths));
    if (arguments_given(out->a, "seed") && !arguments_given(out->a, "jitter") &&
        !paths_are_random(t, &c->options.paths))
        return error_set(STATUS_USAGE, "--seed has no effect without --jitter or --paths ecmp");
    c->model = m;
    c->topology = t;
    c->platform = platform;
    c->options.faults = out->faults.n > 0 ? &out->faults : NULL;
    c->detailed = true;
    c->timeline_of_few = !out->a->trace;
    return STATUS_OK;
}

enum status prediction_begin(struct loaded_plan *p, struct prediction *out)
{
    const struct arguments *a = out->a;
    out->p = p;
    PASS(prediction_place(&p->model, &p->topology, p->platform, out));
    if (a->framework && plan_set_framework(&p->plan, a->framework) != STATUS_OK)
        return error_context(STATUS_USAGE, "--framework");
    if (a->train_tokens > 0 && a->run.forward_only)
        return error_set(STATUS_USAGE,
                         "--train-tokens has no effect with --forward-only, which does not train");
    if (a->train_tokens > 0 && p->model.tokens_per_sample <= 0)
        return error_set(STATUS_USAGE,
                         "--train-tokens has no effect: model '%s' does not process tokens",
                         p->model.name);
    out->context.perturbation =
        arguments_given(a, "jitter") || a->sim.slow ? &out->perturbation : NULL;
    out->context.forward_only = a->run.forward_only;
    out->seed = arguments_given(a, "jitter") || arguments_given(a, "seed") ? a->seed : p->plan.seed;
    return STATUS_OK;
}

/* Times of several hashes; all else is of the one in the middle. */
static enum status evaluate_seeds(struct prediction *s, const struct engine *engine)
{
    enum status st;
    size_t seeds = s->a->sim.seeds;
    double *iteration_s = NULL;
    uint64_t *seed = &s->context.options.paths.seed, first = *seed;
    TRY(ARRAY_NEW(iteration_s, seeds));
    TRY(paths_sample(&s->p->plan, &s->context, engine, seeds, iteration_s, seed));
    TRY(evaluate_plan(&s->p->plan, &s->context, engine, &s->m, &s->program,
                      s->a->trace || s->a->timeline ? &s->timeline : NULL));
    struct program all = s->program; /* borrows */
    all.microbatches = s->p->plan.microbatches;
    TRY(measurement_set_iterations(&s->m, &all, iteration_s, seeds));
    TRY(measurement_warn(&s->m,
                         "flows are hashed to random paths. The iteration time is the median of "
                         "seeds %llu to %llu; other figures are those of seed %llu",
                         (unsigned long long)first, (unsigned long long)first + seeds - 1,
                         (unsigned long long)*seed));
out:
    free(iteration_s);
    return st;
}

enum status prediction_evaluate(struct prediction *s, const struct engine *engine, bool whole)
{
    measurement_free(&s->m);
    program_free(&s->program);
    s->engine = engine;
    s->context.whole = s->a->sim.no_fold || whole;
    if (s->a->sim.seeds > 1)
        return evaluate_seeds(s, engine);
    PASS(evaluate_plan(&s->p->plan, &s->context, engine, &s->m, &s->program,
                       s->a->trace || s->a->timeline ? &s->timeline : NULL));
    if (!paths_are_random(&s->p->topology, &s->context.options.paths))
        return STATUS_OK;
    return measurement_warn(&s->m,
                            "flows are hashed to random paths, so a seed other than %llu gives "
                            "another time; measure the spread with --seeds 32",
                            (unsigned long long)s->context.options.paths.seed);
}

/* A file of an algorithm that fits no collective of the plan changes nothing. */
static enum status warn_of_algorithm_file(struct prediction *s)
{
    const struct steps_algorithm *steps = &s->steps;
    for (size_t k = 0; k < s->m.calls; k++)
        if (s->m.call[k].algorithm && strstr(s->m.call[k].algorithm, collective_file.name))
            return STATUS_OK;
    return steps->path
               ? measurement_warn(&s->m,
                                  "--algorithm-file %s has no effect: the plan has no %s among %u "
                                  "devices whose size the file lists",
                                  steps->path, collective_kind_name[steps->kind], steps->ranks)
               : STATUS_OK;
}

/* Of trainings: what is expected is of those. */
static enum status take_expected(const struct prediction *s, struct measured_expectation *out,
                                 struct measured_expectation *memory)
{
    struct expected e;
    char text[EXPECTED_TEXT];
    if (s->m.forward_only)
        return STATUS_OK;
    const struct memory_error peak = memory_error_of(&s->p->plan);
    *memory = (struct measured_expectation){.median = peak.median, .runs = peak.runs};
    if (!expected_find(&s->p->plan, s->context.model, s->context.topology, &e))
        return STATUS_OK;
    *out = (struct measured_expectation){e.median, e.nine_in_ten, e.runs, NULL};
    return text_copy(expected_text(&e, text), &out->of);
}

enum status prediction_finish(struct prediction *s, const char *path)
{
    const struct plan *plan = &s->p->plan;
    PASS(take_expected(s, &s->m.expected, &s->m.expected_memory));
    PASS(warn_simulation(plan, &s->program, &s->context, &s->m)); /* names algorithms */
    PASS(warn_of_algorithm_file(s));
    if (path)
        return load_label(s->p, path, s->engine->name, &s->m);
    PASS(text_copy(s->engine->name, &s->m.engine));
    if (plan->framework)
        PASS(text_copy(plan->framework, &s->m.framework));
    PASS(text_copy(plan->model, &s->m.model));
    return text_copy(plan->platform, &s->m.platform);
}

enum status prediction_write(const struct prediction *s, const struct provenance *by, FILE *notes)
{
    const struct results r = {&s->program, &s->timeline, &s->m, by};
    const struct export_options o = {&s->context.options.collective, s->unit_s};
    if (s->exporter) {
        PASS(export_check(&s->program));
        PASS(s->exporter->write(&s->program, s->context.topology, &o, s->exported, by));
    }
    return results_write(&r, s->a, notes);
}

void prediction_free(struct prediction *s)
{
    measurement_free(&s->m);
    timeline_free(&s->timeline);
    program_free(&s->program);
    perturbation_free(&s->perturbation);
    faults_free(&s->faults);
    steps_free(&s->steps);
    *s = (struct prediction){0};
}
