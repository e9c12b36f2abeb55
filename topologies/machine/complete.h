/* complete.h - what machine_complete() finds inside of a node, and NVLink of GPU types. */
#ifndef TOPOLOGIES_MACHINE_COMPLETE_H
#define TOPOLOGIES_MACHINE_COMPLETE_H

#include "topologies/machine/machine.h"

/* Lanes of NVLink that a type has; 0: none, or not known. */
unsigned machine_lanes(const struct gpu *gpu);
/* GPU types and NVSwitches of one node, before it is copied. */
enum status machine_inside(struct machine *m, const struct machine_options *o) MUST_CHECK;

#endif
