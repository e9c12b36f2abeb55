/* Which published runs a plan is told of. */
#include "study/expected.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/cost/kernel.h"
#include "model/zoo.h"
#include "tests/cmocka.h"
#include "tests/sample.h"

struct fixture {
    struct model model;
    struct topology topology;
    struct plan plan;
};

static struct fixture set_up(size_t stages, uint32_t replicas, const char *framework)
{
    struct fixture f = {.topology = sample_clique(stages * replicas, 0, 1e9)};
    assert_int_equal(zoo_build("gpt-tiny", &f.model), STATUS_OK);
    f.plan = sample_plan(&f.model, stages, replicas, replicas, "1f1b");
    if (framework)
        assert_int_equal(plan_set_framework(&f.plan, framework), STATUS_OK);
    return f;
}

static void tear_down(struct fixture *f)
{
    plan_free(&f->plan);
    model_free(&f->model);
    topology_free(&f->topology);
}

/* Of the catalogue, with kernels of which something is known. */
static void make_h100(struct fixture *f)
{
    struct device_type *type = &f->topology.type[0];
    free(type->name);
    type->name = sample_text("H100-SXM5-80GB");
    type->peak[DATA_bf16] = 989e12;
    type->kernels = kernels_derive(type);
    f->model.dtype = DATA_bf16;
}

static void a_kind_is_what_a_plan_has(void **state)
{
    char text[EXPECTED_KIND];
    struct fixture f = set_up(1, 1, NULL);
    assert_string_equal(expected_kind(&f.plan, text), "one");
    tear_down(&f);
    f = set_up(1, 4, NULL);
    assert_string_equal(expected_kind(&f.plan, text), "dp");
    f.plan.zero = 3;
    assert_string_equal(expected_kind(&f.plan, text), "zero3");
    tear_down(&f);
    f = set_up(2, 4, NULL);
    f.plan.stage[1].tensor_parallel = 2;
    f.plan.stage[0].context_parallel = 2;
    f.plan.stage[0].expert_parallel = 2;
    assert_string_equal(expected_kind(&f.plan, text), "tp+pp+cp+ep");
    tear_down(&f);
}

/* The narrowest line is found, and fewer words are asked for where there is none. */
static void the_most_alike_runs_are_found(void **state)
{
    struct expected e, other;
    struct fixture f = set_up(1, 4, "fsdp");
    make_h100(&f);
    f.plan.zero = 3;
    assert_true(expected_find(&f.plan, &f.model, &f.topology, &e));
    assert_string_equal(e.like[EXPECTED_DEVICE], "H100-SXM5-80GB");
    assert_string_equal(e.like[EXPECTED_PARALLELISM], "zero3");
    assert_true(e.runs >= 5 && e.median > 0 && e.median < e.nine_in_ten && e.nine_in_ten < 1);
    f.model.dtype = DATA_fp16; /* as fast */
    assert_true(expected_find(&f.plan, &f.model, &f.topology, &other));
    assert_memory_equal(&other, &e, sizeof e);
    f.model.dtype = DATA_fp4; /* which an H100 has no products of */
    assert_false(expected_find(&f.plan, &f.model, &f.topology, &e));
    f.topology.type[0].peak[DATA_fp4] = 1e15; /* fewer words, but not of another framework */
    assert_true(expected_find(&f.plan, &f.model, &f.topology, &e));
    assert_null(e.like[EXPECTED_WIDTH]);
    assert_string_equal(e.like[EXPECTED_FRAMEWORK], "fsdp");
    f.model.dtype = DATA_bf16;
    free(f.topology.type[0].name);
    f.topology.type[0].name = sample_text("a GPU of 2031");
    assert_false(expected_find(&f.plan, &f.model, &f.topology, &e));
    tear_down(&f);
}

/* Of a table by hand: the narrowest line that agrees, and no less than 10 and 25 % where the
 * framework or the GPU is in no line. */
