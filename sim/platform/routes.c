/* The tiers of a platform: every pair of devices is put into the tier of equal latency and
 * bandwidth that its route has. For flat zones the routes come from a search of the text,
 * checked against samples of SimGrid's own answers; for all others SimGrid is asked for each
 * pair. */
#include "sim/platform/routes.h"

#include <math.h>
#include <simgrid/link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xbt/dynar.h>

#include "core/array.h"
#include "core/text.h"
#include "sim/platform/links.h"
#include "sim/platform/shortest.h"
#include "sim/platform/xml_scan.h"

enum {
    MAX_TIERS = 4096,
    TIER_NAME = 256,
    MAX_ASKED = 4096, /* devices when every pair is asked for */
    MAX_UNSURE = 256, /* rows with pairs that must be asked for, above that */
    SAMPLED = 8,      /* rows and, in each, columns where the search is checked */
    NO_TIER = -1,
};
/* Sums of the same latencies in another order are the same latency. */
static const double tolerance = 1e-9;

/* What a route needs to know of a SimGrid link. */
struct hop {
    double latency_s, bandwidth_Bps;
    unsigned label;
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
    size_t n;
    struct tier *tier; /* [MAX_TIERS] */
    size_t last;       /* of the pair before, likely the next one's too */
    xbt_dynar_t route;
};

/* ---- tiers */

enum status platform_no_route(const struct platform_text *p, const char *from, const char *to)
{
    return error_set(STATUS_PARSE, "%s:%zu: no route from '%s' to '%s'", p->path,
                     platform_line(p, "host", from), from, to);
}

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

