/* architectures: parameters of published models to the digit, work against the families' formulas,
 * memory against the formula of a layer, what configurations may say and may not. */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/provenance.h"
#include "core/cost/cost.h"
#include "model/import.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const struct published {
    const char *name, *family, *keys;
    int64_t parameters, active;
    int64_t tokens;
    double products, scores; /* GFLOP per token, forward */
} published[] = {
#define MODEL(...) {__VA_ARGS__},
#include "tests/published_models.def"
#undef MODEL
};
enum { PUBLISHED = sizeof published / sizeof *published };

/* The model of a configuration's text. */
static enum status read_text(const char *text, const struct architecture_choice *c,
                             struct model *out)
{
    struct json_document d = {0};
    struct architecture a;
    enum status st = json_parse("config.json", text, strlen(text), NULL, 0, &d);
    if (st == STATUS_OK) {
        struct json_at root = json_root(&d);
        st = config_read(&root, &a);
    }
    if (st == STATUS_OK)
        st = architecture_build(&a, c, "m", out);
    json_document_free(&d);
    return st;
}

static struct model build(const char *family, const char *keys, const struct architecture_choice *c)
{
    char text[1024];
    struct model m = {0};
    snprintf(text, sizeof text, "{\"model_type\": \"%s\"%s%s}", family, *keys ? ", " : "", keys);
    if (read_text(text, c, &m) != STATUS_OK)
        fail_msg("%s: %s", text, error_message());
    return m;
}

static void parameters_are_the_published_ones(void **state)
{
    const struct architecture_choice c = {.flash = true};
    for (size_t i = 0; i < PUBLISHED; i++) {
        const struct published *p = &published[i];
        struct model m = build(p->family, p->keys, &c);
        int64_t n = model_parameters(&m);
        if (n != p->parameters)
            fail_msg("%s: %lld parameters, published %lld", p->name, (long long)n,
                     (long long)p->parameters);
        if (p->active > 0 && model_active_parameters(&m) != p->active)
            fail_msg("%s: %lld active, published %lld", p->name,
                     (long long)model_active_parameters(&m), (long long)p->active);
        model_free(&m);
    }
}

/* All work of the model within 0.5 % of products and scores: what is element-wise is that
 * little. */
static void work_is_that_of_the_formulas(void **state)
{
    for (size_t i = 0; i < PUBLISHED; i++) {
        const struct published *p = &published[i];
        const struct architecture_choice c = {.flash = true, .tokens = p->tokens};
        if (p->products == 0)
            continue;
        struct model m = build(p->family, p->keys, &c);
        double all = 0, scores = 0;
        for (size_t k = 0; k < m.n; k++) {
            all += m.op[k].forward_flop;
            if (!strcmp(m.op[k].kind, "attention"))
                scores += m.op[k].forward_flop;
        }
        all /= 1e9 * (double)p->tokens;
        scores /= 1e9 * (double)p->tokens;
        if (fabs(scores / p->scores - 1) > 1e-6)
            fail_msg("%s: scores %.9g Gflop per token, formula %.9g", p->name, scores, p->scores);
        if (fabs(all / (p->products + p->scores) - 1) > 5e-3)
            fail_msg("%s: %.9g Gflop per token, formula %.9g", p->name, all,
                     p->products + p->scores);
        model_free(&m);
    }
}

/* Activations of a layer of grouped heads with a gated MLP and fused attention, bf16: per token
 * 8 d + 4 q + 4 k + 4 a + 6 f bytes, and the roots of two norms. With fp8 the outputs of norms and
 * of the MLP's product, which only products of fp8 read again, are half as wide. */
