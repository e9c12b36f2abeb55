/* Finalists whose model is no chain, or whose devices differ: their stages are cut as parts of a
 * graph (graph/search.h), on whatever devices, and the quick evaluator chooses. */
#include <math.h>
#include <stdlib.h>

#include "core/base/text.h"
#include "partition/auto_search.h"
#include "partition/graph/search.h"

/* What a search of cuts may take: cuts that the evaluator scores, steps of schedules of each start,
 * and whether neighbours of the best cut are scored, too. The same for all: what a search finds
 * must not depend on which others there were. */
struct graph_effort {
    size_t judged;
    double steps;
    bool descends;
};

enum { TRIED = 12 }; /* shapes of a class that are looked at; finalists are searched */
static const struct graph_effort look = {3, 5e4, false}, search = {32, 2e5, true};
/* Shapes whose best plan takes so many times as long as that of all. */
static const double promising = 4;

/* Neighbours that are estimated to take so much of the best one's seconds are not judged, */
static const double near_enough = 1.1;
/* nor when so much of what the whole search may lower has been lowered for it. */
static const double part_of_work = 0.03, usual_work = 1e8;

/* The scored plan of the pipeline's cut, for whoever wants to know what was tried: once for each of
 * its sources. */
static enum status record(struct auto_state *s, struct pipeline *x, uint32_t sources,
                          const struct auto_candidate *c)
{
    struct auto_result *all = &s->result;
    struct auto_cut cut = {.stages = (uint32_t)c->plan.stages,
                           .replicas = c->plan.stage[0].replicas,
                           .tensor_parallel = c->plan.stage[0].tensor_parallel,
                           .bytes = pipeline_crossing(x),
                           .estimate_s = pipeline_seconds(x, INFINITY),
                           .iteration_s = c->quick.iteration_s,
                           .fits = c->fits};
    cut.balance = pipeline_balance(x);
    for (size_t k = 0; k < GRAPH_SOURCES; k++) {
        if (!(sources >> k & 1))
            continue;
        cut.proposer = graph_source(k);
        PASS(ARRAY_ROOM(all->cut, all->cuts));
        all->cut[all->cuts++] = cut;
    }
    return STATUS_OK;
}

/* The pipeline's cut takes the candidate's place if the evaluator says that it is better. */
static enum status judge(struct auto_state *s, struct pipeline *x, uint32_t sources,
                         struct auto_candidate *best, bool *better)
{
    enum status st;
    struct auto_candidate c = *best;
    c.plan = (struct plan){0};
    TRY(pipeline_plan(x, &x->cut, &best->plan, &c.plan));
    free(c.plan.algorithm);
    c.plan.algorithm = NULL;
    TRY(text_copy(partition_graph.name, &c.plan.algorithm));
    TRY(auto_score(s, &c));
    TRY(record(s, x, sources, &c));
    *better = auto_take_better(&c, best);
out:
    plan_free(&c.plan);
    return st;
}

/* Neighbours of the best cut, as long as one is better. */
static enum status descend(struct auto_state *s, struct pipeline *x, uint32_t sources,
                           struct auto_candidate *best)
{
    size_t all = graph_moves(x), since = 0;
    double limit_s = pipeline_seconds(x, INFINITY) * near_enough,
           until = *s->lowered + part_of_work * (s->r->lowered > 0 ? s->r->lowered : usual_work);
    for (size_t k = 0; since < all && *s->lowered < until && !auto_must_stop(s);
         k = (k + 1) % all) {
        struct graph_move m;
        bool better = false;
        since++;
        if (!graph_move_try(x, k, &m))
            continue;
        if (pipeline_seconds(x, limit_s) < limit_s)
            PASS(judge(s, x, sources, best, &better));
        if (better) {
            limit_s = pipeline_seconds(x, INFINITY) * near_enough;
            since = 0;
        } else {
            graph_move_undo(x, &m);
        }
    }
    return STATUS_OK;
}

