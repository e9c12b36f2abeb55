/* network.h - hosts, routers and the links between them, as a platform file draws them.
 *
 * topology.h says what lies between two devices; this says where: what an emulator builds. */
#ifndef CORE_DATA_NETWORK_H
#define CORE_DATA_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NETWORK_ROUTER = UINT32_MAX, NETWORK_NO_LINK = UINT32_MAX };

/* Between two fixed points, in each direction with all of its bandwidth; a fat one gives all of it
 * to each pair of devices (SimGrid's FATPIPE). */
struct network_link {
    char *name;    /* owned; the same for the directions of a link that are one-way each */
    uint32_t a, b; /* vertices, a != b */
    double bandwidth_Bps, latency_s; /* bandwidth 0: not limited */
    uint32_t lanes; /* cables side by side, which have the bandwidth together and among which flows
                     * are hashed; 0: one */
    bool fat;
    bool one_way; /* only from a to b: one direction, or both ways of a link that they share */
};

/* What one device sends to another takes this link at a vertex, not `next`. */
struct network_detour {
    uint32_t vertex, from, to, link;
};

struct network {
    size_t vertices;
    char **name;      /* [vertices] owned; NULL: a joint inside a route */
    uint32_t *device; /* [vertices] index in the topology; NETWORK_ROUTER: forwards only */
    size_t links;
    struct network_link *link; /* [links] in the file's order */
    uint32_t *next; /* [vertices * devices] the link towards a device, NETWORK_NO_LINK: on no way;
                     * NULL: ways have fewest links */
    size_t detours;
    struct network_detour *detour; /* [detours] by sender and receiver; each vertex once */
};

void network_free(struct network *n); /* accepts {0}; leaves {0} */

#endif
