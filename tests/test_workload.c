/* The two published workloads on both engines: closed forms, published times, counts. */
#include "sim/workload.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "core/lower/lower.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

struct outcome {
    double seconds;
    size_t ops, messages;
};

static const char path[] = BINARY_DIR "/test_workload.xml";

static void write_switch(size_t ranks)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    workload_write_platform(ranks, f);
    assert_int_equal(fclose(f), 0);
}

static struct outcome run_on(const char *name, size_t ranks, const struct engine *engine,
                             bool shared)
{
    const struct workload_kind *kind;
    const struct simulation_options o = {.collective.algorithm = "ring"};
    struct workload w = {0};
    struct topology none = {0};
    struct program program = {0};
    struct simulation s = {0};
    struct outcome result = {0};

    write_switch(ranks);
    if (workload_find(name, &kind) != STATUS_OK ||
        workload_make(kind, ranks, &none, &w) != STATUS_OK)
        fail_msg("%s over %zu: %s", name, ranks, error_message());
    size_t links = w.topology.links;
    if (!shared)
        w.topology.links = 0;
    if (plan_lower(&w.plan, &w.model, &w.topology, &program) != STATUS_OK ||
        engine->run(&program, &w.topology, path, &o, &s) != STATUS_OK)
        fail_msg("%s over %zu: %s", name, ranks, error_message());
    for (size_t i = 0; i < program.ops; i++)
        result.seconds = fmax(result.seconds, s.timeline.end_s[i]);
    result.ops = program.ops;
    result.messages = s.messages;
    w.topology.links = links; /* to be released */
    simulation_free(&s);
    program_free(&program);
    workload_free(&w);
    return result;
}

static struct outcome run(const char *name, size_t ranks, const struct engine *engine)
{
    return run_on(name, ranks, engine, true);
}

/* 2 (n - 1) / n S / B + 2 (n - 1) alpha: n = 2: 64 MiB / 50 GB/s + 2 us = 1344.17728 us. */
static double ring_seconds(size_t n)
{
    double steps = 2.0 * (double)(n - 1);
    return steps / (double)n * 67108864 / 50e9 + steps * 1e-6;
}

static void a_ring_takes_the_closed_form_time(void **state)
{
    static const size_t n[] = {2, 3, 16, 64, 100};
    assert_near(ring_seconds(2), 1344.17728e-6, 1e-12);
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        double expected = ring_seconds(n[k]);
        assert_near(run("ring", n[k], &engine_analytic).seconds / expected, 1, 1e-9);
        assert_near(run("ring", n[k], &engine_simgrid).seconds / expected, 1, 1e-6);
    }
}

/* A rank computes twice and updates; the ring counts an edge for each rank. */
static void a_ring_has_four_ops_and_an_edge_for_each_rank(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++) {
        struct outcome o = run("ring", 10, engines[e]);
        assert_int_equal(o.ops, 40);
        assert_int_equal(o.messages, 10);
    }
    assert_near(run("ring", 1, &engine_analytic).seconds, 0, 0);
}

/* 64 microbatches, forward and backward, over 16 stages and the 15 gaps between them, where a
 * message is an op at both ends; update; with several replicas an all-reduce. */
static void a_pipe_has_the_ops_and_messages_of_its_replicas(void **state)
{
    for (size_t e = 0; e < engines_fluid(); e++)
        for (size_t replicas = 1; replicas <= 3; replicas++) {
            struct outcome o = run("pipe", 16 * replicas, engines[e]);
            size_t messages = replicas * 2 * 64 * 15, rings = replicas > 1 ? 16 * replicas : 0;
            assert_int_equal(o.ops, replicas * 16 * (2 * 64 + 1) + 2 * messages + rings);
            assert_int_equal(o.messages, messages + rings);
        }
}

