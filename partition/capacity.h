/* capacity.h - what a platform's links carry between its halves, and out of its groups. */
#ifndef PARTITION_CAPACITY_H
#define PARTITION_CAPACITY_H

#include "core/error.h"
#include "core/topology.h"

enum { CAPACITY_DEVICES = 16384 }; /* more are not looked at */

/* Fill in t->bisection_Bps and t->oversubscription.
 *
 * The bisection is the maximum flow from the first half of the devices, in their order of neighbours
 * (device_order.h; of an odd number the smaller half), to the others: what they can send at once if
 * traffic takes any ways, each link once for each direction that it has. INFINITY when a FATPIPE
 * link joins the halves.
 *
 * A level of groups (tiers.h) that is not the last has the oversubscription of its first group:
 * what its parts can send to everybody else, each by itself, over what the group can send out of
 * it. Of more than 64 parts the first stands for all. It is that of the tier which joins the parts.
 *
 * Nothing is filled in when no links are known, above CAPACITY_DEVICES devices, or for one device.
 * A maximum flow for each part. STATUS_NOMEM, STATUS_EXTERNAL (igraph).
 * Source: Goldberg & Tarjan, J. ACM 35 (1988) 921, as igraph has it. */
enum status capacity_find(struct topology *t) MUST_CHECK;

#endif
