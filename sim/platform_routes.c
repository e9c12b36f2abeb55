#include "sim/platform_routes.h"

#include <ctype.h>
#include <math.h>
#include <simgrid/link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

#include "sim/xml_scan.h"

enum { MAX_LABELS = 64, MAX_TIERS = 4096, NO_LABEL = MAX_LABELS, TIER_NAME = 256 };
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-9;

/* A <link> of the file. */
struct text_link {
    struct xml_span id;
    size_t line;
    unsigned label; /* of its <prop id="tier">, or NO_LABEL */
};

struct links {
    size_t n;
    struct text_link *link; /* [n] sorted by id */
    size_t labels;
    struct xml_span label[MAX_LABELS];
};

/* What a route needs to know of a SimGrid link. */
struct hop {
    double latency_s, bandwidth_Bps;
    unsigned label;
};

struct tier {
    double latency_s, bandwidth_Bps;
    char name[TIER_NAME];
    size_t found; /* how many were found before this one */
};

struct search {
    size_t n;
    struct tier *tier; /* [MAX_TIERS] */
    size_t last;       /* of the pair before, likely the next one's too */
};

static enum status out_of_memory(void)
{
    return error_set(STATUS_NOMEM, "out of memory");
}

/* ---- the links in the text */

static int by_id(const void *a, const void *b)
{
    const struct text_link *x = a, *y = b;
    return xml_compare(x->id, y->id);
}

/* SimGrid takes "1" for 1 s and 1 B/s, with a warning that nobody sees. */
static enum status check_units(const struct platform_text *p, const struct xml_tag *tag)
{
    static const char *const quantities[] = {"bandwidth", "latency", "speed"};
    for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++) {
        struct xml_span value = xml_attribute(tag, quantities[i]);
        size_t zeros = 0;
        while (zeros < value.n && strchr("0.", value.at[zeros]))
            zeros++;
        if (zeros < value.n && !isalpha((unsigned char)value.at[value.n - 1]))
            return error_set(STATUS_PARSE, "%s:%zu: %s '%.*s' has no unit", p->path, tag->line,
                             quantities[i], (int)(value.n < 40 ? value.n : 40), value.at);
    }
    return STATUS_OK;
}

static enum status add_link(struct links *links, size_t *room, const struct xml_tag *tag)
{
    if (links->n == *room) {
        size_t larger = *room ? 2 * *room : 256;
        struct text_link *link = realloc(links->link, larger * sizeof *link);
        if (!link)
            return out_of_memory();
        links->link = link;
        *room = larger;
    }
    links->link[links->n++] = (struct text_link){xml_attribute(tag, "id"), tag->line, NO_LABEL};
    return STATUS_OK;
}

static enum status label_link(const struct platform_text *p, struct links *links,
                              const struct xml_tag *prop)
{
    struct xml_span name = xml_attribute(prop, "value");
    size_t i = 0;
    while (i < links->labels && xml_compare(links->label[i], name) != 0)
        i++;
    if (i == MAX_LABELS)
        return error_set(STATUS_PARSE, "%s:%zu: more than %d different tiers", p->path, prop->line,
                         MAX_LABELS);
    if (i == links->labels)
        links->label[links->labels++] = name;
    links->link[links->n - 1].label = (unsigned)i;
    return STATUS_OK;
}

/* Collect the links of a text that SimGrid has accepted. */
static enum status find_links(const struct platform_text *p, struct links *links)
{
    enum status st = STATUS_OK;
    struct xml_scanner s = xml_scan(p->text);
    struct xml_tag tag;
    size_t room = 0;
    bool in_link = false;
    while (xml_next(&s, &tag)) {
        if (xml_is(&tag, "prop")) {
            if (in_link && xml_equal(xml_attribute(&tag, "id"), "tier") &&
                xml_attribute(&tag, "value").n > 0)
                TRY(label_link(p, links, &tag));
            continue;
        }
        in_link = xml_is(&tag, "link") && xml_attribute(&tag, "id").at;
        if (in_link)
            TRY(add_link(links, &room, &tag));
        if (in_link || xml_is(&tag, "host"))
            TRY(check_units(p, &tag));
    }
    if (links->n > 0)
        qsort(links->link, links->n, sizeof *links->link, by_id);
out:
    return st;
}

/* The <link> that made SimGrid's link `name`: itself, or one with two directions; or NULL. */
static const struct text_link *find_link(const struct links *links, const char *name)
{
    static const char *const directions[] = {"", "_UP", "_DOWN"};
    for (size_t i = 0; links->n > 0 && i < sizeof directions / sizeof *directions; i++) {
        size_t n = strlen(name), d = strlen(directions[i]);
        if (n <= d || strcmp(name + n - d, directions[i]) != 0)
            continue;
        struct text_link key = {.id = {name, n - d}};
        struct text_link *found = bsearch(&key, links->link, links->n, sizeof *links->link, by_id);
        if (found)
            return found;
    }
    return NULL;
}

