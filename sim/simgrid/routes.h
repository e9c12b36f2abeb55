/* routes.h - what lies between any two hosts of a loaded SimGrid platform. */
#ifndef SIM_SIMGRID_ROUTES_H
#define SIM_SIMGRID_ROUTES_H

#include "core/data/topology.h"
#include "sim/platform/hosts.h"
#include "sim/simgrid_module.h"

/* Fill t->tier, t->tiers and t->between from the routes between all hosts.
 *   host  [t->n] the host of each device
 * In one flat zone with shortest-way routing a search of the text's graph (core/data/route_graph.h)
 * finds most pairs, and SimGrid is asked for the first of each kind, for the unsure ones and for a
 * few more, to be sure; O(t->n * links). Elsewhere SimGrid is asked for all t->n * (t->n - 1). Both
 * give the same. STATUS_PARSE when a route is missing or there are too many to ask for,
 * STATUS_NOMEM; t is then fit for topology_free(). */
enum status platform_routes(const struct platform_text *p, const struct platform_host *host,
                            struct route_asked *asked, struct topology *t) MUST_CHECK;

#endif
