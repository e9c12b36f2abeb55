/* Objective pipedream: hand-worked cases, a slow reference, scoring, errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "papers/common/objective.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/put.h"
#include "tests/sample.h"

static struct objective_request request(const struct model *m, size_t machines, double bandwidth)
{
    return (struct objective_request){.model = m,
                                      .levels = 1,
                                      .machines = {machines},
                                      .bandwidth_Bps = {bandwidth},
                                      .memory_bytes = NAN};
}

static struct objective_result solve(const struct objective_request *r)
{
    struct objective_result result = {0};
    if (objective_solve(&objective_pipedream, NULL, r, &result) != STATUS_OK)
        fail_msg("%s", error_message());
    return result;
}

/* ---- by hand */

/* Two ops of 1 s and 3 s (forward + backward), 1 GB of parameters each, 2 machines of 1 GB/s:
 * replicated (4 + 4 * 1 * 2 / 2) / 2 = 4 s; cut, 3 s. An activation of 2.5 GB between them takes
 * 2 * 2.5 = 5 s if it is charged; then 4 s is best. */
static void weighs_replicas_against_a_cut(void **state)
{
    struct model m = sample_chain(2, 0.25, 0.75, 1000000000, 2500000000);
    m.profile[0].forward_s[1] = 1;
    m.profile[0].backward_s[1] = 2;
    struct objective_request r = request(&m, 2, 1e9);
    struct objective_result result = solve(&r);
    assert_near(result.value, 3, 1e-12);
    assert_int_equal(result.parts, 2);
    assert_string_equal(result.part[1].op[0], "op1");
    assert_string_equal(result.note, "2 states; replicas: x1 x1; 1.33333 times as fast as one "
                                     "machine (data parallelism: 1 times)");
    objective_result_free(&result);
    r.said.charge_activations = true;
    result = solve(&r);
    assert_near(result.value, 4, 1e-12);
    assert_int_equal(result.parts, 1);
    assert_int_equal(result.part[0].replicas, 2);
    objective_result_free(&result);
    r.said.straight = true;
    result = solve(&r);
    assert_near(result.value, 5, 1e-12);
    objective_result_free(&result);
    model_free(&m);
}

/* ---- slow reference: sets of ops are bit masks, everything by definition */

enum { SLOW_OPS = 7 };

struct slow {
    const struct model *m;
    const struct objective_request *r;
};

static bool ancestor(const struct model *m, size_t a, size_t b)
{
    for (size_t k = m->in_start[b]; k < m->in_start[b + 1]; k++)
        if (m->in[k] == a || ancestor(m, a, m->in[k]))
            return true;
    return false;
}

static bool is_down_set(const struct model *m, unsigned set)
{
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            if (set >> i & 1 && !(set >> m->in[k] & 1))
                return false;
    return set & 1; /* op 0 comes before all */
}

/* The antichain, and of each of its members a the predecessors with an out-edge to what
 * is neither a nor a predecessor of a. */
static double slow_out(const struct model *m, unsigned set)
{
    unsigned augmented = 0;
    double bytes = 0;
    for (size_t a = 0; a < m->n; a++) {
        bool maximal = set >> a & 1;
        for (size_t b = 0; b < m->n; b++)
            maximal = maximal && !(set >> b & 1 && ancestor(m, a, b));
        if (!maximal)
            continue;
        augmented |= 1u << a;
        for (size_t p = 0; p < m->n; p++)
            for (size_t k = m->out_start[p]; ancestor(m, p, a) && k < m->out_start[p + 1]; k++)
                if (m->out[k] != a && !ancestor(m, m->out[k], a))
                    augmented |= 1u << p;
    }
    for (size_t i = 0; i < m->n; i++)
        bytes += augmented >> i & 1 ? (double)m->op[i].output_bytes : 0;
    return bytes;
}

static double slow_best(const struct slow *s, size_t level, unsigned from, unsigned to, int m);

