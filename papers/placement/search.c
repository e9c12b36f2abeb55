/* The rounds of the search for any split, and the good splits that they start from (search.h). */
#include "papers/placement/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "papers/placement/anneal.h"
#include "papers/placement/coarsen.h"
#include "papers/placement/neighbourhood.h"

enum {
    POOL = 8,
    LEVELS = 12,
    EXACT_UNITS = 200, /* more are not searched exactly */
    FIRST_UNITS = 8,   /* of a large neighbourhood */
    FIRST_STEPS = 150, /* of a round, times units and devices */
    LONGEST_PART = 24, /* no round is longer than this part of the work */
    COARSEST = 4,      /* units per device at which coarsening ends */
    STALE = 40,        /* rounds without a new good split until they are forgotten */
};
static const double enough = 1e-9;      /* relative gap at which the bound is reached */
static const double least_gain = 1e-12; /* relative; less is rounding */
static const double growth = 1.05;      /* of the length of a round */

struct good {
    double value;
    uint32_t *device; /* [nodes] */
};

struct placement_search {
    const struct placement_problem *p;
    struct placement_work *w;
    struct placement_found *f;
    struct placement_graph g; /* units of what is to be better than merged_at */
    double merged_at;
    struct placement_neighbourhood large;
    struct good pool[POOL + 1]; /* [pooled] by value, and one to write to */
    size_t pooled, stale;
    uint32_t *scratch; /* [nodes] */
    double *load;      /* [devices] */
    bool *on_cpu;
    struct arena memory;
};

bool placement_settled(const struct placement_found *f)
{
    return f->exhausted || f->value <= f->bound * (1 + enough);
}

/* Units for what is better than the best so far; made again when that has changed. */
static enum status merge_units(struct placement_search *s)
{
    size_t units = s->large.units;
    if (s->g.n > 0 && s->merged_at <= s->f->value)
        return STATUS_OK;
    placement_graph_free(&s->g);
    s->merged_at = s->f->value;
    PASS(placement_merge(s->p, s->f->value, &s->g));
    s->large = (struct placement_neighbourhood){.units = units};
    return placement_branch_new(s->p, &s->g, &s->large.branch);
}

/* Devices of units from those of nodes: where a unit's first node is. */
static void to_units(const struct placement_problem *p, const struct placement_graph *g,
                     const uint32_t *of_node, uint32_t *of_unit)
{
    for (size_t v = p->n; v-- > 0;)
        of_unit[g->unit[v]] = of_node[v];
}

/* Has every accelerator room, and the units that it supports? Merged units may have no room where
 * their first node is. */
static bool placement_search_fits(const struct placement_search *s, const uint32_t *of_node)
{
    memset(s->load, 0, s->p->accelerators * sizeof *s->load);
    for (size_t v = 0; v < s->p->n; v++) {
        uint32_t d = of_node[v];
        if (s->on_cpu[d])
            continue;
        s->load[d] += s->p->latency[v].size;
        if (!s->p->latency[v].supported || s->load[d] > s->p->memory_bytes)
            return false;
    }
    return true;
}

/* Keep a split of the units of g: in the pool unless one of its value is there, and as the best if
 * it is. What is kept is valued anew, from nodes. */
static enum status placement_search_keep(struct placement_search *s,
                                         const struct placement_graph *g, const uint32_t *of_unit)
{
    size_t devices = s->p->accelerators + s->p->cpus, at = 0;
    double value = 0;
    for (size_t v = 0; v < s->p->n; v++)
        s->scratch[v] = of_unit[g->unit[v]];
    if (!placement_search_fits(s, s->scratch))
        return STATUS_OK;
    PASS(placement_loads(s->p, s->scratch, devices, s->on_cpu, s->load));
    for (size_t d = 0; d < devices; d++)
        value = fmax(value, s->load[d]);
    if (value < s->f->value * (1 - least_gain)) {
        s->f->value = value;
        memcpy(s->f->device, s->scratch, s->p->n * sizeof *s->scratch);
    }
    s->stale++;
    while (at < s->pooled && s->pool[at].value < value * (1 - least_gain))
        at++;
    if (at == POOL || (at < s->pooled && s->pool[at].value <= value * (1 + least_gain)))
        return STATUS_OK;
    s->stale = 0;
    struct good new = s->pool[s->pooled]; /* nobody's now */
    for (size_t i = s->pooled; i > at; i--)
        s->pool[i] = s->pool[i - 1];
    new.value = value;
    memcpy(new.device, s->scratch, s->p->n * sizeof *new.device);
    s->pool[at] = new;
    s->pooled += s->pooled < POOL;
    return STATUS_OK;
}

/* ---- rounds */

/* Units at each level of one multilevel round, the finest first. */
struct levels {
    size_t n;
    struct placement_graph *g[LEVELS];
    struct placement_graph coarse[LEVELS];
    uint32_t *parent[LEVELS]; /* unit of the next level */
    uint32_t *label[LEVELS], *device[LEVELS];
    struct arena memory;
};

