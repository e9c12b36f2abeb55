/* Stages side by side: units are cut into layers of one stage, of two, ..., of two, of one, by
 * their levels; of a layer for two stages, what hangs together goes to the one that computes less.
 */
#include "core/base/array.h"
#include "partition/graph/proposers.h"

struct layered {
    const struct units *u;
    uint32_t *order, *layer; /* [u->n] by levels */
    uint32_t *parent;        /* [u->n] of a union-find, inside layers */
    double *sum_s, *side_s;  /* [u->n] of what hangs together; [layers][2] */
    int8_t *side;            /* [u->n] of what hangs together, -1: none yet */
    struct arena memory;
};

static double seconds_of(const struct units *u, uint32_t k)
{
    return u->forward_s[k] + u->backward_s[k];
}

static uint32_t root_of(uint32_t *parent, uint32_t k)
{
    while (parent[k] != k)
        k = parent[k] = parent[parent[k]];
    return k;
}

static enum status layered_make(const struct units *u, struct layered *x)
{
    const struct graph_proposer levels = {.keys = proposer_levels};
    x->u = u;
    PASS(ARENA_NEW(&x->memory, x->order, u->n));
    PASS(ARENA_NEW(&x->memory, x->layer, u->n));
    PASS(ARENA_NEW(&x->memory, x->parent, u->n));
    PASS(ARENA_NEW(&x->memory, x->sum_s, u->n));
    PASS(ARENA_NEW(&x->memory, x->side_s, 2 * (u->n + 2)));
    PASS(ARENA_NEW(&x->memory, x->side, u->n));
    return proposers_order(&levels, u, 1, x->order);
}

/* Layer d >= 1 ends where stages 0 .. 2 d would. */
static void find_layers(struct layered *x, size_t parts)
{
    const struct units *u = x->u;
    double all_s = 0, so_far_s = 0;
    for (uint32_t k = 0; k < u->n; k++)
        all_s += seconds_of(u, k);
    for (size_t i = 0; i < u->n; i++) {
        uint32_t k = x->order[i];
        double stage = all_s > 0 ? so_far_s / all_s * (double)parts : 0;
        x->layer[k] = ((uint32_t)stage + 1) / 2;
        x->parent[k] = k;
        x->side[k] = -1;
        so_far_s += seconds_of(u, k);
    }
    for (size_t t = 0; t < u->tensors; t++)
        for (size_t r = u->reader_start[t]; r < u->reader_start[t + 1]; r++) {
            uint32_t a = u->tensor[t].from, b = u->reader[r];
            if (x->layer[a] == x->layer[b])
                x->parent[root_of(x->parent, a)] = root_of(x->parent, b);
        }
    for (uint32_t k = 0; k < u->n; k++)
        x->sum_s[root_of(x->parent, k)] += seconds_of(u, k);
}

/* In the order of levels: whatever hangs together goes where less is. */
static void find_sides(struct layered *x)
{
    for (size_t i = 0; i < x->u->n; i++) {
        uint32_t root = root_of(x->parent, x->order[i]);
        double *side_s = x->side_s + (size_t)2 * x->layer[root];
        if (x->side[root] < 0) {
            x->side[root] = side_s[1] < side_s[0];
            side_s[x->side[root]] += x->sum_s[root];
        }
    }
}

enum status proposer_parallel(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct layered x = {0};
    TRY(layered_make(u, &x));
    find_layers(&x, parts);
    find_sides(&x);
    for (size_t i = 0; i < u->n; i++) {
        uint32_t k = x.order[i];
        key[k] = 2.0 * x.layer[k] + x.side[root_of(x.parent, k)] + (double)i / (double)u->n / 2;
    }
out:
    arena_free(&x.memory);
    return st;
}
