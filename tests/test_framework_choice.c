/* Which framework plans have that name none, and that a plan has one time wherever it is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/provenance.h"
#include "study/point.h"
#include "tests/random_plan.h"
#include "tests/sample.h"

enum { DRAWN = 24, TEXT = 512 };

static const char *const gpus[] = {"node:gpus=4,type=H100", "node:gpus=4,type=A100",
                                   "rail:nodes=2,gpus=2,type=B200", "dgx-a100-x2@devices=4"};
static const char *const others[] = {"laptop@devices=4", "two-racks@devices=4"};

/* What is asked for of a plan, as options of `plan` and as keys of experiments. */
struct drawn {
    bool gpu;
    const char *model, *platform;
    size_t options;
    struct {
        char name[32], value[32];
    } option[8];
};

static void ask(struct drawn *d, const char *name, const char *value)
{
    snprintf(d->option[d->options].name, sizeof d->option->name, "%s", name);
    snprintf(d->option[d->options++].value, sizeof d->option->value, "%s", value);
}

static struct drawn draw(uint64_t *state)
{
    static const char *const models[] = {"gpt-tiny:layers=4", "gpt2-small:layers=2",
                                         "gpt2-small:layers=4,dtype=bf16,flash=1",
                                         "llama3-8b:layers=2,dtype=bf16"};
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1"};
    static const char *const spread[][2] = {{"1", "4"}, {"2", "2"}, {"4", "1"}, {"1", "2"}};
    static const char *const microbatches[] = {"4", "8", "12"}, *const sizes[] = {"1", "2", "4"};
    size_t way = random_below(state, 4);
    struct drawn d = {.gpu = random_below(state, 4) > 0, .model = models[random_below(state, 4)]};
    d.platform = d.gpu ? gpus[random_below(state, 4)] : others[random_below(state, 2)];
    ask(&d, "algorithm", random_below(state, 2) ? "balanced" : "uniform");
    ask(&d, "stages", spread[way][0]);
    ask(&d, "replicas", spread[way][1]);
    ask(&d, "microbatches", microbatches[random_below(state, 3)]);
    ask(&d, "microbatch-size", sizes[random_below(state, 3)]);
    ask(&d, "schedule", schedules[random_below(state, 3)]);
    if (way != 2 && random_below(state, 2))
        ask(&d, "zero", "1");
    return d;
}

static struct arguments arguments_of(const struct drawn *d)
{
    struct arguments a = arguments_defaults(TAKES(PLAN_AUTO) | TAKES(PLAN_CUT));
    for (size_t i = 0; i < d->options; i++)
        assert_int_equal(arguments_set(&a, TAKES(KEY_PLAN), d->option[i].name, d->option[i].value),
                         STATUS_OK);
    a.model = d->model;
    a.platform = d->platform;
    return a;
}

/* As `plan` makes it, which shows *shown_s. */
static void make(const struct drawn *d, const char *path, double *shown_s, struct loaded_plan *out)
{
    const struct provenance by = {.version = foreline_version, .command = "test"};
    struct arguments a = arguments_of(d);
    struct evaluation e;
    assert_int_equal(load_model(d->model, &out->model), STATUS_OK);
    assert_int_equal(load_topology(d->platform, &out->topology, &out->platform), STATUS_OK);
    struct evaluation_context context = {.model = &out->model,
                                         .topology = &out->topology,
                                         .platform = out->platform,
                                         .engine = &engine_analytic};
    if (plan_make(&a, &context, &out->plan) != STATUS_OK)
        fail_msg("%s on %s: %s", d->model, d->platform, error_message());
    assert_int_equal(evaluate_once(&context, &out->plan, &e), STATUS_OK);
    assert_int_equal(plan_write(&out->plan, &out->model, &out->topology, path, &by), STATUS_OK);
    *shown_s = e.iteration_s;
}

/* `simulate` of the file. */
static double simulated(const char *path, const char *framework)
{
    struct loaded_plan p = {0};
    struct measurement m = {0};
    assert_int_equal(load_plan_only(path, &p), STATUS_OK);
    if (framework)
        assert_int_equal(plan_set_framework(&p.plan, framework), STATUS_OK);
    assert_int_equal(point_predict(&p, path, &engine_analytic, &m), STATUS_OK);
    double iteration_s = m.iteration_s;
    measurement_free(&m);
    loaded_plan_free(&p);
    return iteration_s;
}

/* `sweep` of the text's only point. */
static struct point_result swept(const char *text)
{
    struct experiment e = {0};
    struct point p = {0};
    struct point_cache cache = {0};
    struct point_result r;
    const struct experiment_check check = {point_check, NULL};
    if (experiment_parse("drawn.yml", text, strlen(text), &check, &e) != STATUS_OK)
        fail_msg("%s\n%s", error_message(), text);
    assert_int_equal(e.points, 1);
    assert_int_equal(point_make(&e, 0, NULL, &p), STATUS_OK);
    point_evaluate(&p, &cache, &r);
    if (r.status == POINT_IMPOSSIBLE || r.status == POINT_FAILED)
        fail_msg("%s\n%s", r.reason, text);
    point_cache_free(&cache);
    point_free(&p);
    experiment_free(&e);
    return r;
}

