/* ugal.h - flows that take, when they start, their shortest way or one detour that is drawn for
 * them, whichever is less loaded for its length. Private to flows.c. Source: Singh, Load-balanced
 * routing in interconnection networks, PhD thesis, Stanford 2005; on dragonflies: Kim et al., ISCA
 * 2008. */
#ifndef CORE_ENGINE_UGAL_H
#define CORE_ENGINE_UGAL_H

#include "core/engine/sharing.h"

enum { UGAL_SHORTEST, UGAL_DETOUR, UGAL_WAYS };

struct ugal {
    uint32_t *link[UGAL_WAYS];    /* rows of the network, filled up with `nothing` */
    double *bound_Bps[UGAL_WAYS]; /* [flows] */
    uint32_t *hops[UGAL_WAYS];    /* [flows] links between switches */
    uint32_t nothing;             /* a link without limit */
    double *load_Bps;             /* [links] of the flows that fly; NULL: there are no such flows */
};

/* Room for all flows of a network that has its rows. STATUS_NOMEM. */
enum status ugal_open(const struct sharing_network *n, struct ugal *out) MUST_CHECK;
/* A flow begins. Returns the way with the least product of length and load, the shortest of equals;
 * load is that of the fullest link that the other way has not, in bounds of flows over bandwidth.
 * O(links of the ways squared). */
uint32_t ugal_start(const struct ugal *u, const struct sharing_network *n, uint32_t flow);
/* And ends, having taken these links. */
void ugal_end(const struct ugal *u, const struct sharing_network *n, uint32_t flow);
void ugal_free(struct ugal *u); /* accepts {0}; leaves {0} */

#endif
