/* Counts what SimGrid would make of a text before it does: hosts, its <host> tags and the numbers
 * of radical="0-99,200"; links, routes, properties; and what each zone has to find routes
 * between. */
#include "sim/platform/size.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/data/topology.h"
#include "sim/platform/radical.h"
#include "sim/platform/xml_scan.h"

enum {
    DEPTH = 32,    /* of zones in zones */
    AFFIXES = 255, /* characters around the number of a cluster's host */
    LEVELS = 16,   /* of a fat tree */
    NESTED = 64,   /* of elements */
    TAG = 4 << 20  /* bytes; a radical that names 65,536 hosts one by one has a tenth of it */
};
/* What SimGrid makes of tags: MOST_LINES of each kind, times `share`, for which it takes some
 * seconds. */
enum { POINTS, OTHERS = 5 };
static const struct zone_kind {
    const char *names, *tag[6];
    unsigned share;
} kinds[] = {
    [POINTS] = {"hosts, routers and zones", {"host", "router", "zone", "AS", "cluster", "peer"}, 1},
    {"links", {"link", "backbone"}, 1},
    {"routes", {"route", "zoneRoute", "ASroute", "bypassRoute", "bypassZoneRoute"}, 1},
    {"links of routes", {"link_ctn"}, 4},
    {"properties", {"prop"}, 1},
    [OTHERS] = {"other elements", {NULL}, 1},
};

/* ---- what routes are found between */

struct zones {
    const struct platform_text *text;
    size_t depth;                                /* zones that are open */
    size_t nested;                               /* elements that are open */
    uint64_t made[sizeof kinds / sizeof *kinds]; /* tags of each kind */
    struct zone {
        uint64_t most, points; /* UINT64_MAX: any number */
        const char *routing;
    } zone[DEPTH];
};

static struct zone routing_of(const struct xml_tag *tag)
{
    struct xml_span routing = xml_attribute(tag, "routing");
    if (xml_equal_any_case(routing, "Floyd"))
        return (struct zone){.most = (uint64_t)limit_platform(MOST_FLOYD), .routing = "Floyd"};
    if (xml_equal_any_case(routing, "Full"))
        return (struct zone){.most = (uint64_t)limit_platform(MOST_FULL), .routing = "Full"};
    return (struct zone){.most = UINT64_MAX};
}

static bool size_is_zone(const struct xml_tag *tag)
{
    return xml_equal(tag->name, "zone") || xml_equal(tag->name, "AS");
}

static size_t size_kind_of(const struct xml_tag *tag)
{
    for (size_t k = 0; k < OTHERS; k++)
        for (size_t i = 0; i < sizeof kinds->tag / sizeof *kinds->tag && kinds[k].tag[i]; i++)
            if (xml_is(tag, kinds[k].tag[i]))
                return k;
    return OTHERS;
}

static enum status count_made(struct zones *z, const struct xml_tag *tag, size_t kind)
{
    char more[LIMIT_MORE];
    uint64_t most = (uint64_t)limit_platform(MOST_LINES) * kinds[kind].share;
    if (tag->name.n + tag->attributes.n > TAG)
        return error_set(STATUS_PARSE, "%s:%zu: tag longer than %d MiB", z->text->path, tag->line,
                         TAG >> 20);
    if (++z->made[kind] <= most)
        return STATUS_OK;
    return error_set(STATUS_PARSE, "%s:%zu: more than %llu %s%s", z->text->path, tag->line,
                     (unsigned long long)most, kinds[kind].names, limit_more(LIMIT_platform, more));
}

static enum status count_points(struct zones *z, const struct xml_tag *tag)
{
    struct zone *in = z->depth > 0 ? &z->zone[z->depth - 1] : NULL;
    size_t kind = tag->closing ? OTHERS : size_kind_of(tag);
    if (!tag->closing)
        PASS(count_made(z, tag, kind));
    if (in && kind == POINTS && ++in->points > in->most)
        return error_set(STATUS_PARSE,
                         "%s:%zu: more than %llu hosts, routers and zones in a zone with "
                         "routing=\"%s\". Try routing=\"DijkstraCache\"",
                         z->text->path, tag->line, (unsigned long long)in->most, in->routing);
    bool empty = tag->attributes.n > 0 && tag->attributes.at[tag->attributes.n - 1] == '/';
    z->nested += !tag->closing && !empty;
    z->nested -= tag->closing && z->nested > 0;
    if (z->nested > NESTED)
        return error_set(STATUS_PARSE, "%s:%zu: elements nested more than %d deep", z->text->path,
                         tag->line, NESTED);
    if (!size_is_zone(tag))
        return STATUS_OK;
    if (tag->closing) {
        z->depth -= z->depth > 0;
    } else if (!empty) {
        if (z->depth == DEPTH)
            return error_set(STATUS_PARSE, "%s:%zu: zones nested more than %d deep", z->text->path,
                             tag->line, DEPTH);
        z->zone[z->depth++] = routing_of(tag);
    }
    return STATUS_OK;
}

