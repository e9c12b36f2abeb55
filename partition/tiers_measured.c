/* Groups of devices whose bandwidths scatter: from averages, which scatter less.
 *
 * Level by level, from single devices on:
 * 1. average() the bandwidths between the groups so far;
 * 2. cut_tree(): join along the maximum spanning tree down to its first gap;
 * 3. find_communities() where bandwidths overlap in what was joined, if they stand out;
 * 4. communities_to_groups(): what is joined becomes the groups of the next level. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "partition/igraph_error.h"
#include "partition/tiers_levels.h"

enum {
    FEWEST = 4, /* groups among which communities are looked for */
    ROUNDS = 8,
    STARTS = 4,
};

static const double contrast = 1.2; /* bandwidth inside over between communities, at least */

/* Two groups and their mean bandwidth. */
struct measured_pair {
    double rate;
    uint32_t a, b;
};

struct estimate {
    const struct topology *t;
    size_t n, k;                       /* devices, groups found so far */
    uint32_t *group;                   /* [n] of each device */
    size_t *size;                      /* [k] devices of each */
    double *rate;                      /* [k * k] mean bandwidth between groups */
    uint32_t *part;                    /* [k] the group that each joins next */
    uint32_t *found;                   /* [k] scratch */
    uint32_t *kept;                    /* [k] likewise */
    struct measured_pair *pair;        /* [pairs] likewise */
    struct tiers_closeness *closeness; /* [pairs] likewise */
    size_t edges;
    igraph_integer_t *edge; /* [2 * edges] both ends of the graph's edges */
    double *weight;         /* [edges] */
    igraph_t graph;
    struct arena memory;
};

static enum status estimate_begin(const struct topology *t, struct estimate *e)
{
    *e = (struct estimate){.t = t, .n = t->n, .k = t->n};
    PASS(ARENA_NEW(&e->memory, e->group, e->n));
    PASS(ARENA_NEW(&e->memory, e->size, e->n));
    PASS(ARENA_NEW(&e->memory, e->rate, e->n * e->n));
    PASS(ARENA_NEW(&e->memory, e->part, e->n));
    PASS(ARENA_NEW(&e->memory, e->found, e->n));
    PASS(ARENA_NEW(&e->memory, e->kept, e->n));
    PASS(ARENA_NEW(&e->memory, e->pair, e->n * e->n / 2));
    PASS(ARENA_NEW(&e->memory, e->closeness, e->n * e->n / 2));
    PASS(ARENA_NEW(&e->memory, e->edge, e->n * e->n));
    PASS(ARENA_NEW(&e->memory, e->weight, e->n * e->n / 2));
    for (uint32_t i = 0; i < e->n; i++)
        e->group[i] = i;
    igraph_set_error_handler(igraph_error_handler_ignore);
    return STATUS_OK;
}

static void average(struct estimate *e)
{
    memset(e->size, 0, e->k * sizeof *e->size);
    memset(e->rate, 0, e->k * e->k * sizeof *e->rate);
    for (uint32_t i = 0; i < e->n; i++) {
        e->size[e->group[i]]++;
        for (uint32_t k = 0; k < e->n; k++)
            if (e->group[i] != e->group[k])
                e->rate[e->group[i] * e->k + e->group[k]] +=
                    e->t->tier[tiers_slower(e->t, i, k)].bandwidth_Bps;
    }
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = 0; b < e->k; b++)
            e->rate[a * e->k + b] /= (double)(e->size[a] * e->size[b]);
}

