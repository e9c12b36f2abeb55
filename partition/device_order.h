/* device_order.h - an order of devices in which neighbours are near each other. */
#ifndef PARTITION_DEVICE_ORDER_H
#define PARTITION_DEVICE_ORDER_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/data/topology.h"

/* Walk from device 0 to the nearest device not visited yet, and so on: nodes are filled before
 * racks, racks before the next. Where the topology has numbered its nodes, a node is taken whole,
 * in the order of its devices.
 *   order  [t->n] out: a permutation of the devices
 * Near is the time of a 1 MiB transfer there and back; ties go to the lower index. O(n^2) at worst;
 * n times a few dozen steps when near devices are near in number, as the map of pairs
 * (topology_map.h) bounds whole blocks. STATUS_NOMEM.
 * Source: nearest-neighbour tour, Rosenkrantz, Stearns & Lewis, SIAM J. Comput. 6 (1977). */
enum status device_order_find(const struct topology *t, uint32_t *order) MUST_CHECK;

#endif
