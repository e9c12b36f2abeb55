/* lanes.h - the links of a topology with each lane of a bundle as a link of its own, and which of
 * them a flow uses (core/data/paths.h). Private to flows.c. */
#ifndef CORE_ENGINE_LANES_H
#define CORE_ENGINE_LANES_H

#include "core/data/faults.h"
#include "core/data/routes.h"
#include "core/engine/detours.h"

struct lanes {
    const struct topology *t; /* borrowed */
    struct topology view;     /* t with lanes for links, named "leaf0-up.3_UP"; the links are owned,
                               * all else is t's, and routes over them are not there */
    uint32_t *first;          /* [t->links + 1] lanes of each link, in view.link */
    bool *down;               /* [first[t->links]] those that have failed; NULL: none */
    struct detours detours;   /* {0}: no flow takes any */
};

/*   faults  of lanes, from the beginning on; others are not looked at; may be NULL
 * STATUS_NOMEM. */
enum status lanes_open(const struct topology *t, const struct faults *faults,
                       struct lanes *out) MUST_CHECK;
/* How many lanes a fault is of: a link that failed, called "leaf0-up.3", or by a glob, "*-up.3",
 * with `down` marked in [x->first[t->links]] unless it is NULL. 0: it is of none. O(lanes). */
size_t lanes_match(const struct topology *t, const struct fault *fault, bool *down);
void lanes_free(struct lanes *x); /* accepts {0}; leaves {0} */

/* How many ways there are along a route: the most switches that a bundle of it leads to. 1: it has
 * no bundle. */
uint32_t lanes_ways(const struct lanes *x, const uint32_t *link, size_t n);
/* The first lane of a bundle on a way of `ways`, in view.link; its cables follow. */
static inline uint32_t lanes_on_way(const struct lanes *x, uint32_t link, uint32_t ways,
                                    uint32_t way)
{
    const struct topology_link *l = &x->t->link[link];
    uint32_t cables = l->cables > 0 ? l->cables : 1, switches = topology_lanes(l) / cables;
    return x->first[link] + (uint32_t)((uint64_t)way * switches / ways) * cables;
}

/* May a way be taken: has every bundle of the route a cable on it that has not failed? */
bool lanes_are_usable(const struct lanes *x, const uint32_t *link, size_t n, uint32_t ways,
                      uint32_t way);
/* How many may; O(ways * n). */
uint32_t lanes_usable_ways(const struct lanes *x, const uint32_t *link, size_t n);
/* Cables of a bundle on the way of lanes_on_way() that have not failed. */
uint32_t lanes_cables(const struct lanes *x, uint32_t link, uint32_t first);
/* What part of a flow that is sprayed evenly over all usable ways goes over each lane of a bundle.
 *   link, n  the route
 *   k        of it, the bundle
 *   share    [topology_lanes()] out
 * O(ways * n). */
void lanes_spray(const struct lanes *x, const uint32_t *link, size_t n, size_t k, double *share);

/* The link of the topology that a lane is of. O(log links). */
uint32_t lanes_link(const struct lanes *x, uint32_t lane);

/* Number the queue pairs of all pairs of devices; one whose route has no choice needs one.
 *   first   [routes->n + 1] out: the first of each */
void lanes_queue_pairs(const struct lanes *x, const struct paths_options *o,
                       const struct routes *routes, size_t *first);
/* Routes over lanes instead of links.
 *   pair    [routes->n] devices
 *   first   [routes->n + 1] their queue pairs
 *   around  by detours, where there are any and lanes on them that have not failed
 *   routes  of the pairs
 *   out     of their queue pairs
 * O(links of the new routes). STATUS_NOMEM. */
enum status lanes_hash(const struct lanes *x, const struct paths_options *o,
                       const struct device_pair *pair, const size_t *first, bool around,
                       const struct routes *routes, struct routes *out) MUST_CHECK;

#endif
