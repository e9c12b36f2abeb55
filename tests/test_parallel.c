/* What stands around the pipeline, by hand on both engines: tensor parallelism, experts, ZeRO,
 * buckets, recomputation. Every link 1 GB/s without latency, so that bytes are nanoseconds. */
#include <stdlib.h>

#include "core/data/program_check.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "sim/engines.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MEGA = 1000000 };

/* Four ops in one or two stages: column, split, row, whole; 1 ms forward and 2 ms backward each,
 * 8 MB of parameters, outputs of 1 MB, stashes of `stash` bytes. */
static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t shards,
                             uint32_t microbatches)
{
    static const enum model_tensor kind[] = {TENSOR_COLUMN, TENSOR_SPLIT, TENSOR_ROW, TENSOR_WHOLE};
    struct lowered s = {.model = sample_chain(4, 1e-3, 2e-3, 8 * MEGA, MEGA)};
    for (size_t i = 0; i < 4; i++) {
        s.model.op[i].tensor = kind[i];
        s.model.op[i].stash_bytes = 2 * MEGA;
    }
    size_t devices = stages * replicas * shards;
    s.topology = sample_clique(devices + 1, 0, 1e9);
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, "1f1b");
    for (size_t k = 0; k < stages; k++) {
        struct plan_stage *stage = &s.plan.stage[k];
        stage->tensor_parallel = shards;
        stage->devices = replicas * shards;
        free(stage->device);
        stage->device = calloc(stage->devices, sizeof *stage->device);
        assert_non_null(stage->device);
        for (uint32_t d = 0; d < stage->devices; d++)
            stage->device[d] = (uint32_t)(k * stage->devices) + d;
    }
    return s;
}

/* Time of the optimizer: sgd moves 4 bytes per parameter byte at 1 TB/s. */
static double update(double parameter_bytes)
{
    return parameter_bytes * 4 / 1e12;
}

/* Three of the four ops are divided by 4, forward 1.75 ms and backward 3.5 ms. The row-parallel op
 * sums 1 MB forward: 2 * 3/4 * 1 MB = 1.5 ms; the column-parallel op is the first and has no input
 * to sum the gradient of. So two microbatches take 2 * (1.75 + 1.5 + 3.5) ms; parameters 3 * 2 + 8
 * MB. */
static void tensor_parallelism_divides_the_work_and_sums_activations(void **state)
{
    double exposed[OP_PURPOSES];
    struct lowered s = set_up(1, 1, 4, 2);
    assert_near(lowered_seconds(&s, exposed), 2 * 6.75e-3 + update(14 * MEGA), 1e-9);
    assert_near(exposed[FOR_TENSOR], 3e-3, 1e-9);
    assert_int_equal(program_static_bytes(&s.program.rank[0]), 2 * 14 * MEGA);
    /* stash: column and split a quarter of 2 MB, row and whole all of it; 1f1b: one in flight;
     * scratch: in the backward of row the gradients of its output and of split's */
    assert_int_equal(program_peak(&s.program, 0, NULL) - program_static_bytes(&s.program.rank[0]),
                     (2 * MEGA / 4) * 2 + 2 * MEGA * 2 + MEGA + MEGA / 4);
    s.plan.sequence_parallel = true; /* the fourth op too works on a quarter of the tokens */
    assert_near(lowered_seconds(&s, NULL), 2 * (1e-3 + 1.5e-3 + 2e-3) + update(14 * MEGA), 1e-9);
    /* all rows of row's output, for which gradients of the 8 MB that all shards have need more
     * room: of every shard, since no op gathers its input whose gradient would be scattered */
    assert_int_equal(program_peak(&s.program, 0, NULL) - program_static_bytes(&s.program.rank[0]),
                     2 * MEGA + 2 * MEGA / 4 + 4 * 8 * MEGA);
    lowered_free(&s);
}

