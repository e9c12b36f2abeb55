/* Plans ranked by the days of a training: against each plan's own campaign, those that the ranking
 * leaves out included, and against the order of their iterations where nothing fails. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "study/campaign_job.h"
#include "study/load.h"
#include "study/planning.h"
#include "tests/cmocka.h"
#include "tests/promise.h"

static uint32_t inputs = 1; /* or as many as the argument says */

struct input {
    struct promise_case c;
    struct arguments a;
    struct evaluation_context context;
};

static void set(struct input *x, const char *name, const char *value)
{
    if (arguments_set(&x->a, TAKES(PLAN_CAMPAIGN), name, value) != STATUS_OK)
        fail_msg("%s=%s: %s", name, value, error_message());
}

/* A model and a small platform of this number, by the analytic engine. */
static void open_input(uint32_t k, struct input *x)
{
    struct promise_random r = {700 + k};
    *x = (struct input){0};
    do {
        promise_case_free(&x->c);
        promise_model(&r, x->c.model_name);
        promise_platform(&r, k, x->c.platform_name);
        assert_int_equal(load_model(x->c.model_name, &x->c.model), STATUS_OK);
        assert_int_equal(load_topology(x->c.platform_name, &x->c.topology, &x->c.path), STATUS_OK);
    } while (x->c.topology.n > 16 || x->c.model.tokens_per_sample <= 0);
    x->a = arguments_defaults(TAKES(PLAN_CAMPAIGN));
    x->a.model = x->c.model_name;
    x->a.platform = x->c.platform_name;
    x->a.search.finalists = 3;
    x->a.search.time_limit_s = 3600;
    set(x, "train-tokens", "1T");
    x->context = (struct evaluation_context){.model = &x->c.model,
                                             .topology = &x->c.topology,
                                             .platform = x->c.path,
                                             .engine = &engine_analytic};
}

/* Days by the plan alone, whatever the ranking has looked at. */
static double alone_s(const struct input *x, const struct auto_candidate *c, double iteration_s,
                      uint32_t spares)
{
    struct campaign_settings with = {0};
    struct campaign_job j = {0};
    struct campaign_forecast f;
    char text[16];
    snprintf(text, sizeof text, "%u", spares);
    assert_int_equal(campaign_settings_read(&x->a, x->context.platform, &with), STATUS_OK);
    if (!arguments_given(&with.a, "spares"))
        assert_int_equal(arguments_set(&with.a, TAKES(PLAN_CAMPAIGN), "spares", text), STATUS_OK);
    assert_int_equal(campaign_job_make(&with, &c->plan, &x->context, iteration_s, &j), STATUS_OK);
    assert_int_equal(campaign_forecast(&j.c, with.a.seed, INFINITY, &f), STATUS_OK);
    campaign_job_free(&j);
    campaign_settings_free(&with);
    return f.p50_s;
}

static void rank(struct input *x, struct auto_result *r)
{
    if (plan_rank_in_campaign(&x->a, &x->context, NULL, r) != STATUS_OK)
        fail_msg("%s on %s: %s", x->c.model_name, x->c.platform_name, error_message());
}

/* Checkpoints cost nothing: the order stays, and a training takes what its iterations take. */
static void rank_without_failures(struct input *x, struct auto_result *r)
{
    const struct arguments before = x->a;
    struct auto_candidate *quiet = malloc(r->n * sizeof *quiet);
    assert_non_null(quiet);
    memcpy(quiet, r->candidate, r->n * sizeof *quiet);
    set(x, "failures", "none");
    set(x, "storage", "shared:rate=1e9GBps,node=1e9GBps");
    set(x, "checkpoint-stop", "0s");
    rank(x, r);
    for (size_t i = 0; i < r->n; i++) {
        struct auto_candidate *c = &r->candidate[i];
        assert_ptr_equal(c->plan.stage, quiet[i].plan.stage);
        double tokens = auto_evaluation(c)->samples_per_s * (double)x->c.model.tokens_per_sample;
        if (c->training_s > 0)
            assert_true(fabs(c->training_s * tokens / x->a.train_tokens - 1) < 1e-6 &&
                        c->effective > 1 - 1e-6);
        c->training_s = 0;
    }
    free(quiet);
    x->a = before;
}

/* Nor one that the ranking did not look at. */
static void no_plan_of_the_search_needs_fewer_days_than_the_first(void **state)
{
    size_t left_out = 0, told = 0;
    for (uint32_t k = 0; k < inputs; k++) {
        struct input x;
        struct auto_result r = {0};
        char rates[96];
        open_input(k, &x);
        assert_int_equal(plan_settle(&x.a), STATUS_OK);
        assert_int_equal(plan_search(&x.a, &x.context, NULL, &r), STATUS_OK);
        rank_without_failures(&x, &r);
        snprintf(rates, sizeof rates, "none:node=%.0fh,software=%.0fh,restart=%.0fs",
                 20 + 2000 * random_unit(k, 0), 20 + 500 * random_unit(k, 1),
                 3000 * random_unit(k, 2));
        set(&x, "failures", rates);
        set(&x, "storage", k % 2 ? "shared:rate=1GBps" : "disk:node=1GBps");
        if (k % 3 == 0)
            set(&x, "spares", "2");
        rank(&x, &r);
        double last = 0, first = r.candidate[0].training_s;
        assert_true(first > 0);
        for (size_t i = 0; i < r.n && r.candidate[0].fits; i++) {
            const struct auto_candidate *c = &r.candidate[i];
            if (!c->fits)
                continue;
            double s =
                alone_s(&x, c, c->verified ? c->thorough.iteration_s : 0, r.candidate[0].spares);
            assert_true(s >= first);
            left_out += !(c->training_s > 0);
            told += c->training_s > 0;
            if (!(c->training_s > 0))
                continue;
            assert_true(s >= c->training_s && s <= c->training_s && s >= last);
            last = s;
        }
        auto_result_free(&r);
        promise_case_free(&x.c);
    }
    assert_true(left_out + told > inputs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_of_the_search_needs_fewer_days_than_the_first),
    };
    inputs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : inputs;
    return cmocka_run_group_tests_name("plan_campaign", tests, NULL, NULL);
}
