/* Measured times of a model's ops in PipeDream's graph.txt, and back. */
#include "papers/pipedream/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "exec/calibrate/profile.h"
#include "model/zoo.h"
#include "papers/common/importers.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

static const char tiny[] = "gpt-tiny:layers=2,hidden=32,heads=2,tokens=16";
static const char file[] = BINARY_DIR "/graph_text.txt";

static void build(const char *spec, struct model *m)
{
    if (zoo_build(spec, m) != STATUS_OK)
        fail_msg("%s", error_message());
}

static void read_back(double samples, struct model *out)
{
    const struct import_options o = {.minibatch_size = samples, .device = "cpu"};
    if (model_import(file, &o, out) != STATUS_OK)
        fail_msg("%s", error_message());
    remove(file);
}

static void check_same(const struct model *a, const struct model *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->edges, b->edges);
    assert_memory_equal(a->in_start, b->in_start, (a->n + 1) * sizeof *a->in_start);
    assert_memory_equal(a->in, b->in, a->edges * sizeof *a->in);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->op[i].name, b->op[i].name);
        assert_string_equal(a->op[i].kind, b->op[i].kind);
        assert_int_equal(a->op[i].output_bytes, b->op[i].output_bytes);
        assert_int_equal(a->op[i].parameter_bytes, b->op[i].parameter_bytes);
    }
}

static void a_profile_comes_back_from_graph_txt_bit_for_bit(void **state)
{
    struct model m = {0}, back = {0};
    const struct profile_options o = {.batch = 3, .ranks = 2, .repeats = 2};
    struct calibrate_spread spread;
    build(tiny, &m);
    if (profile_ops(&m, &o, &spread) != STATUS_OK)
        fail_msg("%s", error_message());
    assert_int_equal(model_export_pipedream(&m, 0, file), STATUS_OK);
    read_back(3, &back);
    check_same(&m, &back);
    assert_int_equal(back.profiles, 1);
    assert_string_equal(back.profile[0].device, "cpu");
    assert_true(back.profile[0].samples == 3);
    assert_memory_equal(m.profile[0].forward_s, back.profile[0].forward_s, m.n * sizeof(double));
    assert_memory_equal(m.profile[0].backward_s, back.profile[0].backward_s, m.n * sizeof(double));
    model_free(&m);
    model_free(&back);
}

/* A profile whose times are value(0), value(1), ... */
static void fill(struct model *m, double (*value)(size_t k))
{
    struct model_profile *p = m->profile = calloc(1, sizeof *p);
    assert_non_null(p);
    m->profiles = 1;
    p->samples = 1;
    p->tensor_parallel = 1;
    p->forward_s = calloc(m->n, sizeof(double));
    p->backward_s = calloc(m->n, sizeof(double));
    assert_int_equal(text_copy("cpu", &p->device), STATUS_OK);
    assert_true(p->forward_s && p->backward_s);
    for (size_t i = 0; i < m->n; i++) {
        p->forward_s[i] = value(2 * i);
        p->backward_s[i] = value(2 * i + 1);
    }
}

static double any_ns(size_t k)
{
    return (double)(k * 2654435761u % 4294967291u) / 1e6 / 1e3;
}

static double any_time(size_t k)
{
    return pow(10, -9 + (double)(k % 11)) * (1 + (double)(k * 2654435761u % 999983) / 999983);
}

static void whole_nanoseconds_come_back_exactly_and_others_to_the_last_bit(void **state)
{
    double (*const value[])(size_t) = {any_ns, any_time};
    for (size_t v = 0; v < 2; v++) {
        struct model m = {0}, back = {0};
        build("gpt3-175b", &m);
        assert_true(m.n > 900);
        fill(&m, value[v]);
        assert_int_equal(model_export_pipedream(&m, 0, file), STATUS_OK);
        read_back(1, &back);
        check_same(&m, &back);
        for (size_t i = 0; i < m.n; i++) {
            double x = m.profile[0].forward_s[i], y = back.profile[0].forward_s[i];
            assert_true(v == 0 ? x == y : fabs(x - y) <= x * 2.3e-16);
        }
        model_free(&m);
        model_free(&back);
    }
}

static void rename_op(struct model *m, size_t i, const char *name, const char *kind)
{
    free(m->op[i].name);
    free(m->op[i].kind);
    assert_int_equal(text_copy(name, &m->op[i].name), STATUS_OK);
    assert_int_equal(text_copy(kind, &m->op[i].kind), STATUS_OK);
}

static void names_that_the_format_cannot_hold_are_refused(void **state)
{
    static const char *const bad[][2] = {{"a b", "linear"}, {"", "linear"}, {"\xc3\xa9", "linear"},
                                         {"a", ""},         {"a", "f(x)"},  {"a", "b -- c"},
                                         {"a", "b "},       {"a\tb", "c"}};
    struct model m = {0};
    build(tiny, &m);
    fill(&m, any_ns);
    assert_int_equal(model_export_pipedream(&m, 1, file), STATUS_INVALID);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        rename_op(&m, 1, bad[k][0], bad[k][1]);
        assert_int_equal(model_export_pipedream(&m, 0, file), STATUS_INVALID);
        assert_null(fopen(file, "r"));
    }
    rename_op(&m, 1, "a", "b");
    assert_int_equal(model_export_pipedream(&m, 0, "/nowhere/at/all"), STATUS_IO);
    FOR_EACH_ALLOC_FAILURE(model_export_pipedream(&m, 0, file));
    remove(file);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_comes_back_from_graph_txt_bit_for_bit),
        cmocka_unit_test(whole_nanoseconds_come_back_exactly_and_others_to_the_last_bit),
        cmocka_unit_test(names_that_the_format_cannot_hold_are_refused),
    };
    return cmocka_run_group_tests_name("graph_text", tests, NULL, NULL);
}