/* Two stages {column, split} {row, whole} of two shards, one microbatch; the boundary of 1 MB goes
 * from each shard to its like, 1 ms each way. Forward 0.5 + 0.5, 1, 0.5 + 1, sum of 1 MB over 2: 1;
 * backward 1 + 2, 1, 1 + 1: 10.5 ms; the update of the second stage's 12 MB ends earlier. */
static void a_boundary_tensor_goes_from_every_shard_to_its_like(void **state)
{
    struct lowered s = set_up(2, 1, 2, 1);
    assert_near(lowered_seconds(&s, NULL), 10.5e-3 + update(8 * MEGA), 1e-9);
    size_t sends = 0;
    for (size_t i = 0; i < s.program.ops; i++)
        sends += s.program.op[i].kind == OP_SEND;
    assert_int_equal(sends, 4);
    lowered_free(&s);
}

/* Stages of 1 and 2 shards: both shards of the second get the tensor from the one rank; only shard
 * 0 sends its gradient back. */
static void degrees_may_differ_between_stages(void **state)
{
    struct lowered s = set_up(2, 1, 2, 3);
    s.plan.stage[0].tensor_parallel = 1;
    s.plan.stage[0].devices = 1;
    lower(&s);
    assert_int_equal(s.program.ranks, 3);
    size_t forward = 0, backward = 0;
    for (size_t i = 0; i < s.program.ops; i++)
        if (s.program.op[i].kind == OP_SEND)
            *(s.program.op[i].backward ? &backward : &forward) += 1;
    assert_int_equal(forward, 6);
    assert_int_equal(backward, 3);
    lowered_free(&s);
}

/* Memory over 4 replicas of 32 MB with Adam (weights W, gradients W, state 2 W): Rajbhandari et
 * al., SC 2020, figure 1, in units of bytes here. In flight are two ops' gradients and (ZeRO 3) two
 * ops' parameters, and in any backward the gradients of an op's output and of its input. */
static void zero_shards_state_then_gradients_then_parameters(void **state)
{
    const int64_t w = 32 * MEGA;
    const int64_t held[] = {4 * w, 2 * w + 2 * w / 4, w + 3 * w / 4, 4 * w / 4};
    for (uint32_t zero = 0; zero <= 3; zero++) {
        struct lowered s = set_up(1, 4, 1, 4);
        free(s.plan.optimizer);
        s.plan.optimizer = sample_text("adam");
        s.plan.zero = zero;
        lower(&s);
        assert_int_equal(program_static_bytes(&s.program.rank[0]), held[zero]);
        assert_int_equal(s.program.rank[0].scratch_bytes,
                         2 * MEGA + (zero < 2 ? 0 : zero - 1) * 2 * 8 * MEGA);
        lowered_free(&s);
    }
}

/* Two microbatches per replica of 4 + 8 ms; a ring over 4 ranks and 32 MB takes 48 ms for an
 * all-reduce, 24 ms for either half.
 *   0: 24, 48, update                 1: 24, 24, a quarter of the update, 24
 *   2: op by op: the first scatter of 6 ms begins after 4 + 2 ms, seven others follow to 54;
 *      update / 4; 24
 *   3: gathers one op ahead, and scatters, one at a time: below. */
static void zero_moves_the_bytes_that_it_must(void **state)
{
    struct lowered s = set_up(1, 4, 1, 8);
    double exposed[OP_PURPOSES], all = update(32 * MEGA);
    assert_near(lowered_seconds(&s, exposed), 24e-3 + 48e-3 + all, 1e-9);
    assert_near(exposed[FOR_DATA], 48e-3, 1e-9);
    s.plan.zero = 1;
    assert_near(lowered_seconds(&s, exposed), 24e-3 + 48e-3 + all / 4, 1e-9);
    assert_near(exposed[FOR_SHARDS], 24e-3, 1e-9);
    s.plan.zero = 2;
    assert_near(lowered_seconds(&s, exposed), 54e-3 + 24e-3 + all / 4, 1e-9);
    /* 6 ms each, without a pause: four gathers for the forward, two for the backward (to 36), of
     * which the first op begins at 30, scatter, gather, scatter, gather, scatter, scatter (to 72);
     * the same for the second microbatch. */
    s.plan.zero = 3;
    assert_near(lowered_seconds(&s, exposed), 2 * 72e-3 + all / 4, 1e-9);
    lowered_free(&s);
}

