/* flows.h - what a program sends over which links of its platform, and what of it can meet.
 *
 * A slot is something that carries one flow at a time: a channel of the program, or a carrier, the
 * way between two members of a group that its collectives use. A link is listed here only if the
 * flows that may use it at the same time could fill it (contended.h). Any other link limits a flow
 * by its own bandwidth alone, which is in the slot's bound.
 *
 * Over bundles of links (core/data/paths.h) a slot may have several flows, its queue pairs, each on
 * lanes of its own: those that a hash says, or those with the least load when it starts.
 *
 * In a folded program (core/lower/lower.h) the slots of all copies are looked at, and those that
 * may have equal rates (symmetry.h) become one slot: all copies of a channel, and carriers of a
 * group that bring equally many bytes. The links are then classes of links; a slot's weight says
 * how many flows that it stands for cross each link of a class. That rates are equal is proved
 * while the program runs on them (fluid.h), which divides slots whose flows differ until none
 * do. */
#ifndef CORE_ENGINE_FLOWS_H
#define CORE_ENGINE_FLOWS_H

#include "core/data/program.h"
#include "core/data/routes.h"
#include "core/data/topology.h"
#include "core/engine/adaptive.h"
#include "core/engine/lanes.h"
#include "core/engine/shapes.h"
#include "core/engine/sharing.h"
#include "core/engine/ugal.h"
#include "core/lower/lower.h"

struct flows {
    size_t slots;          /* channels first, then the carriers of one group after another */
    size_t *flow_start;    /* [slots + 1] flows of each slot, which share its bytes; NULL: slot s
                            * has flow s alone */
    size_t *carrier_start; /* [groups + 1] slots of each group */
    uint32_t *slot;        /* of every flow of every shape, shape after shape; PROGRAM_NONE: another
                            * flow of its phase, of as many bytes, stands for it */
    size_t *slot_start;    /* [shapes + 1] into slot */
    struct sharing_network network; /* of the slots; borrows what follows */
    size_t *start;                  /* [slots + 1] CSR of the links that slots share */
    uint32_t *link;
    double *weight;
    double *bound_Bps;          /* [slots] of the narrowest link of the whole route */
    double *capacity_Bps;       /* [network.links] */
    struct folding *folding;    /* folded: all copies, owned; the network borrows from it instead */
    struct sharing_kinds kinds; /* folded: what is to be looked at; borrowed from there, too */
    bool *alone; /* [channels + groups] shares no link that could be full with another of them */
    double *channel_Bps;      /* [channels] bounds of those that are alone; NULL: of the network */
    struct lanes lanes;       /* {0}: no flow chooses */
    bool hashed;              /* flows are hashed onto lanes, which are the links */
    struct adaptive adaptive; /* {0}: flows do not choose among lanes when they start, */
    struct ugal ugal;         /* {0}: nor between two ways */
    double *link_bytes;       /* [links of flows_links()] per iteration, of all copies */
};
/* The topology with whose links link_bytes counts: lanes, where flows are hashed onto them. */
const struct topology *flows_links(const struct flows *f, const struct topology *t);
static inline size_t flows_first(const struct flows *f, size_t slot)
{
    return f->flow_start ? f->flow_start[slot] : slot;
}

/* Find routes and what can share them. A topology without links has nothing to share: bounds are
 * its tiers' bandwidths. O(slots * links of a route), and the routes' search.
 *   paths   NULL: as the platform says
 * STATUS_UNSUPPORTED: a folded program whose copies do not share the network alike, "not symmetric:
 * ..."; then *finer (unless it is NULL) gets classes of its replicas that may do, or stays as it
 * is. STATUS_INVALID: paths are to be chosen where there is but one. STATUS_EXTERNAL: no path is
 * left between two devices. STATUS_NOMEM. */
enum status flows_make(const struct program *p, const struct topology *t,
                       const struct shapes *shapes, const struct paths_options *paths,
                       struct plan_classes *finer, struct flows *out) MUST_CHECK;
/* The policy that holds. STATUS_INVALID as above. */
enum status flows_policy(const struct topology *t, const struct paths_options *paths,
                         enum paths_policy *out) MUST_CHECK;
/* Has a lane of a bundle failed? O(lanes * faults). */
bool flows_lose_lanes(const struct topology *t, const struct faults *faults);
/* Are faults of links those of lanes alone, from the beginning on? Else STATUS_UNSUPPORTED. */
enum status flows_check_faults(const struct topology *t, const struct faults *faults) MUST_CHECK;
/* The flows of a slot begin in `s` and end: sharing_start() for each, with its share of the bytes.
 * Returns how many they are. */
size_t flows_start(struct flows *f, struct sharing *s, uint32_t slot, double bytes, double now);
uint32_t flows_choose(const struct flows *f, uint32_t flow); /* of a flow that begins, its way */
void flows_end(const struct flows *f, uint32_t flow);        /* of one that has ended */
/* Folded: is every slot of one kind of flows, so that they are equally fast whatever flies? */
bool flows_are_proved(const struct flows *f);
/* Folded: flows that were faster than others of their slot (kinds.faster) get slots of their own.
 * Fails as flows_make() does. */
enum status flows_divide(const struct program *p, const struct topology *t,
                         const struct shapes *shapes, struct flows *f,
                         struct plan_classes *finer) MUST_CHECK;
void flows_free(struct flows *f); /* accepts {0}; leaves {0} */

/* The slot of flow `flow` of shape number `shape`, or PROGRAM_NONE. */
static inline uint32_t flows_slot(const struct flows *f, size_t shape, size_t flow)
{
    return f->slot[f->slot_start[shape] + flow];
}

/* Put what each phase takes when its collective has the network to itself into shapes: fair shares
 * instead of the closed form, for groups that are alone. Nothing flies in `s`, before or after. */
void flows_time_shapes(struct flows *f, const struct program *p, struct sharing *s,
                       struct shapes *shapes);

#endif
