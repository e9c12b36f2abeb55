/* family.h - families of ideals: sets of units closed under predecessors.
 *
 * The ideals are numbered such that every ideal comes after those it contains; the first is the
 * empty set, the last is everything. They are kept as a graph only: arcs from an ideal down to the
 * ideals of the family that have one unit less. */
#ifndef PAPERS_PLACEMENT_FAMILY_H
#define PAPERS_PLACEMENT_FAMILY_H

#include "papers/placement/graph.h"

enum { FAMILY_LIMIT = 100000 };

struct placement_family {
    size_t n;           /* ideals */
    size_t *down_start; /* [n + 1] */
    uint32_t *down;     /* ideal with one unit less */
    uint32_t *without;  /* the unit it lacks */
    struct arena memory;
};

/* All ideals of g's forward order. *complete is false, and out untouched, when there are more than
 * `limit`. O(ideals * width * degree) time and O(ideals * width) memory, width being the largest
 * antichain, at most log2(limit). STATUS_NOMEM. */
enum status placement_family_all(const struct placement_graph *g, size_t limit, bool *complete,
                                 struct placement_family *out) MUST_CHECK;
/* Both leave *out, {0} before, to placement_family_free() after a failure, too.
 *
 * The prefixes of one topological order: depth first, or breadth first; from the sources on, or
 * backward from the sinks. */
enum status placement_family_chain(const struct placement_graph *g, bool depth_first, bool backward,
                                   struct placement_family *out) MUST_CHECK;
void placement_family_free(struct placement_family *f); /* accepts {0}; leaves {0} */

#endif
