/* Zoo models with experts: sizes, work, memory and routing by hand. */
#include <stdio.h>
#include <stdlib.h>

#include "model/zoo.h"
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

/* C = 768, V = 33280, E = 16; four layers are plain, 12 C^2 + 13 C = 7 087 872, four have experts:
 * 4 C^2 + 8 C (attention, norms) + C E (gate) + E (8 C^2 + 5 C) = 77 936 640. Language model: two
 * tables and a bias, (2 C + 1) V = 51 151 360. Classifier: patches of 48 numbers, bias, class
 * token, 65 positions: 115 C, head 10 C + 10: 96 010. */
static void parameters_are_those_of_the_formula(void **state)
{
    static const struct {
        const char *spec;
        int64_t parameters;
    } known[] = {
        {"rtransformer", 8 * 7087872L + 51151360},
        {"rmoe", 4 * (7087872L + 77936640) + 51151360},
        {"rswitch", 391249408},
        {"rmoe:experts=128", 391249408 + 4 * 112 * (8 * 768L * 768 + 5 * 768 + 768)},
        {"rmoe:inner=3072", 4 * (7087872L + 77936640) + 51151360},
        {"rmoe:inner=1024",
         4 * (7087872L + 77936640) + 51151360 - (4 + 4 * 16) * (2 * 768L * 2048 + 2048)},
        {"vtransformer", 8 * 7087872L + 96010},
        {"vmoe", 340194058},
        {"vswitch", 4 * (7087872L + 77936640) + 96010},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct model m = build(known[k].spec);
        assert_int_equal(model_parameters(&m), known[k].parameters);
        model_free(&m);
    }
}

static void random_shapes_have_the_parameters_of_the_formula(void **state)
{
    srand(3);
    for (int trial = 0; trial < 50; trial++) {
        int64_t l = 1 + rand() % 6, heads = 1 + rand() % 4, c = heads * (1 + rand() % 20);
        int64_t t = 1 + rand() % 50, v = 2 + rand() % 300, e = 2 + rand() % 9;
        int64_t plain = 12 * c * c + 13 * c, mixed = 4 * c * c + 8 * c + c * e;
        int64_t layers = (l + 1) / 2 * plain + l / 2 * (mixed + e * (8 * c * c + 5 * c));
        char spec[200];
        snprintf(spec, sizeof spec,
                 "rmoe:layers=%d,hidden=%d,heads=%d,tokens=%d,vocabulary=%d,experts=%d", (int)l,
                 (int)c, (int)heads, (int)t, (int)v, (int)e);
        struct model m = build(spec);
        assert_int_equal(model_parameters(&m), layers + (2 * c + 1) * v);
        model_free(&m);
        snprintf(spec, sizeof spec,
                 "vswitch:layers=%d,hidden=%d,heads=%d,tokens=%d,classes=%d,experts=%d", (int)l,
                 (int)c, (int)heads, (int)t, (int)v, (int)e);
        m = build(spec);
        assert_int_equal(model_parameters(&m), layers + (48 + 3 + t) * c + (c + 1) * v);
        model_free(&m);
    }
}

/* Slots of a sample: E ceil(group T k 1.25 / E) / group; T = 128, or 65 with the class token. */
static void capacity_is_rounded_up_over_the_samples_routed_together(void **state)
{
    static const struct {
        const char *spec;
        int64_t slots;
    } known[] = {
        {"rmoe", 16 * 20},                     /* 128 * 2 * 1.25 / 16 = 20 */
        {"rswitch", 16 * 10},                  /* 10 */
        {"rmoe:experts=128", 128 * 3},         /* 2.5: seven slots in six are padding */
        {"rswitch:experts=128", 128 * 2},      /* 1.25 */
        {"rswitch:experts=128,group=32", 160}, /* 40 for 32 samples */
        {"rmoe:experts=128,group=32", 320},    /* 80 */
        {"rmoe:capacity=0", 128 * 2},          /* what comes in */
        {"rswitch:capacity=0", 128},
        {"vswitch", 16 * 6},                             /* 65 * 1.25 / 16 = 5.1 */
        {"vswitch:experts=3,group=2", (3 * 55 + 1) / 2}, /* 2 * 65 * 1.25 / 3 = 54.2 */
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct model m = build(known[k].spec);
        assert_int_equal(model_attribute(sample_op(&m, "h1.moe.experts"), "slots", 0),
                         known[k].slots);
        assert_int_equal(sample_op(&m, "h1.moe.experts")->exchange_bytes, known[k].slots * 768 * 4);
        model_free(&m);
    }
}

/* T = 4, C = 8, inner 32, E = 2, k = 1: capacity 150 % of 2 is 3, S = 6 slots; one group of one.
 *   gate     2 T C E + (5 + 1) T E                          128 + 48
 *   experts  4 S C 32, gelu 9 S 32, 2 x 2 T S C             6144 + 1728 + 768
 * backward: 256 + 4 T E = 288; 12288 + 18 S 32 + 3 x 384    12288 + 3456 + 1152
 * Numbers remembered: gate T S + T E = 32; experts T C + 2 S (C + 32) = 32 + 480. */
