/* folding.h - the slots of all copies of a folded program become one slot for those that get equal
 * shares. Private to flows.c. */
#ifndef SIM_FOLDING_H
#define SIM_FOLDING_H

#include "core/routes.h"
#include "sim/flows.h"

/* Slots of all copies: those of channel 0, channel 1, ..., then the carriers of group 0, copy by
 * copy, ... */
struct folding {
    size_t slots;
    struct device_pair *between; /* [slots] */
    uint64_t *colour;            /* [slots] equal for what may become one; NULL: not folded */
    size_t *group_start;         /* [groups + 1] first slot of each group */
    size_t *carriers;            /* [groups] of each copy */
};
void folding_free(struct folding *x); /* accepts {0}; leaves {0} */

/* A colour for three things. */
uint64_t folding_colour(uint64_t a, uint64_t b, double c);

/* Replace the slots and links of *f, those of all copies, by cells and classes. Folding is right
 * when, as long as copies start together, they end together:
 *   - all copies of a channel have one latency, and are in one cell: of equal rates;
 *   - all copies of a group get the same shapes, and equally many flows of each cell;
 *   - all flows of a cell bring equally many bytes in the same phases (their colour says so).
 * Else STATUS_UNSUPPORTED, "not symmetric: ...". O(symmetry_find() + copies' shapes). */
enum status flows_fold(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct folding *all,
                       struct flows *f) MUST_CHECK;

#endif
