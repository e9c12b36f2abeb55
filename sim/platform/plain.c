/* Describes a plain platform from its text: a strict reader of the forms that it knows, then
 * types, tiers and ways out of nodes as for SimGrid's answers (tiers.h, types.h, nics.h).
 * Whatever it does not know it leaves to SimGrid, which also says what is wrong with a file. */
#include "sim/platform/plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "sim/platform/hosts.h"
#include "sim/platform/nics.h"
#include "sim/platform/tiers.h"
#include "sim/platform/types.h"
#include "sim/platform/xml_scan.h"

enum { VALUE = 64, MOST_CORES = 1 << 16, MOST_PROPERTIES = 256 }; /* of a host */
/* Devices times links of what is searched here; more is for SimGrid's child, which has a
 * deadline. */
static const double MOST_STEPS = 1e8;

struct property {
    const char *id, *value;
};

/* What the text has, in its order. */
struct plain {
    char *text; /* a copy, in which ids and values are ended by a NUL once they are read */
    size_t hosts, points, properties;
    struct plain_host {
        const struct plain *in;
        const char *id;
        double flops;
        int cores;
        size_t first, end;     /* of its properties */
    } * host;                  /* [hosts] */
    const char **point;        /* [points] ids of hosts, routers and the zone */
    struct property *property; /* [properties] the zone's, then those of hosts */
    size_t usual;              /* how many are the zone's */
};

/* ---- elements in their simplest form */

static const char blanks[] = " \t\r\n";

/* What stands at *c besides elements, blanks and comments, is passed. No strstr(): xml_scan.c
 * says why. */
static void pass_comments(const char **c)
{
    for (;;) {
        *c += strspn(*c, blanks);
        if (strncmp(*c, "<!--", 4) != 0)
            return;
        for (*c += 4; **c && strncmp(*c, "-->", 3) != 0; (*c)++)
            ;
        *c += **c ? 3 : 0;
    }
}

static bool pass_word(const char **c, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*c, word, n) != 0)
        return false;
    *c += n;
    return true;
}

/* One name="value", without entities and other characters than printable ASCII. */
static bool pass_attribute(const char **c)
{
    *c += strspn(*c, "abcdefghijklmnopqrstuvwxyz_");
    if (**c != '=')
        return false;
    char quote = *++*c;
    if (quote != '"' && quote != '\'')
        return false;
    while (*++*c != quote)
        if (**c < ' ' || **c > '~' || **c == '<' || **c == '&')
            return false;
    (*c)++;
    return true;
}

/* The tag at *c, which moves behind it; *empty: "<x/>". */
static bool read_tag(const char **c, struct xml_tag *tag, bool *empty)
{
    if (!pass_word(c, "<"))
        return false;
    tag->closing = pass_word(c, "/");
    tag->name = (struct xml_span){*c, strspn(*c, "abcdefghijklmnopqrstuvwxyz_")};
    *c += tag->name.n;
    tag->attributes.at = *c;
    bool any = false;
    for (size_t n; (n = strspn(*c, blanks)) > 0;) {
        *c += n;
        if (**c < 'a' || **c > 'z')
            break;
        any = true;
        if (!pass_attribute(c))
            return false;
    }
    tag->attributes.n = (size_t)(*c - tag->attributes.at);
    *empty = pass_word(c, "/");
    return tag->name.n > 0 && pass_word(c, ">") && !(tag->closing && (any || *empty));
}

/* The next tag behind comments, which is that start tag with just these attributes, the first
 * `needed` of them at least; values of others are {NULL, 0}. */
static bool has_attributes(const struct xml_tag *tag, const char *const *name, size_t needed,
                           struct xml_span *value)
{
    struct xml_span found, text;
    size_t names = 0, got = 0;
    for (; name[names]; names++)
        value[names] = (struct xml_span){NULL, 0};
    for (const char *at = NULL; xml_next_attribute(tag, &at, &found, &text); got++) {
        size_t k = 0;
        while (k < names && !xml_equal(found, name[k]))
            k++;
        if (k == names || value[k].at || text.n == 0)
            return false;
        value[k] = text;
    }
    for (size_t k = 0; k < needed; k++)
        if (!value[k].at)
            return false;
    return got > 0;
}

