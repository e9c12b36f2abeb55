/* complete.h - NVLink of GPU types. */
#ifndef TOPOLOGIES_MACHINE_COMPLETE_H
#define TOPOLOGIES_MACHINE_COMPLETE_H

#include "topologies/machine/machine.h"

/* Lanes of NVLink that a type has; 0: none, or not known. */
unsigned machine_lanes(const struct gpu *gpu);

#endif
