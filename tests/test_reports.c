/* What the launcher keeps of the steps that ranks report: all of short runs, a part of long ones,
 * in time and memory that grow with the steps only. Reports are made up; no process is started. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "exec/launch/run.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/toy.h"

struct fixture {
    struct program p;
    struct model m;
    struct launch_options o;
    struct launch_state run;
    char *payload;
};

static enum status allocate(struct fixture *f)
{
    f->run = launch_new(&f->p, &f->m, &f->o);
    enum status st = launch_allocate(&f->run);
    if (st != STATUS_OK) {
        launch_tear_down(&f->run);
        f->run = (struct launch_state){0};
    }
    return st;
}

static void begin(struct fixture *f, uint32_t ranks, size_t steps, size_t warmup)
{
    *f = (struct fixture){0};
    toy_pipeline(&f->p, ranks, 3, 1000, 1e-3, true);
    toy_model(&f->m, ranks);
    f->o = (struct launch_options){
        .device = "fake", .transport = "tcp", .steps = steps, .warmup = warmup, .timeout_s = 30};
    assert_int_equal(allocate(f), STATUS_OK);
    f->payload = malloc(sizeof(struct frame_step) + 2 * f->p.ops * sizeof(double));
    assert_non_null(f->payload);
}

static void finish(struct fixture *f)
{
    launch_tear_down(&f->run);
    program_free(&f->p);
    model_free(&f->m);
    free(f->payload);
}

/* Seconds of a step on a rank; some steps take as long as others. */
static double seconds_of(size_t step, uint32_t rank)
{
    return 1 + floor(100 * random_unit(random_key(38, step), rank)) / 128;
}

/* Op i of the program takes part i of its step; every step begins at another time. */
static void report(struct fixture *f, size_t step, uint32_t rank)
{
    const struct program *p = &f->p;
    double began_s = 1000 + 2 * (double)step, took_s = seconds_of(step, rank);
    struct frame_step s = {.step = step,
                           .start_s = began_s,
                           .end_s = began_s + took_s,
                           .loss = (double)step / (double)p->ranks,
                           .hits = {NAN, NAN},
                           .peak_bytes = 100 + (int64_t)step};
    size_t first = p->op_start[rank], n = p->op_start[rank + 1] - first;
    double *time = malloc(2 * n * sizeof *time);
    assert_non_null(time);
    for (size_t i = 0; i < n; i++) {
        time[i] = began_s + took_s * (double)i / (double)n;
        time[n + i] = began_s + took_s * (double)(i + 1) / (double)n;
    }
    memcpy(f->payload, &s, sizeof s);
    memcpy(f->payload + sizeof s, time, 2 * n * sizeof *time);
    free(time);
    assert_int_equal(launch_take_step(&f->run, rank, f->payload), STATUS_OK);
}

static double duration(size_t step, uint32_t ranks)
{
    double longest_s = 0;
    for (uint32_t r = 0; r < ranks; r++)
        longest_s = fmax(longest_s,
                         1000 + 2 * (double)step + seconds_of(step, r) - (1000 + 2 * (double)step));
    return longest_s;
}

/* The lower median by counting, O(n^2). */
static size_t reference_median(const double *duration_s, size_t n)
{
    size_t best = 0;
    for (size_t k = 0; k < n; k++) {
        size_t below = 0;
        for (size_t i = 0; i < n; i++)
            below += duration_s[i] < duration_s[k] || (duration_s[i] == duration_s[k] && i < k);
        if (below == (n - 1) / 2)
            best = k;
    }
    return best;
}

static double end_of(const struct timeline *t)
{
    double end_s = 0;
    for (size_t i = 0; i < t->n; i++)
        end_s = fmax(end_s, t->end_s[i]);
    return end_s;
}

/* Ranks report in any order, one ahead of the others now and then. */
static void short_runs_are_kept_whole(void **state)
{
    for (size_t steps = 1; steps < 90; steps += 1 + steps / 3) {
        const uint32_t ranks = 1 + (uint32_t)steps % 3;
        struct fixture f;
        struct measurement m = {0};
        struct timeline t = {0};
        double duration_s[100];
        begin(&f, ranks, steps, 2);
        assert_int_equal(f.run.reports.stride, 1);
        size_t next[3] = {0};
        for (size_t s = 0; s < (steps + 2) * ranks;) {
            uint32_t r = (uint32_t)(random_unit(random_key(steps, s), next[0] + next[1]) * ranks);
            for (; next[r] == steps + 2 || launch_is_ahead(&f.run, r); r = (r + 1) % ranks)
                ;
            report(&f, next[r]++, r);
            s++;
        }
        for (size_t k = 0; k < steps; k++)
            duration_s[k] = duration(k + 2, ranks);
        f.run.done = ranks;
        assert_int_equal(launch_result(&f.run, 1, &m, &t), STATUS_OK);
        assert_int_equal(m.iterations, steps);
        assert_memory_equal(m.iterations_s, duration_s, steps * sizeof *duration_s);
        double median_s = duration_s[reference_median(duration_s, steps)];
        assert_true(fabs(end_of(&t) - median_s) < 1e-9);
        assert_int_equal(m.losses, steps + 2);
        for (size_t s = 0; s < m.losses; s++)
            assert_true(fabs(m.loss[s] - (double)s) < 1e-9);
        timeline_free(&t);
        measurement_free(&m);
        finish(&f);
    }
}

