/* PiPPy's program solved exactly where clusters have few ideals.
 *
 * front[I, j] holds the non-dominated pairs (cut, most) with which the ideal I fills the first
 * j stages: weight and number of cut edges, and the largest weight that touches a stage, which
 * stands for average x z. It is filled from all ideals I' below I whose difference is within
 * the limits of a stage; the best sum of a pair of the full ideal, for any number of stages,
 * is the optimum. */
#include <math.h>
#include <stdlib.h>

#include "core/array.h"
#include "core/clock.h"
#include "partition/published/lattice.h"
#include "partition/published/pippy/pippy.h"

static const double SLACK = 1e-9; /* relative, on the limits: what a solver would allow too */
static const double DEFAULT_TIME_LIMIT = 30;

/* A way to fill the first stages with an ideal. */
struct state {
    double cut, most; /* weight and number of edges cut; largest weight touching a stage */
    uint32_t below, from;
};

struct front {
    size_t n, room;
    struct state *state; /* [room] */
};

/* Stage between two ideals. */
struct load {
    double memory, inside, touching, cut;
};

struct tables {
    const struct pippy_problem *p;
    struct pippy_limits limits;
    struct lattice lattice;
    struct lattice_walk walk;
    size_t *start; /* [nodes + 1] into incident */
    uint32_t *incident;
    struct load *load;   /* [ideals] of the stage from the ideal to the top of the walk */
    struct front *front; /* [ideals * (stages + 1)] */
    struct arena memory;
};

static void tables_close(struct tables *t)
{
    size_t fronts = t->front ? t->lattice.ideals * (t->p->stages + 1) : 0;
    for (size_t i = 0; i < fronts; i++)
        free(t->front[i].state);
    free(t->front);
    arena_free(&t->memory);
    lattice_walk_close(&t->walk);
    lattice_free(&t->lattice);
}

static enum status tables_open(struct tables *t)
{
    const struct pippy_problem *p = t->p;
    PASS(lattice_walk_open(&t->lattice, &t->walk));
    PASS(pippy_incident(p->nodes, p->edge, p->edges, &t->memory, &t->start, &t->incident));
    PASS(ARENA_NEW(&t->memory, t->load, t->lattice.ideals));
    PASS(ARRAY_NEW(t->front, t->lattice.ideals * (p->stages + 1)));
    return STATUS_OK;
}

/* The stage one node larger: `node`, a sink of what was below, joins it. */
static struct load extend(const struct tables *t, uint32_t top, uint32_t below)
{
    const struct pippy_problem *p = t->p;
    uint32_t v = t->walk.node[below];
    struct load x = t->load[t->walk.via[below]];
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

/* Keep the front non-dominated. */
static enum status insert(struct front *f, struct state fresh)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->state[i].cut <= fresh.cut && f->state[i].most <= fresh.most)
            return STATUS_OK;
    for (size_t i = 0; i < f->n; i++)
        if (f->state[i].cut < fresh.cut || f->state[i].most < fresh.most)
            f->state[kept++] = f->state[i];
    f->n = kept;
    PASS(ARRAY_RESERVE(f->state, f->n + 1, f->room));
    f->state[f->n++] = fresh;
    return STATUS_OK;
}

/* Fill the fronts of `top` with the stage between it and `below` as their last, of load *x. */
static enum status append_stage(struct tables *t, uint32_t top, uint32_t below,
                                const struct load *x)
{
    size_t width = t->p->stages + 1;
    for (size_t j = 1; j < width; j++) {
        const struct front *from = &t->front[below * width + j - 1];
        for (uint32_t i = 0; i < from->n; i++) {
            struct state s = {from->state[i].cut + x->cut, fmax(from->state[i].most, x->touching),
                              below, i};
            PASS(insert(&t->front[top * width + j], s));
        }
    }
    return STATUS_OK;
}

/* Loads only grow downwards in memory, inner and touching weight, so a stage that breaks a
 * limit ends the walk there. */
static enum status visit(struct tables *t, uint32_t top)
{
    const struct pippy_limits *most = &t->limits;
    uint32_t below;
    t->load[top] = (struct load){0};
    lattice_begin(&t->walk, top);
    while (lattice_next(&t->walk, &below)) {
        struct load x = extend(t, top, below);
        t->load[below] = x;
        if (x.memory > most->memory * (1 + SLACK) || x.inside > most->inside * (1 + SLACK) ||
            x.touching > most->touching * (1 + SLACK))
            continue;
        PASS(append_stage(t, top, below, &x));
        lattice_descend(&t->walk, below);
    }
    return STATUS_OK;
}

/* Walk back from the best of the last front; the clusters of each stage are what it added. */
static bool trace(const struct tables *t, uint32_t *stage_of)
{
    const struct pippy_problem *p = t->p;
    size_t width = p->stages + 1, stage = 0;
    uint32_t top = (uint32_t)t->lattice.ideals - 1, index = 0;
    double least = INFINITY;
    for (size_t j = 0; j < width; j++) {
        const struct front *f = &t->front[top * width + j];
        for (uint32_t i = 0; i < f->n; i++)
            if (f->state[i].cut + f->state[i].most < least) {
                least = f->state[i].cut + f->state[i].most;
                index = i;
                stage = j;
            }
    }
    if (!(least < INFINITY))
        return false;
    for (; stage > 0; stage--) {
        const struct state *s = &t->front[top * width + stage].state[index];
        for (size_t v = 0; v < p->nodes; v++)
            if (lattice_has(&t->lattice, top, v) && !lattice_has(&t->lattice, s->below, v))
                stage_of[v] = (uint32_t)stage - 1;
        top = s->below;
        index = s->from;
    }
    return true;
}

/* Ideals in order of size; the empty one fills no stage. */
enum status pippy_ideals(const struct pippy_problem *p, const struct objective_request *r,
                         size_t limit, uint32_t *stage_of, enum pippy_verdict *verdict,
                         size_t *ideals)
{
    enum status st;
    double begin_s = clock_now();
    struct tables t = {.p = p, .limits = pippy_limits(p)};
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
    /* avg is the least that z stands for, so every state starts with it. */
    TRY(insert(&t.front[0], (struct state){0, p->all_weight / (double)p->stages, 0, 0}));
    for (uint32_t i = 1; i < t.lattice.ideals; i++) {
        if (objective_must_stop(r, begin_s, DEFAULT_TIME_LIMIT))
            goto out;
        TRY(visit(&t, i));
    }
    *verdict = trace(&t, stage_of) ? PIPPY_OPTIMAL : PIPPY_INFEASIBLE;
out:
    tables_close(&t);
    return st;
}
