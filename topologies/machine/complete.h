/* complete.h - what machine_complete() finds inside of a node, NVLink of GPU types, and how
 * platforms begin. */
#ifndef TOPOLOGIES_MACHINE_COMPLETE_H
#define TOPOLOGIES_MACHINE_COMPLETE_H

#include <stdio.h>

#include "topologies/machine/machine.h"

/* Lanes of NVLink that a type has; 0: none, or not known. */
unsigned machine_lanes(const struct gpu *gpu);
/* GPU types and NVSwitches of one node, before it is copied. */
enum status machine_inside(struct machine *m, const struct machine_options *o) MUST_CHECK;
/* GPUs, and ports, that a node may have: some of what follows compares all of both. */
enum { NODE_GPUS = 1024 };
/* Ports that are not of the fabric become MACHINE_LEFT_OUT: those that o->nics does not name, or by
 * the rule of fabric_ports.c, with a warning that lists them. STATUS_INVALID: no port has a name of
 * o->nics, a node of more than NODE_GPUS; STATUS_NOMEM. */
enum status machine_fabric_ports(struct machine *m, const struct machine_options *o) MUST_CHECK;
/* The port that each GPU sends through, [parts]; MACHINE_NONE: none, or no GPU. STATUS_NOMEM. */
enum status machine_choose_ports(const struct machine *m, uint32_t *port) MUST_CHECK;
/* Cables of ports carry what the port does where nothing else is said. Ports that no GPU chose give
 * their cables and their PCIe to the port of the GPU nearest to them. STATUS_NOMEM. */
enum status machine_bundle_ports(struct machine *m) MUST_CHECK;
/* Switches side by side become one with the cables of all. O(links log links). STATUS_NOMEM. */
enum status machine_join_planes(struct machine *m) MUST_CHECK;
/* The comment of its platform, and the zone that opens; `by` may be NULL. */
void machine_put_head(const struct machine *m, const struct provenance *by, FILE *to);

#endif
