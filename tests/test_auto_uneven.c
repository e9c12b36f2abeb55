/* Stages with different replicas in auto: never worse than without them, never more than 1 % behind
 * brute force over replicas and cuts, and only where they may be. Arguments: how many inputs, the
 * first one's seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/engines.h"
#include "study/evaluate.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/promise.h"

static const double tolerance = 0.01, exact = 1e-9;
static uint32_t inputs = 3, seed = 1; /* unit.auto_uneven_more: 12 */

/* ---- inputs */

struct input {
    struct promise_case c;
    size_t batch;
    struct evaluation_context context;
    struct auto_request request;
};

static void load(struct input *x)
{
    struct promise_case *c = &x->c;
    if (load_model(c->model_name, &c->model) != STATUS_OK ||
        load_topology(c->platform_name, &c->topology, &c->path) != STATUS_OK)
        fail_msg("%s on %s: %s", c->model_name, c->platform_name, error_message());
    x->context = (struct evaluation_context){
        .model = &c->model, .topology = &c->topology, .platform = c->path};
    x->request = (struct auto_request){.fixed = {.optimizer = "adam",
                                                 .model = c->model_name,
                                                 .platform = c->platform_name,
                                                 .layers = true},
                                       .samples = x->batch,
                                       .finalists = 6};
}

/* Layers whose weights and work differ much, as those of convolutional networks do, where replicas
 * that differ pay most: much work at first, many weights at last. */
static void skew(struct promise_random *r, struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        bool early = i < m->n * 2 / 3;
        double work = 1 << (promise_below(r, 4) + (early ? 8 : 0));
        m->op[i].forward_flop *= work;
        m->op[i].backward_flop *= work;
        m->op[i].parameter_bytes *= 1 << (promise_below(r, 3) + (early ? 0 : 6));
    }
}

/* The quick evaluator has the last word, where that is enough. */
static enum status as_quick(void *context, const struct plan *const *p, size_t n,
                            struct evaluation *out)
{
    enum status st = STATUS_OK;
    struct evaluator e = evaluator_make(context);
    for (size_t i = 0; i < n; i++)
        TRY(e.quick(e.context, p[i], &out[i]));
out:
    return st;
}

static struct auto_result search(struct input *x, bool even, bool quick)
{
    struct auto_result found = {0};
    struct evaluator e = evaluator_make(&x->context);
    if (quick)
        e.thorough = as_quick;
    x->request.even = even;
    if (auto_search(&x->c.model, &x->c.topology, &x->request, &e, &found) != STATUS_OK)
        fail_msg("%s on %s: %s", x->c.model_name, x->c.platform_name, error_message());
    return found;
}

/* ---- never worse */

static double winner_s(struct input *x, const struct auto_result *r)
{
    if (!r->candidate[0].fits)
        return INFINITY;
    x->c.plan = r->candidate[0].plan;
    double found_s = promise_written(&x->c, &engine_simgrid, NULL);
    x->c.plan = (struct plan){0};
    return found_s;
}

static void different_replicas_are_never_worse(void **state)
{
    size_t better = 0;
    for (uint32_t k = 0; k < inputs; k++) {
        struct promise_random r = {5000 + seed + k};
        struct input x = {0};
        promise_model(&r, x.c.model_name);
        do {
            topology_free(&x.c.topology);
            free(x.c.path);
            promise_platform(&r, k % PROMISE_FAMILIES, x.c.platform_name);
            assert_int_equal(load_topology(x.c.platform_name, &x.c.topology, &x.c.path), STATUS_OK);
        } while (x.c.topology.n > 16 || x.c.topology.n < 3);
        x.batch = x.c.topology.n << promise_below(&r, 3);
        topology_free(&x.c.topology);
        free(x.c.path);
        load(&x);
        struct auto_result with = search(&x, false, false), without = search(&x, true, false);
        double with_s = winner_s(&x, &with), without_s = winner_s(&x, &without);
        better += with_s < without_s * (1 - exact);
        print_message("%2u %s on %s, batch %zu: %g s, %+.2f %%%s\n", k, x.c.model_name,
                      x.c.platform_name, x.batch, with_s, 100 * (with_s / without_s - 1),
                      auto_is_uneven(&with.candidate[0].plan) ? ", uneven" : "");
        if (isfinite(without_s) && !(with_s <= without_s * (1 + exact)))
            fail_msg("%s on %s, batch %zu: %.9g s, without %.9g s", x.c.model_name,
                     x.c.platform_name, x.batch, with_s, without_s);
        for (size_t i = 0; i < without.n; i++)
            assert_false(auto_is_uneven(&without.candidate[i].plan));
        auto_result_free(&with);
        auto_result_free(&without);
        promise_case_free(&x.c);
    }
    assert_true(better > 0 || inputs < 6);
}

