/* What PipeDream's planner makes of a profiled model: inputs and unused items left out, sums
 * of times and sizes, and sets of ancestors. Where there are too many states, chains inside
 * branches, or whole branching regions, become one node. */
#include "papers/pipedream/graph.h"

#include <string.h>

#include "core/base/array.h"
#include "core/data/model.h"

/* ---- ops that are left out */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Only what was a sink with the inputs gone counts, not what becomes one. */
static void find_dropped(const struct model *m, bool *dropped)
{
    for (size_t i = 0; i < m->n; i++) {
        bool source = m->in_start[i] == m->in_start[i + 1];
        bool sink = m->out_start[i] == m->out_start[i + 1];
        dropped[i] = (source && starts_with(m->op[i].kind, "Input")) ||
                     (sink && starts_with(m->op[i].kind, "__getitem__"));
    }
}

/* ---- contraction: node_of[op] = lowest op of its group */

/* ancestors[i] of all kept ops, reflexive. */
static void close_ancestors(const struct model *m, const bool *dropped, size_t words,
                            uint64_t *ancestors)
{
    for (size_t i = 0; i < m->n; i++) {
        uint64_t *set = ancestors + i * words;
        if (dropped[i])
            continue;
        set_add(set, i);
        for (size_t k = m->in_start[i]; k < m->in_start[i + 1]; k++)
            for (size_t w = 0; w < words && !dropped[m->in[k]]; w++)
                set[w] |= ancestors[m->in[k] * words + w];
    }
}

/* A trunk op is comparable with every other op: ancestors + descendants + itself are all. */
static enum status find_trunk(const struct model *m, const bool *dropped, bool *trunk)
{
    struct arena scratch = {0};
    enum status st = STATUS_OK;
    size_t words = m->n / 64 + 1, kept = 0;
    uint64_t *ancestors;
    size_t *comparable;
    TRY(ARENA_NEW(&scratch, ancestors, m->n * words));
    TRY(ARENA_NEW(&scratch, comparable, m->n));
    close_ancestors(m, dropped, words, ancestors);
    for (size_t i = 0; i < m->n; i++) {
        kept += !dropped[i];
        for (size_t k = 0; k < i; k++)
            if (set_has(ancestors + i * words, k)) {
                comparable[i]++;
                comparable[k]++;
            }
    }
    for (size_t i = 0; i < m->n; i++)
        trunk[i] = !dropped[i] && comparable[i] + 1 == kept;
out:
    arena_free(&scratch);
    return st;
}

/* Kept producers or consumers of an op: their number, and the last of them. */
static size_t pipedream_graph_neighbours(const size_t *start, const uint32_t *list,
                                         const bool *dropped, size_t op, uint32_t *last)
{
    size_t n = 0;
    for (size_t k = start[op]; k < start[op + 1]; k++)
        if (!dropped[list[k]]) {
            *last = list[k];
            n++;
        }
    return n;
}

/* An op off the trunk whose only producer feeds nothing else joins that producer: a chain
 * becomes its first op's group. */
static void group_branches(const struct model *m, const bool *dropped, const bool *trunk,
                           uint32_t *group)
{
    for (size_t i = 0; i < m->n; i++) {
        uint32_t producer = 0, consumer = 0;
        if (!dropped[i] && !trunk[i] &&
            pipedream_graph_neighbours(m->in_start, m->in, dropped, i, &producer) == 1 &&
            !trunk[producer] &&
            pipedream_graph_neighbours(m->out_start, m->out, dropped, producer, &consumer) == 1)
            group[i] = group[producer];
    }
}

/* All trunk ops stand in order; ops between two of them join the later one's group. */
static void group_regions(const struct model *m, const bool *dropped, const bool *trunk,
                          uint32_t *group)
{
    uint32_t first = PIPEDREAM_DROPPED;
    for (size_t i = 0; i < m->n; i++) {
        if (dropped[i])
            continue;
        if (first == PIPEDREAM_DROPPED)
            first = (uint32_t)i;
        group[i] = first;
        if (trunk[i])
            first = PIPEDREAM_DROPPED;
    }
}

