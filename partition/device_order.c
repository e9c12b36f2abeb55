/* A walk from neighbour to neighbour that passes over blocks of devices. */
#include "partition/device_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "partition/tiers.h"

enum { SIDE = TOPOLOGY_MAP_SIDE, CELLS = TOPOLOGY_MAP_CELLS, BITS = TOPOLOGY_MAP_BITS };

static const double reference_bytes = 1048576;

/* The walk is a branch and bound at each step: the map of pairs is a tree of squares of 16 x 16
 * entries, whose entries are squares of the level below, or tiers at level 0, and shortest_s[] is a
 * lower bound of all pairs in a square. Blocks of 16, 256, ... devices are passed over when all of
 * them were visited, or when none can be nearer than what is found already. */
struct order_walk {
    const struct topology_map *map;
    size_t n;
    double *transfer_s;                      /* [tiers] one way */
    double *shortest_s[TOPOLOGY_MAP_LEVELS]; /* [squares] least of all entries of a square */
    uint32_t *left[TOPOLOGY_MAP_LEVELS];     /* [blocks of 16^l devices] not visited yet */
    uint32_t at;                             /* where the walk stands */
    double nearest_s;                        /* there and back */
    uint32_t nearest;
    struct arena memory;
};

/* What a cell of a square of level `l` takes at least, one way. */
static double shortest(const struct order_walk *w, unsigned l, uint32_t cell)
{
    return l == 0 ? w->transfer_s[cell] : w->shortest_s[l - 1][cell];
}

static enum status walk_begin(const struct topology *t, struct order_walk *w)
{
    *w = (struct order_walk){.map = &t->between, .n = t->n};
    PASS(ARENA_NEW(&w->memory, w->transfer_s, t->tiers));
    for (size_t k = 0; k < t->tiers; k++)
        w->transfer_s[k] = t->tier[k].latency_s + reference_bytes / t->tier[k].bandwidth_Bps;
    for (unsigned l = 0; l < w->map->levels; l++) {
        size_t squares = w->map->squares[l], blocks = ((t->n - 1) >> (l * BITS)) + 1;
        PASS(ARENA_NEW(&w->memory, w->shortest_s[l], squares));
        PASS(ARENA_NEW(&w->memory, w->left[l], blocks));
        for (size_t s = 0; s < squares; s++) {
            w->shortest_s[l][s] = INFINITY;
            for (size_t c = 0; c < CELLS; c++)
                w->shortest_s[l][s] =
                    fmin(w->shortest_s[l][s], shortest(w, l, w->map->cell[l][s * CELLS + c]));
        }
        for (size_t d = 0; d < t->n; d++)
            w->left[l][d >> (l * BITS)]++;
    }
    return STATUS_OK;
}

static void visit(struct order_walk *w, uint32_t device)
{
    for (unsigned l = 0; l < w->map->levels; l++)
        w->left[l][device >> (l * BITS)]--;
    w->at = device;
}

/* Look for the nearest device not visited among those of block `block` of level l + 1.
 *   there, back  the squares that hold the rows and columns of w->at and of the block */
static void device_order_find_nearest(struct order_walk *w, unsigned l, uint32_t block,
                                      uint32_t there, uint32_t back)
{
    const uint32_t *forth = w->map->cell[l] + (size_t)there * CELLS;
    const uint32_t *home = w->map->cell[l] + (size_t)back * CELLS;
    uint32_t row = w->at >> (l * BITS) & (SIDE - 1);
    size_t blocks = ((w->n - 1) >> (l * BITS)) + 1;
    for (uint32_t c = 0; c < SIDE && (size_t)block * SIDE + c < blocks; c++) {
        uint32_t inner = block * SIDE + c, a = forth[row * SIDE + c], b = home[c * SIDE + row];
        if (w->left[l][inner] == 0)
            continue;
        double least_s = shortest(w, l, a) + shortest(w, l, b); /* exact at level 0 */
        if (least_s >= w->nearest_s)
            continue; /* ties go to the lower index */
        if (l > 0) {
            device_order_find_nearest(w, l - 1, inner, a, b);
        } else {
            w->nearest_s = least_s;
            w->nearest = inner;
        }
    }
}

/* The next of the tour: device 0 first, then whichever is nearest of those that are left. */
static uint32_t next_of(struct order_walk *w, uint32_t done)
{
    if (done == 0 || w->map->levels == 0)
        return done; /* all equally far */
    w->nearest_s = INFINITY;
    device_order_find_nearest(w, w->map->levels - 1, 0, 0, 0);
    return w->nearest;
}

