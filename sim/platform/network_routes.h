/* network_routes.h - a network out of the routes between all devices, whatever made them. */
#ifndef SIM_PLATFORM_NETWORK_ROUTES_H
#define SIM_PLATFORM_NETWORK_ROUTES_H

#include "core/data/network.h"
#include "core/data/topology.h"

enum { NETWORK_DEVICES = 1024 };

/* Every link of the topology that is on a route becomes a one-way link: one direction of a link
 * that has two, or all that pass a link which both directions share. What leads from one link to
 * the next is a point where that is the same for all routes, else a one-way link without a limit.
 * `next` and `detour` say which way a route takes.
 *   lost  out: a device that some route to passes a link twice; t->n when there is none
 * STATUS_UNSUPPORTED for such a device, above NETWORK_DEVICES devices, or when the topology knows
 * no links; STATUS_NOMEM. O(devices^2 * links of a route) time, O(points * devices) memory. */
enum status network_of_routes(const struct topology *t, struct network *out,
                              uint32_t *lost) MUST_CHECK;

#endif