static void the_step_of_the_timeline_is_the_lower_median(void **state)
{
    char here[MACHINE];
    machine_name(here);
    for (size_t steps = 1; steps < 100; steps += 7) {
        struct fixture f;
        struct measurement m = {0};
        struct timeline t = {0};
        double duration_s[100];
        begin(&f, 1, steps, 1);
        memcpy(f.run.worker[0].machine, here, MACHINE);
        for (size_t s = 0; s < steps + 1; s++)
            report(&f, s, 0);
        for (size_t k = 0; k < steps; k++)
            duration_s[k] = duration(k + 1, 1);
        f.run.done = 1;
        assert_int_equal(launch_result(&f.run, 1, &m, &t), STATUS_OK);
        assert_int_equal(t.step, 1 + reference_median(duration_s, steps));
        timeline_free(&t);
        measurement_free(&m);
        finish(&f);
    }
}

/* A million steps: some 47 minutes of counting, and 16 bytes for each op of each step, before. */
static void long_runs_keep_a_part_and_end_at_once(void **state)
{
    enum { STEPS = 1000000 };
    struct fixture f;
    struct measurement m = {0};
    struct timeline t = {0};
    begin(&f, 1, STEPS, 0);
    size_t kept = (STEPS + f.run.reports.stride - 1) / f.run.reports.stride;
    assert_true(kept * f.p.ops <= REPORT_TIMES && kept >= REPORT_STEPS);
    for (size_t s = 0; s < STEPS; s++)
        report(&f, s, 0);
    f.run.done = 1;
    assert_int_equal(launch_result(&f.run, 1, &m, &t), STATUS_OK);
    assert_int_equal(m.iterations, STEPS);
    assert_int_equal(m.losses, STEPS);
    assert_true(fabs(end_of(&t) - m.iteration_s) < 1e-9); /* there are a hundred durations only */
    timeline_free(&t);
    measurement_free(&m);
    finish(&f);
}

static void what_was_measured_before_an_interruption_is_a_result(void **state)
{
    struct fixture f;
    struct measurement m = {0};
    begin(&f, 2, 50, 2);
    assert_int_equal(launch_result(&f.run, 1, &m, NULL), STATUS_INVALID);
    for (size_t s = 0; s < 12; s++) {
        report(&f, s, 0);
        if (s < 11)
            report(&f, s, 1);
    }
    assert_int_equal(launch_result(&f.run, 1, &m, NULL), STATUS_OK);
    assert_int_equal(m.iterations, 9);
    assert_int_equal(m.losses, 11);
    assert_null(m.parameters_sha256);
    assert_int_equal(m.rank[0].peak_bytes, 111);
    assert_int_equal(m.rank[1].peak_bytes, 110);
    assert_string_equal(m.warning[0], "interrupted after 11 of 52 steps");
    measurement_free(&m);
    finish(&f);
}

static void a_rank_too_far_ahead_or_out_of_turn_is_refused(void **state)
{
    struct fixture f;
    struct frame_step s = {.step = 1};
    begin(&f, 2, 50, 0);
    memcpy(f.payload, &s, sizeof s);
    assert_int_equal(launch_take_step(&f.run, 0, f.payload), STATUS_IO);
    for (size_t k = 0; k < REPORT_AHEAD; k++) {
        assert_false(launch_is_ahead(&f.run, 0));
        report(&f, k, 0);
    }
    assert_true(launch_is_ahead(&f.run, 0));
    s.step = REPORT_AHEAD;
    memcpy(f.payload, &s, sizeof s);
    assert_int_equal(launch_take_step(&f.run, 0, f.payload), STATUS_IO);
    report(&f, 0, 1);
    assert_false(launch_is_ahead(&f.run, 0));
    finish(&f);
    begin(&f, 2, 50, 0);
    launch_tear_down(&f.run);
    FOR_EACH_ALLOC_FAILURE(allocate(&f));
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_runs_are_kept_whole),
        cmocka_unit_test(the_step_of_the_timeline_is_the_lower_median),
        cmocka_unit_test(long_runs_keep_a_part_and_end_at_once),
        cmocka_unit_test(what_was_measured_before_an_interruption_is_a_result),
        cmocka_unit_test(a_rank_too_far_ahead_or_out_of_turn_is_refused),
    };
    return cmocka_run_group_tests_name("reports", tests, NULL, NULL);
}
