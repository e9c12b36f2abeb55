/* Experiment files: what becomes of a YAML text, and what is said about a wrong one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/experiment.h"
#include "tests/cmocka.h"
#include "tests/fault.h"

/* Knows model, platform, devices, seed, jitter and all of plan; no value may be "bad". */
static enum status known(void *context, const char *key, const char *value)
{
    static const char *const keys[] = {"model", "plan", "platform", "devices", "seed", "jitter"};
    (void)context;
    if (!strcmp(value, "bad"))
        return error_set(STATUS_USAGE, "%s: a bad value", key);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return STATUS_OK;
    if (!strncmp(key, "plan.", 5) || !strncmp(key, "platform.", 9))
        return STATUS_OK;
    return error_set(STATUS_USAGE, "unknown setting '%s'", key);
}

static const struct experiment_check check = {known, NULL};

static enum status parse(const char *text, struct experiment *out)
{
    return experiment_parse("e.yml", text, strlen(text), &check, out);
}

/* "key=value ..." of a point. */
static const char *settings(const struct experiment *e, size_t point)
{
    static char text[512];
    const struct experiment_setting **setting;
    size_t n, used = 0;
    assert_int_equal(experiment_settings(e, point, &setting, &n), STATUS_OK);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", i ? " " : "",
                                 setting[i]->key, setting[i]->value);
    free(setting);
    return text;
}

static const char grid[] = "model: m\n"
                           "platform: p\n"
                           "plan: {stages: [1, 2, 4], schedule: 1f1b}\n"
                           "platform.nic.bandwidth: [1Gbps, 10Gbps]\n";

static void makes_every_combination(void **state)
{
    struct experiment e = {0};
    assert_int_equal(parse(grid, &e), STATUS_OK);
    assert_int_equal(e.points, 6);
    assert_string_equal(e.name, "e");
    assert_string_equal(settings(&e, 0), "model=m plan.schedule=1f1b plan.stages=1 platform=p "
                                         "platform.nic.bandwidth=1Gbps");
    assert_string_equal(settings(&e, 1), "model=m plan.schedule=1f1b plan.stages=1 platform=p "
                                         "platform.nic.bandwidth=10Gbps");
    assert_string_equal(settings(&e, 5), "model=m plan.schedule=1f1b plan.stages=4 platform=p "
                                         "platform.nic.bandwidth=10Gbps");
    for (size_t point = 0; point < e.points; point++) {
        size_t again = 0;
        for (size_t i = 0; i < e.axes; i++)
            again = experiment_with(&e, again, i, experiment_choice(&e, point, i));
        assert_int_equal(again, point);
    }
    experiment_free(&e);
}

static void chooses_over_plans_unless_told_otherwise(void **state)
{
    struct experiment e = {0};
    assert_int_equal(parse(grid, &e), STATUS_OK);
    for (size_t i = 0; i < e.axes; i++)
        assert_int_equal(e.axis[i].chosen, !strcmp(e.axis[i].name, "plan.stages"));
    experiment_free(&e);
    assert_int_equal(parse("model: [a, b]\nplan.stages: [1, 2]\n"
                           "best: {of: [model], by: iteration_s}\n",
                           &e),
                     STATUS_OK);
    for (size_t i = 0; i < e.axes; i++)
        assert_int_equal(e.axis[i].chosen, !strcmp(e.axis[i].name, "model"));
    assert_true(e.fewest_seconds);
    experiment_free(&e);
}

/* Cases that set nothing but the plan are plans, as are plan files; others are places. */
static void chooses_over_cases_of_plans(void **state)
{
    static const struct {
        const char *text;
        bool chosen;
    } axis[] = {
        {"cases: [{name: a, plan.stages: 1}, {name: b, plan: {stages: 2, zero: 1}}]\n", true},
        {"cases: [{name: a}, {name: b, plan.stages: 2}]\n", true},
        {"cases: [{name: a, plan.stages: 1}, {name: b, plan.stages: 2, devices: 8}]\n", false},
        {"cases: [{name: a, devices: 4}, {name: b, devices: 8}]\n", false},
        {"cases: [{name: a, plan.stages: 1}]\n", false},
        {"plan: [p.json, q.json]\n", true},
    };
    for (size_t i = 0; i < sizeof axis / sizeof *axis; i++) {
        struct experiment e = {0};
        assert_int_equal(parse(axis[i].text, &e), STATUS_OK);
        assert_int_equal(e.axes, 1);
        assert_int_equal(e.axis[0].chosen, axis[i].chosen);
        experiment_free(&e);
    }
}

static void cases_set_several_things_at_once(void **state)
{
    struct experiment e = {0};
    assert_int_equal(parse("model: m\n"
                           "cases:\n"
                           "  - {name: small, platform: a, devices: 8}\n"
                           "  - platform: b\n"
                           "    plan: {stages: 2}\n"
                           "jitter: [0%, 5%]\n",
                           &e),
                     STATUS_OK);
    assert_int_equal(e.points, 4);
    assert_string_equal(settings(&e, 1), "devices=8 jitter=5% model=m platform=a");
    assert_string_equal(settings(&e, 2), "jitter=0% model=m plan.stages=2 platform=b");
    assert_string_equal(e.axis[1].name, "case");
    assert_string_equal(e.axis[1].choice[0].label, "small");
    assert_string_equal(e.axis[1].choice[1].label, "2");
    experiment_free(&e);
}

