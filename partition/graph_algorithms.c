/* Algorithms that cut the graph of a model: each proposer alone, and all of them with a search.
 * What they begin with is a cut into stages of as many ops each. */
#include <math.h>

#include "partition/graph/search.h"
#include "partition/partition.h"

/* Steps of schedules that each start of `graph` may take. */
static const double effort = 2e5;

static enum status begin_evenly(const struct partition_problem *p, size_t *first,
                                double *objective_s)
{
    (void)objective_s;
    partition_evenly(p, first);
    return STATUS_OK;
}

/* The order by a proposer's keys, cut, or its own stages. */
static enum status cut_by(struct pipeline *x, const struct graph_proposer *by)
{
    enum status st;
    struct arena a = {0};
    struct graph_cut cut, own;
    uint32_t *order;
    double *key;
    TRY(ARENA_NEW(&a, order, x->u->n));
    TRY(ARENA_NEW(&a, key, x->u->n));
    TRY(graph_cut_new(x, &a, &cut));
    TRY(graph_cut_new(x, &a, &own));
    graph_cut_copy(x, &x->cut, &cut);
    graph_cut_copy(x, &x->cut, &own);
    TRY(proposers_order(by, x->u, x->stages, order, key));
    TRY(proposers_cut(x, order, cut.stage));
    pipeline_set(x, &cut);
    double seconds = pipeline_seconds(x, INFINITY);
    if (proposers_stages(x->u, x->stages, key, own.stage)) {
        pipeline_set(x, &own);
        if (pipeline_seconds(x, INFINITY) >= seconds)
            pipeline_set(x, &cut);
    }
out:
    arena_free(&a);
    return st;
}

static enum status search_all(struct pipeline *x, uint64_t seed)
{
    struct graph_search found = {0};
    enum status st = graph_search_run(x, seed, 1, effort, &found);
    if (st == STATUS_OK)
        pipeline_set(x, &found.found[0].cut);
    graph_search_free(&found);
    return st;
}

/* `by` NULL: all of them, and a search. */
static enum status recut(const struct partition_problem *p, const struct graph_proposer *by,
                         struct plan *plan)
{
    enum status st;
    struct units u = {0};
    struct pipeline x = {0};
    struct plan other = {0};
    TRY(units_make(plan, p->m, p->t, p->begins, &u));
    TRY(pipeline_make(plan, &u, p->t, NULL, &x));
    TRY(by ? cut_by(&x, by) : search_all(&x, p->r->seed));
    TRY(pipeline_plan(&x, &x.cut, plan, &other));
    other.objective_s = pipeline_seconds(&x, INFINITY);
    plan_free(plan);
    MOVE(plan, other);
out:
    plan_free(&other);
    pipeline_free(&x);
    units_free(&u);
    return st;
}

static enum status recut_all(const struct partition_problem *p, struct plan *plan)
{
    return recut(p, NULL, plan);
}

const struct partition_algorithm partition_graph = {
    .name = "graph",
    .summary = "any stages on any devices: all proposals, then simulated annealing",
    .guarantee = "heuristic; of chains of down-sets and orders of devices",
    .cut = begin_evenly,
    .recut = recut_all,
};

#define PROPOSER(id, word, words)                                                                  \
    static enum status recut_##id(const struct partition_problem *p, struct plan *plan)            \
    {                                                                                              \
        static const struct graph_proposer by = {word, words, proposer_##id};                      \
        return recut(p, &by, plan);                                                                \
    }                                                                                              \
    const struct partition_algorithm partition_by_##id = {                                         \
        .name = word,                                                                              \
        .summary = words,                                                                          \
        .guarantee = "a proposal: least slowest stage of this order",                              \
        .cut = begin_evenly,                                                                       \
        .recut = recut_##id,                                                                       \
    };
#include "partition/graph/proposers.def"
#undef PROPOSER
