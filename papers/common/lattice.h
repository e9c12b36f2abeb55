/* lattice.h - the ideals (down-sets) of a DAG, and walks over the ideals below one.
 *
 * An ideal contains every predecessor of its nodes. Contiguous stages are differences of ideals:
 * the dynamic programs over them need every pair I' < I. Private to partition/. */
#ifndef PAPERS_COMMON_LATTICE_H
#define PAPERS_COMMON_LATTICE_H

#include "core/base/array.h"
#include "core/base/intern.h"
#include "core/data/model.h"
#include "papers/common/sets.h"

/* Ideals by ascending size: 0 is empty, ideals - 1 is everything. */
struct lattice {
    size_t nodes, words, ideals;
    const uint64_t *set;  /* [ideals * words] bit v of ideal i: word v / 64 of set + i * words */
    size_t *below_start;  /* [ideals + 1] */
    uint32_t *below;      /* ideals that have one node fewer */
    uint32_t *node;       /* and the node they lack */
    struct interner sets; /* owner of set */
    struct arena memory;
};

/* Ideals of the graph edge[edges] on `nodes` >= 1 nodes; with `successors` those closed under
 * successors instead. *complete false and *out untouched: there are more than `limit` of them.
 * O(ideals * (nodes + edges)). STATUS_INVALID when the graph has a cycle, STATUS_NOMEM. */
enum status lattice_build(size_t nodes, const struct model_edge *edge, size_t edges,
                          bool successors, size_t limit, struct lattice *out,
                          bool *complete) MUST_CHECK;
void lattice_free(struct lattice *l); /* accepts {0}; leaves {0} */
bool lattice_has(const struct lattice *l, size_t ideal, size_t node);

/* Depth-first walk over the ideals below one, each visited once, reached from the ideal `via`
 * by leaving out `node`. What lies below an ideal is visited only after lattice_descend(). */
struct lattice_walk {
    const struct lattice *l;
    uint32_t *stamp, *via, *node; /* [ideals]; via and node of the current walk */
    uint32_t *stack;
    size_t height;
    uint32_t round;
    struct arena memory;
};

enum status lattice_walk_open(const struct lattice *l, struct lattice_walk *w) MUST_CHECK;
void lattice_walk_close(struct lattice_walk *w);              /* after a failure, too */
void lattice_begin(struct lattice_walk *w, uint32_t top);     /* `top` itself is not visited */
bool lattice_next(struct lattice_walk *w, uint32_t *ideal);   /* false: done */
void lattice_descend(struct lattice_walk *w, uint32_t ideal); /* visit those below it too */

#endif