enum status device_nodes_find(const struct topology *t, struct device_nodes *out)
{
    enum status st;
    struct topology own = *t; /* the same with its nodes numbered, which are all it owns */
    struct device_nodes x = {0};
    if (!t->node_of)
        TRY(topology_find_nodes(&own));
    TRY(ARRAY_COPY(x.node_of, own.node_of, t->n));
    TRY(ARRAY_NEW(x.start, t->n + 2));
    TRY(ARRAY_NEW(x.device, t->n));
    for (size_t d = 0; d < t->n; d++) {
        x.n = x.node_of[d] >= x.n ? x.node_of[d] + 1 : x.n;
        x.start[x.node_of[d] + 2]++;
    }
    for (size_t k = 0; k < x.n; k++)
        x.start[k + 2] += x.start[k + 1];
    for (uint32_t d = 0; d < t->n; d++)
        x.device[x.start[x.node_of[d] + 1]++] = d;
    MOVE(out, x);
out:
    if (!t->node_of)
        free(own.node_of);
    device_nodes_free(&x);
    return st;
}

void device_nodes_free(struct device_nodes *x)
{
    free(x->start);
    free(x->device);
    free(x->node_of);
    *x = (struct device_nodes){0};
}

/* Where the tour comes to a node it takes all of it, in the order of the devices: then replicas and
 * stages that lie side by side are on the same rails. */
enum status device_order_near(const struct topology *t, uint32_t *order)
{
    enum status st;
    struct order_walk w = {0};
    struct device_nodes nodes = {0};
    TRY(walk_begin(t, &w));
    if (t->node_of)
        TRY(device_nodes_find(t, &nodes));
    for (uint32_t k = 0; k < t->n;) {
        uint32_t first = next_of(&w, k);
        size_t node = nodes.n > 0 ? t->node_of[first] : 0;
        for (size_t i = 0; i < (nodes.n > 0 ? device_nodes_size(&nodes, node) : 1); i++)
            visit(&w, order[k++] = nodes.n > 0 ? nodes.device[nodes.start[node] + i] : first);
    }
out:
    device_nodes_free(&nodes);
    arena_free(&w.memory);
    return st;
}

/* ---- other orders */

static const char *const words[DEVICES_PLACEMENTS] = {
    [DEVICES_NEAR] = "near",
    [DEVICES_FRAMEWORK] = "framework",
    [DEVICES_SPREAD] = "spread",
    [DEVICES_OPTIMISED] = "optimised",
};

const char *device_placement_word(size_t i)
{
    return i < DEVICES_PLACEMENTS ? words[i] : NULL;
}

enum device_placement device_placement_of(const char *word)
{
    int i = word ? DEVICES_PLACEMENTS : 0;
    while (i-- > 0)
        if (strcmp(words[i], word) == 0)
            return (enum device_placement)i;
    return DEVICES_NEAR;
}

/* A node on its way through the levels: its place among those of its group so far. */
struct order_node {
    uint32_t group, place, child, node;
};

static int compare_nodes(const void *a, const void *b)
{
    const struct order_node *x = a, *y = b;
    int order = order_by_pair(x, y);
    return order ? order : (x->child > y->child) - (x->child < y->child);
}

/* Nodes of every group alternate between its parts, level after level. */
static enum status order_spread(const struct topology *t, const struct tiers *tiers,
                                uint32_t *order)
{
    enum status st;
    struct device_nodes nodes = {0};
    struct order_node *place = NULL;
    size_t made = 0;
    TRY(device_nodes_find(t, &nodes));
    TRY(ARRAY_NEW(place, nodes.n));
    for (uint32_t k = 0; k < nodes.n; k++)
        place[k] = (struct order_node){.child = k, .node = k};
    for (size_t l = 0; l < tiers->levels; l++) {
        for (size_t k = 0; k < nodes.n; k++) {
            place[k].child = l > 0 ? place[k].group : place[k].child;
            place[k].group = tiers->level[l].group_of[nodes.device[nodes.start[place[k].node]]];
        }
        qsort(place, nodes.n, sizeof *place, compare_nodes);
        for (size_t k = 0; k < nodes.n; k++)
            place[k].place =
                k > 0 && place[k].group == place[k - 1].group ? place[k - 1].place + 1 : 0;
    }
    for (size_t k = 0; k < nodes.n; k++)
        for (size_t i = 0; i < device_nodes_size(&nodes, place[k].node); i++)
            order[made++] = nodes.device[nodes.start[place[k].node] + i];
out:
    device_nodes_free(&nodes);
    free(place);
    return st;
}

enum status device_order_find(const struct topology *t, enum device_placement kind, uint32_t *order)
{
    enum status st = STATUS_OK;
    struct tiers tiers = {0};
    if (kind == DEVICES_NEAR || kind == DEVICES_OPTIMISED)
        return device_order_near(t, order);
    for (uint32_t d = 0; d < t->n; d++)
        order[d] = d;
    if (kind == DEVICES_SPREAD)
        TRY(tiers_find(t, &tiers));
    if (kind == DEVICES_SPREAD)
        TRY(order_spread(t, &tiers, order));
out:
    tiers_free(&tiers);
    return st;
}
