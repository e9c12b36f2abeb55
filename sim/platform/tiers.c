/* The tiers of a platform: every pair of devices is put into the tier of equal latency and
 * bandwidth that its route has. For flat zones the routes come from a search of the text. */
#include "sim/platform/tiers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/order.h"
#include "core/base/text.h"
#include "core/data/routes.h"
#include "sim/platform/regular.h"

enum {
    MAX_TIERS = 4096,
    SAMPLED = 8, /* rows and, in each, columns where the search is checked */
};
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-9;

enum status tier_search_open(const struct platform_text *p, struct tier_search *s)
{
    s->text = p;
    PASS(ARRAY_NEW(s->tier, MAX_TIERS));
    return links_read(p, &s->links);
}

void tier_search_free(struct tier_search *s)
{
    free(s->tier);
    free(s->route);
    links_free(&s->links);
    *s = (struct tier_search){0};
}

enum status tier_search_hop(struct tier_search *s, const struct tier_hop *hop)
{
    PASS(ARRAY_ROOM(s->route, s->hops));
    s->route[s->hops++] = hop;
    return STATUS_OK;
}

/* ---- tiers */

/* Equal but for the rounding of sums. */
static bool tier_is_close(double a, double b)
{
    return fabs(a - b) <= tolerance * fabs(b);
}

/* The labels of the route's links, each once, fastest link first: "nvlink+nic". */
static void name_tier(const struct tier_search *s, struct tier *tier)
{
    uint64_t named = 0;
    size_t length = 0;
    for (;;) {
        const struct tier_hop *best = NULL;
        for (size_t i = 0; i < s->hops; i++) {
            const struct tier_hop *hop = s->route[i];
            if (hop->label != LINKS_NO_LABEL && !(named >> hop->label & 1) &&
                (!best || hop->bandwidth_Bps > best->bandwidth_Bps))
                best = hop;
        }
        if (!best)
            break;
        named |= (uint64_t)1 << best->label;
        struct xml_span label = s->links.label[best->label];
        if (label.n + length + 2 > sizeof tier->name)
            break;
        if (length > 0)
            tier->name[length++] = '+';
        length += xml_decode(label, tier->name + length, sizeof tier->name - length);
    }
    tier->name[length] = '\0';
}

/* Index of the tier of s->route, found or added. */
static enum status find_tier(struct tier_search *s, size_t *out)
{
    struct tier new = {.bandwidth_Bps = INFINITY, .found = s->n};
    for (size_t k = 0; k < s->hops; k++) {
        new.latency_s += s->route[k]->latency_s;
        new.bandwidth_Bps = fmin(new.bandwidth_Bps, s->route[k]->bandwidth_Bps);
    }
    if (s->latency_s >= 0)
        new.latency_s = s->latency_s;
    for (size_t k = 0; k < s->n; k++) {
        size_t at = k == 0 ? s->last : k == s->last ? 0 : k; /* the last one first */
        if (tier_is_close(s->tier[at].latency_s, new.latency_s) &&
            tier_is_close(s->tier[at].bandwidth_Bps, new.bandwidth_Bps)) {
            *out = s->last = at;
            return STATUS_OK;
        }
    }
    if (s->n == MAX_TIERS)
        return error_set(STATUS_PARSE,
                         "%s:1: routes have more than %d distinct latencies and bandwidths",
                         s->text->path, MAX_TIERS);
    name_tier(s, &new);
    *out = s->last = s->n;
    s->tier[s->n++] = new;
    return STATUS_OK;
}

enum status tier_search_ask(struct tier_search *s, const struct topology *t, size_t i, size_t j,
                            size_t *tier)
{
    s->hops = 0;
    s->latency_s = -1;
    PASS(s->ask(s, t, i, j));
    return find_tier(s, tier);
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

enum status tier_search_finish(struct tier_search *s, struct topology *t)
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
    links_mark_lanes(&s->links, t);
out:
    free(rank);
    return st;
}

/* ---- flat zones: their graph says it all */

/* The links and graph of a zone become the topology's. */
static void take_zone(struct flat_zone *zone, struct topology *t)
{
    t->links = zone->links;
    t->link = zone->link;
    t->graph = zone->graph;
    free(zone->latency_s);
    *zone = (struct flat_zone){0};
}

/* And are not after all: what was asked says otherwise. */
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
static enum status map_zone(const struct tier_search *s, struct topology *t, size_t *values_n,
                            bool *fits)
{
    enum status st;
    struct flat_zone zone = {0};
    struct values *values = NULL;
    TRY(flat_read(s->text, t->n, t->device, s->link, fits, &zone));
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

/* A pair that is asked for, and the number that the map has for it: a value at first. */
struct sample {
    struct device_pair pair;
    uint32_t *tier; /* of its value + 1; 0: not known yet */
};

/* The first pair of each value, and where routes are to be checked some more, spread over the
 * map. */
static enum status choose_samples(const struct tier_search *s, const struct topology *t,
                                  size_t values, uint32_t *tier, struct sample **out, size_t *n)
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
    for (size_t i = 0; s->checks && i < t->n; i += t->n / SAMPLED + 1)
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

/* Whether these are the links of the route that was asked for last, in any order: SimGrid hands
 * out those of one <route> in reverse. */
static bool has_links(const struct tier_search *s, const struct topology *t, size_t n,
                      const uint32_t *link)
{
    bool used[TIER_HOPS] = {false};
    if (n != s->hops || n > TIER_HOPS)
        return false;
    for (size_t h = 0; h < n; h++) {
        size_t k = 0;
        while (k < n && (used[k] || strcmp(s->route[h]->name, t->link[link[k]].name) != 0))
            k++;
        if (k == n)
            return false;
        used[k] = true;
    }
    return true;
}

/* The tiers of the samples; *right: their routes are those of the graph, and their tiers those of
 * the values. */
static enum status ask_samples(struct tier_search *s, const struct topology *t, size_t n,
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
        TRY(tier_search_ask(s, t, pair[k].from, pair[k].to, &tier));
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

enum status tier_search_zone(struct tier_search *s, struct topology *t, bool *done)
{
    enum status st;
    size_t values = 0, samples = 0;
    struct sample *sample = NULL;
    uint32_t *tier = NULL; /* of each value, + 1 */
    TRY(map_zone(s, t, &values, done));
    if (!*done)
        goto out;
    TRY(ARRAY_NEW(tier, values));
    TRY(choose_samples(s, t, values, tier, &sample, &samples));
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