static void work_and_memory_of_experts_match_a_case_by_hand(void **state)
{
    struct model m = build("rswitch:layers=2,hidden=8,heads=1,tokens=4,vocabulary=2,experts=2,"
                           "capacity=150,dtype=bf16");
    const struct model_op *gate = sample_op(&m, "h1.moe.gate"),
                          *experts = sample_op(&m, "h1.moe.experts");
    assert_true(gate->forward_flop == 176 && gate->backward_flop == 288);
    assert_true(experts->forward_flop == 8640 && experts->backward_flop == 16896);
    assert_int_equal(gate->stash_bytes, 2 * 32);
    assert_int_equal(experts->stash_bytes, 2 * 512);
    assert_int_equal(gate->output_bytes, 2 * 4 * 6);
    assert_int_equal(experts->output_bytes, 2 * 4 * 8);
    assert_int_equal(gate->parameter_bytes, 2 * 16);
    assert_int_equal(experts->parameter_bytes, 2 * 2 * (2 * 8 * 32 + 32 + 8));
    /* tokens and, twice, slots of both widths, masks */
    assert_true(experts->forward_bytes == 2 * (2 * 32 + 4 * 6 * 40 + 2 * 24));
    model_free(&m);
    m = build("rswitch:layers=2,hidden=8,heads=1,tokens=4,vocabulary=2,experts=2,einsum=0,"
              "capacity=0");
    experts = sample_op(&m, "h1.moe.experts");
    assert_true(experts->forward_flop == 4 * 4 * 8 * 32 + 9 * 4 * 32 + 2 * 32);
    assert_int_equal(sample_op(&m, "h1.moe.gate")->output_bytes, 4 * 2 * 4);
    model_free(&m);
}

/* Masks grow with the group: 2 x 2 T (32 S) C for each of 32 samples, 32 times those of one. */
static void products_with_masks_grow_with_the_group(void **state)
{
    struct model one = build("rmoe"), many = build("rmoe:group=32");
    double mask = 4.0 * 128 * 320 * 768;
    assert_near(sample_op(&many, "h1.moe.experts")->forward_flop -
                    sample_op(&one, "h1.moe.experts")->forward_flop,
                31 * mask, 0);
    assert_true(4.0 * 320 * 768 * 3072 / (32 * mask) < 0.76); /* more than the experts' own */
    model_free(&one);
    model_free(&many);
}

static void experts_are_in_every_second_layer(void **state)
{
    struct model r = build("rmoe"), v = build("vmoe"), plain = build("rtransformer");
    for (int i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "h%d.moe.experts", i);
        assert_int_equal(model_find(&r, name) != MODEL_NO_OP, i % 2);
        assert_int_equal(model_find(&v, name) != MODEL_NO_OP, i % 2);
        assert_int_equal(model_find(&plain, name), MODEL_NO_OP);
    }
    uint32_t i = model_find(&r, "h1.moe.experts");
    assert_int_equal(r.in[r.in_start[i]], model_find(&r, "h1.ln1"));
    assert_int_equal(r.in[r.in_start[i] + 1], model_find(&r, "h1.moe.gate"));
    assert_true(r.tokens_per_sample == 128);
    assert_true(v.tokens_per_sample == 0);
    assert_int_equal(sample_op(&v, "patches")->output_bytes, 65 * 768 * 4);
    assert_int_equal(sample_op(&v, "loss")->output_bytes, 4);
    model_free(&r);
    model_free(&v);
    model_free(&plain);
}

static void rejects_routing_that_cannot_be(void **state)
{
    static const struct {
        const char *spec, *message;
    } bad[] = {
        {"rmoe:experts=1", "rmoe: top_k=2 experts=1"},
        {"vmoe:hidden=100", "vmoe: hidden=100 is not divisible by heads=12"},
        {"vswitch:dtype=fp12",
         "vswitch: 'dtype=fp12': dtype one of fp32, tf32, fp16, bf16, fp8, fp4"},
        {"rtransformer:experts=2", "rtransformer: parameter 'experts'; known: layers, hidden, "
                                   "heads, tokens, vocabulary, dtype, flash, inner"},
        {"vmoe:vocabulary=2", "vmoe: parameter 'vocabulary'; known: layers, hidden, heads, tokens, "
                              "classes, dtype, flash, inner, experts,"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct model m = {.n = 7};
        assert_int_equal(zoo_build(bad[i].spec, &m), STATUS_INVALID);
        assert_message(error_message(), bad[i].message);
        assert_int_equal(m.n, 7);
    }
}

/* At the ends of all ranges a model is built or refused; nothing overflows (sanitizers watch). */
static void survives_the_largest_shapes(void **state)
{
    static const char *const large[] = {
        "rmoe:layers=2,hidden=131072,heads=1024,tokens=16384,vocabulary=16777216,experts=65536,"
        "top_k=64,capacity=1000,group=1024",
        "vmoe:layers=2,hidden=131072,heads=1024,tokens=16384,experts=65536,top_k=64,capacity=0",
        "vtransformer:layers=1,hidden=131072,heads=1024,tokens=16384,classes=16777216",
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        struct model m = {0};
        enum status st = zoo_build(large[i], &m);
        assert_true(st == STATUS_OK || st == STATUS_INVALID);
        model_free(&m);
    }
}

static void releases_everything_when_memory_runs_out(void **state)
{
    struct model m = {0};
    FOR_EACH_ALLOC_FAILURE(zoo_build("rmoe:layers=2", &m));
    model_free(&m);
    FOR_EACH_ALLOC_FAILURE(zoo_build("vtransformer:layers=1", &m));
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_the_formula),
        cmocka_unit_test(random_shapes_have_the_parameters_of_the_formula),
        cmocka_unit_test(capacity_is_rounded_up_over_the_samples_routed_together),
        cmocka_unit_test(work_and_memory_of_experts_match_a_case_by_hand),
        cmocka_unit_test(products_with_masks_grow_with_the_group),
        cmocka_unit_test(experts_are_in_every_second_layer),
        cmocka_unit_test(rejects_routing_that_cannot_be),
        cmocka_unit_test(survives_the_largest_shapes),
        cmocka_unit_test(releases_everything_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("experts", tests, NULL, NULL);
}