/* Seconds of the ops in to but not in from, on one machine of `level`; their bytes. */
static double slow_time(const struct slow *s, size_t level, unsigned from, unsigned to,
                        double *parameter, double *stash)
{
    double time = 0;
    *parameter = *stash = 0;
    for (size_t i = 0; i < s->m->n; i++)
        if ((to & ~from) >> i & 1) {
            time += s->m->profile[0].forward_s[i] + s->m->profile[0].backward_s[i];
            *parameter += (double)s->m->op[i].parameter_bytes;
            *stash += (double)(s->m->op[i].parameter_bytes + s->m->op[i].output_bytes);
        }
    return level ? slow_best(s, level - 1, from, to, (int)s->r->machines[level - 1]) : time;
}

static bool slow_fits(const struct slow *s, size_t level, double stash, int m, int replicas)
{
    return isnan(s->r->memory_bytes) ||
           ceil((double)((int)s->r->machines[level] - m) / replicas) * stash <= s->r->memory_bytes;
}

static double slow_best(const struct slow *s, size_t level, unsigned from, unsigned to, int m)
{
    double parameter, stash, b = s->r->bandwidth_Bps[level], best = INFINITY;
    double inner = level ? (double)s->r->machines[level - 1] : 1;
    double time = slow_time(s, level, from, to, &parameter, &stash);
    unsigned all = (1u << s->m->n) - 1;
    if ((!s->r->said.straight || m == 1) && slow_fits(s, level, stash, m, m))
        best = (time + 4 * (m - 1) * parameter / (b * m) / inner) / m;
    for (unsigned k = 1; k < to; k++) {
        if ((k & ~to) || k == from || (from & ~k) || !is_down_set(s->m, k))
            continue;
        for (int r = 1; r < (s->r->said.straight ? (m > 1 ? 2 : 1) : m); r++) {
            double last = slow_time(s, level, k, to, &parameter, &stash);
            double slowest = (last + 4 * (r - 1) * parameter / (b * r)) / r;
            if (!slow_fits(s, level, stash, m, r))
                continue;
            slowest = fmax(slowest, slow_best(s, level, from, k, m - r));
            if (s->r->said.charge_activations) {
                slowest = fmax(slowest, 2 * slow_out(s->m, k) / (b * r));
                if (to != all)
                    slowest = fmax(slowest, 2 * slow_out(s->m, to) / (b * r));
            }
            best = fmin(best, slowest);
        }
    }
    if (s->r->said.fewer_machines && m > 1)
        best = fmin(best, slow_best(s, level, from, to, m - 1));
    return best;
}

/* A random DAG in which every op but the first reads an earlier one. */
static struct model random_dag(size_t n)
{
    struct model m = sample_chain(n, 0, 0, 0, 0);
    struct model_edge edge[SLOW_OPS * SLOW_OPS];
    size_t edges = 0;
    for (uint32_t i = 0; i < n; i++) {
        m.profile[0].forward_s[i] = rand() % 100 * 1e-3;
        m.profile[0].backward_s[i] = rand() % 200 * 1e-3;
        m.op[i].output_bytes = rand() % 100 * 1000000;
        m.op[i].parameter_bytes = rand() % 50 * 1000000;
        uint32_t first = i ? (uint32_t)rand() % i : 0;
        for (uint32_t k = 0; k < i; k++)
            if (k == first || rand() % 4 == 0)
                edge[edges++] = (struct model_edge){k, i};
    }
    sample_rewire(&m, edge, edges);
    return m;
}

