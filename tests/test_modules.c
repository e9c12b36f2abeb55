/* Selective recomputation by module: what a layer keeps against formulas, what the backward makes
 * again and when, by hand on both engines, and names in files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lower/lower.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/lowered.h"
#include "tests/sample.h"

enum { TOKENS = 512, SAMPLES = 2, MEGA = 1000000 };

/* ---- bytes of a layer */

/* What a rank keeps of a microbatch of so many layers, over t shards with sequence parallelism and
 * c replicas that share sequences. */
static int64_t kept(const char *name, int layers, const char *modules, uint32_t t, uint32_t c)
{
    char spec[96];
    struct lowered s = {.topology = sample_clique((size_t)t * c, 0, 1e9)};
    snprintf(spec, sizeof spec, "%s%clayers=%d,tokens=%d", name, strchr(name, ':') ? ',' : ':',
             layers, TOKENS);
    if (zoo_build(spec, &s.model) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    s.plan = sample_plan(&s.model, 1, t * c, 1, "1f1b");
    struct plan_stage *stage = &s.plan.stage[0];
    stage->replicas = stage->context_parallel = c;
    stage->tensor_parallel = t;
    s.plan.sequence_parallel = t > 1;
    s.plan.microbatch_size = SAMPLES;
    if (modules) {
        stage->recompute = RECOMPUTE_SELECTIVE;
        assert_int_equal(plan_read_modules(modules, &stage->recompute_modules), STATUS_OK);
    }
    lower(&s);
    int64_t bytes = 0;
    for (size_t i = 0; i < s.program.op_start[1]; i++)
        bytes += s.program.op[i].kind == OP_FORWARD ? s.program.op[i].bytes : 0;
    lowered_free(&s);
    return bytes;
}

/* Of one layer: the difference of two models. */
static int64_t layer(const char *name, int from, const char *modules, uint32_t t, uint32_t c)
{
    return kept(name, from + 1, modules, t, c) - kept(name, from, modules, t, c);
}

/* A layer with modules made again has so many bytes less than without, per token and without
 * shards. */
static void saves(const char *name, int from, const char *modules, int64_t per_token)
{
    for (uint32_t t = 1; t <= 4; t *= 2)
        for (uint32_t c = 1; c <= 2; c++) {
            int64_t all = layer(name, from, NULL, t, c), some = layer(name, from, modules, t, c);
            assert_near((double)(all - some), (double)(per_token * TOKENS * SAMPLES) / t / c, 64);
        }
}

/* (sb/ct)(8d + 4q + 4k + 4a + 6f), and the roots of both norms: Llama 3 8B. */
static void dense_layers_keep_what_the_formula_says(void **state)
{
    const int64_t d = 4096, q = 4096, k = 1024, a = 32, f = 14336, roots = 2 * 2;
    const int64_t all = 8 * d + 4 * q + 4 * k + 4 * a + 6 * f + roots;
    assert_int_equal(layer("llama3-8b", 1, NULL, 1, 1), all * TOKENS * SAMPLES);
    saves("llama3-8b", 1, "core_attn", 4 * a);
    saves("llama3-8b", 1, "layernorm", 4 * d + roots);
    saves("llama3-8b", 1, "mlp", 6 * f);
    saves("llama3-8b", 1, "mlp,core_attn layernorm", 4 * a + 4 * d + roots + 6 * f);
}

/* Unfused attention without dropout, GPT: 34sbd of Korthikanti et al. less masks and what no
 * backward reads; the scores are b a s^2 numbers. */
static void unfused_attention_keeps_its_scores(void **state)
{
    const int64_t heads = 16, d = 1024, e = 4;
    saves("gpt2-medium", 1, "core_attn", heads * TOKENS * e);
    saves("gpt2-medium", 1, "mlp", 9 * d * e); /* both products and the gelu */
}

static void experts_keep_what_the_formula_says(void **state)
{
    const int64_t d = 4096, fe = 14336, top = 2;
    saves("mixtral-8x7b", 1, "moe_act", 2 * top * fe);
    /* scores and places of the router, rows and what is inside of experts */
    saves("mixtral-8x7b", 1, "moe", 2 * (8 + 2 * top) + top * (4 * d + 6 * fe));
    assert_int_equal(layer("mixtral-8x7b", 1, "moe,moe_act", 1, 1),
                     layer("mixtral-8x7b", 1, "moe", 1, 1));
}

/* fp8: what products read is a byte a number, what they give is two. DeepSeek-V3, 3.3.3. */
static void experts_keep_operands_as_products_read_them(void **state)
{
    const int64_t d = 4096, fe = 14336, top = 2;
    saves("mixtral-8x7b:dtype=fp8", 1, "moe_act", top * fe);
    saves("mixtral-8x7b:dtype=fp8", 1, "moe", 2 * 8 + 2 * top + top * (3 * d + 5 * fe));
}

/* DeepSeek-V3's layers with experts: what is made of latents, and shared experts. */
static void latents_stay(void **state)
{
    const int64_t a = 128, n = 128, o = 64, v = 128, fs = 2048;
    saves("deepseek-v3", 4, "mla_up_proj", 2 * a * (2 * n + 2 * o + v));
    saves("deepseek-v3", 4, "mla_up_proj,core_attn", 2 * a * (2 * n + 2 * o + v) + 4 * a);
    saves("deepseek-v3", 4, "shared_experts", 6 * fs);
    assert_true(layer("deepseek-v3", 4, "moe", 1, 1) <
                layer("deepseek-v3", 4, "shared_experts,moe_act", 1, 1));
}

/* ---- what is made again, and when */

static void rename_op(struct model_op *o, const char *name, const char *kind)
{
    free(o->name);
    free(o->kind);
    o->name = sample_text(name);
    o->block = 0;
    o->kind = sample_text(kind);
    o->type = OPERATOR_UNREAD;
}

/* Two layers of a norm, two products and a sum; 1 ms forward and 2 ms backward each, and outputs of
 * 1 MB; on t devices. */
static struct lowered set_up(uint32_t t)
{
    static const char *const part[] = {"ln", "mlp.fc", "mlp.proj", "residual"};
    static const char *const kind[] = {"layernorm", "linear", "linear", "residual"};
    struct lowered s = {.model = sample_chain(8, 1e-3, 2e-3, 0, MEGA),
                        .topology = sample_clique(t, 0, 1e9)};
    for (size_t i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "h.%zu.%s", i / 4, part[i % 4]);
        rename_op(&s.model.op[i], name, kind[i % 4]);
        s.model.op[i].stash_bytes = i % 4 == 1 ? 3 * MEGA : MEGA;
        if (t > 1)
            s.model.op[i].tensor = i % 4 == 1   ? TENSOR_COLUMN
                                   : i % 4 == 2 ? TENSOR_ROW
                                                : TENSOR_WHOLE;
    }
    s.plan = sample_plan(&s.model, 1, t, 1, "1f1b");
    s.plan.stage[0].replicas = 1;
    s.plan.stage[0].tensor_parallel = t;
    return s;
}

