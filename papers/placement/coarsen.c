/* A random matching of units, as multilevel partitioners make (coarsen.h). */
#include "papers/placement/coarsen.h"

#include <stdlib.h>

#include "papers/placement/work.h"

static const uint32_t none = UINT32_MAX;

struct matching {
    const struct placement_problem *p;
    const struct placement_graph *g;
    const struct placement_coarsening *o;
    uint32_t *order, *partner, *near; /* [units] */
    double *score;                    /* [units] what transfers to a neighbour cost */
    size_t nears;
};

static void coarsen_note_pair(struct matching *m, uint32_t v, uint32_t u, double cost)
{
    const struct placement_graph *g = m->g;
    if (m->partner[u] != none || u == v || (m->o->label && m->o->label[u] != m->o->label[v]) ||
        g->accelerator[u] + g->accelerator[v] > m->o->longest ||
        g->size[u] + g->size[v] > m->p->memory_bytes)
        return;
    if (m->score[u] <= 0)
        m->near[m->nears++] = u;
    m->score[u] += cost;
}

/* The cost of a net is shared by its readers. */
static void coarsen_find_neighbours(struct matching *m, uint32_t v)
{
    const struct placement_graph *g = m->g;
    m->nears = 0;
    for (size_t i = g->pin_start[v]; i < g->pin_start[v + 1]; i++) {
        uint32_t t = g->pin[i].net;
        size_t readers = g->net_start[t + 1] - g->net_start[t];
        double cost = g->net_cost[t] / (double)readers;
        if (!g->pin[i].is_source)
            coarsen_note_pair(m, v, g->net_source[t], cost);
        for (size_t k = g->net_start[t]; g->pin[i].is_source && k < g->net_start[t + 1]; k++)
            coarsen_note_pair(m, v, g->net_dest[k], cost);
    }
}

/* The neighbour with the highest score; scores vary at random by a factor of two. */
static uint32_t coarsen_choose(struct matching *m, uint32_t v)
{
    const struct placement_graph *g = m->g;
    uint32_t best = none;
    double highest = -1;
    for (size_t i = 0; i < m->nears; i++) {
        uint32_t u = m->near[i];
        double score = m->score[u] * (1 + placement_uniform(m->o->random));
        if (m->o->light_first)
            score /= g->accelerator[u] + 0.1 * g->accelerator[v] + 1e-3 * m->o->longest;
        if (score > highest) {
            highest = score;
            best = u;
        }
        m->score[u] = 0;
    }
    return best;
}

static void match(struct matching *m)
{
    size_t n = m->g->n;
    for (uint32_t v = 0; v < n; v++) {
        size_t at = placement_below(m->o->random, v + (size_t)1);
        m->order[v] = m->order[at];
        m->order[at] = v;
        m->partner[v] = none;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t v = m->order[i], u;
        if (m->partner[v] != none)
            continue;
        coarsen_find_neighbours(m, v);
        u = coarsen_choose(m, v);
        m->partner[v] = u == none ? v : u;
        m->partner[m->partner[v]] = v;
    }
}

enum status placement_coarsen(const struct placement_problem *p, const struct placement_graph *fine,
                              const struct placement_coarsening *o, uint32_t *parent,
                              struct placement_graph *coarse)
{
    enum status st;
    struct arena scratch = {0};
    struct matching m = {.p = p, .g = fine, .o = o};
    uint32_t *unit, count = 0;
    TRY(ARENA_NEW(&scratch, m.order, fine->n));
    TRY(ARENA_NEW(&scratch, m.partner, fine->n));
    TRY(ARENA_NEW(&scratch, m.near, fine->n));
    TRY(ARENA_NEW(&scratch, m.score, fine->n));
    TRY(ARENA_NEW(&scratch, unit, p->n));
    match(&m);
    for (uint32_t v = 0; v < fine->n; v++)
        parent[v] = m.partner[v] < v ? parent[m.partner[v]] : count++;
    for (size_t v = 0; v < p->n; v++)
        unit[v] = parent[fine->unit[v]];
    TRY(placement_graph_build(p, unit, count, coarse));
out:
    arena_free(&scratch);
    return st;
}
