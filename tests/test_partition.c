/* Partitioners: hand-worked cases, brute force, placement, and the contract's errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cost/cost.h"
#include "partition/device_order.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"
#include "tests/sample.h"

static const struct partition_algorithm *algorithm(const char *name)
{
    const struct partition_algorithm *a;
    if (partition_find(name, &a) != STATUS_OK)
        fail_msg("%s", error_message());
    return a;
}

static struct partition_request request(size_t stages, uint32_t replicas)
{
    return (struct partition_request){.stages = stages,
                                      .replicas = replicas,
                                      .microbatches = 8,
                                      .microbatch_size = 2,
                                      .schedule = "1f1b",
                                      .optimizer = "sgd",
                                      .model = "m",
                                      .platform = "p"};
}

/* A random DAG of n ops with random times and tensor sizes. */
static struct model random_dag(size_t n)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge edge[256];
    size_t edges = 0;
    for (uint32_t i = 0; i < n; i++) {
        m.profile[0].forward_s[i] = rand() % 100 * 1e-5;
        m.profile[0].backward_s[i] = rand() % 200 * 1e-5;
        m.op[i].output_bytes = rand() % 1000 * 1000;
        for (uint32_t j = i + 1; j < n; j++)
            if (j == i + 1 || rand() % 4 == 0)
                edge[edges++] = (struct model_edge){i, j};
    }
    sample_rewire(&m, edge, edges);
    return m;
}

/* Slow and obvious: bytes of tensors from before `first` that ops first..last read, each once. */
static double entering(const struct model *m, size_t first, size_t last)
{
    double sum = 0;
    for (size_t p = 0; p < first; p++) {
        bool read = false;
        for (size_t k = m->out_start[p]; k < m->out_start[p + 1]; k++)
            read = read || (m->out[k] >= first && m->out[k] <= last);
        sum += read ? (double)m->op[p].output_bytes : 0;
    }
    return sum;
}

static double stage_load(const struct model *m, const struct topology *t, size_t first, size_t last,
                         size_t stage)
{
    double load = 0;
    for (size_t i = first; i <= last; i++) {
        struct op_cost c = cost_op(m, &t->type[0], (uint32_t)i, 2, "sgd", NULL);
        load += c.forward_s + c.backward_s;
    }
    if (stage > 0)
        load +=
            2 * (t->tier[0].latency_s + 2 * entering(m, first, last) / t->tier[0].bandwidth_Bps);
    return load;
}

static double brute_force(const struct model *m, const struct topology *t, size_t stages)
{
    double best = INFINITY;
    for (unsigned cuts = 0; cuts < 1u << (m->n - 1); cuts++) {
        size_t stage = 0, first = 0;
        double worst = 0;
        for (size_t i = 0; i < m->n; i++)
            if (i + 1 == m->n || cuts >> i & 1) {
                worst = fmax(worst, stage_load(m, t, first, i, stage));
                first = i + 1;
                stage++;
            }
        if (stage == stages)
            best = fmin(best, worst);
    }
    return best;
}

static void balanced_agrees_with_brute_force_on_random_dags(void **state)
{
    srand(3);
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 2 + (size_t)rand() % 9, stages = 1 + (size_t)rand() % (n < 4 ? n : 4);
        struct model m = random_dag(n);
        struct topology t = sample_clique(4, 1e-5, 1e9);
        struct partition_request r = request(stages, 1);
        struct plan p = {0};
        if (partition_run(algorithm("balanced"), &m, &t, &r, &p) != STATUS_OK)
            fail_msg("%s", error_message());
        double expected = brute_force(&m, &t, stages), worst = 0;
        for (size_t s = 0; s < stages; s++)
            worst = fmax(
                worst, stage_load(&m, &t, p.stage[s].op[0], p.stage[s].op[p.stage[s].ops - 1], s));
        assert_near(p.objective_s, expected, 1e-12);
        assert_near(worst, expected, 1e-12);
        plan_free(&p);
        topology_free(&t);
        model_free(&m);
    }
}

