/* Builds a network of one-way links from routes.
 *
 * A link has a tail, where messages come in, and a head. A route from i to j is i, tail and head of
 * each of its links, j. First all that follow each other on a route are put into one point, but for
 * links that both directions share: what comes from either side passes them in the same direction,
 * so both their ends stay alone. Where the routes then do not depend on the receiver only, nothing
 * is put together: links without a limit lead from each point to the next, and where routes to one
 * receiver part, the sender decides as well. */
#include "sim/platform/network_routes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/data/routes.h"

/* A link without a limit. */
struct connection {
    uint32_t from, to;
};

struct builder {
    const struct topology *t;
    struct routes routes; /* of all pairs */
    struct device_pair *pair;
    uint32_t *point;  /* [2 * links + devices] union-find: tails and heads, then devices */
    uint32_t *vertex; /* [2 * links + devices] of a point's root; UINT32_MAX: none yet */
    bool *device;     /* [2 * links + devices] the root has a device */
    uint32_t *wired;  /* [links] number in the network; NETWORK_NO_LINK: on no route yet */
    struct interner connections;
    uint32_t *connected; /* [connections] their numbers in the network */
    size_t connected_n;
    struct network *net;
    uint32_t lost;
};

static uint32_t tail_of(uint32_t link)
{
    return 2 * link;
}

static uint32_t network_head(uint32_t link)
{
    return 2 * link + 1;
}

static uint32_t of_device(const struct builder *b, uint32_t device)
{
    return (uint32_t)(2 * b->t->links) + device;
}

static uint32_t root(const struct builder *b, uint32_t point)
{
    while (b->point[point] != point) {
        b->point[point] = b->point[b->point[point]];
        point = b->point[point];
    }
    return point;
}

/* ---- points */

/* SimGrid's names of the directions of a link: "id_UP" and "id_DOWN". Returns the length of the
 * id. */
static size_t id_length(const char *name, bool *directed)
{
    static const char *const directions[] = {"_UP", "_DOWN"};
    size_t n = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        size_t d = strlen(directions[i]);
        *directed = n > d && !strcmp(name + n - d, directions[i]);
        if (*directed)
            return n - d;
    }
    return n;
}

static bool stays_alone(const struct builder *b, uint32_t point)
{
    bool directed = true;
    if (point < 2 * b->t->links)
        (void)id_length(b->t->link[point / 2].name, &directed);
    return !directed;
}

/* Put two points into one, unless both have devices. */
static void unite(struct builder *b, uint32_t x, uint32_t y)
{
    uint32_t r = root(b, x), s = root(b, y);
    if (r == s || (b->device[r] && b->device[s]) || stays_alone(b, x) || stays_alone(b, y))
        return;
    b->point[r] = s;
    b->device[s] = b->device[s] || b->device[r];
}

static void begin_points(struct builder *b)
{
    size_t n = 2 * b->t->links + b->t->n;
    for (size_t i = 0; i < n; i++) {
        b->point[i] = (uint32_t)i;
        b->device[i] = i >= 2 * b->t->links;
    }
    memset(b->vertex, 0xff, n * sizeof *b->vertex);
    memset(b->wired, 0xff, b->t->links * sizeof *b->wired);
}

static void unite_all(struct builder *b)
{
    for (size_t k = 0; k < b->routes.n; k++) {
        uint32_t at = of_device(b, b->pair[k].from);
        for (size_t h = b->routes.start[k]; h < b->routes.start[k + 1]; h++) {
            unite(b, at, tail_of(b->routes.link[h]));
            at = network_head(b->routes.link[h]);
        }
        unite(b, at, of_device(b, b->pair[k].to));
    }
}

/* ---- the network */

static enum status find_vertex(struct builder *b, uint32_t point, uint32_t *out)
{
    struct network *n = b->net;
    uint32_t *vertex = &b->vertex[root(b, point)];
    if (*vertex == UINT32_MAX) {
        PASS(ARRAY_ROOM(n->name, n->vertices));
        PASS(ARRAY_ROOM(n->device, n->vertices));
        n->name[n->vertices] = NULL;
        n->device[n->vertices] = NETWORK_ROUTER;
        *vertex = (uint32_t)n->vertices++;
    }
    *out = *vertex;
    return STATUS_OK;
}

