/* hierarchical: beside balanced on chains and DAGs, on machines of several tiers; large; hostile.
 */
#include <math.h>
#include <stdlib.h>

#include "core/cost/cost.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"
#include "tests/sample.h"

static struct partition_request request(size_t stages)
{
    return (struct partition_request){.stages = stages,
                                      .replicas = 1,
                                      .microbatches = 8,
                                      .microbatch_size = 2,
                                      .schedule = "1f1b",
                                      .optimizer = "sgd",
                                      .model = "m",
                                      .platform = "p"};
}

/* Random times and tensors; `reach` > 0: edges that skip up to so many ops beside the chain. */
static struct model random_model(size_t n, size_t reach)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge *edge = calloc(3 * n, sizeof *edge);
    size_t edges = 0;
    for (uint32_t i = 0; i < n; i++) {
        m.profile[0].forward_s[i] = rand() % 100 * 1e-5;
        m.profile[0].backward_s[i] = rand() % 200 * 1e-5;
        m.op[i].output_bytes = rand() % 1000 * 1000;
        if (i + 1 < n)
            edge[edges++] = (struct model_edge){i, i + 1};
        for (int k = 0; k < 2 && reach > 0; k++) {
            size_t to = i + 2 + (size_t)rand() % reach;
            bool twice =
                k > 0 && edges > 0 && edge[edges - 1].from == i && edge[edges - 1].to == to;
            if (to < n && !twice)
                edge[edges++] = (struct model_edge){i, (uint32_t)to};
        }
    }
    sample_rewire(&m, edge, edges);
    free(edge);
    return m;
}

static uint32_t in_racks(const void *context, uint32_t from, uint32_t to)
{
    const uint32_t *node = context;
    return from / *node == to / *node ? 0 : from / (4 * *node) == to / (4 * *node) ? 1 : 2;
}

/* n devices, `node` in a node, four nodes in a rack. */
static struct topology racks(size_t n, uint32_t node)
{
    struct topology t = sample_clique(n, 1e-6, 100e9);
    t.tier = realloc(t.tier, 3 * sizeof *t.tier);
    t.tier[1] = (struct topology_tier){sample_text("nic"), 1e-5, 10e9};
    t.tier[2] = (struct topology_tier){sample_text("uplink"), 2e-5, 1e9};
    t.tiers = 3;
    topology_map_free(&t.between);
    if (map_build(n, in_racks, &node, &t.between) != STATUS_OK)
        fail_msg("%s", error_message());
    return t;
}

static struct plan solve(const char *name, const struct model *m, const struct topology *t,
                         size_t stages)
{
    const struct partition_algorithm *a;
    struct partition_request r = request(stages);
    struct plan p = {0};
    if (partition_find(name, &a) != STATUS_OK || partition_run(a, m, t, &r, &p) != STATUS_OK)
        fail_msg("%s", error_message());
    return p;
}

/* Slow and obvious: the slowest stage of a plan. */
static double slowest(const struct plan *p, const struct model *m, const struct topology *t)
{
    double worst = 0;
    for (size_t s = 0; s < p->stages; s++) {
        const struct plan_stage *stage = &p->stage[s];
        uint32_t first = stage->op[0], last = stage->op[stage->ops - 1];
        double load = 0, bytes = 0;
        for (uint32_t i = first; i <= last; i++) {
            struct op_cost c = cost_op(m, topology_type(t, stage->device[0]), i, 2, "sgd", NULL);
            load += c.forward_s + c.backward_s;
        }
        for (uint32_t i = 0; i < first; i++) {
            bool read = false;
            for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
                read = read || (m->out[k] >= first && m->out[k] <= last);
            bytes += read ? (double)m->op[i].output_bytes : 0;
        }
        if (s > 0) {
            const struct topology_tier *link =
                topology_between(t, p->stage[s - 1].device[0], stage->device[0]);
            load += 2 * (link->latency_s + 2 * bytes / link->bandwidth_Bps);
        }
        worst = fmax(worst, load);
    }
    return worst;
}

/* Work instead of measured times, so that device types matter. */
static void unmeasure(struct model *m)
{
    free(m->profile[0].forward_s);
    free(m->profile[0].backward_s);
    free(m->profile[0].device);
    m->profiles = 0;
    for (size_t i = 0; i < m->n; i++)
        m->op[i].forward_flop = rand() % 100 * 1e7;
}

