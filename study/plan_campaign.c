/* The ranking of a search by the days of a whole training, with failures and checkpoints. A plan
 * whose iteration is not the shortest may need fewer: by fewer devices that fail, a smaller
 * checkpoint, less to read after a failure. */
#include <math.h>

#include "core/base/text.h"
#include "core/base/units.h"
#include "study/campaign_job.h"
#include "study/planning.h"

/* The search does not look thoroughly at plans that are slower by their score. */
static enum status verify(const struct arguments *a, struct evaluation_context *context,
                          struct auto_candidate *c)
{
    const struct plan *p = &c->plan;
    int64_t reserve_bytes;
    struct evaluator e = evaluator_make(context);
    if (c->verified)
        return STATUS_OK;
    PASS(e.thorough(e.context, &p, 1, &c->thorough));
    PASS(plan_reserve(a, topology_type(context->topology, c->thorough.device), &reserve_bytes));
    c->verified = true;
    c->fits = c->fits && c->thorough.headroom_bytes >= reserve_bytes;
    return STATUS_OK;
}

/* The training by a candidate.
 *   spares  where they are not given; NULL: the best number */
static enum status forecast(const struct campaign_settings *s, const struct auto_candidate *c,
                            const struct evaluation_context *context, const uint32_t *spares,
                            struct campaign_job *j, struct campaign_forecast *f)
{
    struct campaign_settings with = *s;
    char text[16];
    snprintf(text, sizeof text, "%u", spares ? *spares : 0);
    if (spares && !arguments_given(&s->a, "spares"))
        PASS(arguments_set(&with.a, TAKES(PLAN_CAMPAIGN), "spares", text));
    PASS(campaign_job_make(&with, &c->plan, context, auto_evaluation(c)->iteration_s, j));
    return campaign_forecast(&j->c, s->a.seed, INFINITY, f);
}

/* Those that fit first, then those whose days are known. */
static bool comes_before(const struct auto_candidate *a, const struct auto_candidate *b)
{
    bool known = a->training_s > 0;
    if (a->fits != b->fits || known != (b->training_s > 0))
        return a->fits != b->fits ? a->fits : known;
    return a->training_s < b->training_s;
}

/* By insertion: there are some tens, and equals keep their order. */
static void sort(struct auto_result *r)
{
    for (size_t i = 1; i < r->n; i++)
        for (size_t k = i; k > 0 && comes_before(&r->candidate[k], &r->candidate[k - 1]); k--) {
            struct auto_candidate c = r->candidate[k];
            r->candidate[k] = r->candidate[k - 1];
            r->candidate[k - 1] = c;
        }
}

enum status plan_rank_in_campaign(const struct arguments *a, struct evaluation_context *context,
                                  const volatile int *stop, struct auto_result *r)
{
    enum status st;
    const struct auto_candidate *first = NULL; /* whose spare nodes all have */
    double best = INFINITY, tokens = (double)context->model->tokens_per_sample;
    struct campaign_settings s = {0};
    TRY(campaign_settings_read(a, context->platform, &s));
    for (size_t i = 0; i < r->n && !(stop && *stop); i++) {
        struct auto_candidate *c = &r->candidate[i];
        struct campaign_job j = {0};
        struct campaign_forecast f;
        double least_s = a->train_tokens / (auto_evaluation(c)->samples_per_s * tokens);
        if ((first && !c->fits) || least_s >= best) /* no failure shortens it */
            continue;
        TRY(verify(a, context, c));
        st = forecast(&s, c, context, first ? &first->spares : NULL, &j, &f);
        uint32_t spares = j.c.spares;
        campaign_job_free(&j);
        if (st == STATUS_USAGE && (first || i + 1 < r->n))
            continue; /* not by this plan: hot spare nodes with ZeRO */
        TRY(st);
        c->spares = spares;
        c->training_s = f.p50_s;
        c->effective = f.mean.work_s / f.mean.wall_s;
        first = first ? first : c;
        best = fmin(best, f.p50_s);
    }
    sort(r);
out:
    campaign_settings_free(&s);
    return st;
}

enum status plan_print_campaign(const struct arguments *a, const struct auto_result *r,
                                const struct evaluation_context *context, FILE *out)
{
    const struct auto_candidate *c = &r->candidate[0], *fastest = c;
    enum status st;
    struct campaign_settings s = {0};
    struct campaign_job j = {0};
    struct campaign_forecast f;
    char words[PLAN_WORDS], text[PLAN_WORDS + 64];
    if (!(c->training_s > 0))
        return STATUS_OK;
    TRY(campaign_settings_read(a, context->platform, &s));
    TRY(forecast(&s, c, context, &c->spares, &j, &f));
    campaign_print_days(&j, &f, out);
    campaign_print_settings(&j, out);
    for (size_t i = 1; i < r->n; i++) {
        const struct auto_candidate *o = &r->candidate[i];
        bool faster = auto_evaluation(o)->iteration_s < auto_evaluation(fastest)->iteration_s;
        fastest = o->training_s > 0 && faster ? o : fastest;
    }
    if (fastest != c) {
        snprintf(text, sizeof text, "%s per iteration, but %+.2g %% days: %s",
                 units_of(UNIT_SECONDS, auto_evaluation(fastest)->iteration_s).text,
                 100 * (fastest->training_s / c->training_s - 1),
                 plan_words(&fastest->plan, words));
        text_put_answer(out, "fastest", text);
    }
out:
    campaign_job_free(&j);
    campaign_settings_free(&s);
    return st;
}
