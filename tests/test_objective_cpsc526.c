/* Objective cpsc526: the project's numbers, proved optima, brute force, hostile inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/zoo.h"
#include "papers/common/objective.h"
#include "papers/cpsc526/exhaustive.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/map_build.h"
#include "tests/put.h"
#include "tests/sample.h"

static const char path[] = BINARY_DIR "/test_objective_cpsc526.txt"; /* speeds, or a split */

static struct model toy(size_t ops)
{
    struct model m = {0};
    char spec[64];
    snprintf(spec, sizeof spec, "two-chains:ops=%zu", ops);
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s", error_message());
    return m;
}

static struct objective_request request(const struct model *m, size_t devices)
{
    return (struct objective_request){
        .model = m, .devices = devices, .memory_bytes = NAN, .seed = 1};
}

static struct objective_request of_96(const struct model *m, bool compat)
{
    struct objective_request r = request(m, 0);
    r.hierarchy_levels = 4;
    memcpy(r.hierarchy, (size_t[]){2, 3, 4, 4}, 4 * sizeof *r.hierarchy);
    r.said.compat = compat;
    return r;
}

static struct objective_result solve(const char *algorithm, const struct objective_request *r)
{
    struct objective_result result = {0};
    if (objective_solve(&objective_cpsc526, algorithm, r, &result) != STATUS_OK)
        fail_msg("%s", error_message());
    return result;
}

static void assert_proved(const char *algorithm, const struct objective_request *r, double value)
{
    struct objective_result result = solve(algorithm, r);
    assert_near(result.value, value, 1e-9);
    assert_near(result.lower_bound, value, 1e-9);
    assert_true(result.proved_optimal);
    assert_false(result.interrupted);
    objective_result_free(&result);
}

/* SEEDS.md S0-03; the optima follow from the bound of section 2A too. */
static void exhaustive_finds_the_optima_of_small_toys(void **state)
{
    static const struct {
        size_t ops;
        double value;
    } toys[] = {{9, 2}, {7, 14.0 / 3}, {5, 14.0 / 3}};
    for (size_t i = 0; i < sizeof toys / sizeof *toys; i++) {
        struct model m = toy(toys[i].ops);
        struct objective_request r = request(&m, 3);
        assert_proved("exhaustive", &r, toys[i].value);
        model_free(&m);
    }
}

/* The project's own heuristic: never better than what is proved, never worse than the first
 * split. */
static void greedy_is_the_projects_own(void **state)
{
    struct model m = toy(61);
    struct objective_request r = request(&m, 3);
    struct objective_result own = solve("greedy", &r), ours = solve("local", &r);
    assert_true(own.value >= ours.value && ours.value >= own.lower_bound);
    assert_true(own.value < 61 * 61);
    objective_result_free(&own);
    objective_result_free(&ours);
    model_free(&m);
}

/* SEEDS.md S0-01: the identity costs 1 off the diagonal, so the toy is what --devices 3 makes of
 * it. */
static void identical_speeds_cost_the_same_everywhere(void **state)
{
    put_text(path, "1 0 0\n0 1 0\n0 0 1\n");
    struct model m = toy(9);
    struct objective_request r = request(&m, 0);
    struct cpsc526_problem p = {0};
    r.said.speeds = path;
    assert_int_equal(cpsc526_problem_build(&r, &p), STATUS_OK);
    for (size_t i = 0; i < 9; i++)
        assert_true(p.cost[i] == (i % 4 == 0 ? 0 : 1));
    cpsc526_problem_free(&p);
    assert_proved("exhaustive", &r, 2);
    model_free(&m);
}

struct sequence {
    size_t n;
    double value[20];
    int stop;
};

static void note_improvement(void *context, double value)
{
    struct sequence *s = context;
    if (s->n < 20)
        s->value[s->n++] = value;
    s->stop = s->n == 20;
}

/* SEEDS.md S0-04: the m-th is 132^2 + (132 - 2m)^2 + (264 - 2m)^2 + 2. */
static void exhaustive_improves_in_the_sequence_of_the_project(void **state)
{
    struct model m = toy(201);
    struct sequence s = {0};
    struct objective_request r = request(&m, 3);
    struct cpsc526_problem p = {0};
    uint32_t label[201];
    bool complete;
    r.stop = &s.stop;
    r.better = note_improvement;
    r.context = &s;
    assert_int_equal(cpsc526_problem_build(&r, &p), STATUS_OK);
    assert_int_equal(cpsc526_enumerate(&p, &r, label, &complete), STATUS_OK);
    assert_false(complete);
    assert_int_equal(s.n, 20);
    for (size_t i = 0; i < 20; i++) {
        double a = 132 - 2.0 * (double)i, b = 264 - 2.0 * (double)i;
        assert_near(s.value[i], 132 * 132 + a * a + b * b + 2, 1e-6);
    }
    assert_near(s.value[0], 104546, 1e-6);
    assert_near(s.value[19], 77338, 1e-6);
    cpsc526_problem_free(&p);
    model_free(&m);
}

