/* Options about parallel paths. */
#include "study/paths.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/statistics.h"
#include "core/engine/flows.h"
#include "study/pool.h"

struct paths_options paths_of(const struct arguments *a)
{
    struct paths_options o = {.queue_pairs = a->sim.queue_pairs,
                              .seed = arguments_given(a, "seed") ? a->seed : 0};
    if (a->sim.paths && paths_find(a->sim.paths, &o.policy) != STATUS_OK)
        o.policy = PATHS_UNSAID; /* the table takes no other words */
    return o;
}

bool paths_are_ideal(const struct topology *t, const struct paths_options *o)
{
    enum paths_policy policy;
    return flows_policy(t, o, &policy) == STATUS_OK && policy == PATHS_IDEAL;
}

bool paths_are_random(const struct topology *t, const struct paths_options *o)
{
    enum paths_policy policy;
    return flows_policy(t, o, &policy) == STATUS_OK && paths_are_hashed(policy);
}

enum status paths_read(const struct arguments *a, const struct topology *t,
                       struct paths_options *out)
{
    struct paths_options o = paths_of(a);
    enum paths_policy policy;
    if (flows_policy(t, &o, &policy) != STATUS_OK)
        return error_context(STATUS_USAGE, "--paths");
    if (arguments_given(a, "queue-pairs") && !paths_are_apart(policy))
        return error_set(STATUS_USAGE, "--queue-pairs has no effect with --paths %s",
                         paths_name(policy));
    if (arguments_given(a, "seeds") && !paths_are_hashed(policy))
        return error_set(STATUS_USAGE, "--seeds needs --paths ecmp, valiant or ugal (got %s)",
                         paths_name(policy));
    if (arguments_given(a, "seeds") && arguments_given(a, "jitter"))
        return error_set(STATUS_USAGE, "--seeds and --jitter cannot be combined; drop one");
    *out = o;
    return STATUS_OK;
}

struct paths_sampling {
    const struct plan *plan;
    const struct evaluation_context *context;
    const struct engine *engine;
};

static enum status paths_take_sample(void *context, size_t i, void *slot)
{
    const struct paths_sampling *s = context;
    struct evaluation_context c = *s->context;
    struct measurement m = {0};
    c.options.paths.seed += i;
    c.options.watch = NULL;
    c.no_links = c.simulated_only = true;
    c.detailed = false;
    PASS(evaluate_plan(s->plan, &c, s->engine, &m, NULL, NULL));
    *(double *)slot = m.iteration_s;
    measurement_free(&m);
    return STATUS_OK;
}

enum status paths_sample(const struct plan *plan, const struct evaluation_context *context,
                         const struct engine *engine, size_t seeds, double *iteration_s,
                         uint64_t *middle)
{
    enum status st;
    struct paths_sampling s = {plan, context, engine};
    const uint64_t first = context->options.paths.seed; /* which *middle may be */
    double *copy = NULL;
    TRY(engine_load(engine));
    TRY(pool_for(context->workers, seeds, sizeof *iteration_s, iteration_s, paths_take_sample, &s));
    TRY(ARRAY_COPY(copy, iteration_s, seeds));
    double median_s = select_nth(copy, seeds, (seeds - 1) / 2);
    for (size_t k = seeds; k-- > 0;)
        if (iteration_s[k] <= median_s && iteration_s[k] >= median_s)
            *middle = first + k;
out:
    free(copy);
    return st;
}
