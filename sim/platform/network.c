/* Reads the links and routes of a flat platform as wires with two fixed ends each, as the emulator
 * needs them: a link must lie between the same two points on every route. Points inside a route get
 * routers ("joints") of their own. Where the text has anything else, the network is made of the
 * topology's routes instead (network_routes.h). */
#include "sim/platform/network.h"

#include <stdbool.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/coordinates.h"
#include "sim/platform/fault.h"
#include "sim/platform/network_routes.h"
#include "sim/platform/xml_scan.h"

enum { NAME = 256 };

/* A <link> of the text. */
struct network_wire {
    struct xml_span id;
    double bandwidth_Bps, latency_s;
    uint32_t link; /* where it is in the network; UINT32_MAX: on no route yet */
    bool down;     /* so was it travelled first, from end a to end b */
    bool fat;
};

/* What is known while the text is read, in one pass after the survey. */
struct network_reading {
    const char *path;
    const struct topology *topology;
    struct network *net;
    size_t wires;
    struct network_wire *wire; /* [wires] */
    uint32_t at, end;          /* of the route being read: where it has got to, where it goes */
    size_t hops;               /* links of it so far */
    bool fresh;                /* the last of them is on this route only, and ends where it goes */
};

static enum status unsupported(const struct network_reading *r, const struct xml_tag *tag,
                               const char *what)
{
    return error_set(STATUS_UNSUPPORTED, "%s:%zu: unsupported by emulate --engine netns: %s",
                     r->path, tag->line, what);
}

/* Elements that can be wired, or that say nothing about wires. */
static bool is_known(const struct xml_tag *tag)
{
    static const char *const elements[] = {"platform", "zone",  "host",     "router",
                                           "link",     "route", "link_ctn", "prop"};
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (xml_equal(tag->name, elements[i]))
            return true;
    return false;
}

/* Whether routes in the zone are those with fewest links, as the emulator's are. */
static bool takes_shortest(const struct xml_tag *tag)
{
    static const char *const routings[] = {"Dijkstra", "DijkstraCache", "Floyd"};
    for (size_t i = 0; i < sizeof routings / sizeof *routings; i++)
        if (xml_equal_any_case(xml_attribute(tag, "routing"), routings[i]))
            return true;
    return false;
}

/* Refuse what cannot be wired, and find how much there is at most. */
static enum status survey(const struct network_reading *r, const char *text, size_t *points,
                          size_t *links)
{
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    size_t zones = 0;
    *points = *links = 0;
    while (xml_next(&s, &tag)) {
        if (!is_known(&tag))
            return error_set(STATUS_UNSUPPORTED,
                             "%s:%zu: unsupported by emulate --engine netns: <%.*s>", r->path,
                             tag.line, (int)tag.name.n, tag.name.at);
        if (xml_is(&tag, "zone") && (++zones > 1 || !takes_shortest(&tag)))
            return unsupported(r, &tag, "nested <zone> elements, or a zone with its own routes");
        *links += xml_is(&tag, "link");
        *points += xml_is(&tag, "host") || xml_is(&tag, "router") || xml_is(&tag, "link_ctn");
    }
    return STATUS_OK;
}

/* Room for as many points and links as the survey has counted. */
static enum status network_allocate(struct network_reading *r, size_t points, size_t links)
{
    PASS(ARRAY_NEW(r->net->name, points + 1));
    PASS(ARRAY_NEW(r->net->device, points + 1));
    PASS(ARRAY_NEW(r->net->link, links + 1));
    PASS(ARRAY_NEW(r->wire, links + 1));
    return STATUS_OK;
}

/* A host or router becomes a point; hosts that are no devices are points like routers. */
static enum status network_add_point(struct network_reading *r, const struct xml_tag *tag)
{
    struct network *n = r->net;
    char name[NAME];
    xml_decode(xml_attribute(tag, "id"), name, sizeof name);
    PASS(text_copy(name, &n->name[n->vertices]));
    n->device[n->vertices] =
        xml_is(tag, "host") ? topology_find(r->topology, name) : (uint32_t)NETWORK_ROUTER;
    n->vertices++;
    return STATUS_OK;
}

