/* types.h - device types out of the properties of hosts. */
#ifndef SIM_PLATFORM_TYPES_H
#define SIM_PLATFORM_TYPES_H

#include "core/data/topology.h"
#include "sim/platform/hosts.h"

/* Describe the types of t's devices: fills t->type, t->types and t->type_of.
 *   host  [t->n] the host of each device
 * Devices of one type must agree in everything; the properties are in platform.h. STATUS_PARSE as
 * "path:line: what", STATUS_NOMEM; t is then fit for topology_free(). */
enum status platform_types(const struct platform_text *p, const struct platform_host *host,
                           struct topology *t) MUST_CHECK;

#endif
