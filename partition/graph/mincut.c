/* Halves of halves, each by a minimum cut between what must be before it and what must be behind
 * it. The flow network has a vertex for every tensor, so that it counts once whoever reads it, and
 * edges back that no cut can cross, so that what is before the cut is a down-set. */
#include <string.h>

#include "partition/graph/weighed.h"

/* Of the load of a part, what either side of its cut has at least: the nearer to half, the fewer
 * cuts are left. */
static const double least = 0.3;

struct halving {
    const struct units *u;
    double *load;     /* [n] seconds of a unit */
    uint32_t *vertex; /* [n] of a unit, in the network of its part */
    double *key;
};

struct network_builder {
    igraph_vector_int_t ends;
    igraph_vector_t capacity;
};

static enum status add_edge(struct network_builder *b, size_t from, size_t to, double capacity)
{
    PASS(from_igraph(igraph_vector_int_push_back(&b->ends, (igraph_integer_t)from)));
    PASS(from_igraph(igraph_vector_int_push_back(&b->ends, (igraph_integer_t)to)));
    return from_igraph(igraph_vector_push_back(&b->capacity, capacity));
}

/* Vertices: units of the part, source, sink, tensors. `infinite`: more than all bytes. */
static enum status add_unit(const struct halving *h, struct network_builder *b, uint32_t unit,
                            size_t *vertices, double infinite)
{
    const struct units *u = h->u;
    for (size_t k = u->made_start[unit]; k < u->made_start[unit + 1]; k++) {
        size_t tensor = SIZE_MAX;
        for (size_t r = u->reader_start[k]; r < u->reader_start[k + 1]; r++) {
            uint32_t reader = u->reader[r];
            if (h->vertex[reader] == UINT32_MAX)
                continue;
            if (tensor == SIZE_MAX) {
                tensor = (*vertices)++;
                PASS(add_edge(b, h->vertex[unit], tensor, u->tensor[k].bytes + 1));
            }
            PASS(add_edge(b, tensor, h->vertex[reader], infinite));
            PASS(add_edge(b, h->vertex[reader], h->vertex[unit], infinite));
        }
    }
    return STATUS_OK;
}

/* The units of a part in a topological order: which of them are before its minimum cut. */
static enum status find_half(const struct halving *h, const uint32_t *unit, size_t n, bool *before)
{
    enum status st;
    struct network_builder b = {0};
    igraph_vector_int_t side = {0}, other = {0};
    igraph_t graph;
    bool has_graph = false;
    size_t vertices = n + 2;
    double all = 0, sum = 0, infinite = 1;
    TRY_IGRAPH(igraph_vector_int_init(&b.ends, 0));
    TRY_IGRAPH(igraph_vector_init(&b.capacity, 0));
    TRY_IGRAPH(igraph_vector_int_init(&side, 0));
    TRY_IGRAPH(igraph_vector_int_init(&other, 0));
    for (size_t k = 0; k < h->u->tensors; k++)
        infinite += h->u->tensor[k].bytes + 1;
    for (size_t k = 0; k < n; k++) {
        h->vertex[unit[k]] = (uint32_t)k;
        all += h->load[unit[k]];
    }
    for (size_t k = 0; k < n; k++) {
        TRY(add_unit(h, &b, unit[k], &vertices, infinite));
        if (sum + h->load[unit[k]] <= least * all || k == 0)
            TRY(add_edge(&b, n, k, infinite));
        else if (sum >= (1 - least) * all || k + 1 == n)
            TRY(add_edge(&b, k, n + 1, infinite));
        sum += h->load[unit[k]];
    }
    TRY_IGRAPH(igraph_create(&graph, &b.ends, (igraph_integer_t)vertices, IGRAPH_DIRECTED));
    has_graph = true;
    TRY_IGRAPH(igraph_maxflow(&graph, NULL, NULL, NULL, &side, &other, (igraph_integer_t)n,
                              (igraph_integer_t)n + 1, &b.capacity, NULL));
    memset(before, 0, n * sizeof *before);
    for (igraph_integer_t k = 0; k < igraph_vector_int_size(&side); k++)
        if (VECTOR(side)[k] < (igraph_integer_t)n)
            before[VECTOR(side)[k]] = true;
out:
    for (size_t k = 0; k < n; k++)
        h->vertex[unit[k]] = UINT32_MAX;
    if (has_graph)
        igraph_destroy(&graph);
    igraph_vector_int_destroy(&other);
    igraph_vector_int_destroy(&side);
    igraph_vector_destroy(&b.capacity);
    igraph_vector_int_destroy(&b.ends);
    return st;
}

/* Keys of the part's units: those of its first half are smaller. Units stay in the model's order
 * within a part. */
static enum status halve(const struct halving *h, uint32_t *unit, size_t n, size_t parts,
                         double first)
{
    enum status st;
    struct arena a = {0};
    bool *before;
    uint32_t *behind;
    size_t kept = 0, rest = 0;
    for (size_t k = 0; k < n; k++)
        h->key[unit[k]] = first + (double)k;
    if (parts < 2 || n < 4)
        return STATUS_OK;
    TRY(ARENA_NEW(&a, before, n));
    TRY(ARENA_NEW(&a, behind, n));
    TRY(find_half(h, unit, n, before));
    for (size_t k = 0; k < n; k++)
        if (before[k])
            unit[kept++] = unit[k];
        else
            behind[rest++] = unit[k];
    memcpy(unit + kept, behind, rest * sizeof *unit);
    TRY(halve(h, unit, kept, (parts + 1) / 2, first));
    TRY(halve(h, unit + kept, rest, (parts + 1) / 2, first + (double)kept));
out:
    arena_free(&a);
    return st;
}

enum status proposer_mincut(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct arena a = {0};
    struct halving h = {.u = u, .key = key};
    uint32_t *unit;
    igraph_set_error_handler(igraph_error_handler_ignore);
    TRY(ARENA_NEW(&a, h.load, u->n));
    TRY(ARENA_NEW(&a, h.vertex, u->n));
    TRY(ARENA_NEW(&a, unit, u->n));
    for (uint32_t k = 0; k < u->n; k++) {
        h.load[k] = u->forward_s[k] + u->backward_s[k];
        h.vertex[k] = UINT32_MAX;
        unit[k] = k;
    }
    TRY(halve(&h, unit, u->n, parts, 0));
out:
    arena_free(&a);
    return st;
}
