/* auto_search with made-up evaluators: what is tried, kept, ranked and refused. */
#include <math.h>
#include <stdlib.h>

#include "core/base/random.h"
#include "partition/auto.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

struct asked {
    bool crowded; /* thorough likes few devices, of which quick knows nothing */
    bool equal;   /* all plans take the same time */
    size_t quick, thorough;
    size_t fits_until; /* stages above do not fit, 0: all fit */
    bool disagree;     /* thorough likes deep pipelines, quick shallow ones */
    uint64_t seed;     /* of what shared links add to a division */
    size_t shared;
    double least_s; /* of all plans that were scored, with shared links */
};

static size_t devices_of(const struct plan *p)
{
    size_t n = 0;
    for (size_t s = 0; s < p->stages; s++)
        n += p->stage[s].devices;
    return n;
}

static enum status judge(struct asked *a, const struct plan *p, bool deep, struct evaluation *out)
{
    double stages = (double)p->stages;
    *out =
        (struct evaluation){.iteration_s = deep ? 100 - stages : stages,
                            .headroom_bytes = a->fits_until && p->stages > a->fits_until ? -1 : 1};
    return STATUS_OK;
}

static enum status quick(void *context, const struct plan *p, struct evaluation *out)
{
    struct asked *a = context;
    a->quick++;
    return judge(a, p, false, out);
}

static enum status thorough(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out)
{
    struct asked *a = context;
    enum status st = STATUS_OK;
    a->thorough += n;
    for (size_t i = 0; i < n && st == STATUS_OK; i++)
        st = judge(a, p[i], a->disagree, &out[i]);
    for (size_t i = 0; i < n && a->crowded; i++)
        out[i].iteration_s += 100 * (double)devices_of(p[i]);
    for (size_t i = 0; i < n && a->equal; i++)
        out[i].iteration_s = 0.5;
    return st;
}

/* ---- a large platform, on which quick() knows of no shared links */

static double alone_s(const struct asked *a, const struct plan *p)
{
    return 1 + random_unit(a->seed, p->microbatch_size * 1000 + p->stages);
}

static enum status quick_alone(void *context, const struct plan *p, struct evaluation *out)
{
    const struct asked *a = context;
    *out = (struct evaluation){.iteration_s = alone_s(a, p), .headroom_bytes = 1};
    return STATUS_OK;
}

/* Up to three times as long, by what makes a division. */
static enum status share_links(void *context, const struct plan *p, struct evaluation *out)
{
    struct asked *a = context;
    uint64_t division = p->stages / plan_chunks(p) * 1000 + p->stage[0].replicas;
    a->shared++;
    *out = (struct evaluation){.iteration_s =
                                   alone_s(a, p) * (1 + 2 * random_unit(~a->seed, division)),
                               .headroom_bytes = 1,
                               .exact = true};
    return STATUS_OK;
}

static enum status judge_shared(void *context, const struct plan *const *p, size_t n,
                                struct evaluation *out)
{
    for (size_t i = 0; i < n; i++)
        PASS(share_links(context, p[i], &out[i]));
    return STATUS_OK;
}

static enum status quick_noting(void *context, const struct plan *p, struct evaluation *out)
{
    struct asked *a = context;
    PASS(share_links(a, p, out));
    a->shared--;
    a->least_s = fmin(a->least_s, out->iteration_s);
    return quick_alone(a, p, out);
}

static struct auto_request request(size_t samples, size_t finalists)
{
    return (struct auto_request){.fixed = {.optimizer = "adam", .model = "m", .platform = "p"},
                                 .samples = samples,
                                 .finalists = finalists};
}

static struct auto_result search(struct asked *a, const struct auto_request *r, size_t ops,
                                 size_t devices)
{
    struct model m = sample_chain(ops, 1e-3, 2e-3, 100, 1000);
    struct topology t = sample_clique(devices, 1e-6, 1e9);
    struct evaluator e = {.context = a, .quick = quick, .thorough = thorough};
    struct auto_result result = {0};
    if (auto_search(&m, &t, r, &e, &result) != STATUS_OK)
        fail_msg("%s", error_message());
    topology_free(&t);
    model_free(&m);
    return result;
}