static enum status check_link(const struct platform_text *p, const struct links *links,
                              const_sg_link_t link)
{
    double bandwidth = sg_link_get_bandwidth(link), latency = sg_link_get_latency(link);
    const struct text_link *at = find_link(links, sg_link_get_name(link));
    size_t line = at ? at->line : 1;
    char name[TIER_NAME];
    if (at)
        xml_decode(at->id, name, sizeof name);
    else
        snprintf(name, sizeof name, "%s", sg_link_get_name(link));
    if (!(bandwidth > 0 && isfinite(bandwidth)))
        return error_set(STATUS_PARSE, "%s:%zu: link '%s': bandwidth %g B/s, must be %s", p->path,
                         line, name, bandwidth, isfinite(bandwidth) ? "above zero" : "finite");
    if (!(latency >= 0 && isfinite(latency)))
        return error_set(STATUS_PARSE, "%s:%zu: link '%s': latency %g s, must be %s", p->path, line,
                         name, latency, isfinite(latency) ? "zero or more" : "finite");
    return STATUS_OK;
}

enum status platform_check_links(const struct platform_text *p)
{
    enum status st;
    struct links links = {0};
    sg_link_t *link = NULL;
    TRY(find_links(p, &links));
    link = sg_link_list();
    for (size_t i = 0, n = sg_link_count(); i < n; i++)
        TRY(check_link(p, &links, link[i]));
out:
    free(link);
    free(links.link);
    return st;
}

/* ---- tiers */

enum status platform_no_route(const struct platform_text *p, const char *from, const char *to)
{
    return error_set(STATUS_PARSE, "%s:%zu: no route from '%s' to '%s'", p->path,
                     platform_line(p, "host", from), from, to);
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= tolerance * fabs(b);
}

/* The labels of the route's links, each once, fastest link first: "nvlink+nic". */
static void name_tier(const struct links *links, const xbt_dynar_t route, struct tier *tier)
{
    uint64_t named = 0;
    size_t length = 0, hops = xbt_dynar_length(route);
    for (;;) {
        const struct hop *best = NULL;
        for (size_t i = 0; i < hops; i++) {
            sg_link_t link;
            xbt_dynar_get_cpy(route, i, &link);
            const struct hop *hop = sg_link_get_data(link);
            if (hop->label != NO_LABEL && !(named >> hop->label & 1) &&
                (!best || hop->bandwidth_Bps > best->bandwidth_Bps))
                best = hop;
        }
        if (!best)
            break;
        named |= (uint64_t)1 << best->label;
        struct xml_span label = links->label[best->label];
        if (label.n + length + 2 > sizeof tier->name)
            break;
        if (length > 0)
            tier->name[length++] = '+';
        length += xml_decode(label, tier->name + length, sizeof tier->name - length);
    }
    tier->name[length] = '\0';
}

/* Index of the tier of a route, found or added. */
static enum status find_tier(const struct platform_text *p, const struct links *links,
                             struct search *s, const xbt_dynar_t route, size_t *out)
{
    struct tier new = {.bandwidth_Bps = INFINITY, .found = s->n};
    for (size_t i = 0, hops = xbt_dynar_length(route); i < hops; i++) {
        sg_link_t link;
        xbt_dynar_get_cpy(route, i, &link);
        const struct hop *hop = sg_link_get_data(link);
        new.latency_s += hop->latency_s;
        new.bandwidth_Bps = fmin(new.bandwidth_Bps, hop->bandwidth_Bps);
    }
    for (size_t k = 0; k < s->n; k++) {
        size_t i = k == 0 ? s->last : k == s->last ? 0 : k; /* the last one first */
        if (close_to(s->tier[i].latency_s, new.latency_s) &&
            close_to(s->tier[i].bandwidth_Bps, new.bandwidth_Bps)) {
            *out = s->last = i;
            return STATUS_OK;
        }
    }
    if (s->n == MAX_TIERS)
        return error_set(STATUS_PARSE, "%s:1: routes of more than %d latencies and bandwidths",
                         p->path, MAX_TIERS);
    name_tier(links, route, &new);
    *out = s->last = s->n;
    s->tier[s->n++] = new;
    return STATUS_OK;
}

