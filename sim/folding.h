/* folding.h - the slots of all copies of a folded program become one slot for those that get equal
 * shares. Private to flows.c. */
#ifndef SIM_FOLDING_H
#define SIM_FOLDING_H

#include "sim/flows.h"
#include "sim/slots.h"

/* A colour for three things. */
uint64_t folding_colour(uint64_t a, uint64_t b, double c);

/* Replace the slots and links of *f, those of all copies, by cells and classes. Folding is right
 * when, as long as copies start together, they end together:
 *   - all copies of a channel have one latency, and are in one cell: of equal rates;
 *   - all copies of a group get the same shapes, and equally many flows of each cell;
 *   - all flows of a cell bring equally many bytes in the same phases (their colour says so).
 * Else STATUS_UNSUPPORTED, "not symmetric: ...". O(symmetry_find() + copies' shapes). */
enum status flows_fold(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct slots *all,
                       struct flows *f) MUST_CHECK;

#endif
