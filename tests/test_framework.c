/* Frameworks: names with overrides, plans that say one, and what passes take under each: at least
 * the time of the device and at least that of the host, and what the kernels of their ops take. */
#include "core/strategy/framework.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/provenance.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/cost/cost.h"
#include "core/cost/op_kernels.h"
#include "core/data/model.h"
#include "model/zoo.h"
#include "partition/partition.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/lowered.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

static const char *const specs[] = {
    "gpt2-small:layers=2,hidden=256,heads=4,tokens=128,vocabulary=1000,dtype=bf16",
    "llama3.2-1b:layers=2,tokens=256,dtype=bf16",
    "llama3.2-1b:layers=2,tokens=256,dtype=fp8",
    "mixtral-8x7b:layers=1,tokens=128,dtype=bf16",
    "rmoe:layers=2,hidden=64,heads=4,tokens=16,vocabulary=100,experts=8",
    "vtransformer:layers=2",
};
enum { SPECS = sizeof specs / sizeof *specs };

static struct model build(const char *spec)
{
    struct model m = {0};
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    return m;
}

static struct device_type h100(void)
{
    struct device_type t = {.name = (char *)(uintptr_t) "H100",
                            .flops = 792e12,
                            .memory_Bps = 3.35e12,
                            .memory_bytes = INT64_C(1) << 40,
                            .launch_s = 5e-6,
                            .peak = {[DATA_fp32] = 67e12,
                                     [DATA_tf32] = 494.5e12,
                                     [DATA_fp16] = 989e12,
                                     [DATA_bf16] = 989e12,
                                     [DATA_fp8] = 1979e12}};
    t.kernels = kernels_derive(&t);
    return t;
}

static struct framework parsed(const char *text)
{
    struct framework f = {0};
    if (framework_parse(text, &f) != STATUS_OK)
        fail_msg("%s: %s", text, error_message());
    return f;
}

/* ---- names */

/* Number i of what can be overridden. */
static double field_of(const struct framework *f, size_t i)
{
    const double all[] = {
#define FRAMEWORK_FIELD(field, most, help) f->field,
#include "core/cost/kernel.h"
#include "core/strategy/framework_fields.def"
#undef FRAMEWORK_FIELD
    };
    return all[i];
}

static void names_are_rows_with_overrides(void **state)
{
    for (size_t i = 0; i < frameworks_n; i++) {
        struct framework f = parsed(framework_name(i));
        struct framework checked = framework_of(framework_name(i));
        assert_memory_equal(&f, &checked, sizeof f);
        assert_string_equal(f.name, frameworks[i]->name);
        assert_true(strlen(f.summary) > 0);
        for (size_t k = 0; k < framework_fields(); k++)
            assert_true(field_of(&f, k) >= 0); /* no constant is left */
        assert_true(f.by_kernel == (i > 0));   /* all but foreline, which is the first */
    }
    assert_null(framework_name(frameworks_n));
    struct framework f = parsed("megatron:host=0.1,flash=2,kernel_s=20us,workspace=64MiB");
    struct framework expected = parsed("megatron");
    expected.host = 0.1;
    expected.flash = 2;
    expected.kernel_s = f.kernel_s; /* 20 of 1e-6 */
    assert_true(fabs(f.kernel_s - 2e-5) < 1e-18);
    expected.workspace = 64 << 20;
    assert_memory_equal(&f, &expected, sizeof f);
    for (size_t i = 0; i < framework_fields(); i++) {
        const char *help;
        char text[64];
        snprintf(text, sizeof text, "eager:%s=1", framework_field(i, &help));
        parsed(text);
        assert_true(strlen(help) > 0);
    }
}

static void expect_refusal(const char *text, const char *words)
{
    struct framework f = {.host = 7};
    assert_int_equal(framework_parse(text, &f), STATUS_INVALID);
    assert_true(f.host == 7);
    if (!message_says(error_message(), words) || strchr(error_message(), '\n'))
        fail_msg("'%s' does not say '%s'", error_message(), words);
}