static void a_plan_has_one_time_wherever_it_is_shown(void **state)
{
    (void)state;
    uint64_t seed = 20261123;
    size_t compiled = 0;
    char path[] = "/tmp/foreline-choice-XXXXXX", text[2 * TEXT];
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    for (size_t i = 0; i < DRAWN; i++) {
        const struct drawn d = draw(&seed);
        struct loaded_plan p = {0};
        double shown_s = 0;
        make(&d, path, &shown_s, &p);
        const char *wanted = d.gpu ? "compiled" : "";
        assert_string_equal(p.plan.framework ? p.plan.framework : "", wanted);
        assert_near(simulated(path, NULL) / shown_s, 1, 1e-9);
        if (d.gpu) /* and it is not the roofline's by chance */
            assert_true(simulated(path, "foreline") < 0.99 * shown_s);
        compiled += d.gpu;
        int n = snprintf(text, sizeof text, "model: \"%s\"\nplatform: \"%s\"\nplan:\n", d.model,
                         d.platform);
        for (size_t k = 0; k < d.options; k++)
            n += snprintf(text + n, sizeof text - (size_t)n, "  %s: %s\n", d.option[k].name,
                          d.option[k].value);
        struct point_result r = swept(text);
        assert_near(r.iteration_s / shown_s, 1, 1e-9);
        assert_string_equal(r.framework, wanted);
        snprintf(text, sizeof text, "plan: %s\n", path);
        r = swept(text);
        assert_near(r.iteration_s / shown_s, 1, 1e-9);
        assert_string_equal(r.framework, wanted);
        loaded_plan_free(&p);
    }
    unlink(path);
    assert_in_range(compiled, DRAWN / 4, DRAWN - 1);
}

static struct framework_choice choose(const char *framework, bool executable, const struct model *m,
                                      const struct topology *t)
{
    const struct arguments a = {.framework = framework, .search.executable = executable};
    return plan_choose_framework(&a, m, t);
}

static void it_is_named_where_nothing_better_is_known(void **state)
{
    (void)state;
    char *path = NULL;
    struct model m = {0}, chain = sample_chain(4, 1e-3, 2e-3, 0, 1000);
    struct topology t = {0}, cpus = sample_clique(2, 0, 1e9);
    assert_int_equal(load_model("gpt-tiny", &m), STATUS_OK);
    assert_int_equal(load_topology(gpus[0], &t, &path), STATUS_OK);
    struct framework_choice c = choose(NULL, false, &m, &t);
    assert_string_equal(c.name, "compiled");
    assert_non_null(strstr(c.why, "catalogue"));
    c = choose("megatron:host=2", false, &m, &t); /* what is given is taken */
    assert_string_equal(c.name, "megatron:host=2");
    assert_null(c.why);
    c = choose("foreline", true, &m, &t);
    assert_string_equal(c.name, "foreline");
    c = choose(NULL, true, &m, &t);
    assert_true(!c.name && strstr(c.why, "foreline run"));
    c = choose(NULL, false, &chain, &t);
    assert_true(!c.name && c.why);
    c = choose(NULL, false, &m, &cpus); /* nobody asks on other devices */
    assert_true(!c.name && !c.why);

    struct topology_rate rate = {.kind = "linear.forward"}, *rates = t.type[0].rate;
    t.type[0].rates = 1;
    t.type[0].rate = &rate;
    c = choose(NULL, false, &m, &t);
    assert_true(!c.name && strstr(c.why, "measured"));
    t.type[0].rates = 0;
    t.type[0].rate = rates;
    struct model_profile profile = {.device = t.type[0].name};
    m.profiles = 1;
    m.profile = &profile;
    c = choose(NULL, false, &m, &t);
    assert_true(!c.name && strstr(c.why, "measured"));
    profile.device = "another";
    assert_string_equal(choose(NULL, false, &m, &t).name, "compiled");
    m.profiles = 0;
    m.profile = NULL;
    char *its = t.type[0].name, other[] = "FooGPU";
    t.type[0].name = other;
    c = choose(NULL, false, &m, &t);
    assert_true(!c.name && strstr(c.why, "not in the catalogue"));
    t.type[0].name = its;
    free(path);
    topology_free(&t);
    topology_free(&cpus);
    model_free(&m);
    model_free(&chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_one_time_wherever_it_is_shown),
        cmocka_unit_test(it_is_named_where_nothing_better_is_known),
    };
    return cmocka_run_group_tests_name("framework_choice", tests, NULL, NULL);
}
