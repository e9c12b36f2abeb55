/* Groups of members, and the nodes that they form. */
#include <stdlib.h>

#include "core/base/array.h"
#include "core/collective/shapes.h"

/* Members are assigned to nodes one by one; a new node is numbered when a member joins none. */
struct node_search {
    const struct collective_group *g;
    const bool *inside; /* [tiers] */
    uint32_t *node;     /* [n] of each member found so far */
    uint32_t *first;    /* [nodes] first member */
    uint32_t nodes;
};

/* Are two members joined by a tier that stays inside a node? */
static bool group_is_joined(const struct node_search *s, uint32_t a, uint32_t b)
{
    return s->inside[collective_tier(s->g, a, b) - s->g->topology->tier];
}

/* Neighbours in the list are tried first, then the first members of all other nodes. */
static uint32_t group_node_of(const struct node_search *s, uint32_t member)
{
    uint32_t last = member > 0 ? s->node[member - 1] : UINT32_MAX;
    for (uint32_t m = member; m > 0 && s->node[m - 1] == last; m--)
        if (group_is_joined(s, m - 1, member))
            return last;
    for (uint32_t k = 0; k < s->nodes; k++)
        if (k != last && group_is_joined(s, s->first[k], member))
            return k;
    return s->nodes;
}

/* Counting sort of the members by node; stable. */
static void fill_order(const struct node_search *s, struct collective_group *g)
{
    for (size_t m = 0; m < g->n; m++)
        g->node_start[s->node[m] + 1]++;
    for (size_t k = 0; k < s->nodes; k++)
        g->node_start[k + 1] += g->node_start[k];
    for (uint32_t k = 0; k < s->nodes; k++)
        s->first[k] = (uint32_t)g->node_start[k];
    for (uint32_t m = 0; m < g->n; m++)
        g->order[s->first[s->node[m]]++] = m;
    g->nodes = s->nodes;
}

/* By the topology's own numbers of nodes. */
static enum status number_nodes(struct node_search *s)
{
    const struct topology *t = s->g->topology;
    uint32_t *local; /* [t->n] number here + 1 */
    PASS(ARRAY_NEW(local, t->n));
    for (uint32_t m = 0; m < s->g->n; m++) {
        uint32_t *known = &local[t->node_of[s->g->device[m]]];
        if (*known == 0) {
            s->first[s->nodes++] = m;
            *known = s->nodes;
        }
        s->node[m] = *known - 1;
    }
    free(local);
    return STATUS_OK;
}

/* By the tiers between the members. */
static void group_find_nodes(struct node_search *s, bool any)
{
    for (uint32_t m = 0; m < s->g->n; m++) {
        s->node[m] = any ? group_node_of(s, m) : m;
        if (s->node[m] == s->nodes)
            s->first[s->nodes++] = m;
    }
}

enum status collective_group_make(const struct topology *t, const uint32_t *devices, size_t n,
                                  struct collective_group *out)
{
    enum status st;
    struct collective_group g = {.topology = t, .n = n};
    bool *inside = NULL;
    struct node_search s = {.g = &g};

    if (n == 0)
        return error_set(STATUS_INVALID, "process group has no devices, expected at least one");
    for (size_t m = 0; m < n; m++)
        if (devices[m] >= t->n)
            return error_set(STATUS_INVALID, "device %u does not exist (the platform has %zu)",
                             devices[m], t->n);
    TRY(ARRAY_NEW(inside, t->tiers));
    TRY(ARRAY_NEW(s.node, n));
    TRY(ARRAY_NEW(s.first, n));
    TRY(ARRAY_COPY(g.device, devices, n));
    TRY(ARRAY_NEW(g.order, n));
    TRY(ARRAY_NEW(g.node_start, n + 1));
    s.inside = inside;
    if (t->node_of)
        TRY(number_nodes(&s));
    else
        group_find_nodes(&s, topology_inside(t, inside));
    fill_order(&s, &g);
    TRY(collective_find_grid(&g));
    MOVE(out, g);
out:
    collective_group_free(&g);
    free(inside);
    free(s.node);
    free(s.first);
    return st;
}

double collective_nics(const struct collective_group *g)
{
    double least = (double)collective_smallest_node(g);
    for (size_t m = 0; m < g->n && g->nodes > 1; m++) {
        double nics = topology_type(g->topology, g->device[m])->nics;
        least = nics > 0 && nics < least ? nics : least;
    }
    return g->nodes > 1 ? least : 1;
}

void collective_group_free(struct collective_group *g)
{
    free(g->device);
    free(g->order);
    free(g->node_start);
    collective_grid_free(g->grid);
    *g = (struct collective_group){0};
}
