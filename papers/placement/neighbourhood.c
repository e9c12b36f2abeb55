/* Large-neighbourhood search with branch and bound as its repair (neighbourhood.h). The size of a
 * neighbourhood follows what branch and bound can finish in the steps of one try. */
#include "papers/placement/neighbourhood.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

enum { LEAST_UNITS = 4, TRY_STEPS = 200000 };

struct neighbourhood_search {
    const struct placement_problem *p;
    const struct placement_graph *g;
    uint64_t *random;
    const uint32_t *device;
    uint32_t *pool, *queue; /* [units] */
    bool *seen;             /* [units] */
    double *load;           /* [devices] */
    struct arena memory;
};

/* The most loaded device by the definition of problem.h, on units. */
static uint32_t most_loaded(struct neighbourhood_search *s, size_t devices)
{
    const struct placement_graph *g = s->g;
    uint32_t worst = 0;
    memset(s->load, 0, devices * sizeof *s->load);
    for (size_t v = 0; v < g->n; v++) {
        bool cpu = s->device[v] >= s->p->accelerators;
        s->load[s->device[v]] += cpu ? g->cpu[v] : g->accelerator[v];
    }
    for (size_t t = 0; t < g->nets; t++) {
        uint32_t from = s->device[g->net_source[t]];
        bool leaves = false;
        for (size_t k = g->net_start[t]; k < g->net_start[t + 1]; k++) {
            uint32_t to = s->device[g->net_dest[k]];
            bool first = to != from;
            for (size_t i = g->net_start[t]; first && i < k; i++)
                first = s->device[g->net_dest[i]] != to;
            leaves = leaves || to != from;
            if (first && to < s->p->accelerators)
                s->load[to] += g->net_cost[t];
        }
        if (leaves && from < s->p->accelerators)
            s->load[from] += g->net_cost[t];
    }
    for (uint32_t d = 1; d < devices; d++)
        worst = s->load[d] > s->load[worst] ? d : worst;
    return worst;
}

/* Put the pool into a random order. */
static void neighbourhood_shuffle(struct neighbourhood_search *s, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = placement_below(s->random, i);
        uint32_t v = s->pool[k];
        s->pool[k] = s->pool[i - 1];
        s->pool[i - 1] = v;
    }
}

static void neighbourhood_visit(struct neighbourhood_search *s, uint32_t v, size_t *end)
{
    if (!s->seen[v])
        s->queue[(*end)++] = v;
    s->seen[v] = true;
}

/* The units nearest to pool[0] among those of the pool, breadth first along nets, come to its
 * front; the others stay in their random order. */
static void order_by_distance(struct neighbourhood_search *s, size_t n, size_t wanted)
{
    const struct placement_graph *g = s->g;
    size_t head = 0, end = 0;
    memset(s->seen, 1, g->n * sizeof *s->seen);
    for (size_t i = 0; i < n; i++)
        s->seen[s->pool[i]] = false;
    for (size_t i = 0; i < n && end < wanted; i++) {
        neighbourhood_visit(s, s->pool[i], &end);
        for (; head < end && end < wanted; head++) {
            uint32_t v = s->queue[head];
            for (size_t k = g->pin_start[v]; k < g->pin_start[v + 1]; k++) {
                uint32_t t = g->pin[k].net;
                neighbourhood_visit(s, g->net_source[t], &end);
                for (size_t j = g->net_start[t]; j < g->net_start[t + 1]; j++)
                    neighbourhood_visit(s, g->net_dest[j], &end);
            }
        }
    }
    memcpy(s->pool, s->queue, (end < wanted ? end : wanted) * sizeof *s->pool);
}

/* Take at most `wanted` units into pool[]; how many. */
static size_t neighbourhood_choose(struct neighbourhood_search *s, size_t devices, size_t wanted)
{
    uint32_t worst = most_loaded(s, devices), also[2];
    double kind = placement_uniform(s->random);
    size_t n = 0, start;
    also[0] = (uint32_t)placement_below(s->random, devices);
    also[1] = kind < 0.3 ? also[0] : (uint32_t)placement_below(s->random, devices);
    for (uint32_t v = 0; v < s->g->n; v++) {
        uint32_t d = s->device[v];
        if (kind > 0.6 || d == worst || d == also[0] || d == also[1])
            s->pool[n++] = v;
    }
    neighbourhood_shuffle(s, n);
    if (n <= wanted)
        return n;
    for (start = 0; start + 1 < n && s->device[s->pool[start]] != worst; start++)
        continue;
    uint32_t first = s->pool[start]; /* one of the worst device is always among them */
    s->pool[start] = s->pool[0];
    s->pool[0] = first;
    if (placement_uniform(s->random) < 0.6)
        order_by_distance(s, n, wanted);
    return wanted;
}

enum status placement_neighbourhood_search(const struct placement_problem *p,
                                           const struct placement_graph *g,
                                           struct placement_neighbourhood *o,
                                           struct placement_work *w, uint32_t *device,
                                           double *value)
{
    enum status st;
    struct neighbourhood_search s = {.p = p, .g = g, .random = &w->random, .device = device};
    size_t devices = p->accelerators + p->cpus;
    uint64_t end = w->spent + o->steps;
    TRY(ARENA_NEW(&s.memory, s.pool, g->n));
    TRY(ARENA_NEW(&s.memory, s.queue, g->n));
    TRY(ARENA_NEW(&s.memory, s.seen, g->n));
    TRY(ARENA_NEW(&s.memory, s.load, devices));
    while (w->spent < end && !placement_work_over(w)) {
        bool complete;
        double before = *value;
        size_t n = neighbourhood_choose(&s, devices, o->units);
        w->spent += 4 * g->n;
        placement_branch_solve(o->branch, s.pool, n, TRY_STEPS, w, device, value, &complete);
        if (*value < before)
            continue;
        if (!complete)
            o->units -= o->units > LEAST_UNITS;
        else if (n == o->units && n < g->n)
            o->units++;
    }
out:
    arena_free(&s.memory);
    return st;
}
