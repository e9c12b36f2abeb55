/* alternatives.h - flows that choose their paths, as a network in which each way of each is a flow
 * of its own. Private to the simgrid engine, whose routes never change. */
#ifndef SIM_ALTERNATIVES_H
#define SIM_ALTERNATIVES_H

#include "core/engine/flows.h"

struct alternatives {
    size_t *first;                  /* [flows + 1] the ways of each flow */
    struct sharing_network network; /* borrows what follows */
    size_t *start;
    uint32_t *link;
    double *weight, *bound_Bps;
};

/* Of flows whose paths are fixed each has one way. STATUS_UNSUPPORTED: flows choose among several
 * cables to a switch, so that ways are not all; STATUS_NOMEM. O(ways * links of a route). */
enum status alternatives_make(const struct flows *f, struct alternatives *out) MUST_CHECK;
void alternatives_free(struct alternatives *x); /* accepts {0}; leaves {0} */

#endif
