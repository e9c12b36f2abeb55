/* sharing.h - flows that share links: max-min fair rates, and which flow ends next.
 *
 * A flow takes weight[e] times its rate from each of its links and is never faster than its bound.
 * Rates are the max-min fair ones of the flows that fly: all grow alike until a link is full or a
 * bound is reached. Only the flows that a start or an end can concern are looked at again: those
 * that are joined to it over links whose flows want more than there is.
 *
 * Source: progressive filling, Bertsekas & Gallager, Data Networks, 2nd ed., 6.5.2. */
#ifndef CORE_ENGINE_SHARING_H
#define CORE_ENGINE_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* What there is; borrowed by a struct sharing, which must end first. */
struct sharing_network {
    size_t flows, links;
    const size_t *start;        /* [flows + 1] of a flow's links, CSR */
    const uint32_t *link;       /* [start[flows]] */
    const double *weight;       /* [start[flows]] > 0 */
    const double *bound_Bps;    /* [flows] > 0 */
    const double *capacity_Bps; /* [links] > 0 */
};

struct sharing;

/* Nothing flies yet, at time 0. O(flows + links + incidences). STATUS_NOMEM. */
enum status sharing_open(const struct sharing_network *n, struct sharing **out) MUST_CHECK;
/* For folded programs: each flow of the network stands for several, of one or more kinds, and each
 * kind crosses some of the flow's links (symmetry.h). From now on it is checked that all kinds
 * would be as fast as their flow. A kind would be faster if none of its links is among those that
 * limit the flow: its entry of `faster` then changes, to a number that two kinds of a flow share if
 * both were faster at the same moments. */
struct sharing_kinds {
    const size_t *kind_start; /* [flows + 1] */
    const size_t *link_start; /* [kinds + 1] */
    const uint32_t *link;     /* [link_start[kinds]] */
    uint64_t *faster;         /* [kinds] */
};
void sharing_watch(struct sharing *s, const struct sharing_kinds *kinds); /* borrows the arrays */
/* How many flows had kinds that would have been faster, each time that rates were found. */
size_t sharing_unequal(const struct sharing *s);
/* A flow that does not fly begins; `now` is not before anything that happened, unless nothing
 * flies. O(its links). */
void sharing_start(struct sharing *s, uint32_t flow, double bytes, double now);
/* When the next flow ends; INFINITY: none flies. */
double sharing_next(struct sharing *s);
/* Take a flow that ends at sharing_next() `when`, or so little later that rounding explains it;
 * false: no more. To be called until then. */
bool sharing_take(struct sharing *s, double when, uint32_t *flow, double *end_s);
void sharing_close(struct sharing *s); /* accepts NULL */

#endif
