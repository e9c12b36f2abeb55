/* ways.h - what lies between places, each of which is a set of devices that work on one stage:
 * which links a message takes there, and how long it keeps them. */
#ifndef PARTITION_GRAPH_WAYS_H
#define PARTITION_GRAPH_WAYS_H

#include "core/base/array.h"
#include "core/data/topology.h"

struct way_link {
    uint32_t link;
    double byte_s; /* that it is kept for a byte of a message */
};

/* Device k of a place sends to device k of the other, all of them at once. */
struct ways {
    size_t places, links;
    size_t *start;         /* [places^2 + 1] of the way from p to q: p * places + q */
    struct way_link *link; /* [start[places^2]] */
    double *latency_s;     /* [places^2] */
};

/* device  [places][width]
 * Where the topology knows no links, or the routes are too many to look up, each way is a link of
 * its own. O(places^2 * width * links of a route). STATUS_NOMEM, and what topology_routes()
 * returns. Everything lives in the arena. */
enum status ways_make(const struct topology *t, size_t places, size_t width, const uint32_t *device,
                      struct arena *a, struct ways *out) MUST_CHECK;

#endif
