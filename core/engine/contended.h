/* contended.h - which links of a platform can be full. Private to flows.c. */
#ifndef CORE_ENGINE_CONTENDED_H
#define CORE_ENGINE_CONTENDED_H

#include "core/engine/flows.h"
#include "core/engine/slots.h"

/* Number the links that those who may use them together could fill: channels carry one message at a
 * time, groups one phase of one collective, each flow at most at its bound, and no more may come
 * from, or go to, a narrower link next to it on the way than that link has. The others are never
 * full as long as the numbered ones are obeyed: fair shares are the same without them.
 *   f      slots of flows and bounds are there
 *   kept   [t->links] out: number, PROGRAM_NONE: cannot be full
 * O(flows of all copies * links of a route). STATUS_NOMEM. */
enum status contended_links(const struct program *p, const struct topology *t,
                            const struct shapes *shapes, const struct flows *f,
                            const struct slots *all, uint32_t *kept) MUST_CHECK;

#endif
