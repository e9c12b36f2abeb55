/* What no prediction may be below: by hand, and on both engines. */
#include <math.h>
#include <stdlib.h>

#include "core/engine/floor.h"
#include "core/lower/lower.h"
#include "study/load.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

/* Stages of one op, f = 1 ms and b = 2 ms, that send 1 MB; updates are free. */
static struct program lower(const struct model *m, const struct topology *t, size_t stages,
                            uint32_t replicas, uint32_t microbatches)
{
    struct program p = {0};
    struct plan plan = sample_plan(m, stages, replicas, microbatches, "1f1b");
    assert_int_equal(plan_lower(&plan, m, t, &p), STATUS_OK);
    plan_free(&plan);
    return p;
}

static struct floor floor_of(const struct program *p, const struct topology *t)
{
    struct floor f;
    assert_int_equal(program_floor(p, t, NULL, &f), STATUS_OK);
    return f;
}

/* Two stages, four microbatches: a rank computes for 12 ms; the last stage is reached after 1 ms
 * and a message, works for 12 ms, and the last gradients go back and through the first: 2 ms. In
 * between it waits once for two messages: F2 needs B0's gradients to have come back. */
static void a_pipeline_by_hand(void **state)
{
    struct model m = sample_chain(2, 1e-3, 2e-3, 0, 1000000);
    struct topology t = sample_clique(2, 1e-6, 10e9);
    struct program p = lower(&m, &t, 2, 1, 4);
    struct floor f = floor_of(&p, &t);
    double message_s = 1e-4 + 1e-6;
    assert_near(f.cause_s[FLOOR_COMPUTE], 12e-3, 1e-15);
    assert_near(f.cause_s[FLOOR_LINK], 0, 0);
    assert_near(f.cause_s[FLOOR_PATH], 1e-3 + 12e-3 + 2e-3 + 4 * message_s, 1e-12);
    assert_int_equal(f.cause, FLOOR_PATH);
    assert_near(f.seconds, f.cause_s[FLOOR_PATH], 0);
    program_free(&p);
    topology_free(&t);
    model_free(&m);
}

/* Four nodes of one GPU, 1 Gb/s ports: a ring over four replicas sends 2 x 3 / 4 of the gradients
 * through each port, twice if a bus were shared. */
static void the_port_of_a_node_is_a_floor(void **state)
{
    struct topology t = {0};
    char *path = NULL;
    assert_int_equal(load_topology("leaf-spine:nodes=4,gpus=1,nic=1Gbps", &t, &path), STATUS_OK);
    struct model m = sample_chain(1, 1e-3, 2e-3, 8000000, 0);
    struct plan plan = sample_plan(&m, 1, 4, 4, "1f1b");
    struct program p = {0};
    assert_int_equal(plan_lower(&plan, &m, &t, &p), STATUS_OK);
    struct floor f = floor_of(&p, &t);
    assert_near(f.cause_s[FLOOR_LINK], 1.5 * 8e6 / 125e6, 1e-9);
    program_free(&p);
    plan_free(&plan);
    topology_free(&t);
    model_free(&m);
    free(path);
}

static void folded_programs_and_endless_ones_have_none(void **state)
{
    struct model m = sample_chain(2, 1e-3, 2e-3, 0, 1000000);
    struct topology t = sample_clique(4, 1e-6, 10e9);
    struct program p = lower(&m, &t, 2, 2, 4);
    struct floor f;
    p.folded = true;
    assert_int_equal(program_floor(&p, &t, NULL, &f), STATUS_UNSUPPORTED);
    p.folded = false;
    p.asynchronous = true;
    assert_int_equal(program_floor(&p, &t, NULL, &f), STATUS_UNSUPPORTED);
    p.asynchronous = false;
    FOR_EACH_ALLOC_FAILURE(program_floor(&p, &t, NULL, &f));
    program_free(&p);
    topology_free(&t);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_by_hand),
        cmocka_unit_test(the_port_of_a_node_is_a_floor),
        cmocka_unit_test(folded_programs_and_endless_ones_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
