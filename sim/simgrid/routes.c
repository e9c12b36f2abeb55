/* The tiers of a platform: every pair of devices is put into the tier of equal latency and
 * bandwidth that its route has. For flat zones the routes come from a search of the text,
 * checked against samples of SimGrid's own answers; for all others SimGrid is asked for each
 * pair. */
#include "sim/simgrid/routes.h"

#include <math.h>
#include <simgrid/link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/data/routes.h"
#include "sim/platform/coordinates.h"
#include "sim/platform/xml_scan.h"
#include "sim/simgrid/links.h"
#include "sim/simgrid/regular.h"

enum {
    MAX_TIERS = 4096,
    TIER_NAME = 256,
    MAX_ASKED = 4096, /* devices when every pair is asked for */
    MAX_HOPS = 256,   /* links of a route that is kept */
    SAMPLED = 8,      /* rows and, in each, columns where the search is checked */
};
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-9;

/* What a route needs to know of a SimGrid link. */
struct hop {
    double latency_s, bandwidth_Bps;
    unsigned label;
    uint32_t link; /* its number in the topology, UINT32_MAX: none */
};

/* A tier while it is being found, in the order of discovery. */
struct tier {
    double latency_s, bandwidth_Bps;
    char name[TIER_NAME];
    size_t found; /* how many were found before this one */
};

/* What one reading of a platform's routes works on. */
struct search {
    const struct platform_text *text;
    const sg_host_t *host;
    struct route_asked *asked;
    const struct links *links;
    bool coordinates; /* routes have latencies that no link has */
    size_t n;
    struct tier *tier; /* [MAX_TIERS] */
    size_t last;       /* of the pair before, likely the next one's too */
    xbt_dynar_t route;
    size_t links_n;
    sg_link_t *link; /* [links_n] SimGrid's */
    struct hop *hop; /* [links_n] */
};

/* ---- tiers */

/* Equal but for the rounding of sums. */
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
            if (hop->label != LINKS_NO_LABEL && !(named >> hop->label & 1) &&
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

/* Index of the tier of s->route, from i to j, found or added. */
static enum status find_tier(struct search *s, size_t i, size_t j, size_t *out)
{
    struct tier new = {.bandwidth_Bps = INFINITY, .found = s->n};
    for (size_t k = 0, hops = xbt_dynar_length(s->route); k < hops; k++) {
        sg_link_t link;
        xbt_dynar_get_cpy(s->route, k, &link);
        const struct hop *hop = sg_link_get_data(link);
        new.latency_s += hop->latency_s;
        new.bandwidth_Bps = fmin(new.bandwidth_Bps, hop->bandwidth_Bps);
    }
    if (s->coordinates)
        new.latency_s = sg_host_get_route_latency(s->host[i], s->host[j]);
    for (size_t k = 0; k < s->n; k++) {
        size_t at = k == 0 ? s->last : k == s->last ? 0 : k; /* the last one first */
        if (close_to(s->tier[at].latency_s, new.latency_s) &&
            close_to(s->tier[at].bandwidth_Bps, new.bandwidth_Bps)) {
            *out = s->last = at;
            return STATUS_OK;
        }
    }
    if (s->n == MAX_TIERS)
        return error_set(STATUS_PARSE, "%s:1: routes of more than %d latencies and bandwidths",
                         s->text->path, MAX_TIERS);
    name_tier(s->links, s->route, &new);
    *out = s->last = s->n;
    s->tier[s->n++] = new;
    return STATUS_OK;
}

/* Ask SimGrid for the route between two devices: its tier. */
static enum status ask(struct search *s, const struct topology *t, size_t i, size_t j, size_t *tier)
{
    snprintf(s->asked->from, sizeof s->asked->from, "%s", t->device[i]);
    snprintf(s->asked->to, sizeof s->asked->to, "%s", t->device[j]);
    s->asked->asking = 1;
    xbt_dynar_reset(s->route);
    sg_host_get_route(s->host[i], s->host[j], s->route);
    s->asked->asking = 0;
    if (xbt_dynar_is_empty(s->route))
        return s->coordinates ? platform_no_links(s->text, t->device[i], t->device[j])
                              : platform_no_route(s->text, t->device[i], t->device[j]);
    return find_tier(s, i, j, tier);
}

/* Order of tiers: most bandwidth first, then least latency, then as found. */
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
static enum status final_name(const struct tier *tier, size_t i, char **out)
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
    return text_copy(name, out);
}