/* A plain enumeration in the project's order: op `at` opens the first part and the rest of them are
 * made of the later ops, or the later ops make all parts and it joins each in turn. No bounds,
 * nothing left out. */
struct plainly {
    const struct cpsc526_problem *p;
    struct sequence s;
    uint32_t part[12];
};

static void each_labeling_improves(struct plainly *e)
{
    static const uint32_t label[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t k = 0; k < 6; k++) {
        uint32_t of[12];
        double weight[3];
        for (size_t i = 0; i < e->p->n; i++)
            of[i] = label[k][e->part[i]];
        double value = cpsc526_metric(e->p, of, weight);
        if (e->s.n == 0 || value < e->s.value[e->s.n - 1] - 1e-9)
            e->s.value[e->s.n++] = value;
    }
}

/* Parts of the ops from `at` on, in so many parts, as a list of restricted choices: those of the
 * joiners before are made last, so that the first one's choice varies fastest. */
static void enumerate_plainly(struct plainly *e, uint32_t at, uint32_t opened, uint32_t *joiner,
                              uint32_t *lowest, size_t joiners)
{
    if (opened == 2) { /* the last part has all the others */
        for (uint32_t i = at; i < e->p->n; i++)
            e->part[i] = 2;
        size_t all = 1, choice;
        for (size_t j = 0; j < joiners; j++)
            all *= 3 - lowest[j];
        for (size_t c = 0; c < all; c++) {
            choice = c;
            for (size_t j = 0; j < joiners; j++) {
                e->part[joiner[j]] = lowest[j] + (uint32_t)(choice % (3 - lowest[j]));
                choice /= 3 - lowest[j];
            }
            each_labeling_improves(e);
        }
        return;
    }
    e->part[at] = opened;
    if (e->p->n - at > 2 - opened)
        enumerate_plainly(e, at + 1, opened + 1, joiner, lowest, joiners);
    if (e->p->n - at - 1 < 3 - opened)
        return;
    joiner[joiners] = at;
    lowest[joiners] = opened;
    enumerate_plainly(e, at + 1, opened, joiner, lowest, joiners + 1);
}

static void leaving_out_changes_no_improvement(void **state)
{
    for (size_t n = 3; n <= 12; n++) {
        struct model m = toy(n);
        struct plainly e = {0};
        struct sequence s = {0};
        struct objective_request r = request(&m, 3);
        struct cpsc526_problem p = {0};
        uint32_t label[12], joiner[12], lowest[12];
        bool complete;
        r.better = note_improvement;
        r.context = &s;
        assert_int_equal(cpsc526_problem_build(&r, &p), STATUS_OK);
        assert_int_equal(cpsc526_enumerate(&p, &r, label, &complete), STATUS_OK);
        assert_true(complete);
        e.p = &p;
        enumerate_plainly(&e, 0, 0, joiner, lowest, 0);
        assert_int_equal(s.n, e.s.n);
        for (size_t i = 0; i < s.n; i++)
            assert_near(s.value[i], e.s.value[i], 1e-9);
        cpsc526_problem_free(&p);
        model_free(&m);
    }
}

static void three_devices_reach_the_proved_optimum(void **state)
{
    struct model m = toy(201);
    struct objective_request r = request(&m, 3);
    assert_proved(NULL, &r, 2);
    assert_proved("hierarchical", &r, 2);
    model_free(&m);
}

static void ninety_six_devices_reach_the_proved_optima(void **state)
{
    struct model m = toy(201);
    for (int compat = 0; compat < 2; compat++) {
        struct objective_request r = of_96(&m, compat);
        assert_proved("hierarchical", &r, compat ? 56.125 : 94.625);
        assert_proved("local", &r, compat ? 56.125 : 94.625);
    }
    model_free(&m);
}