static void a_layer_keeps_what_its_backward_reads(void **state)
{
    const struct architecture_choice c = {
        .tokens = 128, .dtype = DATA_bf16, .layers = 3, .flash = true};
    static const int64_t width[][5] = {
        {256, 8, 2, 32, 640}, {512, 4, 4, 128, 1024}, {96, 6, 3, 64, 200}};
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
        const int64_t *w = width[i];
        char keys[256];
        snprintf(keys, sizeof keys,
                 "\"hidden_size\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
                 "\"head_dim\": %d, \"intermediate_size\": %d",
                 (int)w[0], (int)w[1], (int)w[2], (int)w[3], (int)w[4]);
        struct model m = build("llama", keys, &c);
        int64_t kept = 0, d = w[0], q = w[1] * w[3], k = w[2] * w[3];
        for (size_t o = 0; o < m.n; o++)
            if (!strncmp(m.op[o].name, "h1.", 3))
                kept += m.op[o].stash_bytes;
        /* 8 d counts the layer's own output, of which the next layer's input is one */
        assert_int_equal(kept, 128 * (8 * d + 4 * q + 4 * k + 4 * w[1] + 6 * w[4] + 2 * 2));
        model_free(&m);
        struct architecture_choice eight = c;
        eight.dtype = DATA_fp8;
        m = build("llama", keys, &eight);
        for (size_t o = 0; o < m.n; o++)
            if (!strncmp(m.op[o].name, "h1.", 3))
                kept -= m.op[o].stash_bytes;
        assert_int_equal(kept, 128 * (2 * d + w[4]));
        model_free(&m);
    }
}

/* fp8 is for the products of linear layers and experts: twice the speed there where memory is no
 * limit, and nothing else is faster. */
static void fp8_is_for_linear_layers(void **state)
{
    const struct device_type h100 = {
        .flops = 800e12,
        .memory_Bps = 1e18,
        .memory_bytes = 1,
        .peak = {[DATA_fp32] = 67e12, [DATA_bf16] = 1000e12, [DATA_fp8] = 2000e12}};
    static const char *const narrow[] = {"linear", "experts"};
    struct model m[2];
    for (int k = 0; k < 2; k++)
        m[k] = build(
            "mixtral", "\"hidden_size\": 256",
            &(struct architecture_choice){
                .tokens = 64, .layers = 2, .dtype = k == 0 ? DATA_bf16 : DATA_fp8, .flash = true});
    for (uint32_t i = 0; i < m[0].n; i++) {
        const struct model_op *o = &m[0].op[i];
        struct op_cost wide = cost_op(&m[0], &h100, i, 3, "adam", NULL),
                       eight = cost_op(&m[1], &h100, i, 3, "adam", NULL);
        bool twice = (!strcmp(o->kind, narrow[0]) || !strcmp(o->kind, narrow[1])) &&
                     strcmp(o->name, "head") != 0;
        assert_true(fabs(wide.forward_s / eight.forward_s - (twice ? 2 : 1)) < 1e-6);
        assert_true(fabs(wide.backward_s / eight.backward_s - (twice ? 2 : 1)) < 1e-6);
        assert_int_equal(o->parameter_bytes, m[1].op[i].parameter_bytes);
        if (o->exchange_bytes > 0) /* out as fp8, back as bf16 */
            assert_int_equal(4 * m[1].op[i].exchange_bytes, 3 * o->exchange_bytes);
    }
    model_free(&m[0]);
    model_free(&m[1]);
}

/* A file says its types, and one without says that they are not known. */
static void types_of_numbers_are_in_files(void **state)
{
    const struct provenance by = {"foreline 0", "foreline model show", "host", 7};
    static const char path[] = BINARY_DIR "/test_architecture.json";
    for (enum data_type t = DATA_ANY + 1; t < DATA_TYPES; t++) {
        char spec[64];
        snprintf(spec, sizeof spec, "llama3-8b:layers=1,dtype=%s", data_type_names[t]);
        struct model m = {0}, back = {0};
        assert_int_equal(zoo_build(spec, &m), STATUS_OK);
        assert_int_equal(m.dtype, t);
        assert_int_equal(model_write(&m, path, &by), STATUS_OK);
        assert_int_equal(model_read(path, &back), STATUS_OK);
        assert_int_equal(back.dtype, t);
        for (size_t i = 0; i < m.n; i++)
            assert_int_equal(model_dtype(&back, &back.op[i]), model_dtype(&m, &m.op[i]));
        model_free(&m);
        model_free(&back);
    }
}

