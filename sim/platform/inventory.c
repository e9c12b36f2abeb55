/* Two passes over the tags: which hosts, routers and links there are; then where the links end, by
 * the routes. What is alike becomes one row. */
#include "sim/platform/inventory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/paths.h"
#include "sim/platform/xml_scan.h"

enum { TIERS = 64, NAME = 64 };
#define NOWHERE UINT32_MAX

struct part_link {
    bool duplex, named; /* SPLITDUPLEX; has a tier outside of nodes: both make a cable */
    double Bps;
    uint32_t lanes, each;  /* of a bundle, and cables to each switch; 0: no bundle */
    uint32_t tier, end[2]; /* point, the upper one second */
};

struct part_point {
    bool inside;    /* of a node: a host, or a router with a route that has no cable */
    uint64_t tiers; /* of the cables that end here, a bit each */
    uint64_t ports, switches;
    double Bps;
};

struct parts {
    struct interner point_names, link_names, tier_names, type_names;
    struct part_point *point;  /* [point_names.n] */
    struct part_link *link;    /* [link_names.n] */
    uint64_t *devices;         /* [type_names.n] */
    uint32_t usual_type, type; /* of hosts that say none; of the host that was read last */
    struct inventory made;
};

/* ---- what there is */

static enum status parts_add_point(struct parts *p, struct xml_span id, bool host)
{
    uint32_t number;
    bool fresh;
    PASS(intern(&p->point_names, id.at, id.n, &number, &fresh));
    if (!fresh)
        return STATUS_OK;
    PASS(ARRAY_ROOM(p->point, number));
    p->point[number] = (struct part_point){.inside = host, .switches = 1};
    return STATUS_OK;
}

static enum status parts_add_link(struct parts *p, const struct xml_tag *tag)
{
    char text[NAME];
    uint32_t number;
    bool fresh;
    struct xml_span id = xml_attribute(tag, "id");
    struct part_link l = {.end = {NOWHERE, NOWHERE},
                          .duplex = xml_equal(xml_attribute(tag, "sharing_policy"), "SPLITDUPLEX")};
    PASS(intern(&p->link_names, id.at, id.n, &number, &fresh));
    if (!fresh)
        return STATUS_OK;
    xml_decode(xml_attribute(tag, "bandwidth"), text, sizeof text);
    l.duplex &= units_parse(UNIT_RATE, text, &l.Bps) == STATUS_OK;
    PASS(ARRAY_ROOM(p->link, number));
    p->link[number] = l;
    return STATUS_OK;
}

/* A host's type, or the zone's for all hosts. */
static enum status parts_set_type(struct parts *p, bool of_zone, struct xml_span value)
{
    uint32_t number;
    bool fresh;
    PASS(intern(&p->type_names, value.at, value.n, &number, &fresh));
    if (fresh) {
        PASS(ARRAY_ROOM(p->devices, number));
        p->devices[number] = 0;
    }
    if (of_zone) { /* the first one's */
        p->usual_type = p->usual_type > 0 ? p->usual_type : number;
        return STATUS_OK;
    }
    p->devices[p->type]--;
    p->devices[number]++;
    p->type = number;
    return STATUS_OK;
}

/* The property of a link that was read last. */
static enum status parts_set_link(struct parts *p, struct xml_span id, struct xml_span value)
{
    char text[NAME];
    uint32_t number;
    struct part_link *l = &p->link[p->link_names.n - 1];
    xml_decode(value, text, sizeof text);
    if (xml_equal(id, "lanes") && !paths_parse_lanes(text, &l->lanes, &l->each))
        l->lanes = l->each = 0;
    if (!xml_equal(id, "tier") || text_begins(text, "nv") || text_begins(text, "pci"))
        return STATUS_OK;
    PASS(intern(&p->tier_names, text, strlen(text), &number, NULL));
    l->named = number < TIERS;
    l->tier = number;
    return STATUS_OK;
}

static enum status parts_set(struct parts *p, const struct xml_tag *of, const struct xml_tag *prop)
{
    struct xml_span id = xml_attribute(prop, "id"), value = xml_attribute(prop, "value");
    bool host = xml_is(of, "host");
    if (!value.at)
        return STATUS_OK;
    if (xml_is(of, "link") && p->link_names.n > 0)
        return parts_set_link(p, id, value);
    if ((host || xml_is(of, "zone")) && xml_equal(id, "type"))
        return parts_set_type(p, !host, value);
    if (host && xml_equal(id, "device") && xml_equal(value, "none"))
        p->devices[p->type]--;
    return STATUS_OK;
}

/* *known is false where parts have no tags of their own. */
static enum status parts_read(struct parts *p, const char *text, bool *known)
{
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag, of = {0};
    *known = true;
    while (xml_next(&s, &tag)) {
        bool host = xml_is(&tag, "host");
        if (xml_is(&tag, "cluster") || xml_is(&tag, "cabinet") || xml_is(&tag, "peer") ||
            xml_is(&tag, "backbone"))
            *known = false;
        if (xml_is(&tag, "prop")) {
            PASS(parts_set(p, &of, &tag));
            continue;
        }
        of = tag;
        p->type = p->usual_type;
        p->devices[p->type] += host;
        if ((host || xml_is(&tag, "router")) && xml_attribute(&tag, "id").at)
            PASS(parts_add_point(p, xml_attribute(&tag, "id"), host));
        if (xml_is(&tag, "link") && xml_attribute(&tag, "id").at)
            PASS(parts_add_link(p, &tag));
    }
    return STATUS_OK;
}

