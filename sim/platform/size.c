/* Counts the hosts that a text asks for: its <host> tags, and the numbers of radical="0-99,200"; and
 * what each zone has to find routes between. */
#include "sim/platform/size.h"

#include <ctype.h>
#include <stdint.h>

#include "core/limit.h"
#include "core/text.h"
#include "core/topology.h"
#include "sim/platform/xml_scan.h"

enum {
    DEPTH = 32,         /* of zones in zones */
    NESTED = 64,        /* of elements */
    ELEMENTS = 33554432 /* 32 a host */
};
static const uint64_t most_number = UINT32_MAX;

/* A number at *at, which moves past it; large ones stay at the most. */
static uint64_t read_number(const char **at, const char *end)
{
    uint64_t number = 0;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++)
        if (number <= most_number)
            number = number * 10 + (uint64_t)(**at - '0');
    return number < most_number ? number : most_number;
}

/* How many numbers "0-9,12,20-29" has, 0 to 2^32 for each range. */
static uint64_t count_radical(struct xml_span radical)
{
    uint64_t n = 0;
    const char *at = radical.at, *end = at + radical.n;
    while (at < end) {
        uint64_t first = read_number(&at, end), last = first;
        if (at < end && *at == '-') {
            at++;
            last = read_number(&at, end);
        }
        n += last >= first ? last - first + 1 : 0;
        while (at < end && !isdigit((unsigned char)*at))
            at++;
    }
    return n;
}

/* ---- what routes are found between */

struct zones {
    const struct platform_text *text;
    size_t depth;            /* zones that are open */
    size_t nested, elements; /* elements that are open, and all tags */
    struct zone {
        uint64_t most, points; /* UINT64_MAX: any number */
        const char *routing;
    } zone[DEPTH];
};

static struct zone routing_of(const struct xml_tag *tag)
{
    struct xml_span routing = xml_attribute(tag, "routing");
    if (xml_equal(routing, "Floyd"))
        return (struct zone){.most = (uint64_t)limit(LIMIT_floyd), .routing = "Floyd"};
    if (xml_equal(routing, "Full"))
        return (struct zone){.most = (uint64_t)limit(LIMIT_full), .routing = "Full"};
    return (struct zone){.most = UINT64_MAX};
}

static bool is_zone(const struct xml_tag *tag)
{
    return xml_equal(tag->name, "zone") || xml_equal(tag->name, "AS");
}

/* Hosts, routers, and zones, which are points of the zone around them. */
static bool is_point(const struct xml_tag *tag)
{
    static const char *const names[] = {"host", "router", "zone", "AS", "cluster", "peer"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (xml_is(tag, names[i]))
            return true;
    return false;
}

static enum status count_points(struct zones *z, const struct xml_tag *tag)
{
    struct zone *in = z->depth > 0 ? &z->zone[z->depth - 1] : NULL;
    if (in && is_point(tag) && ++in->points > in->most)
        return error_set(STATUS_PARSE,
                         "%s:%zu: more than %llu hosts, routers and zones in a zone with "
                         "routing=\"%s\"; routing=\"DijkstraCache\" takes more",
                         z->text->path, tag->line, (unsigned long long)in->most, in->routing);
    bool empty = tag->attributes.n > 0 && tag->attributes.at[tag->attributes.n - 1] == '/';
    z->nested += !tag->closing && !empty;
    z->nested -= tag->closing && z->nested > 0;
    if (z->nested > NESTED || ++z->elements > ELEMENTS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d elements%s", z->text->path, tag->line,
                         z->nested > NESTED ? NESTED : ELEMENTS,
                         z->nested > NESTED ? " in each other" : "");
    if (!is_zone(tag))
        return STATUS_OK;
    if (tag->closing) {
        z->depth -= z->depth > 0;
    } else if (!empty) {
        if (z->depth == DEPTH)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d zones in each other",
                             z->text->path, tag->line, DEPTH);
        z->zone[z->depth++] = routing_of(tag);
    }
    return STATUS_OK;
}

enum status platform_check_size(const struct platform_text *p)
{
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    uint64_t hosts = 0;
    char more[LIMIT_MORE];
    struct zones zones = {.text = p};
    while (xml_next(&s, &tag)) {
        PASS(count_points(&zones, &tag));
        uint64_t n = xml_is(&tag, "host");
        if (xml_is(&tag, "cluster") || xml_is(&tag, "cabinet")) {
            struct xml_span radical = xml_attribute(&tag, "radical");
            n = radical.at ? count_radical(radical) : 0;
            if ((double)n > limit(LIMIT_cluster))
                return error_set(STATUS_PARSE,
                                 "%s:%zu: <%.*s> of %llu hosts, expected up to %.0f%s", p->path,
                                 tag.line, (int)tag.name.n, tag.name.at, (unsigned long long)n,
                                 limit(LIMIT_cluster), limit_more(LIMIT_cluster, more));
        }
        hosts += n;
        if (hosts > TOPOLOGY_MAX_DEVICES)
            return error_set(STATUS_PARSE, "%s:%zu: more than %d hosts", p->path, tag.line,
                             TOPOLOGY_MAX_DEVICES);
    }
    return STATUS_OK;
}