static void cases_with_names_are_axes_of_their_own(void **state)
{
    struct experiment e = {0};
    assert_int_equal(parse("cases:\n"
                           "  size: [{name: small, devices: 8}, {devices: 64}]\n"
                           "  way: [{name: a, plan: {stages: 1}}, {name: b, plan: {stages: 2}}]\n"
                           "model: m\n",
                           &e),
                     STATUS_OK);
    assert_int_equal(e.points, 4);
    assert_int_equal(e.axes, 3);
    assert_string_equal(e.axis[0].name, "size");
    assert_string_equal(e.axis[1].name, "way");
    assert_true(e.axis[0].cases && e.axis[1].cases && !e.axis[2].cases);
    assert_string_equal(settings(&e, 1), "devices=8 model=m plan.stages=2");
    assert_string_equal(settings(&e, 2), "devices=64 model=m plan.stages=1");
    assert_string_equal(experiment_label(&e, 2, 0), "2");
    experiment_free(&e);
}

static void repeats_are_seeds(void **state)
{
    struct experiment e = {0};
    assert_int_equal(parse("name: n\nmodel: m\nrepeats: 3\nfinalists: 2\n", &e), STATUS_OK);
    assert_int_equal(e.points, 3);
    assert_string_equal(e.name, "n");
    assert_int_equal(e.finalists, 2);
    assert_string_equal(settings(&e, 2), "model=m seed=3");
    assert_true(e.axis[1].seeds);
    assert_false(e.axis[1].chosen);
    experiment_free(&e);
}

static void says_what_is_wrong_and_where(void **state)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"model: m\nplatfrom: p\n", "e.yml:2: setting 'platfrom'"},
        {"model: m\nplan:\n  stages: 1\n  schedule: [1f1b, bad]\n",
         "e.yml:4: plan.schedule: a bad value"},
        {"model: m\nmodel: n\n", "e.yml:2 'model' 1"},
        {"plan.stages: 1\nplan:\n  stages: 2\n", "e.yml:3: 'plan.stages' is in line 1"},
        {"devices: 8\ncases:\n  - platform: a\n  - devices: 9\n",
         "e.yml:4: 'devices' is in line 1"},
        {"model: [a, b, a]\n", "e.yml:1 'a'"},
        {"model: []\n", "e.yml:1: model: empty"},
        {"model:\n", "e.yml:1 empty number"},
        {"model: [[a]]\n", "e.yml:1 model value"},
        {"model: a\ncases: 3\n", "e.yml:2 cases list"},
        {"cases: [3]\n", "e.yml:1 cases settings"},
        {"cases: {a: 3}\n", "e.yml:1 cases list"},
        {"cases:\n  model: [{devices: 8}]\nmodel: m\n", "e.yml:3 cases 'model' 2"},
        {"model: m\ncases:\n  model: [{devices: 8}]\n", "e.yml:3 cases 'model' 1"},
        {"cases:\n  a: [{devices: 8}]\n  b: [{devices: 9}]\n", "e.yml:3: 'devices' is in line 2"},
        {"cases: [{name: x, model: a}, {name: x, model: b}]\n", "e.yml:1 'x'"},
        {"model: a\nfinalists: many\n", "e.yml:2 finalists 0 10000"},
        {"seed: 4\nrepeats: 2\n", "e.yml:2 repeats 'seed'"},
        {"repeats: 0\n", "e.yml:1 repeats 1"},
        {"best: {of: [plan.stages]}\n", "e.yml:1 best.of 'plan.stages' setting"},
        {"best: {by: colour}\n", "e.yml:1: best.by: unknown key, expected of: [names of axes] "
                                 "and by: samples_per_s, iteration_s or days"},
        {"model: &x a\n", "e.yml:1"},
        {"model: a\nplatform: *x\n", "e.yml:2 ('*')"},
        {"a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}\n", "e.yml:1: nested too deeply"},
        {"- model\n", "e.yml:1 'key value'"},
        {"", "e.yml:1 'key value'"},
        {"model: a\n---\nmodel: b\n", "e.yml:2: second document"},
        {"model: \"a\\tb\"\n", "e.yml:1 control character"},
        {"{[a]: b}\n", "e.yml:1 before ':'"},
    };
    struct experiment e = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse(wrong[i].text, &e), STATUS_PARSE);
        assert_message(error_message(), wrong[i].message);
        assert_null(e.axis);
    }
    assert_int_equal(parse("model: m\nplatform: [a\nb: c\n", &e), STATUS_PARSE);
    assert_message(error_message(), "e.yml:3: YAML:");
}

static void refuses_more_than_a_million_points(void **state)
{
    static char text[1 << 17];
    struct experiment e = {0};
    size_t used = 0;
    for (int axis = 0; axis < 2; axis++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "plan.%c: [", 'a' + axis);
        for (int i = 0; i < 1001; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%d,", i);
        used += (size_t)snprintf(text + used, sizeof text - used, "]\n");
    }
    assert_int_equal(parse(text, &e), STATUS_PARSE);
    assert_message(error_message(), "e.yml:2 plan.b million");
}

static void survives_any_failing_allocation(void **state)
{
    struct experiment e = {0};
    FOR_EACH_ALLOC_FAILURE(parse("cases: [{name: x, model: a}, {model: b}]\nplan: {s: [1, 2]}\n"
                                 "repeats: 2\nbest: {of: plan.s}\n",
                                 &e));
    assert_int_equal(e.points, 8);
    experiment_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_every_combination),
        cmocka_unit_test(chooses_over_plans_unless_told_otherwise),
        cmocka_unit_test(chooses_over_cases_of_plans),
        cmocka_unit_test(cases_set_several_things_at_once),
        cmocka_unit_test(cases_with_names_are_axes_of_their_own),
        cmocka_unit_test(repeats_are_seeds),
        cmocka_unit_test(says_what_is_wrong_and_where),
        cmocka_unit_test(refuses_more_than_a_million_points),
        cmocka_unit_test(survives_any_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
