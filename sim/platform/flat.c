/* Reads the routes of a flat zone as SimGrid does: its vertices are numbered as routes first name
 * them, an edge is a route in one direction, and a SPLITDUPLEX link is two links. */
#include "sim/platform/flat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "sim/platform/xml_scan.h"

enum {
    NAME = 256,
    MAX_HOPS = 64, /* links of one route of the text */
};

/* A name in the text, and what it stands for. */
struct flat_name {
    struct xml_span name;
    uint32_t number; /* of a vertex, or of a link's first direction; UINT32_MAX: none yet */
    bool duplex;     /* of links: there are two */
};

/* Names, sorted once all are there. */
struct flat_names {
    size_t n;
    struct flat_name *at; /* [n] */
};

/* A route in one direction. */
struct edge {
    uint32_t from, to, first; /* first: of its hops */
};

/* What is read of the text. */
struct flat_reader {
    struct flat_zone *zone;
    flat_link *find;
    struct flat_names points, links;
    size_t edges;
    struct edge *edge; /* [edges] */
    /* the route being read */
    bool open, both_ways;
    struct flat_name *ends[2];
    size_t hops;
    uint32_t forth[MAX_HOPS], back[MAX_HOPS]; /* link in either direction */
};

/* ---- names; false means that the text is not of the kind we can do */

/* Order of names as they stand in the text. */
static int flat_by_name(const void *a, const void *b)
{
    return xml_compare(((const struct flat_name *)a)->name, ((const struct flat_name *)b)->name);
}

static void sort_names(struct flat_names *names)
{
    if (names->n > 0)
        qsort(names->at, names->n, sizeof *names->at, flat_by_name);
}

/* A name that needs no decoding, so that spans can be compared as they stand. */
static bool is_plain(struct xml_span span)
{
    return span.at && span.n > 0 && span.n < NAME - 8 && !memchr(span.at, '&', span.n);
}

static struct flat_name *find_name(const struct flat_names *names, struct xml_span name)
{
    struct flat_name key = {.name = name};
    return names->n > 0 && is_plain(name)
               ? bsearch(&key, names->at, names->n, sizeof *names->at, flat_by_name)
               : NULL;
}

/* Elements that leave routing to the shortest way; a <zone> must route by Dijkstra's algorithm. */
static bool is_supported(const struct xml_tag *tag, size_t *zones)
{
    static const char *const elements[] = {"platform", "host",     "router", "link",
                                           "route",    "link_ctn", "prop"};
    if (xml_equal(tag->name, "zone")) {
        struct xml_span routing = xml_attribute(tag, "routing");
        return tag->closing || (++*zones == 1 && (xml_equal(routing, "DijkstraCache") ||
                                                  xml_equal(routing, "Dijkstra")));
    }
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (xml_equal(tag->name, elements[i]))
            return true;
    return false;
}

/* One direction of a link. */
static enum status add_direction(struct flat_reader *r, const struct xml_tag *tag,
                                 struct xml_span id, const char *direction, bool *fits)
{
    struct flat_zone *z = r->zone;
    struct topology_link link;
    char name[NAME];
    snprintf(name, sizeof name, "%.*s%s", (int)id.n, id.at, direction);
    *fits = r->find(tag, name, &link);
    if (!*fits)
        return STATUS_OK;
    PASS(ARRAY_ROOM(z->link, z->links));
    PASS(ARRAY_ROOM(z->latency_s, z->links));
    z->latency_s[z->links] = link.latency_s;
    z->link[z->links] = link;
    return text_copy(name, &z->link[z->links++].name);
}