/* The name of a launcher is taken for what it runs, and plans have the framework's. */
static void launchers_are_called_as_what_they_run(void **state)
{
    struct framework f;
    struct plan p = {0};
    assert_int_equal(framework_parse("torchtitan:host=0.5", &f), STATUS_OK);
    assert_string_equal(f.name, "compiled");
    assert_true(f.host == 0.5);
    assert_int_equal(plan_set_framework(&p, "torchtitan:host=0.5"), STATUS_OK);
    assert_string_equal(p.framework, "compiled:host=0.5");
    plan_free(&p);
}

/* Bytes of a number in sums of gradients: the framework's, unless the plan says others. */
static void gradients_are_summed_as_the_framework_does(void **state)
{
    static const struct {
        const char *framework;
        enum data_type dtype;
        int64_t model, bytes;
    } all[] = {{NULL, DATA_ANY, 2, 2},
               {"eager", DATA_ANY, 2, 2},
               {"deepspeed", DATA_ANY, 2, 2},
               {"compiled", DATA_ANY, 2, 4},
               {"megatron", DATA_ANY, 2, 4},
               {"megatron", DATA_ANY, 4, 4},
               {"megatron", DATA_bf16, 2, 2},
               {NULL, DATA_fp32, 2, 4},
               {"megatron:sums=16", DATA_ANY, 2, 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct plan p = {0};
        const struct model m = {.element_bytes = all[i].model};
        assert_int_equal(plan_set_framework(&p, all[i].framework), STATUS_OK);
        p.reduce_dtype = all[i].dtype;
        assert_int_equal(plan_reduce_bytes(&p, &m), all[i].bytes);
        plan_free(&p);
    }
}

static void unknown_names_are_refused_with_the_known_ones(void **state)
{
    char known[TEXT_LIST];
    expect_refusal("megatrn", "did you mean 'megatron'?");
    expect_refusal("megatrn", text_list(frameworks, frameworks_n, known));
    expect_refusal("", "framework ''");
    expect_refusal("torchtitn", "known: foreline");
    expect_refusal("eager:hots=1", "did you mean 'host'?");
    expect_refusal("eager:host", "expected NAME=NUMBER");
    expect_refusal("eager:host=", "expected 0 to 1000");
    expect_refusal("eager:host=-1", "expected 0 to 1000");
    expect_refusal("eager:host=inf", "expected 0 to 1000");
    expect_refusal("eager:", "expected NAME=NUMBER");
    expect_refusal("eager:host=1,", "expected NAME=NUMBER");
    expect_refusal("eager:flash=0", "expected 1, 2 or 3");
    expect_refusal("eager:host=1,flash=2,host=2", "host twice");
    expect_refusal("eager:kernel_s=20MiB", "expected 0 to 1");
    expect_refusal("eager:host=20us", "expected 0 to 1000");
    expect_refusal("foreline:host=1", "to set");
}

/* ---- plans */

static void a_plan_says_its_framework_and_copies_do(void **state)
{
    struct model m = sample_chain(4, 1, 2, 100, 10);
    struct plan p = sample_plan(&m, 2, 1, 4, "1f1b"), copy = {0};
    assert_null(plan_framework(&p));
    assert_int_equal(plan_set_framework(&p, "nonsense"), STATUS_INVALID);
    assert_null(p.framework);
    assert_int_equal(plan_set_framework(&p, "eager:host=2"), STATUS_OK);
    assert_int_equal(plan_copy(&p, &copy), STATUS_OK);
    plan_free(&p);
    assert_string_equal(copy.framework, "eager:host=2");
    assert_true(plan_framework(&copy)->host == 2 && plan_framework(&copy)->norm == 2.5);
    struct cost_split split = cost_split_of(&copy, &copy.stage[0]);
    assert_ptr_equal(split.framework, plan_framework(&copy));
    assert_int_equal(split.microbatches, 4);
    assert_int_equal(plan_set_framework(&copy, "foreline"), STATUS_OK); /* is what no name is */
    assert_null(copy.framework);
    assert_null(plan_framework(&copy));
    plan_free(&copy);
    model_free(&m);
}

static void a_plan_file_keeps_the_framework(void **state)
{
    const char *path = BINARY_DIR "/framework-plan.json";
    const struct provenance by = {.version = "1"};
    struct model m = sample_chain(4, 1, 2, 100, 10);
    struct topology t = sample_clique(2, 0, 1e9);
    struct plan p = sample_plan(&m, 2, 1, 4, "1f1b"), again = {0};
    struct json_document d = {0};
    free(p.model);
    free(p.platform);
    p.model = sample_text("m");
    p.platform = sample_text("p");
    for (int named = 0; named < 2; named++) {
        assert_int_equal(plan_set_framework(&p, named ? "fsdp:flash=2" : NULL), STATUS_OK);
        assert_int_equal(plan_write(&p, &m, &t, path, &by), STATUS_OK);
        assert_int_equal(json_read(path, plan_format, PLAN_VERSION, &d), STATUS_OK);
        struct json_at root = json_root(&d), at;
        assert_int_equal(json_optional(&root, "framework", &at), STATUS_OK);
        assert_true((at.value != NULL) == (named == 1));
        assert_int_equal(plan_read(&d, &m, &t, &again), STATUS_OK);
        assert_true(named ? again.framework && !strcmp(again.framework, "fsdp:flash=2") &&
                                again.issue.flash == 2
                          : !again.framework);
        plan_free(&again);
        json_document_free(&d);
    }
    unlink(path);
    plan_free(&p);
    topology_free(&t);
    model_free(&m);
}

/* ---- ops */

static struct cost_split random_split(uint64_t *state, const struct framework *f)
{
    static const uint32_t degrees[] = {1, 2, 4};
    struct cost_split s = {.shards = degrees[random_below(state, 3)],
                           .experts = degrees[random_below(state, 3)],
                           .context = degrees[random_below(state, 3)],
                           .framework = f,
                           .microbatches = 1 + random_below(state, 8)};
    s.sequence = s.shards > 1 && random_below(state, 2) ? s.shards : 1;
    return s;
}

/* The least FLOP of a pass at the nominal speed of their type. */
static double nominal_s(const struct device_type *t, const struct model *m, uint32_t op,
                        double flop)
{
    enum data_type dtype = model_dtype(m, &m->op[op]);
    return flop / t->peak[dtype != DATA_ANY ? dtype : DATA_bf16];
}

/* An op's seconds are the sum of its kernels', each of which has sizes above zero; products do the
 * work that the model counts: within the operations of activations, which are no products'. */
static void check_op(const struct device_type *t, const struct model *m, uint32_t op,
                     double samples, const struct cost_split *split)
{
    struct op_cost c = cost_op(m, t, op, samples, "adam", split);
    double work = samples * cost_part(&m->op[op], split).work;
    for (int backward = 0; backward < 2; backward++) {
        struct op_kernels k;
        double sum_s = 0, product_flop = 0;
        double flop = backward ? m->op[op].backward_flop : m->op[op].forward_flop;
        op_kernels(m, op, samples, split, backward, &k);
        assert_true(k.n <= OP_KERNELS_MOST && k.issued >= 0);
        for (size_t i = 0; i < k.n; i++) {
            sum_s += kernel_seconds(t, &k.kernel[i]);
            if (k.kernel[i].kind == KERNEL_PRODUCT)
                product_flop +=
                    2 * k.kernel[i].batch * k.kernel[i].m * k.kernel[i].n * k.kernel[i].k;
        }
        double seconds = backward ? c.backward_s : c.forward_s;
        double host_s = backward ? c.backward_host_s : c.forward_host_s;
        assert_near(seconds, sum_s, 1e-12 * sum_s);
        assert_true(isfinite(seconds));
        assert_near(host_s, k.issued * split->framework->kernel_s * split->framework->host, 1e-15);
        if (!strcmp(m->op[op].kind, "linear")) {
            assert_near(product_flop, work * flop, 1e-9 * work * flop);
            assert_true(seconds > nominal_s(t, m, op, work * flop));
        }
        if (!strcmp(m->op[op].kind, "attention"))
            assert_true(seconds > nominal_s(t, m, op, work * flop));
    }
}

static void ops_take_what_their_kernels_do(void **state)
{
    uint64_t seed = 11;
    struct device_type t = h100();
    for (size_t k = 0; k < SPECS; k++) {
        struct model m = build(specs[k]);
        for (size_t trial = 0; trial < 40; trial++) {
            size_t which = 1 + random_below(&seed, (uint32_t)frameworks_n - 1);
            struct framework f = framework_of(framework_name(which));
            struct cost_split split = random_split(&seed, &f);
            for (uint32_t i = 0; i < m.n; i++)
                check_op(&t, &m, i, 1 + random_below(&seed, 8), &split);
        }
        model_free(&m);
    }
}

/* One linear layer by hand: 2 samples of 128 tokens, 256 to 768, over two shards, under eager. */
static void a_linear_layer_is_three_products(void **state)
{
    struct model m = build(specs[0]);
    struct framework f = parsed("eager:sum_kernels=1");
    struct cost_split split = {
        .shards = 2, .sequence = 1, .experts = 1, .context = 1, .framework = &f};
    struct op_kernels k;
    uint32_t op = model_find(&m, "h0.attn.qkv");
    assert_true(op != MODEL_NO_OP);
    op_kernels(&m, op, 2, &split, false, &k);
    assert_int_equal(k.n, 1);
    assert_true(k.kernel[0].m == 256 && k.kernel[0].n == 384 && k.kernel[0].k == 256);
    assert_true(k.issued == 6 + 1);
    op_kernels(&m, op, 2, &split, true, &k);
    assert_int_equal(k.n, 2);
    assert_true(k.kernel[0].m == 256 && k.kernel[0].n == 256 && k.kernel[0].k == 384);
    assert_true(k.kernel[1].m == 384 && k.kernel[1].n == 256 && k.kernel[1].k == 256);
    model_free(&m);
}

/* Four shards of a layer of 256 tokens in fp8: a rank casts its part of the tokens, which are
 * gathered then, and its part of the weights in one of 8 microbatches; gradients of its outputs,
 * all of them. */
static void casts_are_of_what_a_rank_has(void **state)
{
    struct model m = build(specs[2]);
    struct framework f = parsed("megatron");
    struct cost_split split = {4, 4, 1, 1, 0, &f, 8};
    struct op_kernels k;
    uint32_t op = model_find(&m, "h0.mlp.proj");
    double hidden = 2048, inner = 8192, tokens = 256;
    assert_true(op != MODEL_NO_OP && model_attribute(&m.op[op], "in", 0) == (int64_t)inner);
    op_kernels(&m, op, 1, &split, false, &k);
    assert_int_equal(k.n, 2);
    assert_true(k.kernel[0].dtype == DATA_fp8 && k.kernel[0].k == inner / 4);
    double times = f.narrow, bytes = times * (4 * tokens * inner / 4 + 3 * inner / 4 * hidden / 8);
    assert_near(k.kernel[1].bytes, bytes, 1e-6);
    op_kernels(&m, op, 1, &split, true, &k);
    assert_near(k.kernel[2].bytes, times * 4 * tokens * hidden, 1e-6);
    op = model_find(&m, "h0.mlp.fc");
    op_kernels(&m, op, 1, &split, false, &k);
    assert_near(k.kernel[1].bytes,
                times * (4 * tokens / 4 * hidden + 3 * hidden * (2 * inner / 4) / 8), 1e-6);
    op_kernels(&m, op, 1, &split, true, &k);
    assert_near(k.kernel[2].bytes, times * 4 * tokens * 2 * inner / 4, 1e-6);
    model_free(&m);
}

/* Measured rates and profiles come before kernels; without figures of kernels, or under foreline,
 * costs are the roofline's to the bit. */
static void without_a_framework_costs_are_the_rooflines(void **state)
{
    struct device_type known = h100(), unknown = known;
    unknown.kernels = (struct device_kernels){0};
    struct framework f = parsed("megatron");
    struct cost_split by_kernel = {1, 1, 1, 1, 0, &f, 1}, plain = {1, 1, 1, 1, 0, NULL, 0};
    struct model m = build(specs[0]);
    for (uint32_t i = 0; i < m.n; i++) {
        struct op_cost a = cost_op(&m, &known, i, 3, "adam", NULL);
        struct op_cost b = cost_op(&m, &unknown, i, 3, "adam", &by_kernel);
        struct op_cost c = cost_op(&m, &known, i, 3, "adam", &plain);
        assert_memory_equal(&a, &b, sizeof a);
        assert_memory_equal(&a, &c, sizeof a);
        assert_true(a.forward_host_s == 0 && a.backward_host_s == 0);
    }
    double flop = 1e9, flops = 1e12;
    struct topology_rate rate = {(char *)(uintptr_t) "linear.forward", 1, &flop, &flops};
    known.rates = 1;
    known.rate = &rate;
    uint32_t op = model_find(&m, "h0.attn.qkv");
    assert_near(cost_op(&m, &known, op, 3, "adam", &by_kernel).forward_s,
                3 * m.op[op].forward_flop / 1e12, 1e-18);
    model_free(&m);
}

/* ---- passes */

/* Kernel by kernel: a slow truth for what the host issues and the device runs. */
static void passes_are_two_queues(void **state)
{
    uint64_t seed = 17;
    for (int trial = 0; trial < 2000; trial++) {
        enum { MOST = 40 };
        double device[MOST], host[MOST], issued = 0, done = 0;
        size_t n = 1 + random_below(&seed, MOST);
        struct cost_pass forward = {0}, backward = {0};
        for (size_t i = 0; i < n; i++) {
            device[i] = random_unit(random_next(&seed), 0);
            host[i] = 2 * random_unit(random_next(&seed), 0);
            cost_pass_forward(&forward, device[i], host[i]);
            cost_pass_backward(&backward, device[i], host[i]);
        }
        for (size_t i = 0; i < n; i++) {
            issued += host[i];
            done = fmax(done, issued) + device[i];
        }
        assert_near(forward.pass_s, done, 1e-12);
        assert_true(done >= forward.device_s - 1e-12 && done >= forward.host_s - 1e-12);
        issued = done = 0;
        for (size_t i = n; i-- > 0;) {
            issued += host[i];
            done = fmax(done, issued) + device[i];
        }
        assert_near(backward.pass_s, done, 1e-12);
        assert_near(cost_pass_stretch(&backward) * backward.device_s, done, 1e-12);
    }
}

/* A plan of one stage on devices like H100s, lowered. */
static struct lowered planned(const char *spec, const char *framework, uint32_t replicas,
                              struct partition_request request)
{
    const struct partition_algorithm *balanced;
    uint32_t shards = request.tensor_parallel > 1 ? request.tensor_parallel : 1;
    struct lowered s = {.model = build(spec), .topology = sample_clique(replicas * shards, 0, 1e9)};
    struct device_type t = h100();
    t.name = s.topology.type[0].name;
    s.topology.type[0] = t;
    request.stages = request.microbatch_size = 1;
    request.replicas = request.microbatches = replicas;
    request.optimizer = "adam";
    request.schedule = "1f1b";
    request.model = spec;
    request.platform = "p";
    request.framework = framework;
    request.issue = framework_of(framework);
    if (partition_find("balanced", &balanced) != STATUS_OK ||
        partition_run(balanced, &s.model, &s.topology, &request, &s.plan) != STATUS_OK)
        fail_msg("%s", error_message());
    lower(&s);
    return s;
}

/* Its iteration, equal on both engines. */
static double iteration_of(const char *spec, const char *framework)
{
    struct lowered s = planned(spec, framework, 4, (struct partition_request){0});
    double seconds = lowered_seconds(&s, NULL);
    lowered_free(&s);
    return seconds;
}

static void every_framework_simulates(void **state)
{
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 1; i < frameworks_n; i++) {
            char slow[64];
            snprintf(slow, sizeof slow, "%s:kernel_s=1e-3,host=2", frameworks[i]->name);
            double plain = iteration_of(specs[k], NULL);
            double usual = iteration_of(specs[k], frameworks[i]->name);
            double waiting = iteration_of(specs[k], slow);
            assert_true(usual > plain && waiting > usual);
            struct model m = build(specs[k]);
            double host_s = 2e-3 * (double)m.n *
                            (frameworks[i]->forward_kernels + frameworks[i]->backward_kernels);
            model_free(&m);
            assert_true(waiting >= host_s + frameworks[i]->step_s);
        }
}

