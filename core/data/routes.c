/* Routes of pairs: read off the table, or put together from the parts in each block on the way. A
 * sender's search inside its own block goes on from receiver to receiver; what lies beyond it many
 * senders share, so those parts are kept. */
#include "core/data/routes.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"

/* The links between two vertices of one block. */
struct route_part {
    size_t first, links; /* in the store of parts */
};

/* The routes being collected. */
struct collection {
    const struct topology *t;
    struct routes routes;
    size_t room;                      /* links there is room for */
    struct route_search own, further; /* in a sender's block, and beyond */
    struct interner parts;            /* by their ends */
    struct route_part *part;          /* [parts.n] */
    uint32_t *store;                  /* [stored] links of the parts */
    size_t stored, store_room;
};

/* Pair k's steps in the table. */
static enum status routes_copy_steps(struct collection *c, size_t k, const struct device_pair *pair)
{
    const struct route_table *table = &c->t->table;
    size_t *end = &c->routes.start[k + 1];
    for (uint32_t at = table->head[pair->from * c->t->n + pair->to]; at != 0;
         at = table->step[at - 1].then) {
        PASS(ARRAY_RESERVE(c->routes.link, *end + 1, c->room));
        c->routes.link[(*end)++] = table->step[at - 1].link;
    }
    return STATUS_OK;
}

/* The links of a search's way to a vertex, [s->far[vertex]], from the last to the first. */
static void routes_copy_path(const struct route_search *s, uint32_t vertex, uint32_t *link)
{
    const struct route_graph *g = s->graph;
    uint32_t *at = link + s->far[vertex];
    for (; vertex != s->source; vertex = s->before[vertex])
        for (uint32_t h = g->first[s->edge[vertex] + 1]; h-- > g->first[s->edge[vertex]];)
            *--at = g->hop[h];
}

/* Search a block from a vertex, or go on with the search that has begun there. */
static enum status routes_search(struct route_search *s, uint32_t block, uint32_t from, uint32_t to)
{
    if (s->source != from || s->within != block)
        route_search_begin(s, from, block);
    return route_search_reach(s, to)
               ? STATUS_OK
               : error_set(STATUS_INVALID, "the platform has no route to one of its devices");
}

/* ---- parts that are kept */

/* The part between two vertices of a block, found or searched for. */
static enum status find_part(struct collection *c, uint32_t block, uint32_t from, uint32_t to,
                             struct route_part *out)
{
    const uint32_t ends[] = {from, to};
    uint32_t number;
    bool fresh;
    PASS(intern(&c->parts, ends, sizeof ends, &number, &fresh));
    if (fresh) {
        PASS(routes_search(&c->further, block, from, to));
        struct route_part part = {c->stored, c->further.far[to]};
        PASS(ARRAY_RESERVE(c->store, c->stored + part.links, c->store_room));
        PASS(ARRAY_ROOM(c->part, number));
        routes_copy_path(&c->further, to, c->store + c->stored);
        c->stored += part.links;
        c->part[number] = part;
    }
    *out = c->part[number];
    return STATUS_OK;
}

/* ---- routes through blocks */

/* Insert the links between two vertices of a block at `at` among those of the last route. */
static enum status insert_part(struct collection *c, uint32_t sender, uint32_t block, uint32_t from,
                               uint32_t to, size_t *end, size_t at, size_t *links)
{
    struct route_part part = {0};
    bool own = from == sender;
    if (own) {
        PASS(routes_search(&c->own, block, from, to));
        part.links = c->own.far[to];
    } else {
        PASS(find_part(c, block, from, to, &part));
    }
    PASS(ARRAY_RESERVE(c->routes.link, *end + part.links, c->room));
    uint32_t *place = c->routes.link + at;
    memmove(place + part.links, place, (*end - at) * sizeof *place);
    if (own)
        routes_copy_path(&c->own, to, place);
    else
        memcpy(place, c->store + part.first, part.links * sizeof *place);
    *end += part.links;
    *links = part.links;
    return STATUS_OK;
}

/* Climb from both ends, the deeper one first, until they meet in a vertex or a block. What the
 * sender's end climbs comes before what the receiver's has. */
static enum status pass_blocks(struct collection *c, size_t k, uint32_t from, uint32_t to)
{
    const struct route_graph *g = &c->t->graph;
    size_t *end = &c->routes.start[k + 1], at = *end, links;
    const uint32_t sender = from;
    while (from != to) {
        uint32_t block = g->block[from];
        if (g->depth[from] > g->depth[to] ||
            (g->depth[from] == g->depth[to] && block != g->block[to])) {
            PASS(insert_part(c, sender, block, from, g->top[block], end, at, &links));
            at += links;
            from = g->top[block];
        } else if (g->depth[from] < g->depth[to]) {
            block = g->block[to];
            PASS(insert_part(c, sender, block, g->top[block], to, end, at, &links));
            to = g->top[block];
        } else if (block == ROUTE_NO_BLOCK) {
            return error_set(STATUS_INVALID, "the platform has no route to one of its devices");
        } else {
            PASS(insert_part(c, sender, block, from, to, end, at, &links));
            break;
        }
    }
    return STATUS_OK;
}

/* Devices that there are, in order. */
static enum status routes_check_table(const struct topology *t, size_t n,
                                      const struct device_pair *pair)
{
    for (size_t k = 0; k < n; k++) {
        if (pair[k].from >= t->n || pair[k].to >= t->n)
            return error_set(STATUS_INVALID,
                             "device pair %zu is %u -> %u, but the platform has only %zu devices",
                             k, pair[k].from, pair[k].to, t->n);
        if (k > 0 && (pair[k].from < pair[k - 1].from ||
                      (pair[k].from == pair[k - 1].from && pair[k].to < pair[k - 1].to)))
            return error_set(STATUS_INVALID,
                             "device pair %zu (%u -> %u) is out of order, expected ascending pairs",
                             k, pair[k].from, pair[k].to);
    }
    return STATUS_OK;
}

enum status topology_routes(const struct topology *t, size_t n, const struct device_pair *pair,
                            struct routes *out)
{
    enum status st;
    const struct route_graph *g = &t->graph;
    struct collection c = {.t = t, .routes.n = n};
    TRY(routes_check_table(t, n, pair));
    TRY(ARRAY_NEW(c.routes.start, n + 1));
    if (g->vertices > 0) {
        TRY(route_search_open(g, &c.own));
        TRY(route_search_open(g, &c.further));
    }
    for (size_t k = 0; t->links > 0 && k < n; k++) {
        c.routes.start[k + 1] = c.routes.start[k];
        if (g->vertices > 0)
            TRY(pass_blocks(&c, k, g->vertex[pair[k].from], g->vertex[pair[k].to]));
        else
            TRY(routes_copy_steps(&c, k, &pair[k]));
    }
    *out = c.routes;
    c.routes = (struct routes){0};
out:
    route_search_free(&c.own);
    route_search_free(&c.further);
    free(c.part);
    free(c.store);
    interner_free(&c.parts);
    routes_free(&c.routes);
    return st;
}

void routes_free(struct routes *r)
{
    free(r->start);
    free(r->link);
    *r = (struct routes){0};
}
