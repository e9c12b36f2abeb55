#include "partition/published/placement/graph.h"

#include "core/array.h"

#include <stdlib.h>
#include <string.h>

/* A tensor while nets are built: its readers are dest[start .. end). */
struct tensor {
    uint32_t source;
    double cost;
    size_t start, end;
    const uint32_t *dest;
};

static int compare_tensors(const void *a, const void *b)
{
    const struct tensor *x = a, *y = b;
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

static int compare_units(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static enum status allocate(const struct placement_problem *p, size_t n, struct placement_graph *g)
{
    g->n = n;
    PASS(ARRAY_NEW(g->cpu, n));
    PASS(ARRAY_NEW(g->accelerator, n));
    PASS(ARRAY_NEW(g->size, n));
    PASS(ARRAY_NEW(g->supported, n));
    PASS(ARRAY_NEW(g->unit, p->n));
    PASS(ARRAY_NEW(g->net_source, p->n));
    PASS(ARRAY_NEW(g->net_cost, p->n));
    PASS(ARRAY_NEW(g->net_start, p->n + 1));
    PASS(ARRAY_NEW(g->net_dest, p->edges + 1));
    PASS(ARRAY_NEW(g->pin_start, n + 2));
    PASS(ARRAY_NEW(g->pin, p->edges + p->n));
    return STATUS_OK;
}

static void weigh(const struct placement_problem *p, const uint32_t *unit,
                  struct placement_graph *g)
{
    memset(g->supported, 1, g->n * sizeof *g->supported);
    for (size_t v = 0; v < p->n; v++) {
        g->unit[v] = unit[v];
        g->cpu[unit[v]] += p->cpu[v];
        g->accelerator[unit[v]] += p->accelerator[v];
        g->size[unit[v]] += p->size[v];
        g->supported[unit[v]] = g->supported[unit[v]] && p->supported[v];
    }
}

/* Tensors with their distinct readers outside the source's unit; *tensors of them. */
static size_t collect(const struct placement_problem *p, const uint32_t *unit, size_t *start,
                      uint32_t *dest, struct tensor *tensor)
{
    size_t tensors = 0;
    for (size_t e = 0; e < p->edges; e++)
        start[p->source[e] + 2]++;
    for (size_t v = 0; v < p->n; v++)
        start[v + 2] += start[v + 1];
    for (size_t e = 0; e < p->edges; e++)
        dest[start[p->source[e] + 1]++] = unit[p->dest[e]];
    for (size_t u = 0; u < p->n; u++) {
        size_t end = start[u];
        qsort(dest + start[u], start[u + 1] - start[u], sizeof *dest, compare_units);
        for (size_t i = start[u]; i < start[u + 1]; i++)
            if (dest[i] != unit[u] && (end == start[u] || dest[end - 1] != dest[i]))
                dest[end++] = dest[i];
        if (end > start[u] && p->cost[u] > 0)
            tensor[tensors++] = (struct tensor){unit[u], p->cost[u], start[u], end, dest};
    }
    return tensors;
}

static void put_nets(const struct tensor *tensor, size_t tensors, struct placement_graph *g)
{
    for (size_t i = 0; i < tensors; i++) {
        const struct tensor *t = &tensor[i];
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
                                  struct placement_graph *out)
{
    enum status st;
    struct placement_graph g = {0};
    size_t *start = calloc(p->n + 2, sizeof *start);
    uint32_t *dest = calloc(p->edges + 1, sizeof *dest);
    struct tensor *tensor = calloc(p->n, sizeof *tensor);
    if (!start || !dest || !tensor) {
        st = error_set(STATUS_NOMEM, "%zu nodes", p->n);
        goto out;
    }
    TRY(allocate(p, n, &g));
    weigh(p, unit, &g);
    size_t tensors = collect(p, unit, start, dest, tensor);
    qsort(tensor, tensors, sizeof *tensor, compare_tensors);
    put_nets(tensor, tensors, &g);
    put_pins(&g);
    *out = g;
    g = (struct placement_graph){0};
out:
    placement_graph_free(&g);
    free(start);
    free(dest);
    free(tensor);
    return st;
}

void placement_graph_free(struct placement_graph *g)
{
    free(g->cpu);
    free(g->accelerator);
    free(g->size);
    free(g->supported);
    free(g->net_source);
    free(g->net_cost);
    free(g->net_start);
    free(g->net_dest);
    free(g->pin_start);
    free(g->pin);
    free(g->succ_start);
    free(g->pred_start);
    free(g->succ);
    free(g->pred);
    free(g->unit);
    *g = (struct placement_graph){0};
}