/* Sort the tiers found, renumber the pairs. */
static enum status finish_tiers(struct search *s, struct topology *t)
{
    enum status st = STATUS_OK;
    uint32_t *rank = NULL;
    TRY(ARRAY_NEW(rank, s->n + 1)); /* the diagonal's 0 stays */
    TRY(ARRAY_NEW(t->tier, s->n + 1));
    t->tiers = s->n;
    qsort(s->tier, s->n, sizeof *s->tier, fastest_first);
    for (size_t i = 0; i < s->n; i++) {
        rank[s->tier[i].found + 1] = (uint32_t)i;
        t->tier[i].latency_s = s->tier[i].latency_s;
        t->tier[i].bandwidth_Bps = s->tier[i].bandwidth_Bps;
        TRY(final_name(s->tier, i, &t->tier[i].name));
    }
    TRY(topology_map_renumber(&t->between, rank));
out:
    free(rank);
    return st;
}

/* ---- all pairs; a map under way holds tiers in the order of their discovery, + 1 */

/* Number SimGrid's links as the topology's, in its order. */
static enum status take_links(struct search *s, struct topology *t)
{
    PASS(ARRAY_NEW(t->link, s->links_n + 1));
    for (; t->links < s->links_n; t->links++) {
        const_sg_link_t link = s->link[t->links];
        s->hop[t->links].link = (uint32_t)t->links;
        t->link[t->links].bandwidth_Bps = sg_link_get_bandwidth(link);
        t->link[t->links].latency_s = sg_link_get_latency(link);
        t->link[t->links].fat = !sg_link_is_shared(link);
        PASS(text_copy(sg_link_get_name(link), &t->link[t->links].name));
    }
    return STATUS_OK;
}

/* Store the route that was asked for last. */
static enum status keep_route(struct search *s, struct topology *t, size_t at)
{
    uint32_t link[MAX_HOPS];
    size_t n = xbt_dynar_length(s->route);
    if (n > MAX_HOPS)
        return error_set(STATUS_PARSE, "%s:1: a route of more than %d links", s->text->path,
                         MAX_HOPS);
    for (size_t k = 0; k < n; k++) {
        sg_link_t hop;
        xbt_dynar_get_cpy(s->route, k, &hop);
        link[k] = ((const struct hop *)sg_link_get_data(hop))->link;
    }
    return route_table_add(&t->table, at, n, link);
}

/* All n^2 routes from SimGrid, in rows, and kept where there is room; refused above MAX_ASKED
 * devices, where this would take minutes. */
static enum status ask_all(struct search *s, struct topology *t)
{
    enum status st = STATUS_OK;
    struct topology_map_builder *b = NULL;
    uint32_t *row = NULL;
    TRY(ARRAY_NEW(row, t->n));
    if (t->n > MAX_ASKED)
        FAIL(STATUS_PARSE,
             "%s:%zu: %zu devices, expected up to %d unless the platform is one flat zone "
             "with routing=\"DijkstraCache\"",
             s->text->path, platform_line(s->text, "host", t->device[0]), t->n, MAX_ASKED);
    TRY(topology_map_begin(t->n, &b));
    if (t->n <= ROUTE_TABLE_DEVICES) {
        TRY(take_links(s, t));
        TRY(route_table_begin(t->n, &t->table));
    }
    for (size_t i = 0; i < t->n; i++) {
        for (size_t j = 0; j < t->n; j++) {
            size_t tier = 0;
            if (i != j) {
                TRY(ask(s, t, i, j, &tier));
                if (t->links > 0)
                    TRY(keep_route(s, t, i * t->n + j));
            }
            row[j] = (uint32_t)tier + 1;
        }
        TRY(topology_map_row(b, row));
    }
    TRY(topology_map_finish(b, &t->between));
    route_table_finish(&t->table);
out:
    topology_map_builder_free(b);
    free(row);
    return st;
}