/* A second type of a third of the speed. */
static void add_slow_type(struct topology *t)
{
    t->type = realloc(t->type, 2 * sizeof *t->type);
    t->type[1] = t->type[0];
    t->type[1].name = sample_text("slow");
    t->type[1].flops = t->type[0].flops / 3;
    t->types = 2;
}

struct kind {
    const char *name;
    int trials;
    size_t fewest, more; /* ops */
    size_t reach;
    bool mixed; /* devices of two types, tensors from 1 kB to 10 MB */
};

/* Ratios to the exact optimum: never below 1; printed. */
static void compare(const struct kind *kind)
{
    double sum = 0, worst = 0;
    int optimal = 0;
    for (int trial = 0; trial < kind->trials; trial++) {
        size_t n = kind->fewest + (size_t)rand() % kind->more, most = n < 64 ? n : 64;
        size_t stages = 1 + (size_t)rand() % most;
        struct model m = random_model(n, kind->reach);
        struct topology t = racks(64, 1 + (uint32_t)rand() % 8);
        if (kind->mixed) {
            unmeasure(&m);
            add_slow_type(&t);
            for (size_t i = 0; i < t.n; i++)
                t.type_of[i] = (uint32_t)rand() % 2;
            for (size_t i = 0; i < m.n; i++)
                m.op[i].output_bytes = (int64_t)(1000 * pow(10, rand() % 5));
        }
        struct plan best = solve("balanced", &m, &t, stages);
        struct plan even = solve("uniform", &m, &t, stages);
        struct plan own = solve("hierarchical", &m, &t, stages);
        double value = slowest(&own, &m, &t), ratio;
        assert_near(own.objective_s, value, 1e-12);
        ratio = best.objective_s > 0 ? value / best.objective_s : 1;
        assert_true(ratio > 1 - 1e-9);
        assert_true(value <= slowest(&even, &m, &t) * (1 + 1e-12));
        optimal += ratio < 1 + 1e-9;
        sum += ratio;
        worst = fmax(worst, ratio);
        plan_free(&own);
        plan_free(&even);
        plan_free(&best);
        topology_free(&t);
        model_free(&m);
    }
    print_message("%s: %d of %d optimal, mean ratio %.5f, worst %.5f\n", kind->name, optimal,
                  kind->trials, sum / kind->trials, worst);
    assert_true(worst <= 1.05);
}

static void is_near_balanced_on_random_chains_and_graphs(void **state)
{
    static const struct kind kind[] = {
        {"short chains", 60, 2, 30, 0, false},     {"chains", 30, 2, 400, 0, false},
        {"near skips", 30, 2, 400, 5, false},      {"far skips", 30, 2, 400, 100, false},
        {"mixed chains", 30, 2, 400, 0, true},     {"mixed, skips", 30, 2, 400, 20, true},
        {"long chains", 6, 1500, 1000, 0, false},  {"long, skips", 6, 1500, 1000, 300, false},
        {"long, mixed", 6, 1500, 1000, 100, true},
    };
    srand(5);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        compare(&kind[i]);
}

