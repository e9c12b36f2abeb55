/* wiring.h - which namespaces, interfaces and routes stand for a platform; nothing is made yet. */
#ifndef EXEC_NETNS_WIRING_H
#define EXEC_NETNS_WIRING_H

#include <stdbool.h>

#include "core/data/network.h"
#include "core/data/topology.h"

enum {
    WIRING_NAME = 64,
    WIRING_RANKS = 1024,
    WIRING_NONE = UINT32_MAX,
};

/* A namespace: a node, or a router that forwards. Nodes come first, in the order of their lowest
 * ranks; names are host names, since programs print them. */
struct wiring_space {
    char name[WIRING_NAME]; /* letters, digits, "-": a host name */
    uint32_t ranks;         /* 0: a router */
    uint32_t first;         /* its lowest rank */
    uint32_t interfaces;    /* eth0 ... */
    bool forwards;          /* what is for others: a router, or a node that ways lead through */
};

struct wiring_link {
    const char *name; /* the network's; NULL: none */
    uint32_t space[2], interface[2];
    double bandwidth_Bps, latency_s; /* bandwidth 0: not shaped */
    uint32_t lanes; /* of the first cable of a bundle: so many, the others follow; a way that leads
                     * over it leads over all, and the kernel hashes connections. 0: no bundle */
    uint32_t lane;  /* number in its bundle */
    bool fat;       /* for each pair of ranks */
    bool one_way;   /* from space[0] to space[1] only */
};

/* What a node sends to a rank takes this link in a space, not `way`. */
struct wiring_detour {
    uint32_t space, node, rank, link;
};

struct wiring {
    size_t ranks, nodes, spaces; /* nodes come first among the spaces */
    struct wiring_space *space;  /* [spaces] */
    uint32_t *space_of;          /* [ranks] */
    uint32_t *local;             /* [ranks] number within its node */
    size_t links;
    struct wiring_link *link; /* [links] */
    uint32_t *way; /* [spaces * ranks] link towards a rank; WIRING_NONE: it is here, or not asked */
    size_t detours;
    struct wiring_detour *detour; /* [detours] each space, node and rank once */
    double sending_Bps; /* of all nodes together, each at the narrowest link of its widest way */
};

/* The link from a space towards rank `to`, for what rank `from` sends. */
static inline uint32_t wiring_way(const struct wiring *w, uint32_t space, uint32_t from,
                                  uint32_t to)
{
    for (size_t k = 0; k < w->detours; k++)
        if (w->detour[k].space == space && w->detour[k].node == w->space_of[from] &&
            w->detour[k].rank == to)
            return w->detour[k].link;
    return w->way[space * w->ranks + to];
}

/* ranks   number of processes, one per device
 *   device  [ranks] different indices in the topology; NULL: rank r is device r
 *
 * Devices joined by tiers that are called nv... or pci... share a node, whose own links are left
 * out: inside it is this machine's memory. A way has fewest links, depends on the receiver only and
 * leads through no third node where there is one such (in a torus there is none); among several
 * equal ones out of a node, the one with the receiver's number within its node. Where the network
 * says itself where ways lead (n->next), they lead there, out of a node from its device with the
 * receiver's number. Links and routers on no way are left out. STATUS_INVALID when ranks is not 1
 * to the number of devices or a device has two, STATUS_UNSUPPORTED when there are more than
 * WIRING_RANKS or no way, STATUS_NOMEM. O(ranks * (links + vertices^2 worst)). */
enum status wiring_plan(const struct topology *t, const struct network *n, size_t ranks,
                        const uint32_t *device, struct wiring *out) MUST_CHECK;
/* Two nodes with a rank each and one link that is not shaped. STATUS_NOMEM. */
enum status wiring_pair(struct wiring *out) MUST_CHECK;
/* `pairs` nodes on each side of two routers, whose link all share; the others are not shaped. Node
 * i and node pairs + i, a rank each, are partners. STATUS_NOMEM. */
enum status wiring_dumbbell(uint32_t pairs, double bandwidth_Bps, struct wiring *out) MUST_CHECK;
/* Does a way lead over this link: is it the way's, or a lane of its bundle? */
static inline bool wiring_leads_over(const struct wiring *w, uint32_t way, size_t link)
{
    uint32_t lanes = w->link[way].lanes;
    return link >= way && link < way + (lanes > 0 ? lanes : 1);
}
double wiring_latency(const struct wiring *w); /* the longest of a link, seconds */
void wiring_free(struct wiring *w);            /* accepts {0}; leaves {0} */

#endif
