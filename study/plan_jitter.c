/* The ranking of a search in noise: every finalist and baseline is simulated with the same samples
 * of jitter, and what counts is the mean or the worst of its iterations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "study/planning.h"
#include "study/pool.h"

/* That all samples of all plans may have together: a minute or two of SimGrid. */
static const double most_ops = 1e7;

struct plan_jitter plan_jitter_of(const struct auto_candidate *c, const struct arguments *a)
{
    struct plan_jitter j = {.seed = a->seed};
    for (size_t i = 0; i < a->search.samples; i++) {
        j.mean_s += c->sampled_s[i] / (double)a->search.samples;
        if (c->sampled_s[i] > j.worst_s) {
            j.worst_s = c->sampled_s[i];
            j.seed = a->seed + i;
        }
    }
    return j;
}

/* What an iteration takes when the compute times have the jitter of one seed. */
struct sampling {
    const struct evaluation_context *context;
    const struct plan *plan;
    double jitter;
    uint64_t seed; /* of sample 0 */
};

static enum status sample(void *context, size_t i, void *slot)
{
    const struct sampling *s = context;
    const struct perturbation by = {.jitter = s->jitter, .seed = s->seed + i};
    struct evaluation_context c = *s->context;
    struct measurement m = {0};
    c.perturbation = &by;
    c.no_links = true;
    PASS(evaluate_plan(s->plan, &c, evaluate_thorough_engine(&c), &m, NULL, NULL));
    *(double *)slot = m.iteration_s;
    measurement_free(&m);
    return STATUS_OK;
}

/* out[a->samples], all 0 at first: seconds that `simulate --jitter` says with the seeds from
 * a->seed on. Samples of one seed are of the same noise whatever the plan is, for an op's factor
 * follows from what the op is (core/data/perturb.h). */
static enum status take_samples(const struct evaluation_context *context, const struct plan *plan,
                                const struct arguments *a, double *out)
{
    struct sampling s = {context, plan, a->sim.jitter, a->seed};
    PASS(engine_load(evaluate_thorough_engine(context)));
    return pool_for(context->workers, a->search.samples, sizeof *out, out, sample, &s);
}

/* Sample the candidates in the order of the quiet ranking, for as long as the ops last. What was
 * not evaluated thoroughly does not fit, or is slower already. */
static enum status sample_all(const struct arguments *a, const struct evaluation_context *context,
                              const volatile int *stop, struct auto_result *r)
{
    double left = most_ops;
    for (size_t i = 0; i < r->n && !(stop && *stop); i++) {
        struct auto_candidate *c = &r->candidate[i];
        double ops = c->thorough.ops * (double)a->search.samples;
        if (!c->verified || ops > left)
            continue;
        left -= ops;
        PASS(ARRAY_NEW(c->sampled_s, a->search.samples));
        PASS(take_samples(context, &c->plan, a, c->sampled_s));
    }
    return STATUS_OK;
}

/* What a candidate is ranked by: those that fit and were sampled first. */
struct merit {
    size_t place; /* in the quiet ranking, which decides between equals */
    bool misfit, unsampled;
    double seconds;
};

static int by_merit(const void *a, const void *b)
{
    const struct merit *x = a, *y = b;
    if (x->misfit != y->misfit)
        return x->misfit ? 1 : -1;
    if (x->unsampled != y->unsampled)
        return x->unsampled ? 1 : -1;
    if (x->seconds < y->seconds || x->seconds > y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static enum status rank(const struct arguments *a, struct auto_result *r)
{
    enum status st;
    struct merit *merit = NULL;
    struct auto_candidate *sorted = NULL;
    bool worst = !strcmp(a->search.rank_by, "worst");
    TRY(ARRAY_NEW(merit, r->n));
    TRY(ARRAY_NEW(sorted, r->n));
    for (size_t i = 0; i < r->n; i++) {
        const struct auto_candidate *c = &r->candidate[i];
        merit[i] = (struct merit){.place = i, .misfit = !c->fits, .unsampled = !c->sampled_s};
        if (!c->sampled_s)
            continue;
        struct plan_jitter j = plan_jitter_of(c, a);
        merit[i].seconds = worst ? j.worst_s : j.mean_s;
    }
    qsort(merit, r->n, sizeof *merit, by_merit);
    for (size_t i = 0; i < r->n; i++)
        sorted[i] = r->candidate[merit[i].place];
    memcpy(r->candidate, sorted, r->n * sizeof *sorted);
out:
    free(sorted);
    free(merit);
    return st;
}

enum status plan_rank_in_jitter(const struct arguments *a, const struct evaluation_context *context,
                                const volatile int *stop, struct auto_result *r)
{
    const struct auto_candidate *best = &r->candidate[0];
    double ops = best->thorough.ops;
    if (best->verified && ops * (double)a->search.samples > most_ops)
        return error_set(STATUS_UNSUPPORTED,
                         "--jitter: %zu simulations of the best plan need %.3g ops, expected at "
                         "most %.3g. Try --samples %.0f",
                         a->search.samples, ops * (double)a->search.samples, most_ops,
                         floor(most_ops / ops));
    PASS(sample_all(a, context, stop, r));
    return strcmp(a->search.rank_by, "quiet") != 0 ? rank(a, r) : STATUS_OK;
}