/* ---- brute force */

enum { MOST_STAGES = 6, MOST_LAYERS = 8 };

struct grid {
    struct input *x;
    struct evaluator e;
    struct partition_request r;
    size_t layers, layer[MOST_LAYERS + 1];
    uint32_t replicas[MOST_STAGES];
    size_t first[MOST_STAGES];
    size_t plans;
    double best_s;
    char best[200];
};

static void judge(struct grid *g, struct plan *p)
{
    struct evaluation e;
    enum status st = g->e.quick(g->e.context, p, &e);
    if (st == STATUS_INVALID) /* with buckets: replicas wait for each other */
        return;
    assert_int_equal(st, STATUS_OK);
    g->plans++;
    if (e.headroom_bytes < 0 || e.iteration_s >= g->best_s)
        return;
    g->best_s = e.iteration_s;
    int n = snprintf(g->best, sizeof g->best,
                     "%s %u x %u zero %u bucket %lld placed %d:", p->schedule, p->microbatches,
                     p->microbatch_size, p->zero, (long long)p->bucket_bytes, (int)g->r.placement);
    for (size_t k = 0; k < p->stages && n < (int)sizeof g->best; k++)
        n += snprintf(g->best + n, sizeof g->best - (size_t)n, " %u from %u", p->stage[k].replicas,
                      p->stage[k].op[0]);
}

/* Every size, schedule, level of ZeRO, bucket and placement of one cut. */
static void judge_cut(struct grid *g)
{
    static const char *const schedule[] = {"1f1b", "gpipe", "zb-h1"};
    static const int64_t bucket[] = {0, 1 << 14, 1 << 18, 1 << 22};
    for (uint32_t size = 1; size <= g->x->batch; size++)
        for (int k = 0; k < 3 * 2; k++) {
            struct plan p = {0};
            if (g->x->batch % size)
                continue;
            g->r.microbatch_size = size;
            g->r.microbatches = (uint32_t)g->x->batch / size;
            g->r.schedule = schedule[k / 2];
            g->r.placement = k % 2 ? PLACE_REPLICAS : PLACE_PIPELINES;
            if (partition_run(&partition_uneven, &g->x->c.model, &g->x->c.topology, &g->r, &p) !=
                STATUS_OK)
                continue; /* fewer microbatches than replicas */
            for (int s = 0; s < 2 * (k / 2 == 2 ? 1 : 4); s++) {
                p.zero = (uint32_t)s % 2;
                p.bucket_bytes = bucket[s / 2];
                judge(g, &p);
            }
            plan_free(&p);
        }
}

/* All cuts of stages from s on, which begin at `layer` or later. */
static void judge_cuts(struct grid *g, size_t s, size_t layer)
{
    if (s == g->r.stages) {
        judge_cut(g);
        return;
    }
    for (size_t i = layer; i + (g->r.stages - s) <= g->layers; i++) {
        g->first[s] = g->layer[i];
        judge_cuts(g, s + 1, i + 1);
        if (s == 0)
            break;
    }
}

static void judge_replicas(struct grid *g, size_t stages, size_t slots)
{
    bool equal = true;
    for (size_t k = 1; k < stages; k++)
        equal = equal && g->replicas[k] == g->replicas[0];
    g->r.stages = stages;
    if (!equal)
        judge_cuts(g, 0, 0);
    for (uint32_t r = 1; r <= slots && stages < MOST_STAGES && stages < g->layers; r++) {
        g->replicas[stages] = r;
        judge_replicas(g, stages + 1, slots - r);
    }
}

static void pick_small(struct promise_random *r, struct input *x)
{
    static const char *const platform[] = {
        "laptop",
        "leaf-spine:nodes=1,gpus=5",
        "leaf-spine:nodes=3,gpus=1,nic=10Gbps",
        "leaf-spine:nodes=4,gpus=1,nic=25Gbps",
        "fat-tree:nodes=2,gpus=2,nic=10Gbps",
        "leaf-spine:nodes=2,gpus=3,nic=50Gbps",
    };
    snprintf(x->c.platform_name, sizeof x->c.platform_name, "%s",
             platform[promise_below(r, sizeof platform / sizeof *platform)]);
    if (promise_below(r, 2))
        snprintf(x->c.model_name, sizeof x->c.model_name, "mlp:layers=%u,hidden=%d",
                 2 + promise_below(r, 4), 128 << promise_below(r, 4));
    else
        snprintf(x->c.model_name, sizeof x->c.model_name,
                 "gpt-tiny:layers=%u,hidden=%d,tokens=64,tied=0", 2 + promise_below(r, 3),
                 64 << promise_below(r, 3));
    x->batch = 8u << promise_below(r, 4);
    load(x);
    if (promise_below(r, 4))
        skew(r, &x->c.model);
    x->request.fixed.tensor_parallel = promise_below(r, 4) ? 1 : 0; /* which beats them often */
}