static void choose(struct lowered *s, const char *modules)
{
    s->plan.stage[0].recompute = RECOMPUTE_SELECTIVE;
    assert_int_equal(plan_read_modules(modules, &s->plan.stage[0].recompute_modules), STATUS_OK);
}

static void modules_take_their_forward_again(void **state)
{
    struct lowered s = set_up(1);
    double none = lowered_seconds(&s, NULL);
    int64_t scratch = s.program.rank[0].scratch_bytes;
    assert_near(none, 24e-3, 1e-9);
    assert_int_equal(s.program.op[0].bytes, 12 * MEGA);

    choose(&s, "mlp"); /* its input stays; a sum needs nothing of its output */
    assert_near(lowered_seconds(&s, NULL), none + 4e-3, 1e-9);
    assert_int_equal(s.program.op[0].bytes, 4 * MEGA);
    assert_int_equal(s.program.rank[0].scratch_bytes - scratch, 4 * MEGA);

    choose(&s, "layernorm"); /* its output goes, and comes back for the product that reads it */
    assert_near(lowered_seconds(&s, NULL), none + 2e-3, 1e-9);
    assert_int_equal(s.program.op[0].bytes, 10 * MEGA);
    assert_int_equal(s.program.rank[0].scratch_bytes - scratch, MEGA);

    choose(&s, "layernorm,mlp");
    assert_near(lowered_seconds(&s, NULL), none + 6e-3, 1e-9);
    assert_int_equal(s.program.op[0].bytes, 2 * MEGA);
    assert_int_equal(s.program.rank[0].scratch_bytes - scratch, 5 * MEGA);
    lowered_free(&s);
}

