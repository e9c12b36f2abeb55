/* The ranking of plans in noise: its figures are those of `simulate --jitter`, and it is ranked by
 * them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/load.h"
#include "study/planning.h"
#include "tests/cmocka.h"
#include "tests/promise.h"

enum { INPUTS = 3, SAMPLES = 3 };

/* A model, a platform, and the arguments of a search with noise; the engine that ranks. */
struct input {
    struct promise_case c;
    struct arguments a;
    struct evaluation_context context;
};

static void open_input(struct input *x, const struct engine *engine)
{
    if (load_model(x->c.model_name, &x->c.model) != STATUS_OK ||
        load_topology(x->c.platform_name, &x->c.topology, &x->c.path) != STATUS_OK)
        fail_msg("%s on %s: %s", x->c.model_name, x->c.platform_name, error_message());
    x->a = arguments_defaults(TAKES(PLAN_AUTO));
    x->a.model = x->c.model_name;
    x->a.platform = x->c.platform_name;
    x->a.search.finalists = 2;
    x->a.search.samples = SAMPLES;
    assert_int_equal(arguments_set(&x->a, TAKES(PLAN_AUTO), "jitter", "8%"), STATUS_OK);
    x->context = (struct evaluation_context){
        .model = &x->c.model, .topology = &x->c.topology, .platform = x->c.path, .engine = engine};
}

static struct auto_result ranked(struct input *x)
{
    struct auto_result r = {0};
    if (plan_settle(&x->a) != STATUS_OK || plan_search(&x->a, &x->context, NULL, &r) != STATUS_OK ||
        plan_rank_in_jitter(&x->a, &x->context, NULL, &r) != STATUS_OK)
        fail_msg("%s on %s: %s", x->c.model_name, x->c.platform_name, error_message());
    return r;
}

/* Every sample to the last bit, and mean and worst of them. */
static size_t compare(struct input *x, struct auto_candidate *c)
{
    double sum_s = 0, worst_s = 0;
    char text[PROMISE_TEXT];
    if (!c->sampled_s)
        return 0;
    x->c.plan = c->plan;
    for (size_t i = 0; i < SAMPLES; i++) {
        const struct perturbation by = {.jitter = x->a.sim.jitter, .seed = x->a.seed + i};
        double said_s = promise_written(&x->c, evaluate_thorough_engine(&x->context), &by);
        if (said_s < c->sampled_s[i] || said_s > c->sampled_s[i])
            fail_msg("%s, sample %zu: %.17g s, simulate says %.17g s", promise_text(&x->c, text), i,
                     c->sampled_s[i], said_s);
        sum_s += said_s;
        worst_s = fmax(worst_s, said_s);
    }
    x->c.plan = (struct plan){0};
    struct plan_jitter j = plan_jitter_of(c, &x->a);
    assert_true(fabs(j.mean_s / (sum_s / SAMPLES) - 1) < 1e-12);
    assert_true(j.worst_s >= worst_s && j.worst_s <= worst_s && j.worst_s >= j.mean_s);
    return 1;
}

static double merit(const struct input *x, const struct auto_candidate *c)
{
    struct plan_jitter j = plan_jitter_of(c, &x->a);
    return !strcmp(x->a.search.rank_by, "mean")    ? j.mean_s
           : !strcmp(x->a.search.rank_by, "worst") ? j.worst_s
                                                   : c->thorough.iteration_s;
}

static void check_order(const struct input *x, const struct auto_result *r)
{
    for (size_t i = 1; i < r->n; i++) {
        const struct auto_candidate *p = &r->candidate[i - 1], *q = &r->candidate[i];
        assert_true(p->fits >= q->fits);
        if (p->fits == q->fits && p->sampled_s && q->sampled_s && p->fits)
            assert_true(merit(x, p) <= merit(x, q) * (1 + 1e-9));
    }
}

/* The same search again gives the same samples, to the last bit. */
static void repeat(struct input *x, const struct auto_result *found)
{
    struct auto_result again = ranked(x);
    assert_int_equal(found->n, again.n);
    for (size_t i = 0; i < found->n; i++) {
        const double *sampled_s = found->candidate[i].sampled_s;
        assert_int_equal(sampled_s != NULL, again.candidate[i].sampled_s != NULL);
        if (sampled_s)
            assert_memory_equal(sampled_s, again.candidate[i].sampled_s,
                                SAMPLES * sizeof *sampled_s);
    }
    auto_result_free(&again);
}

static void figures_are_those_of_simulate_with_that_seed(void **state)
{
    static const char *const by[] = {"mean", "worst", "quiet"};
    size_t sampled = 0;
    for (uint32_t k = 0; k < INPUTS; k++) {
        struct promise_random r = {300 + k};
        struct input x = {0};
        promise_model(&r, x.c.model_name);
        do {
            topology_free(&x.c.topology);
            free(x.c.path);
            promise_platform(&r, k, x.c.platform_name);
            assert_int_equal(load_topology(x.c.platform_name, &x.c.topology, &x.c.path), STATUS_OK);
        } while (x.c.topology.n > 8);
        topology_free(&x.c.topology);
        free(x.c.path);
        open_input(&x, k % 2 ? &engine_analytic : NULL);
        x.a.seed = 100 * k;
        x.a.search.rank_by = by[k % 3];
        x.a.search.time_limit_s = 3600; /* a slow machine finds the same */
        struct auto_result found = ranked(&x);
        for (size_t i = 0; i < found.n; i++)
            sampled += compare(&x, &found.candidate[i]);
        check_order(&x, &found);
        if (k == 0)
            repeat(&x, &found);
        auto_result_free(&found);
        promise_case_free(&x.c);
    }
    assert_true(sampled > 3 * INPUTS);
}

/* 320 devices, whose replicas are simulated once without noise: with it, all of them. */
static void what_is_folded_without_noise_is_simulated_whole(void **state)
{
    struct input x = {
        .c = {.model_name = "gpt-tiny", .platform_name = "rail:nodes=40,gpus=8,type=H100"}};
    open_input(&x, &engine_analytic);
    x.a.batch = 640;
    x.a.stages = 2;
    x.a.replicas = 160;
    struct auto_result found = ranked(&x);
    assert_true(compare(&x, &found.candidate[0]) == 1);
    assert_true(found.candidate[0].sampled_s[0] != found.candidate[0].thorough.iteration_s);
    auto_result_free(&found);
    promise_case_free(&x.c);
}

static void more_samples_than_minutes_allow_are_refused_in_a_line(void **state)
{
    struct input x = {
        .c = {.model_name = "gpt-tiny", .platform_name = "rail:nodes=40,gpus=8,type=H100"}};
    struct auto_result found = {0};
    open_input(&x, &engine_analytic);
    x.a.batch = 640;
    x.a.stages = 2;
    x.a.replicas = 160;
    x.a.microbatches = 640;
    assert_int_equal(plan_settle(&x.a), STATUS_OK);
    assert_int_equal(plan_search(&x.a, &x.context, NULL, &found), STATUS_OK);
    x.a.search.samples = 1000000;
    assert_int_equal(plan_rank_in_jitter(&x.a, &x.context, NULL, &found), STATUS_UNSUPPORTED);
    assert_message(error_message(), "--samples");
    assert_null(strchr(error_message(), '\n'));
    auto_result_free(&found);
    promise_case_free(&x.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_simulate_with_that_seed),
        cmocka_unit_test(what_is_folded_without_noise_is_simulated_whole),
        cmocka_unit_test(more_samples_than_minutes_allow_are_refused_in_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