/* However a pass is cut into parts, they are the pass: with ZeRO 3 on links that take no time to
 * speak of, and with recomputation, host-bound and not. */
static void parts_of_passes_are_the_passes(void **state)
{
    static const char *const names[] = {"eager:step_s=0,interference=0",
                                        "eager:kernel_s=1e-3,step_s=0,interference=0"};
    for (size_t i = 0; i < 2; i++)
        for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute += 2) {
            double busy[2] = {0, 0};
            for (uint32_t k = 0; k < 2; k++) {
                struct lowered s =
                    planned(specs[0], names[i], 2,
                            (struct partition_request){
                                .zero = k ? 3 : 0, .recompute = (enum plan_recompute)recompute});
                for (size_t o = 0; o < s.program.op_start[1]; o++)
                    if (s.program.op[o].kind == OP_FORWARD || s.program.op[o].kind == OP_BACKWARD)
                        busy[k] += s.program.op[o].seconds;
                lowered_free(&s);
            }
            assert_true(busy[0] > 0);
            assert_near(busy[1], busy[0], 1e-9 * busy[0]);
        }
}

/* Where the device waits for the host, sums of shards are over by the time that the host has issued
 * the pass: they cost nothing as long as they are shorter than what it waits; else they follow the
 * pass. */
static void sums_of_shards_hide_behind_the_host(void **state)
{
    double seconds[2][2];
    for (int slow = 0; slow < 2; slow++)
        for (int links = 0; links < 2; links++) {
            const char *name =
                slow ? "megatron:kernel_s=1,step_s=0" : "megatron:kernel_s=0,step_s=0";
            struct lowered s =
                planned(specs[0], name, 1, (struct partition_request){.tensor_parallel = 2});
            s.topology.tier[0].bandwidth_Bps = links ? 1e9 : 1e12;
            lower(&s);
            struct measurement m = lowered_measure(&engine_analytic, &s);
            seconds[slow][links] = m.iteration_s;
            measurement_free(&m);
            lowered_free(&s);
        }
    assert_near(seconds[1][1], seconds[1][0], 1e-9 * seconds[1][0]);
    assert_true(seconds[0][1] > 1.01 * seconds[0][0]);
}

