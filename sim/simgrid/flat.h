/* flat.h - the links and routes of one flat zone, read from its text. */
#ifndef SIM_SIMGRID_FLAT_H
#define SIM_SIMGRID_FLAT_H

#include <stdbool.h>

#include "core/data/topology.h"
#include "sim/platform/fault.h"

struct flat_zone {
    size_t links;
    struct topology_link *link; /* [links] in the text's order, up before down */
    double *latency_s;          /* [links] */
    struct route_graph graph;
};

/* Read a loaded platform.
 *   device  [n] names of the hosts to go between
 * *fits is false, and nothing is read, when the text is anything but one zone with
 * routing="Dijkstra" or "DijkstraCache" that has hosts, routers, links, routes and properties only;
 * that is no error. STATUS_NOMEM. */
enum status flat_read(const struct platform_text *p, size_t n, char *const *device, bool *fits,
                      struct flat_zone *out) MUST_CHECK;
void flat_free(struct flat_zone *z); /* accepts {0}; leaves {0} */

#endif
