/* network.h - the links of a platform file as wires between fixed points. */
#ifndef SIM_PLATFORM_NETWORK_H
#define SIM_PLATFORM_NETWORK_H

#include "core/network.h"
#include "core/topology.h"

/* Read hosts, routers and links of a file that platform_read() has accepted as `t`.
 *
 * Only what can be wired: one zone; every <route> both ways, links with
 * sharing_policy="SPLITDUPLEX" or "FATPIPE". A route of several links gets joints between them; a
 * link of several routes begins and ends at the same points on all. Anything else (<cluster>, links
 * whose directions share) is STATUS_UNSUPPORTED, "path:line: what". STATUS_IO, STATUS_NOMEM. O(text
 * + (hosts + routers + links)^2) time. */
enum status platform_network(const char *path, const struct topology *t,
                             struct network *out) MUST_CHECK;

#endif