/* Links of a fat tree "2;4,4;1,2;1,2": levels, then children, parents and cables to a parent of a
 * node of each. */
static double count_tree(struct xml_span text)
{
    double value[3][LEVELS] = {{0}}, links = 0;
    const char *at = text.at, *end = at + text.n;
    uint64_t levels = radical_number(&at, end);
    for (size_t k = 0; k < 3 && levels <= LEVELS; k++)
        for (size_t i = 0; i < levels; i++) {
            while (at < end && !isdigit((unsigned char)*at))
                at++;
            value[k][i] = (double)radical_number(&at, end);
        }
    for (size_t i = 0; i < levels && levels <= LEVELS; i++) {
        double nodes = 1; /* of level i: parents' below, children above */
        for (size_t k = 0; k < levels; k++)
            nodes *= value[k < i][k];
        links += nodes * value[1][i] * value[2][i];
    }
    return levels <= LEVELS ? links : INFINITY;
}

/* SimGrid goes to group g by router g of the own chassis, and reads beyond its array where there is
 * none: "groups,links;chassis,links;routers,links;nodes". */
static bool has_routers_for_groups(struct xml_span text)
{
    uint64_t value[6] = {0};
    const char *at = text.at, *end = at + text.n;
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        value[i] = radical_number(&at, end);
        at += at < end;
    }
    return value[0] < 2 || value[0] <= value[4];
}

/* Hosts of a <cluster> or <cabinet>, and of those before it; each name has the prefix and the
 * suffix. */
static enum status count_clustered(const struct platform_text *p, const struct xml_tag *tag,
                                   uint64_t *hosts)
{
    char more[LIMIT_MORE];
    struct xml_span radical = xml_attribute(tag, "radical");
    const char *with = *hosts > 0 ? " (with those of earlier elements)" : "";
    *hosts += radical.at ? radical_count(radical) : 0;
    if ((double)*hosts > limit_platform(MOST_ROUTED))
        return error_set(STATUS_PARSE, "%s:%zu: <%.*s> has %llu hosts%s, expected up to %.0f%s",
                         p->path, tag->line, (int)tag->name.n, tag->name.at,
                         (unsigned long long)*hosts, with, limit_platform(MOST_ROUTED),
                         limit_more(LIMIT_platform, more));
    if (xml_attribute(tag, "prefix").n + xml_attribute(tag, "suffix").n > AFFIXES)
        return error_set(STATUS_PARSE,
                         "%s:%zu: prefix and suffix of a <cluster> are longer than %d characters",
                         p->path, tag->line, AFFIXES);
    struct xml_span tree = xml_attribute(tag, "topo_parameters");
    if (tree.at && xml_equal(xml_attribute(tag, "topology"), "FAT_TREE") &&
        count_tree(tree) > limit_platform(MOST_LINES))
        return error_set(STATUS_PARSE, "%s:%zu: fat tree has more than %.0f links%s", p->path,
                         tag->line, limit_platform(MOST_LINES), limit_more(LIMIT_platform, more));
    if (tree.at && xml_equal(xml_attribute(tag, "topology"), "DRAGONFLY") &&
        !has_routers_for_groups(tree))
        return error_set(STATUS_PARSE,
                         "%s:%zu: dragonfly has more groups than routers in a chassis, which "
                         "SimGrid cannot route",
                         p->path, tag->line);
    return STATUS_OK;
}

enum status platform_check_size(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    uint64_t hosts = 0, clustered = 0;
    struct zones zones = {.text = p};
    while (xml_next(&s, &tag)) {
        PASS(count_points(&zones, &tag));
        hosts += xml_is(&tag, "host");
        if (hosts > TOPOLOGY_MAX_DEVICES)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d hosts", p->path, tag.line,
                             TOPOLOGY_MAX_DEVICES);
        if (xml_is(&tag, "cluster") || xml_is(&tag, "cabinet"))
            PASS(count_clustered(p, &tag, &clustered));
    }
    return STATUS_OK;
}
