/* Levels of groups of devices by Kruskal's algorithm over the map of pairs. */
#include "partition/tiers.h"

#include <stdlib.h>

#include "core/base/array.h"
#include "partition/tiers_levels.h"

enum {
    SIDE = TOPOLOGY_MAP_SIDE,
    CELLS = TOPOLOGY_MAP_CELLS,
    BITS = TOPOLOGY_MAP_BITS,
    MANY_TIERS = 32,
    MOST_MEASURED = 512, /* devices */
};

/* ---- levels */

void tiers_free(struct tiers *x)
{
    arena_free(&x->memory);
    *x = (struct tiers){0};
}

enum status tiers_add(struct tiers *x, const uint32_t *class_of, uint32_t tier)
{
    struct tiers_level level = {.tier = tier, .smallest = x->devices};
    uint32_t *number; /* [devices] of a class, + 1 */
    size_t *size;     /* [devices] of a group */
    PASS(ARENA_NEW(&x->memory, number, x->devices));
    PASS(ARENA_NEW(&x->memory, size, x->devices));
    PASS(ARENA_NEW(&x->memory, level.group_of, x->devices));
    PASS(ARENA_ROOM(&x->memory, x->level, x->levels));
    for (size_t i = 0; i < x->devices; i++) {
        if (!number[class_of[i]])
            number[class_of[i]] = (uint32_t)++level.groups;
        level.group_of[i] = number[class_of[i]] - 1;
        size[level.group_of[i]]++;
    }
    for (size_t g = 0; g < level.groups; g++) {
        level.smallest = size[g] < level.smallest ? size[g] : level.smallest;
        level.largest = size[g] > level.largest ? size[g] : level.largest;
    }
    x->level[x->levels++] = level;
    return STATUS_OK;
}

/* Equal sizes on every level mean equal numbers of parts. */
static enum status count_parts(struct tiers *x)
{
    for (size_t l = 0; l < x->levels; l++)
        if (x->level[l].smallest != x->level[l].largest)
            return STATUS_OK;
    PASS(ARENA_NEW(&x->memory, x->k_values, x->levels));
    for (size_t l = 0; l < x->levels; l++)
        x->k_values[x->levels - 1 - l] =
            (l > 0 ? x->level[l - 1].groups : x->devices) / x->level[l].groups;
    return STATUS_OK;
}

size_t tiers_joining(const struct tiers *x, uint32_t a, uint32_t b)
{
    size_t l = 0;
    if (a == b)
        return SIZE_MAX;
    while (x->level[l].group_of[a] != x->level[l].group_of[b])
        l++;
    return l;
}

/* ---- closeness */

static int tiers_compare(const struct topology_tier *a, const struct topology_tier *b)
{
    if (a->bandwidth_Bps < b->bandwidth_Bps || a->bandwidth_Bps > b->bandwidth_Bps)
        return a->bandwidth_Bps > b->bandwidth_Bps ? -1 : 1;
    return (a->latency_s > b->latency_s) - (a->latency_s < b->latency_s);
}

