/* network.h - the links of a platform file as wires between fixed points. */
#ifndef SIM_PLATFORM_NETWORK_H
#define SIM_PLATFORM_NETWORK_H

#include "core/data/network.h"
#include "core/data/topology.h"

/* Read hosts, routers and links of a file that platform_read() has accepted as `t`.
 *
 * One zone with routing by Dijkstra or Floyd, every <route> both ways and links with
 * sharing_policy="SPLITDUPLEX" or "FATPIPE" become wires: a route of several links gets joints
 * between them, and a link of several routes begins and ends at the same points on all. Everything
 * else, links that both directions share, <cluster>, several zones, becomes the one-way links of
 * network_routes.h. STATUS_UNSUPPORTED as "path:line: what" for coordinates and for routes that
 * pass a link twice. STATUS_IO, STATUS_NOMEM. O(text + (hosts + routers + links)^2) time for
 * wires. */
enum status platform_network(const char *path, const struct topology *t,
                             struct network *out) MUST_CHECK;

#endif