/* Digits of the labels, outermost first; the seed's matrix knows pairs only. */
static void costs_grow_with_the_level_at_which_labels_part(void **state)
{
    struct model m = toy(201);
    static const struct {
        size_t a, b;
        double right, compat;
    } pairs[] = {
        {0, 0, 0, 0},      {0, 1, 0.5, 0},  {1, 2, 0.5, 0.5}, {0, 3, 0.5, 0.5}, {0, 4, 1, 0.5},
        {3, 17, 1.5, 0.5}, {0, 95, 2, 0.5}, {95, 94, 0.5, 0}, {47, 48, 2, 0.5},
    };
    for (int compat = 0; compat < 2; compat++) {
        struct objective_request r = of_96(&m, compat);
        struct cpsc526_problem p = {0};
        assert_int_equal(cpsc526_problem_build(&r, &p), STATUS_OK);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            double expected = compat ? pairs[i].compat : pairs[i].right;
            assert_near(p.cost[pairs[i].a * 96 + pairs[i].b], expected, 0);
            assert_near(p.cost[pairs[i].b * 96 + pairs[i].a], expected, 0);
        }
        cpsc526_problem_free(&p);
    }
    model_free(&m);
}

/* ---- slow reference */

static double slow_metric(const struct model *m, const struct objective_request *r,
                          const uint32_t *label, size_t k)
{
    double weight[8] = {0}, sum = 0, value = 0;
    size_t count[8] = {0};
    for (size_t i = 0; i < m->n; i++) {
        double w = (double)m->op[i].parameter_bytes / 4;
        weight[label[i]] += w;
        count[label[i]]++;
        sum += w;
        for (size_t e = m->out_start[i]; e < m->out_start[i + 1]; e++) {
            uint32_t a = label[i], b = label[m->out[e]];
            if (r->topology)
                value += a % 2 != b % 2 ? 1 - 25.0 / 100 : 0; /* two_nodes() */
            else if (r->devices)
                value += a != b;
            else /* two levels */
                value += 0.5 * (a != b) + 0.5 * (a / r->hierarchy[1] != b / r->hierarchy[1]);
        }
    }
    for (size_t c = 0; c < k; c++)
        value += count[c] ? pow(weight[c] - sum / (double)k, 2) : INFINITY;
    return value;
}

static double slow_best(const struct model *m, const struct objective_request *r, size_t k)
{
    double best = INFINITY;
    uint32_t label[8] = {0};
    for (;;) {
        size_t i = 0;
        best = fmin(best, slow_metric(m, r, label, k));
        while (i < m->n && ++label[i] == k)
            label[i++] = 0;
        if (i == m->n)
            return best;
    }
}

static struct model random_graph(size_t n)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge edge[64];
    size_t edges = 0;
    for (uint32_t i = 0; i < n; i++) {
        m.op[i].parameter_bytes = 4 * (rand() % 6);
        for (uint32_t j = 0; j < i; j++)
            if (rand() % 3 == 0)
                edge[edges++] = (struct model_edge){j, i};
    }
    sample_rewire(&m, edge, edges);
    return m;
}

static void all_algorithms_agree_with_brute_force(void **state)
{
    srand(21);
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 4 + (size_t)rand() % 4, k = trial % 2 ? 4 : 1 + (size_t)rand() % 4;
        struct model m = random_graph(n);
        struct objective_request r = request(&m, trial % 2 ? 0 : k);
        r.hierarchy_levels = trial % 2 ? 2 : 0;
        r.hierarchy[0] = r.hierarchy[1] = 2;
        double best = slow_best(&m, &r, k);
        struct objective_result exhaustive = solve("exhaustive", &r), local = solve("local", &r),
                                hierarchical = solve("hierarchical", &r);
        assert_near(exhaustive.value, best, 1e-9);
        assert_true(exhaustive.proved_optimal);
        assert_true(local.value >= best - 1e-9);
        assert_true(local.lower_bound <= best + 1e-9);
        assert_true(hierarchical.value >= best - 1e-9);
        assert_true(!local.proved_optimal || local.value <= best + 1e-9);
        objective_result_free(&hierarchical);
        objective_result_free(&local);
        objective_result_free(&exhaustive);
        model_free(&m);
    }
}

static uint32_t odd_and_even(const void *unused, uint32_t from, uint32_t to)
{
    (void)unused;
    return from % 2 != to % 2;
}

static struct topology two_nodes(size_t n)
{
    struct topology t = sample_clique(n, 1e-6, 100e9);
    t.tier = realloc(t.tier, 2 * sizeof *t.tier);
    t.tier[1] = (struct topology_tier){sample_text("nic"), 1e-5, 25e9};
    t.tiers = 2;
    assert_int_equal(map_build(n, odd_and_even, NULL, &t.between), STATUS_OK);
    return t;
}

