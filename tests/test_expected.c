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
    struct fixture f = set_up(1, 4, "fsdp");
    make_h100(&f);
    f.plan.zero = 3;
    const struct expected *e = expected_find(&f.plan, &f.model, &f.topology);
    assert_non_null(e);
    assert_string_equal(e->device, "H100-SXM5-80GB");
    assert_string_equal(e->parallelism, "zero3");
    assert_true(e->runs >= 5 && e->mean > 0 && e->mean < 1);
    f.model.dtype = DATA_fp16; /* as fast */
    assert_ptr_equal(expected_find(&f.plan, &f.model, &f.topology), e);
    f.plan.zero = 0; /* fewer words are asked for, but never another framework; */
    e = expected_find(&f.plan, &f.model, &f.topology);
    assert_true(!e || (!strcmp(e->framework, "fsdp") && (!e->dtype || strcmp(e->dtype, "fp8"))));
    f.model.dtype = DATA_fp4; /* which an H100 has no products of */
    assert_null(expected_find(&f.plan, &f.model, &f.topology));
    f.topology.type[0].peak[DATA_fp4] = 1e15; /* another width last, and said to be any */
    e = expected_find(&f.plan, &f.model, &f.topology);
    assert_non_null(e);
    assert_null(e->dtype);
    assert_string_equal(e->framework, "fsdp");
    f.model.dtype = DATA_bf16;
    free(f.topology.type[0].name);
    f.topology.type[0].name = sample_text("a GPU of 2031");
    assert_null(expected_find(&f.plan, &f.model, &f.topology));
    tear_down(&f);
}

/* foreline's own executor is what no framework is: plans that name none are told how far that is
 * off. */
static void plans_that_name_no_framework_are_told(void **state)
{
    char *text = NULL;
    size_t n = 0;
    struct fixture f = set_up(1, 4, NULL);
    assert_null(expected_find(&f.plan, &f.model, &f.topology)); /* on no GPU */
    free(f.topology.type[0].name);
    f.topology.type[0].name = sample_text("H100-SXM5-80GB");
    f.model.dtype = DATA_bf16;
    const struct expected *e = expected_find(&f.plan, &f.model, &f.topology);
    assert_non_null(e);
    assert_string_equal(e->framework, "foreline");
    const struct evaluation_context context = {.model = &f.model, .topology = &f.topology};
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    assert_int_equal(expected_print(&f.plan, &context, out), STATUS_OK);
    assert_int_equal(fclose(out), 0);
    char words[64];
    snprintf(words, sizeof words, "%zu %.0f %%", e->runs, 100 * e->mean);
    assert_message(text, words);
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
        cmocka_unit_test(plans_that_name_no_framework_are_told),
    };
    return cmocka_run_group_tests_name("expected", tests, NULL, NULL);
}