static void attention_sees_what_it_is_allowed(void **state)
{
    const struct architecture_choice c = {.tokens = 100, .layers = 6, .flash = true};
    struct model m = build("gemma3_text", "\"sliding_window\": 10", &c);
    for (size_t i = 0; i < m.n; i++)
        if (!strcmp(m.op[i].kind, "attention")) {
            bool full = m.op[i].name[1] == '5'; /* every sixth */
            double pairs = full ? 100.0 * 101 / 2 : 10.0 * 100 - 10 * 9 / 2.0;
            assert_true(m.op[i].forward_flop == 4 * pairs * 8 * 256);
            assert_int_equal(model_attribute(&m.op[i], "window", 0), full ? 0 : 10);
        }
    model_free(&m);
}

static void layers_may_be_listed(void **state)
{
    const struct architecture_choice c = {.tokens = 64, .flash = true};
    struct model m =
        build("qwen3_moe", "\"num_hidden_layers\": 4, \"mlp_only_layers\": [1, 3]", &c);
    assert_true(model_find(&m, "h0.moe.experts") != MODEL_NO_OP);
    assert_true(model_find(&m, "h1.mlp.fc") != MODEL_NO_OP);
    assert_true(model_find(&m, "h2.moe.experts") != MODEL_NO_OP);
    assert_true(model_find(&m, "h3.moe.experts") == MODEL_NO_OP);
    model_free(&m);
    m = build("qwen3_moe",
              "\"num_hidden_layers\": 2, \"mlp_only_layers\": [1], \"sliding_window\": 8, "
              "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
              &c);
    assert_true(model_find(&m, "h0.moe.experts") != MODEL_NO_OP);
    assert_true(model_find(&m, "h1.mlp.fc") != MODEL_NO_OP);
    assert_int_equal(model_attribute(&m.op[model_find(&m, "h1.attn")], "window", 0), 8);
    model_free(&m);
    m = build("llama",
              "\"num_hidden_layers\": 2, \"sliding_window\": 8, "
              "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
              &c);
    assert_int_equal(model_attribute(&m.op[model_find(&m, "h0.attn")], "window", 0), 0);
    assert_int_equal(model_attribute(&m.op[model_find(&m, "h1.attn")], "window", 0), 8);
    model_free(&m);
}