/* Five equal ops; the tensor after op1 (0-based) is huge: two stages cut elsewhere. */
static void balanced_avoids_an_expensive_cut(void **state)
{
    struct model m = sample_chain(4, 1e-3, 2e-3, 0, 1000);
    m.op[1].output_bytes = 100000000;
    struct topology t = sample_clique(2, 0, 1e9);
    struct partition_request r = request(2, 1);
    struct plan p = {0};
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &p), STATUS_OK);
    assert_int_not_equal(p.stage[0].ops, 2);
    plan_free(&p);
    assert_int_equal(partition_run(algorithm("uniform"), &m, &t, &r, &p), STATUS_OK);
    assert_int_equal(p.stage[0].ops, 2);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

/* Seconds of the slowest pair of stages, the s-th and the s-th from the end. */
static double slowest_pair(const struct model *m, const struct plan *p)
{
    double worst = 0;
    for (size_t s = 0; s < p->stages / 2; s++) {
        const struct plan_stage *pair[2] = {&p->stage[s], &p->stage[p->stages - 1 - s]};
        double sum_s = 0;
        for (size_t k = 0; k < 2; k++)
            for (size_t i = 0; i < pair[k]->ops; i++)
                sum_s += m->profile[0].forward_s[pair[k]->op[i]] +
                         m->profile[0].backward_s[pair[k]->op[i]];
        worst = fmax(worst, sum_s);
    }
    return worst;
}

/* Without messages the loop has the cut that it begins with: the slowest rank only gets faster. */
static void balanced_evens_out_the_ranks_of_a_v(void **state)
{
    srand(17);
    size_t faster = 0;
    for (int k = 0; k < 100; k++) {
        uint32_t ranks = 1 + (uint32_t)(rand() % 5);
        struct model m = sample_chain(2 * ranks + (size_t)(rand() % 30), 0, 0, 4, 0);
        struct topology t = sample_clique(ranks, 0, 1e9);
        struct partition_request r = request(2 * ranks, 1);
        struct plan loop = {0}, vee = {0};
        for (size_t i = 0; i < m.n; i++)
            m.profile[0].forward_s[i] = 1e-3 * (1 + rand() % 100);
        r.chunks = 2;
        r.schedule = "interleaved";
        assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &loop), STATUS_OK);
        r.schedule = "zb-v";
        assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &vee), STATUS_OK);
        for (uint32_t s = 0; s < ranks; s++)
            assert_int_equal(vee.stage[s].device[0], vee.stage[2 * ranks - 1 - s].device[0]);
        double before = slowest_pair(&m, &loop), after = slowest_pair(&m, &vee);
        assert_true(after <= before * (1 + 1e-9));
        faster += after < before * (1 - 1e-9);
        plan_free(&loop);
        plan_free(&vee);
        topology_free(&t);
        model_free(&m);
    }
    print_message("%zu of 100 faster\n", faster);
    assert_true(faster > 20);
}

static uint32_t other_node(const void *unused, uint32_t from, uint32_t to)
{
    (void)unused;
    return from % 2 != to % 2;
}

/* Devices 0 2 4 in one node, 1 3 5 in another: neighbours stay in a node as long as they can. */
static void neighbouring_stages_sit_in_the_same_node(void **state)
{
    struct topology t = sample_clique(6, 1e-6, 100e9);
    uint32_t order[6];
    t.tier = realloc(t.tier, 2 * sizeof *t.tier);
    t.tier[1] = (struct topology_tier){sample_text("far"), 1e-5, 1e9};
    t.tiers = 2;
    assert_int_equal(map_build(6, other_node, NULL, &t.between), STATUS_OK);
    assert_int_equal(device_order_near(&t, order), STATUS_OK);
    static const uint32_t expected[] = {0, 2, 4, 1, 3, 5};
    assert_memory_equal(order, expected, sizeof expected);

    struct model m = sample_chain(6, 1e-3, 2e-3, 0, 1000);
    struct partition_request r = request(3, 2);
    struct plan p = {0};
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &p), STATUS_OK);
    for (uint32_t s = 0; s < 3; s++) { /* replica 0 in the first node, replica 1 in the second */
        assert_int_equal(p.stage[s].device[0], 2 * s);
        assert_int_equal(p.stage[s].device[1], 2 * s + 1);
    }
    plan_free(&p);
    model_free(&m);
    topology_free(&t);
}

