/* Opening the CPU device: untrusted models, exhausted memory. */
#include "exec/device.h"

#include <string.h>

#include "exec/corpus.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/tiny.h"

enum { MICROBATCHES = 5 };

static enum status open_whole_on(const struct model *m, const struct corpus *corpus)
{
    struct program p;
    void *self = NULL;
    enum status st = tiny_whole(m, MICROBATCHES, "adam", &p);
    if (st != STATUS_OK)
        return st;
    st = device_cpu.open(m, &p, 0,
                         &(struct device_options){.corpus = corpus, .learning_rate = 1e-3}, &self);
    if (st == STATUS_OK)
        device_cpu.close(self);
    else
        assert_null(self);
    program_free(&p);
    return st;
}

static enum status open_whole(const struct model *m)
{
    return open_whole_on(m, NULL);
}

static void releases_everything_when_an_allocation_fails(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(open_whole(&m));
    model_free(&m);
}

/* Opens the middle stage of three: with producers, consumers and a copy of tied weights. */
static enum status open_middle(const struct model *m)
{
    struct program p;
    void *self = NULL;
    uint32_t s[TINY_OPS];
    enum status st =
        tiny_program(m, 3, tiny_cut(s, 5, (uint32_t)m->n - 1, TINY_OPS), MICROBATCHES, "adam", &p);
    if (st != STATUS_OK)
        return st;
    st = device_cpu.open(m, &p, 1, &(struct device_options){.learning_rate = 1e-3}, &self);
    device_cpu.close(self);
    program_free(&p);
    return st;
}

static void releases_everything_of_a_middle_stage_too(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(open_middle(&m));
    model_free(&m);
}

static void a_slot_that_could_not_be_allocated_can_be_tried_again(void **state)
{
    struct model m;
    struct program p;
    void *self;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    assert_int_equal(tiny_whole(&m, MICROBATCHES, "adam", &p), STATUS_OK);
    assert_int_equal(device_cpu.open(&m, &p, 0, &(struct device_options){0}, &self), STATUS_OK);
    FOR_EACH_ALLOC_FAILURE(device_cpu.compute(
        self, 0, &(struct program_op){.kind = OP_FORWARD, .microbatch = 0}, NULL));
    assert_int_equal(device_cpu.compute(
                         self, 0, &(struct program_op){.kind = OP_BACKWARD, .microbatch = 0}, NULL),
                     STATUS_OK);
    device_cpu.close(self);
    program_free(&p);
    model_free(&m);
}

static void every_wrong_attribute_is_an_error_that_names_the_op(void **state)
{
    static const int64_t hostile[] = {-1,         0,         3,         INT32_MAX,
                                      UINT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 40};
    struct model m;
    size_t refused = 0, tried = 0;
    assert_int_equal(tiny_bert(&m), STATUS_OK);
    for (uint32_t i = 0; i < m.n; i++)
        for (size_t a = 0; a < m.op[i].attributes; a++) {
            struct model_attribute *attribute = &m.op[i].attribute[a];
            int64_t kept = attribute->value;
            for (size_t k = 0; k < sizeof hostile / sizeof *hostile; k++) {
                attribute->value = hostile[k];
                enum status st = open_whole(&m);
                tried++;
                refused += st == STATUS_INVALID;
                /* 0 is right for flags and tables that may be absent */
                assert_true(st == STATUS_INVALID || hostile[k] == 0);
                if (st != STATUS_OK)
                    assert_message(error_message(), m.op[i].name);
            }
            attribute->value = kept;
            attribute->name[0] ^= 1; /* missing */
            enum status st = open_whole(&m);
            assert_true(st == STATUS_INVALID || kept <= 1);
            attribute->name[0] ^= 1;
        }
    assert_true(refused > tried * 7 / 8);
    assert_int_equal(open_whole(&m), STATUS_OK);
    model_free(&m);
}

static void sizes_that_contradict_the_attributes_are_errors(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, true, &m), STATUS_OK);
    for (uint32_t i = 0; i < m.n; i++) {
        int64_t *const sizes[] = {&m.op[i].parameter_bytes, &m.op[i].shared_bytes,
                                  &m.op[i].output_bytes};
        for (size_t k = 0; k < 3; k++) {
            *sizes[k] += 4;
            bool free_choice = k == 2 && i == m.n - 1; /* what the loss says it sends */
            assert_int_equal(open_whole(&m), free_choice ? STATUS_OK : STATUS_INVALID);
            *sizes[k] -= 4;
        }
    }
    model_free(&m);
}

static void a_model_larger_than_the_machine_is_one_clear_error(void **state)
{
    struct model m;
    assert_int_equal(tiny_mlp(&m), STATUS_OK);
    const int64_t wide = (int64_t)1 << 28; /* 2^28 x 48 fp32 weights: 51 GB, four times */
    tiny_set(&m, 1, "out", wide);
    m.op[1].parameter_bytes = 4 * wide * (TINY_TOKENS * TINY_CHANNELS + 1);
    m.op[1].output_bytes = 4 * wide;
    tiny_set(&m, 2, "channels", wide);
    m.op[2].output_bytes = 4 * wide;
    tiny_set(&m, 3, "in", wide);
    m.op[3].parameter_bytes = 4 * 16 * (wide + 1);
    assert_int_equal(open_whole(&m), STATUS_NOMEM);
    assert_message(error_message(), "GB");
    model_free(&m);
}

