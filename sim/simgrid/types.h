/* types.h - device types out of the properties of SimGrid hosts. */
#ifndef SIM_SIMGRID_TYPES_H
#define SIM_SIMGRID_TYPES_H

#include <simgrid/host.h>

#include "core/data/topology.h"
#include "sim/platform/fault.h"

/* The value of a property of a host or, when it has none, of the zone the file opens with; NULL if
 * neither has it. */
const char *platform_property(const struct platform_text *p, const_sg_host_t host,
                              const char *property);

/* Describe the types of t's devices: fills t->type, t->types and t->type_of.
 *   host  [t->n] the host of each device
 * Devices of one type must agree in everything; the properties are in platform.h. Wants a loaded
 * platform. STATUS_PARSE as "path:line: what", STATUS_NOMEM; t is then fit for topology_free(). */
enum status platform_types(const struct platform_text *p, const sg_host_t *host,
                           struct topology *t) MUST_CHECK;

#endif