static int faster(const void *a, const void *b)
{
    const struct measured_pair *x = a, *y = b;
    if (x->rate < y->rate || x->rate > y->rate)
        return x->rate > y->rate ? -1 : 1;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

/* e->part: what Kruskal's maximum spanning tree has joined when the bandwidth of its next branch
 * falls by a gap (Gower & Ross 1969: cutting the tree there gives the same). */
static void cut_tree(struct estimate *e)
{
    size_t pairs = 0;
    double last = INFINITY;
    for (uint32_t a = 0; a < e->k; a++) {
        e->part[a] = a;
        for (uint32_t b = a + 1; b < e->k; b++)
            e->pair[pairs++] = (struct measured_pair){e->rate[a * e->k + b], a, b};
    }
    qsort(e->pair, pairs, sizeof *e->pair, faster);
    for (const struct measured_pair *p = e->pair; p < e->pair + pairs; p++) {
        if (edges_root(e->part, p->a) == edges_root(e->part, p->b))
            continue;
        if (isfinite(last) && last > tiers_gap * p->rate)
            break;
        tiers_unite(e->part, p->a, p->b);
        last = p->rate;
    }
    for (uint32_t a = 0; a < e->k; a++)
        e->part[a] = edges_root(e->part, a);
}

/* Sums and numbers of the bandwidths between groups of one part (k: of each part): [1] inside the
 * communities e->found, [0] between them. */
static void add_rates(const struct estimate *e, uint32_t part, double sum[2], double pairs[2])
{
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = a + 1; b < e->k; b++)
            if (e->part[a] == e->part[b] && (e->part[a] == part || part == e->k)) {
                bool inside = e->found[a] == e->found[b];
                sum[inside] += e->rate[a * e->k + b];
                pairs[inside]++;
            }
}

/* Are bandwidths inside the communities e->found clearly higher than between those of a part? */
static bool stands_out(const struct estimate *e)
{
    double sum[2] = {0}, pairs[2] = {0};
    add_rates(e, (uint32_t)e->k, sum, pairs);
    return pairs[0] > 0 && pairs[1] > 0 && sum[1] / pairs[1] >= contrast * sum[0] / pairs[0];
}

/* Means of the same in one part; 0 where there are no pairs. Returns how much of the variance the
 * communities explain. */
static double mean_rates(const struct estimate *e, uint32_t part, double mean[2])
{
    double sum[2] = {0}, pairs[2] = {0};
    add_rates(e, part, sum, pairs);
    for (int i = 0; i < 2; i++)
        mean[i] = pairs[i] > 0 ? sum[i] / pairs[i] : 0;
    return pairs[0] * pairs[1] * (mean[1] - mean[0]) * fabs(mean[1] - mean[0]);
}

/* ---- communities */

/* The groups of a part, all pairs of them weighted by their parts of the highest bandwidth. */
static enum status communities_graph(struct estimate *e, uint32_t part, double most)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t edge;
    e->edges = 0;
    for (uint32_t a = 0; a < e->k; a++)
        for (uint32_t b = a + 1; b < e->k; b++)
            if (e->part[a] == part && e->part[b] == part) {
                e->edge[2 * e->edges] = a;
                e->edge[2 * e->edges + 1] = b;
                e->weight[e->edges++] = 1 / most * e->rate[a * e->k + b];
            }
    TRY_IGRAPH(igraph_create(&e->graph,
                             igraph_vector_int_view(&edge, e->edge, 2 * (igraph_integer_t)e->edges),
                             (igraph_integer_t)e->k, IGRAPH_UNDIRECTED));
out:
    return st;
}

/* Communities of one part, named by their first members, into e->found: those with the most
 * bandwidth above `level`, a part of the highest, inside (constant Potts model, Traag et al. 2019,
 * eq. 2, level being its gamma). */
static enum status find_above(struct estimate *e, uint32_t part, double level, bool *changed)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t member = {0};
    igraph_vector_t weight;
    TRY_IGRAPH(igraph_vector_int_init(&member, 0));
    igraph_rng_seed(igraph_rng_default(), 1);
    TRY_IGRAPH(igraph_community_leiden(
        &e->graph, igraph_vector_view(&weight, e->weight, (igraph_integer_t)e->edges), NULL, level,
        0.01, false, -1, &member, NULL, NULL));
    *changed = false;
    for (uint32_t a = 0; a < e->k; a++) {
        uint32_t first = part; /* the lowest member of the part */
        if (e->part[a] != part)
            continue;
        while (e->part[first] != part || VECTOR(member)[first] != VECTOR(member)[a])
            first++;
        *changed |= e->found[a] != first;
        e->found[a] = first;
    }
