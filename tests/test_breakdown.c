/* Where the time and the memory of an iteration went, and what is named as the bottleneck. */
#include "core/data/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "sim/engines.h"
#include "sim/traffic.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

struct setup {
    struct model model;
    struct topology topology;
    struct plan plan;
    struct program program;
    struct measurement m;
    struct timeline timeline;
    char *platform;
};

/* `chunks` stages on each of `teams` x replicas devices, 10 us and 1 GB/s apart. */
static void set_up(struct setup *s, struct model model, uint32_t teams, uint32_t replicas,
                   uint32_t microbatches, const char *schedule)
{
    const struct schedule *order;
    *s = (struct setup){.model = model};
    assert_int_equal(schedule_find(schedule, &order), STATUS_OK);
    s->topology = sample_clique((size_t)teams * replicas + 1, 1e-5, 1e9);
    s->platform = sample_star_file((size_t)teams * replicas + 1, 1e-5, 1e9);
    s->plan = sample_plan(&s->model, model.n, replicas, microbatches, schedule);
    for (size_t k = 0; k < model.n; k++)
        for (uint32_t r = 0; r < replicas; r++)
            s->plan.stage[k].device[r] = schedule_team(order, teams, (uint32_t)k) * replicas + r;
    if (plan_lower(&s->plan, &s->model, &s->topology, &s->program) != STATUS_OK)
        fail_msg("%s: %s", schedule, error_message());
}

static void run_on(struct setup *s, const struct engine *e)
{
    struct simulation result = {0};
    if (e->run(&s->program, &s->topology, s->platform, NULL, &result) != STATUS_OK ||
        measurement_from_timeline(&s->program, &result.timeline, &s->m) != STATUS_OK ||
        measurement_add_calls(&s->m, &s->program, &result.timeline) != STATUS_OK)
        fail_msg("%s: %s", e->name, error_message());
    s->timeline = result.timeline;
    result.timeline = (struct timeline){0};
    simulation_free(&result);
}

static void forget(struct setup *s)
{
    measurement_free(&s->m);
    timeline_free(&s->timeline);
}

static void tear_down(struct setup *s)
{
    forget(s);
    program_free(&s->program);
    plan_free(&s->plan);
    topology_free(&s->topology);
    model_free(&s->model);
    remove(s->platform);
    free(s->platform);
}

static void check_sums(const struct setup *s, const char *engine, const char *schedule)
{
    struct breakdown b = breakdown_of(&s->m);
    double iteration_s = s->m.iteration_s, off = breakdown_sum(&b) - iteration_s;
    if (!(iteration_s > 0 && fabs(off) <= 1e-9 * iteration_s))
        fail_msg("%s %s: the rows are %g s off %g s", engine, schedule, off, iteration_s);
    for (size_t r = 0; r < s->m.ranks; r++) {
        const struct measured_rank *rank = &s->m.rank[r];
        double waits_s = 0;
        for (size_t k = 0; k < OP_PURPOSES; k++)
            waits_s += rank->exposed_s[k];
        assert_true(fabs(waits_s - rank->exposed_comm_s) <= 1e-9 * iteration_s);
        off = rank->busy_s + rank->exposed_comm_s + rank->idle_s - iteration_s;
        assert_true(rank->idle_s == 0 || rank->idle_s > 1e-12 * iteration_s); /* no rounding */
        if (fabs(off) > 1e-9 * iteration_s)
            fail_msg("%s %s rank %zu: %g s off %g s", engine, schedule, r, off, iteration_s);
        assert_int_equal(rank->weight_bytes + rank->gradient_bytes + rank->state_bytes +
                             rank->stash_bytes + rank->scratch_bytes,
                         rank->peak_bytes);
    }
}

/* All schedules, one to four teams, replicas, slow messages; 3 and 48 microbatches per replica, so
 * that those without flush come to their steady pace or do not. */
