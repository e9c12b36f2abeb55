/* torus.h - what torus.c and torus_tree.c share: a group that is a grid, and its links. */
#ifndef CORE_COLLECTIVE_TORUS_H
#define CORE_COLLECTIVE_TORUS_H

#include <math.h>

#include "core/collective/shapes.h"

enum { TORUS_INSIDE = GRID_DIMENSIONS }; /* beside the dimensions: inside nodes */

struct torus {
    const struct collective_group *g;
    const struct collective_grid *grid;
    double bytes;
    size_t dimensions, dimension[GRID_DIMENSIONS]; /* longer than 1 */
    double Bps[TORUS_INSIDE + 1], latency_s[TORUS_INSIDE + 1];
    double part[GRID_DIMENSIONS];  /* share of the buffer that begins there */
    double given[GRID_DIMENSIONS]; /* share of the buffer that is given to it, sooner or later */
};

static inline uint32_t torus_member(const struct collective_grid *grid, size_t node,
                                    size_t position)
{
    return grid->member[node * grid->each + position];
}

/* Nodes from one to the next of dimension d. */
static inline size_t torus_stride(const struct collective_grid *grid, size_t d)
{
    size_t stride = 1;
    for (size_t k = 0; k < d; k++)
        stride *= grid->length[k];
    return stride;
}

/* Take the way between two members into account for dimension d. */
static inline void torus_look(struct torus *t, size_t d, uint32_t from, uint32_t to)
{
    const struct topology_tier *tier = collective_tier(t->g, from, to);
    t->Bps[d] = tier->bandwidth_Bps < t->Bps[d] ? tier->bandwidth_Bps : t->Bps[d];
    t->latency_s[d] = larger(t->latency_s[d], tier->latency_s);
}

/* The next node of dimension d, or the one before; the node itself at the end of a row. */
size_t torus_step(const struct collective_grid *grid, size_t node, size_t d, bool back);

/* A collective from or to member 0, in as many trees as have no link in common. STATUS_NOMEM. */
enum status torus_trees(const struct torus *t, enum collective_kind kind,
                        struct collective_shape *out) MUST_CHECK;

#endif