static enum status pipedream_graph_find_groups(const struct model *m,
                                               enum pipedream_contraction contract,
                                               struct pipedream_graph *g, uint32_t *group)
{
    const bool *dropped = g->dropped;
    bool *trunk;
    for (size_t i = 0; i < m->n; i++)
        group[i] = dropped[i] ? PIPEDREAM_DROPPED : (uint32_t)i;
    PASS(ARENA_NEW(&g->memory, trunk, m->n));
    if (contract != CONTRACT_NOTHING)
        PASS(find_trunk(m, dropped, trunk));
    if (contract == CONTRACT_BRANCHES)
        group_branches(m, dropped, trunk, group);
    if (contract == CONTRACT_REGIONS)
        group_regions(m, dropped, trunk, group);
    return STATUS_OK;
}

/* ---- the graph */

/* Does the tensor of the op leave its node? That of a last op does, to the loss. */
static bool leaves(const struct model *m, const struct pipedream_graph *g, size_t op)
{
    bool used = false;
    for (size_t k = m->out_start[op]; k < m->out_start[op + 1]; k++) {
        used = used || !g->dropped[m->out[k]];
        if (!g->dropped[m->out[k]] && g->node_of[m->out[k]] != g->node_of[op])
            return true;
    }
    return !used;
}

/* Times are those of the profile's minibatch, so activations are scaled from a sample to it;
 * parameters are not. */
static void sum_costs(const struct model *m, struct pipedream_graph *g)
{
    const struct model_profile *p = &m->profile[0];
    for (size_t i = 0; i < m->n; i++) {
        if (g->dropped[i])
            continue;
        uint32_t node = g->node_of[i];
        g->compute_s[node] += p->forward_s[i] + p->backward_s[i];
        g->parameter[node] += (double)m->op[i].parameter_bytes;
        if (leaves(m, g, i))
            g->activation[node] += (double)m->op[i].output_bytes * p->samples;
    }
}

/* Append the edge unless it is there; `seen` [n] is scratch, node + 1 where `node` has one. */
static void pipedream_graph_add_edge(struct pipedream_graph *g, size_t node, uint32_t to,
                                     size_t *seen, size_t *edges)
{
    if (to == node || seen[to] == node + 1)
        return;
    seen[to] = node + 1;
    g->out[(*edges)++] = to;
}

/* The added root feeds every op without a producer. */
static void link_root(const struct model *m, struct pipedream_graph *g, size_t *seen, size_t *edges)
{
    uint32_t producer;
    for (size_t i = 0; i < m->n; i++)
        if (!g->dropped[i] &&
            pipedream_graph_neighbours(m->in_start, m->in, g->dropped, i, &producer) == 0)
            pipedream_graph_add_edge(g, 0, g->node_of[i], seen, edges);
}

/* Edges between nodes without repetition. The ops of a node form a list through next[],
 * ascending. */
static enum status link_nodes(const struct model *m, bool rooted, struct pipedream_graph *g)
{
    size_t edges = 0, *seen;
    uint32_t *first, *next;
    PASS(ARENA_NEW(&g->memory, seen, g->n));
    PASS(ARENA_NEW(&g->memory, first, g->n));
    PASS(ARENA_NEW(&g->memory, next, m->n));
    for (size_t node = 0; node < g->n; node++)
        first[node] = PIPEDREAM_DROPPED;
    for (size_t i = m->n; i-- > 0;)
        if (!g->dropped[i]) {
            next[i] = first[g->node_of[i]];
            first[g->node_of[i]] = (uint32_t)i;
        }
    for (size_t node = 0; node < g->n; node++) {
        g->out_start[node] = edges;
        if (rooted && node == 0)
            link_root(m, g, seen, &edges);
        for (uint32_t i = first[node]; i != PIPEDREAM_DROPPED; i = next[i])
            for (size_t k = m->out_start[i]; k < m->out_start[i + 1]; k++)
                if (!g->dropped[m->out[k]])
                    pipedream_graph_add_edge(g, node, g->node_of[m->out[k]], seen, &edges);
    }
    g->out_start[g->n] = edges;
    return STATUS_OK;
}

/* Nodes in the order of their first ops: groups are intervals, or chains that nothing enters but at
 * their first op, so the order is topological. */
static void pipedream_graph_number_nodes(const struct model *m, bool rooted, const uint32_t *group,
                                         struct pipedream_graph *g)
{
    g->n = rooted;
    for (size_t i = 0; i < m->n; i++)
        if (!g->dropped[i])
            g->node_of[i] = group[i] == i ? (uint32_t)g->n++ : g->node_of[group[i]];
}