static size_t count_baselines(const struct auto_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->candidate[i].baseline != NULL;
    return n;
}

static size_t count_verified(const struct auto_result *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->candidate[i].verified;
    return n;
}

static void every_plan_trains_the_same_samples_and_says_its_devices(void **state)
{
    struct asked a = {0};
    struct auto_request r = request(32, 1000);
    struct auto_result result = search(&a, &r, 8, 8);
    assert_true(a.quick >= result.tried); /* and looks whether they can fit at all */
    assert_int_equal(a.thorough, count_verified(&result));
    for (size_t i = 0; i < result.n; i++) {
        const struct plan *p = &result.candidate[i].plan;
        assert_int_equal(p->microbatches * p->microbatch_size, 32);
        if (!auto_is_uneven(p))
            assert_int_equal(result.candidate[i].depth * p->stage[0].replicas,
                             result.candidate[i].devices);
    }
    auto_result_free(&result);
}

static void the_baselines_stand_in_the_ranking(void **state)
{
    struct asked a = {0};
    struct auto_request r = request(32, 1);
    struct auto_result result = search(&a, &r, 8, 4);
    assert_int_equal(count_baselines(&result), 3); /* no shards: DP, ZeRO-3, PP */
    assert_true(result.candidate[0].verified);
    for (size_t i = 0; i < result.n; i++)
        assert_true(result.candidate[i].verified || !result.candidate[i].baseline);
    auto_result_free(&result);
    r.fixed.chosen |= KNOB_BIT(zero); /* one that is asked for with another level is none */
    r.fixed.zero = 1;
    result = search(&a, &r, 8, 4);
    assert_int_equal(count_baselines(&result), 2);
    for (size_t i = 0; i < result.n; i++)
        assert_false(result.candidate[i].baseline && result.candidate[i].baseline->zero == 3);
    auto_result_free(&result);
}

/* The quick evaluator prefers shallow pipelines, the thorough one deep ones: the finalists have
 * every shape, so that the deepest wins all the same. */
static void the_thorough_evaluator_decides_among_all_shapes(void **state)
{
    struct asked a = {.disagree = true};
    struct auto_request r = request(32, 6);
    struct auto_result result = search(&a, &r, 8, 8);
    assert_int_equal(result.candidate[0].plan.stages, 8);
    for (size_t i = 1; i < result.n; i++)
        assert_true(result.candidate[i].thorough.iteration_s >=
                    result.candidate[i - 1].thorough.iteration_s);
    auto_result_free(&result);
}

static void plans_that_do_not_fit_come_last(void **state)
{
    struct asked a = {.disagree = true, .fits_until = 2};
    struct auto_request r = request(32, 12);
    struct auto_result result = search(&a, &r, 8, 8);
    assert_int_equal(result.candidate[0].plan.stages, 2);
    assert_true(result.candidate[0].fits);
    assert_false(result.candidate[result.n - 1].fits);
    assert_true(result.too_big > 0);
    auto_result_free(&result);
}

/* The last class of devices is reached because nothing before it is fast on the thorough evaluator,
 * and the shapes' bounds, which know the work, allow it: 3 ms of work per sample and op. */
static void fewer_devices_win_where_contention_asks_for_them(void **state)
{
    struct asked a = {.crowded = true};
    struct auto_request r = request(32, 4);
    struct auto_result result = search(&a, &r, 8, 8);
    assert_null(result.candidate[0].baseline);
    assert_int_equal(result.candidate[0].devices, 1);
    auto_result_free(&result);
}

static void the_first_of_the_ranking_are_verified(void **state)
{
    for (size_t finalists = 1; finalists < 4; finalists++) {
        struct asked a = {.crowded = finalists == 2};
        struct auto_request r = request(32, finalists);
        struct auto_result result = search(&a, &r, 8, 8);
        size_t shown = 0, all = 0;
        for (size_t i = 0; i < result.n && shown < AUTO_SHOWN; i++) {
            const struct auto_candidate *c = &result.candidate[i];
            assert_true(c->verified || c->baseline || !c->fits);
            shown += !c->baseline;
        }
        for (size_t i = 0; i < result.n; i++)
            all += !result.candidate[i].baseline;
        assert_true(all > AUTO_SHOWN && shown == AUTO_SHOWN &&
                    a.thorough == count_verified(&result));
        auto_result_free(&result);
    }
}