/* A <link>: one link, or one for each direction. */
static enum status flat_add_link(struct flat_reader *r, const struct xml_tag *tag, bool *fits)
{
    struct xml_span id = xml_attribute(tag, "id"), policy = xml_attribute(tag, "sharing_policy");
    bool duplex = xml_equal(policy, "SPLITDUPLEX");
    *fits = is_plain(id) &&
            (duplex || !policy.at || xml_equal(policy, "SHARED") || xml_equal(policy, "FATPIPE"));
    if (!*fits)
        return STATUS_OK;
    PASS(ARRAY_ROOM(r->links.at, r->links.n));
    r->links.at[r->links.n++] = (struct flat_name){id, (uint32_t)r->zone->links, duplex};
    PASS(add_direction(r, tag, id, duplex ? "_UP" : "", fits));
    return *fits && duplex ? add_direction(r, tag, id, "_DOWN", fits) : STATUS_OK;
}

/* Hosts, routers and links; whether all elements are of the known kind. */
static enum status flat_read_names(const struct platform_text *p, struct flat_reader *r, bool *fits)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    size_t zones = 0;
    *fits = true;
    while (*fits && xml_next(&s, &tag)) {
        *fits = is_supported(&tag, &zones);
        if (!*fits)
            break;
        if (xml_is(&tag, "link"))
            PASS(flat_add_link(r, &tag, fits));
        if (!xml_is(&tag, "host") && !xml_is(&tag, "router"))
            continue;
        struct xml_span id = xml_attribute(&tag, "id");
        *fits = is_plain(id);
        PASS(ARRAY_ROOM(r->points.at, r->points.n));
        r->points.at[r->points.n++] = (struct flat_name){.name = id, .number = UINT32_MAX};
    }
    *fits = *fits && zones == 1;
    sort_names(&r->points);
    sort_names(&r->links);
    return STATUS_OK;
}

/* ---- routes */

/* One <link_ctn> of the route being read: its link on the way there and on the way back. */
static bool flat_add_hop(struct flat_reader *r, const struct xml_tag *tag)
{
    struct xml_span way = xml_attribute(tag, "direction");
    const struct flat_name *link = find_name(&r->links, xml_attribute(tag, "id"));
    bool up = xml_equal(way, "UP"), down = xml_equal(way, "DOWN");
    if (!r->open || r->hops == MAX_HOPS || !link || link->duplex != (up || down) ||
        !(up || down || !way.at || xml_equal(way, "NONE")))
        return false;
    r->forth[r->hops] = link->number + down;
    r->back[r->hops++] = link->number + up;
    return true;
}

/* A vertex for a host or router that a route names for the first time. */
static struct flat_name *find_end(struct flat_reader *r, struct xml_span name)
{
    struct flat_name *end = find_name(&r->points, name);
    if (end && end->number == UINT32_MAX)
        end->number = (uint32_t)r->zone->graph.vertices++;
    return end;
}

/* A <route> opens: who is at its ends, and whether it holds for the way back too. */
static bool flat_begin_route(struct flat_reader *r, const struct xml_tag *tag)
{
    struct xml_span symmetrical = xml_attribute(tag, "symmetrical");
    r->open = true;
    r->hops = 0;
    r->both_ways =
        !symmetrical.at || xml_equal(symmetrical, "YES") || xml_equal(symmetrical, "yes");
    r->ends[0] = find_end(r, xml_attribute(tag, "src"));
    r->ends[1] = find_end(r, xml_attribute(tag, "dst"));
    return r->ends[0] && r->ends[1];
}

/* An edge for each direction; the way back passes the links in reverse. */
static enum status flat_end_route(struct flat_reader *r)
{
    struct route_graph *g = &r->zone->graph;
    for (int way = 0; way < (r->both_ways ? 2 : 1); way++) {
        PASS(ARRAY_ROOM(r->edge, r->edges));
        r->edge[r->edges++] =
            (struct edge){r->ends[way]->number, r->ends[1 - way]->number, (uint32_t)g->hops};
        for (size_t h = 0; h < r->hops; h++) {
            PASS(ARRAY_ROOM(g->hop, g->hops));
            g->hop[g->hops++] = way == 0 ? r->forth[h] : r->back[r->hops - 1 - h];
        }
    }
    r->open = false;
    return STATUS_OK;
}

