/* Measured times of a model's ops. */
#include "exec/calibrate/profile.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cost/cost.h"
#include "exec/calibrate/probe.h"
#include "exec/team.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const char tiny[] = "gpt-tiny:layers=2,hidden=32,heads=2,tokens=16";

static void build(const char *spec, struct model *m)
{
    if (zoo_build(spec, m) != STATUS_OK)
        fail_msg("%s", error_message());
}

static void measure(struct model *m, size_t batch)
{
    const struct profile_options o = {.batch = batch, .ranks = 2, .repeats = 2};
    struct calibrate_spread spread = {-1, -1, -1};
    if (profile_ops(m, &o, &spread) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_true(spread.median >= 0 && spread.worst >= spread.median);
}

static void every_op_has_times_and_alike_ops_the_same(void **state)
{
    struct model m = {0};
    build(tiny, &m);
    measure(&m, 2);
    assert_int_equal(m.profiles, 1);
    const struct model_profile *p = &m.profile[0];
    assert_string_equal(p->device, "cpu");
    assert_true(p->samples == 2 && p->tensor_parallel == 1 && !p->update_s);
    for (size_t i = 0; i < m.n; i++) {
        assert_true(p->forward_s[i] > 0 && p->forward_s[i] < 1);
        assert_true(p->backward_s[i] > 0 && p->backward_s[i] < 1);
    }
    uint32_t a = model_find(&m, "h0.attn"), b = model_find(&m, "h1.attn");
    assert_true(a != MODEL_NO_OP && b != MODEL_NO_OP);
    assert_true(p->forward_s[a] == p->forward_s[b] && p->backward_s[a] == p->backward_s[b]);
    model_free(&m);
}

static void the_planner_takes_the_measured_times(void **state)
{
    struct model m = {0};
    struct device_type cpu = {.name = (char *)(uintptr_t) "cpu", .flops = 1, .memory_Bps = 1};
    build(tiny, &m);
    measure(&m, 2);
    struct op_cost c = cost_op(&m, &cpu, 3, 2, "adam", NULL);
    assert_true(c.forward_s == m.profile[0].forward_s[3]);
    assert_true(c.backward_s == m.profile[0].backward_s[3]);
    assert_false(c.extrapolated);
    model_free(&m);
}

static void another_batch_is_another_profile_and_the_same_one_is_replaced(void **state)
{
    struct model m = {0};
    build(tiny, &m);
    measure(&m, 1);
    measure(&m, 2);
    assert_int_equal(m.profiles, 2);
    m.profile[0].forward_s[0] = 1e9;
    measure(&m, 1);
    assert_int_equal(m.profiles, 2);
    assert_true(m.profile[0].samples == 1 && m.profile[1].samples == 2);
    assert_true(m.profile[0].forward_s[0] < 1);
    model_free(&m);
}

static void what_the_device_does_not_compute_is_named(void **state)
{
    struct model m = {0};
    struct calibrate_spread spread;
    struct profile_options o = {.batch = 1, .ranks = 1, .repeats = 1};
    build("rmoe:layers=2", &m);
    assert_int_equal(profile_ops(&m, &o, &spread), STATUS_UNSUPPORTED);
    assert_int_equal(m.profiles, 0);
    model_free(&m);
    build(tiny, &m);
    m.element_bytes = 2;
    m.dtype = DATA_bf16;
    assert_int_equal(profile_ops(&m, &o, &spread), STATUS_UNSUPPORTED);
    m.element_bytes = 4;
    o.batch = 0;
    assert_int_equal(profile_ops(&m, &o, &spread), STATUS_INVALID);
    o = (struct profile_options){.batch = 1, .ranks = TEAM_MOST + 1, .repeats = 1};
    assert_int_equal(profile_ops(&m, &o, &spread), STATUS_INVALID);
    model_free(&m);
}

static void running_out_of_memory_leaves_the_model_as_it_was(void **state)
{
    const struct profile_options o = {.batch = 1, .ranks = 1, .repeats = 1};
    struct calibrate_spread spread;
    struct model m = {0};
    enum status st = STATUS_NOMEM;
    long k = 0;
    build("mlp:layers=1,hidden=32", &m);
    for (; st == STATUS_NOMEM; k++) { /* in the rank or here */
        fault_countdown = k;
        st = profile_ops(&m, &o, &spread);
        fault_countdown = LONG_MAX;
        assert_true(st == STATUS_OK || st == STATUS_NOMEM);
        assert_int_equal(m.profiles, st == STATUS_OK);
    }
    assert_int_equal(st, STATUS_OK);
    assert_true(k > 20);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_times_and_alike_ops_the_same),
        cmocka_unit_test(the_planner_takes_the_measured_times),
        cmocka_unit_test(another_batch_is_another_profile_and_the_same_one_is_replaced),
        cmocka_unit_test(what_the_device_does_not_compute_is_named),
        cmocka_unit_test(running_out_of_memory_leaves_the_model_as_it_was),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
