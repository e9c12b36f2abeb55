/* routes.h - the links that lie between devices: what messages share, and with whom. */
#ifndef CORE_DATA_ROUTES_H
#define CORE_DATA_ROUTES_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/data/topology.h"

struct device_pair {
    uint32_t from, to;
};

struct routes {
    size_t n;
    size_t *start;  /* [n + 1] */
    uint32_t *link; /* [start[n]] index into t->link, in the order of the way */
};

/* The route of each pair: exactly the links that SimGrid 3.32 takes.
 *
 *   pair  [n] sorted by sender, then receiver; a device to itself has no links
 *
 * All routes are empty when the topology knows no links (t->links == 0). A search of its block for
 * each sender, as far as its receivers, and for each part of a way that lies beyond.
 * STATUS_INVALID for a device that there is not, pairs out of order, or a receiver that cannot be
 * reached; STATUS_NOMEM. */
enum status topology_routes(const struct topology *t, size_t n, const struct device_pair *pair,
                            struct routes *out) MUST_CHECK;
void routes_free(struct routes *r); /* accepts {0}; leaves {0} */

#endif