/* An attribute with its unit; an absent one is 0. */
static enum status quantity(struct xml_span value, enum unit unit, double *out)
{
    char text[NAME];
    if (!value.at) { /* an optional latency */
        *out = 0;
        return STATUS_OK;
    }
    xml_decode(value, text, sizeof text);
    return units_parse(unit, text, out);
}

/* A <link>: its numbers are kept until a route says where it lies. */
static enum status add_wire(struct network_reading *r, const struct xml_tag *tag)
{
    enum status st;
    struct network_wire *w = &r->wire[r->wires];
    w->id = xml_attribute(tag, "id");
    w->link = UINT32_MAX;
    struct xml_span policy = xml_attribute(tag, "sharing_policy");
    w->fat = xml_equal(policy, "FATPIPE");
    if (!w->fat && !xml_equal(policy, "SPLITDUPLEX"))
        return unsupported(r, tag, "links whose directions share the bandwidth");
    TRY(quantity(xml_attribute(tag, "bandwidth"), UNIT_RATE, &w->bandwidth_Bps));
    TRY(quantity(xml_attribute(tag, "latency"), UNIT_SECONDS, &w->latency_s));
    r->wires++;
    return STATUS_OK;
out:
    return error_context(st, "%s:%zu", r->path, tag->line);
}

/* Number of a point by name, UINT32_MAX without one. Linear: emulated platforms are small. */
static uint32_t find_point(const struct network *n, struct xml_span id)
{
    for (size_t v = 0; v < n->vertices; v++)
        if (n->name[v] && xml_equal(id, n->name[v]))
            return (uint32_t)v;
    return UINT32_MAX;
}

/* A <route> opens at the point `src`. */
static enum status network_begin_route(struct network_reading *r, const struct xml_tag *tag)
{
    struct xml_span both = xml_attribute(tag, "symmetrical");
    if (both.at && !xml_equal(both, "YES") && !xml_equal(both, "yes"))
        return unsupported(r, tag, "a route in one direction only");
    r->at = find_point(r->net, xml_attribute(tag, "src"));
    r->end = find_point(r->net, xml_attribute(tag, "dst"));
    r->hops = 0;
    r->fresh = false;
    if (r->at == UINT32_MAX || r->end == UINT32_MAX || r->at == r->end)
        return unsupported(r, tag, "a route whose src and dst are equal or declared after it");
    return STATUS_OK;
}

/* A link of this and an earlier route: it begins where it did then. A joint before it moves there.
 */
static enum status add_known(struct network_reading *r, const struct network_wire *w, bool down,
                             const struct xml_tag *tag)
{
    struct network *n = r->net;
    const struct network_link *l = &n->link[w->link];
    uint32_t begin = down == w->down ? l->a : l->b;
    if (r->hops > 0 && r->fresh && n->device[begin] == NETWORK_ROUTER)
        n->link[n->links - 1].b = begin;
    else if (r->fresh || r->at != begin)
        return unsupported(r, tag, "a link that begins at different nodes on different routes");
    r->at = down == w->down ? l->b : l->a;
    r->fresh = false;
    r->hops++;
    return STATUS_OK;
}

/* Cables of a bundle by its id, where flows are hashed onto them. Linear, as find_point(). */
static uint32_t lanes_of(const struct topology *t, const char *id)
{
    size_t n = strlen(id);
    for (size_t l = 0; t->paths == PATHS_ECMP && l < t->links; l++)
        if (!strncmp(t->link[l].name, id, n) && !strcmp(t->link[l].name + n, "_UP"))
            return t->link[l].lanes;
    return 0;
}