static void check_against_slow(size_t levels, size_t ops, size_t machines)
{
    struct model m = random_dag(2 + (size_t)rand() % (ops - 1));
    struct objective_request r = request(&m, 1 + (size_t)rand() % machines, 1e9);
    struct objective_result result = {0};
    r.levels = levels;
    r.machines[1] = 1 + (size_t)rand() % machines;
    r.bandwidth_Bps[1] = 3e8;
    r.said.charge_activations = rand() % 2;
    r.said.straight = rand() % 3 == 0;
    r.said.fewer_machines = rand() % 3 == 0;
    r.memory_bytes = rand() % 3 ? NAN : rand() % 200 * 1e6;
    double expected = slow_best(&(struct slow){&m, &r}, levels - 1, 0, (1u << m.n) - 1,
                                (int)r.machines[levels - 1]);
    enum status st = objective_solve(&objective_pipedream, NULL, &r, &result);
    assert_int_equal(st, isinf(expected) ? STATUS_INFEASIBLE : STATUS_OK);
    if (st == STATUS_OK) {
        size_t ops_placed = 0;
        uint32_t used = 0;
        assert_near(result.value, expected, 1e-12);
        for (size_t i = 0; i < result.parts; i++) {
            ops_placed += result.part[i].ops;
            used += result.part[i].replicas;
        }
        assert_int_equal(ops_placed, m.n);
        uint32_t all = (uint32_t)(r.machines[0] * (levels > 1 ? r.machines[1] : 1));
        assert_true(used <= all && (used == all || r.said.fewer_machines));
    }
    objective_result_free(&result);
    model_free(&m);
}

static void agrees_with_the_definition_on_random_graphs(void **state)
{
    srand(11);
    for (int trial = 0; trial < 150; trial++)
        check_against_slow(1, SLOW_OPS, 4);
    for (int trial = 0; trial < 60; trial++)
        check_against_slow(2, 5, 3);
}

/* The same two ops on 4 machines: replicas of 1 GB over 1 GB/s cost more than they save, so that
 * two machines do what four could not do better. */
static void machines_stay_idle_where_that_is_quicker(void **state)
{
    struct model m = sample_chain(2, 0.25, 0.75, 4000000000, 0);
    struct objective_request r = request(&m, 4, 1e9);
    struct objective_result all = solve(&r), fewer;
    r.said.fewer_machines = true;
    fewer = solve(&r);
    assert_near(fewer.value, 1, 1e-12);
    assert_true(all.value > 2);
    assert_int_equal(fewer.parts, 2);
    assert_int_equal(fewer.part[0].replicas + fewer.part[1].replicas, 2);
    objective_result_free(&all);
    objective_result_free(&fewer);
    model_free(&m);
}

/* ---- scoring */

static const char path[] = BINARY_DIR "/test_objective_pipedream.json";

static void write_split(const struct objective_result *result)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"parts\": [", f);
    for (size_t i = 0; i < result->parts; i++) {
        fprintf(f, "%s{\"replicas\": %u, \"ops\": [", i ? ", " : "", result->part[i].replicas);
        for (size_t k = 0; k < result->part[i].ops; k++)
            fprintf(f, "%s\"%s\"", k ? ", " : "", result->part[i].op[k]);
        fputs("]}", f);
    }
    fputs("]}\n", f);
    assert_int_equal(fclose(f), 0);
}

static void scores_its_own_splits_alike(void **state)
{
    srand(12);
    for (int trial = 0; trial < 50; trial++) {
        struct model m = random_dag(2 + (size_t)rand() % 20 % (SLOW_OPS - 1));
        struct objective_request r = request(&m, 1 + (size_t)rand() % 5, 1e9);
        r.said.charge_activations = trial % 2;
        struct objective_result result = solve(&r);
        double value;
        write_split(&result);
        if (objective_pipedream.score(&r, path, &value) != STATUS_OK)
            fail_msg("%s", error_message());
        assert_near(value, result.value, 1e-12);
        objective_result_free(&result);
        model_free(&m);
    }
}

