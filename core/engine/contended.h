/* contended.h - which links of a platform can be full. Private to flows.c. */
#ifndef CORE_ENGINE_CONTENDED_H
#define CORE_ENGINE_CONTENDED_H

#include "core/engine/flows.h"
#include "core/engine/slots.h"

/* Number the links that can be full: those whose flows, as many as may use them at the same time,
 * could want more than the link has. A channel carries one message at a time, and a group one phase
 * of one collective; each flow is at most as fast as its bound; and what comes from, or goes to, a
 * narrower link next to it on the way is no more than that link has. The other links are never full
 * as long as the numbered ones are not exceeded, so fair shares are the same without them.
 *   f      slots of flows and bounds are there
 *   kept   [t->links] out: number, PROGRAM_NONE: cannot be full
 * O(flows of all copies * links of a route). STATUS_NOMEM. */
enum status contended_links(const struct program *p, const struct topology *t,
                            const struct shapes *shapes, const struct flows *f,
                            const struct slots *all, uint32_t *kept) MUST_CHECK;

#endif
