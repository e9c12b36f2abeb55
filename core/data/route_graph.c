/* Dijkstra's algorithm with buckets: distances are numbers of links, so the vertices that are being
 * looked at lie within one edge's length of each other, and a ring of that many buckets holds them
 * (Dial, CACM 12 (1969) 632). */
#include "core/data/route_graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* A vertex in a bucket; it is out of date when the vertex has come nearer since. */
struct route_entry {
    uint32_t vertex, next; /* entry + 1 */
};

/* Are the starts of n rows in order, from 0 to `end`? */
static bool is_rows(const uint32_t *start, size_t n, size_t end, bool filled)
{
    if (start[0] != 0 || start[n] != end)
        return false;
    for (size_t i = 0; i < n; i++)
        if (start[i + 1] < start[i] || (filled && start[i + 1] == start[i]))
            return false;
    return true;
}

/* Are they all below the limit? */
static bool is_below(const uint32_t *number, size_t n, size_t limit)
{
    for (size_t i = 0; i < n; i++)
        if (number[i] >= limit)
            return false;
    return true;
}

/* Do the blocks hang below each other, so that climbing ends at a root? */
static bool is_forest(const struct route_graph *g)
{
    for (size_t v = 0; v < g->vertices; v++)
        if (g->block[v] != ROUTE_NO_BLOCK &&
            (g->block[v] >= g->blocks || g->depth[g->top[g->block[v]]] >= g->depth[v]))
            return false;
    return true;
}

bool route_graph_is_sound(const struct route_graph *g, size_t devices, size_t links)
{
    return is_rows(g->start, g->vertices, g->edges, false) &&
           is_rows(g->first, g->edges, g->hops, true) &&
           is_below(g->vertex, devices, g->vertices) && is_below(g->to, g->edges, g->vertices) &&
           is_below(g->hop, g->hops, links) && is_below(g->top, g->blocks, g->vertices) &&
           is_forest(g);
}

void route_graph_free(struct route_graph *g)
{
    free(g->vertex);
    free(g->start);
    free(g->to);
    free(g->first);
    free(g->hop);
    free(g->block);
    free(g->depth);
    free(g->top);
    *g = (struct route_graph){0};
}

/* How many links an edge has. */
static uint32_t route_edge_length(const struct route_graph *g, uint32_t edge)
{
    return g->first[edge + 1] - g->first[edge];
}

enum status route_search_open(const struct route_graph *g, struct route_search *out)
{
    enum status st;
    struct route_search s = {.graph = g, .span = 1, .source = UINT32_MAX};
    for (uint32_t e = 0; e < g->edges; e++)
        if (route_edge_length(g, e) >= s.span)
            s.span = (size_t)route_edge_length(g, e) + 1;
    TRY(ARRAY_NEW(s.order, g->vertices));
    TRY(ARRAY_NEW(s.far, g->vertices));
    TRY(ARRAY_NEW(s.before, g->vertices));
    TRY(ARRAY_NEW(s.edge, g->vertices));
    TRY(ARRAY_NEW(s.sight, g->vertices));
    TRY(ARRAY_NEW(s.entry, g->edges + 1));
    TRY(ARRAY_NEW(s.bucket, s.span));
    TRY(ARRAY_NEW(s.settled, g->vertices));
    memset(s.far, 0xff, g->vertices * sizeof *s.far);
    *out = s;
    s = (struct route_search){0};
out:
    route_search_free(&s);
    return st;
}

void route_search_free(struct route_search *s)
{
    free(s->order);
    free(s->far);
    free(s->before);
    free(s->edge);
    free(s->sight);
    free(s->entry);
    free(s->bucket);
    free(s->settled);
    *s = (struct route_search){0};
}

/* A shorter way to a vertex. An edge does this once at most, so there is room for the entry. */
static void come_nearer(struct route_search *s, uint32_t vertex, uint32_t far)
{
    uint32_t *bucket = &s->bucket[far % s->span];
    if (s->far[vertex] == UINT32_MAX)
        s->sight[s->seen++] = vertex;
    s->far[vertex] = far;
    s->entry[s->entries] = (struct route_entry){vertex, *bucket};
    *bucket = (uint32_t)++s->entries;
}

/* They are sorted by their blocks. */
uint32_t route_graph_first(const struct route_graph *g, uint32_t vertex, uint32_t block)
{
    uint32_t low = g->start[vertex], high = g->start[vertex + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (route_graph_block(g, vertex, g->to[middle]) < block)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Look along the edges out of a vertex whose own way is final. */
static void route_relax_edges(struct route_search *s, uint32_t vertex)
{
    const struct route_graph *g = s->graph;
    bool all = s->within == ROUTE_NO_BLOCK;
    uint32_t e = all ? g->start[vertex] : route_graph_first(g, vertex, s->within);
    s->order[s->reached++] = vertex;
    s->settled[vertex] = true;
    for (; e < g->start[vertex + 1]; e++) {
        uint32_t to = g->to[e], far = s->far[vertex] + route_edge_length(g, e);
        if (!all && route_graph_block(g, vertex, to) != s->within)
            break;
        if (far < s->far[to])
            come_nearer(s, to, far);
        else if (far > s->far[to] || s->far[s->before[to]] != s->far[vertex] ||
                 s->before[to] < vertex)
            continue;
        s->before[to] = vertex;
        s->edge[to] = e;
    }
}

/* Only what the last search saw has to be reset. */
void route_search_begin(struct route_search *s, uint32_t source, uint32_t within)
{
    for (size_t i = 0; i < s->seen; i++) {
        s->far[s->sight[i]] = UINT32_MAX;
        s->settled[s->sight[i]] = false;
    }
    memset(s->bucket, 0, s->span * sizeof *s->bucket);
    s->seen = s->reached = s->entries = s->now = s->next = 0;
    s->source = source;
    s->within = within;
    come_nearer(s, source, 0);
    s->before[source] = source;
}

bool route_search_reach(struct route_search *s, uint32_t vertex)
{
    while (vertex == UINT32_MAX || !s->settled[vertex]) {
        if (s->next == 0) { /* the bucket of the next distance that has one */
            uint32_t *bucket = &s->bucket[s->now % s->span];
            if (s->reached == s->seen)
                return vertex == UINT32_MAX;
            s->next = *bucket;
            *bucket = 0;
            s->now += s->next == 0;
            continue;
        }
        const struct route_entry *entry = &s->entry[s->next - 1];
        s->next = entry->next;
        if (s->far[entry->vertex] == s->now) /* else it has come nearer since */
            route_relax_edges(s, entry->vertex);
        s->now += s->next == 0;
    }
    return true;
}