static void impossible_requests_are_one_clear_line(void **state)
{
    struct model m = sample_chain(3, 1e-3, 2e-3, 0, 1000);
    struct topology t = sample_clique(4, 0, 1e9);
    struct plan p = {0};
    struct partition_request r = request(4, 1);
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &p), STATUS_INVALID);
    assert_message(error_message(), "4 stages the 3 ops of m");
    r = request(3, 2);
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &p), STATUS_INVALID);
    assert_message(error_message(), "3 stages x 2 replicas need 6 devices, p has 4");
    const struct partition_algorithm *a;
    char expected[512] = "unknown algorithm 'magic'; known: ";
    for (size_t k = 0; k < partition_algorithms_n; k++)
        strcat(strcat(expected, k > 0 ? ", " : ""), partition_algorithms[k]->name);
    assert_int_equal(partition_find("magic", &a), STATUS_INVALID);
    assert_message(error_message(), expected);
    topology_free(&t);
    model_free(&m);
}

static void options_that_an_algorithm_does_not_take_are_refused(void **state)
{
    assert_int_equal(partition_check_option(algorithm("auto"), "finalists"), STATUS_OK);
    assert_int_equal(partition_check_option(algorithm("manual"), "split-at"), STATUS_OK);
    assert_int_equal(partition_check_option(algorithm("uniform"), "replicas"), STATUS_OK);
    assert_int_equal(partition_check_option(algorithm("uniform"), "finalists"), STATUS_USAGE);
    assert_message(error_message(), "--finalists --algorithm uniform");
}

static void a_search_cuts_no_plan(void **state)
{
    struct model m = sample_chain(3, 1e-3, 2e-3, 0, 1000);
    struct topology t = sample_clique(4, 0, 1e9);
    struct plan p = {0};
    struct partition_request r = request(2, 1);
    assert_int_equal(partition_run(algorithm("auto"), &m, &t, &r, &p), STATUS_INVALID);
    topology_free(&t);
    model_free(&m);
}

static void the_same_request_gives_the_same_plan(void **state)
{
    srand(5);
    struct model m = random_dag(12);
    struct topology t = sample_clique(4, 1e-5, 1e9);
    struct partition_request r = request(4, 1);
    struct plan p = {0}, q = {0};
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &p), STATUS_OK);
    assert_int_equal(partition_run(algorithm("balanced"), &m, &t, &r, &q), STATUS_OK);
    for (size_t s = 0; s < 4; s++) {
        assert_int_equal(p.stage[s].ops, q.stage[s].ops);
        assert_int_equal(p.stage[s].op[0], q.stage[s].op[0]);
    }
    plan_free(&p);
    plan_free(&q);
    topology_free(&t);
    model_free(&m);
}

/* What was turned off counts as much as what was turned on, and a degree without being chosen. */
static void a_plan_breaks_what_was_chosen(void **state)
{
    struct plan_stage stage = {.replicas = 2, .tensor_parallel = 2};
    struct plan p = {.stages = 1, .stage = &stage, .sequence_parallel = true};
    struct partition_request r = {.tensor_parallel = 2};
    assert_null(partition_breaks(&r, &p));
    r.chosen = KNOB_BIT(sequence_parallel); /* --no-sequence-parallel */
    assert_ptr_equal(partition_breaks(&r, &p), &strategy_knobs[KNOB_sequence_parallel]);
    p.sequence_parallel = false;
    assert_null(partition_breaks(&r, &p));
    r.replicas = 4;
    assert_ptr_equal(partition_breaks(&r, &p), &strategy_knobs[KNOB_replicas]);
    stage.replicas = 4;
    assert_null(partition_breaks(&r, &p));
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct model m = sample_chain(5, 1e-3, 2e-3, 0, 1000);
    struct topology t = sample_clique(3, 0, 1e9);
    struct partition_request r = request(3, 1);
    struct plan p = {0};
    FOR_EACH_ALLOC_FAILURE((plan_free(&p), partition_run(algorithm("balanced"), &m, &t, &r, &p)));
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_agrees_with_brute_force_on_random_dags),
        cmocka_unit_test(balanced_avoids_an_expensive_cut),
        cmocka_unit_test(balanced_evens_out_the_ranks_of_a_v),
        cmocka_unit_test(neighbouring_stages_sit_in_the_same_node),
        cmocka_unit_test(impossible_requests_are_one_clear_line),
        cmocka_unit_test(options_that_an_algorithm_does_not_take_are_refused),
        cmocka_unit_test(a_search_cuts_no_plan),
        cmocka_unit_test(the_same_request_gives_the_same_plan),
        cmocka_unit_test(a_plan_breaks_what_was_chosen),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("partition", tests, NULL, NULL);
}
