/* Calibration: what it measures is what the zoo's models are made of, and the result is usable. */
#include "exec/calibrate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/cost.h"
#include "exec/calibrate_run.h"
#include "exec/device.h"
#include "model/layers.h"

/* The same layer built by the zoo's own functions. */
static void build(const struct probe *p, struct graph *g)
{
    uint32_t in = 0;
    const char *kind = p->kind;
    if (!strcmp(kind, "embedding"))
        layer_embedding(g, "op",
                        &(struct embedding_shape){.tokens = p->tokens,
                                                  .channels = p->channels,
                                                  .vocabulary = 256,
                                                  .positions = p->tokens});
    else if (!strcmp(kind, "layernorm"))
        layer_norm(g, "op", in, p->tokens, p->channels);
    else if (!strcmp(kind, "linear"))
        layer_linear(g, "op", in,
                     &(struct linear_shape){p->tokens, p->channels, p->out, true, MODEL_NO_OP,
                                            TENSOR_WHOLE});
    else if (!strcmp(kind, "attention"))
        layer_attention(g, "op", in, p->tokens, p->channels, p->heads, true, false);
    else if (!strcmp(kind, "gelu"))
        layer_gelu(g, "op", in, p->tokens, p->channels, TENSOR_WHOLE);
    else if (!strcmp(kind, "residual"))
        layer_residual(g, "op", in, in, p->tokens, p->channels);
    else if (!strcmp(kind, "loss"))
        layer_loss(g, "op", in, p->tokens, p->channels, false);
    else
        fail_msg("kind '%s' is not in this test", kind);
}

static bool is_optimizer(const struct probe *p)
{
    return !strcmp(p->kind, "adam") || !strcmp(p->kind, "sgd");
}

static void counts_work_like_the_models(void **state)
{
    (void)state;
    for (size_t k = 0; k < probes_n; k++) {
        struct graph g = {.model = {.element_bytes = 4}};
        struct model_attribute attribute[PROBE_ATTRIBUTES];
        struct model_op op;
        if (is_optimizer(&probes[k]))
            continue;
        probe_describe(&probes[k], attribute, &op);
        build(&probes[k], &g);
        assert_int_equal(g.status, STATUS_OK);
        const struct model_op *zoo_op = &g.model.op[0];
        assert_string_equal(op.kind, zoo_op->kind);
        assert_true(op.forward_flop == zoo_op->forward_flop);
        assert_true(op.backward_flop == zoo_op->backward_flop);
        assert_int_equal(op.parameter_bytes, zoo_op->parameter_bytes);
        assert_int_equal(op.output_bytes, zoo_op->output_bytes);
        assert_true(probe_flop(&probes[k], true) ==
                    zoo_op->backward_flop * (double)probes[k].batch);
        for (size_t a = 0; a < op.attributes; a++)
            assert_int_equal(model_attribute(zoo_op, attribute[a].name, -1), attribute[a].value);
        graph_free(&g);
    }
}

static void probes_of_a_kind_stand_together_in_order_of_work(void **state)
{
    (void)state;
    for (size_t k = 1; k < probes_n; k++) {
        if (!strcmp(probes[k].kind, probes[k - 1].kind)) {
            assert_true(probe_flop(&probes[k], false) >= probe_flop(&probes[k - 1], false));
            continue;
        }
        for (size_t i = 0; i + 1 < k; i++)
            assert_string_not_equal(probes[k].kind, probes[i].kind);
    }
}

static void every_kind_the_cpu_computes_is_measured(void **state)
{
    (void)state;
    static const char *const kinds[] = {"embedding", "layernorm", "linear", "attention",
                                        "gelu",      "residual",  "loss"};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct model_op op = {.kind = (char *)(uintptr_t)kinds[k]};
        bool found = false;
        assert_true(device_cpu.computes(&op));
        for (size_t i = 0; i < probes_n; i++)
            found = found || !strcmp(probes[i].kind, kinds[k]);
        assert_true(found);
    }
}

static void check_rate(const struct topology_rate *r)
{
    assert_true(r->n >= 1);
    for (size_t i = 0; i < r->n; i++) {
        assert_true(r->flops[i] > 0 && isfinite(r->flops[i]));
        assert_true(r->flop[i] > (i ? r->flop[i - 1] : 0));
    }
}

static void measures_a_topology_that_costs_can_be_taken_from(void **state)
{
    (void)state;
    struct topology t = {0};
    struct calibrate_spread spread = {-1, -1};
    const struct calibrate_options o = {.ranks = 2, .repeats = 1};
    if (calibrate_cpu(&o, &t, &spread) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_true(spread.median >= 0 && spread.worst >= spread.median);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.device[1], "rank1");
    assert_int_equal(t.types, 1);
    assert_int_equal(t.tiers, 1);
    const struct device_type *type = &t.type[0];
    assert_string_equal(type->name, "cpu");
    assert_true(type->flops > 0 && type->memory_Bps > 0 && type->memory_bytes > 0);
    assert_true(type->launch_s > 0);
    assert_int_equal(type->rates, 7 * 2 + 2);
    for (size_t k = 0; k < type->rates; k++)
        check_rate(&type->rate[k]);
    const struct topology_tier *tier = topology_between(&t, 0, 1);
    assert_true(tier->latency_s >= 0 && tier->bandwidth_Bps > 0);
    assert_true(isfinite(cost_transfer(&t, 0, 1, 1e6)));
    topology_free(&t);
}

static void rejects_no_ranks_and_no_repeats(void **state)
{
    (void)state;
    struct topology t = {0};
    struct calibrate_spread spread;
    assert_int_equal(calibrate_cpu(&(struct calibrate_options){.repeats = 1}, &t, &spread),
                     STATUS_INVALID);
    assert_int_equal(calibrate_cpu(&(struct calibrate_options){.ranks = 1}, &t, &spread),
                     STATUS_INVALID);
    assert_int_equal(
        calibrate_cpu(&(struct calibrate_options){.ranks = 65, .repeats = 1}, &t, &spread),
        STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_work_like_the_models),
        cmocka_unit_test(probes_of_a_kind_stand_together_in_order_of_work),
        cmocka_unit_test(every_kind_the_cpu_computes_is_measured),
        cmocka_unit_test(measures_a_topology_that_costs_can_be_taken_from),
        cmocka_unit_test(rejects_no_ranks_and_no_repeats),
    };
    return cmocka_run_group_tests_name("calibrate", tests, NULL, NULL);
}