/* ---- where links end */

/* A route being read. */
struct part_route {
    uint32_t from, to; /* points */
    uint32_t last;     /* cable, NOWHERE: none so far */
    int upper;         /* which of its ends is the farther one */
};

static uint32_t parts_find_point(const struct parts *p, const struct xml_tag *tag, const char *gate,
                                 const char *name)
{
    uint32_t number;
    struct xml_span id = xml_attribute(tag, gate);
    id = id.at ? id : xml_attribute(tag, name);
    return id.at && interned(&p->point_names, id.at, id.n, &number) ? number : NOWHERE;
}

static void end_route(struct parts *p, const struct part_route *r)
{
    if (r->last != NOWHERE) {
        p->link[r->last].end[r->upper] = r->to;
        return;
    }
    if (r->from != NOWHERE)
        p->point[r->from].inside = true;
    if (r->to != NOWHERE)
        p->point[r->to].inside = true;
}

static void pass_link(struct parts *p, struct part_route *r, const struct xml_tag *tag)
{
    uint32_t number;
    struct xml_span id = xml_attribute(tag, "id");
    if (!id.at || !interned(&p->link_names, id.at, id.n, &number) || !p->link[number].duplex ||
        !p->link[number].named)
        return;
    int upper = xml_equal(xml_attribute(tag, "direction"), "DOWN") ? 0 : 1;
    if (r->last == NOWHERE)
        p->link[number].end[1 - upper] = r->from;
    r->last = number;
    r->upper = upper;
}

static void parts_connect(struct parts *p, const char *text)
{
    struct xml_scanner s = xml_scan(text);
    struct xml_tag tag;
    bool open = false;
    struct part_route r = {0};
    while (xml_next(&s, &tag)) {
        if (open && xml_is(&tag, "link_ctn"))
            pass_link(p, &r, &tag);
        if (!xml_is(&tag, "route") && !xml_is(&tag, "zoneRoute") && !xml_is(&tag, "ASroute"))
            continue;
        if (open)
            end_route(p, &r);
        open = true;
        r = (struct part_route){.from = parts_find_point(p, &tag, "gw_src", "src"),
                                .to = parts_find_point(p, &tag, "gw_dst", "dst"),
                                .last = NOWHERE};
    }
    if (open)
        end_route(p, &r);
}

/* ---- rows */

static bool is_cable(const struct part_link *l)
{
    return l->duplex && l->named;
}

static bool at_node(const struct parts *p, const struct part_link *l)
{
    for (int k = 0; k < 2; k++)
        if (l->end[k] != NOWHERE && p->point[l->end[k]].inside)
            return true;
    return false;
}

static uint32_t lanes_of(const struct part_link *l)
{
    return l->lanes > 0 ? l->lanes : 1;
}

/* The fastest port of a card; 0: there is none. */
static double fastest_port(const struct parts *p)
{
    double most = 0;
    for (size_t k = 0; k < p->link_names.n; k++)
        if (is_cable(&p->link[k]) && at_node(p, &p->link[k]))
            most = fmax(most, p->link[k].Bps / lanes_of(&p->link[k]));
    return most;
}

/* `tiers`: a bit each. */
static enum status inventory_add(struct parts *p, struct inventory_item item, uint64_t tiers)
{
    size_t n = 0, room = 1;
    for (size_t k = 0; k < p->tier_names.n && k < TIERS; k++)
        room += tiers >> k & 1 ? p->tier_names.end[k] - interned_at(&p->tier_names, k) + 1 : 0;
    PASS(ARRAY_ROOM(p->made.item, p->made.items));
    PASS(ARRAY_NEW(item.name, room));
    for (size_t k = 0; k < p->tier_names.n && k < TIERS; k++) {
        size_t at = interned_at(&p->tier_names, k), length = p->tier_names.end[k] - at;
        if (!(tiers >> k & 1))
            continue;
        if (n > 0)
            item.name[n++] = '+';
        memcpy(item.name + n, (const char *)p->tier_names.data + at, length);
        n += length;
    }
    item.price = item.cost = NAN;
    p->made.item[p->made.items++] = item;
    return STATUS_OK;
}

struct optics {
    bool (*is)(const void *context, const char *tier, bool between);
    const void *context;
};

