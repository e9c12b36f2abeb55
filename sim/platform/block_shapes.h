/* block_shapes.h - what lies between the vertices of each block of a flat zone. Blocks that look
 * alike share a table: a pod has one for all its racks. */
#ifndef SIM_PLATFORM_BLOCK_SHAPES_H
#define SIM_PLATFORM_BLOCK_SHAPES_H

#include "sim/platform/values.h"

/* A table for blocks that look alike; its places are devices and cut vertices. */
struct block_shape {
    size_t places;
    uint16_t *between; /* [places * places] value from row to column */
};

struct block_shapes {
    size_t n;
    struct block_shape *shape; /* [n] */
    uint32_t *of_block;        /* [blocks] */
    uint32_t *place;     /* [vertices] in the block towards the root, if it has a place there */
    uint16_t *up, *down; /* [vertices] value to and from the top of that block */
};

/* Fill in all blocks of the zone; from w and with its values. *fits is false, and nothing learnt,
 * when tables would be too large, values too many, or some way is missing. STATUS_NOMEM. */
enum status block_shapes_find(const struct flat_zone *zone, size_t devices, struct values *w,
                              bool *fits, struct block_shapes *out) MUST_CHECK;
void block_shapes_free(struct block_shapes *s); /* accepts {0}; leaves {0} */

#endif