static void of_equal_plans_the_one_of_fewest_devices_wins(void **state)
{
    struct asked a = {.equal = true};
    struct auto_request r = request(8, 1000);
    struct auto_result result = search(&a, &r, 4, 8);
    for (size_t i = 1; i < result.n; i++)
        if (result.candidate[i].fits && result.candidate[i].verified)
            assert_true(result.candidate[i].devices >= result.candidate[0].devices);
    auto_result_free(&result);
}

/* The best plan is that of all that were scored, though few were looked at with shared links. */
static void shared_links_decide_where_quick_scores_know_of_none(void **state)
{
    struct model m = sample_chain(8, 1e-3, 2e-3, 100, 1000);
    struct topology t = sample_clique(16, 1e-6, 1e9);
    size_t asked = 0, tried = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct asked a = {.seed = seed, .least_s = INFINITY};
        struct auto_request r = request(32, 3);
        struct evaluator e = {
            .context = &a, .quick = quick_noting, .shared = share_links, .thorough = judge_shared};
        struct auto_result result = {0};
        r.even = true;
        assert_int_equal(auto_search(&m, &t, &r, &e, &result), STATUS_OK);
        assert_true(result.candidate[0].verified);
        assert_true(result.candidate[0].thorough.iteration_s <= a.least_s * (1 + 1e-12));
        asked += a.shared, tried += result.tried;
        auto_result_free(&result);
    }
    assert_true(asked < tried / 2);
    topology_free(&t);
    model_free(&m);
}

/* The evaluator leaves a byte free on every device. */
static void nothing_fits_that_does_not_leave_the_reserve(void **state)
{
    struct asked a = {0};
    struct auto_request r = request(32, 4);
    const int64_t one = 1, two = 2;
    r.reserve_bytes = &one;
    struct auto_result result = search(&a, &r, 8, 4);
    assert_true(result.candidate[0].fits);
    auto_result_free(&result);
    r.reserve_bytes = &two;
    result = search(&a, &r, 8, 4);
    for (size_t i = 0; i < result.n; i++)
        assert_false(result.candidate[i].fits);
    auto_result_free(&result);
}

static void call(struct model *m, size_t op, const char *name)
{
    free(m->op[op].name);
    m->op[op].name = sample_text(name);
    m->op[op].block = 0; /* it is found by the name */
}

static void layers_are_the_blocks_of_names(void **state)
{
    static const char *const name[] = {"embedding",  "h0.ln1",        "h0.mlp.fc", "h1.ln1",
                                       "l.0.a",      "l.0.b",         "l.1.a",     "layer1.0.conv",
                                       "layer1.0/x", "layer1.1.conv", "conv1",     "conv2"};
    static const bool begins[] = {true, true, false, true, true, false,
                                  true, true, false, true, true, true};
    enum { OPS = sizeof name / sizeof *name };
    struct model m = sample_chain(OPS, 1e-3, 2e-3, 100, 1000);
    for (size_t i = 0; i < OPS; i++)
        call(&m, i, name[i]);
    for (size_t i = 0; i < OPS; i++)
        assert_int_equal(model_begins_layer(&m, i), begins[i]);
    assert_int_equal(partition_most_stages(&m, 1, true), 9);
    model_free(&m);
}

static void what_is_given_is_kept(void **state)
{
    struct asked a = {0};
    struct auto_request r = request(24, 100);
    r.fixed.stages = 2;
    r.fixed.replicas = 3;
    r.fixed.microbatch_size = 4;
    r.fixed.schedule = "gpipe";
    r.fixed.chosen |= KNOB_BIT(recompute) | KNOB_BIT(zero) | KNOB_BIT(bucket_bytes);
    struct auto_result result = search(&a, &r, 8, 8);
    size_t candidates = 0;
    for (size_t i = 0; i < result.n; i++) {
        const struct plan *p = &result.candidate[i].plan;
        assert_int_equal(p->microbatch_size, 4);
        assert_string_equal(p->schedule, "gpipe");
        if (result.candidate[i].baseline)
            continue;
        candidates++;
        assert_int_equal(p->stages, 2);
        assert_int_equal(p->stage[0].replicas, 3);
    }
    assert_int_equal(candidates, 2); /* both placements */
    auto_result_free(&result);
}

