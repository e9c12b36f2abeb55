/* nics.h - how many ways lead out of a node. */
#ifndef SIM_SIMGRID_NICS_H
#define SIM_SIMGRID_NICS_H

#include <simgrid/host.h>

#include "core/data/topology.h"

/* Fill nics of t's types (core/data/topology.h), from the node of the first device of each: what its devices
 * can send at once to those of the nearest other node, each to another one.
 *   host  [t->n] the host of each device
 * Wants tiers and types in place. STATUS_NOMEM. */
enum status platform_nics(const sg_host_t *host, struct topology *t) MUST_CHECK;

#endif
