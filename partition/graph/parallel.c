/* Stages side by side: an order of units is cut into layers of two stages, the first of one or of
 * two; of a layer for two, what hangs together goes to the one that computes less. Of several
 * orders and places of layers the one with the fastest slowest stage is proposed. */
#include <math.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "partition/graph/proposers.h"

/* Units of a layer that hang together. */
struct piece {
    double seconds;
    uint32_t root, layer;
};

struct layered {
    const struct units *u;
    size_t parts, first;     /* stages that are wanted; in the first layer: 1, 2 */
    double all_s;            /* what all units compute */
    uint32_t *order, *layer; /* [u->n] */
    uint32_t *parent;        /* [u->n] of a union-find, inside layers */
    uint32_t *stage;         /* [u->n] of a root */
    double *sum_s, *stage_s; /* [u->n] of what hangs together; [parts] */
    struct piece *piece;     /* [u->n] */
    double best_s;           /* slowest stage, times the passes of a long iteration */
    struct arena memory;
};

/* Parts of a stage by which layers are earlier or later. */
static const double shifts[] = {0, -0.1, 0.1, -0.2, 0.2};

static const struct graph_proposer orders[] = {{.keys = proposer_levels},
                                               {.keys = proposer_file},
                                               {.keys = proposer_narrow},
                                               {.keys = proposer_late}};

static uint32_t root_of(uint32_t *parent, uint32_t k)
{
    while (parent[k] != k)
        k = parent[k] = parent[parent[k]];
    return k;
}

static enum status layered_make(const struct units *u, size_t parts, struct layered *x)
{
    *x = (struct layered){.u = u, .parts = parts, .best_s = INFINITY};
    PASS(ARENA_NEW(&x->memory, x->order, u->n));
    PASS(ARENA_NEW(&x->memory, x->layer, u->n));
    PASS(ARENA_NEW(&x->memory, x->parent, u->n));
    PASS(ARENA_NEW(&x->memory, x->stage, u->n));
    PASS(ARENA_NEW(&x->memory, x->sum_s, u->n));
    PASS(ARENA_NEW(&x->memory, x->stage_s, parts));
    PASS(ARENA_NEW(&x->memory, x->piece, u->n));
    for (size_t k = 0; k < u->n; k++)
        x->all_s += u->forward_s[k] + u->backward_s[k];
    return STATUS_OK;
}

/* A layer ends where its stages would, if stages followed one another. */
static void find_layers(struct layered *x, double shift)
{
    const struct units *u = x->u;
    double so_far_s = 0, last = (double)x->parts - 0.5;
    for (size_t i = 0; i < u->n; i++) {
        uint32_t k = x->order[i];
        double place = x->all_s > 0 ? so_far_s / x->all_s * (double)x->parts + shift : 0;
        x->layer[k] = (uint32_t)(fmax(0, fmin(place, last)) + (double)(2 - x->first)) / 2;
        x->parent[k] = k;
        x->sum_s[k] = 0;
        so_far_s += u->forward_s[k] + u->backward_s[k];
    }
    for (size_t t = 0; t < u->tensors; t++)
        for (size_t r = u->reader_start[t]; r < u->reader_start[t + 1]; r++) {
            uint32_t a = u->tensor[t].from, b = u->reader[r];
            if (x->layer[a] == x->layer[b])
                x->parent[root_of(x->parent, a)] = root_of(x->parent, b);
        }
    for (uint32_t k = 0; k < u->n; k++)
        x->sum_s[root_of(x->parent, k)] += u->forward_s[k] + u->backward_s[k];
}

/* By layers, the longest first: so few leave the sides uneven. */
static int compare_pieces(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = (x->layer > y->layer) - (x->layer < y->layer);
    order = order ? order : (x->seconds < y->seconds) - (x->seconds > y->seconds);
    return order ? order : (x->root > y->root) - (x->root < y->root);
}

/* Pieces get their stages; returns what best_s is the least of. */
static double find_stages(struct layered *x)
{
    size_t n = 0;
    double slowest_s = 0;
    for (uint32_t k = 0; k < x->u->n; k++)
        if (x->parent[k] == k)
            x->piece[n++] = (struct piece){x->sum_s[k], k, x->layer[k]};
    qsort(x->piece, n, sizeof *x->piece, compare_pieces);
    for (size_t s = 0; s < x->parts; s++)
        x->stage_s[s] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t d = x->piece[i].layer, s = d > 0 ? x->first + 2 * (d - 1) : 0;
        bool two = (d > 0 || x->first == 2) && s + 1 < x->parts;
        if (two && x->stage_s[s + 1] < x->stage_s[s])
            s++;
        x->stage_s[s] += x->piece[i].seconds;
        x->stage[x->piece[i].root] = (uint32_t)s;
        slowest_s = fmax(slowest_s, x->stage_s[s]);
    }
    return slowest_s * (double)(2 * x->parts + x->piece[n - 1].layer);
}

/* What goes to a stage gets its number as the whole part of the key. */
static void note_better(struct layered *x, double *key)
{
    double now_s = find_stages(x);
    if (now_s >= x->best_s)
        return;
    x->best_s = now_s;
    for (size_t i = 0; i < x->u->n; i++) {
        uint32_t k = x->order[i];
        key[k] = x->stage[root_of(x->parent, k)] + (double)i / (double)x->u->n / 2;
    }
}

enum status proposer_parallel(const struct units *u, size_t parts, double *key)
{
    enum status st;
    struct layered x;
    TRY(layered_make(u, parts, &x));
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        TRY(proposers_order(&orders[o], u, parts, x.order, NULL));
        for (x.first = 1; x.first <= 2; x.first++)
            for (size_t k = 0; k < sizeof shifts / sizeof *shifts; k++) {
                find_layers(&x, shifts[k]);
                note_better(&x, key);
            }
    }
out:
    arena_free(&x.memory);
    return st;
}