/* The cables of a link, its cards and transceivers, and what the switches at its ends get. */
static enum status count_link(struct parts *p, const struct part_link *l, double port_Bps,
                              const struct optics *optics)
{
    bool between = !at_node(p, l);
    uint64_t cables = lanes_of(l), tier = (uint64_t)1 << l->tier;
    if (l->lanes == 0 && between && port_Bps > 0)
        cables = (uint64_t)fmax(1, ceil(l->Bps / port_Bps * (1 - 1e-9)));
    struct inventory_item item = {
        .kind = INVENTORY_CABLE, .count = cables, .rate_Bps = l->Bps / (double)cables};
    PASS(inventory_add(p, item, tier));
    struct inventory_item *made = &p->made.item[p->made.items - 1];
    made->optical = item.optical =
        optics->is ? optics->is(optics->context, made->name, between) : between;
    item.kind = INVENTORY_TRANSCEIVER;
    item.count = 2 * cables;
    if (item.optical) {
        item.optical = false;
        PASS(inventory_add(p, item, tier));
    }
    for (int k = 0; k < 2; k++) {
        struct part_point *at = l->end[k] == NOWHERE ? NULL : &p->point[l->end[k]];
        if (at && at->inside) {
            item.kind = INVENTORY_NIC;
            item.count = 1;
            item.ports = cables;
            PASS(inventory_add(p, item, tier));
        } else if (at) {
            at->tiers |= tier;
            at->ports += cables;
            at->Bps += l->Bps;
            if (k == 1 && l->lanes > 0 && l->lanes / l->each > at->switches)
                at->switches = l->lanes / l->each;
        }
    }
    return STATUS_OK;
}

static enum status count_switch(struct parts *p, const struct part_point *at)
{
    if (at->inside || at->ports == 0)
        return STATUS_OK;
    return inventory_add(p,
                         (struct inventory_item){
                             .kind = INVENTORY_SWITCH,
                             .count = at->switches,
                             .ports = (at->ports + at->switches - 1) / at->switches,
                             .rate_Bps = at->Bps / (double)at->ports,
                         },
                         at->tiers);
}

static enum status count_devices(struct parts *p)
{
    for (size_t k = 0; k < p->type_names.n; k++) {
        size_t at = interned_at(&p->type_names, k), length = p->type_names.end[k] - at;
        struct inventory_item item = {
            .kind = INVENTORY_DEVICE, .count = p->devices[k], .price = NAN, .cost = NAN};
        if (item.count == 0)
            continue;
        PASS(ARRAY_ROOM(p->made.item, p->made.items));
        PASS(ARRAY_NEW(item.name, length + 1));
        memcpy(item.name, (const char *)p->type_names.data + at, length);
        p->made.item[p->made.items++] = item;
    }
    return STATUS_OK;
}

static int inventory_order(const void *a, const void *b)
{
    const struct inventory_item *x = a, *y = b;
    int names = x->kind == y->kind ? strcmp(x->name, y->name) : 0;
    double difference = x->kind != y->kind     ? (double)x->kind - (double)y->kind
                        : names != 0           ? names
                        : x->ports != y->ports ? (x->ports > y->ports ? 1 : -1)
                                               : x->rate_Bps - y->rate_Bps;
    return difference > 0 ? 1 : difference < 0 ? -1 : (int)x->optical - (int)y->optical;
}

/* What is alike, rates to nine digits, is one row. */
static void merge(struct inventory *v)
{
    size_t rows = 0;
    if (v->items > 0)
        qsort(v->item, v->items, sizeof *v->item, inventory_order);
    for (size_t k = 0; k < v->items; k++) {
        struct inventory_item *row = rows > 0 ? &v->item[rows - 1] : NULL, *item = &v->item[k];
        if (row && row->kind == item->kind && !strcmp(row->name, item->name) &&
            row->ports == item->ports && row->optical == item->optical &&
            item->rate_Bps - row->rate_Bps <= 1e-9 * item->rate_Bps) {
            row->count += item->count;
            free(item->name);
        } else {
            v->item[rows++] = *item;
        }
    }
    v->items = rows;
}

static void parts_free(struct parts *p)
{
    interner_free(&p->point_names);
    interner_free(&p->link_names);
    interner_free(&p->tier_names);
    interner_free(&p->type_names);
    free(p->point);
    free(p->link);
    free(p->devices);
    inventory_free(&p->made);
}

enum status platform_inventory(const char *text,
                               bool (*optical)(const void *context, const char *tier, bool between),
                               const void *context, struct inventory *out)
{
    enum status st;
    bool known;
    const struct optics optics = {optical, context};
    struct parts p = {.made = {.cost = NAN}};
    TRY(parts_set_type(&p, true, (struct xml_span){"device", 6}));
    TRY(parts_read(&p, text, &known));
    if (known) {
        parts_connect(&p, text);
        double port_Bps = fastest_port(&p);
        TRY(count_devices(&p));
        for (size_t k = 0; k < p.link_names.n; k++)
            if (is_cable(&p.link[k]))
                TRY(count_link(&p, &p.link[k], port_Bps, &optics));
        for (size_t k = 0; k < p.point_names.n; k++)
            TRY(count_switch(&p, &p.point[k]));
        merge(&p.made);
    }
    inventory_free(out);
    *out = p.made;
    p.made = (struct inventory){0};
out:
    parts_free(&p);
    return st;
}