/* Both engines know the switch's ports: they say the same of what is sent at one time. */
static void both_engines_share_the_ports(void **state)
{
    for (size_t replicas = 1; replicas <= 4; replicas++) {
        double quick = run("pipe", 16 * replicas, &engine_analytic).seconds;
        assert_near(run("pipe", 16 * replicas, &engine_simgrid).seconds / quick, 1, 1e-6);
    }
}

/* Milliseconds that LogGOPSim gives (docs/reference/bench.md); it charges receives to the CPU that
 * computes, which our engines do not, and lets a node's messages pass each other without sharing
 * its port, as the analytic engine does of a network without links. */
static void times_are_close_to_those_of_loggopsim(void **state)
{
    static const struct {
        const char *name;
        size_t ranks;
        double ms;
    } published[] = {
        {"ring", 64, 2.768}, {"ring", 256, 3.184}, {"ring", 1024, 4.728},
        {"pipe", 64, 265.2}, {"pipe", 256, 265.7}, {"pipe", 1024, 265.9},
    };
    for (size_t k = 0; k < sizeof published / sizeof *published; k++) {
        size_t ranks = published[k].ranks;
        double expected = published[k].ms * 1e-3;
        double apart = run_on(published[k].name, ranks, &engine_analytic, false).seconds;
        assert_near(apart / expected, 1, 5e-3);
        if (ranks == 64)
            assert_near(run(published[k].name, ranks, &engine_simgrid).seconds / expected, 1, 2e-2);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    const struct workload_kind *ring, *pipe;
    struct workload w = {0};
    struct topology t = sample_clique(20, 1e-6, 1e9);
    assert_int_equal(workload_find("pipes", &ring), STATUS_INVALID);
    assert_message(error_message(), "workload 'pipes'; did you mean 'pipe'? ring, pipe");
    assert_int_equal(workload_find("ring", &ring), STATUS_OK);
    assert_int_equal(workload_find("pipe", &pipe), STATUS_OK);
    assert_int_equal(workload_make(pipe, 17, &t, &w), STATUS_INVALID);
    assert_int_equal(workload_make(pipe, 32, &t, &w), STATUS_INVALID);
    assert_message(error_message(), "32 multiple 16 20");
    assert_int_equal(workload_make(ring, 0, &t, &w), STATUS_INVALID);
    assert_int_equal(t.n, 20); /* still ours */
    topology_free(&t);
    assert_int_equal(workload_make(ring, TOPOLOGY_MAX_DEVICES + 1, &t, &w), STATUS_INVALID);
}

static void a_platform_moves_into_the_workload(void **state)
{
    const struct workload_kind *pipe;
    struct workload w = {0};
    struct topology t = sample_clique(40, 1e-6, 1e9);
    assert_int_equal(workload_find("pipe", &pipe), STATUS_OK);
    assert_int_equal(workload_make(pipe, 32, &t, &w), STATUS_OK);
    assert_int_equal(t.n, 0);
    assert_int_equal(w.topology.n, 40);
    assert_string_equal(w.plan.platform, "clique");
    assert_int_equal(w.plan.stages, 16);
    assert_int_equal(w.plan.microbatches, 128);
    for (uint32_t s = 0; s < 16; s++)
        for (uint32_t r = 0; r < 2; r++)
            assert_int_equal(w.plan.stage[s].device[r], 2 * s + r);
    workload_free(&w);
    workload_free(&w);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    const struct workload_kind *pipe;
    struct workload w = {0};
    struct topology none = {0};
    assert_int_equal(workload_find("pipe", &pipe), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE((workload_free(&w), workload_make(pipe, 32, &none, &w)));
    workload_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_takes_the_closed_form_time),
        cmocka_unit_test(a_ring_has_four_ops_and_an_edge_for_each_rank),
        cmocka_unit_test(a_pipe_has_the_ops_and_messages_of_its_replicas),
        cmocka_unit_test(both_engines_share_the_ports),
        cmocka_unit_test(times_are_close_to_those_of_loggopsim),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(a_platform_moves_into_the_workload),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