/* The last backward of 8 ms in four buckets of 8 MB: over 2 ranks each takes 8 ms and starts 2 ms
 * after the one before was ready: 4 + 2 + 4 * 8 ms instead of 4 + 8 + 32. */
static void buckets_are_summed_while_the_backward_runs(void **state)
{
    struct lowered s = set_up(1, 2, 1, 2);
    double exposed[OP_PURPOSES];
    assert_near(lowered_seconds(&s, NULL), 12e-3 + 32e-3 + update(32 * MEGA), 1e-9);
    s.plan.bucket_bytes = 8 * MEGA;
    assert_near(lowered_seconds(&s, exposed), 6e-3 + 32e-3 + update(32 * MEGA), 1e-9);
    assert_near(exposed[FOR_DATA], 26e-3, 1e-9);
    s.topology.type[0].slowdown = 0.5; /* three parts of 2 ms run beside sums; 8 > 3 ms hide them */
    assert_near(lowered_seconds(&s, NULL), 6e-3 + 32e-3 + update(32 * MEGA), 1e-9);
    assert_near(s.program.op[s.program.op_start[1] - 3].seconds, 3e-3, 1e-12);
    s.topology.type[0].slowdown = 0;
    s.plan.bucket_bytes = 9 * MEGA; /* two and two */
    assert_near(lowered_seconds(&s, NULL), 8e-3 + 32e-3 + update(32 * MEGA), 1e-9);
    lowered_free(&s);
}

/* A message of 1 MB takes 0.1 + 1 ms of the compute beside it: F1 of the first stage sends F0's
 * output and receives B0's gradient, B0 sends F1's and receives B1's; B0 of the second receives
 * F1's input, F1 sends B0's gradient. Times in ms: first F0 0-2, F1 2-6.2, B0 11.1-17.3, B1
 * 18.2-22.2; second F0 3-5, B0 5-10.1, F1 10.1-13.2, B1 13.2-17.2. A bucket of 16 MB goes round two
 * ranks in 4 messages of 8 MB. */
static void messages_take_time_from_the_compute_beside_them(void **state)
{
    struct lowered s = set_up(2, 1, 1, 2);
    assert_near(lowered_seconds(&s, NULL), 20e-3 + update(16 * MEGA), 1e-9);
    s.topology.type[0].message_s = 0.1e-3;
    s.topology.type[0].message_Bps = 1e9;
    assert_near(lowered_seconds(&s, NULL), 22.2e-3 + update(16 * MEGA), 1e-9);
    lowered_free(&s);
    s = set_up(1, 2, 1, 2);
    s.plan.bucket_bytes = 9 * MEGA;
    s.topology.type[0].message_s = 0.1e-3;
    s.topology.type[0].message_Bps = 1e9; /* what the last sum takes nobody computes beside */
    assert_near(lowered_seconds(&s, NULL), 4e-3 + 8e-3 + 4 * 8.1e-3 + 16e-3 + update(32 * MEGA),
                1e-9);
    lowered_free(&s);
}

/* Experts in op 1 over 2 of 4 replicas: an all-to-all of 2 MB over 2 ranks moves 1 MB each way: 1
 * ms, twice per direction and pass, 4 ms per microbatch. Gradients: 24 MB over 4 ranks 36 ms; 4 MB
 * of this rank's experts over the two replicas that have the same ones, 4 ms. */