static void the_rows_add_up_to_the_iteration_for_every_schedule_on_every_engine(void **state)
{
    for (size_t k = 0; k < schedules_n; k++)
        for (uint32_t teams = 1; teams <= 4; teams += teams)
            for (uint32_t replicas = 1; replicas <= 2; replicas++)
                for (uint32_t each = 3; each <= 48; each *= 16) {
                    size_t stages = (schedules[k]->chunked ? 2 : 1) * (size_t)teams;
                    struct setup s;
                    if (schedules[k]->crossed && replicas == 1)
                        continue;
                    set_up(&s, sample_chain(stages, 1e-3, 2e-3, 1000000, 300000), teams, replicas,
                           each * replicas, schedules[k]->name);
                    for (size_t e = 0; e < engines_fluid(); e++) {
                        run_on(&s, engines[e]);
                        check_sums(&s, engines[e]->name, schedules[k]->name);
                        forget(&s);
                    }
                    tear_down(&s);
                }
}

/* Asynchronous stages of f + b = 3 ms each are busy all the time in the steady state: nothing of
 * filling and draining is accounted. */
static void a_steady_state_has_no_bubble(void **state)
{
    struct setup s;
    set_up(&s, sample_chain(4, 1e-3, 2e-3, 0, 0), 4, 1, 64, "pipedream");
    s.topology.tier[0].latency_s = 0;
    run_on(&s, &engine_analytic);
    struct breakdown b = breakdown_of(&s.m);
    assert_true(fabs(s.m.iteration_s - 64 * 3e-3) < 1e-9);
    assert_true(fabs(b.compute_s - 64 * 3e-3) < 1e-9);
    assert_true(fabs(b.bubble_s) < 1e-9);
    tear_down(&s);
}

/* Two stages, one microbatch, 1 MB at 1 GB/s and 10 us: F 0..1, message ..2.01, F ..3.01, B ..5.01,
 * message ..6.02, B ..8.02 ms. Each rank computes 3 ms, waits 1.01 ms for a message on its way, and
 * has nothing to do for 4.01 ms. */
static void two_stages_are_accounted_as_worked_by_hand(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct setup s;
        set_up(&s, sample_chain(2, 1e-3, 2e-3, 0, 1000000), 2, 1, 1, "1f1b");
        run_on(&s, engines[e]);
        struct breakdown b = breakdown_of(&s.m);
        assert_true(fabs(b.compute_s - 3e-3) < 1e-8);
        assert_true(fabs(b.exposed_s[FOR_PIPELINE] - 1.01e-3) < 1e-8);
        assert_true(fabs(b.bubble_s - 4.01e-3) < 1e-8);
        assert_true(b.optimizer_s == 0);
        assert_int_equal(s.m.calls, 1);
        assert_int_equal(s.m.call[0].kind, OP_SEND);
        assert_true(s.m.call[0].calls == 2);
        assert_true(fabs(measured_call_seconds(&s.m.call[0]) - 1.01e-3) < 1e-8);
        assert_true(fabs(measured_call_busbw(&s.m.call[0]) - 1e6 / 1.01e-3) < 1e4);
        tear_down(&s);
    }
}

/* Ring all-reduce of 8 MB over 4 ranks at 1 GB/s, 10 us: 12.06 ms. algbw = 8 MB / 12.06 ms =
 * 663.3 MB/s; busbw is 2 (n - 1) / n = 1.5 times that. Source: nccl-tests, PERFORMANCE.md. */
static void algbw_and_busbw_are_those_of_nccl_tests(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct setup s;
        double tier_bytes;
        const struct collective_options ring = {.algorithm = "ring"};
        set_up(&s, sample_chain(1, 1e-3, 2e-3, 8000000, 0), 1, 4, 8, "1f1b");
        run_on(&s, engines[e]);
        assert_int_equal(traffic_examine(&s.program, &s.topology, &ring, &s.m, &tier_bytes),
                         STATUS_OK);
        assert_int_equal(s.m.calls, 1);
        const struct measured_call *c = &s.m.call[0];
        assert_string_equal(measured_call_name(c), "all-reduce");
        assert_string_equal(c->algorithm, "ring");
        assert_int_equal(c->members, 4);
        assert_true(c->calls == 1);
        assert_true(fabs(measured_call_algbw(c) * 12.06e-3 / 8e6 - 1) < 1e-5);
        assert_true(fabs(measured_call_busbw(c) / measured_call_algbw(c) - 1.5) < 1e-12);
        assert_true(tier_bytes == 8e6 * 2 * 3); /* 2 (n - 1) / n of it over each of n edges */
        tear_down(&s);
    }
}