static int fastest_first(const void *a, const void *b)
{
    const struct tier *x = a, *y = b;
    if (x->bandwidth_Bps < y->bandwidth_Bps || x->bandwidth_Bps > y->bandwidth_Bps)
        return x->bandwidth_Bps > y->bandwidth_Bps ? -1 : 1;
    if (x->latency_s < y->latency_s || x->latency_s > y->latency_s)
        return x->latency_s < y->latency_s ? -1 : 1;
    return x->found < y->found ? -1 : 1;
}

/* "tier3" for the fourth when it has no name; "nic-2" for the second "nic". */
static char *final_name(const struct tier *tier, size_t i)
{
    char name[TIER_NAME + 32];
    size_t earlier = 0;
    for (size_t k = 0; k < i; k++)
        earlier += !strcmp(tier[k].name, tier[i].name);
    if (!*tier[i].name)
        snprintf(name, sizeof name, "tier%zu", i);
    else if (earlier > 0)
        snprintf(name, sizeof name, "%s-%zu", tier[i].name, earlier + 1);
    else
        snprintf(name, sizeof name, "%s", tier[i].name);
    char *copy = malloc(strlen(name) + 1);
    return copy ? strcpy(copy, name) : NULL;
}

/* Sort the tiers found, renumber the pairs. */
static enum status finish_tiers(struct search *s, struct topology *t)
{
    enum status st = STATUS_OK;
    uint16_t *rank = calloc(s->n + 1, sizeof *rank);
    t->tier = calloc(s->n + 1, sizeof *t->tier);
    if (!rank || !t->tier) {
        st = out_of_memory();
        goto out;
    }
    t->tiers = s->n;
    qsort(s->tier, s->n, sizeof *s->tier, fastest_first);
    for (size_t i = 0; i < s->n; i++) {
        rank[s->tier[i].found] = (uint16_t)i;
        t->tier[i].latency_s = s->tier[i].latency_s;
        t->tier[i].bandwidth_Bps = s->tier[i].bandwidth_Bps;
        t->tier[i].name = final_name(s->tier, i);
        if (!t->tier[i].name) {
            st = out_of_memory();
            goto out;
        }
    }
    for (size_t i = 0; i < t->n * t->n; i++)
        t->tier_of[i] = rank[t->tier_of[i]]; /* 0 on the diagonal becomes a number just as good */
out:
    free(rank);
    return st;
}

static enum status ask(const struct platform_text *p, const struct links *links,
                       const sg_host_t *host, struct route_asked *asked, struct search *s,
                       struct topology *t)
{
    enum status st = STATUS_OK;
    xbt_dynar_t route = xbt_dynar_new(sizeof(sg_link_t), NULL);
    for (size_t i = 0; i < t->n; i++) {
        snprintf(asked->from, sizeof asked->from, "%s", t->device[i]);
        for (size_t j = 0; j < t->n; j++) {
            size_t tier = 0;
            if (i == j)
                continue;
            snprintf(asked->to, sizeof asked->to, "%s", t->device[j]);
            asked->asking = 1;
            xbt_dynar_reset(route);
            sg_host_get_route(host[i], host[j], route);
            asked->asking = 0;
            if (xbt_dynar_is_empty(route)) {
                st = platform_no_route(p, t->device[i], t->device[j]);
                goto out;
            }
            TRY(find_tier(p, links, s, route, &tier));
            t->tier_of[i * t->n + j] = (uint16_t)tier;
        }
    }
out:
    xbt_dynar_free(&route);
    return st;
}

enum status platform_routes(const struct platform_text *p, const sg_host_t *host,
                            struct route_asked *asked, struct topology *t)
{
    enum status st;
    size_t n = sg_link_count();
    struct links links = {0};
    sg_link_t *link = sg_link_list();
    struct search s = {.tier = calloc(MAX_TIERS, sizeof *s.tier)};
    struct hop *hop = calloc(n + 1, sizeof *hop);
    t->tier_of = calloc(t->n * t->n, sizeof *t->tier_of);
    if (!s.tier || !hop || !t->tier_of) {
        st = out_of_memory();
        goto out;
    }
    TRY(find_links(p, &links));
    for (size_t i = 0; i < n; i++) {
        const struct text_link *at = find_link(&links, sg_link_get_name(link[i]));
        hop[i] = (struct hop){sg_link_get_latency(link[i]), sg_link_get_bandwidth(link[i]),
                              at ? at->label : NO_LABEL};
        sg_link_set_data(link[i], &hop[i]);
    }
    TRY(ask(p, &links, host, asked, &s, t));
    TRY(finish_tiers(&s, t));
out:
    free(hop);
    free(s.tier);
    free(link);
    free(links.link);
    return st;
}