static enum status network_add_link(struct builder *b, const struct network_link *link,
                                    const char *name, size_t length, uint32_t *number)
{
    struct network *n = b->net;
    PASS(ARRAY_ROOM(n->link, n->links));
    n->link[n->links] = *link;
    n->link[n->links].one_way = true;
    PASS(ARRAY_NEW(n->link[n->links].name, length + 1));
    memcpy(n->link[n->links].name, name, length);
    *number = (uint32_t)n->links++;
    return STATUS_OK;
}

/* Number of a topology's link. */
static enum status wire_link(struct builder *b, uint32_t link, uint32_t *out)
{
    const struct topology_link *l = &b->t->link[link];
    struct network_link w = {.bandwidth_Bps = l->bandwidth_Bps,
                             .latency_s = l->latency_s,
                             .lanes = b->t->paths == PATHS_ECMP ? l->lanes : 0,
                             .fat = l->fat};
    bool directed;
    if (b->wired[link] == NETWORK_NO_LINK) {
        PASS(find_vertex(b, tail_of(link), &w.a));
        PASS(find_vertex(b, network_head(link), &w.b));
        PASS(network_add_link(b, &w, l->name, id_length(l->name, &directed), &b->wired[link]));
    }
    *out = b->wired[link];
    return STATUS_OK;
}

/* Number of the link without a limit from one vertex to another. */
static enum status connect(struct builder *b, uint32_t from, uint32_t to, uint32_t *out)
{
    const struct connection c = {from, to};
    const struct network_link w = {.a = from, .b = to};
    uint32_t number;
    bool fresh;
    PASS(intern(&b->connections, &c, sizeof c, &number, &fresh));
    if (fresh) {
        PASS(ARRAY_ROOM(b->connected, b->connected_n));
        PASS(network_add_link(b, &w, "", 0, &b->connected[b->connected_n++]));
    }
    *out = b->connected[number];
    return STATUS_OK;
}

/* ---- which way routes take */

struct route_walk {
    uint32_t *hop; /* [hops] network links, in order */
    size_t hops;
};

/* Each link of the longest route, and a connection around each. */
static enum status open_walk(const struct builder *b, struct route_walk *w)
{
    size_t longest = 0;
    for (size_t k = 0; k < b->routes.n; k++) {
        size_t links = b->routes.start[k + 1] - b->routes.start[k];
        longest = links > longest ? links : longest;
    }
    return ARRAY_NEW(w->hop, 2 * longest + 2);
}

static enum status network_add_hop_to(struct builder *b, struct route_walk *w, uint32_t from,
                                      uint32_t to)
{
    uint32_t number;
    if (from == to)
        return STATUS_OK;
    PASS(connect(b, from, to, &number));
    w->hop[w->hops++] = number;
    return STATUS_OK;
}

/* The network links of a route. */
static enum status walk_route(struct builder *b, size_t k, struct route_walk *w)
{
    uint32_t at, end, number;
    w->hops = 0;
    PASS(find_vertex(b, of_device(b, b->pair[k].from), &at));
    PASS(find_vertex(b, of_device(b, b->pair[k].to), &end));
    for (size_t h = b->routes.start[k]; h < b->routes.start[k + 1]; h++) {
        PASS(wire_link(b, b->routes.link[h], &number));
        PASS(network_add_hop_to(b, w, at, b->net->link[number].a));
        w->hop[w->hops++] = number;
        at = b->net->link[number].b;
    }
    return network_add_hop_to(b, w, at, end);
}

/* Whether the walk comes to that vertex before link i. */
static bool was_at(const struct network *n, const struct route_walk *w, size_t i, uint32_t vertex)
{
    for (size_t k = 0; k < i; k++)
        if (n->link[w->hop[k]].a == vertex)
            return true;
    return false;
}

/* Tell each point on the way of pair k where to send on: by the receiver, and where that has been
 * told otherwise, by the sender too if there may be detours. b->lost is the receiver when the way
 * comes to a point twice, or would have arrived before. */
