/* contract.c - which nodes become one unit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/published/placement/graph.h"

static const uint32_t none = UINT32_MAX;

enum { MAX_PASSES = 200 }; /* a chain of weightless units loses one per pass: give up some day */

/* Arcs of the forward order between units, both ways in CSR. */
static enum status forward_order(const struct placement_problem *p, const uint32_t *unit,
                                 struct placement_graph *g)
{
    enum status st = STATUS_OK;
    size_t n = g->n;
    bool *forward = calloc(p->colours, sizeof *forward);
    g->succ_start = calloc(n + 2, sizeof *g->succ_start);
    g->pred_start = calloc(n + 2, sizeof *g->pred_start);
    g->succ = calloc(p->edges + 1, sizeof *g->succ);
    g->pred = calloc(p->edges + 1, sizeof *g->pred);
    if (!forward || !g->succ_start || !g->pred_start || !g->succ || !g->pred) {
        st = error_set(STATUS_NOMEM, "%zu units", n);
        goto out;
    }
    for (size_t v = 0; v < p->n; v++)
        forward[p->colour[v]] = forward[p->colour[v]] || !p->backward[v];
    for (int pass = 0; pass < 2; pass++) {
        for (size_t e = 0; e < p->edges; e++) {
            uint32_t u = p->source[e], v = p->dest[e], a = unit[u], b = unit[v];
            bool mirrored = p->backward[u] && p->backward[v] &&
                            (!forward[p->colour[u]] || !forward[p->colour[v]]);
            if (a == b || (!mirrored && (p->backward[u] || p->backward[v])))
                continue;
            uint32_t from = mirrored ? b : a, to = mirrored ? a : b;
            if (pass == 0) {
                g->succ_start[from + 2]++;
                g->pred_start[to + 2]++;
            } else {
                g->succ[g->succ_start[from + 1]++] = to;
                g->pred[g->pred_start[to + 1]++] = from;
            }
        }
        for (size_t v = 0; pass == 0 && v < n; v++) {
            g->succ_start[v + 2] += g->succ_start[v + 1];
            g->pred_start[v + 2] += g->pred_start[v + 1];
        }
    }
out:
    free(forward);
    return st;
}

struct tarjan {
    const struct placement_graph *g;
    uint32_t *index, *low, *component; /* [n] */
    uint32_t *stack, *call;            /* [n] open vertices; path of the search */
    size_t *next;                      /* [n] next arc */
    size_t open, depth;
    uint32_t visited, components;
};

static void enter(struct tarjan *t, uint32_t v)
{
    t->index[v] = t->low[v] = t->visited++;
    t->stack[t->open++] = v;
    t->call[t->depth++] = v;
    t->next[v] = t->g->succ_start[v];
}

static void leave(struct tarjan *t, uint32_t v)
{
    t->depth--;
    if (t->depth > 0) {
        uint32_t up = t->call[t->depth - 1];
        t->low[up] = t->low[v] < t->low[up] ? t->low[v] : t->low[up];
    }
    if (t->low[v] != t->index[v])
        return;
    uint32_t w;
    do {
        w = t->stack[--t->open];
        t->component[w] = t->components;
    } while (w != v);
    t->components++;
}

/* Strongly connected components: R. Tarjan, SIAM J. Comput. 1 (1972), without recursion. */
static enum status components(const struct placement_graph *g, uint32_t *component, size_t *count)
{
    enum status st = STATUS_OK;
    size_t n = g->n;
    struct tarjan t = {.g = g, .component = component};
    t.index = malloc(n * sizeof *t.index);
    t.low = calloc(n, sizeof *t.low);
    t.stack = calloc(n, sizeof *t.stack);
    t.call = calloc(n, sizeof *t.call);
    t.next = calloc(n, sizeof *t.next);
    if (!t.index || !t.low || !t.stack || !t.call || !t.next) {
        st = error_set(STATUS_NOMEM, "%zu units", n);
        goto out;
    }
    memset(t.index, 0xff, n * sizeof *t.index);
    memset(component, 0xff, n * sizeof *component);
    for (uint32_t root = 0; root < n; root++) {
        if (t.index[root] == none)
            enter(&t, root);
        while (t.depth > 0) {
            uint32_t v = t.call[t.depth - 1];
            if (t.next[v] == g->succ_start[v + 1]) {
                leave(&t, v);
                continue;
            }
            uint32_t w = g->succ[t.next[v]++];
            if (t.index[w] == none)
                enter(&t, w);
            else if (component[w] == none && t.index[w] < t.low[v])
                t.low[v] = t.index[w];
        }
    }
    *count = t.components;
out:
    free(t.index);
    free(t.low);
    free(t.stack);
    free(t.call);
    free(t.next);
    return st;
}