/* ---- flat zones: their graph says it all, and SimGrid is asked for samples */

/* The links and graph of a zone become the topology's. */
static void take_zone(struct flat_zone *zone, struct topology *t)
{
    t->links = zone->links;
    t->link = zone->link;
    t->graph = zone->graph;
    free(zone->latency_s);
    *zone = (struct flat_zone){0};
}

/* And are not after all: SimGrid says otherwise. */
static void drop_zone(struct topology *t)
{
    struct flat_zone zone = {.links = t->links, .link = t->link, .graph = t->graph};
    flat_free(&zone);
    t->links = 0;
    t->link = NULL;
    t->graph = (struct route_graph){0};
    topology_map_free(&t->between);
}

/* Read the zone, and put the values of all pairs into the map. *fits is false when it is not flat,
 * or something is missing in it. */
static enum status map_zone(const struct search *s, struct topology *t, size_t *values_n,
                            bool *fits)
{
    enum status st;
    struct flat_zone zone = {0};
    struct values *values = NULL;
    TRY(flat_read(s->text, t->n, t->device, fits, &zone));
    if (*fits)
        TRY(values_open(&zone, &values));
    if (values)
        TRY(regular_map(&zone, t->n, values, fits, &t->between));
    *fits = *fits && values;
    if (*fits) {
        *values_n = values_count(values);
        take_zone(&zone, t);
    }
out:
    values_free(values);
    flat_free(&zone);
    return st;
}

/* A pair that SimGrid is asked for, and the number that the map has for it: a value at first. */
struct sample {
    struct device_pair pair;
    uint32_t *tier; /* of its value + 1; 0: not known yet */
};

/* The first pair of each value, and some more, spread over the map. */
static enum status choose_samples(const struct topology *t, size_t values, uint32_t *tier,
                                  struct sample **out, size_t *n)
{
    struct topology_map_place *first;
    PASS(ARRAY_NEW(first, values));
    enum status st = topology_map_first(&t->between, t->n, values, first);
    for (size_t v = 1; st == STATUS_OK && v < values; v++) {
        if (first[v].from == t->n)
            continue;
        st = ARRAY_ROOM(*out, *n);
        if (st == STATUS_OK)
            (*out)[(*n)++] = (struct sample){{first[v].from, first[v].to}, &tier[v]};
    }
    free(first);
    PASS(st);
    for (size_t i = 0; i < t->n; i += t->n / SAMPLED + 1)
        for (size_t k = 0; k < SAMPLED; k++) {
            size_t j = (i + 1 + k * (t->n - 1) / SAMPLED + i * 7 % SAMPLED) % t->n;
            struct device_pair pair = {(uint32_t)i, (uint32_t)j};
            if (i == j)
                continue;
            PASS(ARRAY_ROOM(*out, *n));
            (*out)[(*n)++] =
                (struct sample){pair, &tier[topology_map_at(&t->between, pair.from, pair.to)]};
        }
    if (*n > 0) /* none of one device */
        qsort(*out, *n, sizeof **out, order_by_pair);
    return STATUS_OK;
}

/* Whether these are the links of the route that SimGrid was asked for last, in any order: it hands
 * out those of one <route> in reverse. */