/* ---- the sentence */

static struct measured_rank ranks[4];

static struct measurement by_hand(void)
{
    memset(ranks, 0, sizeof ranks);
    for (uint32_t r = 0; r < 4; r++) {
        static char name[4][4] = {"a", "b", "c", "d"};
        ranks[r] = (struct measured_rank){.name = name[r], .stage = r, .busy_s = 0.5};
    }
    return (struct measurement){.iteration_s = 1, .ranks = 4, .rank = ranks, .microbatches = 8};
}

static void expect(struct measurement *m, const char *start, const char *part)
{
    char text[BREAKDOWN_TEXT];
    for (size_t r = 0; r < m->ranks; r++)
        m->rank[r].idle_s = 1 - m->rank[r].busy_s - m->rank[r].exposed_comm_s;
    breakdown_bottleneck(m, text);
    if (strncmp(text, start, strcspn(start, " ")) != 0 || !message_says(text, start) ||
        !message_says(text, part))
        fail_msg("'%s', expected '%s' and '%s'", text, start, part);
}

static void names_compute_when_little_else_is_left(void **state)
{
    struct measurement m = by_hand();
    for (size_t r = 0; r < 4; r++)
        ranks[r].busy_s = 0.9;
    expect(&m, "compute: rank 0 (a, stage 0) is busy 90 %", "all others nearly as much");
    struct measured_link link = {(char[]){"uplink"}, 1e9, 0.93};
    m.links = 1;
    m.link = &link;
    expect(&m, "compute: rank 0 (a, stage 0) is busy 90 %", "7 % uplink 93 %");
    link.busy_fraction = 0.5;
    expect(&m, "compute: rank 0", "would help");
}

/* Of two steps, of 1 s and 3 s, the rows are those of the first, and the iteration is 2 s. */
static void shares_are_of_the_step_that_the_rows_are_of(void **state)
{
    struct measurement m = by_hand();
    m.iteration_s = 2;
    for (size_t r = 0; r < 4; r++)
        ranks[r].busy_s = 0.9;
    expect(&m, "compute: rank 0 (a, stage 0) is busy 90 %", "all others nearly as much");
}

static void names_the_rank_that_computes_longest(void **state)
{
    struct measurement m = by_hand();
    ranks[2].busy_s = 1;
    expect(&m, "compute: rank 2 (c, stage 2) is busy 100 %", "1.60 times the mean rank");
}

static void names_the_purpose_that_ranks_wait_for_and_the_busiest_link(void **state)
{
    struct measurement m = by_hand();
    struct measured_link link = {(char[]){"uplink"}, 1e9, 0.87};
    for (size_t r = 0; r < 4; r++) {
        ranks[r].exposed_s[FOR_PIPELINE] = 0.1;
        ranks[r].exposed_s[FOR_SHARDS] = 0.3;
        ranks[r].exposed_comm_s = 0.4;
    }
    m.links = 1;
    m.link = &link;
    expect(&m, "communication: 30 % ZeRO", "uplink, is busy 87 %");
}

static void names_the_bubble_and_how_deep_the_pipeline_is(void **state)
{
    struct measurement m = by_hand();
    expect(&m, "bubble: 50 %", "4 ranks deep, 8 microbatches over all replicas");
    for (size_t r = 0; r < 4; r++)
        ranks[r].stage = 0;
    expect(&m, "bubble:", "waiting for the slowest rank");
    m.ranks = 1;
    expect(&m, "bubble: device", "--trace shows between which ops");
}

static void says_nothing_about_nothing(void **state)
{
    char text[BREAKDOWN_TEXT] = "x";
    struct measurement none = {0};
    assert_string_equal(breakdown_bottleneck(&none, text), "");
    struct breakdown b = breakdown_of(&none);
    assert_true(breakdown_sum(&b) == 0);
}

/* ---- memory */

