/* Reads the routes of a flat zone into a graph and searches it breadth first from each host. A
 * "value" is a pair of latency and bandwidth; values are numbered as they are found, and the sum
 * of a value and a link is looked up in a table, so that a search costs one look-up per link. */
#include "sim/platform/shortest.h"

#include <math.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "sim/platform/xml_scan.h"

enum {
    MAX_CLASSES = 256, /* different links */
    MAX_HOPS = 64,     /* links of one route of the text */
    NAME = 256,
    NOT_FOUND = -1,
};
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-12;

struct quality {
    double latency_s, bandwidth_Bps;
};

struct named_link {
    const char *name; /* SimGrid's */
    uint16_t class;
};

/* One link of a route in one direction, between two vertices. */
struct edge {
    uint32_t from, to;
    uint16_t class;
};

struct shortest {
    size_t n;
    uint32_t *vertex; /* [n] of each device */
    size_t vertices;  /* hosts, routers, and the joints inside routes of several links */
    size_t *start;    /* [vertices + 1] CSR */
    uint32_t *to;     /* [edges] */
    uint16_t *class;  /* [edges] */
    size_t classes;
    struct quality link[MAX_CLASSES];
    size_t values; /* value 0: the host itself */
    struct quality value[SHORTEST_VALUES];
    uint16_t *next;  /* [SHORTEST_VALUES * classes] value plus a link, + 1; 0: not known yet */
    uint32_t *queue; /* [vertices] */
    uint32_t *hops;  /* [vertices] from the source; UINT32_MAX: not reached */
    uint16_t *found; /* [vertices] value */
};

/* What is read of the text. */
struct reader {
    struct shortest *w;
    size_t links, names, edges;
    struct named_link *link; /* [links] by name */
    struct xml_span *name;   /* [names] hosts and routers, by name */
    struct edge *edge;       /* [edges] */
    /* the route being read */
    bool open, both_ways;
    long ends[2];
    size_t hops;
    int forth[MAX_HOPS], back[MAX_HOPS]; /* class of each link in either direction */
};

/* ---- reading: false means that the text is not of the kind we can do */

