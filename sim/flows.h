/* flows.h - what a program sends over which links of its platform, and what of it can meet.
 *
 * A slot is something that carries one flow at a time: a channel of the program, or a carrier, the
 * way between two members of a group that its collectives use. Of each slot's links only those stay
 * here that all that may use them at once could fill; the others never slow anything down but by
 * being narrow, which the slot's bound says. */
#ifndef SIM_FLOWS_H
#define SIM_FLOWS_H

#include "core/program.h"
#include "core/routes.h"
#include "core/topology.h"
#include "sim/pairs.h"
#include "sim/shapes.h"
#include "sim/sharing.h"

struct flows {
    size_t slots;          /* channels first, then the carriers of one group after another */
    size_t *carrier_start; /* [groups + 1] slots of each group */
    uint32_t *slot;        /* of every flow of every shape, shape after shape */
    size_t *slot_start;    /* [shapes + 1] into slot */
    uint32_t *pair;        /* [slots] of devices */
    struct routes routes;  /* of the pairs; empty ones where the topology knows no links */
    struct sharing_network network; /* of the slots; borrows what follows */
    size_t *start;                  /* [slots + 1] CSR of the links that slots share */
    uint32_t *link;
    double *weight;
    double *bound_Bps;    /* [slots] of the narrowest link of the whole route */
    double *capacity_Bps; /* [network.links] */
    bool *alone;          /* [channels + groups] never shares a link with another of these */
};

/* Find routes and what can share them. A topology without links has nothing to share: bounds are its
 * tiers' bandwidths.
 *   pair  [pairs] of pairs_of()
 * O(slots * links of a route), and the routes' search. STATUS_NOMEM. */
enum status flows_make(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct pair *pair, size_t pairs,
                       struct flows *out) MUST_CHECK;
void flows_free(struct flows *f); /* accepts {0}; leaves {0} */

/* The slot of flow `flow` of shape number `shape`. */
static inline uint32_t flows_slot(const struct flows *f, size_t shape, size_t flow)
{
    return f->slot[f->slot_start[shape] + flow];
}

/* Put what each phase takes when its collective has the network to itself into shapes: fair shares
 * instead of the closed form, for groups that are alone. Nothing flies in `s`, before or after. */
void flows_time_shapes(const struct flows *f, const struct program *p, struct sharing *s,
                       struct shapes *shapes);

#endif
