/* racks.h - topologies of nodes, for tests of collectives. Aborts on failure. */
#ifndef TESTS_RACKS_H
#define TESTS_RACKS_H

#include "core/data/topology.h"

/* n devices of type `type`; between(context, from, to) is an index into tier [tiers]. */
struct topology racks_any(size_t n, const char *type, const struct topology_tier *tier,
                          size_t tiers,
                          uint32_t (*between)(const void *context, uint32_t from, uint32_t to),
                          const void *context);

/* nodes * each devices: tier[0] between devices i and j with i / each == j / each, else tier[1]. */
struct topology racks_nodes(uint32_t nodes, uint32_t each, const char *type,
                            const struct topology_tier tier[2]);

/* Members 0 .. n - 1 as devices. */
const uint32_t *racks_all(void);

#endif