static bool plain_is_listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (*list) {
        size_t length = strcspn(list, " ");
        if (n == length && !memcmp(list, word, n))
            return true;
        list += length + (list[length] == ' ');
    }
    return false;
}

/* A number as SimGrid and units.h read it alike: digits and one of the usual units, or 0. */
static bool read_number(struct xml_span span, enum unit unit, double *out)
{
    static const char *const usual[] = {
        [UNIT_SECONDS] = "s ms us ns",
        [UNIT_RATE] = "Bps kBps MBps GBps TBps bps kbps Mbps Gbps Tbps",
        [UNIT_FLOPS] = "f kf Mf Gf Tf Pf",
    };
    char text[VALUE];
    if (span.n >= sizeof text)
        return false;
    memcpy(text, span.at, span.n);
    text[span.n] = '\0';
    const char *end = text + strspn(text, "0123456789.");
    if (*end == 'e' && end > text)
        end += 1 + strspn(end + 1, "+-0123456789");
    char *read;
    double value = strtod(text, &read);
    if (read != end || end == text || !isfinite(value))
        return false;
    *out = value;
    return (value == 0 && !strcmp(text, "0")) ||
           (plain_is_listed(usual[unit], end) && units_parse(unit, text, out) == STATUS_OK);
}

/* ---- the file */

/* Ends a value in the copy; its tag is not looked at again. */
static const char *ended(struct plain *f, struct xml_span value)
{
    char *at = f->text + (value.at - f->text);
    at[value.n] = '\0';
    return at;
}

/* A <prop/> of what was read last. *fits: it is one. */
static enum status read_property(struct plain *f, const struct xml_tag *tag, bool empty,
                                 size_t first, bool *fits)
{
    static const char *const names[] = {"id", "value", NULL};
    struct xml_span value[2];
    *fits = empty && xml_is(tag, "prop") && has_attributes(tag, names, 2, value) &&
            f->properties - first < MOST_PROPERTIES;
    if (!*fits)
        return STATUS_OK;
    PASS(ARRAY_ROOM(f->property, f->properties));
    struct property p = {ended(f, value[0]), ended(f, value[1])};
    for (size_t k = first; k < f->properties; k++)
        *fits = *fits && strcmp(f->property[k].id, p.id) != 0;
    f->property[f->properties++] = p;
    return STATUS_OK;
}

/* The properties inside of an element, and its end. */
static enum status read_properties(struct plain *f, const char **c, const char *element, bool *fits)
{
    size_t first = f->properties;
    for (;;) {
        struct xml_tag tag;
        bool empty;
        pass_comments(c);
        *fits = read_tag(c, &tag, &empty);
        if (!*fits || (tag.closing && xml_equal(tag.name, element)))
            return STATUS_OK;
        PASS(read_property(f, &tag, empty, first, fits));
        if (!*fits)
            return STATUS_OK;
    }
}

static enum status plain_add_point(struct plain *f, const char *id)
{
    PASS(ARRAY_ROOM(f->point, f->points));
    f->point[f->points++] = id;
    return STATUS_OK;
}

static enum status read_host(struct plain *f, const char **c, const struct xml_tag *tag, bool empty,
                             bool *fits)
{
    static const char *const names[] = {"id", "speed", "core", NULL};
    struct xml_span value[3];
    struct plain_host h = {.in = f, .cores = 1, .first = f->properties};
    *fits = has_attributes(tag, names, 2, value) && read_number(value[1], UNIT_FLOPS, &h.flops) &&
            h.flops > 0;
    if (*fits && value[2].at) {
        char *end;
        long cores = strtol(value[2].at, &end, 10);
        *fits = end == value[2].at + value[2].n && *value[2].at >= '1' && *value[2].at <= '9' &&
                cores <= MOST_CORES;
        h.cores = (int)cores;
    }
    if (!*fits)
        return STATUS_OK;
    h.id = ended(f, value[0]);
    PASS(plain_add_point(f, h.id));
    if (!empty)
        PASS(read_properties(f, c, "host", fits));
    h.end = f->properties;
    PASS(ARRAY_ROOM(f->host, f->hosts));
    f->host[f->hosts++] = h;
    return STATUS_OK;
}

