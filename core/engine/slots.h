/* slots.h - the slots of all copies of a program's channels and groups, and their routes: what
 * flows_make() works on. Private to flows.c, contended.c and folding.c. */
#ifndef CORE_ENGINE_SLOTS_H
#define CORE_ENGINE_SLOTS_H

#include "core/data/routes.h"

/* Those of channel 0, channel 1, ..., then the carriers of group 0, copy by copy, ...; without
 * folding everything has one copy. */
struct slots {
    size_t n;
    struct device_pair *between; /* [n] */
    uint64_t *colour;            /* [n] equal for what may become one; NULL: not folded */
    uint32_t *route;             /* [flows] of each flow of a slot (flows.h), in routes */
    struct routes routes;        /* of the distinct pairs of devices, or of their queue pairs */
    size_t *group_start;         /* [groups + 1] first slot of each group */
    size_t *carriers;            /* [groups] of each copy */
};
void slots_free(struct slots *s); /* accepts {0}; leaves {0} */

/* The links of a flow: routes.link[slots_first() .. slots_end()). */
static inline size_t slots_first(const struct slots *s, size_t flow)
{
    return s->routes.start[s->route[flow]];
}
static inline size_t slots_end(const struct slots *s, size_t flow)
{
    return s->routes.start[s->route[flow] + 1];
}

#endif