static void refuses_splits_that_are_no_pipelines(void **state)
{
    static const struct {
        const char *text, *message;
        enum status status;
    } bad[] = {
        {"{\"parts\": [{\"ops\": [\"op1\"]}, {\"ops\": [\"op0\"]}]}",
         "op 'op1' in part 0 reads op 'op0' of the later part 1", STATUS_INVALID},
        {"{\"parts\": [{\"ops\": [\"op1\"]}]}", "the split does not contain op 'op0'",
         STATUS_INVALID},
        {"{\"parts\": [{\"ops\": [\"op0\", \"op1\"], \"replicas\": 3}]}",
         "the split uses more than 2 machines", STATUS_INFEASIBLE},
    };
    struct model m = sample_chain(2, 1, 2, 0, 0);
    struct objective_request r = request(&m, 2, 1e9);
    double value = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text(path, bad[i].text);
        assert_int_equal(objective_pipedream.score(&r, path, &value), bad[i].status);
        assert_message(error_message(), bad[i].message);
    }
    r.levels = 2;
    assert_int_equal(objective_pipedream.score(&r, path, &value), STATUS_UNSUPPORTED);
    assert_true(value == 7);
    model_free(&m);
}

/* ---- errors */

static void impossible_requests_are_one_clear_line(void **state)
{
    struct model m = sample_chain(3, 1, 2, 1000, 1000);
    struct objective_result result = {.value = 7};
    struct objective_request r = request(&m, 0, 1e9);
    assert_int_equal(objective_solve(&objective_pipedream, NULL, &r, &result), STATUS_USAGE);
    assert_message(error_message(),
                   "objective pipedream needs --machines from 1 to 1024 at each level");
    r = request(&m, 4, 1e9);
    r.said.straight = true;
    assert_int_equal(objective_solve(&objective_pipedream, NULL, &r, &result), STATUS_INFEASIBLE);
    assert_message(error_message(), "no unreplicated pipeline uses all 4 machines of level 1: "
                                    "the graph can be cut at only 2 places");
    m.profiles = 0;
    assert_int_equal(objective_solve(&objective_pipedream, NULL, &r, &result), STATUS_INVALID);
    m.profiles = 1;
    assert_true(result.value == 7);
    model_free(&m);
}

static void stops_with_everything_replicated(void **state)
{
    static const int stop = 1;
    struct model m = sample_chain(3, 1, 2, 0, 1000);
    struct objective_request r = request(&m, 3, 1e9);
    r.stop = &stop;
    struct objective_result result = solve(&r);
    assert_true(result.interrupted);
    assert_near(result.value, 3, 1e-12);
    assert_int_equal(result.parts, 1);
    assert_int_equal(result.part[0].replicas, 3);
    objective_result_free(&result);
    model_free(&m);
}

static enum status solve_and_score(const struct objective_request *r)
{
    enum status st = STATUS_OK;
    struct objective_result result = {0};
    struct objective_request one = *r;
    double value;
    TRY(objective_solve(&objective_pipedream, NULL, r, &result));
    one.levels = 1;
    one.machines[0] = 16;
    TRY(objective_pipedream.score(&one, path, &value));
out:
    objective_result_free(&result);
    return st;
}

static void releases_everything_when_memory_runs_out(void **state)
{
    srand(13);
    struct model m = random_dag(5);
    struct objective_request r = request(&m, 2, 1e9);
    r.levels = 2;
    r.machines[1] = 2;
    r.bandwidth_Bps[1] = 1e9;
    struct objective_result result = solve(&r);
    write_split(&result);
    FOR_EACH_ALLOC_FAILURE(solve_and_score(&r));
    objective_result_free(&result);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighs_replicas_against_a_cut),
        cmocka_unit_test(agrees_with_the_definition_on_random_graphs),
        cmocka_unit_test(machines_stay_idle_where_that_is_quicker),
        cmocka_unit_test(scores_its_own_splits_alike),
        cmocka_unit_test(refuses_splits_that_are_no_pipelines),
        cmocka_unit_test(impossible_requests_are_one_clear_line),
        cmocka_unit_test(stops_with_everything_replicated),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("objective_pipedream", tests, NULL, NULL);
}