static enum status read_router(struct plain *f, const struct xml_tag *tag, bool empty, bool *fits)
{
    static const char *const names[] = {"id", NULL};
    struct xml_span value[1];
    *fits = empty && has_attributes(tag, names, 1, value);
    return *fits ? plain_add_point(f, ended(f, value[0])) : STATUS_OK;
}

static const char *const link_names[] = {"id", "bandwidth", "latency", "sharing_policy", NULL};

/* The numbers of a link, which flat.h asks for: each direction of a SPLITDUPLEX link has them. */
static bool read_link_numbers(const struct xml_tag *tag, const char *name,
                              struct topology_link *out)
{
    struct xml_span value[4];
    (void)name;
    *out = (struct topology_link){0};
    if (!has_attributes(tag, link_names, 2, value) ||
        !read_number(value[1], UNIT_RATE, &out->bandwidth_Bps) ||
        (value[2].at && !read_number(value[2], UNIT_SECONDS, &out->latency_s)))
        return false;
    out->fat = xml_equal(value[3], "FATPIPE");
    return out->bandwidth_Bps > 0;
}

/* Ids of links must not meet those of another one's directions, nor SimGrid's own. */
static bool plain_ends_with(struct xml_span span, const char *end)
{
    size_t n = strlen(end);
    return span.n >= n && !memcmp(span.at + span.n - n, end, n);
}

/* Its properties are read from the text once more (links.h); here only their form counts. */
static enum status plain_read_link(struct plain *f, const char **c, const struct xml_tag *tag,
                                   bool empty, bool *fits)
{
    struct topology_link numbers;
    struct xml_span value[4];
    *fits = read_link_numbers(tag, NULL, &numbers) && has_attributes(tag, link_names, 2, value) &&
            !plain_ends_with(value[0], "_UP") && !plain_ends_with(value[0], "_DOWN") &&
            strncmp(value[0].at, "__", 2) != 0;
    size_t before = f->properties;
    if (*fits && !empty)
        PASS(read_properties(f, c, "link", fits));
    f->properties = before;
    return STATUS_OK;
}

/* A route's ends and links are for flat.h to find. */
static bool read_route(const char **c, const struct xml_tag *route, bool empty)
{
    static const char *const names[] = {"src", "dst", "symmetrical", NULL}, *const hop[] = {
                                                                                "id", "direction",
                                                                                NULL};
    struct xml_span value[3], at[2];
    struct xml_tag tag;
    if (empty || !has_attributes(route, names, 2, value) ||
        (value[2].at && !xml_equal(value[2], "YES") && !xml_equal(value[2], "NO")))
        return false;
    for (size_t hops = 0;; hops++) {
        pass_comments(c);
        if (!read_tag(c, &tag, &empty))
            return false;
        if (tag.closing)
            return hops > 0 && xml_equal(tag.name, "route");
        if (!empty || !xml_is(&tag, "link_ctn") || !has_attributes(&tag, hop, 1, at))
            return false;
    }
}

/* What is inside of the zone, up to its end: properties, then hosts, routers and links, then
 * routes. */
