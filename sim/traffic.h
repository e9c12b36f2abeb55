/* traffic.h - what the communication of a program uses: algorithms and tiers of the platform. */
#ifndef SIM_TRAFFIC_H
#define SIM_TRAFFIC_H

#include "core/collective/collective.h"
#include "core/data/measurement.h"
#include "core/data/topology.h"

/* Name the algorithms that the engines take for the collectives of a program.
 *
 *   options     may be NULL
 *   m           its calls (measurement_add_calls()) get algorithms, "ring" or "ring, tree" where
 *               groups differ, with the protocol behind when NCCL's are asked for: "ring LL128"
 *   tier_bytes  [t->tiers] out: bytes per iteration between devices that the tier joins
 * O(ops + flows). STATUS_INVALID, STATUS_NOMEM. */
enum status traffic_examine(const struct program *p, const struct topology *t,
                            const struct collective_options *options, struct measurement *m,
                            double *tier_bytes) MUST_CHECK;

/* Bytes per iteration from the devices of each part of a platform to those of each other one.
 *
 *   part   [t->n] of each device, below `parts`
 *   bytes  [parts * parts] out, [from * parts + to]
 * O(ops + flows). As traffic_examine(). */
enum status traffic_between(const struct program *p, const struct topology *t,
                            const struct collective_options *options, const size_t *part,
                            size_t parts, double *bytes) MUST_CHECK;

#endif