/* Index of the tier of s->route, found or added. */
static enum status find_tier(struct search *s, size_t *out)
{
    struct tier new = {.bandwidth_Bps = INFINITY, .found = s->n};
    for (size_t i = 0, hops = xbt_dynar_length(s->route); i < hops; i++) {
        sg_link_t link;
        xbt_dynar_get_cpy(s->route, i, &link);
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
        return platform_no_route(s->text, t->device[i], t->device[j]);
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

/* All n^2 routes from SimGrid, in rows; refused above MAX_ASKED devices, where this would take
 * minutes. */
static enum status ask_all(struct search *s, struct topology *t)
{
    enum status st = STATUS_OK;
    struct topology_map_builder *b = NULL;
    uint32_t *row = NULL;
    TRY(ARRAY_NEW(row, t->n));
    if (t->n > MAX_ASKED)
        FAIL(STATUS_PARSE,
             "%s:1: %zu devices, expected up to %d unless the platform is one flat zone "
             "with routing=\"DijkstraCache\"",
             s->text->path, t->n, MAX_ASKED);
    TRY(topology_map_begin(t->n, &b));
    for (size_t i = 0; i < t->n; i++) {
        for (size_t j = 0; j < t->n; j++) {
            size_t tier = 0;
            if (i != j)
                TRY(ask(s, t, i, j, &tier));
            row[j] = (uint32_t)tier + 1;
        }
        TRY(topology_map_row(b, row));
    }
    TRY(topology_map_finish(b, &t->between));
out:
    topology_map_builder_free(b);
    free(row);
    return st;
}

/* Pairs whose value is known take the tier of the first pair of that value, the others are asked
 * for. */
struct shortcut {
    struct shortest *shortest;
    uint16_t *value;               /* [n] of the row at hand */
    uint32_t *row;                 /* [n] tier + 1 */
    int32_t tier[SHORTEST_VALUES]; /* of each value, or NO_TIER */
    size_t unsure;                 /* rows with a pair that was asked for */
    bool wrong;                    /* SimGrid says otherwise */
};

/* The tier of a value seen for the first time. SimGrid's route must have that value. */
static enum status learn(struct search *s, struct shortcut *c, const struct topology *t, size_t i,
                         size_t j)
{
    size_t tier;
    double latency_s, bandwidth_Bps;
    PASS(ask(s, t, i, j, &tier));
    shortest_value(c->shortest, c->value[j], &latency_s, &bandwidth_Bps);
    c->wrong = c->wrong || !close_to(s->tier[tier].latency_s, latency_s) ||
               !close_to(s->tier[tier].bandwidth_Bps, bandwidth_Bps);
    c->tier[c->value[j]] = (int32_t)tier;
    return STATUS_OK;
}

/* The tiers of row i from the values that the search found; pairs whose shortest routes differ
 * in speed are asked for one by one. */
static enum status shortcut_row(struct search *s, struct shortcut *c, const struct topology *t,
                                size_t i)
{
    enum status st = STATUS_OK;
    bool asked = false;
    for (size_t j = 0; j < t->n && !c->wrong; j++) {
        uint16_t value = c->value[j];
        size_t tier = 0;
        if (i == j) {
            continue;
        } else if (value == SHORTEST_UNSURE) {
            asked = true;
            TRY(ask(s, t, i, j, &tier));
            c->row[j] = (uint32_t)tier + 1;
            continue;
        } else if (c->tier[value] == NO_TIER) {
            TRY(learn(s, c, t, i, j));
        }
        c->row[j] = (uint32_t)c->tier[value] + 1;
    }
    c->unsure += asked;
    if (t->n > MAX_ASKED && c->unsure > MAX_UNSURE)
        st =
            error_set(STATUS_PARSE,
                      "%s:%zu: from '%s' several shortest routes differ in speed, as from %d other "
                      "devices; above %d devices one of them must have a link more",
                      s->text->path, platform_line(s->text, "host", t->device[i]), t->device[i],
                      MAX_UNSURE, MAX_ASKED);
out:
    return st;
}

/* Compare some entries of a row, spread over it, with SimGrid. */
static enum status sample_row(struct search *s, struct shortcut *c, const struct topology *t,
                              size_t i)
{
    for (size_t k = 0; k < SAMPLED && !c->wrong; k++) {
        size_t j = (i + 1 + k * (t->n - 1) / SAMPLED + i * 7 % SAMPLED) % t->n, tier;
        if (i == j)
            continue;
        PASS(ask(s, t, i, j, &tier));
        c->wrong = tier + 1 != c->row[j];
    }
    return STATUS_OK;
}

/* All pairs by searching the text's graph. *done is false, and nothing learnt, when that is not
 * possible. */
static enum status take_shortcut(struct search *s, struct topology *t, bool *done)
{
    enum status st;
    struct topology_map_builder *b = NULL;
    struct shortcut c = {0};
    for (size_t v = 0; v < SHORTEST_VALUES; v++)
        c.tier[v] = NO_TIER;
    TRY(ARRAY_NEW(c.row, t->n));
    TRY(ARRAY_NEW(c.value, t->n));
    TRY(shortest_open(s->text, t->n, t->device, &c.shortest));
    TRY(topology_map_begin(t->n, &b));
    c.wrong = !c.shortest;
    for (size_t i = 0; i < t->n && !c.wrong; i++) {
        c.wrong = !shortest_from(c.shortest, i, c.value);
        if (c.wrong)
            break;
        TRY(shortcut_row(s, &c, t, i));
        if (i % (t->n / SAMPLED + 1) == 0)
            TRY(sample_row(s, &c, t, i));
        TRY(topology_map_row(b, c.row));
    }
    if (c.wrong)
        s->n = s->last = 0;
    else
        TRY(topology_map_finish(b, &t->between));
    *done = !c.wrong;
out:
    topology_map_builder_free(b);
    shortest_free(c.shortest);
    free(c.value);
    free(c.row);
    return st;
}

enum status platform_routes(const struct platform_text *p, const sg_host_t *host,
                            struct route_asked *asked, struct topology *t)
{
    enum status st;
    bool done = false;
    size_t n = sg_link_count();
    struct links links = {0};
    sg_link_t *link = sg_link_list();
    struct search s = {.text = p,
                       .host = host,
                       .asked = asked,
                       .links = &links,
                       .route = xbt_dynar_new(sizeof(sg_link_t), NULL)};
    struct hop *hop = NULL;
    TRY(ARRAY_NEW(s.tier, MAX_TIERS));
    TRY(ARRAY_NEW(hop, n + 1));
    TRY(links_read(p, &links));
    for (size_t i = 0; i < n; i++) {
        const struct text_link *at = links_find(&links, sg_link_get_name(link[i]));
        hop[i] = (struct hop){sg_link_get_latency(link[i]), sg_link_get_bandwidth(link[i]),
                              at ? at->label : LINKS_NO_LABEL};
        sg_link_set_data(link[i], &hop[i]);
    }
    if (!asked->exhaustive)
        TRY(take_shortcut(&s, t, &done));
    if (!done)
        TRY(ask_all(&s, t));
    TRY(finish_tiers(&s, t));
out:
    xbt_dynar_free(&s.route);
    free(hop);
    free(s.tier);
    free(link);
    links_free(&links);
    return st;
}