static enum status read_zone(struct plain *f, const char **c, bool *fits)
{
    enum { PROPERTIES, THINGS, ROUTES } part = PROPERTIES;
    while (*fits) {
        struct xml_tag tag;
        bool empty;
        pass_comments(c);
        *fits = read_tag(c, &tag, &empty);
        if (!*fits || tag.closing) {
            *fits = *fits && xml_equal(tag.name, "zone");
            return STATUS_OK;
        }
        bool host = xml_is(&tag, "host"), router = xml_is(&tag, "router"),
             link = xml_is(&tag, "link"), route = xml_is(&tag, "route");
        unsigned now = host || router || link ? THINGS : route ? ROUTES : PROPERTIES;
        *fits = now >= part;
        part = now;
        if (!*fits)
            return STATUS_OK;
        if (host)
            PASS(read_host(f, c, &tag, empty, fits));
        else if (router)
            PASS(read_router(f, &tag, empty, fits));
        else if (link)
            PASS(plain_read_link(f, c, &tag, empty, fits));
        else if (route)
            *fits = read_route(c, &tag, empty);
        else
            PASS(read_property(f, &tag, empty, 0, fits));
        if (part == PROPERTIES)
            f->usual = f->properties;
    }
    return STATUS_OK;
}

/* Everything around the zone. */
static enum status plain_read_file(struct plain *f, bool *fits)
{
    static const char *const version[] = {"version", NULL}, *const zone[] = {"id", "routing", NULL};
    const char *c = f->text;
    struct xml_tag tag;
    struct xml_span value[2];
    bool empty;
    if (pass_word(&c, "<?xml version='1.0'?>") || pass_word(&c, "<?xml version=\"1.0\"?>"))
        c += strspn(c, blanks);
    *fits = pass_word(&c, "<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">");
    pass_comments(&c);
    *fits = *fits && read_tag(&c, &tag, &empty) && !empty && xml_is(&tag, "platform") &&
            has_attributes(&tag, version, 1, value) && xml_equal(value[0], "4.1");
    pass_comments(&c);
    *fits = *fits && read_tag(&c, &tag, &empty) && !empty && xml_is(&tag, "zone") &&
            has_attributes(&tag, zone, 2, value);
    if (!*fits)
        return STATUS_OK;
    PASS(plain_add_point(f, ended(f, value[0])));
    PASS(read_zone(f, &c, fits));
    pass_comments(&c);
    *fits = *fits && read_tag(&c, &tag, &empty) && tag.closing && xml_equal(tag.name, "platform");
    pass_comments(&c);
    *fits = *fits && !*c && f->hosts > 0;
    return STATUS_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Hosts, routers and the zone have different names. */
static bool are_apart(struct plain *f)
{
    qsort(f->point, f->points, sizeof *f->point, by_text);
    for (size_t k = 1; k < f->points; k++)
        if (!strcmp(f->point[k - 1], f->point[k]))
            return false;
    return true;
}

static void plain_free(struct plain *f)
{
    free(f->text);
    free(f->host);
    free(f->point);
    free(f->property);
}

/* ---- what hosts.h, tiers.h and nics.h ask */

static const char *find_property(const struct plain *f, size_t first, size_t end, const char *name)
{
    for (size_t k = first; k < end; k++)
        if (!strcmp(f->property[k].id, name))
            return f->property[k].value;
    return NULL;
}

static const char *plain_property_of(const void *of, const char *name)
{
    const struct plain_host *h = of;
    return find_property(h->in, h->first, h->end, name);
}

static const char *plain_usual_value(const void *of, const char *name)
{
    const struct plain_host *h = of;
    return find_property(h->in, 0, h->in->usual, name);
}

/* A way through the text's graph, with what each link is. */
struct ways {
    struct route_search search;
    struct tier_hop *hop; /* [links] */
    uint32_t *edge;       /* [vertices] of a way, from its end */
};

/* The links of the way, as SimGrid hands them out: those of each <route> in reverse. */
static enum status plain_ask_tier(struct tier_search *s, const struct topology *t, size_t i,
                                  size_t j)
{
    struct ways *w = s->context;
    const struct route_graph *g = &t->graph;
    uint32_t vertex = g->vertex[j], n = 0;
    if (!w->search.graph) {
        PASS(route_search_open(g, &w->search));
        PASS(ARRAY_NEW(w->hop, t->links));
        PASS(ARRAY_NEW(w->edge, g->vertices));
        for (uint32_t k = 0; k < t->links; k++) {
            const struct topology_link *l = &t->link[k];
            const struct text_link *at = links_find(&s->links, l->name);
            w->hop[k] = (struct tier_hop){l->latency_s, l->bandwidth_Bps,
                                          at ? at->label : LINKS_NO_LABEL, k, l->name};
        }
    }
    route_search_begin(&w->search, g->vertex[i], ROUTE_NO_BLOCK);
    if (!route_search_reach(&w->search, vertex))
        return STATUS_OK; /* tier_search_zone() has found a way between all */
    for (; vertex != g->vertex[i]; vertex = w->search.before[vertex])
        w->edge[n++] = w->search.edge[vertex];
    while (n-- > 0)
        for (uint32_t h = g->first[w->edge[n] + 1]; h > g->first[w->edge[n]]; h--)
            PASS(tier_search_hop(s, &w->hop[g->hop[h - 1]]));
    return STATUS_OK;
}

/* No route twice between the same two, and none to where it begins: SimGrid refuses both. */
static enum status check_routes(const struct route_graph *g, bool *fits)
{
    uint32_t *from;
    PASS(ARRAY_NEW(from, g->vertices + 1)); /* the last vertex, + 1, that has an edge to each */
    for (uint32_t v = 0; v < g->vertices; v++)
        for (uint32_t e = g->start[v]; e < g->start[v + 1]; e++) {
            *fits = *fits && from[g->to[e]] != v + 1 && g->to[e] != v;
            from[g->to[e]] = v + 1;
        }
    free(from);
    return STATUS_OK;
}

/* Tiers and links of the topology, whose devices are known. */
static enum status find_tiers(const struct platform_text *p, struct topology *t, bool *fits)
{
    enum status st;
    struct ways ways = {0};
    struct tier_search s = {.ask = plain_ask_tier, .link = read_link_numbers, .context = &ways};
    TRY(tier_search_open(p, &s));
    *fits = *fits && (double)t->n * (double)s.links.n <= MOST_STEPS;
    for (size_t k = 1; k < s.links.n; k++)
        *fits = *fits && xml_compare(s.links.link[k - 1].id, s.links.link[k].id) != 0;
    if (*fits)
        TRY(tier_search_zone(&s, t, fits));
    if (*fits)
        TRY(check_routes(&t->graph, fits));
    if (*fits)
        TRY(tier_search_finish(&s, t));
out:
    tier_search_free(&s);
    route_search_free(&ways.search);
    free(ways.hop);
    free(ways.edge);
    return st;
}

/* The topology of a file that was read. */
static enum status plain_describe_tiers(const struct platform_text *p, const struct plain *f,
                                        struct topology *t, bool *fits)
{
    enum status st;
    struct platform_host *host;
    PASS(ARRAY_NEW(host, f->hosts));
    for (size_t i = 0; i < f->hosts; i++) {
        const struct plain_host *h = &f->host[i];
        host[i] = (struct platform_host){h->id, h->flops,          h->cores,
                                         h,     plain_property_of, plain_usual_value};
    }
    TRY(platform_find_devices(p, f->hosts, host, t));
    TRY(platform_types(p, host, t));
    TRY(find_tiers(p, t, fits));
    if (*fits)
        TRY(platform_nics(t, NULL, NULL));
out:
    free(host);
    return st;
}

enum status plain_describe(const struct platform_text *p, bool *fits, struct topology *out)
{
    enum status st;
    struct plain f = {0};
    struct topology t = {0};
    TRY(text_copy(p->text, &f.text));
    TRY(plain_read_file(&f, fits));
    *fits = *fits && are_apart(&f);
    if (*fits)
        st = plain_describe_tiers(p, &f, &t, fits);
    if (st == STATUS_PARSE) { /* SimGrid may name an earlier fault */
        st = STATUS_OK;
        *fits = false;
    }
    if (st == STATUS_OK && *fits) {
        *out = t;
        t = (struct topology){0};
    }
out:
    topology_free(&t);
    plain_free(&f);
    return st;
}
