/* platform_routes.h - what lies between any two hosts of a loaded SimGrid platform. */
#ifndef SIM_PLATFORM_ROUTES_H
#define SIM_PLATFORM_ROUTES_H

#include <simgrid/host.h>

#include "core/topology.h"
#include "sim/platform_fault.h"

/* The route being asked for, in memory shared with the parent: SimGrid 3.32 does not survive asking
 * a Dijkstra zone for a route that it lacks. */
struct route_asked {
    uint32_t asking; /* 0: none */
    char from[256], to[256];
};

/* Refuse links whose bandwidth is not above zero or whose latency is negative, and quantities
 * without a unit, which SimGrid takes for base units. To be asked before the first simgrid_run().
 * STATUS_PARSE as "path:line: what", STATUS_NOMEM. */
enum status platform_check_links(const struct platform_text *p) MUST_CHECK;

/* Fill t->tier, t->tiers and t->tier_of from the routes between all hosts.
 *   host  [t->n] the host of each device
 * Asks SimGrid t->n * (t->n - 1) times; keeps 2 bytes a pair. STATUS_PARSE when a route is missing,
 * STATUS_NOMEM; t is then fit for topology_free(). */
enum status platform_routes(const struct platform_text *p, const sg_host_t *host,
                            struct route_asked *asked, struct topology *t) MUST_CHECK;

/* Report the missing route from -> to: always STATUS_PARSE. */
enum status platform_no_route(const struct platform_text *p, const char *from, const char *to);

#endif
