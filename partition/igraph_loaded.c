/* What needs igraph, by the module. */
#include "partition/capacity.h"
#include "partition/igraph_module.h"
#include "partition/tiers_levels.h"

static enum status igraph_load_module(const struct igraph_module **out)
{
    const void *module;
    PASS(module_load(IGRAPH_MODULE, "igraph_module", &module));
    *out = module;
    return STATUS_OK;
}

enum status capacity_find(struct topology *t)
{
    const struct igraph_module *m;
    PASS(igraph_load_module(&m));
    return m->capacity_find(t);
}

enum status tiers_estimate(const struct topology *t, struct tiers *x)
{
    const struct igraph_module *m;
    PASS(igraph_load_module(&m));
    return m->tiers_estimate(t, x);
}

const char *const model_alike_names[ALIKE_LEVELS] = {"no", "as graphs", "with kinds",
                                                     "with kinds and sizes"};

enum status model_alike(const struct model *a, const struct model *b, enum model_alike *out)
{
    const struct igraph_module *m;
    PASS(igraph_load_module(&m));
    return m->model_alike(a, b, out);
}

#define PROPOSER(name, word, summary)
#define IGRAPH_PROPOSER(name, word, summary)                                                       \
    enum status proposer_##name(const struct units *u, size_t parts, double *key)                  \
    {                                                                                              \
        const struct igraph_module *m;                                                             \
        PASS(igraph_load_module(&m));                                                              \
        return m->proposer_##name(u, parts, key);                                                  \
    }
#include "partition/graph/proposers.def"
#undef IGRAPH_PROPOSER
#undef PROPOSER
