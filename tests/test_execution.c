/* Execution traces as models: one of PyTorch by hand, one of Chakra by hand, and one that foreline
 * wrote. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "model/import.h"
#include "tests/cmocka.h"
#include "tests/fault.h"
#include "tests/sample.h"

static const char *const torch = SOURCE_DIR "/tests/fuzz/corpus/import/execution.json";
static const char *const chakra = SOURCE_DIR "/tests/fuzz/corpus/import/chakra.et";
static const char file[] = "test_execution.in";
static struct import_options options = {.minibatch_size = 4, .device = "H100"};

/* x (4, 6) -> linear to 10 with a bias -> relu in place -> view -> linear to 10 by a weight that
 * both use, which the optimizer steps; flat (schema 1.0.1) or nested (1.1). The first linear's
 * backward has two products. */
static void counts_a_trace_of_pytorch(void **state)
{
    struct model m = {0};
    assert_int_equal(model_import(torch, &options, &m), STATUS_OK);
    assert_int_equal(m.n, 3);
    const struct model_op *first = sample_op(&m, "linear.0"), *relu = sample_op(&m, "relu_.1"),
                          *second = sample_op(&m, "linear.2");
    assert_string_equal(first->kind, "linear");
    assert_true(first->forward_flop == 2 * 4 * 6 * 10 / 4.0);
    assert_true(first->backward_flop == 2 * 2 * 4 * 6 * 10 / 4.0);
    assert_int_equal(first->parameter_bytes, 4 * (6 * 10 + 10));
    assert_int_equal(first->output_bytes, 4 * 10);
    assert_true(first->forward_bytes == 4 * (6 + 10)); /* without parameters */
    assert_true(relu->forward_flop == 0 && relu->forward_bytes == 4 * 20);
    assert_int_equal(second->parameter_bytes, 0); /* borrowed */
    assert_int_equal(second->shares, 0);
    assert_int_equal(second->shared_bytes, 4 * 60);
    assert_true(second->forward_flop == 2 * 4 * 10 * 6 / 4.0);
    assert_int_equal(m.edges, 2); /* through memory, past the view */
    assert_int_equal(m.in[m.in_start[2]], 1);
    assert_message(m.note, "1 communication 40 bytes");
    assert_int_equal(m.profiles, 0);
    model_free(&m);
}

/* Nodes 1 and 2 compute, 3 sends what 2 made, 4 computes behind 3 and 1. */
static void takes_what_computes_of_a_trace_of_chakra(void **state)
{
    struct model m = {0};
    assert_int_equal(model_import(chakra, &options, &m), STATUS_OK);
    assert_int_equal(m.n, 3);
    assert_true(sample_op(&m, "b#2")->forward_flop == 300);
    assert_int_equal(m.profiles, 1);
    assert_string_equal(m.profile[0].device, "H100");
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const name[] = {"a#1", "b#2", "d#4"};
        static const double us[] = {10, 20, 40};
        assert_true(fabs(m.profile[0].forward_s[model_find(&m, name[i])] - 1e-6 * us[i]) < 1e-15);
    }
    size_t d = model_find(&m, "d#4");
    assert_int_equal(m.in_start[d + 1] - m.in_start[d], 2);
    assert_int_equal(m.edges, 3);
    assert_message(m.note, "1 communication 512 bytes");
    model_free(&m);
}

static void refuses(const char *text, size_t length, const char *says)
{
    struct model m = {0};
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
    assert_int_not_equal(model_import(file, &options, &m), STATUS_OK);
    if (!message_says(error_message(), says))
        fail_msg("'%s' does not say '%s'", error_message(), says);
    remove(file);
}

/* Of one call, which are compared with each other. */
static void refuses_many_tensors(void)
{
    enum { MOST = 1 << 14, EACH = 24 };
    static char text[(MOST + 1) * EACH + 200];
    int n = snprintf(text, sizeof text,
                     "{\"schema\": \"1.0.1\", \"nodes\": [{\"id\": 1, \"name\": \"a\", "
                     "\"inputs\": [[");
    for (int i = 0; i <= MOST; i++)
        n += snprintf(text + n, EACH + 1, "%s[1,%d,0,1,4,\"c\"]", i > 0 ? "," : "", i);
    n += snprintf(text + n, 16, "]]}]}");
    refuses(text, (size_t)n, "more than 16384 tensors");
}

static void says_what_is_wrong(void **state)
{
#define TEXT(t) t, sizeof t - 1
    refuses(TEXT("{\"schema\": \"1.0.1\", \"nodes\": []}"), "no operator");
    refuses(TEXT("{\"schema\": \"1.0.1\", \"nodes\": [{\"id\": 1}]}"), "name");
    refuses(TEXT("{\"nodes\": [],\n\"schema\": \"2.0.0\"}"), ":2:11 execution '2.0.0'");
    refuses(TEXT("{\"schema\": \"1.0.1\", \"nodes\": [{\"id\": 1, \"name\": \"a\"}, {\"id\": 1, "
                 "\"name\": "
                 "\"b\"}]}"),
            "node 1 twice");
    refuses_many_tensors();
    refuses(TEXT("\x04\x0a\x02\x31\x31\x02\x08\x01\x09\x08\x02"), "is longer than the file");
    refuses(TEXT("\x04\x0a\x02\x31\x31\x06\x08\x01\x18\x04\x28\x01"), "itself");
    refuses(TEXT("\x04\x0a\x02\x31\x31\x04\x08\x01\x18\x07"), "no node compute");
}

static enum status both(void)
{
    struct model m = {0};
    for (int k = 0; k < 2; k++) {
        enum status st = model_import(k ? torch : chakra, &options, &m);
        model_free(&m);
        if (st != STATUS_OK)
            return st;
    }
    return STATUS_OK;
}

static void survives_each_allocation_failing(void **state)
{
    FOR_EACH_ALLOC_FAILURE(both());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_a_trace_of_pytorch),
        cmocka_unit_test(takes_what_computes_of_a_trace_of_chakra),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
