/* PipeDream's runtime: JSON that says for every module of a model its stage, and for every stage
 * its ranks, read and written by the module of the published papers. */
#include "study/frameworks/papers.h"

static enum status pipedream_load_dialect(const struct dialect **out)
{
    const void *module;
    PASS(papers_load("papers_of_frameworks", &module));
    const struct papers_of_frameworks *papers = module;
    papers->serve(setup_add_note);
    *out = papers->runtime;
    return STATUS_OK;
}

static bool pipedream_recognises(const struct keys *k)
{
    return k->format == KEYS_TREE && keys_has(k, "module_to_stage_map");
}

static enum status pipedream_after(struct setup *s)
{
    const struct dialect *runtime;
    PASS(pipedream_load_dialect(&runtime));
    return runtime->after(s);
}

/* Behind pipedream_after(), which has loaded the module. */
static void pipedream_print(const struct setup *s, FILE *out)
{
    const struct dialect *runtime;
    if (pipedream_load_dialect(&runtime) == STATUS_OK)
        runtime->print(s, out);
}

static enum status to_plan(struct setup *s, const struct arguments *a, const struct model *m,
                           const struct topology *t, struct plan *out)
{
    const struct dialect *runtime;
    PASS(pipedream_load_dialect(&runtime));
    return runtime->to_plan(s, a, m, t, out);
}

static enum status of_plan(const struct plan *p, const struct model *m, FILE *out)
{
    const struct dialect *runtime;
    PASS(pipedream_load_dialect(&runtime));
    return runtime->of_plan(p, m, out);
}

const struct dialect dialect_pipedream = {
    .name = "pipedream",
    .summary = "PipeDream's runtime: JSON of modules, stages and ranks",
    .title = "PipeDream",
    .recognises = pipedream_recognises,
    .after = pipedream_after,
    .to_plan = to_plan,
    .print = pipedream_print,
    .of_plan = of_plan,
};
