/* folding.h - the slots of all copies of a folded program become one slot for those that have equal
 * rates. Private to flows.c. */
#ifndef CORE_ENGINE_FOLDING_H
#define CORE_ENGINE_FOLDING_H

#include "core/engine/flows.h"
#include "core/engine/slots.h"
#include "core/engine/symmetry.h"
#include "core/lower/lower.h"

/* What a folded program's flows are made of, to be divided more finely. */
struct folding {
    struct slots all;             /* of all copies */
    struct sharing_network whole; /* of all->n slots; borrows: */
    size_t *start;
    uint32_t *link;
    double *weight, *bound_Bps, *capacity_Bps;
    uint32_t *slot;           /* of every flow of every shape: its slot in the first copy */
    struct symmetry symmetry; /* what holds now */
    uint64_t *faster;         /* [symmetry.kinds] as sharing.h changes it */
};

/* A colour for three things. */
uint64_t folding_colour(uint64_t a, uint64_t b, double c);

/* Make the slots and links of *f cells and classes of f->folding's. Folding is right when, as long
 * as copies start together, they end together:
 *   - all copies of a channel have one latency, and are in one cell: of equal rates;
 *   - all copies of a group get the same shapes, and their flows are of the same cells;
 *   - all flows of a cell bring equally many bytes in the same phases (their colour says so).
 * Else STATUS_UNSUPPORTED, "not symmetric: ..."; if more classes of replicas would do, which ones
 * goes to *finer (unless NULL). O(incidences + copies' shapes). STATUS_NOMEM. */
enum status folding_divide(const struct program *p, const struct topology *t,
                           const struct shapes *shapes, struct flows *f,
                           struct plan_classes *finer) MUST_CHECK;
void folding_free(struct folding *x); /* accepts NULL */
/* flows.c: who is alone with slots and links as they are now. */
enum status flows_meet(const struct program *p, struct flows *f) MUST_CHECK;

#endif
