/* What is offloaded to the hosts' memory, by hand on both engines: bytes and seconds of the optimizer's
 * state, and of activations. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/lower.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { MEGA = 1000000, OPS = 4 };

/* Four ops of 8 MB of parameters, 1 ms forward and 2 ms backward, outputs of 1 MB; hosts are reached at
 * 2 GB/s and update at 16 GB/s. Adam of fp32 numbers: 8 bytes for each 4 of a parameter, and 8 times
 * the bytes of parameters are moved. */
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
    (void)state;
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
    (void)state;
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

/* Stages of a device: gradients of the second go down while the first is updated, and parameters of the
 * first come back while the second is. Copies of 8 ms, updates of 8 ms: down, down beside nothing,
 * update, update beside up, up. */
static void copies_of_stages_overlap_updates(void **state)
{
    (void)state;
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

static void updates_without_flush_are_refused(void **state)
{
    (void)state;
    struct lowered s = set_up(2, 1, 4);
    free(s.plan.schedule);
    s.plan.schedule = sample_text("pipedream");
    s.plan.offload = OFFLOAD_OPTIMIZER;
    assert_int_equal(plan_lower(&s.plan, &s.model, &s.topology, &s.program), STATUS_UNSUPPORTED);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_updated_on_the_host),
        cmocka_unit_test(replicas_update_their_parts),
        cmocka_unit_test(copies_of_stages_overlap_updates),
        cmocka_unit_test(updates_without_flush_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
