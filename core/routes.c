/* Routes of pairs: read off the table, or found by a search from each sender. */
#include "core/routes.h"

#include <stdlib.h>

#include "core/array.h"

/* The routes being collected. */
struct collection {
    const struct topology *t;
    const struct device_pair *pair;
    struct routes routes;
    size_t room; /* links there is room for */
    struct route_search search;
    uint32_t *goal; /* [n] vertices of the sender's receivers */
};

/* Room for `more` links. */
static enum status make_room(struct collection *c, size_t used, size_t more)
{
    if (used + more <= c->room)
        return STATUS_OK;
    size_t room = c->room * 2 + more;
    uint32_t *larger = realloc(c->routes.link, room * sizeof *larger);
    if (!larger)
        return error_set(STATUS_NOMEM, "no memory for routes of %zu links", room);
    c->routes.link = larger;
    c->room = room;
    return STATUS_OK;
}

/* Pair k's steps in the table. */
static enum status follow(struct collection *c, size_t k)
{
    const struct route_table *table = &c->t->table;
    size_t *end = &c->routes.start[k + 1];
    uint32_t at = table->head[c->pair[k].from * c->t->n + c->pair[k].to];
    *end = c->routes.start[k];
    for (; at != 0; at = table->step[at - 1].then) {
        PASS(make_room(c, *end, 1));
        c->routes.link[(*end)++] = table->step[at - 1].link;
    }
    return STATUS_OK;
}

/* Pair k's way up the tree of the search, from the receiver to the sender. */
static enum status climb(struct collection *c, size_t k)
{
    const struct route_graph *g = &c->t->graph;
    const struct route_search *s = &c->search;
    uint32_t vertex = g->vertex[c->pair[k].to];
    size_t links = s->far[vertex], at = c->routes.start[k] + links;
    PASS(make_room(c, c->routes.start[k], links));
    c->routes.start[k + 1] = at;
    for (; s->far[vertex] > 0; vertex = s->before[vertex])
        for (uint32_t h = g->first[s->edge[vertex] + 1]; h-- > g->first[s->edge[vertex]];)
            c->routes.link[--at] = g->hop[h];
    return STATUS_OK;
}

/* Pairs k to end, of one sender. */
static enum status find(struct collection *c, size_t k, size_t end)
{
    const struct topology *t = c->t;
    uint32_t from = c->pair[k].from;
    for (size_t i = k; i < end; i++)
        c->goal[i - k] = t->graph.vertex[c->pair[i].to];
    if (!route_search_from(&c->search, t->graph.vertex[from], end - k, c->goal))
        return error_set(STATUS_INVALID, "no route from '%s' to some device", t->device[from]);
    for (; k < end; k++)
        PASS(climb(c, k));
    return STATUS_OK;
}

/* Devices that there are, in order. */
static enum status check(const struct topology *t, size_t n, const struct device_pair *pair)
{
    for (size_t k = 0; k < n; k++) {
        if (pair[k].from >= t->n || pair[k].to >= t->n)
            return error_set(STATUS_INVALID, "pair %zu: no such device", k);
        if (k > 0 && (pair[k].from < pair[k - 1].from ||
                      (pair[k].from == pair[k - 1].from && pair[k].to < pair[k - 1].to)))
            return error_set(STATUS_INVALID, "pair %zu: pairs are not sorted", k);
    }
    return STATUS_OK;
}

enum status topology_routes(const struct topology *t, size_t n, const struct device_pair *pair,
                            struct routes *out)
{
    enum status st;
    struct collection c = {.t = t, .pair = pair, .routes.n = n};
    TRY(check(t, n, pair));
    TRY(ARRAY_NEW(c.routes.start, n + 1));
    TRY(ARRAY_NEW(c.goal, n));
    if (t->links > 0 && t->graph.vertices > 0)
        TRY(route_search_open(&t->graph, &c.search));
    for (size_t k = 0, end; t->links > 0 && k < n; k = end) {
        for (end = k + 1; end < n && pair[end].from == pair[k].from;)
            end++;
        if (c.search.graph)
            TRY(find(&c, k, end));
        for (size_t i = k; !c.search.graph && i < end; i++)
            TRY(follow(&c, i));
    }
    *out = c.routes;
    c.routes = (struct routes){0};
out:
    route_search_free(&c.search);
    free(c.goal);
    routes_free(&c.routes);
    return st;
}

void routes_free(struct routes *r)
{
    free(r->start);
    free(r->link);
    *r = (struct routes){0};
}