/* Order of links by name. */
static int by_name(const void *a, const void *b)
{
    const struct named_link *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Order of hosts and routers by name. */
static int by_span(const void *a, const void *b)
{
    return xml_compare(*(const struct xml_span *)a, *(const struct xml_span *)b);
}

/* The class of links with this latency and bandwidth; false when there are too many. */
static bool add_class(struct shortest *w, struct quality q, uint16_t *class)
{
    for (*class = 0; *class < w->classes; (*class)++)
        if (!memcmp(&w->link[*class], &q, sizeof q))
            return true;
    if (w->classes == MAX_CLASSES)
        return false;
    w->link[w->classes++] = q;
    return true;
}

/* SimGrid's links, sorted by name. */
static enum status list_links(struct reader *r, bool *fits)
{
    sg_link_t *all = sg_link_list();
    r->links = sg_link_count();
    r->link = calloc(r->links + 1, sizeof *r->link);
    if (!r->link) {
        free(all);
        return error_set(STATUS_NOMEM, "out of memory");
    }
    *fits = true;
    for (size_t i = 0; *fits && i < r->links; i++) {
        struct quality q = {sg_link_get_latency(all[i]), sg_link_get_bandwidth(all[i])};
        r->link[i].name = sg_link_get_name(all[i]);
        *fits = add_class(r->w, q, &r->link[i].class);
    }
    qsort(r->link, r->links, sizeof *r->link, by_name);
    free(all);
    return STATUS_OK;
}

/* A name that needs no decoding, so that spans can be compared as they stand. */
static bool is_plain(struct xml_span span)
{
    return span.at && span.n > 0 && span.n < NAME - 8 && !memchr(span.at, '&', span.n);
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

/* The names of hosts and routers; whether all elements are of the known kind. */
static enum status list_names(const struct platform_text *p, struct reader *r, bool *fits)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    size_t zones = 0;
    *fits = false;
    while (xml_next(&s, &tag)) {
        if (!is_supported(&tag, &zones))
            return STATUS_OK;
        if (!xml_is(&tag, "host") && !xml_is(&tag, "router"))
            continue;
        struct xml_span id = xml_attribute(&tag, "id");
        if (!is_plain(id))
            return STATUS_OK;
        PASS(ARRAY_ROOM(r->name, r->names));
        r->name[r->names++] = id;
    }
    *fits = zones == 1 && r->names > 0;
    if (r->names > 0)
        qsort(r->name, r->names, sizeof *r->name, by_span);
    return STATUS_OK;
}

/* Number of a host or router, or NOT_FOUND. */
static long find_vertex(const struct reader *r, struct xml_span name)
{
    if (!is_plain(name))
        return NOT_FOUND;
    const struct xml_span *found = bsearch(&name, r->name, r->names, sizeof name, by_span);
    return found ? found - r->name : NOT_FOUND;
}

/* Class of a link in one direction, or NOT_FOUND. SimGrid names the halves of a SPLITDUPLEX link
 * by suffix. */
static int find_class(const struct reader *r, struct xml_span id, const char *direction)
{
    char name[NAME];
    snprintf(name, sizeof name, "%.*s%s", (int)id.n, id.at, direction);
    const struct named_link key = {.name = name};
    const struct named_link *found = bsearch(&key, r->link, r->links, sizeof *r->link, by_name);
    return found ? found->class : NOT_FOUND;
}

/* One <link_ctn> of the route being read: its class on the way there and on the way back. */
static bool add_hop(struct reader *r, const struct xml_tag *tag)
{
    struct xml_span id = xml_attribute(tag, "id"), way = xml_attribute(tag, "direction");
    if (!r->open || r->hops == MAX_HOPS || !is_plain(id))
        return false;
    const char *forth = "", *back = "";
    if (xml_equal(way, "UP")) {
        forth = "_UP";
        back = "_DOWN";
    } else if (xml_equal(way, "DOWN")) {
        forth = "_DOWN";
        back = "_UP";
    } else if (way.at && !xml_equal(way, "NONE")) {
        return false;
    }
    r->forth[r->hops] = find_class(r, id, forth);
    r->back[r->hops] = find_class(r, id, back);
    return r->forth[r->hops] != NOT_FOUND && r->back[r->hops++] != NOT_FOUND;
}

/* A <route> opens: who is at its ends, and whether it holds for the way back too. */
static bool begin_route(struct reader *r, const struct xml_tag *tag)
{
    struct xml_span symmetrical = xml_attribute(tag, "symmetrical");
    r->open = true;
    r->hops = 0;
    r->both_ways =
        !symmetrical.at || xml_equal(symmetrical, "YES") || xml_equal(symmetrical, "yes");
    r->ends[0] = find_vertex(r, xml_attribute(tag, "src"));
    r->ends[1] = find_vertex(r, xml_attribute(tag, "dst"));
    return r->ends[0] != NOT_FOUND && r->ends[1] != NOT_FOUND;
}

/* The links of the route one after the other, joined by vertices of their own. */
static enum status end_route(struct reader *r)
{
    struct shortest *w = r->w;
    for (int way = 0; way < (r->both_ways ? 2 : 1); way++) {
        uint32_t at = (uint32_t)r->ends[way];
        for (size_t h = 0; h < r->hops; h++) {
            int class = way == 0 ? r->forth[h] : r->back[r->hops - 1 - h];
            bool last = h + 1 == r->hops;
            uint32_t to = last ? (uint32_t)r->ends[1 - way] : (uint32_t)w->vertices++;
            PASS(ARRAY_ROOM(r->edge, r->edges));
            r->edge[r->edges++] = (struct edge){at, to, (uint16_t) class};
            at = to;
        }
    }
    r->open = false;
    return STATUS_OK;
}

/* All routes of the text; vertices beyond the named ones join links inside a route. */
static enum status read_routes(const struct platform_text *p, struct reader *r, bool *fits)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    *fits = true;
    r->w->vertices = r->names;
    while (*fits && xml_next(&s, &tag)) {
        if (xml_is(&tag, "link_ctn"))
            *fits = add_hop(r, &tag);
        else if (xml_is(&tag, "route"))
            *fits = begin_route(r, &tag);
        else if (xml_equal(tag.name, "route"))
            PASS(end_route(r));
        *fits = *fits && r->w->vertices < UINT32_MAX / 2;
    }
    return STATUS_OK;
}

/* The edges in compressed rows, and room to search. */
static enum status build(struct reader *r)
{
    struct shortest *w = r->w;
    PASS(ARRAY_NEW(w->start, w->vertices + 2));
    PASS(ARRAY_NEW(w->to, r->edges + 1));
    PASS(ARRAY_NEW(w->class, r->edges + 1));
    PASS(ARRAY_NEW(w->next, (size_t)SHORTEST_VALUES * (w->classes + 1)));
    PASS(ARRAY_NEW(w->queue, w->vertices));
    PASS(ARRAY_NEW(w->hops, w->vertices));
    PASS(ARRAY_NEW(w->found, w->vertices));
    for (size_t e = 0; e < r->edges; e++)
        w->start[r->edge[e].from + 2]++;
    for (size_t v = 0; v < w->vertices; v++)
        w->start[v + 2] += w->start[v + 1];
    for (size_t e = 0; e < r->edges; e++) {
        size_t at = w->start[r->edge[e].from + 1]++;
        w->to[at] = r->edge[e].to;
        w->class[at] = r->edge[e].class;
    }
    w->values = 1;
    w->value[0] = (struct quality){0, INFINITY};
    return STATUS_OK;
}