/* An input goes to the first stage, an unused item to the op that makes it. */
static void place_dropped(const struct model *m, struct pipedream_graph *g)
{
    for (size_t i = 0; i < m->n; i++)
        if (g->dropped[i]) {
            uint32_t producer = PIPEDREAM_DROPPED;
            pipedream_graph_neighbours(m->in_start, m->in, g->dropped, i, &producer);
            g->node_of[i] = producer == PIPEDREAM_DROPPED ? 0 : g->node_of[producer];
        }
}

/* Nodes stand in topological order, so one pass closes the ancestors. Then `open`: ancestors p
 * with an edge to a node that is no ancestor, whose tensor still has to pass a cut behind the
 * node. */
static void close_sets(struct pipedream_graph *g)
{
    for (size_t i = 0; i < g->n; i++) {
        uint64_t *own = g->ancestors + i * g->words;
        set_add(own, i);
        for (size_t k = g->out_start[i]; k < g->out_start[i + 1]; k++)
            for (size_t w = 0; w < g->words; w++)
                g->ancestors[g->out[k] * g->words + w] |= own[w];
    }
    for (size_t i = 0; i < g->n; i++) {
        const uint64_t *own = g->ancestors + i * g->words;
        for (size_t p = 0; p < i; p++)
            for (size_t k = g->out_start[p]; set_has(own, p) && k < g->out_start[p + 1]; k++)
                if (!set_has(own, g->out[k]))
                    set_add(g->open + i * g->words, p);
    }
}

static enum status pipedream_graph_allocate(const struct model *m, struct pipedream_graph *g)
{
    size_t n = m->n + 1;
    g->words = n / 64 + 1;
    PASS(ARENA_NEW(&g->memory, g->compute_s, n));
    PASS(ARENA_NEW(&g->memory, g->activation, n));
    PASS(ARENA_NEW(&g->memory, g->parameter, n));
    PASS(ARENA_NEW(&g->memory, g->out_start, n + 1));
    PASS(ARENA_NEW(&g->memory, g->out, m->edges + n));
    PASS(ARENA_NEW(&g->memory, g->ancestors, n * g->words));
    PASS(ARENA_NEW(&g->memory, g->open, n * g->words));
    PASS(ARENA_NEW(&g->memory, g->node_of, n));
    PASS(ARENA_NEW(&g->memory, g->dropped, n));
    return STATUS_OK;
}

enum status pipedream_graph_build(const struct model *m, enum pipedream_contraction contract,
                                  bool rooted, struct pipedream_graph *g)
{
    uint32_t *group;
    if (m->profiles == 0)
        return error_set(STATUS_INVALID,
                         "model '%s' has no measured profile, but --objective pipedream needs one; "
                         "measure it with foreline model profile",
                         m->name);
    if (m->n > PIPEDREAM_MAX_NODES)
        return error_set(STATUS_UNSUPPORTED,
                         "model '%s' has %zu ops; --objective pipedream supports at most %d",
                         m->name, m->n, PIPEDREAM_MAX_NODES);
    PASS(pipedream_graph_allocate(m, g));
    PASS(ARENA_NEW(&g->memory, group, m->n + 1));
    find_dropped(m, g->dropped);
    PASS(pipedream_graph_find_groups(m, contract, g, group));
    pipedream_graph_number_nodes(m, rooted, group, g);
    if (g->n == (size_t)rooted)
        return error_set(STATUS_INVALID, "model %s has no ops to divide into stages", m->name);
    sum_costs(m, g);
    PASS(link_nodes(m, rooted, g));
    place_dropped(m, g);
    close_sets(g);
    return STATUS_OK;
}

void pipedream_graph_free(struct pipedream_graph *g)
{
    arena_free(&g->memory);
    *g = (struct pipedream_graph){0};
}

bool pipedream_is_maximal(const struct pipedream_graph *g, const uint64_t *set, size_t node)
{
    bool maximal = set_has(set, node);
    for (size_t k = g->out_start[node]; maximal && k < g->out_start[node + 1]; k++)
        maximal = !set_has(set, g->out[k]);
    return maximal;
}

double pipedream_cut_bytes(const struct pipedream_graph *g, const uint64_t *set, uint64_t *room)
{
    double bytes = 0;
    memset(room, 0, g->words * sizeof *room);
    for (size_t i = 0; i < g->n; i++) {
        if (!pipedream_is_maximal(g, set, i))
            continue;
        set_add(room, i);
        for (size_t w = 0; w < g->words; w++)
            room[w] |= g->open[i * g->words + w];
    }
    for (size_t i = 0; i < g->n; i++)
        bytes += set_has(room, i) ? g->activation[i] : 0;
    return bytes;
}
