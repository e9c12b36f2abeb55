/* detours.h - ways around a link between two switches: two links, by way of a third switch that is
 * joined to both of them. Groups of a dragonfly and rows of a HyperX have them. Private to
 * flows.c. */
#ifndef CORE_ENGINE_DETOURS_H
#define CORE_ENGINE_DETOURS_H

#include "core/data/topology.h"

struct detours {
    size_t links, vertices;
    uint32_t *from, *to; /* [links] switches at the ends; UINT32_MAX: not both are switches */
    size_t *start;       /* [vertices + 1] into edge: links from a switch to others */
    struct detours_edge {
        uint32_t from, to, link;
    } * edge; /* by `from`, then `to` */
};

/* Of a topology without a graph of routes, {0}: no link has a detour. O(edges log edges).
 * STATUS_NOMEM. */
enum status detours_open(const struct topology *t, struct detours *out) MUST_CHECK;
/* Has any link of the topology a detour? O(sum over links of the degrees of their ends), at most;
 * false without memory. */
bool detours_exist(const struct topology *t);
/* Has a link of the route a detour? */
bool detours_along(const struct detours *d, const uint32_t *link, size_t n);
/* The route with a detour for every link that has any, drawn by the key.
 *   out  [2 * n]
 * Returns its links. O(n * degree * log degree). */
size_t detours_take(const struct detours *d, uint64_t key, const uint32_t *link, size_t n,
                    uint32_t *out);
/* Is the link between two switches? */
static inline bool detours_between_switches(const struct detours *d, uint32_t link)
{
    return link < d->links && d->from[link] != UINT32_MAX;
}
void detours_free(struct detours *d); /* accepts {0}; leaves {0} */

#endif
