/* The routes of a loaded platform as SimGrid says them. For flat zones those of the text are taken,
 * checked against samples of SimGrid's own answers; for all others SimGrid is asked for each
 * pair. */
#include "sim/simgrid/routes.h"

#include <simgrid/link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <xbt/dynar.h>

#include "core/base/array.h"
#include "core/base/limit.h"
#include "core/base/text.h"
#include "core/data/routes.h"
#include "sim/platform/coordinates.h"
#include "sim/platform/size.h"
#include "sim/platform/tiers.h"
#include "sim/simgrid/load.h"

/* What SimGrid is asked with. */
struct asking {
    struct tier_search search; /* first: it is what simgrid_ask_route() gets */
    const struct platform_host *host;
    struct route_asked *asked;
    bool coordinates; /* routes have latencies that no link has */
    xbt_dynar_t route;
    size_t links_n;
    sg_link_t *link;      /* [links_n] SimGrid's */
    struct tier_hop *hop; /* [links_n] */
};

/* Ask SimGrid for the route between two devices. */
static enum status simgrid_ask_route(struct tier_search *search, const struct topology *t, size_t i,
                                     size_t j)
{
    struct asking *s = search->context;
    sg_host_t from = loaded_host(&s->host[i]), to = loaded_host(&s->host[j]);
    snprintf(s->asked->from, sizeof s->asked->from, "%s", t->device[i]);
    snprintf(s->asked->to, sizeof s->asked->to, "%s", t->device[j]);
    s->asked->asking = 1;
    xbt_dynar_reset(s->route);
    sg_host_get_route(from, to, s->route);
    s->asked->asking = 0;
    if (xbt_dynar_is_empty(s->route))
        return s->coordinates ? platform_no_links(search->text, t->device[i], t->device[j])
                              : platform_no_route(search->text, t->device[i], t->device[j]);
    for (size_t k = 0; k < xbt_dynar_length(s->route); k++) {
        sg_link_t link;
        xbt_dynar_get_cpy(s->route, k, &link);
        PASS(tier_search_hop(search, sg_link_get_data(link)));
    }
    if (s->coordinates)
        search->latency_s = sg_host_get_route_latency(from, to);
    return STATUS_OK;
}

/* ---- all pairs; a map under way holds tiers in the order of their discovery, + 1 */

/* Number SimGrid's links as the topology's, in its order. */
static enum status take_links(struct asking *s, struct topology *t)
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
static enum status keep_route(struct asking *s, struct topology *t, size_t at)
{
    uint32_t link[TIER_HOPS];
    size_t n = s->search.hops;
    if (n > TIER_HOPS)
        return error_set(STATUS_PARSE, "%s:1: a route has more than %d links", s->search.text->path,
                         TIER_HOPS);
    for (size_t k = 0; k < n; k++)
        link[k] = s->search.route[k]->link;
    return route_table_add(&t->table, at, n, link);
}

/* All n^2 routes from SimGrid, in rows, and kept where there is room; refused above MOST_ROUTED
 * devices, where this would take minutes. */
static enum status ask_all(struct asking *s, struct topology *t)
{
    enum status st = STATUS_OK;
    struct topology_map_builder *b = NULL;
    uint32_t *row = NULL;
    char more[LIMIT_MORE];
    TRY(ARRAY_NEW(row, t->n));
    if ((double)t->n > limit_platform(MOST_ROUTED))
        FAIL(STATUS_PARSE,
             "%s:%zu: got %zu devices, expected up to %.0f unless the platform is one flat zone "
             "with routing=\"DijkstraCache\"%s",
             s->search.text->path, platform_line(s->search.text, "host", t->device[0]), t->n,
             limit_platform(MOST_ROUTED), limit_more(LIMIT_platform, more));
    TRY(topology_map_begin(t->n, &b));
    if (t->n <= ROUTE_TABLE_DEVICES) {
        TRY(take_links(s, t));
        TRY(route_table_begin(t->n, &t->table));
    }
    for (size_t i = 0; i < t->n; i++) {
        for (size_t j = 0; j < t->n; j++) {
            size_t tier = 0;
            if (i != j) {
                TRY(tier_search_ask(&s->search, t, i, j, &tier));
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

/* What a route needs to know of each link goes where SimGrid hands it back with the link. */
static enum status attach_hops(struct asking *s)
{
    s->links_n = sg_link_count();
    s->link = sg_link_list();
    PASS(ARRAY_NEW(s->hop, s->links_n + 1));
    for (size_t i = 0; i < s->links_n; i++) {
        const char *name = sg_link_get_name(s->link[i]);
        const struct text_link *at = links_find(&s->search.links, name);
        s->hop[i] =
            (struct tier_hop){sg_link_get_latency(s->link[i]), sg_link_get_bandwidth(s->link[i]),
                              at ? at->label : LINKS_NO_LABEL, UINT32_MAX, name};
        sg_link_set_data(s->link[i], &s->hop[i]);
    }
    return STATUS_OK;
}

/* What SimGrid made of a link of the text. */
static bool simgrid_find_link(const struct xml_tag *tag, const char *name,
                              struct topology_link *out)
{
    const_sg_link_t link = sg_link_by_name(name);
    (void)tag;
    if (link)
        *out = (struct topology_link){.bandwidth_Bps = sg_link_get_bandwidth(link),
                                      .latency_s = sg_link_get_latency(link),
                                      .fat = !sg_link_is_shared(link)};
    return link != NULL;
}

enum status platform_routes(const struct platform_text *p, const struct platform_host *host,
                            struct route_asked *asked, struct topology *t)
{
    enum status st;
    bool done = false;
    struct asking s = {
        .search = {.ask = simgrid_ask_route, .link = simgrid_find_link, .checks = true},
        .host = host,
        .asked = asked,
        .route = xbt_dynar_new(sizeof(sg_link_t), NULL)};
    s.search.context = &s;
    TRY(tier_search_open(p, &s.search));
    TRY(attach_hops(&s));
    s.coordinates = platform_has_coordinates(p);
    if (!asked->exhaustive)
        TRY(tier_search_zone(&s.search, t, &done));
    if (!done)
        TRY(ask_all(&s, t));
    TRY(tier_search_finish(&s.search, t));
out:
    xbt_dynar_free(&s.route);
    free(s.hop);
    free(s.link);
    tier_search_free(&s.search);
    return st;
}