/* One more link of the route; all but the first begin at a joint. */
static enum status network_add_hop(struct network_reading *r, const struct xml_tag *tag)
{
    struct network *n = r->net;
    struct xml_span id = xml_attribute(tag, "id");
    bool down = xml_equal(xml_attribute(tag, "direction"), "DOWN");
    char name[NAME];
    size_t i = 0;
    while (i < r->wires && xml_compare(r->wire[i].id, id) != 0)
        i++;
    if (i == r->wires)
        return unsupported(r, tag, "a link that is declared after the route, or not at all");
    if (r->wire[i].link != UINT32_MAX)
        return add_known(r, &r->wire[i], down, tag);
    if (r->fresh) {
        uint32_t joint = (uint32_t)n->vertices++;
        n->device[joint] = NETWORK_ROUTER;
        n->link[n->links - 1].b = joint;
        r->at = joint;
    }
    r->hops++;
    r->fresh = true;
    r->wire[i].down = down;
    r->wire[i].link = (uint32_t)n->links;
    xml_decode(id, name, sizeof name);
    n->link[n->links] = (struct network_link){.a = r->at,
                                              .b = r->end,
                                              .bandwidth_Bps = r->wire[i].bandwidth_Bps,
                                              .latency_s = r->wire[i].latency_s,
                                              .lanes = lanes_of(r->topology, name),
                                              .fat = r->wire[i].fat};
    return text_copy(name, &n->link[n->links++].name);
}

/* The links of the route that ends before this tag must lead to its end. */
static enum status network_end_route(const struct network_reading *r, const struct xml_tag *tag)
{
    return r->hops == 0 || r->fresh || r->at == r->end
               ? STATUS_OK
               : unsupported(r, tag,
                             "the route before this element, whose last link leads to another node "
                             "on other routes");
}

/* One tag of the text. Whatever follows the last hop of a route closes it. */
static enum status network_take_tag(struct network_reading *r, const struct xml_tag *tag)
{
    if (!xml_is(tag, "link_ctn"))
        PASS(network_end_route(r, tag));
    if (xml_is(tag, "host") || xml_is(tag, "router"))
        PASS(network_add_point(r, tag));
    else if (xml_is(tag, "link"))
        PASS(add_wire(r, tag));
    else if (xml_is(tag, "route"))
        PASS(network_begin_route(r, tag));
    else if (xml_is(tag, "link_ctn"))
        PASS(network_add_hop(r, tag));
    return STATUS_OK;
}

/* From the text, where each of its links is a wire. */
static enum status read_wires(const struct platform_text *p, const struct topology *t,
                              struct network *out)
{
    enum status st;
    struct network net = {0};
    struct network_reading r = {.path = p->path, .topology = t, .net = &net};
    struct xml_tag tag;
    size_t points, links;

    TRY(survey(&r, p->text, &points, &links));
    TRY(network_allocate(&r, points, links));
    for (struct xml_scanner s = xml_scan(p->text); xml_next(&s, &tag);)
        TRY(network_take_tag(&r, &tag));
    TRY(network_end_route(&r, &tag));
    MOVE(out, net);
out:
    network_free(&net);
    free(r.wire);
    return st;
}

/* From the routes, where the text has something else. */
static enum status network_read_routes(const struct platform_text *p, const struct topology *t,
                                       struct network *out)
{
    uint32_t lost;
    if (platform_has_coordinates(p))
        return error_set(STATUS_UNSUPPORTED,
                         "%s:1: unsupported by emulate --engine netns: latencies from coordinates",
                         p->path);
    enum status st = network_of_routes(t, out, &lost);
    return st == STATUS_UNSUPPORTED
               ? error_context(st, "%s:%zu", p->path,
                               lost < t->n ? platform_line(p, "host", t->device[lost]) : 1)
               : st;
}

enum status platform_network(const char *path, const struct topology *t, struct network *out)
{
    char *text = NULL;
    size_t length;
    PASS(file_read(path, &text, &length));
    const struct platform_text p = {path, text};
    enum status st = read_wires(&p, t, out);
    if (st == STATUS_UNSUPPORTED)
        st = network_read_routes(&p, t, out);
    free(text);
    return st;
}
