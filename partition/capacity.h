/* capacity.h - what a platform's links carry between its halves, and out of its groups. */
#ifndef PARTITION_CAPACITY_H
#define PARTITION_CAPACITY_H

#include "core/base/error.h"
#include "core/data/topology.h"

enum { CAPACITY_DEVICES = 16384 }; /* more are not looked at */

/* Fill in t->bisection_Bps and t->oversubscription.
 *
 * The bisection is the least maximum flow from a half of the devices to the others: what they can
 * send at once if traffic takes any ways, each link once for each direction that it has. Halves are
 * the first ones in their order of neighbours (device_order.h; of an odd number the smaller half)
 * and in the file's, and up to 2,048 devices those of every block of nodes in the file's order that
 * divides them all: every axis of a torus. INFINITY when a FATPIPE link joins all halves.
 *
 * A level of groups (tiers.h) that is not the last has the oversubscription of its first group:
 * what its parts can send to everybody else, each by itself, over what the group can send out of
 * it. Of more than 64 parts the first stands for all. It is that of the tier which joins the parts.
 *
 * Nothing is filled in when no links are known, above CAPACITY_DEVICES devices, or for one device.
 * A maximum flow for each part and each halving. STATUS_NOMEM, STATUS_EXTERNAL (igraph).
 * Source: Goldberg & Tarjan, J. ACM 35 (1988) 921, as igraph has it. */
enum status capacity_find(struct topology *t) MUST_CHECK;

#endif
