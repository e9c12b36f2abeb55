/* nics.h - how many network ports a node has. */
#ifndef SIM_SIMGRID_NICS_H
#define SIM_SIMGRID_NICS_H

#include <simgrid/host.h>

#include "core/topology.h"

/* Fill nics of t's types: of the node (core/topology.h) of the first device of each type, the
 * different links that are narrowest on the routes from its devices to the nearest one outside.
 *   host  [t->n] the host of each device
 * Wants tiers and types in place. STATUS_NOMEM. */
enum status platform_nics(const sg_host_t *host, struct topology *t) MUST_CHECK;

#endif
