/* Groups of devices whose bandwidths scatter: from averages, which scatter less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "partition/igraph_try.h"
#include "partition/tiers_levels.h"

enum {
    FEWEST = 4, /* groups among which communities are looked for */
    ROUNDS = 8,
    STARTS = 4,
};

static const double contrast = 1.2; /* bandwidth inside over between communities, at least */

struct estimate {
    const struct topology *t;
    size_t n, k;                       /* devices, groups found so far */
    uint32_t *group;                   /* [n] of each device */
    double *rate;                      /* [k * k] mean bandwidth between groups */
    uint32_t *part;                    /* [k] the group that each joins next */
    uint32_t *found;                   /* [k] scratch */
    uint32_t *kept;                    /* [k] likewise */
    struct tiers_closeness *closeness; /* [pairs] scratch */
    igraph_t graph;
    igraph_vector_int_t edge;
    igraph_vector_t weight;
    bool has_graph, has_edge, has_weight;
};

static void drop_graph(struct estimate *e)
{
    if (e->has_graph)
        igraph_destroy(&e->graph);
    if (e->has_edge)
        igraph_vector_int_destroy(&e->edge);
    if (e->has_weight)
        igraph_vector_destroy(&e->weight);
    e->has_graph = e->has_edge = e->has_weight = false;
}

static void estimate_free(struct estimate *e)
{
    drop_graph(e);
    free(e->group);
    free(e->rate);
    free(e->part);
    free(e->found);
    free(e->kept);
    free(e->closeness);
}

static enum status estimate_begin(const struct topology *t, struct estimate *e)
{
    *e = (struct estimate){.t = t, .n = t->n, .k = t->n};
    e->group = calloc(e->n, sizeof *e->group);
    e->rate = calloc(e->n * e->n, sizeof *e->rate);
    e->part = calloc(e->n, sizeof *e->part);
    e->found = calloc(e->n, sizeof *e->found);
    e->kept = calloc(e->n, sizeof *e->kept);
    e->closeness = calloc(e->n * e->n / 2 + 1, sizeof *e->closeness);
    if (!e->group || !e->rate || !e->part || !e->found || !e->kept || !e->closeness)
        return error_set(STATUS_NOMEM, "%zu devices", e->n);
    for (uint32_t i = 0; i < e->n; i++)
        e->group[i] = i;
    igraph_set_error_handler(igraph_error_handler_ignore);
    return STATUS_OK;
}

static enum status average(struct estimate *e)
{
    size_t *size = calloc(e->k, sizeof *size);
    if (!size)
        return error_set(STATUS_NOMEM, "%zu devices", e->n);
    memset(e->rate, 0, e->k * e->k * sizeof *e->rate);
    for (uint32_t i = 0; i < e->n; i++) {
        size[e->group[i]]++;
        for (uint32_t k = 0; k < e->n; k++)
            if (e->group[i] != e->group[k])
                e->rate[e->group[i] * e->k + e->group[k]] +=
                    e->t->tier[tiers_slower(e->t, i, k)].bandwidth_Bps;
    }
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = 0; b < e->k; b++)
            e->rate[a * e->k + b] /= (double)(size[a] * size[b]);
    free(size);
    return STATUS_OK;
}

/* The graph of all pairs in a part, weighted scale * (rate - base). */
static enum status make_graph(struct estimate *e, uint32_t part, double scale, double base)
{
    enum status st = STATUS_OK;
    drop_graph(e);
    TRY_IGRAPH(igraph_vector_int_init(&e->edge, 0));
    e->has_edge = true;
    TRY_IGRAPH(igraph_vector_init(&e->weight, 0));
    e->has_weight = true;
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = a + 1; b < e->k; b++) {
            if (e->part[a] != part || e->part[b] != part)
                continue;
            TRY_IGRAPH(igraph_vector_int_push_back(&e->edge, (igraph_integer_t)a));
            TRY_IGRAPH(igraph_vector_int_push_back(&e->edge, (igraph_integer_t)b));
            TRY_IGRAPH(igraph_vector_push_back(&e->weight, scale * (e->rate[a * e->k + b] - base)));
        }
    TRY_IGRAPH(igraph_create(&e->graph, &e->edge, (igraph_integer_t)e->k, IGRAPH_UNDIRECTED));
    e->has_graph = true;
out:
    return st;
}

struct branch {
    double rate;
    uint32_t a, b;
};

static int faster(const void *a, const void *b)
{
    const struct branch *x = a, *y = b;
    if (x->rate < y->rate || x->rate > y->rate)
        return x->rate > y->rate ? -1 : 1;
    return x->a != y->a ? (x->a > y->a) - (x->a < y->a) : (x->b > y->b) - (x->b < y->b);
}

/* e->part: what the maximum spanning tree leaves when it is cut at its first gap. */
static enum status cut_tree(struct estimate *e)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t tree;
    bool live = false;
    struct branch *branch = calloc(e->k, sizeof *branch);
    if (!branch)
        return error_set(STATUS_NOMEM, "%zu devices", e->n);
    memset(e->part, 0, e->k * sizeof *e->part); /* all in part 0 */
    TRY(make_graph(e, 0, -1, 0));
    TRY_IGRAPH(igraph_vector_int_init(&tree, 0));
    live = true;
    TRY_IGRAPH(igraph_minimum_spanning_tree(&e->graph, &tree, &e->weight));
    size_t branches = (size_t)igraph_vector_int_size(&tree), kept = 0;
    for (size_t i = 0; i < branches; i++) {
        igraph_integer_t id = VECTOR(tree)[i], a = VECTOR(e->edge)[2 * id];
        igraph_integer_t b = VECTOR(e->edge)[2 * id + 1];
        branch[i] = (struct branch){-VECTOR(e->weight)[id], (uint32_t)a, (uint32_t)b};
    }
    qsort(branch, branches, sizeof *branch, faster);
    for (uint32_t a = 0; a < e->k; a++)
        e->part[a] = a;
    do
        tiers_unite(e->part, branch[kept].a, branch[kept].b);
    while (++kept < branches && branch[kept - 1].rate <= tiers_gap * branch[kept].rate);
    for (uint32_t a = 0; a < e->k; a++)
        e->part[a] = tiers_root(e->part, a);