static void nothing_is_expected_of_what_was_never_seen_but_the_worst(void **state)
{
    static const struct expected table[] = {{{"a", "fp8", "tp", "x"}, 7, 0.03, 0.06},
                                            {{"a", "fp8", "tp", NULL}, 9, 0.04, 0.07},
                                            {{"a", "fp8", NULL, NULL}, 10, 0.2, 0.3},
                                            {{"a", NULL, NULL, NULL}, 11, 0.05, 0.08},
                                            {{NULL, NULL, NULL, NULL}, 30, 0.06, 0.5}};
    static const struct {
        const char *like[EXPECTED_LIKE];
        double median, nine_in_ten;
    } asked[] = {{{"a", "fp8", "tp", "x"}, 0.03, 0.06}, {{"a", "fp8", "tp", "y"}, 0.1, 0.25},
                 {{"a", "fp8", "pp", "x"}, 0.2, 0.3},   {{"a", "fp8", "pp", "y"}, 0.2, 0.3},
                 {{"a", "fp4", "tp", "x"}, 0.05, 0.08}, {{"b", "fp8", "tp", "x"}, 0.1, 0.5}};
    struct expected e;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        assert_true(expected_among(table, 5, asked[i].like, &e));
        assert_true(e.median == asked[i].median && e.nine_in_ten == asked[i].nine_in_ten);
    }
    assert_false(expected_among(table, 4, asked[5].like, &e));
}

/* foreline's own executor is what no framework is: plans that name none are told how far that is
 * off. */
static void plans_that_name_no_framework_are_told(void **state)
{
    char *text = NULL;
    size_t n = 0;
    struct fixture f = set_up(1, 4, NULL);
    struct expected e;
    assert_false(expected_find(&f.plan, &f.model, &f.topology, &e)); /* on no GPU */
    free(f.topology.type[0].name);
    f.topology.type[0].name = sample_text("H100-SXM5-80GB");
    f.model.dtype = DATA_bf16;
    assert_true(expected_find(&f.plan, &f.model, &f.topology, &e));
    assert_string_equal(e.like[EXPECTED_FRAMEWORK], expected_roofline);
    const struct evaluation_context context = {.model = &f.model, .topology = &f.topology};
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(expected_print(&f.plan, &context, out), STATUS_OK);
    assert_int_equal(fclose(out), 0);
    char words[64];
    snprintf(words, sizeof words, "%.0f %% %.0f %%", 100 * e.median, 100 * e.nine_in_ten);
    assert_message(text, words);
    free(text);
    out = open_memstream(&text, &n);
    assert_non_null(out);
    struct json_writer w = {.stream = out};
    json_open_object(&w, NULL, true);
    expected_put(&f.plan, &f.model, &f.topology, &w);
    json_close(&w);
    assert_int_equal(fclose(out), 0);
    snprintf(words, sizeof words, "\"nine_in_ten\": %.4g, \"runs\": %zu", e.nine_in_ten, e.runs);
    assert_non_null(strstr(text, words));
    free(text);
    out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(expected_print(&f.plan, &context, out), STATUS_OK);
    assert_int_equal(fclose(out), 0);
    assert_null(strstr(text, "--framework")); /* of whose kernels nothing is known */
    free(text);
    make_h100(&f);
    out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(expected_print(&f.plan, &context, out), STATUS_OK);
    assert_int_equal(fclose(out), 0);
    struct evaluation with;
    assert_int_equal(plan_set_framework(&f.plan, "compiled"), STATUS_OK);
    assert_int_equal(evaluate_once(&context, &f.plan, &with), STATUS_OK);
    assert_message(text, "--framework compiled");
    assert_non_null(strstr(text, units_of(UNIT_SECONDS, with.iteration_s).text));
    free(text);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_is_what_a_plan_has),
        cmocka_unit_test(the_most_alike_runs_are_found),
        cmocka_unit_test(nothing_is_expected_of_what_was_never_seen_but_the_worst),
        cmocka_unit_test(plans_that_name_no_framework_are_told),
    };
    return cmocka_run_group_tests_name("expected", tests, NULL, NULL);
}
