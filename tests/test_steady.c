/* The steady middle of an iteration: found where it is one, and not where times only look alike. */

#include "core/data/steady.h"
#include "core/engine/engine.h"
#include "core/lower/lower.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

struct setup {
    struct model model;
    struct topology topology;
    struct plan plan;
    struct program program;
    struct simulation simulation;
};

/* One op per stage, f = 1 ms, b = 2 ms, messages of 1 MB at 1 GB/s. */
static void set_up(struct setup *s, size_t stages, uint32_t replicas, uint32_t microbatches,
                   const char *schedule)
{
    *s = (struct setup){.model = sample_chain(stages, 1e-3, 2e-3, 4, 1000000),
                        .topology = sample_clique(stages * replicas, 1e-6, 1e9)};
    s->plan = sample_plan(&s->model, stages, replicas, microbatches, schedule);
    assert_int_equal(plan_lower(&s->plan, &s->model, &s->topology, &s->program), STATUS_OK);
    assert_int_equal(engine_analytic.run(&s->program, &s->topology, NULL, NULL, &s->simulation),
                     STATUS_OK);
}

static void tear_down(struct setup *s)
{
    simulation_free(&s->simulation);
    program_free(&s->program);
    plan_free(&s->plan);
    topology_free(&s->topology);
    model_free(&s->model);
}

static struct steady find(const struct setup *s, uint32_t unit)
{
    struct steady out;
    assert_int_equal(steady_find(&s->program, &s->simulation.timeline, unit, 0, &out), STATUS_OK);
    return out;
}

static double end_of(const struct setup *s)
{
    bool settled;
    return timeline_iteration(&s->program, &s->simulation.timeline, &settled);
}

/* A stage computes for 3 ms of every microbatch, and nothing else is slower. */
static void a_pipeline_repeats_at_the_pace_of_its_stages(void **state)
{
    struct setup s, longer;
    set_up(&s, 1, 1, 12, "1f1b");
    struct steady steady = find(&s, 1);
    assert_true(steady.found);
    assert_near(steady.step_s, 3e-3, 1e-15);
    assert_int_equal(steady.to[0] - steady.from[0], 2); /* a forward and a backward */
    steady_free(&steady);
    tear_down(&s);

    set_up(&s, 4, 1, 24, "1f1b");
    set_up(&longer, 4, 1, 40, "1f1b");
    for (uint32_t unit = 1; unit <= 4; unit++) {
        steady = find(&s, unit);
        bool found = steady.found; /* the messages make circuits of several microbatches */
        if (found)
            assert_near(end_of(&longer), end_of(&s) + 16.0 / unit * steady.step_s, 1e-12);
        steady_free(&steady);
        if (found)
            break;
    }
    tear_down(&longer);
    tear_down(&s);
}

/* Each single event counts: one op that ends a nanosecond later in every recurrence is drift. */
static void an_op_that_drifts_is_no_steady_middle(void **state)
{
    struct setup s;
    size_t seen = 0;
    set_up(&s, 1, 1, 16, "1f1b");
    for (size_t i = 0; i < s.program.ops; i++)
        if (s.program.op[i].kind == OP_FORWARD)
            s.simulation.timeline.end_s[i] += 1e-9 * (double)seen++;
    struct steady steady = find(&s, 1);
    assert_false(steady.found);
    steady_free(&steady);
    tear_down(&s);
}

/* Two replicas that never meet before the end: one is faster, so that no step is that of both. */
static void two_paces_are_no_steady_middle(void **state)
{
    struct setup s;
    set_up(&s, 1, 2, 32, "1f1b");
    struct steady steady = find(&s, 2);
    assert_true(steady.found);
    steady_free(&steady);
    simulation_free(&s.simulation);
    for (size_t i = s.program.op_start[1]; i < s.program.op_start[2]; i++)
        s.program.op[i].seconds *= 1.01;
    assert_int_equal(engine_analytic.run(&s.program, &s.topology, NULL, NULL, &s.simulation),
                     STATUS_OK);
    steady = find(&s, 2);
    assert_false(steady.found);
    steady_free(&steady);
    tear_down(&s);
}

static void too_short_a_run_has_no_steady_middle(void **state)
{
    struct setup s;
    for (uint32_t n = 1; n <= 3; n++) {
        set_up(&s, 3, 1, n, "1f1b");
        struct steady steady = find(&s, 1);
        assert_false(steady.found);
        steady_free(&steady);
        tear_down(&s);
    }
}

/* GPipe's lists begin with all forwards: more microbatches are more of two things. */
static void lists_that_do_not_only_repeat_their_middle_are_told(void **state)
{
    static const struct {
        const char *schedule;
        bool repeats;
    } known[] = {{"1f1b", true},        {"zb-h1", true},  {"sequential", true},
                 {"interleaved", true}, {"gpipe", false}, {"breadth-first", false}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct setup s;
        bool repeats;
        set_up(&s, 4, 2, 200, known[k].schedule);
        assert_int_equal(plan_lower_repeats(&s.plan, 40, 8, &repeats), STATUS_OK);
        assert_int_equal(repeats, known[k].repeats);
        assert_int_equal(plan_lower_repeats(&s.plan, 8, 8, &repeats), STATUS_OK);
        assert_false(repeats && known[k].schedule[0] != 's'); /* shorter than the warm-up */
        tear_down(&s);
    }
}

static void survives_every_failing_allocation(void **state)
{
    struct setup s;
    set_up(&s, 2, 1, 16, "1f1b");
    struct steady steady;
    bool repeats;
    FOR_EACH_ALLOC_FAILURE(steady_find(&s.program, &s.simulation.timeline, 1, 0, &steady));
    steady_free(&steady);
    FOR_EACH_ALLOC_FAILURE(plan_lower_repeats(&s.plan, 8, 1, &repeats));
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_repeats_at_the_pace_of_its_stages),
        cmocka_unit_test(an_op_that_drifts_is_no_steady_middle),
        cmocka_unit_test(two_paces_are_no_steady_middle),
        cmocka_unit_test(too_short_a_run_has_no_steady_middle),
        cmocka_unit_test(lists_that_do_not_only_repeat_their_middle_are_told),
        cmocka_unit_test(survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