/* Bytes of rank 0's all-to-alls, of experts over four replicas. */
static double exchanged(const char *framework)
{
    const char *spec = "rmoe:layers=2,hidden=64,heads=4,tokens=4,vocabulary=100,experts=8,"
                       "capacity=0,einsum=0";
    double bytes = 0;
    struct lowered s =
        planned(spec, framework, 4, (struct partition_request){.expert_parallel = 4});
    for (size_t i = 0; i < s.program.op_start[1]; i++)
        if (s.program.op[i].kind == OP_ALLTOALL)
            bytes += s.program.op[i].count * (double)s.program.op[i].bytes;
    lowered_free(&s);
    return bytes;
}

static void hidden_exchanges_are_left_out(void **state)
{
    double all = exchanged("megatron");
    assert_true(all > 0 && exchanged(NULL) == all);
    assert_near(exchanged("megatron:exchange_hidden=0.6"), 0.4 * all, 8);
    assert_true(exchanged("megatron:exchange_hidden=1") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_rows_with_overrides),
        cmocka_unit_test(gradients_are_summed_as_the_framework_does),
        cmocka_unit_test(launchers_are_called_as_what_they_run),
        cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
        cmocka_unit_test(a_plan_says_its_framework_and_copies_do),
        cmocka_unit_test(a_plan_file_keeps_the_framework),
        cmocka_unit_test(ops_take_what_their_kernels_do),
        cmocka_unit_test(a_linear_layer_is_three_products),
        cmocka_unit_test(casts_are_of_what_a_rank_has),
        cmocka_unit_test(without_a_framework_costs_are_the_rooflines),
        cmocka_unit_test(passes_are_two_queues),
        cmocka_unit_test(every_framework_simulates),
        cmocka_unit_test(parts_of_passes_are_the_passes),
        cmocka_unit_test(hidden_exchanges_are_left_out),
        cmocka_unit_test(sums_of_shards_hide_behind_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
