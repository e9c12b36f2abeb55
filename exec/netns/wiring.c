/* Which namespaces, interfaces and routes stand for a platform.
 *
 * 1. Devices that are joined by tiers inside a node share a namespace.
 * 2. For each rank, a breadth-first search from it through links and routers gives the next link on
 *    a shortest way from everywhere; a second one, through nodes, only where the first finds none.
 * 3. Among equally short ways out of a node the receiver's number within its node chooses, which
 *    spreads the ranks of a node over its network cards.
 * 4. Links and routers that lie on a way are kept and numbered, the others left out. */
#define _DEFAULT_SOURCE
#include "exec/netns/inside.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"

/* The graph while ways are sought; vertices of nodes know their node. */
struct wiring_search {
    struct arena memory; /* of the arrays */
    const struct network *net;
    struct wiring *w;
    size_t devices;         /* of the platform */
    uint32_t *rank;         /* [devices] WIRING_NONE: it has none */
    uint32_t *device;       /* [ranks] */
    uint32_t *node;         /* [vertices] WIRING_NONE: a router, or a device that has no rank */
    uint32_t *start;        /* [vertices + 1] CSR */
    uint32_t *edge;         /* [2 * links] link numbers */
    uint32_t *hops, *queue; /* [vertices] */
    uint32_t *via;          /* [vertices * ranks] network link towards the rank */
    uint32_t *exit;         /* [nodes * ranks] the same for whole nodes */
    uint32_t *kept;         /* [links] number in the wiring + 1; 0: on no way */
    uint32_t *space;        /* [vertices] of routers on ways, + 1 */
};

/* ---- nodes */

static bool is_label_inside(const char *name)
{
    return !strncmp(name, "nv", 2) || !strncmp(name, "pci", 3);
}

/* topology_inside() also guesses by speed, which would hide a rack's links. */
static bool wiring_find_inside(const struct topology *t, bool *inside)
{
    bool any = topology_inside(t, inside), labelled = false;
    for (size_t k = 0; k < t->tiers; k++)
        labelled = labelled || (inside[k] && is_label_inside(t->tier[k].name));
    return any && labelled;
}

void wiring_name(const char *name, size_t number, struct wiring_space *s)
{
    snprintf(s->name, sizeof s->name, "%s", name ? name : "");
    for (char *c = s->name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '-';
    if (!name || s->name[0] == '-')
        snprintf(s->name, sizeof s->name, "joint%zu", number);
}

static enum status wiring_make_nodes(const struct topology *t, const struct wiring_search *search)
{
    struct wiring *w = search->w;
    const uint32_t *device = search->device;
    bool *inside = NULL;
    PASS(ARRAY_NEW(inside, t->tiers));
    bool grouped = wiring_find_inside(t, inside);
    for (uint32_t r = 0; r < w->ranks; r++) {
        uint32_t s = 0;
        while (grouped && s < r && !inside[topology_between(t, device[s], device[r]) - t->tier])
            s++;
        if (grouped && s < r) {
            w->space_of[r] = w->space_of[s];
        } else {
            w->space_of[r] = (uint32_t)w->nodes;
            w->space[w->nodes].first = r;
            wiring_name(t->device[device[r]], w->nodes, &w->space[w->nodes]);
            w->nodes++;
        }
        w->local[r] = w->space[w->space_of[r]].ranks++;
    }
    w->spaces = w->nodes;
    free(inside);
    return STATUS_OK;
}

/* ---- ways */

/* May a way pass this link? Not inside a node, and not to a device without a rank. */
static bool is_passable(const struct wiring_search *s, const struct network_link *l)
{
    bool a = s->net->device[l->a] == NETWORK_ROUTER || s->node[l->a] != WIRING_NONE;
    bool b = s->net->device[l->b] == NETWORK_ROUTER || s->node[l->b] != WIRING_NONE;
    return a && b && (s->node[l->a] != s->node[l->b] || s->node[l->a] == WIRING_NONE);
}

/* Two passes, as for any CSR list: count, then fill. */
static void wiring_list_edges(struct wiring_search *s)
{
    const struct network *n = s->net;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t l = 0; l < n->links; l++) {
            if (!is_passable(s, &n->link[l]))
                continue;
            const uint32_t end[2] = {n->link[l].a, n->link[l].b};
            for (int k = 0; k < 2; k++)
                if (pass == 0)
                    s->start[end[k] + 2]++;
                else
                    s->edge[s->start[end[k] + 1]++] = l;
        }
        for (size_t v = 0; pass == 0 && v < n->vertices; v++)
            s->start[v + 2] += s->start[v + 1];
    }
}

static uint32_t other_end(const struct network_link *l, uint32_t v)
{
    return l->a == v ? l->b : l->a;
}