static void on_a_platform_slow_pairs_cost_more(void **state)
{
    static const char *const name[] = {"exhaustive", "local", "hierarchical"};
    srand(23);
    for (int trial = 0; trial < 30; trial++) {
        struct model m = random_graph(4 + (size_t)rand() % 4);
        struct topology t = two_nodes(trial % 3 ? 4 : 3);
        struct objective_request r = {.model = &m, .topology = &t, .seed = 1};
        double best = slow_best(&m, &r, t.n);
        for (size_t a = 0; a < 3; a++) {
            struct objective_result result = solve(name[a], &r);
            assert_true(a == 0 ? fabs(result.value - best) < 1e-9 : result.value >= best - 1e-9);
            assert_true(result.lower_bound <= best + 1e-9);
            assert_string_equal(result.part[t.n - 1].device, t.device[t.n - 1]);
            objective_result_free(&result);
        }
        topology_free(&t);
        model_free(&m);
    }
}

/* A chain must cross once between the nodes; these are found although their labels alternate. */
static void hierarchical_takes_the_groups_of_the_platform(void **state)
{
    struct model m = sample_chain(40, 0, 0, 4, 0);
    struct topology t = two_nodes(4);
    struct objective_request r = {.model = &m, .topology = &t, .seed = 1};
    struct objective_result result = {0};
    assert_proved("hierarchical", &r, 0.75);
    FOR_EACH_ALLOC_FAILURE(objective_solve(&objective_cpsc526, "hierarchical", &r, &result));
    objective_result_free(&result);
    topology_free(&t);
    model_free(&m);
}

/* On random graphs too small for luck to matter, 20 restarts find the optimum. */
static void local_search_is_optimal_on_most_small_graphs(void **state)
{
    size_t optimal = 0;
    srand(22);
    for (int trial = 0; trial < 40; trial++) {
        struct model m = random_graph(7);
        struct objective_request r = request(&m, 2);
        struct objective_result local = solve("local", &r);
        optimal += local.value <= slow_best(&m, &r, 2) + 1e-9;
        objective_result_free(&local);
        model_free(&m);
    }
    assert_true(optimal >= 36);
}

/* ---- score, errors */

/* n = 5 in topological order 0 1 3 4 2; parts of 2, 2 and 6: 2 * (4/3)^2 + (8/3)^2, cuts 0-1, 1-2.
 */
static void scores_a_split_in_label_order(void **state)
{
    struct model m = toy(5);
    struct objective_request r = request(&m, 3);
    double value = 7;
    put_text(path, "{\"parts\": [{\"ops\": [\"node0\"]}, {\"ops\": [\"node1\"]},"
                   " {\"ops\": [\"node2\", \"node3\", \"node4\"]}]}");
    assert_int_equal(objective_cpsc526.score(&r, path, &value), STATUS_OK);
    assert_near(value, 2 * 16.0 / 9 + 64.0 / 9 + 2, 1e-12);

    static const struct {
        const char *text, *message;
        enum status status;
    } bad[] = {
        {"{\"parts\": [{\"ops\": []}, {\"ops\": [\"node1\"]},"
         " {\"ops\": [\"node2\", \"node3\", \"node4\", \"node0\"]}]}",
         "a part of the split is empty, which makes the metric infinite", STATUS_INFEASIBLE},
        {"{\"parts\": [{\"ops\": [\"node1\"]}]}", "the split does not contain op 'node0'",
         STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        value = 7;
        put_text(path, bad[i].text);
        assert_int_equal(objective_cpsc526.score(&r, path, &value), bad[i].status);
        assert_message(error_message(), bad[i].message);
        assert_true(value == 7);
    }
    put_text(path, "{\"parts\": [{\"ops\": [\"node1\", \"node1\"]}]}");
    assert_int_equal(objective_cpsc526.score(&r, path, &value), STATUS_PARSE);
    put_text(path, "{\"parts\": [{\"ops\": [\"node9\"]}]}");
    assert_int_equal(objective_cpsc526.score(&r, path, &value), STATUS_PARSE);
    model_free(&m);
}

static void impossible_requests_are_one_clear_line(void **state)
{
    struct model m = toy(5);
    struct objective_result result = {.value = 7};
    struct objective_request r = request(&m, 6);
    assert_int_equal(objective_solve(&objective_cpsc526, NULL, &r, &result), STATUS_INFEASIBLE);
    assert_message(error_message(), "got 6 devices for 5 ops, expected at least one op per device");
    r = request(&m, 0);
    assert_int_equal(objective_solve(&objective_cpsc526, NULL, &r, &result), STATUS_USAGE);
    assert_message(error_message(),
                   "objective cpsc526 needs --devices, --hierarchy, --platform or --speeds");
    r = of_96(&m, false);
    r.hierarchy[3] = 0;
    assert_int_equal(objective_solve(&objective_cpsc526, NULL, &r, &result), STATUS_INVALID);
    assert_true(result.value == 7);
    model_free(&m);
}

/* No edges, no parameters: any split into non-empty parts is optimal. */
static void takes_graphs_without_edges_and_weights(void **state)
{
    struct model m = sample_chain(5, 0, 0, 0, 0);
    sample_rewire(&m, NULL, 0);
    struct objective_request r = request(&m, 3);
    assert_proved("exhaustive", &r, 0);
    assert_proved("local", &r, 0);
    assert_proved("hierarchical", &r, 0);
    model_free(&m);
}

static void the_same_seed_gives_the_same_split(void **state)
{
    static const char *const name[] = {"local", "hierarchical", "exhaustive"};
    srand(23);
    struct model m = random_graph(8);
    for (size_t a = 0; a < 3; a++) {
        struct objective_request r = request(&m, 3);
        struct objective_result x = solve(name[a], &r), y = solve(name[a], &r);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(x.part[i].ops, y.part[i].ops);
            for (size_t k = 0; k < x.part[i].ops; k++)
                assert_string_equal(x.part[i].op[k], y.part[i].op[k]);
        }
        objective_result_free(&x);
        objective_result_free(&y);
    }
    model_free(&m);
}

