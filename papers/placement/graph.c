/* Nets and weights of the problem for given units: tensors with the same source and the same
 * readers become one net. */
#include "papers/placement/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/order.h"
#include "core/data/edges.h"

/* A tensor while nets are built: its readers are dest[start .. end). */
struct placement_tensor {
    uint32_t source;
    double cost;
    size_t start, end;
    const uint32_t *dest;
};

/* By source, then by readers: equal ones stand together. */
static int compare_tensors(const void *a, const void *b)
{
    const struct placement_tensor *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    size_t nx = x->end - x->start, ny = y->end - y->start;
    if (nx != ny)
        return nx < ny ? -1 : 1;
    for (size_t i = 0; i < nx; i++)
        if (x->dest[x->start + i] != y->dest[y->start + i])
            return x->dest[x->start + i] < y->dest[y->start + i] ? -1 : 1;
    return 0;
}

static enum status placement_graph_allocate(const struct placement_problem *p, size_t n,
                                            struct placement_graph *g)
{
    *g = (struct placement_graph){.n = n};
    PASS(ARENA_NEW(&g->memory, g->cpu, n));
    PASS(ARENA_NEW(&g->memory, g->accelerator, n));
    PASS(ARENA_NEW(&g->memory, g->size, n));
    PASS(ARENA_NEW(&g->memory, g->supported, n));
    PASS(ARENA_NEW(&g->memory, g->unit, p->n));
    PASS(ARENA_NEW(&g->memory, g->net_source, p->n));
    PASS(ARENA_NEW(&g->memory, g->net_cost, p->n));
    PASS(ARENA_NEW(&g->memory, g->net_start, p->n + 1));
    PASS(ARENA_NEW(&g->memory, g->net_dest, p->edges + 1));
    PASS(ARENA_NEW(&g->memory, g->pin_start, n + 2));
    PASS(ARENA_NEW(&g->memory, g->pin, p->edges + p->n));
    return STATUS_OK;
}

/* A unit is as supported as its worst node. */
static void placement_graph_weigh(const struct placement_problem *p, const uint32_t *unit,
                                  struct placement_graph *g)
{
    memset(g->supported, 1, g->n * sizeof *g->supported);
    for (size_t v = 0; v < p->n; v++) {
        g->unit[v] = unit[v];
        g->cpu[unit[v]] += p->latency[v].cpu_ms;
        g->accelerator[unit[v]] += p->latency[v].accelerator_ms;
        g->size[unit[v]] += p->latency[v].size;
        g->supported[unit[v]] = g->supported[unit[v]] && p->latency[v].supported;
    }
}

/* Tensors with their distinct readers outside the source's unit; *tensors of them. */
static size_t placement_graph_collect(const struct placement_problem *p, const uint32_t *unit,
                                      size_t *start, uint32_t *dest,
                                      struct placement_tensor *tensor)
{
    size_t tensors = 0;
    edges_list(p->n, p->edge, p->edges, EDGES_BY_TAIL, start, dest);
    for (size_t e = 0; e < p->edges; e++)
        dest[e] = unit[dest[e]];
    for (size_t u = 0; u < p->n; u++) {
        size_t end = start[u];
        qsort(dest + start[u], start[u + 1] - start[u], sizeof *dest, order_by_id);
        for (size_t i = start[u]; i < start[u + 1]; i++)
            if (dest[i] != unit[u] && (end == start[u] || dest[end - 1] != dest[i]))
                dest[end++] = dest[i];
        if (end > start[u] && p->cost[u] > 0)
            tensor[tensors++] = (struct placement_tensor){unit[u], p->cost[u], start[u], end, dest};
    }
    return tensors;
}

/* Costs of equal tensors add up. */
static void put_nets(const struct placement_tensor *tensor, size_t tensors,
                     struct placement_graph *g)
{
    for (size_t i = 0; i < tensors; i++) {
        const struct placement_tensor *t = &tensor[i];
        if (i > 0 && compare_tensors(t - 1, t) == 0) {
            g->net_cost[g->nets - 1] += t->cost;
            continue;
        }
        size_t at = g->net_start[g->nets], n = t->end - t->start;
        memcpy(g->net_dest + at, t->dest + t->start, n * sizeof *t->dest);
        g->net_source[g->nets] = t->source;
        g->net_cost[g->nets++] = t->cost;
        g->net_start[g->nets] = at + n;
    }
}

/* The nets of every unit, as source or as reader. */
static void put_pins(struct placement_graph *g)
{
    for (size_t t = 0; t < g->nets; t++) {
        g->pin_start[g->net_source[t] + 2]++;
        for (size_t i = g->net_start[t]; i < g->net_start[t + 1]; i++)
            g->pin_start[g->net_dest[i] + 2]++;
    }
    for (size_t v = 0; v < g->n; v++)
        g->pin_start[v + 2] += g->pin_start[v + 1];
    for (uint32_t t = 0; t < g->nets; t++) {
        g->pin[g->pin_start[g->net_source[t] + 1]++] = (struct placement_pin){t, true};
        for (size_t i = g->net_start[t]; i < g->net_start[t + 1]; i++)
            g->pin[g->pin_start[g->net_dest[i] + 1]++] = (struct placement_pin){t, false};
    }
}

enum status placement_graph_build(const struct placement_problem *p, const uint32_t *unit, size_t n,
                                  struct placement_graph *g)
{
    size_t *start;
    uint32_t *dest;
    struct placement_tensor *tensor;
    PASS(placement_graph_allocate(p, n, g));
    PASS(ARENA_NEW(&g->memory, start, p->n + 2));
    PASS(ARENA_NEW(&g->memory, dest, p->edges + 1));
    PASS(ARENA_NEW(&g->memory, tensor, p->n));
    placement_graph_weigh(p, unit, g);
    size_t tensors = placement_graph_collect(p, unit, start, dest, tensor);
    qsort(tensor, tensors, sizeof *tensor, compare_tensors);
    put_nets(tensor, tensors, g);
    put_pins(g);
    return STATUS_OK;
}

void placement_graph_free(struct placement_graph *g)
{
    arena_free(&g->memory);
    *g = (struct placement_graph){0};
}