/* Breadth first from the receiver, whose own links count if it has any, else its node's;
 * `through`: nodes forward too. */
static void search_from(struct wiring_search *s, uint32_t rank, bool through)
{
    const struct network *n = s->net;
    size_t head = 0, tail = 0;
    uint32_t own = WIRING_NONE, home = s->w->space_of[rank];
    memset(s->hops, 0xff, n->vertices * sizeof *s->hops);
    for (uint32_t v = 0; v < n->vertices; v++)
        if (n->device[v] == s->device[rank] && s->start[v] < s->start[v + 1])
            own = v;
    for (uint32_t v = 0; v < n->vertices; v++)
        if (s->node[v] == home) {
            s->hops[v] = 0;
            if (own == WIRING_NONE || v == own)
                s->queue[tail++] = v;
        }
    while (head < tail) {
        uint32_t v = s->queue[head++];
        if (s->node[v] != WIRING_NONE && s->node[v] != home && !through)
            continue;
        for (uint32_t e = s->start[v]; e < s->start[v + 1]; e++) {
            uint32_t u = other_end(&n->link[s->edge[e]], v);
            if (s->hops[u] != UINT32_MAX)
                continue;
            s->hops[u] = s->hops[v] + 1;
            s->via[u * s->w->ranks + rank] = s->edge[e];
            s->queue[tail++] = u;
        }
    }
}

/* Out of each node towards the rank, by the rank's number among the equally short ways. Returns a
 * node without any, WIRING_NONE. */
static uint32_t choose_exits(struct wiring_search *s, uint32_t rank)
{
    struct wiring *w = s->w;
    for (uint32_t node = 0; node < w->nodes; node++) {
        uint32_t least = UINT32_MAX, equal = 0, pick;
        if (node == w->space_of[rank])
            continue;
        for (uint32_t v = 0; v < s->net->vertices; v++) {
            if (s->node[v] != node || s->hops[v] == UINT32_MAX || s->hops[v] > least)
                continue;
            equal = s->hops[v] < least ? 1 : equal + 1;
            least = s->hops[v];
        }
        if (equal == 0)
            return node;
        pick = w->local[rank] % equal;
        for (uint32_t v = 0; v < s->net->vertices; v++)
            if (s->node[v] == node && s->hops[v] == least && pick-- == 0)
                s->exit[node * w->ranks + rank] = s->via[v * w->ranks + rank];
    }
    return WIRING_NONE;
}

static enum status find_exits(struct wiring_search *s, uint32_t rank)
{
    uint32_t lost = 0;
    for (int through = 0; through < 2 && lost != WIRING_NONE; through++) {
        search_from(s, rank, through != 0);
        lost = choose_exits(s, rank);
    }
    return lost == WIRING_NONE
               ? STATUS_OK
               : error_set(STATUS_UNSUPPORTED, "the platform has no route from node %s to rank %u",
                           s->w->space[lost].name, rank);
}

/* ---- what is on a way */

static uint32_t keep_router(struct wiring_search *s, uint32_t v)
{
    struct wiring *w = s->w;
    if (s->node[v] != WIRING_NONE)
        return s->node[v];
    if (!s->space[v]) {
        wiring_name(s->net->name[v], w->spaces, &w->space[w->spaces]);
        s->space[v] = (uint32_t)++w->spaces;
    }
    return s->space[v] - 1;
}

/* How many cables a link is. */
static uint32_t cables_of(const struct network_link *l)
{
    return l->lanes > 0 ? l->lanes : 1;
}

static void keep_link(struct wiring_search *s, uint32_t l)
{
    const struct network_link *from = &s->net->link[l];
    if (s->kept[l])
        return;
    s->kept[l] = (uint32_t)s->w->links + 1;
    for (uint32_t lane = 0; lane < cables_of(from); lane++) {
        struct wiring_link *to = &s->w->link[s->w->links++];
        to->space[0] = keep_router(s, from->a);
        to->space[1] = keep_router(s, from->b);
        for (int k = 0; k < 2; k++)
            to->interface[k] = s->w->space[to->space[k]].interfaces++;
        to->name = from->name;
        to->bandwidth_Bps = from->bandwidth_Bps / cables_of(from);
        to->latency_s = from->latency_s;
        to->lanes = lane == 0 && from->lanes > 1 ? from->lanes : 0;
        to->lane = lane;
        to->fat = from->fat;
        to->one_way = from->one_way;
    }
}

/* The end of the link that lies in the space. */
static uint32_t near_end(struct wiring_search *s, const struct network_link *l, uint32_t space)
{
    return keep_router(s, l->a) == space ? l->a : l->b;
}