static bool has_links(const struct search *s, const struct topology *t, size_t n,
                      const uint32_t *link)
{
    bool used[MAX_HOPS] = {false};
    if (n != xbt_dynar_length(s->route) || n > MAX_HOPS)
        return false;
    for (size_t h = 0; h < n; h++) {
        sg_link_t theirs;
        xbt_dynar_get_cpy(s->route, h, &theirs);
        size_t k = 0;
        while (k < n && (used[k] || strcmp(sg_link_get_name(theirs), t->link[link[k]].name) != 0))
            k++;
        if (k == n)
            return false;
        used[k] = true;
    }
    return true;
}

/* SimGrid's tiers of the samples; *right: its routes are those of the graph, and its tiers those of
 * the values. */
static enum status ask_samples(struct search *s, const struct topology *t, size_t n,
                               const struct sample *sample, bool *right)
{
    enum status st;
    struct device_pair *pair = NULL;
    struct routes routes = {0};
    TRY(ARRAY_NEW(pair, n));
    for (size_t k = 0; k < n; k++)
        pair[k] = sample[k].pair;
    TRY(topology_routes(t, n, pair, &routes));
    for (size_t k = 0; k < n && *right; k++) {
        size_t tier, start = routes.start[k];
        TRY(ask(s, t, pair[k].from, pair[k].to, &tier));
        if (*sample[k].tier == 0) /* the first of its value */
            *sample[k].tier = (uint32_t)tier + 1;
        *right = *sample[k].tier == tier + 1 &&
                 has_links(s, t, routes.start[k + 1] - start, routes.link + start);
    }
out:
    routes_free(&routes);
    free(pair);
    return st;
}

/* All pairs from the text's graph. *done is false, and nothing learnt, when that is not possible. */
static enum status take_shortcut(struct search *s, struct topology *t, bool *done)
{
    enum status st;
    size_t values = 0, samples = 0;
    struct sample *sample = NULL;
    uint32_t *tier = NULL; /* of each value, + 1 */
    TRY(map_zone(s, t, &values, done));
    if (!*done)
        goto out;
    TRY(ARRAY_NEW(tier, values));
    TRY(choose_samples(t, values, tier, &sample, &samples));
    TRY(ask_samples(s, t, samples, sample, done));
    if (*done) {
        TRY(topology_map_renumber(&t->between, tier));
    } else {
        drop_zone(t);
        s->n = s->last = 0;
    }
out:
    free(sample);
    free(tier);
    return st;
}

/* What a route needs to know of each link goes where SimGrid hands it back with the link. */
static enum status attach_hops(struct search *s)
{
    s->links_n = sg_link_count();
    s->link = sg_link_list();
    PASS(ARRAY_NEW(s->hop, s->links_n + 1));
    for (size_t i = 0; i < s->links_n; i++) {
        const struct text_link *at = links_find(s->links, sg_link_get_name(s->link[i]));
        s->hop[i] = (struct hop){sg_link_get_latency(s->link[i]), sg_link_get_bandwidth(s->link[i]),
                                 at ? at->label : LINKS_NO_LABEL, UINT32_MAX};
        sg_link_set_data(s->link[i], &s->hop[i]);
    }
    return STATUS_OK;
}

enum status platform_routes(const struct platform_text *p, const sg_host_t *host,
                            struct route_asked *asked, struct topology *t)
{
    enum status st;
    bool done = false;
    struct links links = {0};
    struct search s = {.text = p,
                       .host = host,
                       .asked = asked,
                       .links = &links,
                       .route = xbt_dynar_new(sizeof(sg_link_t), NULL)};
    TRY(ARRAY_NEW(s.tier, MAX_TIERS));
    TRY(links_read(p, &links));
    TRY(attach_hops(&s));
    s.coordinates = platform_has_coordinates(p);
    if (!asked->exhaustive)
        TRY(take_shortcut(&s, t, &done));
    if (!done)
        TRY(ask_all(&s, t));
    TRY(finish_tiers(&s, t));
out:
    xbt_dynar_free(&s.route);
    free(s.hop);
    free(s.tier);
    free(s.link);
    links_free(&links);
    return st;
}