out:
    igraph_vector_int_destroy(&member);
    return st;
}

/* Communities above a level, the level between what is inside and outside of them, communities
 * above that, and so on. */
static enum status communities_settle(struct estimate *e, uint32_t part, double level, double most)
{
    double mean[2];
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        PASS(find_above(e, part, level / most, &changed));
        mean_rates(e, part, mean);
        if (mean[0] == 0 || mean[1] == 0)
            break;
        level = (mean[0] + mean[1]) / 2;
    }
    return STATUS_OK;
}

/* From levels between the mean and the highest bandwidth; what explains most stays. */
static enum status divide_part(struct estimate *e, uint32_t part)
{
    enum status st = STATUS_OK;
    double mean[2], settled[2], most = 0, best = 0;
    size_t groups = 0;
    for (size_t a = 0; a < e->k; a++) {
        groups += e->part[a] == part;
        for (size_t b = 0; b < e->k && e->part[a] == part; b++)
            most = e->part[b] == part ? fmax(most, e->rate[a * e->k + b]) : most;
    }
    mean_rates(e, part, mean);
    if (groups < FEWEST || most <= mean[1])
        return STATUS_OK;
    memcpy(e->kept, e->found, e->k * sizeof *e->kept);
    if ((st = communities_graph(e, part, most)) != STATUS_OK)
        return st;
    for (int start = 0; start < STARTS; start++) {
        TRY(communities_settle(e, part, mean[1] + (most - mean[1]) * start / STARTS, most));
        double explained = mean_rates(e, part, settled);
        if (explained > best) {
            best = explained;
            memcpy(e->kept, e->found, e->k * sizeof *e->kept);
        }
    }
    memcpy(e->found, e->kept, e->k * sizeof *e->kept);
out:
    igraph_destroy(&e->graph);
    return st;
}

/* Divide the parts where bandwidths overlap, if that is clear. */
static enum status find_communities(struct estimate *e)
{
    memcpy(e->found, e->part, e->k * sizeof *e->found);
    for (uint32_t a = 0; a < e->k; a++)
        if (e->part[a] == a) /* parts are named by their first members too */
            PASS(divide_part(e, a));
    if (stands_out(e))
        memcpy(e->part, e->found, e->k * sizeof *e->part);
    return STATUS_OK;
}

/* Of what joins different groups in the same part. */
static uint32_t median_tier(struct estimate *e)
{
    size_t pairs = 0;
    for (uint32_t i = 0; i < e->n; i++)
        for (uint32_t k = i + 1; k < e->n; k++) {
            uint32_t a = e->group[i], b = e->group[k], tier = tiers_slower(e->t, i, k);
            if (a != b && e->part[a] == e->part[b])
                e->closeness[pairs++] = (struct tiers_closeness){e->t->tier[tier], tier};
        }
    qsort(e->closeness, pairs, sizeof *e->closeness, tiers_by_closeness);
    return e->closeness[pairs / 2].index;
}

/* The parts become the groups. */
static enum status communities_to_groups(struct estimate *e, struct tiers *x)
{
    uint32_t tier = median_tier(e);
    for (size_t i = 0; i < e->n; i++)
        e->group[i] = e->part[e->group[i]];
    PASS(tiers_add(x, e->group, tier));
    const struct tiers_level *level = &x->level[x->levels - 1];
    memcpy(e->group, level->group_of, e->n * sizeof *e->group);
    e->k = level->groups;
    return STATUS_OK;
}

enum status tiers_estimate(const struct topology *t, struct tiers *x)
{
    enum status st;
    struct estimate e;
    TRY(estimate_begin(t, &e));
    while (e.k > 1) {
        average(&e);
        cut_tree(&e);
        TRY(find_communities(&e));
        TRY(communities_to_groups(&e, x));
    }
out:
    arena_free(&e.memory);
    return st;
}