static void a_class_or_a_part_for_text_names_the_family(void **state)
{
    const struct architecture_choice c = {.tokens = 64, .layers = 2, .flash = true};
    static const struct {
        const char *text, *op;
    } good[] = {
        {"{\"architectures\": [\"LlamaForCausalLM\"]}", "h1.attn.rope"},
        {"{\"architectures\": [\"GPTNeoXForCausalLM\"], \"model_type\": \"mine\"}", "h1.ln2"},
        {"{\"architectures\": [\"BertForMaskedLM\"]}", "mlm.decoder"},
        {"{\"architectures\": [\"BertModel\"]}", "pooler"},
        {"{\"model_type\": \"gemma3\", \"architectures\": [\"Gemma3ForConditionalGeneration\"],"
         " \"text_config\": {\"hidden_size\": 2560}, \"vision_config\": {\"hidden_size\": 3}}",
         "h0.mlp.ln"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct model m = {0};
        if (read_text(good[i].text, &c, &m) != STATUS_OK)
            fail_msg("%s: %s", good[i].text, error_message());
        if (model_find(&m, good[i].op) == MODEL_NO_OP)
            fail_msg("%s: no op %s", good[i].text, good[i].op);
        model_free(&m);
    }
}

static void wrong_configurations_are_refused_in_one_line(void **state)
{
    const struct architecture_choice c = {.tokens = 64, .flash = true};
    static const struct {
        const char *text, *message;
        enum status st;
    } bad[] = {
        {"{\"model_type\": \"deepseek_v32\"}", "config.json 'deepseek_v32'", STATUS_UNSUPPORTED},
        {"{\"num_hidden_layers\": 2}", "config.json family \"model_type\"", STATUS_INVALID},
        {"{\"model_type\": \"llama\", \"hidden_size\": \"big\"}", "config.json:1:", STATUS_PARSE},
        {"{\"model_type\": \"llama\", \"hidden_size\": -4}", "config.json:1:", STATUS_PARSE},
        {"{\"model_type\": \"llama\", \"hidden_size\": 1e30}", "config.json:1:", STATUS_PARSE},
        {"{\"model_type\": \"llama\", \"num_hidden_layers\": 1000000}",
         "config.json:1:", STATUS_PARSE},
        {"{\"model_type\": \"llama\", \"num_attention_heads\": 0}", "", STATUS_INVALID},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", "32 heads 5", STATUS_INVALID},
        {"{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9}",
         "9 experts per token, expected 1 to 8", STATUS_INVALID},
        {"{\"model_type\": \"deepseek_v2\"}", "0 experts per token, expected 1 to 64",
         STATUS_INVALID},
        {"{\"model_type\": \"vit\", \"patch_size\": 0}", "images of 224 in patches of 0",
         STATUS_INVALID},
        {"{\"model_type\": \"mixtral\", \"num_local_experts\": 65536, \"intermediate_size\": "
         "4194304,"
         " \"hidden_size\": 1048576, \"num_hidden_layers\": 1024}",
         "model of", STATUS_INVALID},
        {"{\"model_type\": \"gpt2\", \"n_positions\": 32}", "tokens=64 32 positions",
         STATUS_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model m = {0};
        assert_int_equal(read_text(bad[i].text, &c, &m), bad[i].st);
        if (!message_says(error_message(), bad[i].message))
            fail_msg("'%s' does not say '%s'", error_message(), bad[i].message);
        assert_null(strchr(error_message(), '\n'));
    }
}

/* Files of real models, where they lie beside the checkout: those of published models have their
 * parameters, the others are read or refused in one line. */
static void real_configurations_are_read(void **state)
{
    static const struct {
        const char *file;
        int64_t parameters; /* 0: refused */
    } known[] = {
        {"maxtext_deepseek2_16b_dict", 15706484224},
        {"maxtext_deepseek32_671b_dict", 0},
        {"maxtext_llama31_8b_config", 8030261248},
        {"maxtext_mixtral_8x7b_dict", 46702792704},
        {"maxtext_qwen3_235b_a22b_thinking_2507_config", 235093634560},
        {"mlc_gemma2-27b", 27227128320},
        {"mlc_gemma3-1b", 999885952},
        {"mlc_gpt-j", 6050882784},
        {"mlc_mistral-7b-v0.1", 7241732096},
        {"mlc_phi-2", 2779683840},
        {"mlc_phi-4", 3836021760},
        {"mlc_qwen2moe-a2.7b", 14315784192},
        {"mlc_snowflake-arctic-embed-m_bert", 109482240},
        {"neusight_bert_large", 335174458},
        {"neusight_switchxl4", 0},
        {"recon_deepseek-v2", 235741434880},
        {"recon_gpt-neox-20b", 20554567680},
        {"servingsim_Llama-3.1-70B", 70553706496},
    };
    if (access(WORKLOADS_DIR "/real/hf_config", R_OK) != 0) {
        print_message("no real configurations in " WORKLOADS_DIR "\n");
        skip();
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct import_options o = {.minibatch_size = 1};
        char path[4096];
        struct model m = {0};
        snprintf(path, sizeof path, WORKLOADS_DIR "/real/hf_config/%s.json", known[i].file);
        enum status st = model_import(path, &o, &m);
        if (known[i].parameters ? st != STATUS_OK : st != STATUS_UNSUPPORTED)
            fail_msg("%s: %s", known[i].file, st == STATUS_OK ? "read" : error_message());
        if (st == STATUS_OK && model_parameters(&m) != known[i].parameters)
            fail_msg("%s: %lld parameters", known[i].file, (long long)model_parameters(&m));
        model_free(&m);
    }
}

/* A GPT-2 of a configuration is the zoo's, op by op, but for what is not kept. */
static void gpt2_is_the_zoo_s(void **state)
{
    struct model m = build("gpt2", "", &(struct architecture_choice){.flash = false}), z = {0};
    assert_int_equal(zoo_build("gpt2-small", &z), STATUS_OK);
    assert_int_equal(m.n, z.n);
    for (size_t i = 0; i < m.n; i++) {
        assert_string_equal(m.op[i].name, z.op[i].name);
        assert_string_equal(m.op[i].kind, z.op[i].kind);
        assert_true(m.op[i].forward_flop == z.op[i].forward_flop);
        assert_true(m.op[i].backward_bytes == z.op[i].backward_bytes);
        assert_int_equal(m.op[i].parameter_bytes, z.op[i].parameter_bytes);
        assert_int_equal(m.op[i].output_bytes, z.op[i].output_bytes);
        assert_int_equal(m.op[i].attributes, z.op[i].attributes);
    }
    model_free(&z);
    model_free(&m);
}

/* What config_write() writes is read as it was: each trait and each number by itself, and the
 * families as they are. */
static void is_read_as_written(const struct architecture *a)
{
    char *text = NULL;
    size_t length = 0;
    struct json_document d = {0};
    struct architecture back;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    config_write(a, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(json_parse("config.json", text, length, NULL, 0, &d), STATUS_OK);
    struct json_at root = json_root(&d);
    if (config_read(&root, &back) != STATUS_OK)
        fail_msg("%s: %s", text, error_message());
    if (memcmp(a, &back, offsetof(struct architecture, dtype)) != 0 || a->dtype != back.dtype ||
        a->traits != back.traits || a->listed != back.listed ||
        memcmp(a->layer, back.layer, sizeof a->layer) != 0)
        fail_msg("read as another: %s", text);
    json_document_free(&d);
    free(text);
}

static void what_is_written_is_read_as_it_was(void **state)
{
    enum { NUMBERS = offsetof(struct architecture, dtype) / sizeof(int64_t) };
    for (size_t i = 0; i < transformer_families_n; i++)
        is_read_as_written(&transformer_families[i]->usual);
    for (size_t i = 0; i < config_traits_n; i++)
        is_read_as_written(&(struct architecture){.traits = config_traits[i].trait});
    for (size_t i = 0; i < NUMBERS; i++) {
        struct architecture a = {0};
        ((int64_t *)&a)[i] = 1;
        is_read_as_written(&a);
    }
    for (enum data_type t = DATA_ANY; t < DATA_TYPES; t++)
        is_read_as_written(&(struct architecture){.dtype = t});
    is_read_as_written(&(struct architecture){
        .listed = 3, .layer = {LAYER_WINDOWED, LAYER_PLAIN, LAYER_WINDOWED | LAYER_PLAIN}});
}

static void every_failing_allocation_is_survived(void **state)
{
    const struct architecture_choice c = {.tokens = 64, .layers = 1, .flash = true};
    struct model m = {0};
    FOR_EACH_ALLOC_FAILURE(
        (model_free(&m),
         read_text("{\"model_type\": \"deepseek_v3\", \"num_nextn_predict_layers\": 1}", &c, &m)));
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_published_ones),
        cmocka_unit_test(work_is_that_of_the_formulas),
        cmocka_unit_test(a_layer_keeps_what_its_backward_reads),
        cmocka_unit_test(attention_sees_what_it_is_allowed),
        cmocka_unit_test(fp8_is_for_linear_layers),
        cmocka_unit_test(types_of_numbers_are_in_files),
        cmocka_unit_test(layers_may_be_listed),
        cmocka_unit_test(a_class_or_a_part_for_text_names_the_family),
        cmocka_unit_test(wrong_configurations_are_refused_in_one_line),
        cmocka_unit_test(real_configurations_are_read),
        cmocka_unit_test(gpt2_is_the_zoo_s),
        cmocka_unit_test(what_is_written_is_read_as_it_was),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests_name("architecture", tests, NULL, NULL);
}
