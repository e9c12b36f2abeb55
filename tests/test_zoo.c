/* zoo: published parameter counts, FLOP against formulas, overrides, errors, failing memory. */
#include "model/zoo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

static struct model build(const char *spec)
{
    struct model m = {0};
    if (zoo_build(spec, &m) != STATUS_OK)
        fail_msg("%s: %s", spec, error_message());
    return m;
}

/* Sources in docs/reference/models.md. */
static void parameter_counts_equal_the_published_ones(void **state)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } published[] = {
        {"gpt2-small", 124439808}, {"gpt2-medium", 354823168},  {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},   {"bert-base", 109514298},    {"bert-large", 335174458},
        {"gpt3-13b", 12853386240}, {"gpt3-175b", 174604259328},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct model m = build(published[i].name);
        assert_int_equal(model_parameters(&m), published[i].parameters);
        model_free(&m);
    }
}

/* torchvision's, and of the U-Net diffusers' (a port to Keras that the original's authors' weights
 * go into prints the same), besides the table of 256 pixels of three channels. */
static void networks_for_images_have_the_published_parameters(void **state)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } published[] = {
        {"vgg:depth=11", 132863336},    {"vgg:depth=13", 133047848}, {"vgg", 138357544},
        {"alexnet", 61100840},          {"vgg:depth=19", 143667240}, {"resnet:depth=18", 11689512},
        {"resnet:depth=34", 21797672},  {"resnet", 25557032},        {"resnet:depth=101", 44549160},
        {"resnet:depth=152", 60192808}, {"unet", 113673219},
    };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        struct model m = build(published[i].name);
        assert_int_equal(model_parameters(&m), published[i].parameters + 256 * 3);
        model_free(&m);
    }
}

/* V = 300, H = 8, 3 layers: two tables V H, layers 4 H (2 H + 1), the writer's behind its first 4
 * H (3 H + 1), products of queries and of keys and values H (H + 1) and 2 H (H + 1), head V (H +
 * 1). */
static void gnmt_has_the_parameters_of_its_formula(void **state)
{
    struct model m = build("gnmt:layers=3,hidden=8,tokens=5,vocabulary=300");
    assert_int_equal(model_parameters(&m),
                     2 * 300 * 8 + 4 * 4 * 8 * 17 + 2 * 4 * 8 * 25 + 3 * 8 * 9 + 300 * 9);
    /* the context is read by all layers of the writer but the first: tensors skip stages */
    uint32_t context = model_find(&m, "d0.attn");
    assert_int_equal(m.out_start[context + 1] - m.out_start[context], 2);
    model_free(&m);
}

/* embedding 256*128 + positions 128*128, 4 layers of 12 C^2 + 13 C, final norm 2 C, head 256*128:
 * 32768 + 16384 + 4 * 198272 + 256 + 32768 = 875264. Tied: without the head's 32768. */
static void gpt_tiny_is_untied_unless_asked(void **state)
{
    struct model m = build("gpt-tiny"), tied = build("gpt-tiny:tied=1");
    assert_int_equal(model_parameters(&m), 875264);
    assert_int_equal(model_parameters(&tied), 842496);
    assert_int_equal(sample_op(&m, "head")->shares, MODEL_NO_OP);
    assert_int_equal(sample_op(&tied, "head")->shares, model_find(&tied, "embedding"));
    assert_int_equal(sample_op(&tied, "head")->shared_bytes, 256 * 128 * 4);
    assert_int_equal(sample_op(&tied, "head")->parameter_bytes, 0);
    model_free(&tied);
    model_free(&m);
}

static void bert_decoder_borrows_the_table_and_owns_its_bias(void **state)
{
    struct model m = build("bert-base");
    const struct model_op *decoder = sample_op(&m, "mlm.decoder");
    assert_int_equal(decoder->shares, model_find(&m, "embedding"));
    assert_int_equal(decoder->shared_bytes, 30522 * 768 * 4);
    assert_int_equal(decoder->parameter_bytes, 30522 * 4);
    assert_int_equal(model_attribute(sample_op(&m, "embedding"), "types", 0), 2);
    assert_int_equal(model_attribute(sample_op(&m, "h0.attn"), "causal", -1), 0);
    assert_int_equal(model_attribute(sample_op(&m, "loss"), "masked", -1), 1);
    model_free(&m);
}

/* T = 1024, C = 768, V = 50257, 12 layers:
 *   linear layers 12 * 2 T * 12 C^2      = 173 946 175 488
 *   head          2 T C V                =  79 047 426 048   together 2 N T, N = 123 532 032
 *   attention     12 * 4 T^2 C           =  38 654 705 664
 *   norms         25 * 7 T C             =     137 625 600
 *   gelu          12 * 9 * 4 T C         =     339 738 624
 *   residuals     24 T C, embedding T C  =      19 660 800
 *   loss          4 T V                  =     205 852 672 */
