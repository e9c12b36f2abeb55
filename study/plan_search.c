/* `--algorithm auto`: the search within the constraints that are given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/units.h"
#include "core/cost/op_costs.h"
#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/frameworks/port.h"
#include "study/frameworks/setup.h"
#include "study/paths.h"
#include "study/planning.h"

enum {
    SAMPLES_PER_DEVICE = 8,  /* of an iteration, when nothing is said about it */
    MOST_LOWERED = 40000000, /* ops of all plans tried, some 20 s of CPU time; finalists on top */
    MOST_DEVICES = 2048,     /* for SimGrid: its routes take long to find on larger platforms */
    MOST_EFFORT = 1000000    /* ops and messages of all finalists: a few seconds of SimGrid */
};

enum status plan_reserve(const struct arguments *a, const struct device_type *type, int64_t *out)
{
    double memory = (double)type->memory_bytes, bytes = (double)device_reserve(type);
    char *end = NULL;
    if (a->reserve) {
        double share = strtod(a->reserve, &end);
        if (end != a->reserve && !strcmp(end, "%") && share >= 0 && share <= 100)
            bytes = share / 100 * memory;
        else if (units_parse(UNIT_BYTES, a->reserve, &bytes) != STATUS_OK)
            return error_set(STATUS_USAGE,
                             "--reserve: got '%.40s', expected a size such as 2GiB or a share of "
                             "the memory such as 5%%",
                             a->reserve);
    }
    *out = bytes < memory ? (int64_t)bytes : type->memory_bytes;
    return STATUS_OK;
}

size_t plan_samples(const struct arguments *a, const struct topology *t)
{
    size_t replicas = a->replicas ? a->replicas : 1;
    size_t unit = (a->microbatches ? a->microbatches : replicas) *
                  (a->microbatch_size ? a->microbatch_size : 1),
           usual = SAMPLES_PER_DEVICE * t->n;
    if (a->batch)
        return a->batch;
    if ((a->microbatches && a->microbatch_size) || usual < unit)
        return unit;
    return usual - usual % unit;
}

/* Why most of the refused plans are refused; else the rule by which foreline run refuses plans,
 * where that is known before there is one. */
static void name_refusal(const struct auto_result *r, const struct refusals *all,
                         char refused[REFUSALS_WORDS])
{
    const struct rule_view none = {0};
    char text[RULE_TEXT];
    refusals_most(all, refused);
    if (r->not_run && !*refused)
        snprintf(refused, REFUSALS_WORDS, "%s", rule_print(r->not_run, &none, true, text));
}

/* Leave out of the ranking what breaks a constraint. The search keeps constraints on shapes by
 * itself; the baselines, which it tries for comparison, need not, and a plan that breaks what the
 * user asked for is no alternative however fast it is. */
static enum status keep_constraints(const struct arguments *a, struct auto_result *r,
                                    const char *refused)
{
    size_t kept = 0;
    const char *broken = NULL, *first = NULL;
    for (size_t i = 0; i < r->n; i++) {
        broken = plan_breaks(&r->candidate[i].plan, a);
        first = first ? first : broken;
        if (broken)
            plan_free(&r->candidate[i].plan);
        else
            r->candidate[kept++] = r->candidate[i];
    }
    r->n = kept;
    if (kept == 0)
        return error_set(STATUS_INFEASIBLE,
                         "no plan satisfies --%s%s%s. Drop this option or relax the others", first,
                         *refused ? "; foreline run does not support: " : "", refused);
    return STATUS_OK;
}

/* What the arguments leave open is searched. */
static struct auto_request request_of(const struct arguments *a, const struct topology *t,
                                      const volatile int *stop)
{
    return (struct auto_request){
        .fixed = plan_request(a),
        .samples = plan_samples(a, t),
        .finalists = a->search.finalists ? a->search.finalists : 1,
        .lowered = MOST_LOWERED,
        .time_limit_s = a->search.time_limit_s,
        .effort = MOST_EFFORT,
        .executable = a->search.executable,
        .stop = stop,
    };
}

static double plan_search_at_least_1(size_t n)
{
    return n > 0 ? (double)n : 1;
}

struct constraint {
    const char *name;
    size_t value, most;
};
enum { CONSTRAINTS = STRATEGY_KNOBS + 6 };

