/* What is offloaded to the hosts' memory, by hand on both engines: bytes and seconds of the
 * optimizer's state, and of activations. */
#include <stdlib.h>

#include "core/data/program_check.h"
#include "core/lower/lower.h"
#include "core/schedule/schedule.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MEGA = 1000000, OPS = 4 };

/* Four ops of 8 MB of parameters, 1 ms forward and 2 ms backward, outputs of 1 MB; hosts are
 * reached at 2 GB/s and update at 16 GB/s. Adam of fp32 numbers: 8 bytes for each 4 of a parameter,
 * and 8 times the bytes of parameters are moved. */
static struct lowered set_up(size_t stages, uint32_t replicas, uint32_t microbatches)
{
    struct lowered s = {.model = sample_chain(OPS, 1e-3, 2e-3, 8 * MEGA, MEGA),
                        .topology = sample_clique(stages * replicas, 0, 1e9)};
    s.topology.type[0].host_Bps = 2e9;
    s.topology.type[0].host_memory_Bps = 16e9;
    s.plan = sample_plan(&s.model, stages, replicas, microbatches, "1f1b");
    free(s.plan.optimizer);
    s.plan.optimizer = sample_text("adam");
    return s;
}

/* Of the last op before updates and what follows them. */
static double passes_s(struct lowered *s)
{
    double update_s = 0;
    s->plan.offload = OFFLOAD_NONE;
    double all = lowered_seconds(s, NULL);
    for (size_t i = 0; i < s->program.op_start[1]; i++)
        update_s += s->program.op[i].kind == OP_UPDATE ? s->program.op[i].seconds : 0;
    return all - update_s;
}

static void state_is_updated_on_the_host(void **state)
{
    struct lowered s = set_up(1, 1, 2);
    double exposed[OP_PURPOSES], bare = passes_s(&s);
    const double bytes = 32.0 * MEGA;
    assert_int_equal(s.program.rank[0].state_bytes, 64 * MEGA);
    assert_int_equal(s.program.rank[0].host_bytes, 0);
    s.plan.offload = OFFLOAD_OPTIMIZER;
    assert_near(lowered_seconds(&s, exposed), bare + 2 * bytes / 2e9 + 8 * bytes / 16e9, 1e-9);
    assert_near(exposed[FOR_HOST], 2 * bytes / 2e9, 1e-9);
    assert_int_equal(s.program.rank[0].state_bytes, 0);
    assert_int_equal(s.program.rank[0].gradient_bytes, 32 * MEGA);
    assert_int_equal(s.program.rank[0].host_bytes, 96 * MEGA);
    lowered_free(&s);
}

/* Each replica has its part, and all gather the parameters when they have come back. */
static void replicas_update_their_parts(void **state)
{
    for (uint32_t zero = 1; zero <= 3; zero++) {
        struct lowered s = set_up(1, 4, 4);
        s.plan.zero = zero;
        double bare = passes_s(&s);
        const double part = 8.0 * MEGA;
        s.plan.offload = OFFLOAD_OPTIMIZER;
        assert_near(lowered_seconds(&s, NULL), bare + 2 * part / 2e9 + 8 * part / 16e9, 1e-9);
        assert_int_equal(s.program.rank[3].host_bytes, 24 * MEGA);
        lowered_free(&s);
    }
}

/* Stages of a device: gradients of the second go down while the first is updated, and parameters of
 * the first come back while the second is. Copies of 8 ms, updates of 8 ms: down, down beside
 * nothing, update, update beside up, up. */
static void copies_of_stages_overlap_updates(void **state)
{
    struct lowered s = set_up(2, 1, 2);
    for (size_t k = 0; k < 2; k++)
        s.plan.stage[k].device[0] = 0;
    free(s.plan.schedule);
    s.plan.schedule = sample_text("interleaved");
    double bare = passes_s(&s);
    s.plan.offload = OFFLOAD_OPTIMIZER;
    assert_near(lowered_seconds(&s, NULL), bare + 5 * 8e-3, 1e-9);
    lowered_free(&s);
}