static void gpt2_small_forward_flop_match_the_formula(void **state)
{
    struct model m = build("gpt2-small");
    double forward = 0, products = 0, products_backward = 0;
    for (size_t i = 0; i < m.n; i++) {
        forward += m.op[i].forward_flop;
        if (!strcmp(m.op[i].kind, "linear") || !strcmp(m.op[i].kind, "attention")) {
            products += m.op[i].forward_flop;
            products_backward += m.op[i].backward_flop;
        }
    }
    assert_true(products == 2.0 * 123532032 * 1024 + 38654705664.0);
    assert_true(products_backward == 2 * products);
    assert_true(forward == 292351184896.0);
    assert_true(m.tokens_per_sample == 1024);
    model_free(&m);
}

static bool is_near(double a, double b)
{
    return fabs(a / b - 1) < 1e-9;
}

/* Both are of the model, whatever its kernel skips; with flash attention one is what it computes. */
static void conventions_of_flop_do_not_depend_on_the_kernel(void **state)
{
    static const char *const names[][2] = {{"gpt2-small", "gpt2-small:flash=1"},
                                           {"llama3-8b:flash=0", "llama3-8b"},
                                           {"bert-large", "bert-large:flash=1"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model m = build(names[i][0]), flash = build(names[i][1]);
        double causal = model_convention_flop(&m, MODEL_CAUSAL);
        double square = model_convention_flop(&m, MODEL_SQUARE);
        assert_true(is_near(model_convention_flop(&flash, MODEL_CAUSAL), causal));
        assert_true(is_near(model_convention_flop(&flash, MODEL_SQUARE), square));
        assert_true(is_near(model_sample_flop(&m), square));
        assert_true(is_near(model_sample_flop(&flash), causal));
        assert_int_equal(is_near(causal, square), i == 2); /* BERT has no mask */
        model_free(&m);
        model_free(&flash);
    }
}

/* gpt-tiny: T = C = 128, 4 heads, V = 256; fp32. */
static void memory_sizes_match_shapes_worked_by_hand(void **state)
{
    struct model m = build("gpt-tiny");
    assert_int_equal(sample_op(&m, "embedding")->stash_bytes, 128 * 128 * 4 + 128 * 4);
    assert_int_equal(sample_op(&m, "h0.ln1")->stash_bytes, (128 * 128 + 2 * 128) * 4);
    assert_int_equal(sample_op(&m, "h0.attn.qkv")->output_bytes, 128 * 384 * 4);
    assert_int_equal(sample_op(&m, "h0.attn")->stash_bytes, (128 * 128 + 4 * 128 * 128) * 4);
    assert_int_equal(sample_op(&m, "h0.attn")->output_bytes, 128 * 128 * 4);
    assert_int_equal(sample_op(&m, "h0.mlp.gelu")->stash_bytes, 128 * 512 * 4);
    assert_int_equal(sample_op(&m, "loss")->output_bytes, 4);
    assert_int_equal(sample_op(&m, "loss")->stash_bytes, (2 * 128 + 1) * 4);
    /* q, k, v in and the output, probabilities written and read */
    assert_true(sample_op(&m, "h0.attn")->forward_bytes == (4 * 128 * 128 + 2 * 4 * 128 * 128) * 4);
    assert_true(sample_op(&m, "h0.attn.proj")->backward_bytes == 2 * (2 * 128 * 128) * 4);
    model_free(&m);
}

static void assert_inputs(const struct model *m, const char *name, const char *a, const char *b)
{
    uint32_t i = model_find(m, name);
    assert_int_not_equal(i, MODEL_NO_OP);
    const uint32_t *in = &m->in[m->in_start[i]];
    assert_int_equal(m->in_start[i + 1] - m->in_start[i], b ? 2 : 1);
    assert_string_equal(m->op[in[0]].name, a);
    if (b)
        assert_string_equal(m->op[in[1]].name, b);
}

static void residuals_take_the_stream_first_and_the_branch_second(void **state)
{
    struct model gpt = build("gpt-tiny"), bert = build("bert-base:layers=2");
    assert_inputs(&gpt, "h0.ln1", "embedding", NULL);
    assert_inputs(&gpt, "h0.attn.residual", "embedding", "h0.attn.proj");
    assert_inputs(&gpt, "h0.mlp.residual", "h0.attn.residual", "h0.mlp.proj");
    assert_inputs(&gpt, "h1.attn.residual", "h0.mlp.residual", "h1.attn.proj");
    assert_inputs(&gpt, "ln_f", "h3.mlp.residual", NULL);
    assert_inputs(&bert, "h0.attn.qkv", "embedding.ln", NULL);
    assert_inputs(&bert, "h0.attn.residual", "embedding.ln", "h0.attn.proj");
    assert_inputs(&bert, "h0.mlp.residual", "h0.ln1", "h0.mlp.proj");
    assert_inputs(&bert, "h1.attn.qkv", "h0.ln2", NULL);
    assert_inputs(&bert, "mlm.dense", "h1.ln2", NULL);
    model_free(&bert);
    model_free(&gpt);
}

/* (16*8) inputs: 256*8 + (128*32 + 32) + (32*32 + 32) + (32*256 + 256) = 15680. */
static void mlp_predicts_one_token_from_its_window(void **state)
{
    struct model m = build("mlp:layers=2,hidden=32,tokens=16,channels=8");
    assert_int_equal(model_parameters(&m), 15680);
    assert_true(m.tokens_per_sample == 1);
    assert_int_equal(m.n, 7);
    assert_int_equal(model_attribute(sample_op(&m, "embedding"), "concat", 0), 1);
    assert_int_equal(sample_op(&m, "embedding")->output_bytes, 16 * 8 * 4);
    assert_int_equal(model_attribute(sample_op(&m, "h0.linear"), "in", 0), 128);
    assert_int_equal(model_attribute(sample_op(&m, "h1.linear"), "in", 0), 32);
    assert_int_equal(model_attribute(sample_op(&m, "loss"), "tokens", 0), 1);
    model_free(&m);
}

/* The counts as closed formulas, on random shapes. */
static void parameters_agree_with_closed_formulas(void **state)
{
    srand(1);
    for (int trial = 0; trial < 50; trial++) {
        int l = 1 + rand() % 5, h = 1 + rand() % 4, c = h * (1 + rand() % 20), t = 1 + rand() % 50;
        int v = 2 + rand() % 300, p = t + rand() % 9, tied = rand() % 2;
        int64_t layer = 12L * c * c + 13L * c, expected;
        char spec[200];
        snprintf(spec, sizeof spec,
                 "gpt-tiny:layers=%d,heads=%d,hidden=%d,tokens=%d,vocabulary=%d,positions=%d,"
                 "tied=%d",
                 l, h, c, t, v, p, tied);
        struct model m = build(spec);
        expected = (int64_t)v * c * (tied ? 1 : 2) + (int64_t)p * c + l * layer + 2 * c;
        assert_int_equal(model_parameters(&m), expected);
        assert_string_equal(m.name, spec);
        model_free(&m);

        snprintf(spec, sizeof spec,
                 "bert-base:layers=%d,heads=%d,hidden=%d,tokens=%d,vocabulary=%d", l, h, c, t, v);
        m = build(spec);
        expected = (int64_t)(v + t + 2 + 2) * c + l * layer + (int64_t)c * c + 3 * c + v;
        assert_int_equal(model_parameters(&m), expected);
        model_free(&m);
    }
}

static void positions_follow_tokens_unless_given(void **state)
{
    struct model m = build("bert-base:tokens=128"),
                 full = build("bert-base:tokens=128,positions=512");
    assert_int_equal(model_attribute(sample_op(&m, "embedding"), "positions", 0), 128);
    assert_int_equal(model_parameters(&full), 109514298);
    model_free(&full);
    model_free(&m);
}

/* As --tokens reads them. */
static void counts_may_have_prefixes(void **state)
{
    struct model m = {0};
    assert_int_equal(zoo_build("gpt-tiny:layers=1,tokens=8k", &m), STATUS_OK);
    assert_true(m.tokens_per_sample == 8000);
    model_free(&m);
    assert_int_equal(zoo_build("gpt-tiny:tokens=1.5", &m), STATUS_INVALID);
}

static void rejects_bad_specifications_with_one_clear_line(void **state)
{
    static const struct {
        const char *spec, *message;
    } bad[] = {
        {"gpt3", "model 'gpt3' foreline"},
        {"gpt2-small:depth=3", "gpt2-small: parameter 'depth'; known: layers, hidden, heads, "
                               "tokens, vocabulary, positions, dtype, flash, tied"},
        {"gpt2-small:hidden=770", "gpt2-small: hidden=770 is not divisible by heads=12"},
        {"gpt2-small:layers=0", "gpt2-small: 'layers=0': layers a whole number from 1 to 10000"},
        {"gpt2-small:layers=", "gpt2-small: 'layers=': layers a whole number from 1 to 10000"},
        {"gpt2-small:layers=2x", "gpt2-small: 'layers=2x': layers a whole number from 1 to 10000"},
        {"gpt2-small:layers= 2", "gpt2-small: 'layers= 2': layers a whole number from 1 to 10000"},
        {"gpt2-small:layers=99999999999999999999",
         "gpt2-small: 'layers=99999999999999999999': layers a whole number from 1 to 10000"},
        {"gpt2-small:layers", "gpt2-small 'layers'"},
        {"gpt2-small:", "gpt2-small ''"},
        {"gpt2-small:layers=2,", "gpt2-small ''"},
        {"gpt2-small:layers=2,layers=3", "gpt2-small: layers is given twice"},
        {"bert-base:positions=100", "bert-base: positions=100 tokens=512"},
        {"bert-base:tied=1", "bert-base: parameter 'tied'; known: layers, hidden, heads, "
                             "tokens, vocabulary, positions, dtype, flash"},
        {"gpt2-small:bits=24", "gpt2-small: parameter 'bits'; known: layers, hidden, heads, "
                               "tokens, vocabulary, positions, dtype, flash, tied"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model m = {.n = 7};
        assert_int_equal(zoo_build(bad[i].spec, &m), STATUS_INVALID);
        assert_message(error_message(), bad[i].message);
        assert_int_equal(m.n, 7);
    }
}

static void knows_its_names_with_and_without_overrides(void **state)
{
    assert_true(zoo_has("gpt-tiny"));
    assert_true(zoo_has("gpt-tiny:layers=2"));
    assert_false(zoo_has("gpt"));
    assert_false(zoo_has("gpt-tiny2"));
    assert_false(zoo_has(""));
}

/* At the ends of all ranges a model is built or refused; nothing overflows (sanitizers watch). */
static void survives_the_largest_shapes(void **state)
{
    static const char *const large[] = {
        "gpt2-xl:layers=1,hidden=131072,heads=1024,tokens=1048576,vocabulary=16777216",
        "bert-large:layers=1,hidden=131072,heads=1024,tokens=1048576,vocabulary=16777216",
        "mlp:layers=1,hidden=131072,tokens=65536,channels=65536,vocabulary=16777216",
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        struct model m = {0};
        enum status st = zoo_build(large[i], &m);
        assert_true(st == STATUS_OK || st == STATUS_INVALID);
        model_free(&m);
    }
    struct model deep = build("mlp:layers=10000,hidden=1,tokens=1,channels=1");
    assert_int_equal(deep.n, 20003);
    model_free(&deep);
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct model m = {0};
    FOR_EACH_ALLOC_FAILURE(zoo_build("gpt-tiny:layers=2", &m));
    model_free(&m);
    FOR_EACH_ALLOC_FAILURE(zoo_build("mlp:layers=1", &m));
    model_free(&m);
    FOR_EACH_ALLOC_FAILURE(zoo_build("two-chains:ops=5", &m));
    model_free(&m);
}

/* n = 7: 0-1-2-3 and 4-5-6-3, six edges, the join last in topological order. */
static void two_chains_end_in_the_same_op(void **state)
{
    struct model m = build("two-chains:ops=7"), toy = build("two-chains");
    assert_int_equal(toy.n, 201);
    assert_int_equal(toy.edges, 200);
    assert_int_equal(model_parameters(&toy), 402);
    assert_int_equal(m.edges, 6);
    assert_string_equal(m.op[6].name, "node3");
    assert_inputs(&m, "node3", "node2", "node6");
    assert_int_equal(m.in_start[model_find(&m, "node4")], m.in_start[model_find(&m, "node4") + 1]);
    model_free(&toy);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_may_have_prefixes),
        cmocka_unit_test(parameter_counts_equal_the_published_ones),
        cmocka_unit_test(networks_for_images_have_the_published_parameters),
        cmocka_unit_test(gnmt_has_the_parameters_of_its_formula),
        cmocka_unit_test(gpt_tiny_is_untied_unless_asked),
        cmocka_unit_test(bert_decoder_borrows_the_table_and_owns_its_bias),
        cmocka_unit_test(gpt2_small_forward_flop_match_the_formula),
        cmocka_unit_test(conventions_of_flop_do_not_depend_on_the_kernel),
        cmocka_unit_test(memory_sizes_match_shapes_worked_by_hand),
        cmocka_unit_test(residuals_take_the_stream_first_and_the_branch_second),
        cmocka_unit_test(mlp_predicts_one_token_from_its_window),
        cmocka_unit_test(parameters_agree_with_closed_formulas),
        cmocka_unit_test(positions_follow_tokens_unless_given),
        cmocka_unit_test(rejects_bad_specifications_with_one_clear_line),
        cmocka_unit_test(knows_its_names_with_and_without_overrides),
        cmocka_unit_test(survives_the_largest_shapes),
        cmocka_unit_test(two_chains_end_in_the_same_op),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("zoo", tests, NULL, NULL);
}
