/* tiers.h - the tiers between the devices of a platform, whoever knows its routes: SimGrid
 * (sim/simgrid/routes.c) or the text (plain.c). */
#ifndef SIM_PLATFORM_TIERS_H
#define SIM_PLATFORM_TIERS_H

#include <stdbool.h>

#include "core/data/topology.h"
#include "sim/platform/flat.h"
#include "sim/platform/links.h"

enum {
    TIER_NAME = 256,
    TIER_HOPS = 256, /* links of a route that is kept */
};

/* What a route needs to know of one of its links. */
struct tier_hop {
    double latency_s, bandwidth_Bps;
    unsigned label; /* of links.h */
    uint32_t link;  /* its number in the topology, UINT32_MAX: none */
    const char *name;
};

/* A tier while it is being found, in the order of discovery. */
struct tier {
    double latency_s, bandwidth_Bps;
    char name[TIER_NAME];
    size_t found; /* how many were found before this one */
};

/* What one reading of a platform's routes works on; the caller sets `ask`, `link` and `checks`. */
struct tier_search {
    /* Puts the links of the route from device i to j, in its order, into `route` by
     * tier_search_hop(). */
    enum status (*ask)(struct tier_search *s, const struct topology *t, size_t i, size_t j);
    flat_link *link; /* of flat zones */
    bool checks; /* what a search of the text finds is compared with samples of what ask() says */
    void *context;
    const struct platform_text *text;
    struct links links;
    size_t hops;
    const struct tier_hop **route; /* [hops] that was asked for last */
    double latency_s;              /* of it, where that is not its links' sum; else below 0 */
    size_t n;
    struct tier *tier; /* [n] */
    size_t last;       /* of the pair before, likely the next one's too */
};

/* STATUS_PARSE as links_read(), STATUS_NOMEM. */
enum status tier_search_open(const struct platform_text *p, struct tier_search *s) MUST_CHECK;
void tier_search_free(struct tier_search *s); /* accepts {0}; leaves {0} */
enum status tier_search_hop(struct tier_search *s, const struct tier_hop *hop) MUST_CHECK;
/* Ask for a route: the tier that it has. */
enum status tier_search_ask(struct tier_search *s, const struct topology *t, size_t i, size_t j,
                            size_t *tier) MUST_CHECK;
/* All pairs from the text's graph, and its links; ask() is asked for the first pair of each
 * kind. *done is false, and nothing learnt, when the text is not one flat zone with shortest-way
 * routing (flat.h), a route is missing, or ask() says otherwise. O(t->n * links). t->between
 * then holds tiers in the order of their discovery, + 1. */
enum status tier_search_zone(struct tier_search *s, struct topology *t, bool *done) MUST_CHECK;
/* Sort the tiers found into t, renumber the pairs; links get their lanes. */
enum status tier_search_finish(struct tier_search *s, struct topology *t) MUST_CHECK;

#endif
