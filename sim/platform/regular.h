/* regular.h - what lies between any two devices of a flat zone, square by square. */
#ifndef SIM_PLATFORM_REGULAR_H
#define SIM_PLATFORM_REGULAR_H

#include "sim/platform/block_shapes.h"

/* The map of values (values.h; 0 on the diagonal) of n devices.
 *
 * A square of the map is decided by what lies from its rows to the place where their ways meet
 * those to its columns, and from there on; squares that are decided alike are filled once. In a pod
 * of equal racks almost all are. Where the zone's blocks are too large for that (a torus), or too
 * many below each other, each row is searched. *fits is false when a way is missing or values are
 * too many; nothing is learnt then. STATUS_NOMEM. */
enum status regular_map(const struct flat_zone *zone, size_t n, struct values *w, bool *fits,
                        struct topology_map *out) MUST_CHECK;

#endif
