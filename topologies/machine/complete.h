/* complete.h - what machine_complete() finds inside of a node, NVLink of GPU types, and how platforms begin. */
#ifndef TOPOLOGIES_MACHINE_COMPLETE_H
#define TOPOLOGIES_MACHINE_COMPLETE_H

#include <stdio.h>

#include "topologies/machine/machine.h"

/* Lanes of NVLink that a type has; 0: none, or not known. */
unsigned machine_lanes(const struct gpu *gpu);
/* GPU types and NVSwitches of one node, before it is copied. */
enum status machine_inside(struct machine *m, const struct machine_options *o) MUST_CHECK;
/* The comment of its platform, and the zone that opens; `by` may be NULL. */
void machine_put_head(const struct machine *m, const struct provenance *by, FILE *to);

#endif