/* Eight ops, four devices in two nodes: the cheap tensors are where the slow link is. */
static void the_slow_link_gets_the_cheap_cut(void **state)
{
    struct model m = sample_chain(8, 1e-3, 2e-3, 0, 40000000);
    m.op[3].output_bytes = 1000;
    struct topology t = racks(4, 2);
    struct plan p = solve("hierarchical", &m, &t, 4);
    for (size_t s = 0; s < 4; s++)
        assert_int_equal(p.stage[s].ops, 2);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

/* Devices of a third of the speed get a third of the ops. */
static void slow_devices_get_less_work(void **state)
{
    struct model m = sample_chain(80, 0, 0, 0, 0);
    struct topology t = racks(4, 2);
    unmeasure(&m);
    for (size_t i = 0; i < m.n; i++)
        m.op[i].forward_flop = 1e9;
    add_slow_type(&t);
    t.type_of[2] = t.type_of[3] = 1;
    struct plan p = solve("hierarchical", &m, &t, 4);
    for (size_t s = 0; s < 4; s++)
        assert_int_equal(p.stage[s].ops, s < 2 ? 30 : 10);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

static void takes_more_ops_and_stages_than_balanced(void **state)
{
    srand(9);
    struct model m = random_model(30000, 40);
    struct topology t = racks(1024, 8);
    const struct partition_algorithm *balanced;
    struct partition_request r = request(1024);
    struct plan p = {0};
    assert_int_equal(partition_find("balanced", &balanced), STATUS_OK);
    assert_int_equal(partition_run(balanced, &m, &t, &r, &p), STATUS_UNSUPPORTED);
    p = solve("hierarchical", &m, &t, 1024);
    double total = 0;
    for (uint32_t i = 0; i < m.n; i++) {
        struct op_cost c = cost_op(&m, &t.type[0], i, 2, "sgd", NULL);
        total += c.forward_s + c.backward_s;
    }
    assert_near(slowest(&p, &m, &t), p.objective_s, 1e-12);
    print_message("30000 ops, 1024 stages: %.3f of the mean compute time of a stage\n",
                  p.objective_s / (total / 1024));
    struct plan even = solve("uniform", &m, &t, 1024);
    assert_true(p.objective_s < slowest(&even, &m, &t));
    plan_free(&even);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

static void takes_hostile_models(void **state)
{
    struct topology t = racks(16, 2);
    struct model m = sample_chain(1, 1e-3, 1e-3, 0, 0);
    struct plan p = solve("hierarchical", &m, &t, 1);
    assert_int_equal(p.stage[0].ops, 1);
    assert_near(p.objective_s, 4e-3, 1e-12);
    plan_free(&p);
    model_free(&m);
    m = sample_chain(16, 0, 0, 0, 0); /* nothing costs anything: one op each */
    p = solve("hierarchical", &m, &t, 16);
    assert_int_equal(p.stages, 16);
    plan_free(&p);
    p = solve("hierarchical", &m, &t, 5);
    assert_int_equal(p.stages, 5);
    plan_free(&p);
    m.profile[0].forward_s[7] = 1e6; /* one op is everything */
    p = solve("hierarchical", &m, &t, 16);
    assert_near(slowest(&p, &m, &t), p.objective_s, 1e-3);
    plan_free(&p);
    m.op[3].output_bytes = INT64_MAX / 4;
    p = solve("hierarchical", &m, &t, 3);
    plan_free(&p);
    model_free(&m);
    const struct partition_algorithm *a;
    struct partition_request r = request(17);
    m = sample_chain(16, 1e-3, 1e-3, 0, 0);
    assert_int_equal(partition_find("hierarchical", &a), STATUS_OK);
    assert_int_equal(partition_run(a, &m, &t, &r, &p), STATUS_INVALID);
    model_free(&m);
    topology_free(&t);
}

static void stages_of_several_chunks_are_cut_too(void **state)
{
    srand(21);
    struct model m = random_model(200, 6);
    struct topology t = racks(8, 2);
    struct partition_request r = request(32);
    struct plan p = {0}, q = {0};
    const struct partition_algorithm *a, *b;
    r.chunks = 4;
    r.schedule = "interleaved";
    assert_int_equal(partition_find("hierarchical", &a), STATUS_OK);
    assert_int_equal(partition_find("balanced", &b), STATUS_OK);
    assert_int_equal(partition_run(a, &m, &t, &r, &p), STATUS_OK);
    assert_int_equal(partition_run(b, &m, &t, &r, &q), STATUS_OK);
    assert_near(slowest(&p, &m, &t), p.objective_s, 1e-12);
    assert_true(p.objective_s >= q.objective_s * (1 - 1e-9));
    plan_free(&q);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    srand(1);
    struct model m = random_model(20, 3);
    struct topology t = racks(8, 2);
    struct partition_request r = request(6);
    struct plan p = {0};
    const struct partition_algorithm *a;
    assert_int_equal(partition_find("hierarchical", &a), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(partition_run(a, &m, &t, &r, &p));
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_near_balanced_on_random_chains_and_graphs),
        cmocka_unit_test(the_slow_link_gets_the_cheap_cut),
        cmocka_unit_test(slow_devices_get_less_work),
        cmocka_unit_test(takes_more_ops_and_stages_than_balanced),
        cmocka_unit_test(takes_hostile_models),
        cmocka_unit_test(stages_of_several_chunks_are_cut_too),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("hierarchical", tests, NULL, NULL);
}