/* Eight microbatches on three devices: the last group of the round has two more. */
static void virtual_stages_need_no_whole_groups(void **state)
{
    struct asked a = {0};
    struct auto_request r = request(8, 1);
    r.fixed.stages = 6;
    r.fixed.chunks = 2;
    r.fixed.microbatch_size = 1;
    struct auto_result result = search(&a, &r, 8, 3);
    size_t found = 0;
    for (size_t i = 0; i < result.n; i++)
        found += !result.candidate[i].baseline && result.candidate[i].plan.stages == 6;
    assert_true(found > 0);
    auto_result_free(&result);
}

static void impossible_requests_are_infeasible(void **state)
{
    struct model m = sample_chain(4, 1e-3, 2e-3, 100, 1000);
    struct topology t = sample_clique(4, 1e-6, 1e9);
    struct asked a = {0};
    struct evaluator e = {.context = &a, .quick = quick, .thorough = thorough};
    struct auto_result result = {0};
    struct auto_request r = request(6, 1);
    r.fixed.microbatch_size = 4; /* does not divide 6 */
    assert_int_equal(auto_search(&m, &t, &r, &e, &result), STATUS_INFEASIBLE);
    r = request(8, 1);
    r.fixed.stages = 9;
    assert_int_equal(auto_search(&m, &t, &r, &e, &result), STATUS_INFEASIBLE);
    assert_int_equal(result.n, 0);
    topology_free(&t);
    model_free(&m);
}

static void a_stop_leaves_what_has_been_tried(void **state)
{
    static volatile int stop = 1;
    struct model m = sample_chain(4, 1e-3, 2e-3, 100, 1000);
    struct topology t = sample_clique(4, 1e-6, 1e9);
    struct asked a = {0};
    struct evaluator e = {.context = &a, .quick = quick, .thorough = thorough};
    struct auto_result result = {0};
    struct auto_request r = request(8, 1);
    r.stop = &stop;
    assert_int_equal(auto_search(&m, &t, &r, &e, &result), STATUS_INFEASIBLE);
    assert_int_equal(a.quick, 0);
    topology_free(&t);
    model_free(&m);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct model m = sample_chain(3, 1e-3, 2e-3, 100, 1000);
    struct topology t = sample_clique(2, 1e-6, 1e9);
    struct asked a = {0};
    struct evaluator e = {.context = &a, .quick = quick, .thorough = thorough};
    struct auto_result result = {0};
    struct auto_request r = request(2, 1);
    FOR_EACH_ALLOC_FAILURE((auto_result_free(&result), auto_search(&m, &t, &r, &e, &result)));
    auto_result_free(&result);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_plan_trains_the_same_samples_and_says_its_devices),
        cmocka_unit_test(the_baselines_stand_in_the_ranking),
        cmocka_unit_test(the_thorough_evaluator_decides_among_all_shapes),
        cmocka_unit_test(plans_that_do_not_fit_come_last),
        cmocka_unit_test(fewer_devices_win_where_contention_asks_for_them),
        cmocka_unit_test(the_first_of_the_ranking_are_verified),
        cmocka_unit_test(of_equal_plans_the_one_of_fewest_devices_wins),
        cmocka_unit_test(shared_links_decide_where_quick_scores_know_of_none),
        cmocka_unit_test(nothing_fits_that_does_not_leave_the_reserve),
        cmocka_unit_test(layers_are_the_blocks_of_names),
        cmocka_unit_test(what_is_given_is_kept),
        cmocka_unit_test(virtual_stages_need_no_whole_groups),
        cmocka_unit_test(impossible_requests_are_infeasible),
        cmocka_unit_test(a_stop_leaves_what_has_been_tried),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("auto", tests, NULL, NULL);
}