/* The sum of a product over shards is taken again; 1 MB at 1 GB/s over two: 1 ms. */
static void modules_repeat_their_sums(void **state)
{
    struct lowered s = set_up(2);
    double exposed[OP_PURPOSES], before[OP_PURPOSES];
    lowered_seconds(&s, before);
    choose(&s, "mlp");
    lowered_seconds(&s, exposed);
    assert_near(exposed[FOR_TENSOR] - before[FOR_TENSOR], 2 * 1e-3, 1e-9);
    choose(&s, "layernorm");
    lowered_seconds(&s, exposed);
    assert_near(exposed[FOR_TENSOR] - before[FOR_TENSOR], 0, 1e-9);
    lowered_free(&s);
}

/* A norm whose reader is in a unit is needed when that one is. */
static void what_a_unit_reads_comes_with_it(void **state)
{
    struct lowered s = set_up(1);
    uint32_t unit[8];
    bool stays[8];
    size_t needed[8];
    choose(&s, "layernorm");
    const struct plan_stage *stage = &s.plan.stage[0];
    plan_units(stage, &s.model, unit, stays);
    plan_needs(stage, &s.model, unit, stays, needed);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(unit[i] > 0, i % 4 == 0);
        assert_int_equal(stays[i], i % 4 != 0);
        assert_int_equal(needed[i], i % 4 == 0 ? i + 1 : i);
    }
    s.model.op[1].stash_bytes = 9 * MEGA; /* and without modules, what remembers much */
    s.plan.stage[0].recompute_modules = 0;
    plan_units(stage, &s.model, unit, stays);
    plan_needs(stage, &s.model, unit, stays, needed);
    assert_true(unit[1] > 0 && stays[1] && needed[1] == 1 && unit[0] == 0);
    lowered_free(&s);
}

/* ---- names */

static void names_are_read_and_printed(void **state)
{
    char text[PLAN_MODULES_TEXT];
    for (uint32_t all = 1; all < 1u << PLAN_MODULES; all++) {
        uint32_t found;
        assert_int_equal(plan_read_modules(plan_print_modules(all, text), &found), STATUS_OK);
        assert_int_equal(found, all);
    }
    uint32_t found = 7;
    assert_int_equal(plan_read_modules("[\"mlp\", \"moe\"]", &found), STATUS_OK);
    assert_string_equal(plan_print_modules(found, text), "mlp,moe");
    assert_int_equal(plan_read_modules("mlp,attention", &found), STATUS_INVALID);
    assert_message(error_message(), "'attention'; core_attn,layernorm,");
    assert_int_equal(plan_read_modules(" ,", &found), STATUS_INVALID);
}

static void modules_that_no_model_has_are_refused(void **state)
{
    struct lowered s = set_up(1);
    choose(&s, "mlp,moe");
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    assert_message(error_message(), "no op of moe");
    choose(&s, "mlp");
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_OK);
    s.plan.stage[0].recompute = RECOMPUTE_FULL;
    assert_int_equal(plan_check(&s.plan, &s.model, &s.topology), STATUS_INVALID);
    lowered_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers_keep_what_the_formula_says),
        cmocka_unit_test(unfused_attention_keeps_its_scores),
        cmocka_unit_test(experts_keep_what_the_formula_says),
        cmocka_unit_test(experts_keep_operands_as_products_read_them),
        cmocka_unit_test(latents_stay),
        cmocka_unit_test(modules_take_their_forward_again),
        cmocka_unit_test(modules_repeat_their_sums),
        cmocka_unit_test(what_a_unit_reads_comes_with_it),
        cmocka_unit_test(names_are_read_and_printed),
        cmocka_unit_test(modules_that_no_model_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
