/* tiers_levels.h - how the levels of struct tiers are made. Private to partition/tiers*.c. */
#ifndef PARTITION_TIERS_LEVELS_H
#define PARTITION_TIERS_LEVELS_H

#include "core/data/edges.h"
#include "partition/tiers.h"

/* Bandwidths in falling order fall by more than this factor from one tier to the next: what lies
 * within is noise. */
static const double tiers_gap = 1.25;

/* Append a level. class_of [devices]: any numbers below `devices`, equal in a group. */
enum status tiers_add(struct tiers *x, const uint32_t *class_of, uint32_t tier) MUST_CHECK;

/* Append the levels of a machine of measured bandwidths, at most 512 devices. */
enum status tiers_estimate(const struct topology *t, struct tiers *x) MUST_CHECK;

/* The tier of the slower direction: less bandwidth, then more latency. */
uint32_t tiers_slower(const struct topology *t, uint32_t a, uint32_t b);

struct tiers_closeness {
    struct topology_tier tier; /* borrowed */
    uint32_t index;
};
int tiers_by_closeness(const void *a, const void *b); /* for qsort: closest first, then index */

/* Union of the sets of a and b (published/sets.h), whose root is the lower one. Were they apart? */
bool tiers_unite(uint32_t *parent, uint32_t a, uint32_t b);

#endif
