/* device_order.h - orders of devices: those in which neighbours are near each other, as planners
 * want them, and those that launchers and schedulers give. */
#ifndef PARTITION_DEVICE_ORDER_H
#define PARTITION_DEVICE_ORDER_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/topology.h"

/* The devices of each node, in their order. */
struct device_nodes {
    size_t n;
    size_t *start;     /* [n + 1] into device */
    uint32_t *device;  /* [devices] node by node */
    uint32_t *node_of; /* [devices] */
};
static inline size_t device_nodes_size(const struct device_nodes *x, size_t node)
{
    return x->start[node + 1] - x->start[node];
}
/* Nodes as t->node_of numbers them; where it is NULL, as topology_find_nodes() does. O(n) then.
 * STATUS_NOMEM. */
enum status device_nodes_find(const struct topology *t, struct device_nodes *out) MUST_CHECK;
void device_nodes_free(struct device_nodes *x); /* accepts {0}; leaves {0} */

/* Words of the option --placement, in this order. */
enum device_placement {
    DEVICES_NEAR,      /* device_order_near() */
    DEVICES_FRAMEWORK, /* as the platform lists them, which is how launchers number ranks */
    DEVICES_SPREAD,    /* nodes side by side are as far apart as can be: one of each rack in turn */
    DEVICES_OPTIMISED, /* near; then nodes change places as long as the plan gets faster */
    DEVICES_PLACEMENTS
};
const char *device_placement_word(size_t i);                 /* NULL behind the last */
enum device_placement device_placement_of(const char *word); /* NULL or no word: NEAR */

/* An order of one of these kinds.
 *   order  [t->n] out: a permutation of the devices
 * DEVICES_SPREAD: of every group of tiers.h that has several nodes these alternate between its
 * parts, so in a group of nodes alone they stay as listed. STATUS_NOMEM, and as tiers_find(). */
enum status device_order_find(const struct topology *t, enum device_placement kind,
                              uint32_t *order) MUST_CHECK;

/* Walk from device 0 to the nearest device not visited yet, and so on: nodes are filled before
 * racks, racks before the next. Where the topology has numbered its nodes, a node is taken whole,
 * in the order of its devices.
 *   order  [t->n] out: a permutation of the devices
 * Near is the time of a 1 MiB transfer there and back; ties go to the lower index. O(n^2) at worst;
 * n times a few dozen steps when near devices are near in number, as the map of pairs
 * (topology_map.h) bounds whole blocks. STATUS_NOMEM.
 * Source: nearest-neighbour tour, Rosenkrantz, Stearns & Lewis, SIAM J. Comput. 6 (1977). */
enum status device_order_near(const struct topology *t, uint32_t *order) MUST_CHECK;

#endif