static void experts_are_spread_over_neighbouring_replicas(void **state)
{
    struct lowered s = set_up(1, 4, 1, 4);
    double exposed[OP_PURPOSES];
    s.model.op[1].exchange_bytes = 2 * MEGA;
    s.plan.stage[0].expert_parallel = 2;
    assert_near(lowered_seconds(&s, exposed), 12e-3 + 4e-3 + 36e-3 + 4e-3 + update(28 * MEGA),
                1e-9);
    assert_near(exposed[FOR_EXPERTS], 4e-3, 1e-9);
    assert_int_equal(program_static_bytes(&s.program.rank[0]), 2 * 28 * MEGA);
    s.plan.stage[0].expert_parallel = 4; /* nobody has the same ones */
    assert_near(lowered_seconds(&s, exposed), 12e-3 + 6e-3 + 36e-3 + update(26 * MEGA), 1e-9);
    lowered_free(&s);
}

/* 1f1b, two stages: two microbatches in flight on the first. Ops stash 2 MB, outputs are 1 MB. The
 * gradient that comes back has room from the forward on, as has that of a received tensor. */
static void recomputation_trades_stashes_for_a_second_forward(void **state)
{
    struct lowered s = set_up(2, 1, 1, 2);
    lower(&s);
    int64_t stashed = program_peak(&s.program, 0, NULL) - program_static_bytes(&s.program.rank[0]);
    assert_int_equal(stashed,
                     2 * (4 + 1) * MEGA + 2 * MEGA); /* gradients of the outputs of two ops */
    for (size_t k = 0; k < 2; k++)
        s.plan.stage[k].recompute = RECOMPUTE_FULL;
    lower(&s);
    assert_int_equal(
        program_peak(&s.program, 0, NULL), /* layers of an op: their outputs; one of them */
        2 * 16 * MEGA + 2 * 3 * MEGA + (1 + 2) * MEGA);
    for (size_t k = 0; k < 2; k++)
        s.plan.stage[k].recompute_unit = 2; /* the stage */
    lower(&s);
    assert_int_equal(program_peak(&s.program, 0, NULL),
                     2 * 16 * MEGA + 2 * 2 * MEGA + (3 + 2) * MEGA); /* what is sent; scratch */
    assert_int_equal(program_peak(&s.program, 1, NULL),
                     2 * 16 * MEGA + 2 * MEGA + (4 + 1) * MEGA); /* its input, scratch */
    for (size_t i = 0; i < s.program.ops; i++)
        if (s.program.op[i].kind == OP_BACKWARD)
            assert_near(s.program.op[i].seconds, 6e-3, 1e-12);
    for (size_t k = 0; k < 2; k++)
        s.plan.stage[k].recompute = RECOMPUTE_SELECTIVE; /* 2 MB >= 2 x 1 MB: all of them */
    lower(&s);
    assert_int_equal(program_peak(&s.program, 0, NULL),
                     2 * 16 * MEGA + 2 * 3 * MEGA + (1 + 2) * MEGA);
    s.model.op[0].stash_bytes = 2 * MEGA - 1; /* cheap enough to keep */
    lower(&s);
    assert_int_equal(program_peak(&s.program, 0, NULL),
                     2 * 16 * MEGA + 2 * (4 * MEGA - 1) + (1 + 2) * MEGA);
    lowered_free(&s);
}