out:
    if (live)
        igraph_vector_int_destroy(&tree);
    free(branch);
    return st;
}

/* Are bandwidths inside the communities e->found clearly higher than between those of a part? */
static bool stands_out(const struct estimate *e)
{
    double sum[2] = {0};
    size_t pairs[2] = {0};
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = a + 1; b < e->k; b++)
            if (e->part[a] == e->part[b]) {
                bool inside = e->found[a] == e->found[b];
                sum[inside] += e->rate[a * e->k + b];
                pairs[inside]++;
            }
    return pairs[0] > 0 && pairs[1] > 0 &&
           sum[1] / (double)pairs[1] >= contrast * sum[0] / (double)pairs[0];
}

/* Mean bandwidth between members of one part: [1] inside its communities e->found, [0] between
 * them; 0 where there are no pairs. Returns how much of the variance they explain. */
static double mean_rates(const struct estimate *e, uint32_t part, double mean[2])
{
    double sum[2] = {0};
    size_t pairs[2] = {0};
    for (size_t a = 0; a < e->k; a++)
        for (size_t b = a + 1; b < e->k && e->part[a] == part; b++)
            if (e->part[b] == part) {
                bool inside = e->found[a] == e->found[b];
                sum[inside] += e->rate[a * e->k + b];
                pairs[inside]++;
            }
    for (int i = 0; i < 2; i++)
        mean[i] = pairs[i] > 0 ? sum[i] / (double)pairs[i] : 0;
    return (double)pairs[0] * (double)pairs[1] * (mean[1] - mean[0]) * fabs(mean[1] - mean[0]);
}

/* Communities of one part, named by their first members, into e->found: those with the most
 * bandwidth above `level` inside; it and the graph's weights are parts of the highest bandwidth. */
static enum status find_above(struct estimate *e, uint32_t part, double level, bool *changed)
{
    enum status st = STATUS_OK;
    igraph_vector_int_t member;
    TRY_IGRAPH(igraph_vector_int_init(&member, 0));
    igraph_rng_seed(igraph_rng_default(), 1);
    igraph_error_t error = igraph_community_leiden(&e->graph, &e->weight, NULL, level, 0.01, false,
                                                   -1, &member, NULL, NULL);
    if (error != IGRAPH_SUCCESS) {
        st = status_of_igraph(error);
        goto destroy;
    }
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
destroy:
    igraph_vector_int_destroy(&member);
out:
    return st;
}

/* Communities above a level, the level between what is inside and outside of them, communities
 * above that, and so on. */
static enum status settle(struct estimate *e, uint32_t part, double level, double most)
{
    enum status st = STATUS_OK;
    double mean[2];
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        TRY(find_above(e, part, level / most, &changed));
        mean_rates(e, part, mean);
        if (mean[0] == 0 || mean[1] == 0)
            break;
        level = (mean[0] + mean[1]) / 2;
    }
out:
    return st;
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
    TRY(make_graph(e, part, 1 / most, 0));
    for (int start = 0; start < STARTS; start++) {
        TRY(settle(e, part, mean[1] + (most - mean[1]) * start / STARTS, most));
        double explained = mean_rates(e, part, settled);
        if (explained > best) {
            best = explained;
            memcpy(e->kept, e->found, e->k * sizeof *e->kept);
        }
    }
    memcpy(e->found, e->kept, e->k * sizeof *e->kept);
out:
    return st;
}

/* Divide the parts where bandwidths overlap, if that is clear. */
static enum status find_communities(struct estimate *e)
{
    enum status st = STATUS_OK;
    memcpy(e->found, e->part, e->k * sizeof *e->found);
    for (uint32_t a = 0; a < e->k; a++)
        if (e->part[a] == a) /* parts are named by their first members too */
            TRY(divide_part(e, a));
    if (stands_out(e))
        memcpy(e->part, e->found, e->k * sizeof *e->part);
out:
    return st;
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
static enum status step(struct estimate *e, struct tiers *x)
{
    enum status st;
    uint32_t tier = median_tier(e);
    for (size_t i = 0; i < e->n; i++)
        e->group[i] = e->part[e->group[i]];
    TRY(tiers_add(x, e->group, tier));
    const struct tiers_level *level = &x->level[x->levels - 1];
    memcpy(e->group, level->group_of, e->n * sizeof *e->group);
    e->k = level->groups;
out:
    return st;
}

enum status tiers_estimate(const struct topology *t, struct tiers *x)
{
    enum status st;
    struct estimate e;
    TRY(estimate_begin(t, &e));
    while (e.k > 1) {
        TRY(average(&e));
        TRY(cut_tree(&e));
        TRY(find_communities(&e));
        TRY(step(&e, x));
    }
out:
    estimate_free(&e);
    return st;
}
