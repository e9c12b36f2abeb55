/* PiPPy's program solved exactly where clusters have few ideals.
 *
 * A front (fronts.h) holds the non-dominated pairs (cut, most) with which an ideal fills the first
 * stages: weight and number of cut edges, and the largest weight that touches a stage, which
 * stands for average x z. It is filled from all ideals I' below I whose difference is within
 * the limits of a stage; the best sum of a pair of the full ideal, for any number of stages,
 * is the optimum. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "papers/pippy/fronts.h"
#include "papers/pippy/pippy.h"

static const double SLACK = 1e-9; /* relative, on the limits: what a solver would allow too */
static const double DEFAULT_TIME_LIMIT = 30;

/* Stage between two ideals. */
struct ideal_load {
    double memory, inside, touching, cut;
};

struct ideal_tables {
    const struct pippy_problem *p;
    struct pippy_limits limits;
    struct lattice lattice;
    struct lattice_walk walk;
    size_t *start; /* [nodes + 1] into incident */
    uint32_t *incident;
    struct ideal_load *load; /* [ideals] of the stage from the ideal to the top of the walk */
    struct fronts fronts;
    struct arena memory;
};

static void tables_close(struct ideal_tables *t)
{
    fronts_close(&t->fronts);
    arena_free(&t->memory);
    lattice_walk_close(&t->walk);
    lattice_free(&t->lattice);
}

/* The average is the least that z stands for, so every state starts with it. */
static enum status tables_open(struct ideal_tables *t)
{
    const struct pippy_problem *p = t->p;
    PASS(lattice_walk_open(&t->lattice, &t->walk));
    PASS(pippy_incident(p->nodes, p->edge, p->edges, &t->memory, &t->start, &t->incident));
    PASS(ARENA_NEW(&t->memory, t->load, t->lattice.ideals));
    return fronts_open(&t->lattice, p->stages, p->all_weight / (double)p->stages, &t->fronts);
}

/* The stage one node larger: `node`, a sink of what was below, joins it. */
static struct ideal_load pippy_ideals_extend(const struct ideal_tables *t, uint32_t top,
                                             uint32_t below)
{
    const struct pippy_problem *p = t->p;
    uint32_t v = t->walk.node[below];
    struct ideal_load x = t->load[t->walk.via[below]];
    x.memory += p->memory[v];
    x.inside += p->inner[v];
    x.touching += p->inner[v];
    for (size_t i = t->start[v]; i < t->start[v + 1]; i++) {
        const struct pippy_edge *e = &p->edge[t->incident[i]];
        if (e->to == v) {
            x.cut += e->weight + e->count;
            x.touching += e->weight;
        } else if (lattice_has(&t->lattice, top, e->to)) {
            x.cut -= e->weight + e->count;
            x.inside += e->weight;
        } else {
            x.touching += e->weight;
        }
    }
    return x;
}

/* Fill the fronts of `top` with the stage between it and `below` as their last, of load *x. */
static enum status pippy_ideals_append_stage(struct ideal_tables *t, uint32_t top, uint32_t below,
                                             const struct ideal_load *x)
{
    for (size_t j = 1; j <= t->p->stages; j++) {
        const struct front *from = fronts_of(&t->fronts, below, j - 1);
        for (uint32_t i = 0; i < from->n; i++) {
            struct front_state s = {from->state[i].sum + x->cut,
                                    fmax(from->state[i].most, x->touching), below, i};
            PASS(fronts_add(fronts_of(&t->fronts, top, j), s));
        }
    }
    return STATUS_OK;
}

/* Loads only grow downwards in memory, inner and touching weight, so a stage that breaks a
 * limit ends the walk there. */
static enum status pippy_ideals_visit(struct ideal_tables *t, uint32_t top)
{
    const struct pippy_limits *most = &t->limits;
    uint32_t below;
    t->load[top] = (struct ideal_load){0};
    lattice_begin(&t->walk, top);
    while (lattice_next(&t->walk, &below)) {
        struct ideal_load x = pippy_ideals_extend(t, top, below);
        t->load[below] = x;
        if (x.memory > most->memory * (1 + SLACK) || x.inside > most->inside * (1 + SLACK) ||
            x.touching > most->touching * (1 + SLACK))
            continue;
        PASS(pippy_ideals_append_stage(t, top, below, &x));
        lattice_descend(&t->walk, below);
    }
    return STATUS_OK;
}

/* Ideals in order of size; the empty one fills no stage. */
enum status pippy_ideals(const struct pippy_problem *p, const struct objective_request *r,
                         size_t limit, uint32_t *stage_of, enum pippy_verdict *verdict,
                         size_t *ideals)
{
    enum status st;
    double begin_s = clock_now();
    struct ideal_tables t = {.p = p, .limits = pippy_limits(p)};
    struct model_edge *edge;
    bool complete;
    TRY(pippy_edges(p->edge, p->edges, &t.memory, &edge));
    *verdict = PIPPY_UNKNOWN;
    *ideals = 0;
    TRY(lattice_build(p->nodes, edge, p->edges, false, limit, &t.lattice, &complete));
    if (!complete)
        goto out;
    *ideals = t.lattice.ideals;
    TRY(tables_open(&t));
    for (uint32_t i = 1; i < t.lattice.ideals; i++) {
        if (objective_must_stop(r, begin_s, DEFAULT_TIME_LIMIT))
            goto out;
        TRY(pippy_ideals_visit(&t, i));
    }
    *verdict = fronts_best(&t.fronts, 1, stage_of) ? PIPPY_OPTIMAL : PIPPY_INFEASIBLE;
out:
    tables_close(&t);
    return st;
}