/* All routes of the text, in its order. */
static enum status flat_read_routes(const struct platform_text *p, struct flat_reader *r,
                                    bool *fits)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    while (*fits && xml_next(&s, &tag)) {
        if (xml_is(&tag, "link_ctn"))
            *fits = flat_add_hop(r, &tag);
        else if (xml_is(&tag, "route"))
            *fits = flat_begin_route(r, &tag);
        else if (xml_equal(tag.name, "route") && r->hops > 0)
            PASS(flat_end_route(r));
        *fits = *fits && r->zone->graph.hops < UINT32_MAX / 4;
    }
    return STATUS_OK;
}

/* Edges by the vertex that they leave, in the text's order. */
static enum status flat_sort_edges(struct flat_reader *r)
{
    struct route_graph *g = &r->zone->graph;
    uint32_t *hop = NULL, *place = NULL; /* place: of each edge */
    enum status st;
    g->edges = r->edges;
    TRY(ARRAY_NEW(g->start, g->vertices + 2));
    TRY(ARRAY_NEW(g->to, g->edges));
    TRY(ARRAY_NEW(g->first, g->edges + 2));
    TRY(ARRAY_NEW(hop, g->hops));
    TRY(ARRAY_NEW(place, g->edges));
    for (size_t e = 0; e < g->edges; e++)
        g->start[r->edge[e].from + 2]++;
    for (size_t v = 0; v < g->vertices; v++)
        g->start[v + 2] += g->start[v + 1];
    for (size_t e = 0; e < g->edges; e++) {
        size_t end = e + 1 < g->edges ? r->edge[e + 1].first : g->hops;
        place[e] = g->start[r->edge[e].from + 1]++;
        g->to[place[e]] = r->edge[e].to;
        g->first[place[e] + 2] = (uint32_t)(end - r->edge[e].first);
    }
    for (size_t e = 0; e < g->edges; e++)
        g->first[e + 2] += g->first[e + 1];
    for (size_t e = 0; e < g->edges; e++) {
        size_t end = e + 1 < g->edges ? r->edge[e + 1].first : g->hops;
        for (size_t h = r->edge[e].first; h < end; h++)
            hop[g->first[place[e] + 1]++] = g->hop[h];
    }
    free(g->hop);
    g->hop = hop;
    hop = NULL;
out:
    free(place);
    free(hop);
    return st;
}

/* Where the devices are; one that no route names is nowhere. */
static enum status place_devices(struct flat_reader *r, size_t n, char *const *device, bool *fits)
{
    struct route_graph *g = &r->zone->graph;
    PASS(ARRAY_NEW(g->vertex, n + 1));
    for (size_t i = 0; *fits && i < n; i++) {
        const struct flat_name *at =
            find_name(&r->points, (struct xml_span){device[i], strlen(device[i])});
        *fits = at && at->number != UINT32_MAX;
        g->vertex[i] = *fits ? at->number : 0;
    }
    return STATUS_OK;
}

enum status flat_read(const struct platform_text *p, size_t n, char *const *device, flat_link *find,
                      bool *fits, struct flat_zone *out)
{
    enum status st;
    struct flat_zone zone = {0};
    struct flat_reader r = {.zone = &zone, .find = find};
    *fits = true;
    TRY(flat_read_names(p, &r, fits));
    if (*fits)
        TRY(flat_read_routes(p, &r, fits));
    if (*fits)
        TRY(place_devices(&r, n, device, fits));
    if (*fits) {
        TRY(flat_sort_edges(&r));
        TRY(route_graph_find_blocks(&zone.graph));
    }
    if (*fits) {
        *out = zone;
        zone = (struct flat_zone){0};
    }
out:
    flat_free(&zone);
    free(r.points.at);
    free(r.links.at);
    free(r.edge);
    return st;
}

void flat_free(struct flat_zone *z)
{
    for (size_t i = 0; z->link && i < z->links; i++)
        free(z->link[i].name);
    free(z->link);
    free(z->latency_s);
    route_graph_free(&z->graph);
    *z = (struct flat_zone){0};
}