/* Does none of the best cuts come from there? */
static bool is_left_out(const struct graph_search *found, size_t source)
{
    uint32_t seen = 0;
    for (size_t k = 0; k < found->n; k++)
        seen |= found->found[k].sources;
    return found->best[source].sources && !(seen >> source & 1);
}

/* The best cuts of all, and for a finalist the best of every source: an estimate chose them, and
 * the evaluator may see it otherwise. */
static enum status judge_found(struct auto_state *s, struct pipeline *x,
                               const struct graph_search *found, bool finalist,
                               struct auto_candidate *best)
{
    const struct graph_found *at = NULL;
    size_t n = found->n + (finalist ? GRAPH_SOURCES : 0);
    for (size_t k = 0; k < n && !auto_must_stop(s); k++) {
        bool better;
        const struct graph_found *next =
            k < found->n ? &found->found[k] : &found->best[k - found->n];
        if (k >= found->n && !is_left_out(found, k - found->n))
            continue;
        pipeline_set(x, &next->cut);
        PASS(judge(s, x, next->sources, best, &better));
        at = better ? next : at;
    }
    if (!at || !finalist)
        return STATUS_OK;
    pipeline_set(x, &at->cut);
    return descend(s, x, at->sources, best);
}

/* A chain on equal devices has its stages from `balanced`: only finalists are worth a search. */
static enum status try_graph(struct auto_state *s, struct auto_candidate *c, struct graph_effort e)
{
    enum status st;
    struct units u = {0};
    struct pipeline x = {0};
    struct graph_search found = {0};
    size_t *begins = NULL;
    TRY(ARRAY_NEW(begins, s->m->n + 1));
    partition_begins(s->m, c->plan.stage[0].tensor_parallel, s->layers, begins);
    TRY(units_make(&c->plan, s->m, s->t, begins, &u));
    if (!e.descends && units_are_chain(&u) && s->t->types == 1)
        goto out;
    st = pipeline_make(&c->plan, &u, s->t, s->r->reserve_bytes, &x);
    if (st == STATUS_UNSUPPORTED) {
        st = STATUS_OK;
        goto out;
    }
    TRY(st);
    TRY(graph_search_run(&x, s->r->fixed.seed, e.judged, e.steps, &found));
    TRY(judge_found(s, &x, &found, e.descends, c));
out:
    graph_search_free(&found);
    pipeline_free(&x);
    units_free(&u);
    free(begins);
    return st;
}

/* Stages in the model's order and on the usual devices are what graphs' cuts are not. */
static bool wants_graph(const struct auto_state *s, const struct auto_candidate *c, double least_s)
{
    return !s->r->in_order && !c->baseline && c->plan.stages > 1 && c->fits &&
           !auto_is_uneven(&c->plan) && c->quick.iteration_s < promising * least_s &&
           !auto_must_stop(s);
}

enum status auto_try_graphs(struct auto_state *s, size_t first)
{
    struct auto_candidate *all = s->result.candidate;
    size_t n = s->result.n, tried = 0;
    if (s->r->in_order)
        return STATUS_OK;
    qsort(all + first, n - first, sizeof *all, auto_by_merit);
    double least_s = n > first ? fmin(all[first].quick.iteration_s, s->best_s) : 0;
    for (size_t i = first; i < n && tried < TRIED; i++) {
        bool known = !wants_graph(s, &all[i], least_s);
        for (size_t k = first; k < i && !known; k++)
            known = auto_same_shape(&all[k], &all[i]) &&
                    all[k].plan.stage[0].replicas == all[i].plan.stage[0].replicas;
        if (known)
            continue;
        PASS(try_graph(s, &all[i], look));
        tried++;
    }
    return STATUS_OK;
}

enum status auto_search_graph(struct auto_state *s, struct auto_candidate *c)
{
    return wants_graph(s, c, INFINITY) ? try_graph(s, c, search) : STATUS_OK;
}