/* A link without a limit narrows nothing. */
static double narrower(double Bps, const struct network_link *l)
{
    return l->bandwidth_Bps > 0 ? fmin(Bps, l->bandwidth_Bps) : Bps;
}

/* From a node to a rank; returns the narrowest bandwidth. */
static double keep_way(struct wiring_search *s, uint32_t node, uint32_t rank)
{
    struct wiring *w = s->w;
    uint32_t l = s->exit[node * w->ranks + rank], space = node, v;
    double narrowest = INFINITY;
    for (;;) {
        const struct network_link *link = &s->net->link[l];
        v = near_end(s, link, space);
        keep_link(s, l);
        w->way[space * w->ranks + rank] = s->kept[l] - 1;
        narrowest = narrower(narrowest, link);
        v = other_end(link, v);
        space = keep_router(s, v);
        if (space == w->space_of[rank])
            return narrowest;
        w->space[space].forwards = true;
        l = space < w->nodes ? s->exit[space * w->ranks + rank] : s->via[v * w->ranks + rank];
    }
}

/* The network's link at a vertex for what one device sends to another. Detours are in the order of
 * senders and receivers. */
static uint32_t next_link(const struct wiring_search *s, uint32_t v, uint32_t from, uint32_t to)
{
    const struct network_detour *d = s->net->detour;
    size_t low = 0, high = s->net->detours;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        bool before = d[middle].from < from || (d[middle].from == from && d[middle].to < to);
        *(before ? &low : &high) = before ? middle + 1 : middle;
    }
    for (; low < s->net->detours && d[low].from == from && d[low].to == to; low++)
        if (d[low].vertex == v)
            return d[low].link;
    return s->net->next[v * s->devices + to];
}

/* A link of the way from a node to a rank: all that goes to the rank, or a detour. */
static enum status set_way(struct wiring *w, uint32_t space, uint32_t node, uint32_t rank,
                           uint32_t link)
{
    uint32_t *way = &w->way[space * w->ranks + rank];
    if (*way == WIRING_NONE)
        *way = link;
    if (*way == link)
        return STATUS_OK;
    PASS(ARRAY_ROOM(w->detour, w->detours));
    w->detour[w->detours++] = (struct wiring_detour){space, node, rank, link};
    return STATUS_OK;
}

/* The same as keep_way() where the network says which way, from rank `from` at vertex v. A way
 * comes to no space twice: in a node of several devices it could, and would not go on. */
static enum status wiring_follow_route(struct wiring_search *s, uint32_t v, uint32_t from,
                                       uint32_t rank, double *narrowest)
{
    struct wiring *w = s->w;
    const struct network *n = s->net;
    uint32_t space = keep_router(s, v);
    for (size_t steps = 0; space != w->space_of[rank]; steps++) {
        uint32_t l = next_link(s, v, s->device[from], s->device[rank]);
        if (l == NETWORK_NO_LINK || steps > n->links)
            return error_set(STATUS_UNSUPPORTED,
                             "the platform has no route from node %s to rank %u",
                             w->space[space].name, rank);
        v = n->link[l].b;
        uint32_t before = space;
        space = keep_router(s, v);
        if (space == before) /* inside a node */
            continue;
        if (space == w->space_of[from])
            return error_set(STATUS_UNSUPPORTED, "the route to rank %u loops back to node %s", rank,
                             w->space[space].name);
        keep_link(s, l);
        PASS(set_way(w, before, w->space_of[from], rank, s->kept[l] - 1));
        *narrowest = narrower(*narrowest, &n->link[l]);
        w->space[space].forwards = w->space[space].forwards || space != w->space_of[rank];
    }
    return STATUS_OK;
}

static enum status follow_all(struct wiring_search *s)
{
    struct wiring *w = s->w;
    uint32_t *vertex = NULL;
    PASS(ARENA_NEW(&s->memory, vertex, s->devices));
    for (uint32_t v = 0; v < s->net->vertices; v++)
        if (s->net->device[v] != NETWORK_ROUTER)
            vertex[s->net->device[v]] = v;
    for (uint32_t a = 0; a < w->ranks; a++) {
        double widest = 0;
        for (uint32_t b = 0; b < w->ranks; b++) {
            double narrowest = INFINITY;
            uint32_t node = w->space_of[a];
            if (node == w->space_of[b] || w->local[b] % w->space[node].ranks != w->local[a])
                continue;
            PASS(wiring_follow_route(s, vertex[s->device[a]], a, b, &narrowest));
            widest = fmax(widest, narrowest);
        }
        w->sending_Bps += widest;
    }
    return STATUS_OK;
}

/* What the nodes may send together is the sum, over nodes, of the narrowest link of their widest
 * way. */