static uint32_t root_of(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

/* Remember w as a neighbour of v; false if there is another one. */
static bool note_neighbour(uint32_t v, uint32_t w, uint32_t *one)
{
    if (w != v && *one != none && *one != w)
        return false;
    *one = w != v ? w : *one;
    return true;
}

/* The only unit that v exchanges tensors with or is ordered against: *one, `none` if there is no
 * such unit; false if there are several. Other readers of what v reads are no neighbours. */
static bool only_neighbour(const struct placement_graph *g, uint32_t v, uint32_t *one)
{
    bool single = true;
    *one = none;
    for (size_t i = g->pin_start[v]; single && i < g->pin_start[v + 1]; i++) {
        uint32_t t = g->pin[i].net;
        single = note_neighbour(v, g->net_source[t], one);
        for (size_t k = g->net_start[t]; single && k < g->net_start[t + 1]; k++)
            single = !g->pin[i].is_source || note_neighbour(v, g->net_dest[k], one);
    }
    if (!g->succ)
        return single;
    for (size_t i = g->succ_start[v]; single && i < g->succ_start[v + 1]; i++)
        single = note_neighbour(v, g->succ[i], one);
    for (size_t i = g->pred_start[v]; single && i < g->pred_start[v + 1]; i++)
        single = note_neighbour(v, g->pred[i], one);
    return single;
}

static void join_weightless(const struct placement_problem *p, const struct placement_graph *g,
                            uint32_t *parent)
{
    double all_bytes = 0;
    for (size_t v = 0; v < g->n; v++)
        all_bytes += g->size[v];
    for (uint32_t v = 0; v < g->n; v++) {
        uint32_t u;
        if (g->cpu[v] > 0 || g->accelerator[v] > 0 || !g->supported[v])
            continue;
        /* Sizes matter only where some device could overflow. */
        if ((g->size[v] > 0 && all_bytes > p->memory_bytes) || !only_neighbour(g, v, &u))
            continue;
        if (u == none) /* alone: any unit will do */
            u = v > 0 ? v - 1 : (uint32_t)(g->n - 1);
        /* One step per pass: its neighbours change when u itself is joined to another. */
        if (parent[u] == u && parent[v] == v)
            parent[v] = u;
    }
}

/* Can s and d, joined by a tensor of cost c, be on different devices at a value below limit? */
static bool may_part(const struct placement_problem *p, const struct placement_graph *g, uint32_t s,
                     uint32_t d, double c, double limit)
{
    bool s_accelerator = p->accelerators > 0 && g->supported[s] && g->accelerator[s] + c < limit;
    bool d_accelerator = p->accelerators > 0 && g->supported[d] && g->accelerator[d] + c < limit;
    bool s_cpu = p->cpus > 0 && g->cpu[s]<limit, d_cpu = p->cpus> 0 && g->cpu[d] < limit;
    return (s_accelerator && d_accelerator && p->accelerators > 1) || (s_accelerator && d_cpu) ||
           (s_cpu && d_accelerator) || (s_cpu && d_cpu && p->cpus > 1);
}

static void join_inseparable(const struct placement_problem *p, const struct placement_graph *g,
                             double limit, uint32_t *parent)
{
    for (size_t t = 0; t < g->nets; t++)
        for (size_t i = g->net_start[t]; i < g->net_start[t + 1]; i++) {
            uint32_t s = g->net_source[t], d = g->net_dest[i];
            if (!may_part(p, g, s, d, g->net_cost[t], limit))
                parent[root_of(parent, d)] = root_of(parent, s);
        }
}

/* Renumber unit[] by the roots of parent[]; the number of units left. */
static size_t renumber(const struct placement_problem *p, size_t n, uint32_t *parent,
                       uint32_t *number, uint32_t *unit)
{
    uint32_t count = 0;
    memset(number, 0xff, n * sizeof *number);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t root = root_of(parent, v);
        if (number[root] == none)
            number[root] = count++;
    }
    for (size_t v = 0; v < p->n; v++)
        unit[v] = number[root_of(parent, unit[v])];
    return count;
}

static enum status reduce(const struct placement_problem *p, bool ordered, double limit,
                          struct placement_graph *out)
{
    enum status st;
    struct placement_graph g = {0};
    uint32_t *unit = calloc(p->n, sizeof *unit), *parent = calloc(p->n, sizeof *parent);
    uint32_t *number = calloc(p->n, sizeof *number);
    size_t n = p->colours, left = n;
    if (!unit || !parent || !number) {
        st = error_set(STATUS_NOMEM, "%zu nodes", p->n);
        goto out;
    }
    memcpy(unit, p->colour, p->n * sizeof *unit);
    for (int pass = 0;; pass++) {
        placement_graph_free(&g);
        TRY(placement_graph_build(p, unit, n, &g));
        for (uint32_t v = 0; v < n; v++)
            parent[v] = v;
        if (ordered) {
            TRY(forward_order(p, unit, &g));
            TRY(components(&g, number, &left));
            if (left < n) {
                for (size_t v = 0; v < p->n; v++)
                    unit[v] = number[unit[v]];
                n = left;
                continue;
            }
        }
        if (pass >= MAX_PASSES)
            break;
        join_weightless(p, &g, parent);
        if (!ordered && isfinite(limit))
            join_inseparable(p, &g, limit, parent);
        left = renumber(p, n, parent, number, unit);
        if (left == n)
            break;
        n = left;
    }
    *out = g;
    g = (struct placement_graph){0};
out:
    placement_graph_free(&g);
    free(unit);
    free(parent);
    free(number);
    return st;
}

enum status placement_contract(const struct placement_problem *p, struct placement_graph *out)
{
    return reduce(p, true, INFINITY, out);
}

enum status placement_merge(const struct placement_problem *p, double limit,
                            struct placement_graph *out)
{
    return reduce(p, false, limit, out);
}
