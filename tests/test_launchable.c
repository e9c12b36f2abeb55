/* `plan --launchable`: every plan that the search ranks is one that the framework's launcher can be
 * told, and without the option some are not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/engine/engine.h"
#include "study/frameworks/port.h"
#include "study/load.h"
#include "study/planning.h"
#include "tests/cmocka.h"

enum { DRAWS = 16, OPTIONS = 8 };

/* Options of the command line at random; each is left out more often than not. */
static void draw(uint64_t *seed, struct arguments *a)
{
    static const char *const all[OPTIONS][2] = {
        {"stages", "2"}, {"replicas", "2"}, {"tensor-parallel", "2"}, {"zero", "1"},
        {"zero", "3"},   {"batch", "24"},   {"recompute", "full"},    {"chunks", "2"},
    };
    for (size_t i = 0; i < OPTIONS; i++)
        if (random_next(seed) % 4 == 0 && !arguments_given(a, all[i][0]))
            assert_int_equal(arguments_set(a, TAKES(PLAN_AUTO), all[i][0], all[i][1]), STATUS_OK);
}

/* The plans of a ranking that the launcher cannot be told; all that were found are added to
 * *found. */
static size_t unsaid(struct arguments a, const struct model *m, struct topology *t, size_t *found)
{
    struct evaluation_context context = {.model = m, .topology = t, .engine = &engine_analytic};
    struct auto_result r = {0};
    size_t n = 0;
    assert_int_equal(plan_settle(&a), STATUS_OK);
    enum status st = plan_search(&a, &context, NULL, &r);
    if (st != STATUS_OK && st != STATUS_INFEASIBLE && st != STATUS_USAGE && st != STATUS_INVALID)
        fail_msg("status %d: %s", (int)st, error_message());
    for (size_t i = 0; st == STATUS_OK && i < r.n; i++) {
        const char *launcher = plan_framework(&r.candidate[i].plan)->launcher;
        st = port_says(launcher, &r.candidate[i].plan, m, t, a.model);
        n += st == STATUS_UNSUPPORTED;
        st = STATUS_OK;
    }
    *found += r.n;
    auto_result_free(&r);
    return n;
}

static void every_plan_can_be_launched(void **state)
{
    static const char *const launched[] = {"megatron", "compiled", "deepspeed"};
    static const char *const platforms[] = {"node:gpus=4", "rail:nodes=2,gpus=2"};
    size_t found = 0, wrong = 0, before = 0;
    uint64_t seed = 20261128;
    for (size_t i = 0; i < DRAWS; i++) {
        char *path = NULL;
        struct model m = {0};
        struct topology t = {0};
        struct arguments a = arguments_defaults(settings_takers("plan"));
        a.model = random_next(&seed) % 2 ? "llama3-8b:layers=4,tokens=256" : "gpt2-small:layers=4";
        a.framework = launched[random_next(&seed) % 3];
        a.platform = platforms[random_next(&seed) % 2];
        a.search.finalists = 2;
        draw(&seed, &a);
        assert_int_equal(load_model(a.model, &m), STATUS_OK);
        assert_int_equal(load_topology(a.platform, &t, &path), STATUS_OK);
        assert_int_equal(topology_find_nodes(&t), STATUS_OK);
        before += unsaid(a, &m, &t, &(size_t){0});
        a.search.launchable = true;
        wrong += unsaid(a, &m, &t, &found);
        free(path);
        topology_free(&t);
        model_free(&m);
    }
    printf("%zu plans can be launched; without the option %zu could not\n", found, before);
    assert_int_equal(wrong, 0);
    assert_true(found > DRAWS && before > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_plan_can_be_launched)};
    return cmocka_run_group_tests_name("launchable", tests, NULL, NULL);
}