static void nothing_in_the_grid_is_better_by_a_percent(void **state)
{
    size_t chosen = 0;
    for (uint32_t k = 0; k < inputs; k++) {
        struct promise_random r = {9000 + seed + k};
        struct input x = {0};
        pick_small(&r, &x);
        struct grid g = {.x = &x, .e = evaluator_make(&x.context), .best_s = INFINITY};
        struct partition_uneven uneven = {g.replicas, g.first};
        g.r = x.request.fixed;
        g.r.tensor_parallel = 1;
        g.r.uneven = &uneven;
        for (size_t i = 0; i < x.c.model.n; i++)
            if (model_begins_layer(&x.c.model, i) && g.layers < MOST_LAYERS)
                g.layer[g.layers++] = i;
        judge_replicas(&g, 0, x.c.topology.n);
        struct auto_result found = search(&x, false, true);
        double mine_s = found.candidate[0].thorough.iteration_s;
        chosen += auto_is_uneven(&found.candidate[0].plan);
        print_message("%2u %s on %s, batch %zu: %zu of %zu (%zu in the grid), %g s, %+.2f %%%s\n",
                      k, x.c.model_name, x.c.platform_name, x.batch, found.uneven, found.tried,
                      g.plans, mine_s, 100 * (mine_s / g.best_s - 1),
                      auto_is_uneven(&found.candidate[0].plan) ? ", uneven" : "");
        if (isfinite(g.best_s) &&
            (!found.candidate[0].fits || !(mine_s <= g.best_s * (1 + tolerance))))
            fail_msg("%s on %s, batch %zu: auto %g s, but %s takes %g s", x.c.model_name,
                     x.c.platform_name, x.batch, mine_s, g.best, g.best_s);
        auto_result_free(&found);
        promise_case_free(&x.c);
    }
    assert_true(chosen > 0 || inputs < 6);
}

/* ---- constraints */

static void constraints_leave_them_out_or_are_kept(void **state)
{
    struct input x = {.c = {.model_name = "mlp:layers=6,hidden=512",
                            .platform_name = "leaf-spine:nodes=4,gpus=1,nic=10Gbps"},
                      .batch = 32};
    struct promise_random r = {3};
    load(&x);
    skew(&r, &x.c.model);
    const struct auto_request free_request = x.request;
    struct auto_result found = search(&x, false, true);
    assert_true(found.uneven > 0);
    auto_result_free(&found);
    for (int k = 0; k < 4; k++) {
        x.request = free_request;
        x.request.fixed.replicas = k == 0 ? 2 : 0;
        x.request.fixed.chunks = k == 1 ? 2 : 0;
        x.request.fixed.schedule = k == 2 ? "interleaved" : NULL;
        x.request.fixed.zero = k == 3 ? 2 : 0;
        x.request.fixed.chosen = k == 3 ? KNOB_BIT(zero) : 0;
        found = search(&x, false, true);
        assert_int_equal(found.uneven, 0);
        auto_result_free(&found);
    }
    for (size_t stages = 2; stages <= 4; stages++) {
        x.request = free_request;
        x.request.fixed.stages = stages;
        found = search(&x, false, true);
        assert_true(stages == 4 || found.uneven > 0);
        for (size_t i = 0; i < found.n; i++)
            assert_true(found.candidate[i].baseline || found.candidate[i].plan.stages == stages);
        auto_result_free(&found);
    }
    promise_case_free(&x.c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_replicas_are_never_worse),
        cmocka_unit_test(nothing_in_the_grid_is_better_by_a_percent),
        cmocka_unit_test(constraints_leave_them_out_or_are_kept),
    };
    if (argc > 1)
        inputs = (uint32_t)atoi(argv[1]);
    if (argc > 2)
        seed = (uint32_t)atoi(argv[2]);
    return cmocka_run_group_tests_name("auto uneven", tests, NULL, NULL);
}