/* Numbers that may be given: stages, degrees of which there are no more than devices, and sizes. */
static size_t list_constraints(const struct arguments *a, const struct model *m,
                               const struct topology *t, struct constraint all[CONSTRAINTS])
{
    const struct partition_request r = plan_request(a);
    size_t n = 0;
    all[n++] = (struct constraint){"stages", a->stages,
                                   partition_most_stages(m, a->tensor_parallel, r.layers)};
    all[n++] = (struct constraint){"pipeline-parallel", a->pipeline, t->n};
    for (const struct strategy_knob *k = strategy_knobs; k < strategy_knobs + STRATEGY_KNOBS; k++) {
        if (k->degree)
            all[n++] = (struct constraint){k->option,
                                           (size_t)strategy_value(k, &a->shared, &a->own), t->n};
    }
    all[n++] = (struct constraint){"chunks", a->chunks, SIZE_MAX};
    all[n++] = (struct constraint){"microbatches", a->microbatches, SIZE_MAX};
    all[n++] = (struct constraint){"microbatch-size", a->microbatch_size, SIZE_MAX};
    all[n++] = (struct constraint){"batch", a->batch, SIZE_MAX};
    return n;
}

/* Why the search has found no shape at all: a constraint that is impossible by itself, else all
 * that are given, and what was said of a plan that cannot be run. */
static enum status name_constraints(const struct arguments *a, const struct model *m,
                                    const struct topology *t, size_t samples, bool launched,
                                    const char *refused)
{
    struct constraint all[CONSTRAINTS];
    char given[256] = "";
    size_t constraints = list_constraints(a, m, t, all);
    for (size_t k = 0, n = 0; k < constraints && n < sizeof given; k++) {
        if (all[k].value > all[k].most)
            return error_set(STATUS_INFEASIBLE,
                             "--%s: got %zu, expected at most %zu for %s on the %zu devices of %s",
                             all[k].name, all[k].value, all[k].most, m->name, t->n, t->name);
        if (all[k].value)
            n += (size_t)snprintf(given + n, sizeof given - n, "%s--%s %zu", n ? ", " : " with ",
                                  all[k].name, all[k].value);
    }
    double ranks = plan_search_at_least_1(a->stages) / plan_search_at_least_1(a->chunks),
           devices = (a->pipeline ? (double)a->pipeline : ranks) *
                     plan_search_at_least_1(a->replicas) *
                     plan_search_at_least_1(a->tensor_parallel);
    if (devices > (double)t->n)
        return error_set(STATUS_INFEASIBLE, "%s need %.0f devices, but platform %s has %zu",
                         given + strlen(" with "), devices, t->name, t->n);
    size_t n = strlen(given);
    if (a->schedule)
        snprintf(given + n, sizeof given - n, "%s--schedule %.40s", n ? ", " : " with ",
                 a->schedule);
    return error_set(
        STATUS_INFEASIBLE,
        "no plan of %s on the %zu devices of %s trains %zu samples per iteration%s%s%s%s", m->name,
        t->n, t->name, samples, given,
        !*refused  ? ""
        : launched ? "; "
                   : "; foreline run does not support: ",
        refused,
        *refused && launched ? ". To search plans for simulation only, add --no-launchable" : "");
}

/* Is the plan to be one that a launcher starts? Who names a framework that has one wants that, if
 * the model is one of layers, as launchers count them. STATUS_USAGE: it is asked for, and there is
 * no launcher. */
static enum status find_launcher(const struct arguments *a, const struct model *m, bool *launched)
{
    struct setup_layers layers = {0};
    struct framework f = framework_of(NULL);
    if (a->framework)
        PASS(framework_parse(a->framework, &f));
    *launched = a->search.launchable;
    if (*launched && !f.launcher)
        return error_set(STATUS_USAGE,
                         "--launchable: plans of %s can be launched only by foreline run; choose "
                         "another framework with --framework",
                         f.name);
    if (*launched || arguments_given(a, "launchable") || !arguments_given(a, "framework") ||
        !f.launcher || a->search.executable)
        return STATUS_OK;
    PASS(setup_layers(m, &layers));
    free(layers.first);
    *launched = layers.n > 0;
    return STATUS_OK;
}

/* Why there is no plan at all. */
static enum status explain_none(const struct arguments *a, const struct evaluation_context *context,
                                const struct auto_request *request,
                                const struct auto_result *result, bool launched,
                                const char *refused)
{
    bool timed = request->time_limit_s > 0;
    if (request->stop && *request->stop)
        return error_set(STATUS_INFEASIBLE, "interrupted before a plan was found");
    if (result->interrupted && !*refused)
        return error_set(
            STATUS_INFEASIBLE, "the search reached its %s limit before it found a plan; %s",
            timed ? "time" : "work",
            timed ? "raise --time-limit" : "fix a degree of parallelism, such as --tp 8");
    return name_constraints(a, context->model, context->topology, request->samples, launched,
                            refused);
}

