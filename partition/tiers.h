/* tiers.h - nested groups of devices (nodes, racks, sites, ...), found from what lies between them.
 *
 * Two devices are as close as the slower of their two directions: higher bandwidth first, then
 * lower latency. The groups of a level are the connected components of all pairs down to some
 * closeness, which is what cutting a maximum spanning tree there leaves; every closeness that joins
 * anything new makes a level. */
#ifndef PARTITION_TIERS_H
#define PARTITION_TIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/array.h"
#include "core/data/topology.h"

struct tiers_level {
    size_t groups;
    size_t smallest, largest; /* devices in a group */
    uint32_t *group_of;       /* [devices] numbered in the order of their lowest devices */
    uint32_t tier; /* joins the parts of a group: the slowest needed; if measured, median */
};

/* Every group of a level is made of whole groups of the level before (single devices before
 * level 0); the last level is one group. A machine of one device has no level. */
struct tiers {
    size_t devices, levels;
    struct tiers_level *level; /* [levels] innermost first */
    size_t *k_values; /* [levels] outermost first: parts of each group; NULL when the groups
                         of some level have unequal numbers of parts */
    bool measured;    /* bandwidths scatter: the groups are an estimate */
    struct arena memory;
};

/* Exact for any topology of few tiers, regular or not, of any size: Kruskal's algorithm over the
 * squares of the map of pairs (topology_map.h), which leaves out squares without pairs that are
 * close enough and blocks of devices that are joined already; O(tiers n) for machines of equal
 * parts, O(tiers n^2) at worst, O(n) memory beside the levels. There are never n^2 edges.
 *
 * Where bandwidths are measured (more than 32 tiers, or about as many as pairs) no two pairs are
 * equally close, so tiers less than a quarter apart count as one. Up to 512 devices each level is
 * then found on the mean bandwidths between the groups of the last one: at the first fall of more
 * than a quarter along the maximum spanning tree, and, where bandwidths overlap so that no
 * threshold parts them, as communities whose bandwidths are a fifth higher inside than between
 * them; an estimate, O(n^3) per level at worst. Above 512 devices only thresholds are looked for.
 *
 * Deterministic. STATUS_NOMEM, STATUS_EXTERNAL (igraph).
 * Source: single-linkage clustering from spanning trees, Gower & Ross, J. R. Stat. Soc. C 18 (1969)
 * 54-64; communities: Traag, Waltman & van Eck, Sci. Rep. 9 (2019) 5233, constant Potts model. */
enum status tiers_find(const struct topology *t, struct tiers *out) MUST_CHECK;

/* Innermost level on which two devices are in one group; SIZE_MAX for one device. O(levels). */
size_t tiers_joining(const struct tiers *x, uint32_t a, uint32_t b);

void tiers_free(struct tiers *x); /* accepts {0}; leaves {0} */

#endif