static void levels_free(struct levels *l)
{
    for (size_t i = 0; i < LEVELS; i++)
        placement_graph_free(&l->coarse[i]);
    arena_free(&l->memory);
}

/* Coarsen until there are few units per device or nothing is left to be joined. */
static enum status build_levels(struct placement_search *s, bool labelled, struct levels *l)
{
    size_t devices = s->p->accelerators + s->p->cpus;
    struct placement_coarsening o = {.random = &s->w->random,
                                     .longest = s->f->value *
                                                (0.1 + 0.6 * placement_uniform(&s->w->random)),
                                     .light_first = placement_uniform(&s->w->random) < 0.5};
    size_t coarsest = COARSEST * devices + placement_below(&s->w->random, COARSEST * devices);
    for (; l->n < LEVELS && l->g[l->n - 1]->n > coarsest; l->n++) {
        struct placement_graph *fine = l->g[l->n - 1], *coarse = &l->coarse[l->n];
        PASS(ARENA_NEW(&l->memory, l->parent[l->n - 1], fine->n));
        o.label = labelled ? l->label[l->n - 1] : NULL;
        PASS(placement_coarsen(s->p, fine, &o, l->parent[l->n - 1], coarse));
        s->w->spent += 20 * (s->p->n + s->p->edges);
        PASS(ARENA_NEW(&l->memory, l->device[l->n], coarse->n));
        PASS(ARENA_NEW(&l->memory, l->label[l->n], coarse->n));
        for (size_t v = fine->n; v-- > 0;) {
            l->label[l->n][l->parent[l->n - 1][v]] = l->label[l->n - 1][v];
            l->device[l->n][l->parent[l->n - 1][v]] = l->device[l->n - 1][v];
        }
        l->g[l->n] = coarse;
        if (10 * coarse->n > 9 * fine->n) {
            l->n++;
            break;
        }
    }
    return STATUS_OK;
}

/* Anneal level by level, the coarsest first and hottest.
 *   value  out: of the split of the finest units; INFINITY: it does not fit */
static enum status anneal_levels(struct placement_search *s, bool scatter, uint64_t steps,
                                 struct levels *l, double *value)
{
    size_t units = l->g[l->n - 1]->n; /* counted twice */
    double hot = scatter ? 10 : pow(10, -1.5 + 2 * placement_uniform(&s->w->random));
    *value = INFINITY;
    for (size_t i = 0; i < l->n; i++)
        units += l->g[i]->n;
    for (size_t i = l->n; i-- > 0 && !placement_work_over(s->w);) {
        bool coarsest = i + 1 == l->n;
        size_t n = l->g[i]->n * (coarsest ? 2 : 1);
        struct placement_anneal o = {.hot = coarsest ? hot : fmin(hot, i == 0 ? 0.1 : 0.3),
                                     .cold = i == 0 ? 1e-3 : 1e-2,
                                     .scale = s->f->value,
                                     .steps = 1 + steps * n / units,
                                     .scatter = coarsest && scatter};
        if (!coarsest)
            for (size_t v = 0; v < l->g[i]->n; v++)
                l->device[i][v] = l->device[i + 1][l->parent[i][v]];
        *value = INFINITY;
        PASS(placement_anneal(s->p, l->g[i], &o, s->w, l->device[i], value));
    }
    return STATUS_OK;
}

/* Large neighbourhoods of a split of the units. */
static enum status enlarge(struct placement_search *s, uint64_t steps, uint32_t *device,
                           double *value)
{
    s->large.steps = steps;
    return s->p->accelerators + s->p->cpus > PLACEMENT_BRANCH_DEVICES
               ? STATUS_OK
               : placement_neighbourhood_search(s->p, &s->g, &s->large, s->w, device, value);
}

/* One multilevel round from nothing (a NULL), a good split (b NULL) or two. What it ends with has
 * not had the attention that the good splits have had: a third of the steps go into its large
 * neighbourhoods. */
static enum status round_of_levels(struct placement_search *s, const struct good *a,
                                   const struct good *b, uint64_t steps)
{
    enum status st;
    struct levels l = {.n = 1, .g[0] = &s->g};
    size_t devices = s->p->accelerators + s->p->cpus;
    double value;
    TRY(ARENA_NEW(&l.memory, l.device[0], s->g.n));
    TRY(ARENA_NEW(&l.memory, l.label[0], s->g.n));
    if (a)
        to_units(s->p, &s->g, a->device, l.device[0]);
    if (b)
        to_units(s->p, &s->g, b->device, l.label[0]);
    for (size_t v = 0; v < s->g.n; v++)
        l.label[0][v] = l.label[0][v] * (uint32_t)devices + l.device[0][v];
    TRY(build_levels(s, a != NULL, &l));
    TRY(anneal_levels(s, a == NULL, steps - steps / 3, &l, &value));
    if (isinf(value))
        goto out;
    TRY(enlarge(s, steps / 3, l.device[0], &value));
    TRY(placement_search_keep(s, &s->g, l.device[0]));
out:
    levels_free(&l);
    return st;
}

