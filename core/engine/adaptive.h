/* adaptive.h - flows that take the least loaded path when they start. Private to flows.c. */
#ifndef CORE_ENGINE_ADAPTIVE_H
#define CORE_ENGINE_ADAPTIVE_H

#include "core/engine/lanes.h"

struct adaptive {
    struct lanes lanes;         /* whose arrays are borrowed */
    const double *capacity_Bps; /* [links] of the network in which all lanes of a bundle stand side
                                 * by side; borrowed */
    uint32_t *bundle; /* [links] the topology's link that a lane is of; UINT32_MAX: none */
    uint32_t *base;   /* [links of the topology] a bundle's first lane in the network */
    double *load_Bps; /* [links] of the flows that fly */
};

/*   kept   [lanes->t->links] numbers of links in the network of `links`, a bundle's being its first
 *          lane's; UINT32_MAX: not there
 * STATUS_NOMEM. */
enum status adaptive_open(const struct lanes *lanes, const uint32_t *kept, size_t links,
                          const double *capacity_Bps, struct adaptive *out) MUST_CHECK;
/* How many ways a flow has, and its links on one of them, of the first cable of each bundle.
 *   link  [n] of the flow on any way; out [n], may be `link` */
uint32_t adaptive_ways(const struct adaptive *a, const uint32_t *link, size_t n);
void adaptive_put(const struct adaptive *a, uint32_t way, const uint32_t *link, size_t n,
                  uint32_t *out);
/* A flow begins: its links that are lanes become others of the same bundles, those of the way whose
 * fullest lane has the least load. Ties go to the first way from a number of the flow's own on.
 *   link  [n] of the flow, in and out
 * Returns the way. O(ways * n * cables). */
uint32_t adaptive_start(const struct adaptive *a, uint32_t flow, double bound_Bps, uint32_t *link,
                        size_t n);
/* And ends. */
void adaptive_end(const struct adaptive *a, double bound_Bps, const uint32_t *link, size_t n);
void adaptive_free(struct adaptive *a); /* accepts {0}; leaves {0} */

#endif