static enum status find_ways(struct wiring_search *s)
{
    struct wiring *w = s->w;
    if (s->net->next)
        return follow_all(s);
    wiring_list_edges(s);
    for (uint32_t rank = 0; rank < w->ranks; rank++)
        PASS(find_exits(s, rank));
    for (uint32_t node = 0; node < w->nodes; node++) {
        double widest = 0;
        for (uint32_t rank = 0; rank < w->ranks; rank++)
            if (w->space_of[rank] != node)
                widest = fmax(widest, keep_way(s, node, rank));
        w->sending_Bps += widest;
    }
    return STATUS_OK;
}

/* ---- together */

enum status wiring_allocate(size_t ranks, size_t spaces, size_t links, struct wiring *w)
{
    w->ranks = ranks;
    PASS(ARRAY_NEW(w->space, spaces));
    PASS(ARRAY_NEW(w->space_of, ranks));
    PASS(ARRAY_NEW(w->local, ranks));
    PASS(ARRAY_NEW(w->link, links));
    PASS(ARRAY_NEW(w->way, spaces * ranks));
    memset(w->way, 0xff, spaces * ranks * sizeof *w->way);
    return STATUS_OK;
}

static enum status open_search(struct wiring_search *s)
{
    size_t v = s->net->vertices, l = s->net->links, ranks = s->w->ranks;
    PASS(ARENA_NEW(&s->memory, s->node, v));
    PASS(ARENA_NEW(&s->memory, s->start, v + 2));
    PASS(ARENA_NEW(&s->memory, s->edge, 2 * l));
    PASS(ARENA_NEW(&s->memory, s->hops, v));
    PASS(ARENA_NEW(&s->memory, s->queue, v));
    PASS(ARENA_NEW(&s->memory, s->via, v * ranks));
    PASS(ARENA_NEW(&s->memory, s->exit, ranks * ranks));
    PASS(ARENA_NEW(&s->memory, s->kept, l));
    PASS(ARENA_NEW(&s->memory, s->space, v));
    for (size_t i = 0; i < v; i++) {
        uint32_t device = s->net->device[i];
        uint32_t rank = device == NETWORK_ROUTER ? WIRING_NONE : s->rank[device];
        s->node[i] = rank == WIRING_NONE ? WIRING_NONE : s->w->space_of[rank];
    }
    return STATUS_OK;
}

/* Which rank is which device, and back. */
static enum status wiring_place_ranks(const struct topology *t, const uint32_t *device,
                                      struct wiring_search *s)
{
    PASS(ARENA_NEW(&s->memory, s->rank, t->n));
    PASS(ARENA_NEW(&s->memory, s->device, s->w->ranks));
    memset(s->rank, 0xff, t->n * sizeof *s->rank);
    for (uint32_t r = 0; r < s->w->ranks; r++) {
        uint32_t d = device ? device[r] : r;
        if (d >= t->n || s->rank[d] != WIRING_NONE)
            return error_set(STATUS_INVALID, "rank %u is on device %u, %s", r, d,
                             d >= t->n ? "which does not exist" : "where another rank runs");
        s->rank[d] = r;
        s->device[r] = d;
    }
    return STATUS_OK;
}

enum status wiring_plan(const struct topology *t, const struct network *n, size_t ranks,
                        const uint32_t *device, struct wiring *out)
{
    enum status st;
    struct wiring w = {0};
    struct wiring_search s = {.net = n, .w = &w, .devices = t->n};
    if (ranks < 1 || ranks > t->n)
        return error_set(STATUS_INVALID, "got %zu ranks, but the platform has %zu devices", ranks,
                         t->n);
    if (ranks > WIRING_RANKS)
        return error_set(STATUS_UNSUPPORTED,
                         "got %zu ranks, expected at most %d in an emulated network", ranks,
                         WIRING_RANKS);
    size_t cables = 0;
    for (size_t l = 0; l < n->links; l++)
        cables += cables_of(&n->link[l]);
    TRY(wiring_allocate(ranks, ranks + n->vertices, cables, &w));
    TRY(wiring_place_ranks(t, device, &s));
    TRY(wiring_make_nodes(t, &s));
    TRY(open_search(&s));
    TRY(find_ways(&s));
    MOVE(out, w);
out:
    arena_free(&s.memory);
    wiring_free(&w);
    return st;
}

double wiring_latency(const struct wiring *w)
{
    double longest_s = 0;
    for (size_t i = 0; i < w->links; i++)
        longest_s = fmax(longest_s, w->link[i].latency_s);
    return longest_s;
}

void wiring_free(struct wiring *w)
{
    free(w->space);
    free(w->space_of);
    free(w->local);
    free(w->link);
    free(w->way);
    free(w->detour);
    *w = (struct wiring){0};
}