static void finds_the_rank_with_the_least_memory_left(void **state)
{
    struct measurement m = by_hand();
    assert_int_equal(measurement_fullest(&m), 4); /* none is known */
    assert_int_equal(measurement_overfull(&m), 0);
    for (size_t r = 0; r < 4; r++) {
        ranks[r].peak_bytes = 10 + (int64_t)r;
        ranks[r].memory_bytes = 100;
    }
    ranks[1].memory_bytes = 12; /* 1 left */
    assert_int_equal(measurement_fullest(&m), 1);
    assert_int_equal(measurement_overfull(&m), 0);
    ranks[1].peak_bytes = 12; /* all of it: fits */
    assert_int_equal(measurement_overfull(&m), 0);
    ranks[1].peak_bytes = 13;
    ranks[3].memory_bytes = 1;
    assert_int_equal(measurement_fullest(&m), 3);
    assert_int_equal(measurement_overfull(&m), 2);
}

static enum status add_calls(struct setup *s)
{
    struct measurement m = {0};
    enum status st = measurement_add_calls(&m, &s->program, &s->timeline);
    measurement_free(&m);
    return st;
}

/* Anew each time: labels stay where they were made before the failure. */
static enum status examine(struct setup *s)
{
    struct measurement m = {0};
    double tier_bytes;
    enum status st = measurement_add_calls(&m, &s->program, &s->timeline);
    if (st == STATUS_OK)
        st = traffic_examine(&s->program, &s->topology, NULL, &m, &tier_bytes);
    measurement_free(&m);
    return st;
}

/* Ranks of a real run count from their own start of the step: shift each one's times by as much as
 * the network takes, either way. */
static void no_op_of_ranks_that_start_apart_takes_less_than_nothing(void **state)
{
    static const double late_s[] = {0, 3e-3, -2e-3, 1e-3};
    struct setup s;
    size_t instant = 0;
    set_up(&s, sample_chain(2, 1e-3, 2e-3, 1000000, 300000), 2, 2, 4, "1f1b");
    run_on(&s, &engine_analytic);
    for (uint32_t r = 0; r < s.program.ranks; r++)
        for (size_t i = s.program.op_start[r]; i < s.program.op_start[r + 1]; i++) {
            s.timeline.start_s[i] += late_s[r];
            s.timeline.end_s[i] += late_s[r];
        }
    timeline_join(&s.program, &s.timeline);
    for (size_t i = 0; i < s.program.ops; i++) {
        const struct program_op *o = &s.program.op[i];
        double start_s = s.timeline.start_s[i], end_s = s.timeline.end_s[i];
        assert_true(start_s <= end_s);
        instant += start_s == end_s;
        if (o->kind == OP_RECV)
            assert_true(start_s == end_s || start_s == s.timeline.start_s[o->match]);
    }
    assert_true(instant > 0); /* the rule was needed */
    tear_down(&s);
}

static void counting_calls_survives_every_failing_allocation(void **state)
{
    struct setup s;
    set_up(&s, sample_chain(2, 1e-3, 2e-3, 1000000, 300000), 2, 2, 4, "1f1b");
    run_on(&s, &engine_analytic);
    assert_true(s.m.calls >= 2);
    FOR_EACH_ALLOC_FAILURE(add_calls(&s));
    FOR_EACH_ALLOC_FAILURE(examine(&s));
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_add_up_to_the_iteration_for_every_schedule_on_every_engine),
        cmocka_unit_test(a_steady_state_has_no_bubble),
        cmocka_unit_test(two_stages_are_accounted_as_worked_by_hand),
        cmocka_unit_test(algbw_and_busbw_are_those_of_nccl_tests),
        cmocka_unit_test(names_compute_when_little_else_is_left),
        cmocka_unit_test(shares_are_of_the_step_that_the_rows_are_of),
        cmocka_unit_test(names_the_rank_that_computes_longest),
        cmocka_unit_test(names_the_purpose_that_ranks_wait_for_and_the_busiest_link),
        cmocka_unit_test(names_the_bubble_and_how_deep_the_pipeline_is),
        cmocka_unit_test(says_nothing_about_nothing),
        cmocka_unit_test(finds_the_rank_with_the_least_memory_left),
        cmocka_unit_test(no_op_of_ranks_that_start_apart_takes_less_than_nothing),
        cmocka_unit_test(counting_calls_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("breakdown", tests, NULL, NULL);
}
