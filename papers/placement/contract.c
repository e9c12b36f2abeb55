/* Which nodes become one unit.
 *
 * For contiguous splits: colours; then, until nothing changes, cycles of the forward order
 * between units are fused (a device could not stand in any order otherwise), and units without
 * any cost join their only neighbour. For arbitrary splits below a limit: colours, the same
 * weightless units, and two units between which a transfer alone would exceed the limit on
 * every pair of devices. */
#include <math.h>
#include <string.h>

#include "core/data/edges.h"
#include "papers/placement/graph.h"

static const uint32_t none = UINT32_MAX;

enum { MAX_PASSES = 200 }; /* a chain of weightless units loses one per pass: give up some day */

/* Arcs of the forward order between units into arc[p->edges], and both ways in CSR. */
static enum status forward_order(const struct placement_problem *p, const uint32_t *unit,
                                 struct model_edge *arc, struct placement_graph *g, size_t *arcs)
{
    bool *forward; /* colours with a forward node */
    PASS(ARENA_NEW(&g->memory, forward, p->colours));
    PASS(ARENA_NEW(&g->memory, g->succ_start, g->n + 2));
    PASS(ARENA_NEW(&g->memory, g->pred_start, g->n + 2));
    PASS(ARENA_NEW(&g->memory, g->succ, p->edges));
    PASS(ARENA_NEW(&g->memory, g->pred, p->edges));
    *arcs = 0;
    for (size_t v = 0; v < p->n; v++)
        forward[p->latency[v].colour] = forward[p->latency[v].colour] || !p->latency[v].backward;
    for (size_t e = 0; e < p->edges; e++) {
        uint32_t u = p->edge[e].from, v = p->edge[e].to, a = unit[u], b = unit[v];
        bool mirrored = p->latency[u].backward && p->latency[v].backward &&
                        (!forward[p->latency[u].colour] || !forward[p->latency[v].colour]);
        if (a != b && (mirrored || (!p->latency[u].backward && !p->latency[v].backward)))
            arc[(*arcs)++] = mirrored ? (struct model_edge){b, a} : (struct model_edge){a, b};
    }
    edges_list(g->n, arc, *arcs, EDGES_BY_TAIL, g->succ_start, g->succ);
    edges_list(g->n, arc, *arcs, EDGES_BY_HEAD, g->pred_start, g->pred);
    return STATUS_OK;
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

/* No split gets worse by that: the unit brings no latency, and its tensors stay on one device. */
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

/* For any split better than the limit; chains of such pairs merge altogether. */
static void join_inseparable(const struct placement_problem *p, const struct placement_graph *g,
                             double limit, uint32_t *parent)
{
    for (size_t t = 0; t < g->nets; t++)
        for (size_t i = g->net_start[t]; i < g->net_start[t + 1]; i++) {
            uint32_t s = g->net_source[t], d = g->net_dest[i];
            if (!may_part(p, g, s, d, g->net_cost[t], limit))
                parent[edges_root(parent, d)] = edges_root(parent, s);
        }
}

/* Renumber unit[] by the roots of parent[]; the number of units left. */
static size_t renumber(const struct placement_problem *p, size_t n, uint32_t *parent,
                       uint32_t *number, uint32_t *unit)
{
    uint32_t count = 0;
    memset(number, 0xff, n * sizeof *number);
    for (uint32_t v = 0; v < n; v++) {
        uint32_t root = edges_root(parent, v);
        if (number[root] == none)
            number[root] = count++;
    }
    for (size_t v = 0; v < p->n; v++)
        unit[v] = number[edges_root(parent, unit[v])];
    return count;
}

/* Merging changes nets and order, which may allow more merging: build, merge, and again. */
static enum status contract_reduce(const struct placement_problem *p, bool ordered, double limit,
                                   struct placement_graph *g)
{
    struct arena scratch = {0};
    enum status st;
    uint32_t *unit, *parent, *number;
    struct model_edge *arc;
    size_t n = p->colours, left = n, arcs;
    *g = (struct placement_graph){0};
    TRY(ARENA_NEW(&scratch, unit, p->n));
    TRY(ARENA_NEW(&scratch, parent, p->n));
    TRY(ARENA_NEW(&scratch, number, p->n));
    TRY(ARENA_NEW(&scratch, arc, p->edges));
    for (size_t v = 0; v < p->n; v++)
        unit[v] = p->latency[v].colour;
    for (int pass = 0;; pass++) {
        placement_graph_free(g);
        TRY(placement_graph_build(p, unit, n, g));
        for (uint32_t v = 0; v < n; v++)
            parent[v] = v;
        if (ordered) {
            TRY(forward_order(p, unit, arc, g, &arcs));
            TRY(edges_components(n, arc, arcs, number, &left));
            if (left < n) {
                for (size_t v = 0; v < p->n; v++)
                    unit[v] = number[unit[v]];
                n = left;
                continue;
            }
        }
        if (pass >= MAX_PASSES)
            break;
        join_weightless(p, g, parent);
        if (!ordered && isfinite(limit))
            join_inseparable(p, g, limit, parent);
        left = renumber(p, n, parent, number, unit);
        if (left == n)
            break;
        n = left;
    }
out:
    arena_free(&scratch);
    return st;
}

enum status placement_contract(const struct placement_problem *p, struct placement_graph *out)
{
    return contract_reduce(p, true, INFINITY, out);
}

enum status placement_merge(const struct placement_problem *p, double limit,
                            struct placement_graph *out)
{
    return contract_reduce(p, false, limit, out);
}
