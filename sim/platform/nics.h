/* nics.h - how many ways lead out of a node. */
#ifndef SIM_PLATFORM_NICS_H
#define SIM_PLATFORM_NICS_H

#include <stdbool.h>

#include "core/data/topology.h"

struct nic_ways;
/* Call nic_ways_use() for each link of the route between two devices. */
typedef enum status nic_ask(const void *context, uint32_t from, uint32_t to, struct nic_ways *w);
/* `link` is the same pointer whenever it is the same link; shared: flows divide its bandwidth.
 * STATUS_NOMEM. */
enum status nic_ways_use(struct nic_ways *w, const void *link, double Bps, bool shared) MUST_CHECK;

/* Fill nics of t's types (core/data/topology.h), from the node of the first device of each: what
 * its devices can send at once to those of the nearest other node, each to another one. Wants
 * tiers and types in place.
 *   ask  is called where t has no graph; NULL: it has one
 * STATUS_NOMEM. */
enum status platform_nics(struct topology *t, nic_ask *ask, const void *context) MUST_CHECK;

#endif
