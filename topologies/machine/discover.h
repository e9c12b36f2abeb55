/* discover.h - this machine, as hwloc, NVML and /sys have it. */
#ifndef TOPOLOGIES_MACHINE_DISCOVER_H
#define TOPOLOGIES_MACHINE_DISCOVER_H

#include "topologies/machine/machine.h"

/* A machine without GPUs computes on its CPUs: a device per core. STATUS_IO: no hwloc. */
enum status machine_discover(struct machine *out) MUST_CHECK;

#endif