/* On platforms of more than MOST_DEVICES devices the finalists are looked at by the analytic engine
 * too, because SimGrid would need minutes to find its routes; and where flows choose among parallel
 * paths, because then all ranks are simulated. */
static enum status plan_search_for(const struct arguments *a, struct evaluation_context *context,
                                   const volatile int *stop, bool only_fits,
                                   struct auto_result *out)
{
    enum status st;
    const struct topology *t = context->topology;
    struct topology nodes = *t; /* the same with its nodes numbered, which are all it owns */
    bool launched = false;
    struct evaluator evaluator;
    struct auto_request request = request_of(a, t, stop);
    request.only_fits = only_fits;
    struct auto_result result = {0};
    int64_t *reserve_bytes = NULL;
    struct refusals all = {0};
    char refused[REFUSALS_WORDS] = "";
    nodes.node_of = NULL;
    TRY(plan_check_model(a, context->model));
    TRY(find_launcher(a, context->model, &launched));
    bool placed = request.fixed.devices == DEVICES_FRAMEWORK ||
                  request.fixed.devices == DEVICES_SPREAD; /* a cut of a graph is on any devices */
    request.in_order = launched || placed;                 /* launchers run no others */
    if (launched) {
        TRY(topology_find_nodes(&nodes));
        context->topology = &nodes;
        context->launched = a->model;
        context->launches = port_launches;
    }
    TRY(ARRAY_NEW(reserve_bytes, t->types));
    for (size_t k = 0; k < t->types; k++)
        TRY(plan_reserve(a, &t->type[k], &reserve_bytes[k]));
    request.reserve_bytes = context->reserve_bytes = reserve_bytes;
    context->refused = a->search.executable || launched ? &all : NULL;
    context->device = a->launch.device;
    context->stop = stop;
    request.best_s = context->best_s;
    context->workers = a->grid.workers;
    if (t->n > MOST_DEVICES || !paths_are_ideal(t, &context->options.paths))
        context->engine = engine_quick();
    TRY(op_costs_open(context->model, &context->costs));
    evaluator = evaluator_make(context);
    st = auto_search(context->model, context->topology, &request, &evaluator, &result);
    name_refusal(&result, &all, refused);
    if (st == STATUS_INFEASIBLE && result.n == 0)
        st = explain_none(a, context, &request, &result, launched, refused);
    TRY(st);
    TRY(only_fits ? STATUS_OK : keep_constraints(a, &result, refused));
    MOVE(out, result);
out:
    op_costs_close(context->costs);
    context->costs = NULL;
    context->topology = t;
    context->launches = NULL;
    context->stop = NULL;
    context->reserve_bytes = NULL;
    context->refused = NULL;
    free(nodes.node_of);
    free(reserve_bytes);
    auto_result_free(&result);
    return st;
}

enum status plan_search(const struct arguments *a, struct evaluation_context *context,
                        const volatile int *stop, struct auto_result *out)
{
    struct auto_result found = {0};
    PASS(plan_search_for(a, context, stop, false, &found));
    enum status st =
        plan_is_by_campaign(a) ? plan_rank_in_campaign(a, context, stop, &found) : STATUS_OK;
    if (st == STATUS_OK)
        MOVE(out, found);
    auto_result_free(&found);
    return st;
}

enum status plan_could_fit(const struct arguments *a, struct evaluation_context *context,
                           const volatile int *stop, bool *out)
{
    struct auto_result found = {0};
    enum status st = plan_search_for(a, context, stop, true, &found);
    *out = st == STATUS_OK;
    auto_result_free(&found);
    return st == STATUS_NOMEM ? st : STATUS_OK;
}

/* No interrupt: points of experiments are stopped between points, not inside one. */
enum status plan_make(const struct arguments *a, struct evaluation_context *context,
                      struct plan *out)
{
    enum status st;
    struct arguments settled = *a;
    struct auto_result found = {0};
    if (plan_is_published(a))
        return plan_of_objective(a, context->model, context->topology, out);
    TRY(plan_settle(&settled));
    settled.framework = plan_choose_framework(a, context->model, context->topology).name;
    if (strcmp(settled.algorithm, "auto") != 0) {
        st = plan_by_algorithm(&settled, context->model, context->topology, out);
        goto out;
    }
    TRY(plan_search(&settled, context, NULL, &found));
    MOVE(out, found.candidate[0].plan);
out:
    auto_result_free(&found);
    return st;
}