static enum status network_set_next_hops(struct builder *b, size_t k, const struct route_walk *w,
                                         bool detours)
{
    struct network *n = b->net;
    const struct device_pair *pair = &b->pair[k];
    uint32_t end = b->vertex[root(b, of_device(b, pair->to))];
    for (size_t i = 0; i < w->hops; i++) {
        uint32_t hop = w->hop[i], at = n->link[hop].a;
        uint32_t *next = &n->next[at * b->t->n + pair->to];
        bool other = *next != NETWORK_NO_LINK && *next != hop;
        if (at == n->link[hop].b || at == end || was_at(n, w, i, at) || (other && !detours)) {
            b->lost = pair->to;
            return STATUS_OK;
        }
        if (other) {
            PASS(ARRAY_ROOM(n->detour, n->detours));
            n->detour[n->detours++] = (struct network_detour){at, pair->from, pair->to, hop};
        } else {
            *next = hop;
        }
    }
    return STATUS_OK;
}

static enum status network_name_devices(struct builder *b)
{
    for (uint32_t d = 0; d < b->t->n; d++) {
        uint32_t v;
        PASS(find_vertex(b, of_device(b, d), &v));
        b->net->device[v] = d;
        PASS(text_copy(b->t->device[d], &b->net->name[v]));
    }
    return STATUS_OK;
}

/* One attempt, with what follows each other put together or not; b->lost is t->n when it worked. */
static enum status attempt(struct builder *b, bool together)
{
    enum status st;
    struct route_walk w = {0};
    TRY(open_walk(b, &w));
    begin_points(b);
    if (together)
        unite_all(b);
    TRY(network_name_devices(b));
    for (size_t k = 0; k < b->routes.n; k++) /* to know how many points there are */
        TRY(walk_route(b, k, &w));
    TRY(ARRAY_NEW(b->net->next, b->net->vertices * b->t->n + 1));
    memset(b->net->next, 0xff, b->net->vertices * b->t->n * sizeof *b->net->next);
    b->lost = (uint32_t)b->t->n;
    for (size_t k = 0; k < b->routes.n && b->lost == b->t->n; k++) {
        TRY(walk_route(b, k, &w));
        TRY(network_set_next_hops(b, k, &w, !together));
    }
out:
    free(w.hop);
    interner_free(&b->connections);
    b->connected_n = 0;
    return st;
}

static enum status open_builder(struct builder *b)
{
    size_t n = b->t->n, points = 2 * b->t->links + n, pairs = 0;
    PASS(ARRAY_NEW(b->pair, n * n + 1));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            if (i != j)
                b->pair[pairs++] = (struct device_pair){i, j};
    PASS(topology_routes(b->t, pairs, b->pair, &b->routes));
    PASS(ARRAY_NEW(b->point, points));
    PASS(ARRAY_NEW(b->vertex, points));
    PASS(ARRAY_NEW(b->device, points));
    PASS(ARRAY_NEW(b->wired, b->t->links));
    b->connections.size = sizeof(struct connection);
    return STATUS_OK;
}

enum status network_of_routes(const struct topology *t, struct network *out, uint32_t *lost)
{
    enum status st;
    struct network net = {0};
    struct builder b = {.t = t, .net = &net};
    *lost = (uint32_t)t->n;
    if (t->n > NETWORK_DEVICES)
        return error_set(STATUS_UNSUPPORTED,
                         "got %zu devices, emulate --engine netns supports up to %d", t->n,
                         NETWORK_DEVICES);
    if (t->links == 0 && t->n > 1)
        return error_set(STATUS_UNSUPPORTED, "emulate --engine netns needs a platform that lists "
                                             "its links, which this one does not");
    TRY(open_builder(&b));
    TRY(attempt(&b, true));
    if (b.lost < t->n) {
        network_free(&net);
        TRY(attempt(&b, false));
    }
    *lost = b.lost;
    if (b.lost < t->n)
        FAIL(STATUS_UNSUPPORTED,
             "unsupported by emulate --engine netns: a route to '%s' that uses a link twice",
             t->device[b.lost]);
    MOVE(out, net);
out:
    network_free(&net);
    routes_free(&b.routes);
    free(b.pair);
    free(b.point);
    free(b.vertex);
    free(b.device);
    free(b.wired);
    free(b.connected);
    return st;
}