int tiers_by_closeness(const void *a, const void *b)
{
    const struct tiers_closeness *x = a, *y = b;
    int order = tiers_compare(&x->tier, &y->tier);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

uint32_t tiers_slower(const struct topology *t, uint32_t a, uint32_t b)
{
    uint32_t forth = topology_map_at(&t->between, a, b), back = topology_map_at(&t->between, b, a);
    return tiers_compare(&t->tier[forth], &t->tier[back]) < 0 ? back : forth;
}

bool tiers_unite(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = edges_root(parent, a);
    b = edges_root(parent, b);
    parent[a > b ? a : b] = a > b ? b : a;
    return a != b;
}

/* ---- Kruskal's algorithm over the map */

/* Pairs are joined in the order of their classes, the closest first, as Kruskal's algorithm takes
 * edges: a pair of two trees makes them one. When a class is through, the trees are the groups of a
 * level, if any were joined. Pairs are never listed: of a class they are found in the tree of
 * squares, where a square is passed over when its closest pair belongs to a later class
 * (least[] > now), or when both its blocks are in one tree already (joined[]).
 *
 * A block of level l is 16^l devices. */
struct join {
    const struct topology_map *map;
    size_t n, trees, classes;
    uint32_t *class_of;                    /* [tiers] closest first */
    uint32_t *tier_of;                     /* [tiers] the slowest tier of each class */
    uint32_t *least[TOPOLOGY_MAP_LEVELS];  /* [squares] of the classes in a square */
    bool *joined[TOPOLOGY_MAP_LEVELS + 1]; /* [blocks] all devices are in one tree */
    uint32_t *parent;                      /* [n] */
    uint32_t now;                          /* pairs of this class are being joined */
    struct arena memory;
};

static size_t tiers_blocks(const struct join *j, unsigned l)
{
    return ((j->n - 1) >> (l * BITS)) + 1;
}

/* One class per closeness, or (`coarse`) per run of bandwidths without a gap. */
static enum status tiers_classify(const struct topology *t, bool coarse, struct join *j)
{
    struct tiers_closeness *sorted;
    PASS(ARENA_NEW(&j->memory, sorted, t->tiers));
    PASS(ARENA_NEW(&j->memory, j->class_of, t->tiers));
    PASS(ARENA_NEW(&j->memory, j->tier_of, t->tiers + 1));
    for (size_t k = 0; k < t->tiers; k++)
        sorted[k] = (struct tiers_closeness){t->tier[k], (uint32_t)k};
    qsort(sorted, t->tiers, sizeof *sorted, tiers_by_closeness);
    for (size_t k = 0; k < t->tiers; k++) {
        const struct topology_tier *own = &sorted[k].tier,
                                   *last = k > 0 ? &sorted[k - 1].tier : own;
        bool falls = coarse ? last->bandwidth_Bps > tiers_gap * own->bandwidth_Bps
                            : tiers_compare(last, own) != 0;
        j->classes += k == 0 || falls;
        j->class_of[sorted[k].index] = (uint32_t)j->classes - 1;
        j->tier_of[j->classes - 1] = sorted[k].index;
    }
    return STATUS_OK;
}

static enum status join_begin(const struct topology *t, bool coarse, struct join *j)
{
    *j = (struct join){.map = &t->between, .n = t->n, .trees = t->n};
    PASS(tiers_classify(t, coarse, j));
    PASS(ARENA_NEW(&j->memory, j->parent, t->n));
    for (unsigned l = 0; l < j->map->levels; l++)
        PASS(ARENA_NEW(&j->memory, j->least[l], j->map->squares[l]));
    for (unsigned l = 0; l <= j->map->levels; l++)
        PASS(ARENA_NEW(&j->memory, j->joined[l], tiers_blocks(j, l)));
    for (uint32_t i = 0; i < t->n; i++)
        j->parent[i] = i;
    for (unsigned l = 0; l < j->map->levels; l++)
        for (size_t s = 0; s < j->map->squares[l]; s++) {
            const uint32_t *cell = j->map->cell[l] + s * CELLS;
            j->least[l][s] = UINT32_MAX;
            for (size_t c = 0; c < CELLS; c++) {
                uint32_t own = l > 0 ? j->least[l - 1][cell[c]] : j->class_of[cell[c]];
                j->least[l][s] = own < j->least[l][s] ? own : j->least[l][s];
            }
        }
    return STATUS_OK;
}

/* Are all devices of the block in one tree? Once so, always so: it is remembered. */
static bool is_joined(struct join *j, unsigned l, uint32_t block)
{
    if (l == 0 || j->joined[l][block])
        return true;
    uint32_t first = block * SIDE;
    uint32_t root = edges_root(j->parent, block << (l * BITS));
    for (uint32_t b = first; b < first + SIDE && b < tiers_blocks(j, l - 1); b++)
        if (!is_joined(j, l - 1, b) || edges_root(j->parent, b << ((l - 1) * BITS)) != root)
            return false;
    return j->joined[l][block] = true;
}

static bool are_joined(struct join *j, unsigned l, uint32_t a, uint32_t b)
{
    return edges_root(j->parent, a << (l * BITS)) == edges_root(j->parent, b << (l * BITS)) &&
           is_joined(j, l, a) && is_joined(j, l, b);
}

/* Join the pairs of class j->now between blocks a <= b of level l + 1.
 *   there, back  the squares of a's rows and b's columns, and the other way round */
static void tiers_join_pairs(struct join *j, unsigned l, uint32_t a, uint32_t b, uint32_t there,
                             uint32_t back)
{
    const uint32_t *forth = j->map->cell[l] + (size_t)there * CELLS;
    const uint32_t *home = j->map->cell[l] + (size_t)back * CELLS;
    for (uint32_t r = 0; r < SIDE && a * SIDE + r < tiers_blocks(j, l); r++)
        for (uint32_t c = a == b ? r + (l == 0) : 0; c < SIDE && b * SIDE + c < tiers_blocks(j, l);
             c++) {
            uint32_t x = a * SIDE + r, y = b * SIDE + c;
            uint32_t there_in = forth[r * SIDE + c], back_in = home[c * SIDE + r];
            const uint32_t *least = l > 0 ? j->least[l - 1] : j->class_of; /* exact at level 0 */
            if (least[there_in] > j->now || least[back_in] > j->now)
                continue;
            if (l == 0)
                j->trees -= tiers_unite(j->parent, x, y);
            else if (!are_joined(j, l, x, y))
                tiers_join_pairs(j, l - 1, x, y, there_in, back_in);
        }
}

/* One round for each class until there is one tree. */
static enum status join_all(const struct topology *t, bool coarse, struct tiers *x)
{
    enum status st;
    struct join j;
    uint32_t *root;
    TRY(join_begin(t, coarse, &j));
    TRY(ARENA_NEW(&j.memory, root, t->n));
    for (; j.trees > 1; j.now++) {
        size_t before = j.trees;
        if (j.map->levels > 0)
            tiers_join_pairs(&j, j.map->levels - 1, 0, 0, 0, 0);
        else
            j.trees = 1; /* tier 0 everywhere */
        for (uint32_t i = 0; i < t->n; i++)
            root[i] = j.map->levels > 0 ? edges_root(j.parent, i) : 0;
        if (j.trees < before)
            TRY(tiers_add(x, root, j.tier_of[j.map->levels > 0 ? j.now : j.class_of[0]]));
    }
out:
    arena_free(&j.memory);
    return st;
}

enum status tiers_find(const struct topology *t, struct tiers *out)
{
    enum status st = STATUS_OK;
    struct tiers x = {.devices = t->n};
    x.measured = t->tiers > MANY_TIERS || (t->tiers > 1 && 2 * t->tiers >= t->n * (t->n - 1));
    if (x.measured && t->n <= MOST_MEASURED)
        TRY(tiers_estimate(t, &x));
    else
        TRY(join_all(t, x.measured, &x));
    TRY(count_parts(&x));
    MOVE(out, x);
out:
    tiers_free(&x);
    return st;
}