enum status shortest_open(const struct platform_text *p, size_t n, char *const *device,
                          struct shortest **out)
{
    enum status st = STATUS_OK;
    bool fits = false;
    struct reader r = {.w = calloc(1, sizeof *r.w)};
    *out = NULL;
    if (!r.w || !(r.w->vertex = calloc(n + 1, sizeof *r.w->vertex)))
        FAIL(STATUS_NOMEM, "out of memory");
    r.w->n = n;
    TRY(list_names(p, &r, &fits));
    if (fits)
        TRY(list_links(&r, &fits));
    for (size_t i = 0; fits && i < n; i++) {
        long vertex = find_vertex(&r, (struct xml_span){device[i], strlen(device[i])});
        fits = vertex != NOT_FOUND;
        r.w->vertex[i] = fits ? (uint32_t)vertex : 0;
    }
    if (fits)
        TRY(read_routes(p, &r, &fits));
    if (fits) {
        TRY(build(&r));
        *out = r.w;
        r.w = NULL;
    }
out:
    free(r.edge);
    free(r.name);
    free(r.link);
    shortest_free(r.w);
    return st;
}

void shortest_free(struct shortest *w)
{
    if (!w)
        return;
    free(w->vertex);
    free(w->start);
    free(w->to);
    free(w->class);
    free(w->next);
    free(w->queue);
    free(w->hops);
    free(w->found);
    free(w);
}

/* ---- searching */

/* Equal but for the rounding of sums in another order. */
static bool close_to(double a, double b)
{
    return a <= b * (1 + tolerance) && b <= a * (1 + tolerance);
}

/* Work out a value plus a link; false if there are too many. */
static bool add_link(struct shortest *w, uint16_t value, uint16_t class, uint16_t *entry)
{
    double latency = w->value[value].latency_s + w->link[class].latency_s;
    double bandwidth = fmin(w->value[value].bandwidth_Bps, w->link[class].bandwidth_Bps);
    size_t i = 1;
    while (i < w->values && !(close_to(w->value[i].latency_s, latency) &&
                              close_to(w->value[i].bandwidth_Bps, bandwidth)))
        i++;
    if (i == SHORTEST_VALUES)
        return false;
    if (i == w->values)
        w->value[w->values++] = (struct quality){latency, bandwidth};
    *entry = (uint16_t)(i + 1);
    return true;
}

/* Breadth first; all paths of fewest links into a vertex have been seen before it is left. */
static bool search(struct shortest *w, uint32_t source)
{
    size_t head = 0, tail = 0;
    memset(w->hops, 0xff, w->vertices * sizeof *w->hops);
    w->hops[source] = 0;
    w->found[source] = 0;
    w->queue[tail++] = source;
    while (head < tail) {
        uint32_t v = w->queue[head++], hops = w->hops[v] + 1;
        uint16_t value = w->found[v];
        for (size_t e = w->start[v]; e < w->start[v + 1]; e++) {
            uint32_t u = w->to[e];
            if (w->hops[u] < hops)
                continue;
            uint16_t sum = SHORTEST_UNSURE;
            if (value != SHORTEST_UNSURE) {
                uint16_t *entry = &w->next[(size_t)value * w->classes + w->class[e]];
                if (!*entry && !add_link(w, value, w->class[e], entry))
                    return false;
                sum = (uint16_t)(*entry - 1);
            }
            if (w->hops[u] == UINT32_MAX) {
                w->hops[u] = hops;
                w->found[u] = sum;
                w->queue[tail++] = u;
            } else if (w->found[u] != sum) {
                w->found[u] = SHORTEST_UNSURE;
            }
        }
    }
    return tail == w->vertices;
}

bool shortest_from(struct shortest *w, size_t from, uint16_t *value)
{
    if (!search(w, w->vertex[from]))
        return false;
    for (size_t j = 0; j < w->n; j++)
        value[j] = w->found[w->vertex[j]];
    return true;
}

void shortest_value(const struct shortest *w, uint16_t value, double *latency_s,
                    double *bandwidth_Bps)
{
    *latency_s = w->value[value].latency_s;
    *bandwidth_Bps = w->value[value].bandwidth_Bps;
}