static void stopped_at_once_it_still_has_a_split(void **state)
{
    static const char *const name[] = {"local", "hierarchical", "exhaustive"};
    static const int stop = 1;
    struct model m = toy(51);
    m.op[0].parameter_bytes = 40; /* the bound is out of reach */
    for (size_t a = 0; a < 3; a++) {
        struct objective_request r = request(&m, 4);
        r.stop = &stop;
        struct objective_result result = solve(name[a], &r);
        assert_true(result.interrupted);
        assert_int_equal(result.parts, 4);
        assert_true(isfinite(result.value));
        assert_true(result.lower_bound <= result.value);
        objective_result_free(&result);
    }
    model_free(&m);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    static const char *const name[] = {"local", "hierarchical", "exhaustive"};
    struct model m = toy(9);
    for (size_t a = 0; a < 3; a++) {
        struct objective_request r = request(&m, 0);
        struct objective_result result = {0};
        r.hierarchy_levels = 2;
        r.hierarchy[0] = r.hierarchy[1] = 2;
        FOR_EACH_ALLOC_FAILURE((objective_result_free(&result),
                                objective_solve(&objective_cpsc526, name[a], &r, &result)));
        objective_result_free(&result);
    }
    put_text(path, "{\"parts\": [{\"ops\": [\"node0\", \"node1\", \"node2\", \"node3\", \"node4\","
                   " \"node5\", \"node6\", \"node7\"]}, {\"ops\": [\"node8\"]}]}");
    struct objective_request r = request(&m, 2);
    double value;
    FOR_EACH_ALLOC_FAILURE(objective_cpsc526.score(&r, path, &value));
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exhaustive_finds_the_optima_of_small_toys),
        cmocka_unit_test(greedy_is_the_projects_own),
        cmocka_unit_test(identical_speeds_cost_the_same_everywhere),
        cmocka_unit_test(exhaustive_improves_in_the_sequence_of_the_project),
        cmocka_unit_test(leaving_out_changes_no_improvement),
        cmocka_unit_test(three_devices_reach_the_proved_optimum),
        cmocka_unit_test(ninety_six_devices_reach_the_proved_optima),
        cmocka_unit_test(costs_grow_with_the_level_at_which_labels_part),
        cmocka_unit_test(all_algorithms_agree_with_brute_force),
        cmocka_unit_test(on_a_platform_slow_pairs_cost_more),
        cmocka_unit_test(hierarchical_takes_the_groups_of_the_platform),
        cmocka_unit_test(local_search_is_optimal_on_most_small_graphs),
        cmocka_unit_test(scores_a_split_in_label_order),
        cmocka_unit_test(impossible_requests_are_one_clear_line),
        cmocka_unit_test(takes_graphs_without_edges_and_weights),
        cmocka_unit_test(the_same_seed_gives_the_same_split),
        cmocka_unit_test(stopped_at_once_it_still_has_a_split),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("objective_cpsc526", tests, NULL, NULL);
}