/* Passes of 4 and 8 ms that keep 4 MB. Copies of 2 ms hide behind them. Of 10 ms: the third forward
 * waits for the first copy (14 ms), which comes back at 24 ms, and so on each 10 ms: 24, 34 and 44
 * ms begin the backwards, the last of which takes 8. */
static void activations_come_and_go_beside_passes(void **state)
{
    struct lowered s = set_up(1, 1, 3);
    free(s.plan.schedule);
    s.plan.schedule = sample_text("gpipe");
    double update_s = lowered_seconds(&s, NULL) - 36e-3, exposed[OP_PURPOSES];
    s.plan.offload = OFFLOAD_ACTIVATIONS;
    assert_near(lowered_seconds(&s, exposed), 36e-3 + update_s, 1e-9);
    assert_near(exposed[FOR_HOST], 0, 1e-9);
    s.topology.type[0].host_Bps = 4e8;
    assert_near(lowered_seconds(&s, exposed), 52e-3 + update_s, 1e-9);
    assert_near(exposed[FOR_HOST], 16e-3, 1e-9);
    lowered_free(&s);
}

/* On the device: one at work, one on its way back, two on their way there; on the host all the
 * others at most. A backward behind its forward leaves nothing to copy. */
static void few_activations_are_on_the_device(void **state)
{
    struct lowered s = set_up(1, 1, 8);
    lowered_seconds(&s, NULL);
    int64_t alone = program_peak(&s.program, 0, NULL); /* 1f1b: a microbatch at a time */
    size_t ops = s.program.ops;
    s.plan.offload = OFFLOAD_ACTIVATIONS;
    lowered_seconds(&s, NULL);
    assert_int_equal(s.program.ops, ops);
    free(s.plan.schedule);
    s.plan.schedule = sample_text("gpipe");
    lowered_seconds(&s, NULL);
    assert_int_equal(program_peak(&s.program, 0, NULL), alone + 3 * 4 * MEGA);
    assert_int_equal(program_host_bytes(&s.program, 0), 7 * 4 * MEGA);
    s.plan.offload = OFFLOAD_NONE;
    lowered_seconds(&s, NULL);
    assert_int_equal(program_peak(&s.program, 0, NULL), alone + 7 * 4 * MEGA);
    lowered_free(&s);
}

/* In every schedule that takes it: both engines agree, as lowered_seconds() asserts, and what is on
 * the device is no more than without, nor is an iteration faster. */
static void schedules_agree(void **state)
{
    for (size_t k = 0; k < schedules_n; k++) {
        const struct schedule *schedule = schedules[k];
        if (schedule->asynchronous || schedule->vee)
            continue;
        struct lowered s = set_up(4, 1, 8);
        for (size_t i = 0; i < OPS; i++) /* messages that hardly meet */
            s.model.op[i].output_bytes = 8;
        free(s.plan.schedule);
        s.plan.schedule = sample_text(schedule->name);
        double before = lowered_seconds(&s, NULL);
        int64_t peak = program_peak(&s.program, 0, NULL);
        s.plan.offload = OFFLOAD_ACTIVATIONS;
        assert_true(lowered_seconds(&s, NULL) >= before - 1e-9);
        assert_true(program_peak(&s.program, 0, NULL) <= peak);
        lowered_free(&s);
    }
}

static void updates_without_flush_are_refused(void **state)
{
    struct lowered s = set_up(2, 1, 4);
    free(s.plan.schedule);
    s.plan.schedule = sample_text("pipedream");
    s.plan.offload = OFFLOAD_OPTIMIZER;
    assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_INVALID);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_updated_on_the_host),
        cmocka_unit_test(replicas_update_their_parts),
        cmocka_unit_test(copies_of_stages_overlap_updates),
        cmocka_unit_test(activations_come_and_go_beside_passes),
        cmocka_unit_test(few_activations_are_on_the_device),
        cmocka_unit_test(schedules_agree),
        cmocka_unit_test(updates_without_flush_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
