/* Plans by published objectives, by their module. */
#include "study/papers.h"

#include <string.h>

#include "study/experiment.h"
#include "study/point.h"
#include "study/warn.h"
#include "topologies/yaml.h"

enum status papers_load_plans(const struct papers_of_plans **out)
{
    static const struct papers_services services = {
        .arguments_given = arguments_given,
        .arguments_prose = arguments_prose,
        .load_model = load_model,
        .load_model_apart = load_model_apart,
        .load_model_members = load_model_members,
        .load_topology = load_topology,
        .evaluate_once = evaluate_once,
        .point_without_numerics = point_without_numerics,
        .warn_of_platform = warn_of_platform,
    };
    const void *module;
    PASS(papers_load("papers_of_plans", &module));
    const struct papers_of_plans *papers = module;
    papers->serve(&services);
    *out = papers;
    return STATUS_OK;
}

/* ---- objectives */

/* An algorithm that only one published objective has says which one is meant. */
void plan_settle_objective(struct arguments *a)
{
    const struct papers_objective *o = papers_objective_of(a->algorithm);
    bool own = false;
    for (size_t i = 0; o && i < partition_algorithms_n; i++)
        own = own || !strcmp(partition_algorithms[i]->name, a->algorithm);
    if (o && !own && !arguments_given(a, "objective"))
        a->objective = o->name;
}

bool plan_is_on_devices(const struct arguments *a)
{
    return !a->papers.score &&
           papers_on_devices(a->objective, strcmp(a->algorithm, "auto") ? a->algorithm : NULL);
}

bool plan_is_published(const struct arguments *a)
{
    const struct papers_objective *o = papers_objective_of(a->algorithm);
    return o && o->plans;
}

enum status plan_by_objective(const struct arguments *a, const struct provenance *by,
                              const volatile int *stop)
{
    const struct papers_of_plans *papers;
    PASS(papers_load_plans(&papers));
    return papers->by_objective(a, by, stop);
}

enum status plan_of_objective(const struct arguments *a, const struct model *m,
                              const struct topology *t, struct plan *out)
{
    const struct papers_of_plans *papers;
    char words[64];
    snprintf(words, sizeof words, "--objective %.40s", papers_objective_of(a->algorithm)->name);
    for (size_t i = 0; i < settings_table_n; i++)
        if ((settings_table[i].takers & TAKES(KEY_PLAN)) &&
            arguments_given(a, settings_table[i].name) &&
            !setting_find(settings_table[i].name, settings_taker("plan", words)))
            return error_set(STATUS_USAGE, "key 'plan.%s' has no effect with 'plan.algorithm: %s'",
                             settings_table[i].name, a->algorithm);
    PASS(papers_load_plans(&papers));
    return papers->of_objective(a, m, t, out);
}

/* ---- files */

/* Driver files of PipeDream say three things; a file that says two of them is to be one. */
static enum status is_driver(const char *path, const char *text, size_t length, bool *out)
{
    static const char *const all[] = {"module", "machines", "log_directory"};
    struct arena memory = {0};
    struct yaml_value root = {0};
    size_t n = 0;
    enum status st = yaml_read_foreign(path, text, length, &memory, &root);
    for (size_t i = 0; st == STATUS_OK && i < sizeof all / sizeof *all; i++)
        n += yaml_get(&root, all[i]) != NULL;
    *out = n >= 2;
    arena_free(&memory);
    return st == STATUS_NOMEM ? st : STATUS_OK; /* others: said when it is read as foreline's */
}

enum status papers_translate_driver(const char *path, const char *text, size_t length, char **out)
{
    const struct papers_of_plans *papers;
    bool is = false;
    *out = NULL;
    if (length <= EXPERIMENT_BYTES)
        PASS(is_driver(path, text, length, &is));
    if (!is)
        return STATUS_OK;
    PASS(papers_load_plans(&papers));
    return papers->translate_driver(path, text, length, out);
}