/* Replicas alike: the folded program takes as long as the whole one. */
static void folding_changes_nothing_when_replicas_are_alike(void **state)
{
    static const char *const schedule[] = {"1f1b", "zb-h1", "gpipe"};
    for (size_t k = 0; k < 3; k++)
        for (uint32_t zero = 0; zero <= 3; zero++) {
            struct lowered s = set_up(2, 4, 2, 16);
            struct program folded = {0};
            if (!schedule_allows(schedules[k], 1)) {
                lowered_free(&s);
                continue;
            }
            free(s.plan.schedule);
            s.plan.schedule = sample_text(schedule[k]);
            s.plan.zero = zero;
            s.plan.bucket_bytes = 4 * MEGA;
            lower(&s);
            assert_int_equal(plan_lower_folded(&s.plan, &s.model, &s.topology, NULL, &folded),
                             STATUS_OK);
            assert_int_equal(folded.ranks, 2);
            struct measurement whole = lowered_measure(&engine_analytic, &s);
            struct program keep = s.program;
            s.program = folded;
            struct measurement part = lowered_measure(&engine_analytic, &s);
            assert_near(part.iteration_s, whole.iteration_s, 1e-12);
            assert_near(part.samples_per_s, whole.samples_per_s, 1e-9 * whole.samples_per_s);
            assert_int_equal(part.rank[1].peak_bytes, whole.rank[8].peak_bytes);
            struct measurement flows = lowered_measure(&engine_simgrid, &s);
            assert_near(flows.iteration_s, whole.iteration_s, 1e-6 * whole.iteration_s);
            measurement_free(&flows);
            s.program = keep;
            measurement_free(&whole);
            measurement_free(&part);
            program_free(&folded);
            lowered_free(&s);
        }
}

/* Every combination that is not refused passes the checker, folded or not. */
static void combinations_pass_the_checker(void **state)
{
    for (size_t k = 0; k < schedules_n; k++)
        for (uint32_t bits = 0; bits < 128; bits++) {
            uint32_t replicas = bits & 1 ? 4 : 1, shards = bits & 2 ? 2 : 1;
            struct lowered s = set_up(2, replicas, shards, 8);
            struct program folded = {0};
            if (!schedule_allows(schedules[k], 1)) {
                lowered_free(&s);
                continue;
            }
            free(s.plan.schedule);
            s.plan.schedule = sample_text(schedules[k]->name);
            s.plan.sequence_parallel = bits & 4;
            s.plan.bucket_bytes = bits & 8 ? MEGA : 0;
            s.plan.zero = bits >> 4 & 3;
            s.plan.stage[0].recompute = bits & 64 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            s.model.op[1].exchange_bytes = MEGA;
            s.plan.stage[0].expert_parallel = replicas > 1 ? 2 : 1;
            enum status st = plan_lower(&s.plan, &s.model, &s.topology, &s.program);
            bool refused = schedules[k]->asynchronous && s.plan.zero > 0;
            if (st != (refused ? STATUS_INVALID : STATUS_OK))
                fail_msg("%s bits %u: %s", schedules[k]->name, bits, error_message());
            if (!refused)
                assert_int_equal(plan_lower_folded(&s.plan, &s.model, &s.topology, NULL, &folded),
                                 STATUS_OK);
            program_free(&folded);
            lowered_free(&s);
        }
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct lowered s = set_up(2, 2, 2, 4);
    s.plan.bucket_bytes = 4 * MEGA;
    s.model.op[1].exchange_bytes = MEGA;
    s.plan.stage[0].expert_parallel = 2;
    struct simulation result = {0};
    FOR_EACH_ALLOC_FAILURE(
        (program_free(&s.program), plan_lower(&s.plan, &s.model, &s.topology, &s.program)));
    FOR_EACH_ALLOC_FAILURE((simulation_free(&result),
                            engine_analytic.run(&s.program, &s.topology, NULL, NULL, &result)));
    simulation_free(&result);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_parallelism_divides_the_work_and_sums_activations),
        cmocka_unit_test(a_boundary_tensor_goes_from_every_shard_to_its_like),
        cmocka_unit_test(degrees_may_differ_between_stages),
        cmocka_unit_test(zero_shards_state_then_gradients_then_parameters),
        cmocka_unit_test(zero_moves_the_bytes_that_it_must),
        cmocka_unit_test(buckets_are_summed_while_the_backward_runs),
        cmocka_unit_test(messages_take_time_from_the_compute_beside_them),
        cmocka_unit_test(experts_are_spread_over_neighbouring_replicas),
        cmocka_unit_test(recomputation_trades_stashes_for_a_second_forward),
        cmocka_unit_test(folding_changes_nothing_when_replicas_are_alike),
        cmocka_unit_test(combinations_pass_the_checker),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