/* Annealing of the best split, between a gentle shake and a melt. */
static enum status round_flat(struct placement_search *s, uint64_t steps)
{
    double value = INFINITY;
    const struct placement_anneal o = {.hot =
                                           pow(10, -1.5 + 2.5 * placement_uniform(&s->w->random)),
                                       .cold = 1e-3,
                                       .scale = s->f->value,
                                       .steps = steps};
    struct arena scratch = {0};
    uint32_t *device;
    enum status st;
    TRY(ARENA_NEW(&scratch, device, s->g.n));
    to_units(s->p, &s->g, s->f->device, device);
    TRY(placement_anneal(s->p, &s->g, &o, s->w, device, &value));
    if (isfinite(value))
        TRY(placement_search_keep(s, &s->g, device));
out:
    arena_free(&scratch);
    return st;
}

/* Large neighbourhoods of a good split. */
static enum status round_large(struct placement_search *s, const struct good *a, uint64_t steps)
{
    enum status st;
    struct arena scratch = {0};
    uint32_t *device;
    double value = a->value;
    TRY(ARENA_NEW(&scratch, device, s->g.n));
    to_units(s->p, &s->g, a->device, device);
    TRY(enlarge(s, steps, device, &value));
    if (value < a->value)
        TRY(placement_search_keep(s, &s->g, device));
out:
    arena_free(&scratch);
    return st;
}

/* All units at once, exactly. */
static enum status round_exact(struct placement_search *s, uint64_t steps)
{
    enum status st;
    struct arena scratch = {0};
    uint32_t *device, *unit;
    double value = s->f->value;
    if (s->p->accelerators + s->p->cpus > PLACEMENT_BRANCH_DEVICES || s->g.n > EXACT_UNITS)
        return STATUS_OK;
    TRY(ARENA_NEW(&scratch, device, s->g.n));
    TRY(ARENA_NEW(&scratch, unit, s->g.n));
    for (uint32_t v = 0; v < s->g.n; v++)
        unit[v] = v;
    placement_branch_solve(s->large.branch, unit, s->g.n, steps, s->w, device, &value,
                           &s->f->exhausted);
    if (value < s->f->value)
        TRY(placement_search_keep(s, &s->g, device));
out:
    arena_free(&scratch);
    return st;
}

/* Round number i. Where there are no two good splits, one or none has to do. */
static enum status one_round(struct placement_search *s, uint64_t i, uint64_t steps)
{
    const struct good *a = &s->pool[placement_below(&s->w->random, s->pooled)];
    const struct good *b = &s->pool[placement_below(&s->w->random, s->pooled)];
    switch (i % 8) {
    case 1:
        return round_large(s, &s->pool[0], steps);
    case 4:
        return round_large(s, a, steps);
    case 2:
    case 6:
        return round_of_levels(s, a, b == a ? NULL : b, steps);
    case 3:
        return round_of_levels(s, a, NULL, steps);
    case 5:
        return round_flat(s, steps);
    default:
        return round_of_levels(s, NULL, NULL, steps);
    }
}

/* Only the best one is kept when good splits have stopped coming: the others would lead back. */
static void placement_search_forget(struct placement_search *s)
{
    if (s->stale < STALE)
        return;
    s->stale = 0;
    s->pooled = 1;
}

static enum status placement_search_prepare(struct placement_search *s)
{
    size_t devices = s->p->accelerators + s->p->cpus;
    PASS(ARENA_NEW(&s->memory, s->scratch, s->p->n));
    PASS(ARENA_NEW(&s->memory, s->load, devices));
    PASS(ARENA_NEW(&s->memory, s->on_cpu, devices));
    for (size_t d = s->p->accelerators; d < devices; d++)
        s->on_cpu[d] = true;
    for (size_t i = 0; i <= POOL; i++)
        PASS(ARENA_NEW(&s->memory, s->pool[i].device, s->p->n));
    memcpy(s->pool[0].device, s->f->device, s->p->n * sizeof *s->f->device);
    s->pool[0].value = s->f->value;
    s->pooled = 1;
    s->large.units = FIRST_UNITS;
    return merge_units(s);
}

enum status placement_search(const struct placement_problem *p, struct placement_work *w,
                             struct placement_found *f)
{
    enum status st;
    struct placement_search s = {.p = p, .w = w, .f = f};
    double steps = 0;
    TRY(placement_search_prepare(&s));
    steps = FIRST_STEPS * (double)s.g.n * (double)(p->accelerators + p->cpus);
    for (uint64_t i = 0; !placement_settled(f) && !placement_work_over(w); i++) {
        steps = fmin(steps, 1 + (double)w->most / LONGEST_PART);
        TRY(merge_units(&s));
        if (i % 8 == 0)
            TRY(round_exact(&s, (uint64_t)steps + w->spent / 16));
        if (!placement_settled(f))
            TRY(one_round(&s, i, (uint64_t)steps));
        placement_search_forget(&s);
        w->spent += s.g.n + s.g.nets; /* a round that finds nothing to do costs, too */
        steps *= growth;
    }
out:
    placement_graph_free(&s.g);
    arena_free(&s.memory);
    return st;
}