static void refuses_what_it_has_no_numerics_for(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    assert_true(device_cpu.computes(&m, 2));
    m.op[2].kind[0] = 'L';
    m.op[2].type = OPERATOR_UNREAD;
    assert_false(device_cpu.computes(&m, 2));
    assert_int_equal(open_whole(&m), STATUS_UNSUPPORTED);
    assert_message(error_message(), m.op[2].name);
    model_free(&m);
}

static void refuses_a_text_too_short_and_a_vocabulary_too_small(void **state)
{
    const struct corpus brief = {(const unsigned char *)"brief", 5};
    struct model m;
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    assert_int_equal(open_whole_on(&m, &brief), STATUS_INVALID);
    assert_message(error_message(), "5 bytes");
    tiny_set(&m, 0, "vocabulary", 255);
    assert_int_equal(open_whole(&m), STATUS_INVALID);
    assert_message(error_message(), "256");
    model_free(&m);
}

static void refuses_unknown_optimizers_and_stages_that_miss_ops(void **state)
{
    struct model m;
    struct program p;
    void *self;
    const struct device_options o = {.learning_rate = 1e-3};
    assert_int_equal(tiny_gpt(1, false, &m), STATUS_OK);
    uint32_t n = (uint32_t)m.n;
    assert_int_equal(tiny_whole(&m, 1, "lion", &p), STATUS_OK);
    assert_int_equal(device_cpu.open(&m, &p, 0, &o, &self), STATUS_INVALID);
    assert_message(error_message(), "lion");
    program_free(&p);
    assert_int_equal(tiny_whole(&m, 1, "adam", &p), STATUS_OK);
    p.stage_start[1]--; /* one missing */
    assert_int_equal(device_cpu.open(&m, &p, 0, &o, &self), STATUS_INVALID);
    program_free(&p);
    assert_int_equal(tiny_whole(&m, 1, "adam", &p), STATUS_OK);
    p.stage_op[3] = 2; /* twice */
    assert_int_equal(device_cpu.open(&m, &p, 0, &o, &self), STATUS_INVALID);
    p.stage_op[3] = n; /* unknown */
    assert_int_equal(device_cpu.open(&m, &p, 0, &o, &self), STATUS_INVALID);
    program_free(&p);
    model_free(&m);
}

static enum status open_second_of(const struct model *m, uint32_t first)
{
    struct program p;
    uint32_t s[TINY_OPS];
    void *self = NULL;
    assert_int_equal(tiny_program(m, 2, tiny_cut(s, first, TINY_OPS, TINY_OPS), 1, "adam", &p),
                     STATUS_OK);
    enum status st = device_cpu.open(m, &p, 1, &(struct device_options){0}, &self);
    device_cpu.close(self);
    program_free(&p);
    return st;
}

static void refuses_ties_that_stages_cannot_sum(void **state)
{
    struct model m;
    assert_int_equal(tiny_gpt(3, false, &m), STATUS_OK);
    tiny_share(&m, 17, 7);
    tiny_share(&m, 27, 7);
    assert_int_equal(open_second_of(&m, 20), STATUS_OK);
    assert_int_equal(open_second_of(&m, 10), STATUS_OK); /* both borrowers: one copy */
    tiny_share(&m, 29, 7);                               /* the same number of weights */
    assert_int_equal(open_second_of(&m, 28), STATUS_OK);
    tiny_set(&m, 24, "bias", 1);
    m.op[24].shares = 7; /* (8, 8) weights of the (32, 8) */
    m.op[24].shared_bytes = 4 * TINY_CHANNELS * TINY_CHANNELS;
    m.op[24].parameter_bytes = 4 * TINY_CHANNELS;
    assert_int_equal(open_second_of(&m, 28), STATUS_UNSUPPORTED);
    assert_message(error_message(), "the same number of bytes");
    m.op[24].shares = MODEL_NO_OP;
    assert_int_equal(open_whole(&m), STATUS_INVALID); /* shared_bytes without an owner */
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases_everything_when_an_allocation_fails),
        cmocka_unit_test(releases_everything_of_a_middle_stage_too),
        cmocka_unit_test(a_slot_that_could_not_be_allocated_can_be_tried_again),
        cmocka_unit_test(every_wrong_attribute_is_an_error_that_names_the_op),
        cmocka_unit_test(sizes_that_contradict_the_attributes_are_errors),
        cmocka_unit_test(a_model_larger_than_the_machine_is_one_clear_error),
        cmocka_unit_test(refuses_what_it_has_no_numerics_for),
        cmocka_unit_test(refuses_a_text_too_short_and_a_vocabulary_too_small),
        cmocka_unit_test(refuses_unknown_optimizers_and_stages_that_miss_ops),
        cmocka_unit_test(refuses_ties_that_stages_cannot_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
